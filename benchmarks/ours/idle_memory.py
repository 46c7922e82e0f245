"""Resident bytes per idle actor, everything that belongs to it included, after one message each."""

from __future__ import annotations

import gc
from functools import partial

from benchmarks.ours.stage import expect_all_handled, perform
from benchmarks.program import Report, main, resident_bytes
from greenroom import Actor, ActorSystem, SystemConfig

BATCH = 10_000


class Account(Actor[int, None]):
    """The smallest actor a user would write: one attribute, no ``__slots__``."""

    def __init__(self) -> None:
        self.balance = 0

    def receive(self, amount: int) -> None:
        self.balance += amount


def run(n: int) -> Report:
    """``n`` actors alive at once, in whole batches; the system alone keeps them."""
    return perform(partial(_fill, n // BATCH), config=SystemConfig(max_actors=n))


async def _fill(batches: int, system: ActorSystem) -> Report:
    gc.collect()
    before = resident_bytes()
    for _ in range(batches):
        for _ in range(BATCH):
            system.spawn(Account).tell(1)
        await system.settle()
    gc.collect()
    after = resident_bytes()
    await expect_all_handled(system, batches * BATCH)
    return Report((after - before) / (batches * BATCH))


if __name__ == "__main__":
    main(run)
