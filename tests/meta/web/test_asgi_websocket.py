"""WebSockets of ASGI applications (E10)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.routing import WebSocketRoute
from starlette.websockets import WebSocket as StarletteSocket

from greenroom import ActorSystem, ManualClock
from greenroom.meta import Asgi, StopListening, WebLimits
from greenroom.testing import TestProbe, capture_logs
from tests.gates import turns
from tests.meta.peers import PATIENCE
from tests.meta.web.browser import connect
from tests.meta.web.frames import (
    BINARY,
    CLOSE,
    NO_TAKEOVER,
    PING,
    PONG,
    TEXT,
    close_frame,
    deflated,
    deflated_frames,
    frame,
    handshake,
    open_socket,
)
from tests.meta.web.stage import Answer, serve

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]


def app(serve_socket: Callable[[Any, Receive, Send], Awaitable[None]]) -> Asgi:
    """An application that has WebSockets only."""

    async def only(scope: Any, receive: Receive, send: Send) -> None:
        assert scope["type"] == "websocket"
        assert (await receive())["type"] == "websocket.connect"
        await serve_socket(scope, receive, send)

    return Asgi(only, lifespan=False)


async def echo(scope: Any, receive: Receive, send: Send) -> None:
    await send({"type": "websocket.accept"})
    while (message := await receive())["type"] == "websocket.receive":
        await send({**message, "type": "websocket.send"})


async def test_an_application_is_told_of_a_socket_as_asgi_has_it(system: ActorSystem) -> None:  # E10
    probe = TestProbe(system)

    async def describe(scope: Any, receive: Receive, send: Send) -> None:
        probe.ref.tell(scope)
        await send({"type": "websocket.accept", "subprotocol": "b", "headers": [(b"x-one", b"1")]})
        probe.ref.tell(await receive())

    stage = await serve(system, {"/app/*": app(describe)})
    with await open_socket(stage, "/app/x%2Fy?q=1", sec_websocket_protocol="a, b") as peer:
        scope = await probe.receive()
        assert (scope["path"], scope["raw_path"]) == ("/app/x/y", b"/app/x%2Fy")
        assert (scope["root_path"], scope["query_string"], scope["scheme"]) == ("/app", b"q=1", "ws")
        assert (scope["subprotocols"], scope["http_version"]) == (["a", "b"], "1.1")
        assert scope["server"] == stage.address
        assert "method" not in scope
        assert peer.answer.headers["sec-websocket-protocol"] == "b"
        assert peer.answer.headers["x-one"] == "1"
        await peer.send(close_frame(4002, "so long"))
        said = await probe.receive()
        assert said == {"type": "websocket.disconnect", "code": 4002, "reason": "so long"}


async def test_an_application_speaks_with_its_peer(system: ActorSystem) -> None:  # E10
    stage = await serve(system, {"/ws": app(echo)})
    early = frame(TEXT, "early") + frame(PING, "p")
    with await open_socket(stage, early=early, deflate=True) as peer:
        frames = [await peer.frame() for _ in range(2)]
        assert {one.opcode for one in frames} == {TEXT, PONG}
        assert await peer.say("ü" * 10_000) == "ü" * 10_000
        await peer.send(frame(BINARY, deflated(b"packed" * 100), rsv=4))
        assert await peer.message() == b"packed" * 100
        await stage.until_shown("websockets", 1)
        assert (await peer.farewell(4000)).code == 4000
    await stage.until_shown("websockets", 0)


async def test_a_slow_application_holds_its_peer_up_and_loses_nothing(system: ActorSystem) -> None:  # E10
    gate, number, text = asyncio.Event(), 3000, "x" * 4000

    async def slow(scope: Any, receive: Receive, send: Send) -> None:
        await send({"type": "websocket.accept"})
        await gate.wait()
        heard = [(await receive())["text"] for _ in range(number)]
        assert heard == [f"{n}{text}" for n in range(number)]
        await send({"type": "websocket.send", "text": "all"})

    stage = await serve(system, {"/ws": app(slow)})
    with await open_socket(stage) as peer:
        sending = asyncio.ensure_future(peer.push(b"".join(frame(TEXT, f"{n}{text}") for n in range(number))))
        await peer.stuck()
        assert not sending.done()
        gate.set()
        assert await peer.message() == "all"
        assert (await peer.frame()).code == 1000
        await sending


async def test_large_messages_are_unpacked_as_a_slow_application_takes_them(system: ActorSystem) -> None:  # R7
    gate, number, size = asyncio.Event(), 60, 500_000  # fewer than may wait, by their number alone

    async def slow(scope: Any, receive: Receive, send: Send) -> None:
        await send({"type": "websocket.accept"})
        await gate.wait()
        assert [len((await receive())["bytes"]) for _ in range(number)] == [size] * number
        await send({"type": "websocket.send", "text": "all"})

    stage = await serve(system, {"/ws": app(slow)})
    bombs = deflated_frames(number, size, noise=2000)
    with await open_socket(stage, deflate=True, **NO_TAKEOVER) as peer:
        sending, peak = await peer.send_until_stuck(bombs)
        assert peak < 6_000_000
        gate.set()
        await sending
        assert await peer.message() == "all"


@pytest.mark.parametrize(
    ("how", "status", "code"),
    [
        ("refuses", 403, None),
        ("returns", 403, None),
        ("raises", 500, None),
        ("speaks first", 500, None),
        ("closes", 101, 4005),
        ("accepts and returns", 101, 1000),
        ("accepts and raises", 101, 1011),
    ],
)
async def test_an_application_can_end_a_socket_at_any_time(
    system: ActorSystem, how: str, status: int, code: int | None
) -> None:
    async def serve_socket(scope: Any, receive: Receive, send: Send) -> None:
        if how == "speaks first":
            await send({"type": "websocket.send", "text": "x"})
        if how in ("closes", "accepts and returns", "accepts and raises"):
            await send({"type": "websocket.accept"})
        if how in ("refuses", "closes"):
            await send({"type": "websocket.close", "code": 4005, "reason": "enough"})
        if how.endswith("raises"):
            raise ValueError("secret")

    stage = await serve(system, {"/ws": app(serve_socket), "/": system.spawn(Answer, lambda asked: "plain")})
    if status == 101:
        with await open_socket(stage) as peer:
            last = await peer.frame()
            assert (last.opcode, last.code) == (CLOSE, code)
            assert last.payload[2:] == (b"enough" if how == "closes" else b"")
            await peer.send(close_frame(1000))
            assert await peer.rest() == b""
    else:
        with await connect(stage) as browser:
            with capture_logs() as logs:
                await browser.send(handshake())
                reply = await browser.reply()
            assert (reply.status, "secret" in reply.text) == (status, False)
            assert bool([one for one in logs.records if one.levelname == "ERROR"]) == (status == 500)
            assert (await browser.ask()).text == "plain"
    await stage.until_shown("websockets", 0)


async def test_a_bad_handshake_is_not_for_the_application(system: ActorSystem) -> None:  # E10
    stage = await serve(system, {"/ws": app(echo)})
    with await connect(stage) as peer:
        await peer.send(handshake(sec_websocket_key="short"))
        assert (await peer.reply()).status == 400


@pytest.mark.parametrize("how", ["stop", "stop listening"])
async def test_sockets_of_applications_end_with_the_server_and_not_before(system: ActorSystem, how: str) -> None:  # E10
    stage = await serve(system, {"/ws": app(echo)})
    with await open_socket(stage) as peer:
        if how == "stop":
            stage.alias.stop()
            assert (await peer.frame()).code == 1001
            await peer.send(close_frame(1001))
        else:
            await stage.alias.ask(StopListening())
            assert await peer.say("still") == "still"
            await peer.farewell()
        await stage.alias.terminated()


@pytest.mark.config(stop_timeout=1000.0)
async def test_an_application_that_does_not_end_is_broken_off(system: ActorSystem, clock: ManualClock) -> None:  # E10
    ended = asyncio.Event()

    async def stubborn(scope: Any, receive: Receive, send: Send) -> None:
        await send({"type": "websocket.accept"})
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    stage = await serve(system, {"/ws": app(stubborn)}, limits=WebLimits(linger=5.0))
    with await open_socket(stage) as peer:
        stage.alias.stop()
        assert (await peer.frame()).code == 1001
        await peer.send(close_frame(1001))
        assert await peer.rest() == b""
        assert not ended.is_set()
        await clock.advance(5.0)
        await ended.wait()
        await stage.alias.terminated()


async def pour(send: Send) -> None:
    """Send far more than fits anywhere, which only an end of the socket breaks off."""
    for _ in range(10_000):
        await send({"type": "websocket.send", "text": "x" * 10_000})


@pytest.mark.parametrize("how", ["reset", "reset unseen", "farewell"])
async def test_an_application_that_only_sends_ends_with_its_client(system: ActorSystem, how: str) -> None:  # E10
    accepted, gate = asyncio.Event(), asyncio.Event()
    errors: list[BaseException] = []

    async def only_send(scope: Any, receive: Receive, send: Send) -> None:
        await send({"type": "websocket.accept"})
        accepted.set()
        await gate.wait()
        try:
            await pour(send)
        except OSError as exc:
            errors.append(exc)
            raise

    stage = await serve(system, {"/ws": app(only_send)})
    with capture_logs() as logs, await open_socket(stage) as peer:
        await accepted.wait()
        if how == "reset unseen":
            peer.reset()  # it is a write that fails first
        gate.set()
        if how == "reset":
            await peer.frame()  # it sends
            peer.reset()
        elif how == "farewell":
            await peer.send(close_frame(1000))
            await peer.rest()
        await stage.until_shown("websockets", 0)
    assert [str(error) for error in errors] == ["the client has closed the WebSocket"]
    assert [line for line in logs.records if line.levelname == "ERROR"] == []


@pytest.mark.config(stop_timeout=1000.0)
async def test_an_application_that_sends_whatever_it_is_told_holds_nobody_up(
    system: ActorSystem, clock: ManualClock
) -> None:  # E10
    told, ended = asyncio.Event(), asyncio.Event()

    async def deaf(scope: Any, receive: Receive, send: Send) -> None:
        await send({"type": "websocket.accept"})
        with pytest.raises(OSError, match="closed"):
            await pour(send)
        try:
            while True:
                turned = asyncio.Event()
                asyncio.get_running_loop().call_soon(turned.set)
                with pytest.raises(OSError, match="closed"):
                    await send({"type": "websocket.send", "text": "x"})
                assert turned.is_set()  # else nothing else would ever have its turn
                told.set()
        finally:
            ended.set()

    stage = await serve(system, {"/ws": app(deaf)}, limits=WebLimits(linger=5.0))
    peer = await open_socket(stage)
    peer.reset()
    async with asyncio.timeout(PATIENCE):
        await told.wait()
    assert not ended.is_set()
    stage.alias.stop()
    await turns()
    await clock.advance(5.0)
    await ended.wait()
    await stage.alias.terminated()


async def test_an_application_whose_own_connection_fails_has_failed(system: ActorSystem) -> None:  # E10
    async def fail(scope: Any, receive: Receive, send: Send) -> None:
        await send({"type": "websocket.accept"})
        raise ConnectionResetError("its database is gone")

    stage = await serve(system, {"/ws": app(fail)})
    with capture_logs() as logs, await open_socket(stage) as peer:
        assert (await peer.frame()).code == 1011
    assert [line.levelname for line in logs.records if line.levelname == "ERROR"] == ["ERROR"]


async def test_starlettes_sockets(system: ActorSystem) -> None:  # E10
    shouter = system.spawn(Answer, str.upper)

    async def shout(socket: StarletteSocket) -> None:
        await socket.accept()
        async for text in socket.iter_text():
            await socket.send_text(await shouter.ask(text))

    stage = await serve(system, {"/app/*": Asgi(Starlette(routes=[WebSocketRoute("/{room}", shout)]))})
    with await open_socket(stage, "/app/blue") as peer:
        assert await peer.say("hello") == "HELLO"
        await peer.farewell()
