"""Outside code, in a coroutine, asks an actor one question after the other.

Run as ``python -m benchmarks.ours.ask_outside asyncio --n N``, or with ``uvloop``.
"""

from __future__ import annotations

import sys
import time
from functools import partial

from benchmarks.ours.ask import Echo
from benchmarks.ours.stage import expect_all_handled, perform
from benchmarks.program import Report, main, settle
from greenroom import ActorSystem


def on_asyncio(n: int) -> Report:
    """``n`` asks from a coroutine, on asyncio's own loop."""
    return perform(partial(_ask, n))


def on_uvloop(n: int) -> Report:
    """``n`` asks from a coroutine, on uvloop."""
    return perform(partial(_ask, n), uvloop=True)


async def _ask(n: int, system: ActorSystem) -> Report:
    echo = system.spawn(Echo)
    await system.settle()
    settle()
    start = time.perf_counter()
    for number in range(n):
        await echo.ask(number)
    seconds = time.perf_counter() - start
    await expect_all_handled(system, n)
    return Report(n / seconds)


EVENT_LOOPS = {"asyncio": on_asyncio, "uvloop": on_uvloop}

if __name__ == "__main__":
    main(EVENT_LOOPS[sys.argv.pop(1)])
