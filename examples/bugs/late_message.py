"""A till is closed while payments are still on their way to it.

The counter stops the till, and forgets it only when the till has ended. A payment that arrives in between goes to a
till that is stopping: it becomes a dead letter, and the counter does not notice. The window is one message wide: in an
ordinary run, the last payment is always in time.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TextIO

from greenroom import Actor, ActorRef, ActorSystem
from greenroom.testing import Report, explore


@dataclass(frozen=True)
class Payment:
    """Money to be booked."""

    amount: int


@dataclass(frozen=True)
class Close:
    """No more today."""


class Till(Actor[Payment, None]):
    """Books payments."""

    def __init__(self, booked: list[int]) -> None:
        self.booked = booked

    def receive(self, payment: Payment) -> None:
        self.booked.append(payment.amount)


class Counter(Actor[Payment | Close, None]):
    """Passes payments on to its till, or gives them back. The bug: a till that is stopping looks open to it."""

    def __init__(self, booked: list[int], returned: list[int]) -> None:
        self.booked = booked
        self.returned = returned

    def pre_start(self) -> None:
        self.till: ActorRef[Payment, None] | None = self.ctx.spawn(Till, self.booked, name="till")

    def receive(self, message: Payment | Close) -> None:
        if isinstance(message, Close):
            if self.till is not None:
                self.till.stop(after_queued=True)
        elif self.till is None:
            self.returned.append(message.amount)
        else:
            self.till.tell(message)

    def on_child_terminated(self, ref: ActorRef[Payment, None], cause: BaseException | None) -> None:
        self.till = None


class Customer(Actor[int, None]):
    """Pays, one coin after the other."""

    def __init__(self, counter: ActorRef[Payment | Close, None]) -> None:
        self.counter = counter

    def receive(self, coins: int) -> None:
        self.counter.tell(Payment(1))
        if coins > 1:
            self.ctx.self.tell(coins - 1)


class Manager(Actor[int, None]):
    """Closes the counter in the evening."""

    def __init__(self, counter: ActorRef[Payment | Close, None]) -> None:
        self.counter = counter

    def receive(self, hours: int) -> None:
        if hours:
            self.ctx.self.tell(hours - 1)
        else:
            self.counter.tell(Close())


async def program(system: ActorSystem) -> int:
    """Three coins, and the evening; how many coins are somewhere."""
    booked: list[int] = []
    returned: list[int] = []
    counter = system.spawn(Counter, booked, returned, name="counter")
    system.spawn(Customer, counter, name="customer").tell(3)
    system.spawn(Manager, counter, name="manager").tell(1)
    await system.settle()
    return sum(booked) + sum(returned)


def is_right(coins: int) -> bool:
    """Whether no coin is gone."""
    return coins == 3


def find(output: TextIO | None = sys.stderr) -> Report:
    """Look for an order in which it goes wrong."""
    return explore(program, check=is_right, output=output)


if __name__ == "__main__":
    find()
