"""What happens to a message that does not simply walk into the data lane.

Side lanes, slips, orders by key, mailboxes that are full or closed: everything that `Cell.tell` hands on comes here.
Every message ends in exactly one column, here or with the handler, and whoever should know is told.
"""

from __future__ import annotations

from typing import Any

from greenroom._core.cell import Cell, Tally
from greenroom._core.slip import NOTICE, Slip
from greenroom.errors import MailboxFull
from greenroom.lanes import Lane, Overflow

__all__ = ["Door"]

EMPTY = -1

_DATA = Lane.DATA
_REJECT = Overflow.REJECT
_DROP_OLD = Overflow.DROP_OLD


class Door:
    """Admission to the mailboxes of one loop, and the account of those who were not let in."""

    __slots__ = ("hooks", "host", "inbound", "totals")

    def __init__(self, host: Any, hooks: Any) -> None:
        self.host = host
        self.hooks = hooks
        self.inbound: Any = None
        # The columns of cells that have ended.
        self.totals = Tally()

    def admit(self, cell: Cell, message: object, sender: object, lane: Lane) -> None:
        """Let a message in, or do what the mailbox's policy says. For the loop's thread."""
        if type(lane) is not Lane:
            lane = Lane(lane)
        if cell.closed:
            self._turn_away(cell, message, sender)
        elif self._make_room(cell, message, sender, lane):
            self._let_in(cell, message, sender, lane)

    def deliver(self, cell: Cell, message: object, sender: object, lane: Lane) -> None:
        """Let in a message whose sender cannot be told that it was refused: a timer's tick, or one from inbound."""
        try:
            self.admit(cell, message, sender, lane)
        except MailboxFull:
            tally = cell.count_aside()
            tally.rejected -= 1
            self._turn_away(cell, message, sender, "mailbox full")
        except Exception as exc:
            self._turn_away(cell, message, sender, f"its priority cannot be told: {exc!r}")

    def _make_room(self, cell: Cell, message: object, sender: object, lane: Lane) -> bool:
        """Whether there is room for `message`, made if need be."""
        if lane is _DATA:
            capacity = cell.capacity
            taken = cell.depth(lane) + cell.reserved
        else:
            capacity = cell.config.room(lane)
            taken = cell.depth(lane) + self.inbound.reserved(cell, lane)
        if taken < capacity:
            return True
        policy = cell.config.overflow
        tally = cell.count_aside()
        if policy is _DROP_OLD:
            old, old_sender = cell.evict(lane)
            tally.dropped += 1
            self.tell_dropped(cell, old, old_sender, lane)
            return True
        if policy is _REJECT:
            tally.rejected += 1
            self.tell_full(cell, message, sender, lane)
            raise MailboxFull(cell.ref or cell, message, lane, capacity)
        tally.sent_aside += 1
        tally.dropped += 1
        self.tell_dropped(cell, message, sender, lane)
        return False

    def _let_in(self, cell: Cell, message: object, sender: object, lane: Lane) -> None:
        cell.enqueue(lane, message, sender)
        if lane is not _DATA:
            tally = cell.count_aside()
            tally.sent_aside += 1
        cell.make_runnable()

    def _turn_away(self, cell: Cell, message: object, sender: object, why: str = "stopped") -> None:
        """A message that never stood in the mailbox becomes a dead letter."""
        tally = self.tally_of(cell)
        tally.sent_aside += 1
        tally.dead_lettered += 1
        self.tell_dead_letter(cell, message, sender, why)

    def clear(self, cell: Cell, why: str) -> None:
        """Make every message that waits for `cell` a dead letter; notices just go."""
        lane = cell.choose()
        while lane != EMPTY:
            sender = cell.sender_of(lane)
            message = cell.take_from(lane)
            if sender is not NOTICE:
                tally = cell.count_aside()
                tally.dead_lettered += 1
                self.tell_dead_letter(cell, message, sender, why)
            lane = cell.choose()

    def count_withdrawn(self, cell: Cell, slip: Slip) -> None:
        """A message whose slip had withdrawn it came up."""
        tally = cell.count_aside()
        tally.dropped += 1
        slip.discard("withdrawn")

    def count_refused(self, cell: Cell, rejected: int, dropped: int) -> None:
        """Add what foreign threads were refused."""
        tally = self.tally_of(cell)
        tally.rejected += rejected
        tally.sent_aside += dropped
        tally.dropped += dropped

    def tally_of(self, cell: Cell) -> Tally:
        """Where to count for `cell`: with itself, or with those that have ended."""
        return self.totals if cell.id == 0 else cell.count_aside()

    def tell_full(self, cell: Cell, message: object, sender: object, lane: Lane) -> None:
        """Tell observers that a mailbox is full and the sender will hear of it. Any thread."""
        if self.hooks.mailbox_full is not None:
            self.hooks.mailbox_full(cell.ref or cell, message, lane)

    def tell_dropped(self, cell: Cell, message: object, sender: object, lane: Lane) -> None:
        """Tell whoever should know that a message was dropped. Any thread."""
        if isinstance(sender, Slip):
            sender.discard("dropped")
        self.host.dropped(cell, message, sender, lane)
        if self.hooks.message_dropped is not None:
            self.hooks.message_dropped(cell.ref or cell, message, lane)

    def tell_dead_letter(self, cell: Cell, message: object, sender: object, why: str) -> None:
        """Tell whoever should know that a message will never be handled. Any thread, once the loop has stopped."""
        if isinstance(sender, Slip):
            sender.discard(why)
        self.host.dead_letter(cell, message, sender, why)
        if self.hooks.dead_letter is not None:
            self.hooks.dead_letter(cell.ref or cell, message, sender, why)
