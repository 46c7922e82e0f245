"""An async handler that awaits one future per message: the cost of suspending and going on."""

from __future__ import annotations

import asyncio
import time
from functools import partial

from benchmarks.ours.stage import expect_all_handled, perform
from benchmarks.program import Report, main, settle
from greenroom import Actor, ActorRef, ActorSystem


class Waiter(Actor[int, None]):
    """Waits for one future per message, then sends itself the next."""

    me: ActorRef[int, None]

    def __init__(self, messages: int, done: asyncio.Event) -> None:
        self.left = messages
        self.done = done
        self.host = asyncio.get_running_loop()

    def pre_start(self) -> None:
        self.me = self.ctx.self

    async def receive(self, message: int) -> None:
        future = self.host.create_future()
        self.host.call_soon(future.set_result, None)
        await future
        self.left -= 1
        if self.left:
            self.me.tell(message)
        else:
            self.done.set()


def run(n: int) -> Report:
    """``n`` messages to one actor, one after another."""
    return perform(partial(_wait, n))


async def _wait(n: int, system: ActorSystem) -> Report:
    done = asyncio.Event()
    waiter = system.spawn(Waiter, n, done)
    await system.settle()
    settle()
    start = time.perf_counter()
    waiter.tell(1)
    # Not until the system settles: it would look each time the handler suspends, and be paid for it.
    await done.wait()
    seconds = time.perf_counter() - start
    await expect_all_handled(system, n)
    return Report(n / seconds)


if __name__ == "__main__":
    main(run)
