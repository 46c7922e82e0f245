"""An async handler that awaits one future per message: the cost of suspending and going on."""

from __future__ import annotations

import asyncio
import time

from benchmarks.program import Report, expect, main, settle
from greenroom._core.cell import Cell
from greenroom._core.loop import Loop
from greenroom._core.poller import Poller


class Waiter:
    """Waits for one future per message, then sends itself the next."""

    cell: Cell

    def __init__(self, messages: int) -> None:
        self.left = messages
        self.host = asyncio.get_running_loop()
        self.done = asyncio.Event()

    async def receive(self, message: object) -> None:
        future = self.host.create_future()
        self.host.call_soon(future.set_result, None)
        await future
        self.left -= 1
        if self.left:
            self.cell.tell(message)
        else:
            self.done.set()


def run(n: int) -> Report:
    """``n`` messages to one cell, one after another."""
    return asyncio.run(_wait(n))


async def _wait(n: int) -> Report:
    loop = Loop()
    poller = Poller(loop)
    poller.attach(asyncio.get_running_loop())
    waiter = Waiter(n)
    waiter.cell = loop.spawn(Waiter.receive, waiter)
    settle()
    start = time.perf_counter()
    waiter.cell.tell(1)
    await waiter.done.wait()
    seconds = time.perf_counter() - start
    await poller.idle()
    poller.detach()
    expect("messages left", waiter.left, 0)
    return Report(n / seconds)


if __name__ == "__main__":
    main(run)
