"""`WebSocketClient`, against our own server, that of `websockets`, and servers that misbehave (E10)."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest
from websockets.asyncio.server import Server, ServerConnection
from websockets.asyncio.server import serve as serve_websockets
from websockets.exceptions import ConnectionClosed as PeerClosed

from greenroom import ActorSystem, Alias, Backoff, ManualClock
from greenroom.errors import ConfigError
from greenroom.meta import (
    Close,
    Closed,
    Connected,
    Received,
    WebSocket,
    WebSocketClient,
    WebSocketConnected,
    Write,
    tls_client,
    tls_server,
)
from tests.gates import turns
from tests.meta.owners import Echo
from tests.meta.sockets.certificates import Certificates
from tests.meta.web.frames import BINARY, CLOSE, PING, PONG, TEXT, close_frame, frame, raw_server
from tests.meta.web.stage import Client, Stage, begin, do, serve

NO_WAIT = Backoff(min=0.001, max=0.002)


def url_of(stage: Stage, path: str = "/ws", scheme: str = "ws") -> str:
    return f"{scheme}://localhost:{stage.port}{path}"


# Our own server
async def test_a_client_speaks_with_our_server(system: ActorSystem) -> None:  # E10
    stage = await serve(system, {"/ws/{room}": WebSocket(subprotocols=["chat"])})
    client = await begin(system, url_of(stage, "/ws/blue?a=b"), headers={"X-Key": "k"}, subprotocols=["chat", "x"])
    up, theirs = await client.probe.expect(Connected), await stage.probe.expect(WebSocketConnected)
    assert isinstance(up, WebSocketConnected)
    assert (up.alias, up.subprotocol) == (client.alias, "chat")
    request = theirs.request
    assert (request.params, request.query, request.headers["x-key"]) == ({"room": "blue"}, {"a": "b"}, "k")
    assert request.headers["host"] == f"localhost:{stage.port}"
    for data in ("grüße", b"\xff\x00", "", b"", "x" * 300_000, bytes(300_000)):
        client.alias.tell(Write(data))
        assert (await stage.probe.expect(Received)).data == data
        theirs.alias.tell(Write(data))
        assert await client.probe.expect(Received) == Received(client.alias, data)
    client.alias.tell(Close(code=4000, text="enough"))
    assert await client.probe.expect(Closed) == Closed(client.alias, "closed", code=4000, text="enough")
    assert await stage.probe.expect(Closed) == Closed(theirs.alias, "eof", code=4000, text="enough")
    await client.alias.terminated()


async def test_a_server_that_closes_is_told_and_the_client_ends(system: ActorSystem) -> None:  # E10
    stage = await serve(system, {"/ws": WebSocket()})
    client = await begin(system, url_of(stage))
    await client.probe.expect(WebSocketConnected)
    (await stage.probe.expect(WebSocketConnected)).alias.tell(Close())
    assert (await client.probe.expect(Closed)).reason == "eof"
    await client.alias.terminated()


async def test_what_is_written_before_it_is_connected_waits(system: ActorSystem) -> None:  # E10
    stage = await serve(system, {"/ws": WebSocket(Echo)})
    client = Client(system)

    def spawn(ctx: Any) -> Alias:
        alias: Alias = ctx.spawn_meta(WebSocketClient(url_of(stage)))
        alias.tell(Write("early"))
        return alias

    client.alias = await do(client.owner, spawn)
    await client.probe.expect(WebSocketConnected)
    assert (await client.probe.expect(Received)).data == "early"
    await client.stop()


@pytest.mark.parametrize("verify", [True, False])
async def test_a_client_speaks_over_tls(system: ActorSystem, certificates: Certificates, verify: bool) -> None:  # E10
    tls = tls_server(certificates.server, certificates.server_key)
    stage = await serve(system, {"/ws": WebSocket(Echo)}, tls=tls)
    trusting = tls_client(certificates.ca) if verify else tls_client(verify=False)
    client = await begin(system, url_of(stage, scheme="wss"), tls=trusting)
    await client.probe.expect(WebSocketConnected)
    client.alias.tell(Write("x" * 200_000))
    assert len((await client.probe.expect(Received)).data) == 200_000
    await client.stop()


async def test_a_client_that_does_not_trust_the_server_says_so(
    system: ActorSystem, certificates: Certificates
) -> None:  # E10
    tls = tls_server(certificates.server, certificates.server_key)
    stage = await serve(system, {"/ws": WebSocket(Echo)}, tls=tls)
    client = await begin(system, url_of(stage, scheme="wss"))  # by the authorities of the system
    assert (await client.probe.expect(Closed)).reason == "tls failed"
    await client.alias.terminated()


@pytest.mark.parametrize(("path", "status"), [("/no", 403), ("/nowhere", 404), ("/text", 426)])
async def test_a_client_that_is_refused_says_with_what(system: ActorSystem, path: str, status: int) -> None:  # E10
    stage = await serve(system, {"/no": WebSocket(authorize=lambda asked: False), "/text": WebSocket()})
    client = Client(system)
    if path == "/text":
        stage = await serve(system, {"/text": WebSocket(authorize=lambda asked: _refusal(426))})
    await client.begin(url_of(stage, path))
    closed = await client.probe.expect(Closed)
    assert closed.reason == "connect failed"
    assert str(status) in str(closed.error)
    await client.alias.terminated()


def _refusal(status: int) -> Any:
    from greenroom.meta import HttpResponse

    return HttpResponse(b"x" * 100_000, status)


@pytest.mark.parametrize(
    "url",
    [
        *("", "http://localhost/", "localhost:80", "//localhost/x", "ws://", "ws:///path", "wss:localhost", "ws//x"),
        *("ws://localhost:port/", "ws://localhost:99999/", "ws://[::1/", "ws://localhost/a b"),
        *(None, 5, b"ws://localhost/"),
    ],
)
def test_what_is_no_url_is_said_at_once(url: Any) -> None:  # E10
    with pytest.raises(ConfigError) as caught:
        WebSocketClient(url)
    assert caught.value.field == "url"


@pytest.mark.parametrize("options", [{"max_message": 0}, {"ping_interval": -1}, {"reconnect": 5}, {"tls": "yes"}])
def test_settings_that_make_no_sense_are_said_at_once(options: Any) -> None:  # E10
    with pytest.raises(ConfigError):
        WebSocketClient("wss://localhost/", **options)


@pytest.mark.parametrize(
    ("field", "options"),
    [
        ("tls", {"tls": tls_client(verify=False)}),
        ("headers", {"headers": {"x": "a\r\nb: c"}}),
        ("headers", {"headers": {"sp ace": "x"}}),
        ("headers", {"headers": {"x": "日本"}}),
        ("headers", {"subprotocols": ["ü"]}),
    ],
)
def test_what_cannot_be_sent_is_said_at_once(field: str, options: Any) -> None:  # E10
    with pytest.raises(ConfigError) as caught:
        WebSocketClient("ws://localhost/", **options)
    assert caught.value.field == field


# Servers by hand
async def test_what_comes_together_with_the_answer_is_not_lost(system: ActorSystem) -> None:  # E10
    async with raw_server() as (accept, url):
        client = await begin(system, url)
        early = frame(TEXT, "early", mask=False) + frame(PING, "p", mask=False) + frame(BINARY, b"x", mask=False)
        with await accept(early=early) as peer:
            await client.probe.expect(WebSocketConnected)
            assert [(await client.probe.expect(Received)).data for _ in range(2)] == ["early", b"x"]
            assert (await peer.frame()).opcode == PONG
            client.alias.tell(Write("masked"))
            said = await peer.frame()
            assert (said.masked, said.payload) == (True, b"masked")
            await peer.send(close_frame(mask=False))
            last = await peer.frame()
            assert (last.opcode, last.masked) == (CLOSE, True)
        assert (await client.probe.expect(Closed)).reason == "eof"


BAD_ANSWERS = [
    b"nonsense\r\n\r\n",
    b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n",
    b"HTTP/1.1 101 X\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: bad\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi",
    b"HTTP/1.1 302 Found\r\nLocation: /elsewhere\r\nContent-Length: 0\r\n\r\n",
    b"",
]


@pytest.mark.parametrize("answer", BAD_ANSWERS)
async def test_a_bad_answer_is_a_failed_attempt_and_another_one_follows(
    system: ActorSystem, answer: bytes
) -> None:  # E10
    async with raw_server() as (accept, url):
        client = await begin(system, url, reconnect=NO_WAIT)
        for _ in range(2):
            with await accept(answer):
                pass
        with await accept():
            await client.probe.fish(WebSocketConnected)
            client.alias.kill()
            await client.alias.terminated()


@pytest.mark.parametrize("answer", BAD_ANSWERS)
async def test_a_bad_answer_is_told(system: ActorSystem, answer: bytes) -> None:  # E10
    async with raw_server() as (accept, url):
        client = await begin(system, url)
        with await accept(answer):
            pass
        watcher = asyncio.ensure_future(client.alias.terminated())
        await watcher
        closed = await client.probe.expect(Closed)
        assert (closed.reason, closed.error is None) == ("connect failed", False)


async def test_a_server_that_does_not_answer_is_given_up(system: ActorSystem) -> None:  # E10
    async with raw_server() as (accept, url):
        client = await begin(system, url, connect_timeout=0.2)
        with await accept(b"HTTP/1.1 101"):
            assert (await client.probe.expect(Closed)).reason == "connect failed"
            await client.alias.terminated()


@pytest.mark.parametrize(
    ("sent", "code", "reason"),
    [
        (frame(TEXT, "x", mask=True), 1002, "bad frame"),
        (frame(TEXT, b"\xff", mask=False), 1007, "bad frame"),
        (frame(5, mask=False), 1002, "bad frame"),
        (frame(BINARY, bytes(2000), mask=False), 1009, "frame too large"),
    ],
    ids=["masked", "no text", "no opcode", "too large"],
)
async def test_a_server_that_breaks_the_rules_is_told_so(
    system: ActorSystem, sent: bytes, code: int, reason: str
) -> None:  # E10
    async with raw_server() as (accept, url):
        client = await begin(system, url, max_message=1000)
        with await accept() as peer:
            await client.probe.expect(WebSocketConnected)
            await peer.send(sent)
            (last,) = await peer.all_frames()
            assert (last.opcode, last.code) == (CLOSE, code)
        closed = await client.probe.expect(Closed)
        assert (closed.reason, closed.code) == (reason, code)


async def test_a_client_connects_again_after_delays_that_grow(system: ActorSystem, clock: ManualClock) -> None:  # E10
    async with raw_server() as (accept, url):
        client = await begin(system, url, reconnect=Backoff(min=10.0, max=40.0, jitter=0.0))
        for _ in range(2):
            with await accept() as peer:
                await client.probe.expect(WebSocketConnected)
                await peer.send(frame(TEXT, "hello", mask=False))
                assert (await client.probe.expect(Received)).data == "hello"
            assert (await client.probe.expect(Closed)).reason == "reset"
            client.alias.tell(Write("waits"))
            await clock.advance(9.9)
            await turns()
            assert await client.alias.inspect("connected") == {"connected": False}
            await clock.advance(0.2)
        with await accept() as peer:
            await client.probe.expect(WebSocketConnected)
            assert (await peer.frame()).payload == b"waits"
            client.alias.tell(Close())
            assert (await peer.frame()).opcode == CLOSE
            await peer.send(close_frame(mask=False))
        assert (await client.probe.expect(Closed)).reason == "closed"
        await client.alias.terminated()  # that was wanted: it does not connect again


async def test_a_client_gives_up_after_so_many_attempts(system: ActorSystem) -> None:  # E10
    async with raw_server() as (accept, url):
        client = await begin(system, url, reconnect=NO_WAIT, max_attempts=3)
        for _ in range(3):
            with await accept(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n"):
                pass
        closed = await client.probe.expect(Closed)
        assert (closed.reason, "403" in str(closed.error)) == ("connect failed", True)
        await client.alias.terminated()


async def test_a_client_asks_whether_the_server_is_there(system: ActorSystem, clock: ManualClock) -> None:  # E10
    async with raw_server() as (accept, url):
        client = await begin(system, url, ping_interval=20.0, ping_timeout=5.0)
        with await accept() as peer:
            await client.probe.expect(WebSocketConnected)
            await clock.advance(20.0)
            asked = await peer.frame()
            assert asked.opcode == PING
            await peer.send(frame(PONG, asked.payload, mask=False))
            await peer.taken()
            await clock.advance(20.0)
            assert (await peer.frame()).opcode == PING
            await clock.advance(5.0)
            assert (await client.probe.expect(Closed)).reason == "idle"


@contextlib.asynccontextmanager
async def python_server(handler: Any, **options: Any) -> AsyncIterator[tuple[Server, str]]:
    async with serve_websockets(handler, "127.0.0.1", 0, **options) as server:
        port = next(iter(server.sockets)).getsockname()[1]
        yield server, f"ws://127.0.0.1:{port}/x"


@pytest.mark.parametrize("compression", ["deflate", None])
async def test_a_client_speaks_with_pythons_websockets(system: ActorSystem, compression: Any) -> None:  # E10
    codes: list[Any] = []

    async def handler(peer: ServerConnection) -> None:
        await peer.send(["fra", "gmen", "ted"])  # at once: it may come with the handshake
        try:
            async for message in peer:
                await peer.send(message)
        except PeerClosed as exc:
            codes.append(exc.rcvd and exc.rcvd.code)

    async with python_server(handler, compression=compression, subprotocols=["a"]) as (_, url):
        client = await begin(system, url, subprotocols=["a"])
        await client.probe.expect(WebSocketConnected)
        assert (await client.probe.expect(Received)).data == "fragmented"
        for data in ("ü", b"\x00", "lorem ipsum " * 20_000):
            client.alias.tell(Write(data))
            assert (await client.probe.expect(Received)).data == data
        client.alias.tell(Close(code=4444))
        assert (await client.probe.expect(Closed)).reason == "closed"
    assert codes in ([4444], [])


async def test_pythons_server_refuses_and_goes_away(system: ActorSystem) -> None:  # E10
    def process(peer: ServerConnection, asked: Any) -> Any:
        return peer.respond(403, "no") if asked.headers.get("x-key") != "k" else None

    async def handler(peer: ServerConnection) -> None:
        await peer.wait_closed()

    async with python_server(handler, process_request=process) as (server, url):
        refused = await begin(system, url)
        assert "403" in str((await refused.probe.expect(Closed)).error)
        client = await begin(system, url, headers={"x-key": "k"})
        await client.probe.expect(WebSocketConnected)
        server.close()
        assert (await client.probe.expect(Closed)).reason == "eof"
