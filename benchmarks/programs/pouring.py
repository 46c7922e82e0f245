"""One actor that sends as fast as it can, as much at once as a mailbox holds.

``counting``: a producer sends increments to one counter, ten thousand at once, and has it tell the sum each time.
``throughput``: a master sends ten thousand messages to each of sixty workers, in turn, and again when all are done.
"""

from __future__ import annotations

from functools import partial

from benchmarks.ours.stage import expect_all_handled, perform
from benchmarks.program import Report, expect
from benchmarks.programs.measuring import Outcome, Stopwatch, choose
from greenroom import Actor, ActorRef, ActorSystem

WORKERS = 60
PORTION = 10_000

INCREMENT = "increment"
START = "start"
WORK = "work"


class Counter(Actor[str | ActorRef, None]):
    """Counts, and tells a ref that reaches it how far it has come."""

    def __init__(self) -> None:
        self.total = 0

    def receive(self, message: str | ActorRef) -> None:
        if message is INCREMENT:
            self.total += 1
        elif not isinstance(message, str):
            message.tell(self.total)


class Producer(Actor[str | int, None]):
    """Sends the next portion when it hears the sum, until all are sent."""

    def __init__(self, counter: ActorRef[str | ActorRef, None], increments: int, outcome: Outcome) -> None:
        self.counter = counter
        self.left = increments
        self.outcome = outcome

    def receive(self, message: str | int) -> None:
        if self.left:
            portion = min(self.left, PORTION)
            self.left -= portion
            tell = self.counter.tell
            for _ in range(portion):
                tell(INCREMENT)
            tell(self.ctx.self)
        elif isinstance(message, int):
            self.outcome.value = message


def counting(n: int) -> Report:
    """``n`` increments of one counter."""
    return perform(partial(_count, n))


def messages_to_count(n: int) -> int:
    """The increments, the sums and the requests for them, and the start."""
    return n + 2 * -(-n // PORTION) + 1


async def _count(n: int, system: ActorSystem) -> Report:
    outcome = Outcome()
    producer = system.spawn(Producer, system.spawn(Counter), n, outcome)
    await system.settle()
    with Stopwatch() as watch:
        producer.tell(START)
        await system.settle()
    expect("sum of the increments", outcome.value, n)
    messages = messages_to_count(n)
    await expect_all_handled(system, messages)
    return watch.report(messages)


class Worker(Actor[str, None]):
    """Counts what it gets, and says when a portion is done."""

    def __init__(self, master: ActorRef[str | int, None], portion: int) -> None:
        self.master = master
        self.portion = portion
        self.left = portion

    def receive(self, message: str) -> None:
        self.left -= 1
        if not self.left:
            self.left = self.portion
            self.master.tell(self.portion)


class Master(Actor[str | int, None]):
    """Sends a portion to each worker, in turn; the next when all are done with it."""

    def __init__(self, workers: list[ActorRef[str, None]], portion: int, times: int, outcome: Outcome) -> None:
        self.workers = workers
        self.portion = portion
        self.times = times
        self.busy = 0
        self.done = 0
        self.outcome = outcome

    def receive(self, message: str | int) -> None:
        if isinstance(message, int):
            self.busy -= 1
            self.done += message
        if self.busy:
            return
        if self.times:
            self.times -= 1
            self._fork()
        else:
            self.outcome.value = self.done

    def _fork(self) -> None:
        self.busy = WORKERS
        for _ in range(self.portion):
            for worker in self.workers:
                worker.tell(WORK)


def throughput(n: int) -> Report:
    """About ``n`` messages to sixty workers."""
    return perform(partial(_pour, *portions_for(n)))


def portions_for(n: int) -> tuple[int, int]:
    """How large a portion of each worker is, and how many it gets, for about ``n`` messages."""
    portion = min(PORTION, max(n // WORKERS, 1))
    return portion, max(n // (WORKERS * portion), 1)


async def _pour(portion: int, times: int, system: ActorSystem) -> Report:
    outcome = Outcome()
    workers: list[ActorRef[str, None]] = []
    master = system.spawn(Master, workers, portion, times, outcome)
    workers.extend(system.spawn(Worker, master, portion) for _ in range(WORKERS))
    await system.settle()
    with Stopwatch() as watch:
        master.tell(START)
        await system.settle()
    expect("messages of finished portions", outcome.value, WORKERS * portion * times)
    messages = WORKERS * (portion + 1) * times + 1
    await expect_all_handled(system, messages)
    return watch.report(messages)


if __name__ == "__main__":
    choose({"counting": counting, "throughput": throughput})
