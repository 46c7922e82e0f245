"""What became of every message, in exact numbers, for one cell or a whole loop.

`sent == handled + failed + unhandled + dead_lettered + dropped + redirected + lost + queued + in_hand`, whenever no
foreign thread is sending. The two sides are counted independently of one another.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from greenroom._core.cell import Cell, Tally

__all__ = ["Counts", "count_cell", "count_loop"]


@dataclass(frozen=True, slots=True)
class Counts:
    """Messages by what became of them. `rejected` ones were given back to their sender and are not among the sent."""

    sent: int = 0
    handled: int = 0
    failed: int = 0
    unhandled: int = 0
    dead_lettered: int = 0
    dropped: int = 0
    redirected: int = 0
    lost: int = 0
    queued: int = 0
    in_hand: int = 0
    rejected: int = 0

    @property
    def balanced(self) -> bool:
        """Whether every message sent is in exactly one column."""
        if min(getattr(self, name) for name in self.__slots__) < 0:
            return False
        return self.sent == (
            self.handled
            + self.failed
            + self.unhandled
            + self.dead_lettered
            + self.dropped
            + self.redirected
            + self.lost
            + self.queued
            + self.in_hand
        )

    def __add__(self, other: Counts) -> Counts:
        return Counts(*(getattr(self, name) + getattr(other, name) for name in self.__slots__))


def count_cell(cell: Cell) -> Counts:
    """The counts of one cell, living or ended, with what is on its way to it from other threads."""
    return _count_mailbox(cell) + _on_its_way(cell.loop.inbound.count(cell))


def count_loop(loop: Any) -> Counts:
    """The counts of a loop: its living cells, those that have ended, and what is on its way from other threads."""
    totals = loop.door.totals
    handled = loop.ended_handled + loop.visits.ended_handled
    sent = loop.ended_sent + totals.sent_aside
    queued = totals.stashed
    in_hand = loop.visits.adrift
    for cell in loop.table:
        sent += cell.pushed - cell.noticed
        handled += cell.handled
        queued += cell.queued()
        in_hand += loop.visits.in_hand(cell)
    return _count(totals, sent, handled, queued, in_hand) + _on_its_way(loop.inbound.count())


def _count_mailbox(cell: Cell) -> Counts:
    tally = cell.tally or Tally()
    queued = cell.queued() + tally.stashed
    return _count(tally, cell.sent(), cell.handled, queued, cell.loop.visits.in_hand(cell))


def _on_its_way(messages: int) -> Counts:
    return Counts(sent=messages, queued=messages)


def _count(tally: Tally, sent: int, handled: int, queued: int, in_hand: int) -> Counts:
    return Counts(
        sent=sent,
        handled=handled,
        failed=tally.failed,
        unhandled=tally.unhandled,
        dead_lettered=tally.dead_lettered,
        dropped=tally.dropped,
        redirected=tally.redirected,
        lost=tally.lost,
        queued=queued,
        in_hand=in_hand,
        rejected=tally.rejected,
    )
