"""`TcpServer` without a handler: one owner hears of all connections (E10)."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import pytest

from greenroom import ActorSystem, ExitKind, Supervision
from greenroom.errors import ActorTerminated, ConfigError, ConnectionClosed
from greenroom.meta import (
    Close,
    Closed,
    Connected,
    Fixed,
    LengthPrefixed,
    Lines,
    MetaOptions,
    Received,
    StopListening,
    TcpConnection,
    TcpServer,
    UdpServer,
    Write,
)
from greenroom.testing import TestProbe, capture_logs
from tests.meta.owners import Ended, Scene, all_told, hear, hear_bytes, serve
from tests.meta.peers import LOOPBACK, connect


async def test_the_owner_hears_of_a_connection_of_what_it_brings_and_of_its_end(system: ActorSystem) -> None:  # E10
    scene = Scene(system)
    server, _ = await serve(scene)
    with await connect(server.address) as peer:
        up = await hear(scene, Connected)
        assert up.peer == peer.sock.getsockname()
        await peer.send(b"hello")
        assert await hear_bytes(scene, 5) == b"hello"
        up.alias.tell(Write(b"to you"))
        assert await peer.read(6) == b"to you"
    assert await hear(scene, Closed) == Closed(up.alias, "eof")
    reason = await up.alias.terminated()
    assert reason.kind is ExitKind.NORMAL


async def test_one_owner_can_tell_its_connections_apart(system: ActorSystem) -> None:  # E10
    scene = Scene(system)
    server, _ = await serve(scene, framing=Lines(encoding="utf-8"))
    peers = [await connect(server.address) for _ in range(5)]
    up = [await hear(scene, Connected) for _ in peers]
    assert len({one.alias for one in up}) == 5
    alias_of = {one.peer: one.alias for one in up}
    for number, peer in enumerate(peers):
        await peer.send(f"I am {number}\n".encode())
        said = await hear(scene, Received)
        assert said == Received(alias_of[peer.sock.getsockname()], f"I am {number}")
        said.alias.tell(Write(f"you are {number}"))
    for number, peer in enumerate(peers):
        with peer:
            assert await peer.read(10) == f"you are {number}\n".encode()
    assert {(await hear(scene, Closed)).alias for _ in peers} == set(alias_of.values())


async def test_messages_come_from_the_connection(system: ActorSystem) -> None:  # E10
    scene = Scene(system)
    server, alias = await serve(scene)
    with await connect(server.address) as peer:
        heard = await scene.probe.receive()
        assert heard.sender == heard.message.alias
        assert heard.sender.parent == alias
        await peer.send(b"x")
        assert (await scene.probe.receive()).sender == heard.sender


async def test_the_address_is_known_at_once_and_shown(system: ActorSystem) -> None:  # E10
    scene = Scene(system)
    assert TcpServer().address is None
    server, alias = await serve(scene)
    assert server.address[0] == LOOPBACK
    assert server.address[1] > 0
    shown = {"address": server.address, "listening": True, "connections": 0, "taken": 0, "refused": 0}
    assert await alias.inspect() == shown
    with await connect(server.address):
        up = await hear(scene, Connected)
        assert await alias.inspect("connections", "taken") == {"connections": 1, "taken": 1}
    await hear(scene, Closed)
    await up.alias.terminated()
    assert await alias.inspect("connections", "taken", "nonsense") == {"connections": 0, "taken": 1}


async def test_a_connection_shows_what_has_passed(system: ActorSystem) -> None:  # E10
    scene = Scene(system)
    server, _ = await serve(scene, framing=Fixed(2))
    with await connect(server.address) as peer:
        up = await hear(scene, Connected)
        await peer.send(b"aabbcc")
        assert [(await hear(scene, Received)).data for _ in range(3)] == [b"aa", b"bb", b"cc"]
        assert await up.alias.ask(Write(b"xx")) == 2
        shown = await up.alias.inspect()
        passed = {"bytes_in": 6, "bytes_out": 2, "frames_in": 3, "unwritten": 0}
        assert shown == {"connected": True, "peer": peer.sock.getsockname(), **passed}
        assert await up.alias.inspect("bytes_in") == {"bytes_in": 6}


async def test_an_ipv6_address_can_be_listened_on(system: ActorSystem) -> None:  # E10
    scene = Scene(system)
    server, _ = await serve(scene, host="::1")
    with await connect(server.address) as peer:
        await hear(scene, Connected)
        await peer.send(b"six")
        assert await hear_bytes(scene, 3) == b"six"


async def test_a_listening_socket_can_be_given(system: ActorSystem) -> None:  # E10
    scene = Scene(system)
    sock = socket.create_server((LOOPBACK, 0))
    address = sock.getsockname()
    server, alias = await serve(scene, sock=sock)
    assert server.address == address
    with await connect(address):
        await hear(scene, Connected)
    await hear(scene, Closed)
    alias.stop()
    await alias.terminated()
    assert sock.fileno() == -1


async def test_a_connected_socket_can_be_handed_to_the_system(system: ActorSystem) -> None:  # E10
    scene = Scene(system)
    ours, theirs = socket.socketpair()
    with theirs:
        alias = await scene.spawn(TcpConnection(ours, framing="lines"))
        assert (await hear(scene, Connected)).alias == alias
        theirs.sendall(b"one\ntw")
        assert await hear(scene, Received) == Received(alias, b"one")
        assert await alias.ask(Write(b"back")) == 5
        assert theirs.recv(100) == b"back\n"
    assert await hear(scene, Received) == Received(alias, b"tw")
    assert (await hear(scene, Closed)).reason == "eof"
    assert isinstance(await scene.probe.receive(), Ended)


async def test_another_owner_can_be_named(system: ActorSystem) -> None:  # E10
    scene, other = Scene(system), TestProbe(system)
    ours, theirs = socket.socketpair()
    with theirs:
        alias = await scene.spawn(TcpConnection(ours, owner=other.ref))
        assert (await other.expect(Connected)).alias == alias
        theirs.sendall(b"x")
        await other.expect(Received(alias, b"x"))
        other.ref.stop()
        assert await asyncio.to_thread(theirs.recv, 10) == b""
    ended = await scene.probe.expect(Ended)
    assert ended == (alias, None)


# -- what cannot be done


async def test_a_port_that_is_taken_is_said_where_the_server_is_spawned(system: ActorSystem) -> None:  # E10
    scene = Scene(system)
    with socket.create_server((LOOPBACK, 0)) as taken:
        for server in (TcpServer(port=taken.getsockname()[1]), TcpServer("203.0.113.1")):
            with pytest.raises(OSError, match=r"."):
                await scene.do(lambda ctx, server=server: ctx.spawn_meta(server))  # type: ignore[misc]
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taken:
        taken.bind((LOOPBACK, 0))
        udp = UdpServer(port=taken.getsockname()[1])
        with pytest.raises(OSError, match="in use"):
            await scene.do(lambda ctx: ctx.spawn_meta(udp))
    assert await scene.do(lambda ctx: ctx.metas) == []
    assert system.actors() == [scene.probe.ref, scene.owner]


BAD: list[tuple[str, dict[str, Any]]] = [
    ("port", {"port": -1}),
    ("port", {"port": 65_536}),
    ("port", {"port": "80"}),
    ("port", {"port": True}),
    ("tls", {"tls": "cert.pem"}),
    ("framing", {"framing": 5}),
    ("framing", {"framing": "no such framing"}),
    ("framing", {"framing": Lines}),
    ("max_connections", {"max_connections": 0}),
    ("max_connections", {"max_connections": "many"}),
    ("backlog", {"backlog": 0}),
    ("handshake_timeout", {"handshake_timeout": -1}),
    ("handshake_timeout", {"handshake_timeout": None}),
    ("idle_timeout", {"idle_timeout": -1.0}),
    ("idle_timeout", {"idle_timeout": float("nan")}),
    ("linger", {"linger": "5"}),
    ("linger", {"linger": float("inf")}),
    ("high_water", {"high_water": 0}),
    ("register_timeout", {"register_timeout": -1}),
    ("register", {"register": True, "handler": object}),
    ("handler", {"handler": 42}),
    ("mailbox", {"mailbox": 5}),
    ("write_mailbox", {"write_mailbox": 5}),
    ("supervision", {"supervision": "restart"}),
    ("host", {"host": 5}),
    ("sock", {"sock": "a socket"}),
]


@pytest.mark.parametrize(("field", "options"), BAD)
def test_options_that_make_no_sense_are_named(field: str, options: dict[str, Any]) -> None:  # E10
    with pytest.raises(ConfigError) as caught:
        TcpServer(**options)
    assert caught.value.field == field


@pytest.mark.parametrize("framing", [None, Lines(), LengthPrefixed(1), Fixed(2)])
async def test_what_cannot_be_written_is_a_dead_letter_and_no_harm_is_done(
    system: ActorSystem, framing: Any
) -> None:  # E10
    scene = Scene(system)
    server, _ = await serve(scene, framing=framing)
    with await connect(server.address) as peer:
        up = await hear(scene, Connected)
        with capture_logs() as logs:
            up.alias.tell(Write("text"))
            with pytest.raises(TypeError, match="bytes, not str"):
                await up.alias.ask(Write("text"))
        assert len([record for record in logs.records if record.levelname == "ERROR"]) == 1
        letter = system.dead_letters.recent()[-1]
        assert (letter.message, letter.recipient) == (Write("text"), up.alias)
        assert system.dead_letters.count == 1
        up.alias.tell(Write(b"ok"))
        assert b"ok" in await peer.read(2 if framing is None or isinstance(framing, Fixed) else 3)


async def test_what_a_connection_does_not_know_is_unhandled_and_no_harm_is_done(system: ActorSystem) -> None:  # E10
    scene = Scene(system)
    server, alias = await serve(scene)
    with await connect(server.address) as peer:
        up = await hear(scene, Connected)
        for nonsense in (b"raw bytes", StopListening(), None):
            up.alias.tell(nonsense)
        alias.tell(Write(b"to nobody"))
        assert await up.alias.ask(Write(b"ok")) == 2
        assert await peer.read(2) == b"ok"
        await system.settle()
        assert system.dead_letters.count == 4
        assert alias.is_alive


async def test_a_write_to_a_connection_that_is_over_is_a_dead_letter_and_asked_an_error(
    system: ActorSystem,
) -> None:  # E10
    scene = Scene(system)
    server, _ = await serve(scene)
    with await connect(server.address) as peer:
        up = await hear(scene, Connected)
        up.alias.tell(Close())
        asked = up.alias.ask(Write(b"too late"))
        up.alias.tell(Write(b"too late"))
        # It has ended before its turn comes if a slow machine takes more than one tick for these three.
        with pytest.raises((ConnectionClosed, ActorTerminated)) as caught:
            await asked
        error = caught.value
        assert isinstance(error, ActorTerminated) or (isinstance(error, ConnectionClosed) and error.reason == "closed")
        assert await peer.rest() == b""
    assert await all_told(scene) == ([], Closed(up.alias, "closed"))
    await up.alias.terminated()
    letters = [letter.message for letter in system.dead_letters.recent()]
    assert letters == [Write(b"too late")] * (2 if isinstance(error, ActorTerminated) else 1)


async def test_a_server_that_is_restarted_listens_again(system: ActorSystem) -> None:  # E10
    scene = Scene(system)
    made: list[TcpServer] = []
    again = asyncio.Event()

    def make() -> TcpServer:
        made.append(TcpServer(port=made[0].address[1] if made else 0))
        if len(made) == 2:
            again.set()
        return made[-1]

    alias = await scene.do(lambda ctx: ctx.spawn_meta(make, MetaOptions(supervision=Supervision())))
    with await connect(made[0].address) as peer:
        first = await hear(scene, Connected)
        alias.restart()
        assert await peer.cut_off() == b""
        assert await hear(scene, Closed) == Closed(first.alias, "stopped")
    await again.wait()
    await system.settle()
    with await connect(made[1].address):
        await hear(scene, Connected)
    assert made[1].address == made[0].address
    await hear(scene, Closed)
