"""The standard library's queues between threads, and between tasks, at the work of service handles."""

from __future__ import annotations

import asyncio
import queue
import sys
import threading
import time
from collections.abc import Callable
from functools import partial

from benchmarks.latencies import CAPACITY, PAUSE, report, work
from benchmarks.program import Report, main, settle


class Sink:
    """Counts what it is given, in a method, as an actor does."""

    def __init__(self) -> None:
        self.count = 0

    def receive(self, message: int) -> None:
        """One more."""
        self.count += 1


def flood(n: int) -> Report:
    """``n`` numbers through a `SimpleQueue`, from the first put until the last is taken."""
    numbers: queue.SimpleQueue[int] = queue.SimpleQueue()

    def take() -> None:
        for _ in range(n):
            numbers.get()

    return _flood(numbers, take, n)


def handled(n: int) -> Report:
    """The same, with a method that is called for each."""
    numbers: queue.SimpleQueue[int] = queue.SimpleQueue()

    def take() -> None:
        sink = Sink()
        for _ in range(n):
            sink.receive(numbers.get())

    return _flood(numbers, take, n)


def _flood(numbers: queue.SimpleQueue[int], take: Callable[[], None], n: int) -> Report:
    taker = threading.Thread(target=take)
    settle()
    start = time.perf_counter()
    taker.start()
    for number in range(n):
        numbers.put(number)
    taker.join()
    return Report(n / (time.perf_counter() - start))


def pingpong(n: int) -> Report:
    """A number that goes to and fro ``n`` times between two threads."""
    there: queue.SimpleQueue[int] = queue.SimpleQueue()
    back: queue.SimpleQueue[int] = queue.SimpleQueue()

    def send_back() -> None:
        for _ in range(n // 2):
            back.put(there.get())

    other = threading.Thread(target=send_back)
    settle()
    start = time.perf_counter()
    other.start()
    for number in range(n // 2):
        there.put(number)
        back.get()
    other.join()
    return Report(n / (time.perf_counter() - start))


def control(share: float, n: int) -> Report:
    """``n`` control messages among a flood of a bounded `PriorityQueue`, between threads."""
    waiting: queue.PriorityQueue[tuple[int, int, float]] = queue.PriorityQueue(CAPACITY)
    late: list[float] = []
    over = threading.Event()

    def fill() -> None:
        number = 0
        while not over.is_set():
            waiting.put((1, number, 0.0))
            number += 1

    def take() -> None:
        while len(late) < n:
            urgency, _, sent = waiting.get()
            if urgency == 0:
                late.append(time.perf_counter() - sent)
            else:
                work()
        over.set()
        while not waiting.empty():
            waiting.get()

    threads = [threading.Thread(target=fill, daemon=True), threading.Thread(target=take, daemon=True)]
    for thread in threads:
        thread.start()
    for number in range(n):
        time.sleep(PAUSE)
        waiting.put((0, number, time.perf_counter()))
    threads[1].join()
    return report(late, share)


def control_tasks(share: float, n: int) -> Report:
    """The same with an `asyncio.PriorityQueue`, between tasks of one thread."""
    return asyncio.run(_control_tasks(share, n))


async def _control_tasks(share: float, n: int) -> Report:
    waiting: asyncio.PriorityQueue[tuple[int, int, float]] = asyncio.PriorityQueue(CAPACITY)
    late: list[float] = []

    async def fill() -> None:
        number = 0
        while True:
            await waiting.put((1, number, 0.0))
            number += 1

    async def take() -> None:
        while len(late) < n:
            urgency, _, sent = await waiting.get()
            if urgency == 0:
                late.append(time.perf_counter() - sent)
            else:
                work()

    async def command() -> None:
        for number in range(n):
            await asyncio.sleep(PAUSE)
            await waiting.put((0, number, time.perf_counter()))

    filler, commander = asyncio.create_task(fill()), asyncio.create_task(command())
    await take()
    filler.cancel()
    await commander
    return report(late, share)


WORKS: dict[str, Callable[[int], Report]] = {
    "flood": flood,
    "handled": handled,
    "pingpong": pingpong,
    "control50": partial(control, 0.50),
    "control99": partial(control, 0.99),
    "tasks50": partial(control_tasks, 0.50),
    "tasks99": partial(control_tasks, 0.99),
}


if __name__ == "__main__":
    main(WORKS[sys.argv.pop(1)])
