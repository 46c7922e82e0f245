"""Resident bytes per idle cell, its one-attribute subject included, after one message each."""

from __future__ import annotations

import gc
from typing import ClassVar

from benchmarks.program import Report, expect, main, resident_bytes
from greenroom._core.limits import Limits
from greenroom._core.loop import Loop

BATCH = 10_000


class Account:
    """The smallest actor a user would write: one attribute, no ``__slots__``."""

    handled: ClassVar[int] = 0

    def __init__(self) -> None:
        self.balance = 0

    def receive(self, amount: int) -> None:
        self.balance += amount
        Account.handled += 1


def run(n: int) -> Report:
    """``n`` cells alive at once, in whole batches; the loop alone keeps them."""
    loop = Loop(limits=Limits(max_actors=n + BATCH))
    batches = n // BATCH
    gc.collect()
    before = resident_bytes()
    for _ in range(batches):
        for _ in range(BATCH):
            loop.spawn(Account.receive, Account()).tell(1)
        loop.run_until_idle()
    gc.collect()
    after = resident_bytes()
    expect("messages handled", Account.handled, batches * BATCH)
    return Report((after - before) / (batches * BATCH))


if __name__ == "__main__":
    main(run)
