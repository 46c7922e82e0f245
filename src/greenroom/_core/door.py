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
        elif cell.priority is not None and lane is _DATA:
            self._admit_by_key(cell, message, sender)
        elif not self._is_full(cell, lane):
            self._let_in(cell, message, sender, lane)
        elif cell.config.overflow is _DROP_OLD:
            self._displace(cell, lane)
            if cell.closed:  # by whoever was told of the displaced one
                self._turn_away(cell, message, sender)
            else:
                self._let_in(cell, message, sender, lane)
        else:
            self._refuse(cell, message, sender, lane)

    def _admit_by_key(self, cell: Cell, message: object, sender: object) -> None:
        """As `admit`, where letting in runs a user's code: the key, and comparisons of keys."""
        if cell.config.overflow is _DROP_OLD:
            # In first, then another out: a message without a place in the order must cost nobody else's.
            self._let_in(cell, message, sender, _DATA)
            if not cell.closed and cell.depth(_DATA) > cell.capacity:
                self._displace(cell, _DATA)
        elif self.inbound.promise(cell, _DATA):
            try:
                self._let_in(cell, message, sender, _DATA)
            finally:
                self.inbound.redeem(cell, _DATA)
        else:
            self._refuse(cell, message, sender, _DATA)

    def deliver(self, cell: Cell, message: object, sender: object, lane: Lane) -> None:
        """Let in a message whose sender cannot be told that it was refused: a timer's tick, say."""
        try:
            self.admit(cell, message, sender, lane)
        except MailboxFull:
            tally = self.tally_of(cell)
            tally.rejected -= 1
            self._turn_away(cell, message, sender, "mailbox full")
        except BaseException as exc:
            self._turn_away_keyless(cell, message, sender, exc)

    def let_in_promised(self, cell: Cell, message: object, sender: object, lane: Lane) -> None:
        """Let in a message from a foreign thread, for which there is room."""
        try:
            if cell.closed:
                self._turn_away(cell, message, sender)
            else:
                self._let_in(cell, message, sender, lane)
        except BaseException as exc:
            self._turn_away_keyless(cell, message, sender, exc)

    def _is_full(self, cell: Cell, lane: Lane) -> bool:
        if lane is _DATA:
            return cell.depth(lane) + cell.reserved >= cell.capacity
        promised: int = self.inbound.reserved(cell, lane)
        return cell.depth(lane) + promised >= cell.config.room(lane)

    def _let_in(self, cell: Cell, message: object, sender: object, lane: Lane) -> None:
        cell.enqueue(lane, message, sender)
        if lane is not _DATA:
            tally = cell.count_aside()
            tally.sent_aside += 1
        if cell.ended:
            # Its key, or a comparison of keys, has ended the actor meanwhile, and its account is closed.
            tally = self.totals
            tally.sent_aside += 1
            self.clear(cell, "stopped")
        else:
            cell.make_runnable()

    def _displace(self, cell: Cell, lane: Lane) -> None:
        message, sender = cell.evict(lane)
        tally = cell.count_aside()
        tally.dropped += 1
        self.tell_dropped(cell, message, sender, lane)

    def _refuse(self, cell: Cell, message: object, sender: object, lane: Lane) -> None:
        tally = cell.count_aside()
        if cell.config.overflow is _REJECT:
            tally.rejected += 1
            self.tell_full(cell, message, sender, lane)
            raise MailboxFull(cell.shown(), message, lane, cell.config.room(lane))
        tally.sent_aside += 1
        tally.dropped += 1
        self.tell_dropped(cell, message, sender, lane)

    def _turn_away(self, cell: Cell, message: object, sender: object, why: str = "stopped") -> None:
        """A message that never stood in the mailbox becomes a dead letter."""
        tally = self.tally_of(cell)
        tally.sent_aside += 1
        tally.dead_lettered += 1
        self.tell_dead_letter(cell, message, sender, why)

    def _turn_away_keyless(self, cell: Cell, message: object, sender: object, exc: BaseException) -> None:
        if cell.priority is None or cell.closed:
            raise exc  # no key was asked: somebody who was told of something raised
        self._turn_away(cell, message, sender, f"its priority cannot be told: {exc!r}")
        if not isinstance(exc, Exception):
            raise exc

    def clear(self, cell: Cell, why: str) -> None:
        """Make every message that waits for `cell` a dead letter; notices and withdrawn messages just go."""
        lane = cell.choose()
        while lane != EMPTY:
            sender = cell.sender_of(lane)
            message = cell.take_from(lane)
            if sender is not NOTICE:
                if isinstance(sender, Slip) and not sender.live():
                    self.count_withdrawn(cell, sender)
                else:
                    tally = self.tally_of(cell)
                    tally.dead_lettered += 1
                    self.tell_dead_letter(cell, message, sender, why)
            lane = cell.choose()

    def count_withdrawn(self, cell: Cell, slip: Slip) -> None:
        """A message whose slip had withdrawn it came up."""
        tally = self.tally_of(cell)
        tally.dropped += 1
        slip.discard("withdrawn")

    def count_refused(self, cell: Cell, rejected: int, dropped: int) -> None:
        """Add what foreign threads were refused."""
        tally = self.tally_of(cell)
        tally.rejected += rejected
        tally.sent_aside += dropped
        tally.dropped += dropped

    def count_turned_away(self) -> None:
        """Add a message that a foreign thread sent after the loop had stopped. Under the inbound lock."""
        self.totals.sent_aside += 1
        self.totals.dead_lettered += 1

    def tally_of(self, cell: Cell) -> Tally:
        """Where to count for `cell`: with itself, or with those that have ended."""
        return self.totals if cell.ended else cell.count_aside()

    def tell_full(self, cell: Cell, message: object, sender: object, lane: Lane) -> None:
        """Tell observers that a mailbox is full and the sender will hear of it. Any thread."""
        if self.hooks.mailbox_full is not None:
            self.hooks.mailbox_full(cell.shown(), message, lane)

    def tell_dropped(self, cell: Cell, message: object, sender: object, lane: Lane) -> None:
        """Tell whoever should know that a message was dropped. Any thread."""
        if isinstance(sender, Slip):
            sender.discard("dropped")
        self.host.dropped(cell, message, sender, lane)
        if self.hooks.message_dropped is not None:
            self.hooks.message_dropped(cell.shown(), message, lane)

    def tell_dead_letter(self, cell: Cell, message: object, sender: object, why: str) -> None:
        """Tell whoever should know that a message will never be handled. Any thread, once the loop has stopped."""
        if isinstance(sender, Slip):
            sender.discard(why)
        self.host.dead_letter(cell, message, sender, why)
        if self.hooks.dead_letter is not None:
            self.hooks.dead_letter(cell.shown(), message, sender, why)
