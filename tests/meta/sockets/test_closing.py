"""How connections and servers end: in order, at once, in one direction, and with whom they belong to (E10)."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import pytest

from greenroom import ActorSystem, ExitKind, MailboxConfig, ManualClock
from greenroom.meta import (
    Close,
    Closed,
    CloseWrite,
    Connected,
    LengthPrefixed,
    PeerClosed,
    Received,
    StopListening,
    TcpConnection,
    TcpServer,
    Write,
)
from greenroom.testing import capture_logs
from tests.gates import Event, turns
from tests.meta.owners import AsyncOwner, Ended, Scene, emptied, hear, hear_bytes, serve
from tests.meta.peers import Peer, connect

LARGE = b"0123456789abcdef" * 1_000_000


# -- in order
async def test_what_was_written_before_a_close_reaches_the_peer(system: ActorSystem) -> None:  # E10
    scene = Scene(system)
    server, _ = await serve(scene)
    with await connect(server.address, receive_buffer=131_072) as peer:
        alias = (await hear(scene, Connected)).alias
        for _ in range(3):
            alias.tell(Write(LARGE[:100_000]))
        alias.tell(Close())
        assert await peer.rest() == LARGE[:100_000] * 3
    assert await hear(scene, Closed) == Closed(alias, "closed")
    await alias.terminated()


async def test_what_was_written_before_a_close_reaches_a_peer_that_wrote_what_nobody_reads(
    system: ActorSystem,
) -> None:  # E10
    """A socket that is closed with unread data resets its connection, and what was on its way is lost."""
    scene = Scene(system, AsyncOwner, mailbox=MailboxConfig(capacity=1))
    gate = Event()
    server, _ = await serve(scene, framing=LengthPrefixed(2))
    with await connect(server.address, receive_buffer=131_072) as peer:
        alias = (await hear(scene, Connected)).alias
        scene.owner.tell(lambda ctx: gate.wait())
        assert peer.send_some(b"\0\1x" * 400_000) > 300_000  # more than is read at once
        while not (await alias.inspect("frames_in"))["frames_in"]:
            pass
        for _ in range(10):
            alias.tell(Write(LARGE[:60_000]))
        alias.tell(Close())
        try:
            await turns(200)
            assert await peer.read(600_020) == (b"\xea\x60" + LARGE[:60_000]) * 10
        finally:
            gate.set()
    await alias.terminated()


@pytest.mark.parametrize("who", ["connection", "server", "owner", "system"])
async def test_what_was_written_before_a_stop_reaches_the_peer(system: ActorSystem, who: str) -> None:  # E10
    scene = Scene(system)
    server, server_alias = await serve(scene)
    with await connect(server.address, receive_buffer=131_072) as peer:
        alias = (await hear(scene, Connected)).alias
        alias.tell(Write(LARGE[:100_000]))
        assert await alias.ask(Write(LARGE[:100_000])) == 100_000  # it has been handled
        reading = asyncio.create_task(peer.rest())
        if who == "system":
            await system.shutdown()
        else:
            stopped = {"connection": alias, "server": server_alias, "owner": scene.owner}[who]
            stopped.stop()
            await stopped.terminated()
        assert await reading == LARGE[:100_000] * 2


async def test_a_stop_after_what_is_queued_writes_that_as_well(system: ActorSystem) -> None:  # E10
    scene = Scene(system)
    server, _ = await serve(scene)
    with await connect(server.address) as peer:
        alias = (await hear(scene, Connected)).alias
        for number in range(50):
            alias.tell(Write(b"%02d" % number))
        alias.stop(after_queued=True)
        assert await peer.rest() == b"".join(b"%02d" % number for number in range(50))


async def test_an_owner_that_writes_and_ends_has_written(system: ActorSystem) -> None:  # E10
    scene = Scene(system)
    owner = Scene(system)
    ours, theirs = socket.socketpair()
    with Peer(theirs) as peer:
        alias = await scene.spawn(TcpConnection(ours, owner=owner.owner))
        await hear(owner, Connected)

        def write_and_end(ctx: Any) -> None:
            for number in range(50):
                alias.tell(Write(b"%02d" % number))
            ctx.stop()

        owner.owner.tell(write_and_end)
        assert await peer.rest() == b"".join(b"%02d" % number for number in range(50))
    assert system.dead_letters.count == 0


async def test_a_peer_that_does_not_read_is_waited_for_no_longer_than_the_connection_may_linger(
    system: ActorSystem, clock: ManualClock
) -> None:  # E10
    scene = Scene(system)
    server, _ = await serve(scene, linger=5.0, high_water=len(LARGE) * 2)  # it is not stalled
    with await connect(server.address, receive_buffer=131_072) as peer:
        alias = (await hear(scene, Connected)).alias
        alias.tell(Write(LARGE))
        alias.tell(Close())
        await clock.advance(4.9)
        assert alias.is_alive
        assert scene.probe.messages == []
        await clock.advance(0.1)
        assert await hear(scene, Closed) == Closed(alias, "closed")
        await alias.terminated()
        assert len(await peer.cut_off()) < len(LARGE)


# -- at once
async def test_an_abort_waits_for_nothing(system: ActorSystem) -> None:  # E10
    scene = Scene(system)
    server, _ = await serve(scene, high_water=len(LARGE) * 2)
    with await connect(server.address, receive_buffer=131_072) as peer:
        alias = (await hear(scene, Connected)).alias
        alias.tell(Write(LARGE))
        alias.tell(Close(abort=True))
        assert await hear(scene, Closed) == Closed(alias, "closed")
        await alias.terminated()
        assert len(await peer.cut_off()) < len(LARGE)


async def test_a_close_that_waits_can_become_an_abort(system: ActorSystem) -> None:  # E10
    scene = Scene(system)
    server, _ = await serve(scene, high_water=len(LARGE) * 2, linger=1000.0)
    with await connect(server.address, receive_buffer=131_072) as peer:
        alias = (await hear(scene, Connected)).alias
        alias.tell(Write(LARGE))
        alias.tell(Close())
        alias.tell(Close(abort=True))
        assert await hear(scene, Closed) == Closed(alias, "closed")
        await alias.terminated()
        await peer.cut_off()


async def test_a_peer_that_resets_is_told_apart_from_one_that_closes(system: ActorSystem) -> None:  # E10
    scene = Scene(system)
    server, _ = await serve(scene)
    peer = await connect(server.address)
    alias = (await hear(scene, Connected)).alias
    peer.reset()
    closed = await hear(scene, Closed)
    assert (closed.alias, closed.reason) == (alias, "reset")
    assert isinstance(closed.error, ConnectionError)
    await alias.terminated()


@pytest.mark.parametrize(
    "messages", [[Close(), CloseWrite()], [CloseWrite(), Close()], [Close()] * 3, [CloseWrite()] * 2]
)
async def test_closing_twice_does_no_harm(system: ActorSystem, messages: list[Any]) -> None:  # E10
    scene = Scene(system)
    server, _ = await serve(scene)
    with await connect(server.address) as peer:
        alias = (await hear(scene, Connected)).alias
        for message in messages:
            alias.tell(message)
        assert await peer.rest() == b""
    assert await hear(scene, Closed) == Closed(alias, "closed" if Close() in messages else "eof")
    reason = await alias.terminated()
    assert reason.kind is ExitKind.NORMAL


# -- servers
@pytest.mark.parametrize("asked", [True, False])
async def test_a_server_that_listens_no_more_ends_with_its_last_connection(
    system: ActorSystem, asked: bool
) -> None:  # E10
    scene = Scene(system)
    server, alias = await serve(scene)
    with await connect(server.address) as one, await connect(server.address) as two:
        up = [await hear(scene, Connected) for _ in range(2)]
        if asked:
            await alias.ask(StopListening())
        else:
            alias.tell(StopListening())
            await system.settle()
        with pytest.raises(ConnectionRefusedError):
            await connect(server.address)
        assert await alias.inspect("listening", "connections") == {"listening": False, "connections": 2}
        one.sock.close()
        assert (await hear(scene, Closed)).reason == "eof"
        await two.send(b"still here")
        assert await hear_bytes(scene, 10) == b"still here"
        assert alias.is_alive
    await hear(scene, Closed)
    assert (await scene.probe.expect(Ended)).ref == alias
    assert (await alias.terminated()).kind is ExitKind.NORMAL
    assert not any(one.alias.is_alive for one in up)


async def test_a_server_that_has_no_connection_ends_when_it_listens_no_more(system: ActorSystem) -> None:  # E10
    scene = Scene(system)

    def listen(ctx: Any) -> Any:
        alias = ctx.spawn_meta(TcpServer())
        alias.tell(StopListening())  # before it has begun
        return alias

    for alias in (await scene.do(listen), (await serve(scene))[1]):
        alias.tell(StopListening())
        assert await scene.probe.expect(Ended) == (alias, None)
        assert (await alias.terminated()).kind is ExitKind.NORMAL


async def test_a_server_that_ends_closes_its_connections_and_says_so(system: ActorSystem) -> None:  # E10
    scene = Scene(system)
    server, alias = await serve(scene)
    peers = [await connect(server.address) for _ in range(3)]
    up = [await hear(scene, Connected) for _ in peers]
    alias.stop()
    for peer in peers:
        with peer:
            assert await peer.rest() == b""
    assert {await hear(scene, Closed) for _ in peers} == {Closed(one.alias, "stopped") for one in up}
    await alias.terminated()
    with pytest.raises(ConnectionRefusedError):
        await connect(server.address)


@pytest.mark.parametrize("how", ["stop", "kill"])
async def test_a_connection_that_is_stopped_does_not_count_any_more(system: ActorSystem, how: str) -> None:  # E10
    scene = Scene(system)
    server, alias = await serve(scene)
    with await connect(server.address) as peer:
        up = await hear(scene, Connected)
        getattr(up.alias, how)()
        await up.alias.terminated()
        assert await peer.cut_off() == b""
        assert await hear(scene, Closed) == Closed(up.alias, "stopped")
        assert await alias.inspect("connections") == {"connections": 0}
        alias.tell(StopListening())
        assert await scene.probe.expect(Ended) == (alias, None)


async def test_a_peer_that_writes_no_more_can_still_be_answered(system: ActorSystem) -> None:  # E10
    scene = Scene(system)
    server, _ = await serve(scene, half_open=True)
    with await connect(server.address, receive_buffer=131_072) as peer:
        alias = (await hear(scene, Connected)).alias
        await peer.send(b"question")
        peer.end()
        assert await hear_bytes(scene, 8) == b"question"
        assert await hear(scene, PeerClosed) == PeerClosed(alias)
        assert alias.is_alive
        alias.tell(Write(LARGE[:300_000]))
        alias.tell(Close())
        assert await peer.rest() == LARGE[:300_000]
    assert await hear(scene, Closed) == Closed(alias, "closed")


async def test_without_half_open_a_peer_that_writes_no_more_is_gone(system: ActorSystem) -> None:  # E10
    scene = Scene(system)
    server, _ = await serve(scene)
    with await connect(server.address) as peer:
        alias = (await hear(scene, Connected)).alias
        await alias.ask(Write(b"written"))
        peer.end()
        assert await peer.rest() == b"written"
    assert await hear(scene, Closed) == Closed(alias, "eof")


@pytest.mark.parametrize("half_open", [True, False])
async def test_an_owner_that_writes_no_more_still_receives(system: ActorSystem, half_open: bool) -> None:  # E10
    scene = Scene(system)
    server, _ = await serve(scene, half_open=half_open)
    with await connect(server.address) as peer:
        alias = (await hear(scene, Connected)).alias
        alias.tell(Write(b"last words"))
        alias.tell(CloseWrite())
        assert await peer.rest() == b"last words"
        await peer.send(b"answer")
        assert await hear_bytes(scene, 6) == b"answer"
        assert alias.is_alive
    if half_open:
        await hear(scene, PeerClosed)
    assert (await hear(scene, Closed)).reason == "eof"
    await alias.terminated()


async def test_a_connection_whose_both_directions_are_closed_is_over(system: ActorSystem) -> None:  # E10
    scene = Scene(system)
    server, _ = await serve(scene, half_open=True)
    with await connect(server.address) as peer:
        alias = (await hear(scene, Connected)).alias
        peer.end()
        await hear(scene, PeerClosed)
        alias.tell(Write(b"bye"))
        alias.tell(CloseWrite())
        assert await peer.rest() == b"bye"
        await hear(scene, Closed)
        await alias.terminated()


async def test_what_is_written_after_the_end_of_writing_is_a_dead_letter(system: ActorSystem) -> None:  # E10
    scene = Scene(system)
    server, _ = await serve(scene)
    with await connect(server.address) as peer:
        alias = (await hear(scene, Connected)).alias
        alias.tell(CloseWrite())
        alias.tell(Write(b"too late"))
        assert await peer.rest() == b""
        await peer.send(b"still there?")
        assert await hear_bytes(scene, 12) == b"still there?"
    assert await hear(scene, Closed) == Closed(alias, "eof")
    assert [letter.message for letter in system.dead_letters.recent()] == [Write(b"too late")]


@pytest.mark.parametrize("message", [Close(), CloseWrite()])
async def test_a_connection_that_is_reset_as_it_is_closed_does_not_fail(
    system: ActorSystem, message: Any
) -> None:  # E10
    scene = Scene(system)
    server, alias = await serve(scene, half_open=True)
    peer = await connect(server.address)
    connection = (await hear(scene, Connected)).alias
    with capture_logs() as logs:
        peer.send_some(b"unread")
        peer.reset()  # and the connection has had no turn yet to see any of this
        connection.tell(message)
        while isinstance(heard := await scene.heard(), Received):
            pass
        assert isinstance(heard, Closed)
        await emptied(alias)
    assert [line for line in logs.records if line.levelname == "ERROR"] == []
