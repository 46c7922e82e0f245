"""The echo server: its supervision tree, under real connections (J13)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from examples.echo.server import tree
from greenroom import ActorRef, ActorSystem, Supervisor
from greenroom.meta import Alias

PATIENCE = 120.0


pytestmark = pytest.mark.anyio


@pytest.fixture
async def system() -> AsyncIterator[ActorSystem]:
    """The system of the server."""
    async with ActorSystem("echo") as system, asyncio.timeout(PATIENCE):
        system.spawn(Supervisor, tree(0), name="server")
        await system.settle()
        yield system


def child(system: ActorSystem, path: str) -> ActorRef[Any, Any]:
    ref = system.actor(path)
    assert ref is not None
    return ref


async def connect(system: ActorSystem) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    host, port = (await child(system, "/server/listener").inspect())["address"]
    return await asyncio.open_connection(host, port)


async def says(stream: tuple[asyncio.StreamReader, asyncio.StreamWriter], line: bytes) -> bytes:
    reader, writer = stream
    writer.write(line)
    return await reader.readexactly(len(line))


def handlers(system: ActorSystem) -> list[str]:
    """The actors that have a connection."""
    return [ref.path for ref in system.actors() if ref.path.startswith("/server/connections/")]


async def until_gone(system: ActorSystem) -> None:
    for ref in [ref for ref in system.actors() if ref.path.startswith("/server/connections/")]:
        await ref.terminated()


async def test_each_connection_has_an_actor_under_its_supervisor(system: ActorSystem) -> None:  # J13
    streams = [await connect(system) for _ in range(50)]
    echoed = await asyncio.gather(*(says(stream, b"line %03d\n" % at) for at, stream in enumerate(streams)))
    assert echoed == [b"line %03d\n" % at for at in range(50)]
    assert len(handlers(system)) == 50
    for _, writer in streams:
        writer.close()
    await until_gone(system)
    assert handlers(system) == []


async def test_a_connection_whose_actor_fails_is_closed_and_the_others_go_on(system: ActorSystem) -> None:  # J13
    good, bad = await connect(system), await connect(system)
    assert await says(good, b"one\n") == b"one\n"
    bad[1].write(b"fail\n")
    assert await bad[0].read() == b""
    assert await says(good, b"two\n") == b"two\n"
    for _, writer in (good, bad):
        writer.close()


async def test_a_listener_that_fails_is_back_and_takes_connections(system: ActorSystem) -> None:  # J13
    listener = child(system, "/server/listener")
    server: Alias = next(ref for ref in system.actors() if "TcpServer" in ref.path)  # type: ignore[assignment]
    listener.fail(RuntimeError("bad"))
    await server.terminated()
    await listener.started()
    await system.settle()
    stream = await connect(system)
    assert await says(stream, b"again\n") == b"again\n"
    stream[1].close()


async def test_a_client_that_leaves_at_once_leaves_no_actor_behind(system: ActorSystem) -> None:  # J13
    for _ in range(30):
        _, writer = await connect(system)
        writer.transport.abort()
    last = await connect(system)
    assert await says(last, b"last\n") == b"last\n"
    last[1].close()
    while handlers(system):
        await until_gone(system)
