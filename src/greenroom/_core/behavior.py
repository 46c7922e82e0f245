"""What a handler may return to the runtime, rather than to whoever asked.

The core understands one behavior itself: that a message was not for this actor. What the others mean is the floor
above's business; all that a loop has to see is that they are no reply.
"""

from __future__ import annotations

__all__ = ["BehaviorBase"]


class BehaviorBase:
    """A handler's result that is no reply; with `unhandled`, the message becomes a dead letter, counted as such."""

    __slots__ = ("unhandled",)

    def __init__(self, unhandled: bool = False) -> None:
        self.unhandled = unhandled
