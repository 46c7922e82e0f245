"""What a handler may return to the runtime, rather than to whoever asked.

The core knows one verdict itself: that a message was not for this actor. What the others mean is the floor above's
business; all that a loop has to see is that they are no reply.
"""

from __future__ import annotations

__all__ = ["UNHANDLED", "Verdict"]


class Verdict:
    """A handler's result that is no reply."""

    __slots__ = ()


class _Unhandled(Verdict):
    __slots__ = ()

    def __repr__(self) -> str:
        return "UNHANDLED"


UNHANDLED = _Unhandled()
"""The message was not for this actor: it becomes a dead letter, counted as unhandled."""
