"""How much dearer a message to a random actor becomes when there are many actors, not a thousand."""

from __future__ import annotations

import time
from functools import partial

from benchmarks.ours.stage import expect_all_handled, perform
from benchmarks.program import Report, dice, main, settle
from greenroom import Actor, ActorRef, ActorSystem, SystemConfig

FEW = 1000
BATCH = 1000
PASSES = 5


class Account(Actor[int, None]):
    """One attribute, read and written by each message."""

    def __init__(self) -> None:
        self.balance = 0

    def receive(self, amount: int) -> None:
        self.balance += amount


class Town:
    """A system full of actors, and the random order in which they are sent to, in groups."""

    def __init__(self, system: ActorSystem, actors: int) -> None:
        self.system = system
        order = [system.spawn(Account) for _ in range(actors)]
        dice().shuffle(order)
        self.groups = [order[first : first + BATCH] for first in range(0, actors, BATCH)]

    async def seconds_per_message(self, batches: int) -> float:
        """Send to every actor in turn, draining after each group of distinct actors."""
        rounds = batches // len(self.groups)
        start = time.perf_counter()
        for _ in range(rounds):
            for group in self.groups:
                await self._send_and_drain(group)
        seconds = time.perf_counter() - start
        return seconds / (rounds * len(self.groups) * BATCH)

    async def _send_and_drain(self, group: list[ActorRef[int, None]]) -> None:
        for account in group:
            account.tell(1)
        await self.system.settle()


def run(n: int) -> Report:
    """Cost per message with ``n`` actors over the cost with a thousand, best of alternating passes."""
    return perform(partial(_compare, n // BATCH), config=SystemConfig(max_actors=n))


async def _compare(batches: int, system: ActorSystem) -> Report:
    # The few live in a system of their own: what is measured is how large a system is, not only how large a choice.
    async with ActorSystem("few") as small:
        many, few = Town(system, batches * BATCH), Town(small, FEW)
        await system.settle()
        await small.settle()
        settle()
        costs = [
            (await many.seconds_per_message(batches), await few.seconds_per_message(batches)) for _ in range(PASSES)
        ]
        for town in (many, few):
            await expect_all_handled(town.system, PASSES * batches * BATCH)
    with_many = min(cost for cost, _ in costs)
    with_few = min(cost for _, cost in costs)
    return Report(with_many / with_few, {"ns with many": with_many * 1e9, "ns with 1k": with_few * 1e9})


if __name__ == "__main__":
    main(run)
