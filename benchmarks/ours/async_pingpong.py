"""Ping-pong with ``async def`` handlers that never suspend."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial

from benchmarks.ours.stage import expect_all_handled, perform, seat
from benchmarks.program import Report, main, settle
from greenroom import Actor, ActorRef, ActorSystem


class Player(Actor[int, None]):
    """Sends back what it gets, as often as it was told."""

    def __init__(self, seats: Sequence[ActorRef[int, None]], place: int, returns: int) -> None:
        self.peer = seats[place - 1]
        self.left = returns

    async def receive(self, message: int) -> None:
        if self.left:
            self.left -= 1
            self.peer.tell(message)


def run(n: int) -> Report:
    """About ``n`` messages between two actors with async handlers."""
    return perform(partial(_play, n))


async def _play(n: int, system: ActorSystem) -> Report:
    first, _ = await seat(system, 2, Player, n // 2)
    settle()
    start = time.perf_counter()
    first.tell(1)
    await system.settle()
    seconds = time.perf_counter() - start
    messages = 2 * (n // 2) + 1
    await expect_all_handled(system, messages)
    return Report(messages / seconds)


if __name__ == "__main__":
    main(run)
