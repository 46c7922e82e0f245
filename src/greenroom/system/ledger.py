"""What became of every message: the ledger.

`sent = handled + failed + unhandled + dead_lettered + dropped + redirected + lost + queued + in_hand`, exact after
`settle()`, and each message is in exactly one column.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

from greenroom._core.cell import Cell
from greenroom._core.counts import Counts, count_cell

__all__ = ["Ledger", "ledger_of"]


@dataclass(frozen=True, slots=True)
class Ledger:
    """Messages by what became of them, for one actor or a whole system.

    `rejected` messages were given back to their senders, and `late_replies` came when nobody waited any more: both
    stand outside the balance.

    >>> Ledger(sent=3, handled=2, dead_lettered=1).balanced
    True
    """

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
    late_replies: int = 0

    @classmethod
    def of(cls, counts: Counts, late_replies: int = 0) -> Ledger:
        """The ledger of what a loop has counted."""
        return cls(**{one.name: getattr(counts, one.name) for one in fields(counts)}, late_replies=late_replies)

    @property
    def accounted(self) -> int:
        """The sum of the columns."""
        return (
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

    @property
    def balanced(self) -> bool:
        """Whether every message sent is in exactly one column."""
        return self.sent == self.accounted and all(getattr(self, one.name) >= 0 for one in fields(self))

    def __str__(self) -> str:
        columns = [f"{one.name} {getattr(self, one.name):,}" for one in fields(self) if getattr(self, one.name)]
        return ", ".join(columns) if columns else "no messages"


def ledger_of(cell: Cell) -> Ledger:
    """The ledger of one actor, living or ended."""
    return Ledger.of(count_cell(cell), 0 if cell.tally is None else cell.tally.late_replies)
