"""Pykka's programs around an actor that serves the others: the same messages as ours.

Run as ``python -m benchmarks.peers.pykka_services PROGRAM --n N``.
"""

from __future__ import annotations

from collections import deque
from typing import Any

from benchmarks.peers.pykka_stage import Finish, Person, choose, play
from benchmarks.program import Report
from benchmarks.programs.bank import ACCOUNTS, AT_ONCE, DEPOSIT, PAY, RECEIPT, START, TAKE
from benchmarks.programs.buffer import CONSUMERS, PRODUCE, PRODUCERS, ROOM
from benchmarks.programs.dictionary import WORKERS, WRITES, key_of
from benchmarks.programs.measuring import draw


class Account(Person):
    """Has a balance, which may be below zero for a while."""

    def __init__(self, teller: Any) -> None:
        super().__init__()
        self.teller = teller
        self.balance = DEPOSIT

    def on_receive(self, message: Any) -> None:
        if message is RECEIPT:
            self.teller.tell(RECEIPT)
            return
        kind, amount, other = message
        if kind is PAY:
            self.balance -= amount
            other.tell((TAKE, amount, self.actor_ref))
        else:
            self.balance += amount
            other.tell(RECEIPT)


class Teller(Person):
    """Starts some transfers, and the next one with each receipt."""

    def __init__(self, accounts: list[Any], transfers: int, finish: Finish) -> None:
        super().__init__()
        self.accounts = accounts
        self.unstarted = transfers
        self.seed = 1
        self.finish = finish

    def on_receive(self, message: Any) -> None:
        if message is RECEIPT:
            self.finish.report(1)
            if self.unstarted:
                self._start_one()
        else:
            for _ in range(min(AT_ONCE, self.unstarted)):
                self._start_one()

    def _start_one(self) -> None:
        payer = draw(self.seed)
        self.seed = draw(payer)
        self.unstarted -= 1
        self.accounts[payer % ACCOUNTS].tell((PAY, payer, self.accounts[self.seed % ACCOUNTS]))


def bank(n: int) -> Report:
    """About ``n`` messages: four for each transfer."""
    transfers = n // 4
    finish = Finish(transfers)
    accounts: list[Any] = []
    teller = Teller.start(accounts, transfers, finish)
    accounts += [Account.start(teller) for _ in range(ACCOUNTS)]
    return play(lambda: teller.tell(START), finish, "receipts", transfers, 4 * transfers + 1)


class Dictionary(Person):
    """Reads and writes entries; what is not there is 0."""

    def __init__(self) -> None:
        super().__init__()
        self.entries: dict[int, int] = {}

    def on_receive(self, message: Any) -> None:
        key, value, worker = message
        if value is None:
            worker.tell(self.entries.get(key, 0))
        else:
            self.entries[key] = value
            worker.tell(value)


class Worker(Person):
    """Makes its next request when it has the answer to the last."""

    def __init__(self, dictionary: Any, place: int, requests: int, finish: Finish) -> None:
        super().__init__()
        self.dictionary = dictionary
        self.seed = place
        self.left = requests
        self.finish = finish

    def on_receive(self, answer: int) -> None:
        if not self.left:
            self.finish.report(1)
            return
        self.left -= 1
        self.seed = seed = draw(self.seed)
        self.dictionary.tell((key_of(seed), None if seed % WRITES else seed, self.actor_ref))


def dictionary(n: int) -> Report:
    """About ``n`` messages: two for each request."""
    requests = n // (2 * WORKERS)
    finish, entries = Finish(WORKERS), Dictionary.start()
    workers = [Worker.start(entries, place, requests, finish) for place in range(WORKERS)]

    def start() -> None:
        for worker in workers:
            worker.tell(0)

    count = 2 * WORKERS * (requests + 1)
    return play(start, finish, "workers that had all their answers", WORKERS, count)


class Manager(Person):
    """Takes items from producers, and gives them to consumers; a ref is a consumer that is free again."""

    def __init__(self, finish: Finish) -> None:
        super().__init__()
        self.items: deque[int] = deque()
        self.free: list[Any] = []
        self.held: deque[Any] = deque()
        self.finish = finish

    def on_receive(self, message: Any) -> None:
        if isinstance(message, list):
            self.free = message
        elif isinstance(message, tuple):
            self._store(*message)
        else:
            self._serve(message)

    def _store(self, item: int, producer: Any) -> None:
        if self.free:
            self.free.pop().tell(item)
        else:
            self.items.append(item)
        if len(self.items) >= ROOM:
            self.held.append(producer)
        else:
            producer.tell(PRODUCE)

    def _serve(self, consumer: Any) -> None:
        self.finish.report(1)
        if not self.items:
            self.free.append(consumer)
            return
        consumer.tell(self.items.popleft())
        if self.held:
            self.held.popleft().tell(PRODUCE)


class Producer(Person):
    """Makes an item when it is told to, as long as it has some left."""

    def __init__(self, manager: Any, items: int) -> None:
        super().__init__()
        self.manager = manager
        self.left = items

    def on_receive(self, message: str) -> None:
        if self.left:
            self.manager.tell((self.left, self.actor_ref))
            self.left -= 1


class Consumer(Person):
    """Adds up the items that it gets."""

    def __init__(self, manager: Any) -> None:
        super().__init__()
        self.manager = manager
        self.total = 0

    def on_receive(self, item: int) -> None:
        self.total += item
        self.manager.tell(self.actor_ref)


def buffer(n: int) -> Report:
    """About ``n`` messages: four for each item."""
    items = n // (4 * PRODUCERS)
    finish = Finish(PRODUCERS * items)
    manager = Manager.start(finish)
    manager.tell([Consumer.start(manager) for _ in range(CONSUMERS)])
    producers = [Producer.start(manager, items) for _ in range(PRODUCERS)]

    def start() -> None:
        for producer in producers:
            producer.tell(PRODUCE)

    return play(start, finish, "items consumed", PRODUCERS * items, PRODUCERS * (4 * items + 1))


PROGRAMS = {"bank": bank, "dictionary": dictionary, "buffer": buffer}

if __name__ == "__main__":
    choose(PROGRAMS)
