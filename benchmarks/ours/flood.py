"""Outside code floods one actor behind a bounded mailbox: bursts that fit, each drained in full."""

from __future__ import annotations

import time
from functools import partial

from benchmarks.ours.stage import expect_all_handled, perform
from benchmarks.program import Report, main, settle
from greenroom import Actor, ActorSystem

BURST = 50_000


class Sink(Actor[int, None]):
    """Does nothing with what reaches it; the ledger tells that all of it came."""

    def receive(self, message: int) -> None:
        pass


def run(n: int) -> Report:
    """``n`` messages; sends and drain are both inside the clock."""
    return perform(partial(_flood, n))


async def _flood(n: int, system: ActorSystem) -> Report:
    sink = system.spawn(Sink)
    await system.settle()
    settle()
    start = time.perf_counter()
    for first in range(0, n, BURST):
        for number in range(first, min(first + BURST, n)):
            sink.tell(number)
        await system.settle()
    seconds = time.perf_counter() - start
    await expect_all_handled(system, n)
    return Report(n / seconds)


if __name__ == "__main__":
    main(run)
