"""Messages among a hundred: a token that goes round a ring, and pings from all to all.

``ring``: a hundred actors in a ring pass one token on, which counts the hops that are left.
``big``: each of 120 actors pings one chosen at random, and the next one when that has answered.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from benchmarks.ours.stage import expect_all_handled, perform, seat
from benchmarks.program import Report, expect
from benchmarks.programs.measuring import Outcome, Stopwatch, Tally, choose, draw
from greenroom import Actor, ActorRef, ActorSystem

NODES = 100
PINGERS = 120


class Node(Actor[int, None]):
    """Passes the token on until it is used up."""

    def __init__(self, seats: Sequence[ActorRef[int, None]], place: int, outcome: Outcome) -> None:
        self.following = seats[(place + 1) % len(seats)]
        self.place = place
        self.outcome = outcome

    def receive(self, hops: int) -> None:
        if hops:
            self.following.tell(hops - 1)
        else:
            self.outcome.value = self.place


def ring(n: int) -> Report:
    """``n`` hops of one token."""
    return perform(partial(_pass_round, n))


async def _pass_round(n: int, system: ActorSystem) -> Report:
    outcome = Outcome()
    nodes = await seat(system, NODES, Node, outcome)
    with Stopwatch() as watch:
        nodes[0].tell(n)
        await system.settle()
    expect("place where the token ended", outcome.value, n % NODES)
    await expect_all_handled(system, n + 1)
    return watch.report(n + 1)


class Pinger(Actor[ActorRef | None, None]):
    """A ping is the ref of the one that sent it; a pong is None, and brings about the next ping."""

    me: ActorRef[ActorRef | None, None]

    def __init__(
        self, seats: Sequence[ActorRef[ActorRef | None, None]], place: int, pings: int, tally: ActorRef[int, None]
    ) -> None:
        self.seats = seats
        self.seed = place
        self.left = pings
        self.tally = tally

    def pre_start(self) -> None:
        self.me = self.ctx.self

    def receive(self, message: ActorRef | None) -> None:
        if message is not None:
            message.tell(None)
        elif self.left:
            self.left -= 1
            self.seed = draw(self.seed)
            self.seats[self.seed % PINGERS].tell(self.me)
        else:
            self.tally.tell(1)


def big(n: int) -> Report:
    """About ``n`` pings and pongs."""
    return perform(partial(_ping_all, n // (2 * PINGERS)))


async def _ping_all(pings: int, system: ActorSystem) -> Report:
    outcome = Outcome()
    tally = system.spawn(Tally, PINGERS, outcome)
    pingers = await seat(system, PINGERS, Pinger, pings, tally)
    with Stopwatch() as watch:
        for pinger in pingers:
            pinger.tell(None)
        await system.settle()
    expect("actors that had all their answers", outcome.value, PINGERS)
    messages = 2 * PINGERS * (pings + 1)
    await expect_all_handled(system, messages)
    return watch.report(messages)


if __name__ == "__main__":
    choose({"ring": ring, "big": big})
