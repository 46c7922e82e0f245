"""The echo server: its supervision tree, under real connections (J13)."""

from __future__ import annotations

import asyncio
from typing import Any

from examples.echo.server import tree
from greenroom import ActorRef, ActorSystem, Supervisor
from greenroom.meta import Alias

PATIENCE = 120.0


def play(program: Any) -> None:
    async def main() -> None:
        async with asyncio.timeout(PATIENCE), ActorSystem("echo") as system:
            system.spawn(Supervisor, tree(0), name="server")
            await system.settle()
            await program(system)

    asyncio.run(main())


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


def test_each_connection_has_an_actor_under_its_supervisor() -> None:  # J13
    async def program(system: ActorSystem) -> None:
        streams = [await connect(system) for _ in range(50)]
        echoed = await asyncio.gather(*(says(stream, b"line %03d\n" % at) for at, stream in enumerate(streams)))
        assert echoed == [b"line %03d\n" % at for at in range(50)]
        assert len(handlers(system)) == 50
        for _, writer in streams:
            writer.close()
        await until_gone(system)
        assert handlers(system) == []

    play(program)


def test_a_connection_whose_actor_fails_is_closed_and_the_others_go_on() -> None:  # J13
    async def program(system: ActorSystem) -> None:
        good, bad = await connect(system), await connect(system)
        assert await says(good, b"one\n") == b"one\n"
        bad[1].write(b"fail\n")
        assert await bad[0].read() == b""
        assert await says(good, b"two\n") == b"two\n"
        for _, writer in (good, bad):
            writer.close()

    play(program)


def test_a_listener_that_fails_is_back_and_takes_connections() -> None:  # J13
    async def program(system: ActorSystem) -> None:
        listener = child(system, "/server/listener")
        server: Alias = next(ref for ref in system.actors() if "TcpServer" in ref.path)  # type: ignore[assignment]
        listener.fail(RuntimeError("bad"))
        await server.terminated()
        await listener.started()
        await system.settle()
        stream = await connect(system)
        assert await says(stream, b"again\n") == b"again\n"
        stream[1].close()

    play(program)


def test_a_client_that_leaves_at_once_leaves_no_actor_behind() -> None:  # J13
    async def program(system: ActorSystem) -> None:
        for _ in range(30):
            _, writer = await connect(system)
            writer.transport.abort()
        last = await connect(system)
        assert await says(last, b"last\n") == b"last\n"
        last[1].close()
        while handlers(system):
            await until_gone(system)

    play(program)
