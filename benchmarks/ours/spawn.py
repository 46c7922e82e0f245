"""Spawn an actor, let it handle one message, which ends it: a thousand at a time."""

from __future__ import annotations

import time
from functools import partial

from benchmarks.ours.stage import expect_all_handled, perform
from benchmarks.program import Report, expect, main, settle
from greenroom import Actor, ActorSystem, Behavior, Behaviors

BATCH = 1000


class Mayfly(Actor[int, None]):
    """Ends with its first message."""

    def receive(self, message: int) -> Behavior:
        return Behaviors.stopped


def run(n: int) -> Report:
    """``n`` actors in all, in whole batches."""
    return perform(partial(_hatch, n // BATCH))


async def _hatch(batches: int, system: ActorSystem) -> Report:
    settle()
    start = time.perf_counter()
    for _ in range(batches):
        flies = [system.spawn(Mayfly) for _ in range(BATCH)]
        for fly in flies:
            fly.tell(1)
        await system.settle()
    seconds = time.perf_counter() - start
    await expect_all_handled(system, batches * BATCH)
    expect("actors ended", system.snapshot().terminated, batches * BATCH)
    return Report(batches * BATCH / seconds)


if __name__ == "__main__":
    main(run)
