"""The same servers on asyncio streams, and uvicorn for HTTP.

Run as ``python -m benchmarks.peers.socket_programs WORK LOOP --n N``.
"""

from __future__ import annotations

import asyncio
import gc
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

from benchmarks.netload import FRAME, hold, load, require_files
from benchmarks.program import Report, main, require, resident_bytes, settle


async def _echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while True:
            writer.write(await reader.readexactly(FRAME))
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()


@asynccontextmanager
async def _streams() -> AsyncIterator[int]:
    server = await asyncio.start_server(_echo, "127.0.0.1", 0, backlog=1024)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


async def echo(n: int) -> Report:
    """``n`` frames of 64 connections."""
    async with _streams() as port:
        settle()
        return Report(n / await load("echo", port, n))


async def storm(n: int) -> Report:
    """``n`` connections that come and are dropped."""
    async with _streams() as port:
        settle()
        return Report(n / await load("storm", port, n))


async def idle(n: int) -> Report:
    """Resident bytes of each of ``n`` idle connections, with its task."""
    require_files(n)
    async with _streams() as port:
        await hold(port, 100, int)
        gc.collect()
        before = resident_bytes()

        def look() -> int:
            gc.collect()
            return resident_bytes()

        return Report((await hold(port, n, look) - before) / n)


async def _hello(scope: Any, receive: Any, send: Any) -> None:
    headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"content-length", b"5")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": b"hello"})


async def _uvicorn(n: int, parser: str) -> Report:
    uvicorn = require("uvicorn")
    require(parser)
    config = uvicorn.Config(
        _hello, port=0, http=parser, ws="none", lifespan="off", access_log=False, log_level="warning", backlog=1024
    )
    config.load()
    server = uvicorn.Server(config)
    server.lifespan = config.lifespan_class(config)
    await server.startup()
    port = server.servers[0].sockets[0].getsockname()[1]
    settle()
    seconds = await load("http", port, n)
    server.should_exit = True
    await server.shutdown()
    return Report(n / seconds)


async def uvicorn_h11(n: int) -> Report:
    """``n`` requests to uvicorn, with the parser that Greenroom has too."""
    return await _uvicorn(n, "h11")


async def uvicorn_httptools(n: int) -> Report:
    """``n`` requests to uvicorn, with a parser in C."""
    return await _uvicorn(n, "httptools")


WORKS = {
    "echo": echo,
    "idle": idle,
    "storm": storm,
    "uvicorn_h11": uvicorn_h11,
    "uvicorn_httptools": uvicorn_httptools,
}


def run(work: str, loop: str, n: int) -> Report:
    """One of them, on `"asyncio"` or `"uvloop"`."""
    factory = require("uvloop").new_event_loop if loop == "uvloop" else None
    with asyncio.Runner(loop_factory=factory) as runner:
        return runner.run(WORKS[work](n))


if __name__ == "__main__":
    main(partial(run, sys.argv.pop(1), sys.argv.pop(1)))
