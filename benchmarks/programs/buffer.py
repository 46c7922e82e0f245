"""Forty producers and forty consumers, and between them a manager with a buffer of fifty items.

A producer makes its next item when the manager has room for it. Four messages for each item.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from functools import partial

from benchmarks.ours.stage import expect_all_handled, perform
from benchmarks.program import Report, expect
from benchmarks.programs.measuring import Outcome, Stopwatch, choose
from greenroom import Actor, ActorRef, ActorSystem

PRODUCERS = 40
CONSUMERS = 40
# What the manager takes in before it makes producers wait: each of them may have an item on its way.
ROOM = 50 - PRODUCERS

PRODUCE = "produce"
SUM = "sum"

# An item and its producer.
Delivery = tuple[int, ActorRef]


class Manager(Actor[Delivery | ActorRef, None]):
    """Takes items from producers, and gives them to consumers; a ref is a consumer that is free again."""

    def __init__(self, consumers: Sequence[ActorRef], items: int, outcome: Outcome) -> None:
        self.items: deque[int] = deque()
        self.free = list(consumers)
        self.held: deque[ActorRef] = deque()
        self.consumed = 0
        self.wanted = items
        self.outcome = outcome

    def receive(self, message: Delivery | ActorRef) -> None:
        if isinstance(message, tuple):
            item, producer = message
            self._store(item, producer)
        else:
            self._serve(message)

    def _store(self, item: int, producer: ActorRef) -> None:
        if self.free:
            self.free.pop().tell(item)
        else:
            self.items.append(item)
        if len(self.items) >= ROOM:
            self.held.append(producer)
        else:
            producer.tell(PRODUCE)

    def _serve(self, consumer: ActorRef) -> None:
        self.consumed += 1
        if self.consumed == self.wanted:
            self.outcome.value = self.consumed
        if not self.items:
            self.free.append(consumer)
            return
        consumer.tell(self.items.popleft())
        if self.held:
            self.held.popleft().tell(PRODUCE)


class Producer(Actor[str, None]):
    """Makes an item when it is told to, as long as it has some left."""

    me: ActorRef[str, None]

    def __init__(self, manager: ActorRef[Delivery | ActorRef, None], items: int) -> None:
        self.manager = manager
        self.left = items

    def pre_start(self) -> None:
        self.me = self.ctx.self

    def receive(self, message: str) -> None:
        if self.left:
            self.manager.tell((self.left, self.me))
            self.left -= 1


class Consumer(Actor[int | str, int | None]):
    """Adds up the items that it gets."""

    me: ActorRef[int | str, int | None]

    def __init__(self, manager: Sequence[ActorRef[Delivery | ActorRef, None]]) -> None:
        [self.manager] = manager
        self.total = 0

    def pre_start(self) -> None:
        self.me = self.ctx.self

    def receive(self, message: int | str) -> int | None:
        if isinstance(message, str):
            return self.total
        self.total += message
        self.manager.tell(self.me)
        return None


def run(n: int) -> Report:
    """About ``n`` messages: four for each item."""
    return perform(partial(_produce, n // (4 * PRODUCERS)))


async def _produce(items: int, system: ActorSystem) -> Report:
    outcome = Outcome()
    # An actor is not made before its first turn: the consumers find the manager there.
    at_the_buffer: list[ActorRef[Delivery | ActorRef, None]] = []
    consumers = [system.spawn(Consumer, at_the_buffer) for _ in range(CONSUMERS)]
    manager = system.spawn(Manager, consumers, PRODUCERS * items, outcome)
    at_the_buffer.append(manager)
    producers = [system.spawn(Producer, manager, items) for _ in range(PRODUCERS)]
    await system.settle()
    with Stopwatch() as watch:
        for producer in producers:
            producer.tell(PRODUCE)
        await system.settle()
    expect("items consumed", outcome.value, PRODUCERS * items)
    messages = PRODUCERS * (4 * items + 1)
    await expect_all_handled(system, messages)
    totals = [await consumer.ask(SUM) for consumer in consumers]
    expect("sum of the items", sum(total or 0 for total in totals), PRODUCERS * sum(range(items + 1)))
    return watch.report(messages)


if __name__ == "__main__":
    choose({"buffer": run})
