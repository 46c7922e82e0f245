"""What becomes of messages: it is counted, and whoever should know is told.

Every message ends in exactly one column. Columns are counted twice, with the cell and for the whole loop, so that an
ended cell can be forgotten and its messages cannot.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from greenroom._core.mailbox.cell import Cell, Tally
from greenroom._core.observerhooks import ObserverHooks
from greenroom._core.receipt import Receipt
from greenroom._core.runqueue import AdmissionBase
from greenroom.lanes import Lane

if TYPE_CHECKING:
    from greenroom._core.delivery.ports import LoopHost

__all__ = ["Outcomes"]

_DATA = Lane.DATA


class Outcomes(AdmissionBase):
    """The account of one loop's messages."""

    __slots__ = ("hooks", "host", "totals")

    def __init__(self, host: LoopHost, hooks: ObserverHooks) -> None:
        self.host = host
        self.hooks = hooks
        # The columns of all cells, living and ended.
        self.totals = Tally()

    def bury(self, cell: Cell, message: object, sender: object, why: str) -> None:
        """Make a message that was taken from `cell` a dead letter."""
        tally = cell.count_aside()
        tally.dead_lettered += 1
        self.totals.dead_lettered += 1
        self.tell_dead_letter(cell, message, sender, why)

    def drop(self, cell: Cell, message: object, sender: object) -> None:
        """Drop a message that was taken from `cell`."""
        tally = cell.count_aside()
        tally.dropped += 1
        self.totals.dropped += 1
        self.tell_dropped(cell, message, sender, _DATA)

    def count_stashed(self, cell: Cell, change: int) -> None:
        """Messages were put aside, or taken back."""
        tally = cell.count_aside()
        tally.stashed += change
        self.totals.stashed += change

    def count_failed(self, cell: Cell) -> None:
        """A handler raised."""
        tally = cell.count_aside()
        tally.failed += 1
        self.totals.failed += 1

    def count_refusal(self, cell: Cell) -> None:
        """A handler refused a message, with an exception that its actor declares as an answer."""
        tally = cell.count_aside()
        tally.refused += 1
        self.totals.refused += 1

    def count_lost(self, cell: Cell, messages: int) -> None:
        """Messages were carried elsewhere, and what became of them there nobody will know."""
        tally = cell.count_aside()
        tally.lost += messages
        self.totals.lost += messages

    def count_unhandled(self, cell: Cell) -> None:
        """A handler said that a message was not for its actor."""
        tally = cell.count_aside()
        tally.unhandled += 1
        self.totals.unhandled += 1

    def count_withdrawn(self, cell: Cell, receipt: Receipt) -> None:
        """A message whose receipt had withdrawn it came up."""
        tally = cell.count_aside()
        tally.dropped += 1
        self.totals.dropped += 1
        receipt.discard("withdrawn")

    def count_refused(self, cell: Cell, rejected: int, dropped: int, turned_away: int) -> None:
        """Add what foreign threads were refused."""
        for tally in (cell.count_aside(), self.totals):
            tally.rejected += rejected
            tally.sent_aside += dropped + turned_away
            tally.dropped += dropped
            tally.dead_lettered += turned_away

    def tell_full(self, cell: Cell, message: object, sender: object, lane: Lane) -> None:
        """Tell observers that a mailbox is full and the sender will hear of it. From any thread."""
        if self.hooks.mailbox_full:
            self.hooks.emit("mailbox_full", cell.shown(), message, lane)

    def tell_dropped(self, cell: Cell, message: object, sender: object, lane: Lane) -> None:
        """Tell whoever should know that a message was dropped. From any thread.

        Whoever asked comes last, here and below: on another loop it goes on at once, and finds that all is told.
        """
        try:
            self.host.dropped(cell, message, sender, lane)
            if self.hooks.message_dropped:
                self.hooks.emit("message_dropped", cell.shown(), message, lane)
        finally:
            if isinstance(sender, Receipt):
                sender.discard("dropped")

    def tell_dead_letter(self, cell: Cell, message: object, sender: object, why: str) -> None:
        """Tell whoever should know that a message will never be handled. From any thread."""
        try:
            self.host.dead_letter(cell, message, sender, why)
            if self.hooks.dead_letter:
                shown = sender.shown_sender() if isinstance(sender, Receipt) else sender
                self.hooks.emit("dead_letter", cell.shown(), message, shown, why)
        finally:
            if isinstance(sender, Receipt):
                sender.discard(why)
