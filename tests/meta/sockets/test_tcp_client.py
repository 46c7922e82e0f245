"""`TcpClient`: connects, gives up, and connects again (E10)."""

from __future__ import annotations

import socket
from typing import Any

import pytest

from greenroom import ActorSystem, Backoff, ExitKind, MailboxConfig, ManualClock
from greenroom.errors import ConfigError, GreenroomError
from greenroom.meta import Close, Closed, Connected, Lines, Received, StopListening, TcpClient, TcpServer, Write
from greenroom.testing import TestProbe
from tests.gates import Event, turns
from tests.meta.owners import AsyncOwner, Echo, Ended, Scene, hear, hear_bytes, serve
from tests.meta.peers import LOOPBACK, accept, closed_port

EVERY_SECOND = Backoff(min=1.0, max=1.0)


def listener(port: int = 0) -> socket.socket:
    return socket.create_server((LOOPBACK, port))


async def test_a_client_talks_to_a_server(system: ActorSystem) -> None:  # E10, J13
    scene = Scene(system)
    server, _ = await serve(scene, handler=Echo, framing=Lines())
    client = await scene.spawn(TcpClient(*server.address, framing=Lines()))
    client.tell(Write(b"at once"))  # before it is connected, maybe
    up = await hear(scene, Connected)
    assert (up.alias, up.peer) == (client, server.address)
    assert await hear(scene, Received) == Received(client, b"at once")
    assert await client.ask(Write(b"asked")) == 6
    assert await hear(scene, Received) == Received(client, b"asked")
    client.tell(Close())
    assert await hear(scene, Closed) == Closed(client, "closed")
    assert await scene.probe.expect(Ended) == (client, None)


async def test_a_client_ends_when_the_server_closes(system: ActorSystem) -> None:  # E10
    scene, other = Scene(system), TestProbe(system)
    with listener() as sock:
        client = await scene.spawn(TcpClient(*sock.getsockname(), owner=other.ref))
        with await accept(sock) as peer:
            await other.expect(Connected)
            await peer.send(b"last words")
        await other.expect(Received(client, b"last words"))
        await other.expect(Closed(client, "eof"))
        assert (await client.terminated()).kind is ExitKind.NORMAL


async def test_a_connection_that_is_refused_is_closed_and_says_why(system: ActorSystem) -> None:  # E10
    scene = Scene(system)
    client = await scene.spawn(TcpClient(LOOPBACK, closed_port()))
    client.tell(Write(b"to nobody"))
    closed = await hear(scene, Closed)
    assert (closed.alias, closed.reason) == (client, "connect failed")
    assert isinstance(closed.error, OSError)
    assert await scene.probe.expect(Ended) == (client, None)
    assert [letter.message for letter in system.dead_letters.recent()] == [Write(b"to nobody")]


async def test_an_owner_that_is_full_still_hears_that_there_is_no_connection(system: ActorSystem) -> None:  # E10
    scene, watcher = Scene(system, AsyncOwner, mailbox=MailboxConfig(capacity=1)), Scene(system)
    gate = Event()
    scene.owner.tell(lambda ctx: gate.wait())
    await turns()
    scene.owner.tell("it is full")
    client = await watcher.spawn(TcpClient(LOOPBACK, closed_port(), owner=scene.owner))
    await turns(50)
    gate.set()
    assert await hear(scene, str) == "it is full"
    assert (await hear(scene, Closed)).reason == "connect failed"
    assert (await client.terminated()).kind is ExitKind.NORMAL


async def test_a_server_that_does_not_answer_is_given_up(system: ActorSystem) -> None:  # E10
    """Its queue of connections is full, so that nobody answers the next."""
    scene = Scene(system)
    with socket.socket() as sock:
        sock.bind((LOOPBACK, 0))
        sock.listen(0)
        queued = [socket.socket() for _ in range(4)]
        for one in queued:
            one.setblocking(False)
            one.connect_ex(sock.getsockname())
        client = await scene.spawn(TcpClient(*sock.getsockname(), connect_timeout=0.1))
        closed = await hear(scene, Closed)
        assert (closed.alias, closed.reason) == (client, "connect failed")
        assert isinstance(closed.error, TimeoutError)
        for one in queued:
            one.close()


# -- again


async def test_a_client_connects_again_when_its_server_comes_back(
    system: ActorSystem, clock: ManualClock
) -> None:  # E10
    scene, servers = Scene(system), Scene(system)
    server, alias = await serve(servers, handler=Echo, framing=Lines())
    client = await scene.spawn(TcpClient(*server.address, framing=Lines(), reconnect=EVERY_SECOND))
    await hear(scene, Connected)
    for number in range(3):
        alias.stop()
        await alias.terminated()
        closed = await hear(scene, Closed)
        assert (closed.alias, closed.reason) == (client, "eof")
        for part in range(10):
            client.tell(Write(b"%d.%d" % (number, part)))  # while there is nobody
        await clock.advance(2.5)
        server, alias = await serve(servers, TcpServer(*server.address, handler=Echo, framing=Lines()))
        await clock.advance(1)
        assert (await hear(scene, Connected)).alias == client
        for part in range(10):
            assert (await hear(scene, Received)).data == b"%d.%d" % (number, part)
    client.tell(Close())
    assert (await hear(scene, Closed)).reason == "closed"
    await client.terminated()
    assert system.dead_letters.count == 0


async def test_delays_grow_and_begin_anew_after_a_connection(system: ActorSystem, clock: ManualClock) -> None:  # E10
    scene = Scene(system)
    port = closed_port()
    client = await scene.spawn(TcpClient(LOOPBACK, port, reconnect=Backoff(min=1.0, max=4.0)))

    async def attempts() -> int:
        await turns(50)
        return int((await client.inspect("attempts"))["attempts"])

    while await attempts() < 1:
        pass
    for seconds, expected in [(0.9, 1), (0.1, 2), (1.9, 2), (0.1, 3), (3.9, 3), (0.1, 4), (3.9, 4), (0.1, 5)]:
        await clock.advance(seconds)
        while await attempts() < expected:
            pass
        assert await attempts() == expected
    with listener(port) as sock:
        await clock.advance(4)
        with await accept(sock) as peer:
            await peer.send(b"hello")
            await hear(scene, Connected)
            await hear(scene, Received)
        assert (await hear(scene, Closed)).reason == "eof"
        await clock.advance(1)
        (await accept(sock)).sock.close()
        await hear(scene, Connected)
        await hear(scene, Closed)


async def test_after_some_attempts_it_gives_up(system: ActorSystem, clock: ManualClock) -> None:  # E10
    scene = Scene(system)
    client = await scene.spawn(TcpClient(LOOPBACK, closed_port(), reconnect=EVERY_SECOND, max_attempts=3))
    asked = client.ask(Write(b"x"), timeout=None).future()
    while client.is_alive:
        await turns(20)
        if clock.now() < 1.5:
            assert scene.probe.messages == []
        await clock.advance(0.5)
    closed = await hear(scene, Closed)
    assert (closed.alias, closed.reason) == (client, "connect failed")
    assert clock.now() >= 2.0
    assert await scene.probe.expect(Ended) == (client, None)
    with pytest.raises(GreenroomError):
        await asked


@pytest.mark.parametrize("how", ["close", "abort", "stop", "kill", "owner"])
async def test_a_client_that_tries_again_and_again_can_be_ended(
    system: ActorSystem, clock: ManualClock, how: str
) -> None:  # E10
    scene, other = Scene(system), TestProbe(system)
    client = await scene.spawn(TcpClient(LOOPBACK, closed_port(), reconnect=EVERY_SECOND, owner=other.ref))
    await turns(50)
    await clock.advance(1)
    if how in ("close", "abort"):
        client.tell(Close(abort=how == "abort"))
    elif how == "owner":
        other.ref.stop()
    else:
        getattr(client, how)()
    assert (await scene.probe.expect(Ended)).ref == client


async def test_a_client_that_was_closed_by_its_owner_does_not_connect_again(system: ActorSystem) -> None:  # E10
    scene = Scene(system)
    with listener() as sock:
        client = await scene.spawn(TcpClient(*sock.getsockname(), reconnect=Backoff(min=0.0, max=0.0)))
        with await accept(sock) as peer:
            await hear(scene, Connected)
            client.tell(Write(b"bye"))
            client.tell(Close())
            assert await peer.rest() == b"bye"
        assert await hear(scene, Closed) == Closed(client, "closed")
        assert await scene.probe.expect(Ended) == (client, None)


async def test_a_client_whose_server_resets_connects_again(system: ActorSystem) -> None:  # E10
    scene = Scene(system)
    with listener() as sock:
        client = await scene.spawn(TcpClient(*sock.getsockname(), reconnect=Backoff(min=0.0, max=0.0)))
        for _ in range(20):
            peer = await accept(sock)
            await hear(scene, Connected)
            peer.reset()
            assert (await hear(scene, Closed)).reason == "reset"
        with await accept(sock) as peer:
            await hear(scene, Connected)
            await peer.send(b"at last")
            assert await hear_bytes(scene, 7) == b"at last"
        client.stop()
        await client.terminated()


async def test_frames_begin_anew_with_each_connection(system: ActorSystem) -> None:  # E10
    scene = Scene(system)
    with listener() as sock:
        client = await scene.spawn(TcpClient(*sock.getsockname(), framing=Lines(), reconnect=Backoff(min=0.0, max=0.0)))
        peer = await accept(sock)
        await hear(scene, Connected)
        await peer.send(b"one\nhalf of")
        assert (await hear(scene, Received)).data == b"one"
        peer.reset()
        await hear(scene, Closed)
        with await accept(sock) as peer:
            await hear(scene, Connected)
            await peer.send(b"two\n")
            assert (await hear(scene, Received)).data == b"two"
            client.kill()
            await client.terminated()


async def test_a_parent_that_is_killed_ends_its_clients_whatever_they_do(system: ActorSystem) -> None:  # E10
    with listener() as sock, socket.socket() as full:
        full.bind((LOOPBACK, 0))
        full.listen(0)
        for wait in range(12):
            scene = Scene(system)
            clients = [
                await scene.spawn(TcpClient(*sock.getsockname())),
                await scene.spawn(TcpClient(LOOPBACK, closed_port(), reconnect=EVERY_SECOND)),
                await scene.spawn(TcpClient(*full.getsockname(), reconnect=EVERY_SECOND)),
            ]
            await turns(wait)
            scene.owner.kill()
            for client in clients:
                await client.terminated()
            with await accept(sock) as peer:
                assert await peer.cut_off() == b""


async def test_what_a_client_does_not_know_is_unhandled(system: ActorSystem) -> None:  # E10
    scene = Scene(system)
    server, _ = await serve(scene, handler=Echo)
    client = await scene.spawn(TcpClient(*server.address))
    await hear(scene, Connected)
    client.tell(StopListening())
    await client.ask(Write(b"ok"))
    assert await hear_bytes(scene, 2) == b"ok"
    assert system.dead_letters.count == 1


BAD: list[tuple[str, dict[str, Any]]] = [
    ("port", {"port": 70_000}),
    ("port", {"port": -1}),
    ("connect_timeout", {"connect_timeout": -1}),
    ("connect_timeout", {"connect_timeout": None}),
    ("reconnect", {"reconnect": 5}),
    ("max_attempts", {"max_attempts": 0}),
    ("tls", {"tls": True}),
    ("framing", {"framing": 5}),
    ("high_water", {"high_water": -1}),
    ("idle_timeout", {"idle_timeout": "never"}),
]


@pytest.mark.parametrize(("field", "options"), BAD)
def test_options_that_make_no_sense_are_named(field: str, options: dict[str, Any]) -> None:  # E10
    with pytest.raises(ConfigError) as caught:
        TcpClient(LOOPBACK, **{"port": 1, **options})
    assert caught.value.field == field
