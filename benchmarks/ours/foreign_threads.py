"""Four threads send into one cell whose loop lives in asyncio on the main thread."""

from __future__ import annotations

import asyncio
import threading
import time

from benchmarks.program import Report, expect, main, settle
from greenroom._core.cell import Cell
from greenroom._core.loop import Loop
from greenroom._core.poller import Poller
from greenroom.errors import MailboxFull

THREADS = 4
BACK_OFF = 0.001  # seconds; long enough for the loop's thread to make room


class Sink:
    """Counts down, and tells the waiting coroutine when all have come."""

    def __init__(self, wanted: int, done: asyncio.Event) -> None:
        self.left = wanted
        self.done = done

    def receive(self, message: object) -> None:
        self.left -= 1
        if not self.left:
            self.done.set()


def run(n: int) -> Report:
    """``n`` messages in all, from the first send until the last is handled."""
    return asyncio.run(_flood(n // THREADS))


async def _flood(per_thread: int) -> Report:
    loop = Loop()
    poller = Poller(loop)
    poller.attach(asyncio.get_running_loop())
    sink = Sink(per_thread * THREADS, asyncio.Event())
    cell = loop.spawn(Sink.receive, sink)
    gate = threading.Event()
    senders = [threading.Thread(target=_send, args=(cell, per_thread, gate), daemon=True) for _ in range(THREADS)]
    for sender in senders:
        sender.start()
    settle()
    start = time.perf_counter()
    gate.set()
    await sink.done.wait()
    seconds = time.perf_counter() - start
    for sender in senders:
        sender.join()
    poller.detach()
    expect("messages missing", sink.left, 0)
    return Report(per_thread * THREADS / seconds)


def _send(cell: Cell, count: int, gate: threading.Event) -> None:
    gate.wait()
    for number in range(count):
        while True:
            try:
                cell.tell(number)
                break
            except MailboxFull:
                time.sleep(BACK_OFF)


if __name__ == "__main__":
    main(run)
