"""The ping-pong of `pingpong`, in a simulation: random schedule, virtual clock, everything written down."""

from __future__ import annotations

from functools import partial
from time import perf_counter  # by name: in a simulation, the module's own is virtual

from benchmarks.ours.pingpong import Player
from benchmarks.ours.stage import expect_all_handled, seat
from benchmarks.program import Report, main, settle
from greenroom import ActorSystem
from greenroom.testing import Simulation


def run(n: int) -> Report:
    """About ``n`` messages between two actors."""
    return Simulation(seed=1, max_steps=10 * n).run(partial(_play, n))


async def _play(n: int, system: ActorSystem) -> Report:
    first, _ = await seat(system, 2, Player, n // 2)
    settle()
    start = perf_counter()
    first.tell(1)
    await system.settle()
    seconds = perf_counter() - start
    messages = 2 * (n // 2) + 1
    await expect_all_handled(system, messages)
    return Report(messages / seconds)


if __name__ == "__main__":
    main(run)
