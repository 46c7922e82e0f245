"""Those who wait for room in a full mailbox, in the order in which they came."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from greenroom._core.flags import ROOM
from greenroom._core.mailbox.cell import Cell
from greenroom.lanes import Lane

__all__ = ["Waiter", "WaitingLine"]

_LANES = tuple(Lane)


class Waiter:
    """A message that waits for room. `finish` is called once: with None when it is in, or with what prevents it.

    `claim` is asked before it is let in, if whoever waits may give up at any moment: False when that has happened.
    """

    __slots__ = ("claim", "finish", "lane", "message", "sender")

    def __init__(
        self,
        message: object,
        sender: object,
        lane: Lane,
        finish: Callable[[BaseException | None], object],
        claim: Callable[[], bool] | None = None,
    ) -> None:
        self.message = message
        self.sender = sender
        self.lane = lane
        self.finish = finish
        self.claim = claim


class WaitingLine:
    """The lines before the mailboxes of one loop: one for each lane that somebody waits for."""

    __slots__ = ("_lines",)

    def __init__(self) -> None:
        # Invariants: no line is empty; ROOM in cell.flags iff a key with that cell is in here
        self._lines: dict[tuple[Cell, Lane], deque[Waiter]] = {}

    def is_empty(self, cell: Cell, lane: Lane) -> bool:
        """Whether nobody waits there."""
        return (cell, lane) not in self._lines

    def join(self, cell: Cell, waiter: Waiter) -> None:
        """Stand behind the others."""
        self._lines.setdefault((cell, waiter.lane), deque()).append(waiter)
        cell.flags |= ROOM

    def leave(self, cell: Cell, waiter: Waiter) -> None:
        """Go away, wherever in the line; or be gone already."""
        line = self._lines.get((cell, waiter.lane))
        if line is not None and waiter in line:
            line.remove(waiter)
            self._close_if_empty(cell, waiter.lane, line)

    def pop(self, cell: Cell, lane: Lane) -> Waiter:
        """Take the first one; there must be one."""
        line = self._lines[cell, lane]
        waiter: Waiter = line.popleft()
        self._close_if_empty(cell, lane, line)
        return waiter

    def dissolve(self, cell: Cell) -> list[Waiter]:
        """Take all, of all lanes."""
        cell.flags &= ~ROOM
        return [waiter for lane in _LANES for waiter in self._lines.pop((cell, lane), ())]

    def _close_if_empty(self, cell: Cell, lane: Lane, line: deque[Waiter]) -> None:
        if not line:
            del self._lines[cell, lane]
            if all((cell, other) not in self._lines for other in _LANES):
                cell.flags &= ~ROOM
