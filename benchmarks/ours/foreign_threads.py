"""Four threads send into one actor whose system runs in asyncio on the main thread."""

from __future__ import annotations

import asyncio
import threading
import time
from functools import partial

from benchmarks.ours.stage import expect_all_handled, perform
from benchmarks.program import Report, main, settle
from greenroom import Actor, ActorRef, ActorSystem, MailboxFull

THREADS = 4
BACK_OFF = 0.001  # seconds; long enough for the loop's thread to make room


class Sink(Actor[int, None]):
    """Counts down, and tells the waiting coroutine when all have come."""

    def __init__(self, wanted: int, done: asyncio.Event) -> None:
        self.left = wanted
        self.done = done

    def receive(self, message: int) -> None:
        self.left -= 1
        if not self.left:
            self.done.set()


def run(n: int) -> Report:
    """``n`` messages in all, from the first send until the last is handled."""
    return perform(partial(_flood, n // THREADS))


async def _flood(per_thread: int, system: ActorSystem) -> Report:
    messages = per_thread * THREADS
    done = asyncio.Event()
    sink = system.spawn(Sink, messages, done)
    await system.settle()
    gate = threading.Event()
    senders = [threading.Thread(target=_send, args=(sink, per_thread, gate), daemon=True) for _ in range(THREADS)]
    for sender in senders:
        sender.start()
    settle()
    start = time.perf_counter()
    gate.set()
    # Not until the system settles: between two sends it may well have nothing to do.
    await done.wait()
    seconds = time.perf_counter() - start
    for sender in senders:
        sender.join()
    await expect_all_handled(system, messages)
    return Report(messages / seconds)


def _send(sink: ActorRef[int, None], count: int, gate: threading.Event) -> None:
    gate.wait()
    for number in range(count):
        while True:
            try:
                sink.tell(number)
                break
            except MailboxFull:
                time.sleep(BACK_OFF)


if __name__ == "__main__":
    main(run)
