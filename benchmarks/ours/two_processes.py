"""Two actors that only compute: in two worker processes at once, against one after the other."""

from __future__ import annotations

import asyncio
import time
from functools import partial

from benchmarks.ours.guests import crunch
from benchmarks.ours.stage import perform
from benchmarks.program import Report, expect, main, settle
from greenroom import ActorSystem


def run(n: int) -> Report:
    """``n`` rounds of each; the time that both take together, over that of one after the other."""
    return perform(partial(_compute, n))


async def _compute(rounds: int, system: ActorSystem) -> Report:
    one, two = (system.spawn(crunch, dispatcher="process") for _ in range(2))
    wanted = await asyncio.gather(one.ask(10), two.ask(10))
    expect("answers", wanted[0], wanted[1])
    settle()
    start = time.perf_counter()
    for ref in (one, two):
        await ref.ask(rounds, timeout=None)
    apart = time.perf_counter() - start
    start = time.perf_counter()
    await asyncio.gather(one.ask(rounds, timeout=None), two.ask(rounds, timeout=None))
    return Report((time.perf_counter() - start) / apart)


if __name__ == "__main__":
    main(run)
