"""How much a client may send, how long it may take, and that what is to be done is done in turns (R7)."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from typing import Any

import pytest

from greenroom import ActorSystem, ManualClock
from greenroom.meta import HttpRequest, HttpResponse, Route, WebLimits, WebSocket, tls_server
from greenroom.meta.web import exchange, websocket
from greenroom.meta.web.exchange import BodyReader
from greenroom.testing import TestProbe
from tests.gates import turns
from tests.meta.owners import Echo
from tests.meta.sockets.certificates import Certificates
from tests.meta.web.client import connect, fetch, request
from tests.meta.web.frames import TEXT, frame, open_socket
from tests.meta.web.stage import Answer, AsyncAnswer, serve

CHUNKED = {"transfer-encoding": "chunked"}


# How much
@pytest.mark.parametrize("number", [1, 3])
async def test_no_more_connections_than_allowed(system: ActorSystem, number: int) -> None:  # E10, R7
    actor = system.spawn(Answer, lambda asked: "yes")
    stage = await serve(system, {"/": actor}, limits=WebLimits(max_connections=number))
    peers = [await connect(stage) for _ in range(number)]
    for peer in peers:
        assert (await peer.ask()).text == "yes"
    with await connect(stage) as late:
        reply = await late.reply()
        assert (reply.status, reply.headers["connection"]) == (503, "close")
        assert await late.cut_off() == b""
    assert await stage.alias.inspect("connections", "refused") == {"connections": number, "refused": 1}
    assert (await peers[0].ask()).text == "yes"
    peers.pop().sock.close()
    await stage.until_shown("connections", number - 1)
    assert (await fetch(stage)).text == "yes"
    for peer in peers:
        peer.sock.close()


async def test_connections_within_their_tls_handshake_count_too(
    system: ActorSystem, certificates: Certificates
) -> None:  # E10, R7
    tls = tls_server(certificates.server, certificates.server_key)
    stage = await serve(system, {}, tls=tls, limits=WebLimits(max_connections=2, handshake_timeout=300.0))
    with await connect(stage), await connect(stage):
        with await connect(stage) as late:
            assert await late.cut_off() == b""
        assert await stage.alias.inspect("connections", "refused") == {"connections": 0, "refused": 1}


async def test_websockets_are_connections_too(system: ActorSystem) -> None:  # E10
    stage = await serve(system, {"/ws": WebSocket(Echo)}, limits=WebLimits(max_connections=1))
    with await open_socket(stage) as peer:
        with await connect(stage) as late:
            assert (await late.reply()).status == 503
        assert await stage.alias.inspect("connections", "websockets") == {"connections": 0, "websockets": 1}
        await peer.farewell()
    await stage.until_shown("websockets", 0)
    with await open_socket(stage) as peer:
        assert await peer.say("again") == "again"


@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("where", ["path", "header", "headers"])
async def test_headers_that_are_too_large_are_refused(system: ActorSystem, where: str, whole: bool) -> None:  # E10, R7
    actor = system.spawn(Answer, lambda asked: "taken")
    stage = await serve(system, {"/*": actor}, limits=WebLimits(max_headers=2000))
    sent = {
        "path": request(path="/" + "x" * 3000),
        "header": request(headers={"x": "x" * 3000}),
        "headers": request(headers={f"x-{number}": "x" * 10 for number in range(200)}),
    }[where]
    with await connect(stage) as peer:
        if whole:
            await peer.send(sent)
        else:
            await peer.send(sent[:1500])
            await peer.taken()
            await peer.send(sent[1500:2500])
        reply = await peer.reply()
        assert reply.status == 431
        assert await peer.cut_off() == b""


async def test_headers_as_large_as_they_may_be_are_fine(system: ActorSystem) -> None:  # E10
    actor = system.spawn(Answer, lambda asked: str(len(asked.headers["x"])))
    stage = await serve(system, {"/": actor}, limits=WebLimits(max_headers=2000))
    with await connect(stage) as peer:
        for _ in range(3):
            assert (await peer.ask(x="x" * 1800)).text == "1800"


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("chunked", [False, True])
async def test_a_body_that_is_too_large_is_refused(system: ActorSystem, chunked: bool, stream: bool) -> None:  # E10, R7
    async def size(asked: HttpRequest) -> str:
        body = b"".join([piece async for piece in asked.body]) if stream else asked.body
        return str(len(body))

    route = Route(system.spawn(AsyncAnswer, size), stream=stream)
    stage = await serve(system, {"POST /": route}, limits=WebLimits(max_body=1000))
    with await connect(stage) as peer:
        assert (await peer.ask("POST", "/", b"x" * 1000)).text == "1000"
        if chunked:
            await peer.push(request("POST", headers=CHUNKED) + b"1f4\r\n%b\r\n" % (b"x" * 500) * 100)
        else:
            await peer.push(request("POST", "/", b"x" * 50_000))
        assert (await peer.reply()).status == 413
        await peer.cut_off()
    assert (await fetch(stage, "POST", "/", b"x" * 999)).text == "999"


async def test_a_length_that_is_too_large_is_refused_before_anything_has_come(system: ActorSystem) -> None:  # E10, R7
    stage = await serve(system, {"POST /": system.spawn(Answer, lambda asked: "no")})
    with await connect(stage) as peer:
        await peer.send(request("POST", headers={"content-length": "9" * 18}))
        assert (await peer.reply()).status == 413


async def test_a_route_has_a_limit_of_its_own(system: ActorSystem) -> None:  # E10
    actor = system.spawn(Answer, lambda asked: str(len(asked.body)))
    routes = {"/small": Route(actor, max_body=10), "/large": Route(actor, max_body=5000), "/": actor}
    stage = await serve(system, routes, limits=WebLimits(max_body=100))
    for path, most in (("/small", 10), ("/large", 5000), ("/", 100)):
        assert (await fetch(stage, "POST", path, b"x" * most)).text == str(most)
        assert (await fetch(stage, "POST", path, b"x" * (most + 1))).status == 413


# How long
NOT_LONG = WebLimits(header_timeout=10.0, body_timeout=20.0, request_timeout=30.0, keep_alive=40.0, write_timeout=50.0)


async def test_a_connection_on_which_nothing_comes_is_closed(
    system: ActorSystem, clock: ManualClock
) -> None:  # E10, R7
    stage = await serve(system, {}, limits=NOT_LONG)
    with await connect(stage) as peer:
        await stage.until_shown("connections", 1)
        await clock.advance(9.9)
        assert await stage.shown("connections") == 1
        await clock.advance(0.1)
        assert await peer.rest() == b""
    await stage.until_shown("connections", 0)


async def test_headers_that_come_byte_by_byte_must_still_come_in_time(
    system: ActorSystem, clock: ManualClock
) -> None:  # E10, R7: slowloris
    probe = TestProbe(system)
    stage = await serve(system, {"/": probe.ref}, limits=NOT_LONG)
    with await connect(stage) as peer:
        for byte in b"GET / HTTP":
            await peer.push(bytes([byte]))
            await peer.taken()
            await clock.advance(1.0)
        assert (await peer.reply()).status == 408
        assert await peer.cut_off() == b""
    await probe.expect_no()


async def test_a_connection_that_is_kept_is_closed_after_its_time(
    system: ActorSystem, clock: ManualClock
) -> None:  # E10
    stage = await serve(system, {"/": system.spawn(Answer, lambda asked: "yes")}, limits=NOT_LONG)
    with await connect(stage) as peer:
        for _ in range(3):
            assert (await peer.ask()).text == "yes"
            await clock.advance(39.0)
        await clock.advance(1.0)
        assert await peer.rest() == b""


@pytest.mark.parametrize("keep_alive", [None, 40.0])
async def test_the_headers_of_a_later_request_have_their_time_too(
    system: ActorSystem, clock: ManualClock, keep_alive: float | None
) -> None:  # E10, R7
    actor = system.spawn(Answer, lambda asked: "yes")
    stage = await serve(system, {"/": actor}, limits=WebLimits(header_timeout=10.0, keep_alive=keep_alive))
    with await connect(stage) as peer:
        assert (await peer.ask()).text == "yes"
        await clock.advance(39.0)
        await peer.send(b"GET / HT")
        await peer.taken()
        await clock.advance(9.0)  # from the first byte on
        await peer.send(b"TP/1.1\r\nhost: x\r\n\r\n")
        assert (await peer.reply()).text == "yes"
        await peer.send(b"GET / HT")
        await peer.taken()
        await clock.advance(10.0)
        await turns(50)
        assert await stage.shown("connections") == 0
        assert (await peer.reply()).status == 408


@pytest.mark.parametrize("chunked", [False, True])
async def test_a_body_that_stops_coming_is_given_up(
    system: ActorSystem, clock: ManualClock, chunked: bool
) -> None:  # E10, R7
    probe = TestProbe(system)
    stage = await serve(system, {"POST /": probe.ref}, limits=NOT_LONG)
    with await connect(stage) as peer:
        await peer.send(request("POST", headers=CHUNKED if chunked else {"content-length": "100"}))
        for _ in range(5):
            await peer.send(b"1\r\nx\r\n" if chunked else b"x")
            await peer.taken()
            await clock.advance(19.0)  # it may take long, if only it goes on
        await clock.advance(1.0)
        assert (await peer.reply()).status == 408
        assert await peer.cut_off() == b""
    await probe.expect_no()


async def test_the_rest_of_a_body_that_nobody_has_read_is_not_waited_for_long(
    system: ActorSystem, clock: ManualClock
) -> None:  # E10, R7
    actor = system.spawn(Answer, lambda asked: "not read")
    stage = await serve(system, {"POST /": Route(actor, stream=True)}, limits=NOT_LONG)
    with await connect(stage) as peer:
        await peer.send(request("POST", headers={"content-length": "100"}) + b"some")
        assert (await peer.reply()).text == "not read"
        await peer.taken()
        await clock.advance(1.0)
        assert await peer.rest() == b""


async def test_an_actor_that_does_not_answer_in_time_is_a_504(system: ActorSystem, clock: ManualClock) -> None:  # E10
    probe = TestProbe(system)
    routes = {"/": probe.ref, "/slow": Route(probe.ref, timeout=100.0), "/fast": Route(probe.ref, timeout=1.0)}
    stage = await serve(system, routes, limits=NOT_LONG)
    with await connect(stage) as peer:
        for path, seconds in (("/", 30.0), ("/slow", 100.0), ("/fast", 1.0)):
            await peer.send(request(path=path))
            await probe.expect(HttpRequest)
            await clock.advance(seconds - 0.1)
            await turns()
            assert not peer.buffer
            await clock.advance(0.1)
            assert (await peer.reply()).status == 504
        await peer.send(request())
        await probe.expect(HttpRequest)
        await clock.advance(29.0)
        probe.reply("just in time")
        assert (await peer.reply()).text == "just in time"


async def test_none_is_for_ever(system: ActorSystem, clock: ManualClock) -> None:  # E10
    probe = TestProbe(system)
    limits = WebLimits(
        header_timeout=None, body_timeout=None, request_timeout=None, keep_alive=None, write_timeout=None
    )
    stage = await serve(system, {"/": probe.ref}, limits=limits)
    with await connect(stage) as peer:
        await stage.until_shown("connections", 1)
        for _ in range(2):
            await clock.advance(1e6)
            await peer.send(b"POST / HTTP/1.1\r\nhost: x\r\n")
            await peer.taken()
            await clock.advance(1e6)
            await peer.send(b"content-length: 2\r\n\r\n1")
            await peer.taken()
            await clock.advance(1e6)
            await peer.send(b"2")
            await probe.expect(HttpRequest)
            await clock.advance(1e6)
            probe.reply("at last")
            assert (await peer.reply()).text == "at last"


@pytest.mark.parametrize("kind", ["whole", "pieces"])
async def test_a_client_that_does_not_read_is_cut_off(
    system: ActorSystem, clock: ManualClock, kind: str
) -> None:  # E10, R7
    async def pieces() -> AsyncIterator[bytes]:
        while True:
            yield bytes(100_000)

    def answer(asked: HttpRequest) -> HttpResponse:
        return HttpResponse(bytes(20_000_000) if kind == "whole" else pieces())

    stage = await serve(system, {"/": system.spawn(Answer, answer)}, limits=NOT_LONG)
    with await connect(stage, receive_buffer=4096) as peer:
        await peer.send(request())
        await peer.head()
        await turns(200)  # as much as goes is on its way
        await clock.advance(49.0)
        assert await stage.shown("connections") == 1
        await clock.advance(1.0)
        await stage.until_shown("connections", 0)


async def test_a_client_that_reads_slowly_gets_all(system: ActorSystem, clock: ManualClock) -> None:  # E10
    body = bytes(8_000_000)
    stage = await serve(system, {"/": system.spawn(Answer, lambda asked: body)}, limits=NOT_LONG)
    with await connect(stage, receive_buffer=4096) as peer:
        await peer.send(request())
        reply = await peer.head()
        await turns(200)
        await clock.advance(45.0)
        assert await peer.read(int(reply.headers["content-length"])) == body
        await turns(50)
        assert (await peer.ask("HEAD")).status == 200  # the time for that is forgotten
        await clock.advance(39.0)
        assert (await peer.ask("HEAD")).status == 200


async def test_a_closed_connection_on_which_nobody_reads_does_not_linger_for_ever(
    system: ActorSystem, clock: ManualClock
) -> None:  # E10, R7
    listener = socket.create_server(("127.0.0.1", 0))
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    limits = WebLimits(linger=7.0, write_timeout=None, keep_alive=None)
    actor = system.spawn(Answer, lambda asked: HttpResponse(bytes(60_000), headers={"connection": "close"}))
    stage = await serve(system, {"/": actor}, limits=limits, sock=listener)
    with await connect(stage, receive_buffer=2048) as peer:
        await peer.send(request())
        await peer.head()
        await turns(100)
        await clock.advance(7.0)
        await stage.until_shown("connections", 0)
        assert len(await peer.cut_off()) < 60_000


FEW = pytest.mark.parametrize("few", [1, 2, 7])


async def size(asked: HttpRequest) -> str:
    return str(sum([len(piece) async for piece in asked.body]))


@FEW
@pytest.mark.parametrize("stream", [True, False])
async def test_requests_with_many_chunks_are_taken_in_turns(
    system: ActorSystem, monkeypatch: pytest.MonkeyPatch, few: int, stream: bool
) -> None:  # R7
    monkeypatch.setattr(exchange, "AT_ONCE", few)
    head = b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
    answer: Any = AsyncAnswer if stream else Answer
    target = system.spawn(answer, size if stream else lambda asked: str(len(asked.body)))
    stage = await serve(system, {"POST /": Route(target, stream=stream)})
    with await connect(stage) as browser:
        await browser.send(3 * (head + b"2\r\nab\r\n" * 100 + b"0\r\n\r\n"))
        assert [(await browser.reply()).text for _ in range(3)] == ["200"] * 3


@FEW
@pytest.mark.parametrize("most", [1, 1 << 20])
async def test_frames_that_come_together_are_taken_in_turns(
    system: ActorSystem, monkeypatch: pytest.MonkeyPatch, few: int, most: int
) -> None:  # R7
    monkeypatch.setattr(websocket, "AT_ONCE", few)
    monkeypatch.setattr(websocket, "BYTES_AT_ONCE", most)
    stage = await serve(system, {"/ws": WebSocket(Echo)})
    with await open_socket(stage) as peer:
        await peer.send(b"".join(frame(TEXT, b"%d" % number) for number in range(100)))
        assert [await peer.message() for _ in range(100)] == [str(number) for number in range(100)]
        assert await peer.say("and on") == "and on"


@pytest.mark.parametrize("more", [b"", b"G", b"Upgrade"])
async def test_a_client_that_goes_away_is_noticed_whatever_it_has_sent_besides(
    system: ActorSystem, more: bytes
) -> None:  # R7
    waits = asyncio.Event()
    ended: list[bool] = []

    async def pieces() -> AsyncIterator[bytes]:
        yield b"first"
        try:
            await waits.wait()
        finally:
            ended.append(True)

    stage = await serve(system, {"/": system.spawn(Answer, lambda asked: HttpResponse(pieces()))})
    browser = await connect(stage)
    upgrade = b"Upgrade: h2c\r\nConnection: Upgrade\r\n" if more == b"Upgrade" else b""
    await browser.send(b"GET / HTTP/1.1\r\nHost: a\r\n" + upgrade + b"\r\n" + (b"" if upgrade else more))
    assert (await browser.head()).status == 200
    assert await browser.chunk() == b"first"
    browser.reset()
    await stage.until_shown("connections", 0)
    assert ended == [True]


def test_small_pieces_of_a_body_are_put_together() -> None:  # R7
    async def program() -> list[bytes]:
        body = BodyReader(1 << 20, lambda: None)
        for _ in range(3000):
            body.feed(b"ab")
        body.feed(b"c" * 5000)
        body.feed(b"d")
        body.finish()
        return [piece async for piece in body]

    pieces = asyncio.run(program())
    assert b"".join(pieces) == b"ab" * 3000 + b"c" * 5000 + b"d"
    assert len(pieces) <= 4
