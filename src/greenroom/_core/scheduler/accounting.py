"""What became of every message, counted for one cell or a whole loop; exact whenever no foreign thread is sending."""

from __future__ import annotations

from greenroom._core.mailbox.cell import Cell, Tally
from greenroom._core.scheduler.loop import Loop
from greenroom.ledger import Ledger


def count_cell(cell: Cell) -> Ledger:
    """The ledger of one cell, living or ended, with what is on its way to it from other threads."""
    tally = cell.tally or Tally()
    coming = cell.loop.inbound.count(cell) + cell.loop.queued_in_rings(cell)
    queued = cell.queued() + tally.stashed
    return _ledger(tally, cell.sent(), cell.handled, queued, cell.loop.visits.in_hand(cell), coming)


def count_loop(loop: Loop) -> Ledger:
    """The ledger of a loop: its living cells, those that have ended, and what is on its way from other threads."""
    totals = loop.admission.totals
    handled = loop.ended_handled + loop.visits.ended_handled
    sent = loop.ended_sent + totals.sent_aside
    queued = totals.stashed
    in_hand = loop.visits.ended_in_hand
    for cell in loop.table:
        sent += cell.pushed - cell.noticed
        handled += cell.handled
        queued += cell.queued()
        in_hand += loop.visits.in_hand(cell)
    return _ledger(totals, sent, handled, queued, in_hand, loop.inbound.count() + loop.queued_in_rings())


def count_queued(loop: Loop) -> int:
    """How many messages wait, at a glance. From any thread: numbers alone are looked at."""
    waiting: int = sum(cell.queued() for cell in loop.table)
    return waiting + loop.admission.totals.stashed + loop.inbound.count() + loop.queued_in_rings()


def _ledger(tally: Tally, sent: int, handled: int, queued: int, in_hand: int, coming: int) -> Ledger:
    return Ledger(
        sent=sent + coming,
        handled=handled,
        failed=tally.failed,
        unhandled=tally.unhandled,
        dead_lettered=tally.dead_lettered,
        dropped=tally.dropped,
        redirected=tally.redirected,
        lost=tally.lost,
        queued=queued + coming,
        in_hand=in_hand,
        rejected=tally.rejected,
        late_replies=tally.late_replies,
        refused=tally.refused,
    )
