"""What became of every message: the ledger.

`sent = handled + failed + unhandled + dead_lettered + dropped + redirected + lost + queued + in_hand`, exact after
`settle()`, and each message is in exactly one column. The two sides are counted independently of one another.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

from greenroom.frozen import ByFields


@dataclass(frozen=True, eq=False, repr=False)
class Ledger(ByFields):
    """What happened to every message of one actor, or of a whole system.

    `rejected` messages were returned to their senders, and `late_replies` came after the asker had given up: neither
    counts in the balance. `refused` says how many of the `handled` ones the actor answered with an exception that it
    declares in its `answers`.

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
    refused: int = 0

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


def add_up(ledgers: list[Ledger]) -> Ledger:
    """The ledger of all of them together."""
    if len(ledgers) == 1:
        return ledgers[0]
    return Ledger(**{one.name: sum(getattr(ledger, one.name) for ledger in ledgers) for one in fields(Ledger)})
