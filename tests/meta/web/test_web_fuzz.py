"""Random, truncated, oversized and slow input: an answer or a close, never a crash (R7)."""

from __future__ import annotations

import asyncio
import random
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from greenroom import ActorSystem, ManualClock
from greenroom.meta import Asgi, Route, WebLimits, WebSocket, tls_server
from tests.meta.owners import Echo
from tests.meta.sockets.certificates import Certificates
from tests.meta.web.client import connect, fetch, request
from tests.meta.web.frames import CONT, PING, TEXT, close_frame, frame, handshake, open_socket
from tests.meta.web.stage import Answer, AsyncAnswer, Stage, serve
from tests.meta.web.test_real_clients import size

if TYPE_CHECKING:
    from tests.conftest import Play

pytestmark = pytest.mark.usefixtures("no_memory_is_left")

GOOD = [
    request(),
    request("POST", "/", b"hello world"),
    request("POST", "/stream", b"hello world"),
    request("POST", "/stream", headers={"transfer-encoding": "chunked"}) + b"5\r\nhello\r\n0\r\n\r\n",
    request("GET", "/nowhere?x=y", headers={"expect": "100-continue", "upgrade": "h2c"}),
    request("POST", "/app", b"hello"),
    handshake()
    + frame(TEXT, "hello")
    + frame(PING, "p")
    + frame(TEXT, "a", fin=False)
    + frame(CONT, "b")
    + close_frame(),
]
few = settings(max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)


async def app(scope: object, receive: object, send: object) -> None:
    """An application that reads a little, and fails."""
    raise ValueError("it fails")


async def serve_all(system: ActorSystem, **options: Any) -> Stage:
    routes = {
        "/": system.spawn(Answer, lambda asked: asked.body or "fine"),
        "/stream": Route(system.spawn(AsyncAnswer, size), stream=True),
        "/ws": WebSocket(Echo),
        "/app": Asgi(app, lifespan=False),
    }
    return await serve(system, routes, **options)


async def throw(stage: Stage, sent: bytes) -> bytes:
    """Send something, send no more, and read what comes until it is closed."""
    with await connect(stage) as peer:
        await peer.push(sent)
        with suppress(OSError):
            peer.end()
        return await peer.cut_off()


async def check_alive(stage: Stage) -> None:
    assert (await fetch(stage)).text == "fine"
    with await open_socket(stage) as peer:
        assert await peer.say("fine") == "fine"
    await stage.until_shown("connections", 0)
    await stage.until_shown("websockets", 0)


@st.composite
def spoiled(draw: st.DrawFn) -> bytes:
    """A good request, of which something is changed."""
    sent = bytearray(draw(st.sampled_from(GOOD)))
    for _ in range(draw(st.integers(1, 3))):
        start = draw(st.integers(0, len(sent)))
        end = draw(st.integers(start, min(len(sent), start + 10)))
        sent[start:end] = draw(st.binary(max_size=10))
    return bytes(sent)


@few
@pytest.mark.parametrize("rubbish", [st.binary(max_size=3000), spoiled()], ids=["random bytes", "spoiled requests"])
@given(data=st.data())
def test_rubbish_harms_nobody(play: Play, rubbish: st.SearchStrategy[bytes], data: st.DataObject) -> None:  # R7
    inputs = data.draw(st.lists(rubbish, min_size=1, max_size=15))

    async def program(system: ActorSystem) -> None:
        stage = await serve_all(system)
        for sent in inputs:
            said = await throw(stage, sent)
            assert said == b"" or said.startswith(b"HTTP/1.1 ")
        await check_alive(stage)

    play(program)


@few
@given(inputs=st.lists(st.binary(max_size=500), min_size=1, max_size=15), deflate=st.booleans())
def test_random_frames_harm_nobody(play: Play, inputs: list[bytes], deflate: bool) -> None:  # R7
    async def program(system: ActorSystem) -> None:
        stage = await serve_all(system)
        for sent in inputs:
            with await open_socket(stage, deflate=deflate) as peer:
                await peer.push(frame(TEXT, "good") + sent)
                with suppress(OSError):
                    peer.end()
                await peer.cut_off()
        await check_alive(stage)

    play(program)


@pytest.mark.parametrize("good", GOOD, ids=range(len(GOOD)))
async def test_requests_that_end_anywhere_harm_nobody(system: ActorSystem, good: bytes) -> None:  # R7: truncated
    stage = await serve_all(system)
    cuts = range(0, len(good), max(1, len(good) // 25))
    for said in await asyncio.gather(*(throw(stage, good[:cut]) for cut in cuts)):
        assert said == b"" or said.startswith(b"HTTP/1.1 ")
    await check_alive(stage)


@pytest.mark.parametrize("good", GOOD, ids=range(len(GOOD)))
async def test_requests_that_come_byte_by_byte_are_as_good(system: ActorSystem, good: bytes) -> None:  # R7: slow
    stage = await serve_all(system)
    whole = await throw(stage, good)
    with await connect(stage) as peer:
        for byte in good:
            await peer.push(bytes([byte]))
        peer.end()
        said = await peer.cut_off()
    assert said.split(b"\r\n")[0] == whole.split(b"\r\n")[0]
    await check_alive(stage)


@pytest.mark.parametrize("piece", [b"x", b"x: y\r\n", b"\r\n"])
async def test_headers_that_never_end_are_cut_off(system: ActorSystem, piece: bytes) -> None:  # R7: oversized
    stage = await serve_all(system)
    with await connect(stage) as peer:
        await peer.push(b"GET / HTTP/1.1\r\n" * (piece != b"\r\n") + piece * 200_000)
        assert (await peer.reply()).status in (400, 431)
        await peer.cut_off()
    await check_alive(stage)


async def test_a_chunk_line_that_never_ends_is_cut_off(system: ActorSystem) -> None:  # R7: oversized
    stage = await serve_all(system)
    for tail in (b"5;" + b"x" * 500_000, b"f" * 500_000, b"0\r\n" + b"x: y\r\n" * 100_000):
        with await connect(stage) as peer:
            await peer.push(request("POST", "/stream", headers={"transfer-encoding": "chunked"}) + tail)
            assert (await peer.reply()).status in (400, 413, 431)
            await peer.cut_off()
    await check_alive(stage)


async def test_many_clients_that_go_at_any_time_leave_nothing(system: ActorSystem) -> None:  # R7
    stage = await serve_all(system)
    chance = random.Random(5)

    async def one() -> None:
        good = chance.choice(GOOD)
        with await connect(stage) as peer:
            await peer.push(good[: chance.randrange(len(good))])
            for _ in range(chance.randrange(5)):
                await asyncio.sleep(0)
            if chance.random() < 0.5:
                peer.reset()

    for _ in range(5):
        await asyncio.gather(*(one() for _ in range(40)))
    await check_alive(stage)


async def test_clients_that_wait_for_ever_are_all_closed_in_time(
    system: ActorSystem, clock: ManualClock
) -> None:  # R7: slow
    stage = await serve_all(system, limits=WebLimits(header_timeout=5.0, body_timeout=5.0, keep_alive=5.0))
    starts = [
        b"",
        b"GET",
        b"GET / HTTP/1.1\r\nx",
        request("POST", headers={"content-length": "5"}) + b"he",
        request(),
    ]
    peers = [await connect(stage) for _ in starts]
    for peer, start in zip(peers, starts, strict=True):
        await peer.send(start)
        await peer.taken()
    await stage.until_shown("connections", len(peers))
    await clock.advance(5.0)
    await clock.advance(5.0)
    for peer in peers:
        with peer:
            await peer.cut_off()
    await check_alive(stage)


async def test_many_slow_clients_do_not_hold_up_a_good_one(system: ActorSystem) -> None:  # R7
    stage = await serve_all(system)
    slow = [await connect(stage) for _ in range(50)]
    await asyncio.gather(*(peer.send(b"GET / HTTP/1.1\r\nx") for peer in slow))
    assert (await fetch(stage)).text == "fine"
    await asyncio.gather(*(peer.send(b": y\r\nhost: z\r\n\r\n") for peer in slow))
    for peer in slow:
        with peer:
            assert (await peer.reply()).text == "fine"


@pytest.mark.parametrize("said", [b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\xff\xff", bytes(1000), b""])
async def test_what_is_no_tls_is_cut_off(system: ActorSystem, certificates: Certificates, said: bytes) -> None:  # R7
    tls = tls_server(certificates.server, certificates.server_key)
    stage = await serve_all(system, tls=tls, limits=WebLimits(handshake_timeout=0.2))
    await throw(stage, said)
    with await connect(stage) as peer:
        await peer.push(said)
        await peer.cut_off()  # after its time, at the latest
