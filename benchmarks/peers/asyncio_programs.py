"""asyncio's side of the rows: queues on uvloop, a bare future hop, a task per message, ``call_later``.

Run as ``python -m benchmarks.peers.asyncio_programs WORK --n N``.
"""

from __future__ import annotations

import asyncio
import sys
import time

from benchmarks.program import Report, dice, expect, main, require, settle
from benchmarks.timescale import SPAN, STEPS, SteppedClock, Stopwatch


def queue_pingpong(n: int) -> Report:
    """About ``n`` messages between two tasks through two queues, on uvloop."""
    uvloop = require("uvloop")

    async def play() -> Report:
        to_a: asyncio.Queue[int] = asyncio.Queue()
        to_b: asyncio.Queue[int] = asyncio.Queue()
        over = asyncio.Event()
        players = [
            asyncio.create_task(_player(to_a, to_b, n // 2, over)),
            asyncio.create_task(_player(to_b, to_a, n // 2, over)),
        ]
        await asyncio.sleep(0)
        settle()
        start = time.perf_counter()
        to_a.put_nowait(1)
        await over.wait()
        seconds = time.perf_counter() - start
        for player in players:
            player.cancel()
        return Report((2 * (n // 2) + 1) / seconds)

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(play())


async def _player(mine: asyncio.Queue[int], peers: asyncio.Queue[int], left: int, over: asyncio.Event) -> None:
    while True:
        message = await mine.get()
        if not left:
            over.set()
            return
        left -= 1
        peers.put_nowait(message)


def future_hop(n: int) -> Report:
    """``n`` futures one after another, each awaited until a callback of the loop's next turn sets it."""
    return asyncio.run(_hop(n))


def future_hop_uvloop(n: int) -> Report:
    """The same hops on uvloop."""
    with asyncio.Runner(loop_factory=require("uvloop").new_event_loop) as runner:
        return runner.run(_hop(n))


async def _hop(n: int) -> Report:
    loop = asyncio.get_running_loop()
    settle()
    start = time.perf_counter()
    for number in range(n):
        future = loop.create_future()
        loop.call_soon(future.set_result, number)
        await future
    seconds = time.perf_counter() - start
    return Report(n / seconds)


def task_per_message(n: int) -> Report:
    """``n`` messages one after another, each handled in a task of its own that awaits one future."""
    return asyncio.run(_task_per_message(n))


async def _task_per_message(n: int) -> Report:
    loop = asyncio.get_running_loop()
    over = asyncio.Event()
    left = n
    running: set[asyncio.Task[None]] = set()

    async def receive(message: object) -> None:
        nonlocal left
        future = loop.create_future()
        loop.call_soon(future.set_result, None)
        await future
        left -= 1
        if left:
            dispatch(message)
        else:
            over.set()

    def dispatch(message: object) -> None:
        task = loop.create_task(receive(message))
        running.add(task)
        task.add_done_callback(running.discard)

    settle()
    start = time.perf_counter()
    dispatch(1)
    await over.wait()
    seconds = time.perf_counter() - start
    return Report(n / seconds)


class _SteppedLoop(asyncio.SelectorEventLoop):
    """asyncio's own loop and timers, on a clock that the program moves."""

    def __init__(self) -> None:
        self.clock = SteppedClock()
        super().__init__()

    def time(self) -> float:
        return self.clock.now()


def call_later(n: int) -> Report:
    """``n`` timers over a minute: start all, cancel every other one, fire the rest."""
    loop = _SteppedLoop()
    fired = 0

    def fire(message: object) -> None:
        nonlocal fired
        fired += 1

    random = dice()
    delays = [random.uniform(0.0, SPAN) for _ in range(n)]
    settle()

    watch = Stopwatch(time.perf_counter)
    handles = [loop.call_later(delay, fire, 1) for delay in delays]
    watch.lap("start")
    for handle in handles[::2]:
        handle.cancel()
    watch.lap("cancel")
    for _ in range(STEPS):
        loop.clock.move(SPAN / STEPS)
        loop.call_soon(loop.stop)
        loop.run_forever()
    watch.lap("fire")

    loop.close()
    expect("timers fired", fired, n // 2)
    return watch.report(n)


WORKS = {
    "queue_pingpong": queue_pingpong,
    "future_hop": future_hop,
    "future_hop_uvloop": future_hop_uvloop,
    "task_per_message": task_per_message,
    "call_later": call_later,
}

if __name__ == "__main__":
    main(WORKS[sys.argv.pop(1)])
