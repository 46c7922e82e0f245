"""Servers on meta-processes: TCP echo with an actor per connection, HTTP, idle connections, connection storms.

Run as ``python -m benchmarks.ours.sockets WORK LOOP --n N``.
"""

from __future__ import annotations

import gc
import sys
from functools import partial
from typing import Any

from benchmarks.netload import FRAME, hold, load, require_files
from benchmarks.ours.stage import perform
from benchmarks.program import Report, main, require, resident_bytes, settle
from greenroom import Actor, ActorSystem
from greenroom.meta import Alias, Fixed, Received, TcpServer, Write
from greenroom.testing import assert_ledger_balanced


class Echo(Actor[Any, None]):
    """One for each connection."""

    def receive(self, message: object) -> None:
        if type(message) is Received:
            message.alias.tell(Write(message.data))


class Front(Actor[str, Any]):
    """Owns the server."""

    def __init__(self, server: Any) -> None:
        self.server = server

    def pre_start(self) -> None:
        self.alias: Alias = self.ctx.spawn_meta(self.server)

    def receive(self, message: str) -> Any:
        return self.alias


class Hello(Actor[Any, str]):
    """Answers requests."""

    def receive(self, message: object) -> str:
        return "hello"


async def _serve(system: ActorSystem, server: Any) -> Alias:
    alias: Alias = await system.spawn(Front, server).ask("alias")
    await alias.started()
    return alias


def _echo_server() -> TcpServer:
    return TcpServer(handler=Echo, framing=Fixed(FRAME))


async def echo(n: int, system: ActorSystem) -> Report:
    """``n`` frames of 64 connections."""
    server = _echo_server()
    await _serve(system, server)
    settle()
    seconds = await load("echo", server.address[1], n)
    await system.settle()
    assert_ledger_balanced(system)
    return Report(n / seconds)


async def http(n: int, system: ActorSystem) -> Report:
    """``n`` requests of 64 connections, each an ask of one actor."""
    require("h11")
    from greenroom.meta import WebServer

    server = WebServer(routes={"/": system.spawn(Hello)})
    await _serve(system, server)
    settle()
    seconds = await load("http", server.address[1], n)
    await system.settle()
    assert_ledger_balanced(system)
    return Report(n / seconds)


async def storm(n: int, system: ActorSystem) -> Report:
    """``n`` connections that come and are dropped."""
    server = _echo_server()
    alias = await _serve(system, server)
    settle()
    seconds = await load("storm", server.address[1], n)
    while (await alias.inspect("connections"))["connections"]:
        pass
    await system.settle()
    assert_ledger_balanced(system)
    return Report(n / seconds)


async def idle(n: int, system: ActorSystem) -> Report:
    """Resident bytes of each of ``n`` idle connections, with its actor."""
    require_files(n)
    server = _echo_server()
    await _serve(system, server)
    await hold(server.address[1], 100, int)
    gc.collect()
    before = resident_bytes()

    def look() -> int:
        gc.collect()
        return resident_bytes()

    return Report((await hold(server.address[1], n, look) - before) / n)


WORKS = {"echo": echo, "http": http, "idle": idle, "storm": storm}


def run(work: str, loop: str, n: int) -> Report:
    """One of them, on `"asyncio"` or `"uvloop"`."""
    return perform(partial(WORKS[work], n), uvloop=loop == "uvloop")


if __name__ == "__main__":
    main(partial(run, sys.argv.pop(1), sys.argv.pop(1)))
