"""A thousand actors in a ring and a hundred tokens going round; each hop takes one off its token."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial

from benchmarks.ours.stage import expect_all_handled, perform, seat
from benchmarks.program import Report, main, settle
from greenroom import Actor, ActorRef, ActorSystem

ACTORS = 1000
TOKENS = 100


class Node(Actor[int, None]):
    """Passes a token on until it is used up."""

    def __init__(self, seats: Sequence[ActorRef[int, None]], place: int) -> None:
        self.following = seats[(place + 1) % len(seats)]

    def receive(self, token: int) -> None:
        if token:
            self.following.tell(token - 1)


def run(n: int) -> Report:
    """About ``n`` hops in all."""
    return perform(partial(_pass_round, n // TOKENS))


async def _pass_round(hops: int, system: ActorSystem) -> Report:
    nodes = await seat(system, ACTORS, Node)
    settle()
    start = time.perf_counter()
    for token in range(TOKENS):
        nodes[token * ACTORS // TOKENS].tell(hops)
    await system.settle()
    seconds = time.perf_counter() - start
    messages = TOKENS * (hops + 1)
    await expect_all_handled(system, messages)
    return Report(messages / seconds)


if __name__ == "__main__":
    main(run)
