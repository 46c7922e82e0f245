"""Two clerks each read the balance of an account, add a deposit, and write the sum back.

Each actor handles one message at a time, so no lock is missing. Still, if one clerk reads before the other has written,
one deposit is lost. An ordinary run never shows it: the second deposit passes through three messengers, so it always
arrives later.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TextIO

from greenroom import Actor, ActorRef, ActorSystem
from greenroom.testing import Report, explore


@dataclass(frozen=True)
class Read:
    """Asks for the balance."""


@dataclass(frozen=True)
class Write:
    """Sets the balance."""

    balance: int


class Account(Actor[Read | Write, int | None]):
    """Knows its balance."""

    def __init__(self) -> None:
        self.balance = 0

    def receive(self, message: Read | Write) -> int | None:
        if isinstance(message, Write):
            self.balance = message.balance
            return None
        return self.balance


class Clerk(Actor[int, None]):
    """Adds to an account what it is told. The bug: somebody else may write between its read and its write."""

    def __init__(self, account: ActorRef[Read | Write, int | None]) -> None:
        self.account = account

    async def receive(self, amount: int) -> None:
        balance = await self.account.ask(Read())
        assert balance is not None
        self.account.tell(Write(balance + amount))


class Messenger(Actor[int, None]):
    """Passes on what it is given."""

    def __init__(self, target: ActorRef[int, None]) -> None:
        self.target = target

    def receive(self, amount: int) -> None:
        self.target.tell(amount)


async def program(system: ActorSystem) -> int:
    """Deposit 10 and 5; what the account has in the end."""
    account = system.spawn(Account, name="account")
    near = system.spawn(Clerk, account, name="ann")
    way = system.spawn(Clerk, account, name="bob")
    for number in (3, 2, 1):
        way = system.spawn(Messenger, way, name=f"messenger-{number}")
    near.tell(10)
    way.tell(5)
    await system.settle()
    balance = await account.ask(Read())
    assert balance is not None
    return balance


def is_right(balance: int) -> bool:
    """Whether no deposit is gone."""
    return balance == 15


def find(output: TextIO | None = sys.stderr) -> Report:
    """Look for an order in which it goes wrong."""
    return explore(program, check=is_right, output=output)


if __name__ == "__main__":
    find()
