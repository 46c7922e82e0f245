"""Many short lives; the figure is lives per second.

``create``: a master spawns all its workers at once; each handles one message, reports, and ends.
``fibonacci``: an actor for every call, which spawns one for each of the two calls below it, adds up, and ends.
"""

from __future__ import annotations

from functools import partial

from benchmarks.ours.stage import expect_all_handled, perform
from benchmarks.program import Report, expect
from benchmarks.programs.measuring import Outcome, Stopwatch, choose
from greenroom import Actor, ActorRef, ActorSystem, Behavior, Behaviors, MailboxConfig, props

START = "start"


class Worker(Actor[int, None]):
    """Gives back the number that it gets, and ends."""

    def __init__(self, master: ActorRef[int | str, None]) -> None:
        self.master = master

    def receive(self, number: int) -> Behavior:
        self.master.tell(number)
        return Behaviors.stopped


class Master(Actor[int | str, None]):
    """Spawns its workers, then adds up what they give back. Its mailbox must have room for all of it."""

    def __init__(self, workers: int, outcome: Outcome) -> None:
        self.left = workers
        self.total = 0
        self.outcome = outcome

    def receive(self, message: int | str) -> None:
        if isinstance(message, str):
            self._fork()
            return
        self.total += message
        self.left -= 1
        if not self.left:
            self.outcome.value = self.total

    def _fork(self) -> None:
        spawn, me = self.ctx.spawn, self.ctx.self
        for number in range(self.left):
            spawn(Worker, me).tell(number)


def create(n: int) -> Report:
    """``n`` actors that are all alive at once."""
    return perform(partial(_create, n))


async def _create(n: int, system: ActorSystem) -> Report:
    outcome = Outcome()
    master = system.spawn(props(Master, n, outcome), mailbox=MailboxConfig(capacity=n))
    await system.settle()
    with Stopwatch() as watch:
        master.tell(START)
        await system.settle()
    expect("sum of what the workers gave back", outcome.value, sum(range(n)))
    await expect_all_handled(system, 2 * n + 1)
    expect("actors ended", system.snapshot().terminated, n)
    return watch.report(n)


class Call(Actor[tuple[int] | int, None]):
    """Asked by a number in a tuple, it answers its caller with a number alone."""

    def __init__(self, caller: ActorRef) -> None:
        self.caller = caller
        self.total = 0
        self.heard = 0

    def receive(self, message: tuple[int] | int) -> Behavior | None:
        if isinstance(message, int):
            return self._add(message)
        [number] = message
        if number <= 2:
            self.caller.tell(1)
            return Behaviors.stopped
        spawn, me = self.ctx.spawn, self.ctx.self
        spawn(Call, me).tell((number - 1,))
        spawn(Call, me).tell((number - 2,))
        return None

    def _add(self, answer: int) -> Behavior | None:
        self.total += answer
        self.heard += 1
        if self.heard < 2:
            return None
        self.caller.tell(self.total)
        return Behaviors.stopped


class Caller(Actor[int, None]):
    """Hands out the answer to the first call."""

    def __init__(self, outcome: Outcome) -> None:
        self.outcome = outcome

    def receive(self, answer: int) -> None:
        self.outcome.value = answer


def largest_call(n: int) -> tuple[int, int, int]:
    """The largest call that takes at most ``n`` actors: its argument, its result, and the actors that it takes."""
    number, result, following = 1, 1, 1
    # A call takes one actor less than twice its result: as many leaves as the result, joined in pairs.
    while 2 * following - 1 <= n:
        number, result, following = number + 1, following, result + following
    return number, result, 2 * result - 1


def fibonacci(n: int) -> Report:
    """The largest Fibonacci number that takes at most ``n`` actors."""
    return perform(partial(_call, *largest_call(n)))


async def _call(number: int, result: int, actors: int, system: ActorSystem) -> Report:
    outcome = Outcome()
    caller = system.spawn(Caller, outcome)
    await system.settle()
    with Stopwatch() as watch:
        system.spawn(Call, caller).tell((number,))
        await system.settle()
    expect(f"Fibonacci number {number}", outcome.value, result)
    await expect_all_handled(system, 2 * actors)
    expect("actors ended", system.snapshot().terminated, actors)
    return watch.report(actors)


if __name__ == "__main__":
    choose({"create": create, "fibonacci": fibonacci})
