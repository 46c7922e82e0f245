"""xoscar's side of the rows: ask. Run as ``python -m benchmarks.peers.xoscar_programs ask --n N``."""

from __future__ import annotations

import asyncio
import sys
import time
from typing import Any

from benchmarks.program import Report, main, require, settle


def ask(n: int) -> Report:
    """``n`` calls from one actor to another in the same pool, one after another."""
    xoscar = require("xoscar")
    actor: Any = xoscar.Actor

    class Echo(actor):  # type: ignore[misc]
        async def echo(self, message: object) -> object:
            return message

    class Caller(actor):  # type: ignore[misc]
        async def call(self, echo: Any, times: int) -> float:
            start = time.perf_counter()
            for number in range(times):
                await echo.echo(number)
            return time.perf_counter() - start

    async def play() -> Report:
        pool = await xoscar.create_actor_pool("127.0.0.1:0", n_process=0)
        async with pool:
            address = pool.external_address
            echo = await xoscar.create_actor(Echo, address=address)
            caller = await xoscar.create_actor(Caller, address=address)
            settle()
            return Report(n / await caller.call(echo, n))

    return asyncio.run(play())


WORKS = {"ask": ask}

if __name__ == "__main__":
    main(WORKS[sys.argv.pop(1)])
