"""How much dearer a message to a random cell becomes when there are many cells, not a thousand."""

from __future__ import annotations

import time

from benchmarks.program import Report, dice, expect, main, settle
from greenroom._core.cell import Cell
from greenroom._core.limits import Limits
from greenroom._core.loop import Loop

FEW = 1000
BATCH = 1000
PASSES = 5


class Account:
    """One attribute, read and written by each message."""

    def __init__(self) -> None:
        self.balance = 0

    def receive(self, amount: int) -> None:
        self.balance += amount


class Town:
    """A loop full of cells, and the random order in which they are sent to."""

    def __init__(self, cells: int) -> None:
        self.loop = Loop(limits=Limits(max_actors=cells + 1))
        self.accounts = [Account() for _ in range(cells)]
        self.order = [self.loop.spawn(Account.receive, account) for account in self.accounts]
        dice().shuffle(self.order)

    def seconds_per_message(self, batches: int) -> float:
        """Send to every cell in turn, draining after each batch of distinct cells."""
        groups = [self.order[first : first + BATCH] for first in range(0, len(self.order), BATCH)]
        rounds = batches // len(groups)
        start = time.perf_counter()
        for _ in range(rounds):
            for group in groups:
                _send_and_drain(self.loop, group)
        seconds = time.perf_counter() - start
        return seconds / (rounds * len(self.order))

    def handled(self) -> int:
        """Messages handled so far."""
        return sum(account.balance for account in self.accounts)


def _send_and_drain(loop: Loop, group: list[Cell]) -> None:
    for cell in group:
        cell.tell(1)
    loop.run_until_idle()


def run(n: int) -> Report:
    """Cost per message with ``n`` cells over the cost with a thousand, best of alternating passes."""
    many, few = Town(n), Town(FEW)
    settle()
    batches = n // BATCH
    costs = [(many.seconds_per_message(batches), few.seconds_per_message(batches)) for _ in range(PASSES)]
    expect("messages handled", many.handled() + few.handled(), 2 * PASSES * batches * BATCH)
    with_many = min(cost for cost, _ in costs)
    with_few = min(cost for _, cost in costs)
    return Report(with_many / with_few, {"ns with many": with_many * 1e9, "ns with 1k": with_few * 1e9})


if __name__ == "__main__":
    main(run)
