"""One actor asks another, one question after the other: sending, suspending, answering, going on."""

from __future__ import annotations

import time
from functools import partial

from benchmarks.ours.stage import expect_all_handled, perform
from benchmarks.program import Report, main, settle
from greenroom import Actor, ActorRef, ActorSystem


class Echo(Actor[int, int]):
    """Answers with what it was asked."""

    def receive(self, message: int) -> int:
        return message


class Asker(Actor[int, None]):
    """Asks as often as it is told."""

    def __init__(self, echo: ActorRef[int, int]) -> None:
        self.echo = echo

    async def receive(self, times: int) -> None:
        for number in range(times):
            await self.echo.ask(number)


def run(n: int) -> Report:
    """``n`` asks from actor to actor."""
    return perform(partial(_converse, n))


async def _converse(n: int, system: ActorSystem) -> Report:
    asker = system.spawn(Asker, system.spawn(Echo))
    await system.settle()
    settle()
    start = time.perf_counter()
    asker.tell(n)
    await system.settle()
    seconds = time.perf_counter() - start
    await expect_all_handled(system, n + 1)
    return Report(n / seconds)


if __name__ == "__main__":
    main(run)
