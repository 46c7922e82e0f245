"""Messages put aside by an actor until it is ready for them."""

from __future__ import annotations

from collections import deque

from greenroom._core.cell import Cell
from greenroom._core.kinds import MESSAGE
from greenroom.errors import ConfigError, NoMessage, StashFull

__all__ = ["DEFAULT_CAPACITY", "Stash", "require_capacity"]

DEFAULT_CAPACITY = 1000


def require_capacity(capacity: object) -> int:
    """The same, if a stash can have it."""
    if isinstance(capacity, bool) or not isinstance(capacity, int) or capacity < 1:
        raise ConfigError("stash capacity", capacity, "must be a whole number, and at least 1")
    return capacity


class Stash:
    """What one actor has put aside. Its messages count as queued, but not against the mailbox's capacity."""

    __slots__ = ("_cell", "_entries", "capacity")

    def __init__(self, cell: Cell, capacity: int = DEFAULT_CAPACITY) -> None:
        self._cell = cell
        self._entries: deque[tuple[object, object, int]] = deque()
        self.capacity = require_capacity(capacity)

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def full(self) -> bool:
        """Whether another message would be refused."""
        return len(self._entries) >= self.capacity

    def put(self, what: str = "put()") -> None:
        """Put the message in hand aside."""
        visits = self._cell.loop.visits
        if visits.hand is not self._cell or visits.kind != MESSAGE:
            raise NoMessage(self._cell.shown(), what)
        if self.full:
            raise StashFull(self._cell.ref, self.capacity)
        loop = self._cell.loop
        self._entries.append(visits.stash())
        loop.door.count_stashed(self._cell, 1)

    def unstash_all(self) -> int:
        """Queue everything that was put aside, in its order, ahead of what is queued; how many messages that were."""
        count = len(self._entries)
        while self._entries:
            # Out only when it is in again: a mailbox with priorities asks for its key, and that may raise.
            message, sender, lane = self._entries[-1]
            self._cell.loop.door.take_back(self._cell, message, sender, lane)
            self._entries.pop()
        return count

    def give_up(self) -> list[tuple[object, object]]:
        """Hand out everything, for good."""
        entries = [(message, sender) for message, sender, _ in self._entries]
        self._entries.clear()
        self._cell.loop.door.count_stashed(self._cell, -len(entries))
        return entries
