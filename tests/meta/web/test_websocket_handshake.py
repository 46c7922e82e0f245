"""How a WebSocket is asked for, and granted or refused (E10)."""

from __future__ import annotations

from typing import Any

import pytest

from greenroom import ActorSystem
from greenroom.errors import ConfigError, HttpError
from greenroom.meta import (
    Closed,
    HttpRequest,
    HttpResponse,
    Received,
    WebSocket,
    WebSocketConnected,
)
from tests.meta.owners import Echo
from tests.meta.web.browser import connect, request
from tests.meta.web.frames import (
    CONT,
    PING,
    PONG,
    TEXT,
    Frame,
    close_frame,
    frame,
    handshake,
    open_socket,
)
from tests.meta.web.stage import Answer, serve


async def test_what_comes_together_with_the_request_is_not_lost(system: ActorSystem) -> None:  # E10
    stage = await serve(system, {"/ws": WebSocket(Echo), "/own": WebSocket()})
    early = frame(TEXT, "early") + frame(PING, "p") + frame(TEXT, "ea", fin=False) + frame(CONT, "r")
    with await open_socket(stage, early=early) as peer:
        frames = [await peer.frame() for _ in range(3)]
        assert Frame(PONG, b"p") in frames
        assert [one.payload for one in frames if one.opcode == TEXT] == [b"early", b"ear"]
    with await open_socket(stage, "/own", early=frame(TEXT, "x") + close_frame(4000)) as peer:
        assert (await peer.frame()).code == 4000
    for kind in (WebSocketConnected, Received, Closed):
        await stage.probe.expect(kind)


async def test_a_handshake_may_come_byte_by_byte(system: ActorSystem) -> None:  # E10
    stage = await serve(system, {"/ws": WebSocket(Echo), "/": system.spawn(Answer, lambda asked: "plain")})
    with await connect(stage) as peer:
        assert (await peer.ask()).text == "plain"  # a connection may become a socket later
        for byte in handshake() + frame(TEXT, "slow"):
            await peer.send(bytes([byte]))
        assert (await peer.head()).status == 101
        assert await peer.read(6) == b"\x81\x04slow"


BAD_HANDSHAKES = [
    ("no upgrade", request(path="/ws"), (426,)),
    ("another upgrade", handshake(upgrade="h2c"), (426,)),
    ("no connection", handshake(without=("connection",)), (400, 426)),
    ("no key", handshake(without=("sec-websocket-key",)), (400,)),
    ("no version", handshake(without=("sec-websocket-version",)), (400, 426)),
    ("old version", handshake(sec_websocket_version="8"), (400, 426)),
    ("no number", handshake(sec_websocket_version="x"), (400, 426)),
    ("a post", handshake(method="POST", content_length="0"), (400, 405)),
    ("http/1.0", handshake().replace(b"HTTP/1.1", b"HTTP/1.0"), (400, 426, 505)),
    ("a short key", handshake(sec_websocket_key="c2hvcnQ="), (400,)),
    ("a key that is no text", handshake(sec_websocket_key="\xff" * 24), (400,)),
    ("a version that is no text", handshake(sec_websocket_version="\xff"), (400, 426)),
    ("a connection that is no text", handshake(connection="\xff"), (400, 426)),
]


@pytest.mark.parametrize(("sent", "statuses"), [row[1:] for row in BAD_HANDSHAKES], ids=[r[0] for r in BAD_HANDSHAKES])
async def test_a_bad_handshake_is_refused(system: ActorSystem, sent: bytes, statuses: tuple[int, ...]) -> None:  # E10
    stage = await serve(system, {"/ws": WebSocket()})
    with await connect(stage) as peer:
        await peer.send(sent)
        reply = await peer.reply()
        assert reply.status in statuses
        if reply.status == 426:
            assert reply.headers["upgrade"].lower() == "websocket"
        if b"version: 8" in sent:
            assert reply.headers["sec-websocket-version"] == "13"
    await stage.probe.expect_no()
    with await open_socket(stage):
        await stage.probe.expect(WebSocketConnected)


async def test_after_a_refusal_the_connection_is_of_use(system: ActorSystem) -> None:  # E10
    routes = {"/ws": WebSocket(authorize=lambda asked: False), "/": system.spawn(Answer, lambda asked: "plain")}
    stage = await serve(system, routes)
    with await connect(stage) as peer:
        assert (await peer.ask(path="/ws")).status == 426
        await peer.send(handshake())
        assert (await peer.reply()).status == 403
        assert (await peer.ask()).text == "plain"


def raising(error: Exception) -> Any:
    def authorize(asked: HttpRequest) -> bool:
        raise error

    return authorize


@pytest.mark.parametrize(
    ("authorize", "status"),
    [
        (lambda asked: asked.headers.get("authorization") == "me", 403),
        (lambda asked: None, 403),
        (lambda asked: HttpResponse(b"who?", 401, {"www-authenticate": "Basic"}), 401),
        (raising(HttpError(418, "no")), 418),
        (raising(ValueError("broken")), 500),
    ],
    ids=["False", "None", "response", "HttpError", "ValueError"],
)
async def test_a_socket_can_be_refused(system: ActorSystem, authorize: Any, status: int) -> None:  # E10
    stage = await serve(system, {"/ws": WebSocket(authorize=authorize)})
    with await connect(stage) as peer:
        await peer.send(handshake())
        reply = await peer.reply()
        assert reply.status == status
        assert status != 401 or reply.headers["www-authenticate"] == "Basic"
    await stage.probe.expect_no()


async def test_a_socket_that_may_be_is_granted(system: ActorSystem) -> None:  # E10
    def authorize(asked: HttpRequest) -> bool:
        return asked.params["room"] == "mine" and asked.headers["authorization"] == "me"

    stage = await serve(system, {"/{room}": WebSocket(Echo, authorize=authorize)})
    with await open_socket(stage, "/mine", authorization="me") as peer:
        assert await peer.say("in") == "in"


class AsyncAuthorize:
    """An async function that cannot be told from a plain one before it is called."""

    async def __call__(self, asked: HttpRequest) -> bool:
        return True


async def test_an_async_authorize_does_not_let_everybody_in(system: ActorSystem) -> None:  # E10
    with pytest.raises(ConfigError) as caught:
        WebSocket(Echo, authorize=AsyncAuthorize().__call__)
    assert caught.value.field == "authorize"
    stage = await serve(system, {"/ws": WebSocket(Echo, authorize=AsyncAuthorize())})
    with await connect(stage) as peer:
        await peer.send(handshake())
        assert (await peer.reply()).status == 500


@pytest.mark.parametrize(
    ("spoken", "offered", "chosen"),
    [
        ((), "a, b", None),
        (("b", "a"), "a, b", "b"),
        (("c", "a"), "a, b", "a"),
        (("c",), "a, b", None),
        (("a",), None, None),
    ],
)
async def test_the_best_subprotocol_is_chosen(
    system: ActorSystem, spoken: tuple[str, ...], offered: Any, chosen: Any
) -> None:  # E10
    stage = await serve(system, {"/ws": WebSocket(subprotocols=spoken)})
    headers = {} if offered is None else {"sec_websocket_protocol": offered}
    with await open_socket(stage, **headers) as peer:
        assert peer.answer.headers.get("sec-websocket-protocol") == chosen
        assert (await stage.probe.expect(WebSocketConnected)).subprotocol == chosen
        await peer.farewell()


@pytest.mark.parametrize(
    "settings",
    [
        {"max_message": 0},
        {"ping_interval": -1.0},
        {"ping_timeout": None},
        {"handler": Echo, "owner": 5},
    ],
)
def test_settings_that_make_no_sense_are_said_at_once(settings: dict[str, Any]) -> None:  # E10
    with pytest.raises(ConfigError):
        WebSocket(**settings)
