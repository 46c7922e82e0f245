"""Responses that are sent piece by piece (E10)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from greenroom import ActorSystem, ManualClock
from greenroom.meta import HttpRequest, HttpResponse, Route, WebLimits
from greenroom.testing import capture_logs
from tests.gates import Event, turns
from tests.meta.web.browser import connect, fetch, request
from tests.meta.web.stage import Answer, serve

CHUNKED = {"transfer-encoding": "chunked"}


def chunks(*pieces: bytes, end: bytes = b"0\r\n\r\n") -> bytes:
    """A body in pieces."""
    return b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces) + end


async def slowly(*pieces: Any) -> AsyncIterator[Any]:
    for piece in pieces:
        await asyncio.sleep(0)
        yield piece


def plainly(*pieces: Any) -> Iterator[Any]:
    yield from pieces


@pytest.mark.parametrize("kind", [slowly, plainly, lambda *pieces: list(pieces)])
async def test_a_response_is_sent_piece_by_piece(system: ActorSystem, kind: Any) -> None:  # E10
    actor = system.spawn(Answer, lambda asked: HttpResponse(kind(b"one", "zwö", b"", bytearray(b"three"))))
    stage = await serve(system, {"/": actor})
    with await connect(stage) as peer:
        for _ in range(2):
            reply = await peer.ask()
            assert reply.headers["transfer-encoding"] == "chunked"
            assert reply.pieces == [b"one", "zwö".encode(), b"three"]
        head = await peer.ask("HEAD")
        assert (head.status, head.body) == (200, b"")
        assert (await peer.ask()).body == "onezwöthree".encode()


async def test_pieces_go_out_as_they_are_made(system: ActorSystem) -> None:  # E10
    pieces: asyncio.Queue[bytes | None] = asyncio.Queue()

    async def live() -> AsyncIterator[bytes]:
        while (piece := await pieces.get()) is not None:
            yield piece

    stage = await serve(system, {"/": system.spawn(Answer, lambda asked: HttpResponse(live()))})
    with await connect(stage) as peer:
        await peer.send(request())
        assert (await peer.head()).status == 200
        for piece in (b"first", b"second"):
            pieces.put_nowait(piece)
            assert await peer.chunk() == piece
        pieces.put_nowait(None)
        assert await peer.chunk() == b""
        pieces.put_nowait(None)
        assert (await peer.ask()).body == b""


async def test_pieces_with_a_known_length_are_not_chunked(system: ActorSystem) -> None:  # E10
    def answer(asked: HttpRequest) -> HttpResponse:
        return HttpResponse(slowly(b"12", b"345"), headers={"Content-Length": "5"})

    stage = await serve(system, {"/": system.spawn(Answer, answer)})
    with await connect(stage) as peer:
        reply = await peer.ask()
        assert "transfer-encoding" not in reply.headers
        assert reply.body == b"12345"
        assert (await peer.ask()).body == b"12345"


async def test_an_old_client_gets_pieces_until_the_end_of_the_connection(system: ActorSystem) -> None:  # E10: HTTP/1.0
    stage = await serve(system, {"/": system.spawn(Answer, lambda asked: HttpResponse(slowly(b"a", b"b")))})
    with await connect(stage) as peer:
        await peer.send(request(version="1.0"))
        reply = await peer.reply()
        assert "transfer-encoding" not in reply.headers
        assert reply.body == b"ab"


async def test_a_response_that_breaks_off_is_not_ended_as_if_it_were_whole(system: ActorSystem) -> None:  # E10
    async def broken() -> AsyncIterator[bytes]:
        yield b"part"
        raise ValueError("no more")

    routes = {
        "/": system.spawn(Answer, lambda asked: HttpResponse(broken())),
        "/ok": system.spawn(Answer, lambda asked: "fine"),
    }
    stage = await serve(system, routes)
    with await connect(stage) as peer:
        await peer.send(request())
        assert not (await peer.cut_off()).endswith(b"0\r\n\r\n")
    assert (await fetch(stage, path="/ok")).text == "fine"


@pytest.mark.parametrize("bad", [5, None, ["x"]])
async def test_what_is_no_piece_breaks_a_response_off(system: ActorSystem, bad: Any) -> None:  # E10
    stage = await serve(system, {"/": system.spawn(Answer, lambda asked: HttpResponse(plainly(b"part", bad)))})
    with await connect(stage) as peer:
        with capture_logs() as logs:
            await peer.send(request())
            assert (await peer.cut_off()).endswith(b"4\r\npart\r\n")
        assert any("broke off" in one.getMessage() for one in logs.records)


async def test_what_makes_the_pieces_is_closed_when_the_client_goes_away(system: ActorSystem) -> None:  # E10
    closed = asyncio.Event()

    async def endless() -> AsyncIterator[bytes]:
        try:
            while True:
                yield b"x" * 10_000
        finally:
            closed.set()

    stage = await serve(system, {"/": system.spawn(Answer, lambda asked: HttpResponse(endless()))})
    with await connect(stage) as peer:
        await peer.send(request())
        await peer.chunk() if (await peer.head()).status == 200 else None
        peer.reset()
    await closed.wait()
    await stage.until_shown("connections", 0)


async def test_a_client_that_does_not_read_holds_the_pieces_up(system: ActorSystem) -> None:  # E10
    made = 0

    async def many() -> AsyncIterator[bytes]:
        nonlocal made
        for _ in range(1000):
            made += 1
            yield bytes(100_000)

    stage = await serve(system, {"/": system.spawn(Answer, lambda asked: HttpResponse(many()))})
    with await connect(stage, receive_buffer=4096) as peer:
        await peer.send(request())
        await peer.head()
        before = -1
        while made != before:  # it stands still when the buffers are full
            before = made
            await turns(100)
        assert made < 500
        peer.reset()


async def test_both_ways_at_once(system: ActorSystem) -> None:  # E10
    async def shout(body: Any) -> AsyncIterator[bytes]:
        async for piece in body:
            yield bytes(piece).upper()

    actor = system.spawn(Answer, lambda asked: HttpResponse(shout(asked.body)))
    stage = await serve(system, {"POST /": Route(actor, stream=True)})
    with await connect(stage) as peer:
        await peer.send(request("POST", headers=CHUNKED))
        assert (await peer.head()).status == 200
        for word in (b"one", b"two", b"three"):
            await peer.send(chunks(word, end=b""))
            assert await peer.chunk() == word.upper()
        await peer.send(chunks())
        assert await peer.chunk() == b""
        await peer.send(request("POST", "/", b"again"))
        assert (await peer.reply()).body == b"AGAIN"


async def test_a_response_without_further_pieces_ends_when_the_client_has_gone_away(
    system: ActorSystem, clock: ManualClock
) -> None:  # E10, R7
    ended = Event()

    async def silent() -> AsyncIterator[bytes]:
        try:
            yield b"first"
            await Event().wait()
        finally:
            ended.set()

    actor = system.spawn(Answer, lambda asked: HttpResponse(silent()))
    stage = await serve(system, {"/": actor}, limits=WebLimits(write_timeout=50.0))
    with await connect(stage) as peer:
        await peer.send(request())
        await peer.head()
        assert await peer.chunk() == b"first"
        await clock.advance(200.0)  # who is there may wait for as long as it likes
        assert await stage.shown("connections") == 1
    while not ended.is_set():  # when the end of the stream is seen, nothing tells
        await clock.advance(50.0)
        await turns()
    await stage.until_shown("connections", 0)


async def test_a_client_that_has_closed_its_side_gets_all_pieces_however_long_they_take(
    system: ActorSystem, clock: ManualClock
) -> None:  # E10
    pieces: asyncio.Queue[bytes | None] = asyncio.Queue()

    async def live() -> AsyncIterator[bytes]:
        while (piece := await pieces.get()) is not None:
            yield piece

    actor = system.spawn(Answer, lambda asked: HttpResponse(live()))
    stage = await serve(system, {"/": actor}, limits=WebLimits(write_timeout=50.0))
    with await connect(stage) as peer:
        await peer.send(request())
        peer.end()
        await peer.head()
        for _ in range(5):
            await clock.advance(49.0)
            pieces.put_nowait(b"piece")
            assert await peer.chunk() == b"piece"
        pieces.put_nowait(None)
        assert await peer.chunk() == b""
        assert await peer.rest() == b""
