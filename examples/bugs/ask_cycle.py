"""A shop asks its store for goods, and the store asks the shop what it has sold.

Each awaits the other's answer inside a handler. That works as long as the shop is idle when the store counts. If an
order arrives at that moment, each waits for the other. Greenroom detects the cycle and raises `AskDeadlock` at the ask
that closes it. In most runtimes both would wait until their timeouts expire.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any, TextIO

from greenroom import Actor, ActorRef, ActorSystem
from greenroom.testing import Report, explore


@dataclass(frozen=True)
class Order:
    """A customer wants one."""

    number: int


@dataclass(frozen=True)
class Sold:
    """How many were sold?"""


@dataclass(frozen=True)
class Take:
    """Take one out of the store."""


@dataclass(frozen=True)
class Count:
    """Count what is there, and compare it with what a shop has sold."""

    shop: ActorRef[Any, Any]


class Shop(Actor[Order | Sold, int]):
    """Sells what the store has."""

    def __init__(self, store: ActorRef[Any, Any]) -> None:
        self.store = store
        self.sold = 0

    async def receive(self, message: Order | Sold) -> int:
        if isinstance(message, Order):
            await self.store.ask(Take())
            self.sold += 1
        return self.sold


class Store(Actor[Take | Count, int]):
    """Keeps goods, and counts them now and then. The bug: it awaits the shop inside its own handler."""

    def __init__(self) -> None:
        self.goods = 10

    async def receive(self, message: Take | Count) -> int:
        if isinstance(message, Take):
            self.goods -= 1
            return self.goods
        sold: int = await message.shop.ask(Sold())
        return self.goods + sold


class Customer(Actor[int, None]):
    """Walks up and down before it orders."""

    def __init__(self, shop: ActorRef[Any, Any]) -> None:
        self.shop = shop

    def receive(self, way: int) -> None:
        if way:
            self.ctx.self.tell(way - 1)
        else:
            self.shop.tell(Order(1))


async def program(system: ActorSystem) -> None:
    """One count, while two customers are on their way."""
    store = system.spawn(Store, name="store")
    shop = system.spawn(Shop, store, name="shop")
    for number in (1, 2):
        system.spawn(Customer, shop, name=f"customer-{number}").tell(2)
    assert await store.ask(Count(shop)) == 10
    await system.settle()


def find(output: TextIO | None = sys.stderr) -> Report:
    """Look for an order in which it goes wrong."""
    return explore(program, output=output)


if __name__ == "__main__":
    find()
