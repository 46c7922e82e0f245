"""How many messages of one actor may be under way to another process.

Few, if each takes long: what is there cannot be overtaken without a word to the worker, and is lost with it. Many, if
they are done in no time: then the worker must not run out before it is heard of again. So the window opens while it is
emptied quickly, and closes when it is not.

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
"""Messages in one frame at most."""
_BYTES = 1 << 22
"""Bytes of a frame that there should not be much more of."""
_QUICK = 0.02
_SLOW = 0.1
"""Seconds in which a window is emptied that is to open, or to close."""


class Window:
    """Belongs to one actor, and to its loop's thread."""

    __slots__ = ("_at_once", "_mark", "_since", "size")

    def __init__(self) -> None:
        self.size = _SMALLEST
        # Messages of the size of late that go into a frame.
        self._at_once = _AT_ONCE
        # When what has been sent up to this number is done, it is seen how long that took.
        self._mark = -1
        self._since = 0.0

    def at_once(self) -> int:
        """How many messages may be sent together."""
        return min(self._at_once, self.size)

    def room(self, away: int) -> int:
        """How many may be sent when so many are under way; none rather than a few."""
        size = min(self.size, 8 * self._at_once)
        left = size - away
        return min(left, self._at_once) if left * 4 >= size else 0

    def sent(self, number: int, count: int, size: int) -> None:
        """So many messages were sent, of so many bytes; the next has this number."""
        self._at_once = max(1, min(_AT_ONCE, _BYTES * count // max(size, 1)))
        if self._mark < 0:
            self._mark = number
            self._since = monotonic()

    def done(self, number: int) -> None:
        """All before this number are done."""
        if self._mark < 0 or number < self._mark:
            return
        self._mark = -1
        took = monotonic() - self._since
        if took < _QUICK:
            self.size = min(_LARGEST, self.size * 2)
        elif took > _SLOW:
            self.size = max(_SMALLEST, self.size // 2)

    def shrink(self) -> None:
        """One at a time, for now: something is wrong with one of them."""
        self.size = _SMALLEST
