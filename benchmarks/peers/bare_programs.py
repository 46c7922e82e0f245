"""What the interpreter alone takes for a program: the same classes, with a deque for a mailbox and a plain loop.

Nothing is promised here: one thread, no bounds, no turns, no failures, no ledger, no actor that ends. So this is about
as fast as a runtime of actors in Python can get, and tells how much of a figure is ours.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from benchmarks.program import Report, expect
from benchmarks.programs import bank, philosophers, pouring
from benchmarks.programs.measuring import Outcome, Stopwatch, choose
from greenroom import Actor


class Stage:
    """Actors without a system."""

    def __init__(self) -> None:
        self.actors: list[tuple[deque[Any], Callable[[Any], object]]] = []

    def spawn(self, actor_class: Callable[..., Actor[Any, Any]], *args: Any) -> Any:
        """An actor of that class; its ref, which can do nothing but tell."""
        actor = actor_class(*args)
        mailbox: deque[Any] = deque()
        ref = SimpleNamespace(tell=mailbox.append)
        actor.ctx = SimpleNamespace(self=ref)  # type: ignore[assignment]
        actor.pre_start()
        self.actors.append((mailbox, actor.receive))
        return ref

    def run(self) -> None:
        """Have each actor handle all its messages, in turn, until none has any."""
        is_busy = True
        while is_busy:
            is_busy = False
            for mailbox, receive in self.actors:
                if mailbox:
                    is_busy = True
                    take = mailbox.popleft
                    while mailbox:
                        receive(take())


def counting(n: int) -> Report:
    """As `pouring.counting`."""
    stage, outcome = Stage(), Outcome()
    producer = stage.spawn(pouring.Producer, stage.spawn(pouring.Counter), n, outcome)
    return _perform(stage, [producer], outcome, n, pouring.messages_to_count(n))


def throughput(n: int) -> Report:
    """As `pouring.throughput`."""
    portion, times = pouring.portions_for(n)
    stage, outcome = Stage(), Outcome()
    workers: list[Any] = []
    master = stage.spawn(pouring.Master, workers, portion, times, outcome)
    workers.extend(stage.spawn(pouring.Worker, master, portion) for _ in range(pouring.WORKERS))
    total = pouring.WORKERS * portion * times
    return _perform(stage, [master], outcome, total, total + pouring.WORKERS * times + 1)


def transfers(n: int) -> Report:
    """As `bank.run`."""
    stage, outcome = Stage(), Outcome()
    accounts: list[Any] = []
    teller = stage.spawn(bank.Teller, accounts, n // 4, outcome)
    accounts.extend(stage.spawn(bank.Account, teller) for _ in range(bank.ACCOUNTS))
    return _perform(stage, [teller], outcome, n // 4, 4 * (n // 4) + 1)


def dining(n: int) -> Report:
    """As `philosophers.run`."""
    meals = n // (3 * philosophers.PHILOSOPHERS)
    total = philosophers.PHILOSOPHERS * meals
    stage, outcome = Stage(), Outcome()
    table: list[Any] = []
    arbiter = stage.spawn(philosophers.Arbiter, table, total, outcome)
    table.extend(
        stage.spawn(philosophers.Philosopher, arbiter, place, meals) for place in range(philosophers.PHILOSOPHERS)
    )
    return _perform(stage, table, outcome, total, 3 * total + philosophers.PHILOSOPHERS)


def _perform(stage: Stage, first: list[Any], outcome: Outcome, wanted: int, messages: int) -> Report:
    with Stopwatch() as watch:
        for ref in first:
            ref.tell(pouring.START)
        stage.run()
    expect("what the program comes to", outcome.value, wanted)
    return watch.report(messages)


PROGRAMS = {"counting": counting, "throughput": throughput, "bank": transfers, "philosophers": dining}

if __name__ == "__main__":
    choose(PROGRAMS)
