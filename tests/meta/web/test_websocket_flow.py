"""WebSockets over time: pings, backpressure, large messages, and TLS (E10, R7)."""

from __future__ import annotations

import asyncio
import socket
import ssl
import tracemalloc
from typing import Any

import pytest

from greenroom import Actor, ActorSystem, MailboxConfig, ManualClock
from greenroom.errors import ConnectionClosed
from greenroom.meta import (
    Close,
    Closed,
    Received,
    WebLimits,
    WebSocket,
    WebSocketConnected,
    Write,
    tls_server,
)
from tests.gates import turns
from tests.meta.owners import Echo
from tests.meta.sockets.certificates import Certificates
from tests.meta.web.frames import (
    BINARY,
    CLOSE,
    NO_TAKEOVER,
    PING,
    PONG,
    TEXT,
    accept_key,
    close_frame,
    deflated,
    deflated_frames,
    frame,
    handshake,
    open_socket,
)
from tests.meta.web.stage import serve

# Pings


async def test_a_silent_peer_is_asked_whether_it_is_there(system: ActorSystem, clock: ManualClock) -> None:  # E10
    stage = await serve(system, {"/ws": WebSocket(ping_interval=20.0, ping_timeout=5.0)})
    with await open_socket(stage) as peer:
        up = await stage.probe.expect(WebSocketConnected)
        for _ in range(3):
            await clock.advance(20.0)
            asked = await peer.frame()
            assert asked.opcode == PING
            await peer.send(frame(PONG, asked.payload))
            await peer.taken()
        await clock.advance(20.0)
        assert (await peer.frame()).opcode == PING
        await clock.advance(5.0)
        assert await peer.cut_off() == b""
    assert (await stage.probe.expect(Closed)).reason == "idle"
    await up.alias.terminated()


async def test_a_peer_that_speaks_is_not_asked_and_none_never(system: ActorSystem, clock: ManualClock) -> None:  # E10
    stage = await serve(system, {"/ws": WebSocket(Echo, ping_interval=20.0), "/no": WebSocket(ping_interval=None)})
    with await open_socket(stage) as peer, await open_socket(stage, "/no") as quiet:
        await stage.probe.expect(WebSocketConnected)
        for _ in range(10):
            await clock.advance(15.0)
            assert await peer.say("here") == "here"
        await clock.advance(1e6 - 150.0)
        assert (await quiet.farewell()).code == 1000


async def test_what_is_written_to_a_peer_is_no_sign_of_its_life(system: ActorSystem, clock: ManualClock) -> None:  # E10
    stage = await serve(system, {"/ws": WebSocket(ping_interval=20.0, ping_timeout=5.0)})
    with await open_socket(stage) as peer:
        up = await stage.probe.expect(WebSocketConnected)
        for _ in range(5):
            await up.alias.ask(Write("news"))
            await clock.advance(5.0)
        await clock.advance(5.0)
        await turns(50)
        assert await stage.shown("websockets") == 0
        await peer.cut_off()
    assert (await stage.probe.expect(Closed)).reason in ("idle", "reset")


# Backpressure


@pytest.mark.parametrize("seconds", [0.0, 100.0])
async def test_a_handler_with_a_full_mailbox_holds_its_peer_up_and_loses_nothing(
    system: ActorSystem, clock: ManualClock, seconds: float
) -> None:  # E10
    gate, number, text = asyncio.Event(), 3000, "x" * 4000
    heard: list[str] = []

    class Slow(Actor[Any, Any]):
        async def receive(self, message: Any) -> None:
            await gate.wait()
            if isinstance(message, Received):
                heard.append(message.data)
                if len(heard) == number:
                    message.alias.tell(Write("all"))

    owner = system.spawn(Slow, mailbox=MailboxConfig(capacity=5))
    stage = await serve(system, {"/ws": WebSocket(owner=owner)})
    with await open_socket(stage) as peer:
        sending = asyncio.ensure_future(peer.push(b"".join(frame(TEXT, f"{n}{text}") for n in range(number))))
        await peer.stuck()
        assert not sending.done()
        await clock.advance(seconds)  # that its pongs are not read is not the peer's fault
        gate.set()
        await sending
        came = await peer.frame()
        while came.opcode == PING:
            came = await peer.frame()
        assert came.payload == b"all"
        assert heard == [f"{n}{text}" for n in range(number)]


async def test_a_peer_that_does_not_read_holds_up_who_writes_to_it(system: ActorSystem) -> None:  # E10
    stage = await serve(system, {"/ws": WebSocket()})
    with await open_socket(stage, receive_buffer=4096) as peer:
        up = await stage.probe.expect(WebSocketConnected)
        piece = "x" * 100_000
        asks = [up.alias.ask(Write(piece), timeout=None).future() for _ in range(200)]
        before = -1
        while sum(ask.done() for ask in asks) != before:  # it stands still when the buffers are full
            before = sum(ask.done() for ask in asks)
            await turns(100)
        assert before < 200
        for _ in range(200):
            assert await peer.message() == piece
        assert all(size > 100_000 for size in await asyncio.gather(*asks))


async def test_a_socket_that_waits_for_its_peer_can_be_looked_at_and_stopped(system: ActorSystem) -> None:  # E10
    stage = await serve(system, {"/ws": WebSocket()})
    with await open_socket(stage, receive_buffer=4096) as peer:
        up = await stage.probe.expect(WebSocketConnected)
        for _ in range(100):
            up.alias.tell(Write("x" * 100_000))
        await turns(100)
        try:
            assert 0 < (await up.alias.inspect("unwritten"))["unwritten"] < 1_000_000
        finally:
            up.alias.kill()
        await up.alias.terminated()
        assert len(await peer.cut_off()) < 10_000_000


async def test_a_peer_that_sends_pings_and_reads_no_pongs_is_held_up(system: ActorSystem) -> None:  # E10, R7
    listener = socket.create_server(("127.0.0.1", 0))
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 8192)
    stage = await serve(system, {"/ws": WebSocket()}, sock=listener)
    with await open_socket(stage, receive_buffer=4096) as peer:
        up = await stage.probe.expect(WebSocketConnected)
        pings = frame(PING, b"x" * 125) * 500
        for _ in range(60):
            if peer.send_some(pings) < len(pings):
                break
            await turns(3)
        await turns(20)
        assert (await up.alias.inspect("unwritten"))["unwritten"] < 1_000_000
        peer.reset()


async def test_a_peer_that_does_not_say_farewell_is_not_waited_for_longer_than_may_be(
    system: ActorSystem, clock: ManualClock
) -> None:  # E10
    stage = await serve(system, {"/ws": WebSocket()}, limits=WebLimits(linger=5.0))
    with await open_socket(stage) as peer:
        up = await stage.probe.expect(WebSocketConnected)
        up.alias.tell(Close())
        assert (await peer.frame()).opcode == CLOSE
        with pytest.raises(ConnectionClosed):
            await up.alias.ask(Write("too late"))
        await clock.advance(5.0)
        assert await peer.cut_off() == b""
    assert (await stage.probe.expect(Closed)).reason == "closed"


async def test_a_small_message_that_unpacks_to_a_huge_one_is_not_unpacked_whole(system: ActorSystem) -> None:  # R7
    stage = await serve(system, {"/ws": WebSocket(max_message=1000)})
    bomb = frame(BINARY, deflated(bytes(100_000_000)), rsv=4)
    with await open_socket(stage, deflate=True) as peer:
        tracemalloc.start()
        try:
            await peer.push(bomb)
            (last,) = await peer.all_frames()
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert last.code == 1009
        assert peak < 20_000_000


async def test_small_messages_that_unpack_to_large_ones_are_unpacked_as_their_owner_takes_them(
    system: ActorSystem,
) -> None:  # R7
    gate, number, size = asyncio.Event(), 500, 200_000
    heard: list[int] = []

    class Slow(Actor[Any, Any]):
        async def receive(self, message: Any) -> None:
            await gate.wait()
            if isinstance(message, Received):
                heard.append(len(message.data))
                if len(heard) == number:
                    message.alias.tell(Write("all"))

    owner = system.spawn(Slow, mailbox=MailboxConfig(capacity=2))
    stage = await serve(system, {"/ws": WebSocket(owner=owner)})
    # Together, they are more than is read at once.
    bombs = deflated_frames(number, size, noise=1000)
    with await open_socket(stage, deflate=True, **NO_TAKEOVER) as peer:
        sending, peak = await peer.send_until_stuck(bombs)
        assert peak < 4_000_000
        gate.set()
        await sending
        assert await peer.message() == "all"
        assert heard == [size] * number


# TLS


async def open_secure(port: int, certificates: Certificates) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    context = ssl.create_default_context(cafile=str(certificates.ca))
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context, server_hostname="localhost")
    writer.write(handshake())
    head = await reader.readuntil(b"\r\n\r\n")
    assert accept_key().encode() in head
    return reader, writer


async def test_a_socket_over_tls(system: ActorSystem, certificates: Certificates) -> None:  # E10
    context = tls_server(certificates.server, certificates.server_key)
    stage = await serve(system, {"/ws": WebSocket()}, tls=context)
    reader, writer = await open_secure(stage.port, certificates)
    up = await stage.probe.expect(WebSocketConnected)
    assert up.request.scheme == "https"
    writer.write(frame(TEXT, "secret"))
    await stage.probe.expect(Received(up.alias, "secret"))
    await up.alias.ask(Write("x" * 100_000))
    assert (await reader.readexactly(100_010)).endswith(b"x")
    # Two records, of which the second comes when the socket is closed already.
    writer.write(close_frame())
    writer.write(frame(PING, "late"))
    writer.write(frame(TEXT, "late"))
    assert (await reader.read())[:2] == b"\x88\x02"
    writer.close()
    await writer.wait_closed()
    assert (await stage.probe.expect(Closed)).reason == "eof"
