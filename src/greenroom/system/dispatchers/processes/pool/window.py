"""How many messages of one actor may be in flight to its worker.

Few, if each takes long: messages in flight can be overtaken only by asking the worker to return them, and they are lost
with the worker. Many, if they are handled quickly: otherwise the worker is idle until it gets the next ones. So the
window grows while it is emptied quickly, and shrinks when it is not.

>>> window = Window()
>>> window.room(0), window.room(1)
(1, 0)
"""

from __future__ import annotations

from time import monotonic

__all__ = ["Window"]

_SMALLEST = 1
_LARGEST = 16_384
_AT_ONCE = 2048
"""The maximum number of messages in one frame."""
_BYTES = 1 << 22
"""The intended maximum size of a frame, in bytes."""
_QUICK = 0.02
_SLOW = 0.1
"""Seconds: a window that is emptied faster than the first grows; slower than the second, it shrinks."""


class Window:
    """The window of one actor. For the loop's own thread only."""

    __slots__ = ("_at_once", "_mark", "_since", "size")

    def __init__(self) -> None:
        self.size = _SMALLEST
        # How many messages fit into a frame, judging by the last ones.
        self._at_once = _AT_ONCE
        # We measure the time until all messages before this number are done.
        self._mark = -1
        self._since = 0.0

    def at_once(self) -> int:
        """How many messages may be sent in one frame."""
        return min(self._at_once, self.size)

    def room(self, away: int) -> int:
        """How many messages may be sent when `away` are in flight. Returns 0 rather than a small number."""
        size = min(self.size, 8 * self._at_once)
        left = size - away
        return min(left, self._at_once) if left * 4 >= size else 0

    def sent(self, number: int, count: int, size: int) -> None:
        """`count` messages of `size` bytes were sent; the next one gets this number."""
        self._at_once = max(1, min(_AT_ONCE, _BYTES * count // max(size, 1)))
        if self._mark < 0:
            self._mark = number
            self._since = monotonic()

    def done(self, number: int) -> None:
        """All messages before this number are done."""
        if self._mark < 0 or number < self._mark:
            return
        self._mark = -1
        took = monotonic() - self._since
        if took < _QUICK:
            self.size = min(_LARGEST, self.size * 2)
        elif took > _SLOW:
            self.size = max(_SMALLEST, self.size // 2)

    def shrink(self) -> None:
        """Send one at a time for now, because something is wrong with one of the messages."""
        self.size = _SMALLEST
