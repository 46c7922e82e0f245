"""Messages put aside by an actor until it is ready for them."""

from __future__ import annotations

from collections import deque
from functools import partial
from typing import TYPE_CHECKING

from greenroom._core.itemkinds import MESSAGE
from greenroom._core.mailbox.cell import Cell
from greenroom.actor.records.record import Tombstone
from greenroom.errors import BadArgument, NoMessage, StashFull
from greenroom.validation import is_whole, require_count

if TYPE_CHECKING:
    from greenroom._core.handoff.messages import MessageHandoff
    from greenroom._core.scheduler.visits import Visits

DEFAULT_CAPACITY = 1000


def require_number_of_messages(n: object) -> int:
    if not is_whole(n, 0):
        raise BadArgument(f"unstash() takes how many messages to queue again, zero or more, not {n!r}")
    return n


class Stash:
    """What one actor has put aside. Its messages count as queued, but not against the mailbox's capacity."""

    __slots__ = ("_cell", "_entries", "capacity")

    def __init__(self, cell: Cell, capacity: int = DEFAULT_CAPACITY) -> None:
        self._cell = cell
        self._entries: deque[tuple[object, object, int]] = deque()
        require_count("stash capacity", capacity)
        self.capacity = capacity

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def full(self) -> bool:
        """Whether another message would be refused."""
        return len(self._entries) >= self.capacity

    def put(self, what: str = "put()") -> None:
        """Put the message in hand aside."""
        cell = self._cell
        hand = self._hand()
        if hand is None or hand.kind != MESSAGE:
            raise NoMessage(cell.shown(), what)
        if self.full:
            raise StashFull(cell.ref, self.capacity)
        self._entries.append(hand.stash())
        if not cell.is_foreign():  # else it is counted when the hand-off completes
            cell.loop.admission.count_stashed(cell, 1)

    def add(self, message: object, sender: object, lane: int) -> None:
        """Keep a message that its actor, in another process, has put aside. It is counted elsewhere."""
        self._entries.append((message, sender, lane))

    def unstash_all(self) -> int:
        """Queue everything that was put aside, in its order, ahead of what is queued; how many messages that were."""
        return self._unstash_on_loop("unstash_all()", len(self._entries))

    def unstash(self, n: int = 1) -> int:
        """Queue the first `n` messages that were put aside, in their order, ahead of what is queued; how many."""
        return self._unstash_on_loop("unstash()", require_number_of_messages(n))

    def _unstash_on_loop(self, what: str, most: int) -> int:
        cell = self._cell
        if not cell.is_foreign():
            return self._unstash(most)
        self._hand()  # which refuses a handler that was given up
        count: int = cell.loop.host.call(what, partial(self._unstash, most))
        return count

    def _hand(self) -> Visits | MessageHandoff | None:
        record = self._cell.record
        return None if type(record) is Tombstone else record._hand()

    def _unstash(self, most: int) -> int:
        count = min(most, len(self._entries))
        handoff = self._cell.handoff()
        if handoff is not None and count:
            handoff.keep_the_rest()
        first = [self._entries.popleft() for _ in range(count)]
        try:
            while first:
                message, sender, lane = first[-1]
                self._cell.loop.admission.take_back(self._cell, message, sender, lane)
                first.pop()
        finally:
            # What is not in again: a mailbox with priorities asks for its key, and that may raise.
            self._entries.extendleft(reversed(first))
        return count

    def senders(self) -> list[object]:
        return [sender for _, sender, _ in self._entries]

    def give_up(self) -> list[tuple[object, object]]:
        """Hand out everything, for good."""
        entries = [(message, sender) for message, sender, _ in self._entries]
        self._entries.clear()
        self._cell.loop.admission.count_stashed(self._cell, -len(entries))
        return entries
