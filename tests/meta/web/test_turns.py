"""A little that comes may be much to do: it is done in turns, and neither the loop nor the memory is held up (R7)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from greenroom import ActorSystem
from greenroom.meta import HttpRequest, HttpResponse, Route, WebSocket
from greenroom.meta.web import exchange, websocket
from greenroom.meta.web.exchange import BodyReader
from tests.meta.owners import Echo
from tests.meta.web.browser import connect
from tests.meta.web.frames import TEXT, frame, open_socket
from tests.meta.web.stage import Answer, AsyncAnswer, serve

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
