"""WebSocket routes: how one is asked for, granted or refused, owners and handlers, pings, and farewells (E10)."""

from __future__ import annotations

import asyncio
import socket
import ssl
import tracemalloc
from typing import Any

import pytest

from greenroom import Actor, ActorSystem, MailboxConfig, ManualClock, Supervision
from greenroom.errors import ActorTerminated, BadArgument, ConfigError, ConnectionClosed, HttpError
from greenroom.meta import (
    Close,
    Closed,
    HttpRequest,
    HttpResponse,
    Received,
    Register,
    WebLimits,
    WebSocket,
    WebSocketConnected,
    Write,
    tls_server,
)
from greenroom.testing import TestProbe, capture_logs
from tests.gates import turns
from tests.meta.owners import Echo, Ref
from tests.meta.sockets.certificates import Certificates
from tests.meta.web.client import connect, request
from tests.meta.web.frames import (
    BINARY,
    CLOSE,
    CONT,
    NO_TAKEOVER,
    PING,
    PONG,
    TEXT,
    Frame,
    accept_key,
    close_frame,
    deflated,
    deflated_frames,
    frame,
    handshake,
    open_socket,
)
from tests.meta.web.stage import Answer, Reporter, serve


def reporting(witness: Ref) -> Any:
    """A handler that tells a witness."""

    class Handler(Reporter):
        def __init__(self) -> None:
            super().__init__(witness)

    return Handler


# Owners and handlers
async def test_the_parent_of_the_server_hears_of_its_sockets(system: ActorSystem) -> None:  # E10
    stage = await serve(system, {"/chat/{room}": WebSocket()})
    with await open_socket(stage, "/chat/blue?name=me", cookie="a=b") as peer:
        up = await stage.probe.expect(WebSocketConnected)
        assert up.peer == peer.sock.getsockname()
        assert isinstance(up.request, HttpRequest)
        assert (up.request.method, up.request.path, up.request.query) == ("GET", "/chat/blue", {"name": "me"})
        assert (up.request.params, up.request.headers["cookie"]) == ({"room": "blue"}, "a=b")
        await peer.send(frame(TEXT, "grüße") + frame(BINARY, b"\xff"))
        assert await stage.probe.expect(Received) == Received(up.alias, "grüße")
        assert await stage.probe.expect(Received) == Received(up.alias, b"\xff")
        up.alias.tell(Write("zurück"))
        up.alias.tell(Write(b"\xfe"))
        assert [await peer.message() for _ in range(2)] == ["zurück", b"\xfe"]
        assert (await peer.farewell()).code == 1000
    assert await stage.probe.expect(Closed) == Closed(up.alias, "eof", code=1000)
    await up.alias.terminated()


async def test_an_owner_can_be_another_actor_and_pass_a_socket_on(system: ActorSystem) -> None:  # E10
    owner, heir = TestProbe(system), TestProbe(system)
    stage = await serve(system, {"/ws": WebSocket(owner=owner.ref)})
    with await open_socket(stage) as peer:
        up = await owner.expect(WebSocketConnected)
        assert await up.alias.ask(Write("counted")) > 0
        assert await peer.message() == "counted"
        await up.alias.ask(Register(heir.ref))
        await peer.send(frame(TEXT, "to the heir"))
        await heir.expect(Received(up.alias, "to the heir"))
        heir.ref.stop()
        last = await peer.frame()
        assert last.opcode == CLOSE
    await up.alias.terminated()
    await owner.expect_no()
    await stage.probe.expect_no()


async def test_each_socket_has_a_handler_of_its_own(system: ActorSystem) -> None:  # E10
    probe = TestProbe(system)
    stage = await serve(system, {"/ws": WebSocket(reporting(probe.ref))})
    with await open_socket(stage) as one, await open_socket(stage) as two:
        (first, up), (second, _) = [await probe.receive() for _ in range(2)]
        assert isinstance(up, WebSocketConnected)
        assert first != second
        assert await one.say("a") == "a"
        assert await two.say("b") == "b"
        assert [(await probe.receive())[0] for _ in range(2)] == [first, second]
        await one.send(close_frame(4001, "I am off"))
        await one.frame()
        who, closed = await probe.receive()
        assert (who, closed.reason, closed.code, closed.text) == (first, "eof", 4001, "I am off")
        await first.terminated()
        assert await two.say("still") == "still"


@pytest.mark.parametrize(("word", "code"), [("fail", 1011), ("stop", 1000)])
async def test_a_handler_that_ends_closes_its_socket_and_others_go_on(
    system: ActorSystem, word: str, code: int
) -> None:  # E10
    probe = TestProbe(system)
    stage = await serve(system, {"/ws": WebSocket(reporting(probe.ref))})
    with await open_socket(stage) as one, await open_socket(stage) as two:
        await one.send(frame(TEXT, word))
        assert (await one.frame()).code == code
        await one.send(close_frame())
        assert await one.rest() == b""
        assert await two.say("I go on") == "I go on"
        await stage.until_shown("websockets", 1)


async def test_a_handler_that_is_started_again_keeps_its_socket(system: ActorSystem) -> None:  # E10
    probe = TestProbe(system)
    stage = await serve(system, {"/ws": WebSocket(reporting(probe.ref), supervision=Supervision())})
    with await open_socket(stage) as peer:
        await peer.send(frame(TEXT, "fail"))
        assert await peer.say("still") == "still"


async def test_an_owner_closes_with_the_code_it_wants(system: ActorSystem) -> None:  # E10
    stage = await serve(system, {"/ws": WebSocket()})
    for close, code in ((Close(), 1000), (Close(code=4321, text="so ein Käse"), 4321)):
        with await open_socket(stage) as peer:
            up = await stage.probe.expect(WebSocketConnected)
            up.alias.tell(Write("last words"))
            up.alias.tell(close)
            assert await peer.message() == "last words"
            assert (await peer.frame()).payload == code.to_bytes(2, "big") + close.text.encode()
            await peer.send(frame(TEXT, "too late") + frame(PING, "too late") + close_frame(code))
            assert await peer.cut_off() == b""
            closed = await stage.probe.expect(Closed)
            assert (closed.reason, closed.code) == ("closed", code)
            await up.alias.terminated()
            with pytest.raises(ActorTerminated):
                await up.alias.ask(Write("too late"))


@pytest.mark.parametrize(
    "bad", [*(Close(code=code) for code in (0, 1005, 99_999, -1)), Close(text="x" * 124), Close(text="\ud800")]
)
async def test_an_owner_cannot_close_with_what_cannot_be_said(system: ActorSystem, bad: Close) -> None:  # E10
    stage = await serve(system, {"/ws": WebSocket()})
    with await open_socket(stage) as peer:
        up = await stage.probe.expect(WebSocketConnected)
        with pytest.raises(BadArgument):
            await up.alias.ask(bad)
        with capture_logs() as logs:
            up.alias.tell(bad)
            up.alias.tell(Write("it goes on"))
            assert await peer.message() == "it goes on"
        assert any("cannot be said" in one.getMessage() for one in logs.records)
        assert [one.message for one in system.dead_letters.recent()] == [bad]
        await peer.farewell()


async def test_a_socket_can_be_broken_off(system: ActorSystem) -> None:  # E10
    stage = await serve(system, {"/ws": WebSocket()})
    with await open_socket(stage) as peer:
        up = await stage.probe.expect(WebSocketConnected)
        up.alias.tell(Close(abort=True))
        assert await peer.cut_off() == b""
    assert (await stage.probe.expect(Closed)).reason == "closed"


@pytest.mark.parametrize("how", ["eof", "reset"])
async def test_a_peer_that_goes_without_a_farewell_is_told_as_such(system: ActorSystem, how: str) -> None:  # E10
    stage = await serve(system, {"/ws": WebSocket()})
    with await open_socket(stage) as peer:
        up = await stage.probe.expect(WebSocketConnected)
        if how == "reset":
            peer.reset()
    closed = await stage.probe.expect(Closed)
    assert (closed.reason, closed.code) == ("reset", 1006)
    await up.alias.terminated()


async def test_what_is_no_text_and_no_bytes_is_not_written_and_the_socket_goes_on(system: ActorSystem) -> None:  # E10
    stage = await serve(system, {"/ws": WebSocket()})
    with await open_socket(stage) as peer:
        up = await stage.probe.expect(WebSocketConnected)
        for bad in (5, None, ["x"], "\ud800"):
            up.alias.tell(Write(bad))
        up.alias.tell(Write("good"))
        assert await peer.message() == "good"


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
