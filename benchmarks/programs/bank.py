"""A teller has money moved between a thousand accounts; a thousand transfers are under way at any time.

The paying account takes the money off and passes it on; the receipt goes back to it, and from there to the teller.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from benchmarks.ours.stage import expect_all_handled, perform
from benchmarks.program import Report, expect
from benchmarks.programs.measuring import Outcome, Stopwatch, choose, draw
from greenroom import Actor, ActorRef, ActorSystem

ACCOUNTS = 1000
AT_ONCE = 1000
DEPOSIT = 65_536

PAY = "pay"
TAKE = "take"
RECEIPT = "receipt"
BALANCE = "balance"
START = "start"

# An amount, and the account that it goes to (PAY) or comes from (TAKE).
Transfer = tuple[str, int, ActorRef]


class Account(Actor[Transfer | str, int | None]):
    """Has a balance, which may be below zero for a while."""

    me: ActorRef[Transfer | str, int | None]

    def __init__(self, teller: ActorRef[str, None]) -> None:
        self.teller = teller
        self.balance = DEPOSIT

    def pre_start(self) -> None:
        self.me = self.ctx.self

    def receive(self, message: Transfer | str) -> int | None:
        if isinstance(message, str):
            if message is BALANCE:
                return self.balance
            self.teller.tell(RECEIPT)
        else:
            kind, amount, other = message
            if kind is PAY:
                self.balance -= amount
                other.tell((TAKE, amount, self.me))
            else:
                self.balance += amount
                other.tell(RECEIPT)
        return None


class Teller(Actor[str, None]):
    """Starts some transfers, and the next one with each receipt."""

    def __init__(self, accounts: Sequence[ActorRef], transfers: int, outcome: Outcome) -> None:
        self.accounts = accounts
        self.unstarted = transfers
        self.under_way = 0
        self.receipts = 0
        self.seed = 1
        self.outcome = outcome

    def receive(self, message: str) -> None:
        if message is RECEIPT:
            self.receipts += 1
            self.under_way -= 1
            if self.unstarted:
                self._start_one()
            elif not self.under_way:
                self.outcome.value = self.receipts
        else:
            for _ in range(min(AT_ONCE, self.unstarted)):
                self._start_one()

    def _start_one(self) -> None:
        payer = draw(self.seed)
        self.seed = draw(payer)
        self.unstarted -= 1
        self.under_way += 1
        # The seed is the amount too.
        self.accounts[payer % ACCOUNTS].tell((PAY, payer, self.accounts[self.seed % ACCOUNTS]))


def run(n: int) -> Report:
    """About ``n`` messages: four for each transfer."""
    return perform(partial(_transfer, n // 4))


async def _transfer(transfers: int, system: ActorSystem) -> Report:
    outcome = Outcome()
    accounts: list[ActorRef[Transfer | str, int | None]] = []
    teller = system.spawn(Teller, accounts, transfers, outcome)
    accounts.extend(system.spawn(Account, teller) for _ in range(ACCOUNTS))
    await system.settle()
    with Stopwatch() as watch:
        teller.tell(START)
        await system.settle()
    expect("receipts", outcome.value, transfers)
    messages = 4 * transfers + 1
    await expect_all_handled(system, messages)
    balances = [await account.ask(BALANCE) for account in accounts]
    expect("money in the bank", sum(balance or 0 for balance in balances), ACCOUNTS * DEPOSIT)
    return watch.report(messages)


if __name__ == "__main__":
    choose({"bank": run})
