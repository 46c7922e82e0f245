"""What a handler may return to the runtime, rather than to an asker.

The core understands one behavior itself: that a message was not for this actor. What the others mean is the floor
above's business; all that a loop has to see is that they are no reply.
"""

from __future__ import annotations

from types import AsyncGeneratorType, GeneratorType

from greenroom.errors import NotAnActor


def is_generator(result: object) -> bool:
    """Whether a function that was called has only made a generator, and not run."""
    return type(result) is GeneratorType or type(result) is AsyncGeneratorType


def refuse_returned_generator(what: str, result: object) -> None:
    """Raise: the generator that `what` has returned would never run."""
    name = getattr(result, "__qualname__", repr(result))
    raise NotAnActor(
        f"{what} returned the generator {name}, which nobody runs: return one value, such as a list, instead of using "
        "`yield`, or send many with `tell`"
    )


class BehaviorBase:
    """A handler's result that is no reply; with `unhandled`, the message becomes a dead letter, counted as such."""

    __slots__ = ("unhandled",)

    def __init__(self, unhandled: bool = False) -> None:
        self.unhandled = unhandled
