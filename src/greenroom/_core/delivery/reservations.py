"""Room in mailboxes that is reserved for messages on their way from other threads.

A message needs room when its loop takes it in. That is reserved when it is sent, so that a mailbox never gets more than
it holds. In the data lane the reservations of a cell are a number, changed in one atomic step; those of other lanes are
kept here, under the lock.

A lane that drops its oldest message always has room: what is sent to it is parked here, and displaces what was parked
before.
"""

from __future__ import annotations

from collections import deque
from threading import RLock
from typing import Any

from greenroom._core.build import COMPILED
from greenroom._core.fastrlock import FastRLock
from greenroom._core.flags import OFFLOADED
from greenroom._core.mailbox.cell import Cell
from greenroom._core.receipt import NOTICE
from greenroom._core.runqueue import InboundBase
from greenroom.lanes import Lane

__all__ = ["Parked", "Reservations", "change_reserved"]

_DATA = Lane.DATA


class Parked:
    """What is on its way to a lane that drops its oldest: at most as many messages as that holds, and notices."""

    __slots__ = ("entries", "messages")

    def __init__(self) -> None:
        self.entries: deque[tuple[object, object]] = deque()
        self.messages = 0

    def displace(self) -> tuple[object, object]:
        """Take the oldest message; notices stay where they are."""
        position = 0
        while self.entries[position][1] is NOTICE:
            position += 1
        oldest = self.entries[position]
        del self.entries[position]
        self.messages -= 1
        return oldest


def change_reserved(cell: Cell, change: int) -> int:
    """Change how much room is reserved in the data lane; return what it was before. Compiled, one atomic step."""
    if COMPILED:
        previous: int = add_reserved(cell, change)
        return previous
    before = cell.reserved
    cell.reserved = before + change
    return before


class Reservations(InboundBase):
    """The reservations in the mailboxes of one loop, and how many messages found no room."""

    __slots__ = ("_lock", "_parked", "_refused", "_reserved")

    def __init__(self) -> None:
        # The compiled gate is the cheaper one; in plain Python only a lock made in C is safe from signals in a `with`.
        self._lock: Any = FastRLock() if COMPILED else RLock()
        # Invariant: room reserved by (cell, lane), for side lanes; for the data lane that is Cell.reserved
        self._reserved: dict[tuple[Cell, Lane], int] = {}
        # Invariant: each entry in here has one in the intake that says so
        self._parked: dict[tuple[Cell, Lane], Parked] = {}
        # Messages rejected, dropped and turned away, by cell, until the loop's thread adds them to the cell's counters.
        self._refused: dict[Cell, list[int]] = {}

    def _reserve(self, cell: Cell, lane: Lane) -> bool:
        """Reserve room for one message, if there is any. Under the lock."""
        if lane is _DATA:
            # As in `_put_quickly`: others may be at it now.
            if change_reserved(cell, 1) + cell.depth(lane) >= cell.capacity and not self._is_done_with_some(cell):
                change_reserved(cell, -1)
                return False
            return True
        key = (cell, lane)
        if cell.depth(lane) + self._reserved.get(key, 0) >= cell.config.room(lane):
            return False
        self._reserved[key] = self._reserved.get(key, 0) + 1
        return True

    def _is_done_with_some(self, cell: Cell) -> bool:
        """Whether a data lane that looks full is not: messages handled on another thread may not be reported yet."""
        handoff = cell.handoff() if cell.flags & OFFLOADED else None
        # `reserved` includes the room for this message.
        return handoff is not None and cell.depth(_DATA) - handoff.done() + cell.reserved <= cell.capacity

    def _count_refused(self, cell: Cell, rejected: bool) -> None:
        self._counts_for(cell)[0 if rejected else 1] += 1

    def _counts_for(self, cell: Cell) -> list[int]:
        counts = self._refused.get(cell)
        if counts is None:
            counts = self._refused[cell] = [0, 0, 0]
        return counts

    def reserve(self, cell: Cell, lane: Lane) -> bool:
        """Reserve room in `lane` for a message of the loop's own thread, while a user's code runs; False when full."""
        with self._lock:
            return self._reserve(cell, lane)

    def unreserve(self, cell: Cell, lane: Lane) -> None:
        """Give up the room for one message: it has been taken, or is not needed any more."""
        with self._lock:
            if lane is _DATA:
                if cell.reserved > 0:
                    change_reserved(cell, -1)
                return
            key = (cell, lane)
            left = self._reserved.pop(key, 0) - 1
            if left > 0:
                self._reserved[key] = left

    def reserved(self, cell: Cell, lane: Lane) -> int:
        """How much room is reserved in `lane`, which is not DATA."""
        with self._lock:
            return self._reserved.get((cell, lane), 0)

    def _unpark(self, cell: Cell, lane: Lane) -> tuple[object, object]:
        with self._lock:
            key = (cell, lane)
            parked = self._parked[key]
            entry = parked.entries.popleft()
            if entry[1] is not NOTICE:
                parked.messages -= 1
            if not parked.entries:
                del self._parked[key]
            return entry

    def _count_parked(self, cell: Cell | None) -> int:
        """How many messages are parked, for `cell` or in all. Under the lock."""
        total = 0
        for key, parked in self._parked.items():
            if cell is None or key[0] is cell:
                total += parked.messages
        return total
