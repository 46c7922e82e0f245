"""How a server ends: gracefully, at once, and with clients that go first (E10)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

import pytest

from greenroom import ActorSystem, ExitKind, ManualClock
from greenroom.meta import (
    Closed,
    HttpRequest,
    HttpResponse,
    StopListening,
    WebLimits,
    WebSocket,
    WebSocketConnected,
    tls_server,
)
from greenroom.testing import TestProbe, capture_logs
from tests.meta.owners import Echo
from tests.meta.sockets.certificates import Certificates
from tests.meta.web.client import HttpPeer, connect, fetch, request
from tests.meta.web.frames import CLOSE, close_frame, open_socket
from tests.meta.web.stage import Answer, AsyncAnswer, Stage, serve

if TYPE_CHECKING:
    from tests.conftest import Play


async def until_refused(stage: Stage) -> None:
    """Wait until nobody listens any more."""
    async with asyncio.timeout(50):
        while True:
            try:
                with await connect(stage) as peer:
                    await peer.cut_off()
            except ConnectionError:
                return


def end(stage: Stage, how: str) -> None:
    if how == "stop":
        stage.alias.stop()
    elif how == "owner":
        stage.owner.stop()
    else:
        stage.alias.tell(StopListening())


@pytest.mark.parametrize("how", ["stop", "owner", "stop listening"])
async def test_a_request_that_is_being_answered_is_answered_to_the_end(system: ActorSystem, how: str) -> None:  # E10
    probe = TestProbe(system)
    stage = await serve(system, {"/": probe.ref}, limits=WebLimits(linger=200.0))
    with await connect(stage) as peer, await connect(stage) as idle:
        await stage.until_shown("connections", 2)
        await peer.send(request())
        await probe.expect(HttpRequest)
        end(stage, how)
        assert await idle.rest() == b""
        await until_refused(stage)
        probe.reply("to the end")
        reply = await peer.reply()
        assert (reply.text, reply.headers["connection"]) == ("to the end", "close")
        assert await peer.rest() == b""
    assert (await stage.alias.terminated()).kind is not ExitKind.KILLED


@pytest.mark.parametrize("how", ["stop", "stop listening"])
async def test_a_response_in_pieces_is_sent_to_the_end(system: ActorSystem, how: str) -> None:  # E10
    gate = asyncio.Event()

    async def pieces() -> AsyncIterator[bytes]:
        yield b"first"
        await gate.wait()
        for _ in range(100):
            yield bytes(10_000)

    actor = system.spawn(Answer, lambda asked: HttpResponse(pieces()))
    stage = await serve(system, {"/": actor}, limits=WebLimits(linger=200.0))
    with await connect(stage) as peer:
        await peer.send(request() + request())
        await peer.head()
        assert await peer.chunk() == b"first"
        end(stage, how)
        await until_refused(stage)
        gate.set()
        size = 0
        while piece := await peer.chunk():
            size += len(piece)
        assert size == 1_000_000
        assert await peer.cut_off() == b""  # what was asked for after it is not begun
    await stage.alias.terminated()


async def test_a_request_whose_body_is_coming_is_answered_or_refused_clearly(system: ActorSystem) -> None:  # E10
    actor = system.spawn(Answer, lambda asked: asked.body)
    stage = await serve(system, {"/": actor}, limits=WebLimits(linger=200.0))
    with await connect(stage) as peer:
        await peer.send(request("POST", headers={"content-length": "5"}) + b"he")
        await stage.until_shown("requests", 1)
        stage.alias.stop()
        await until_refused(stage)
        await peer.send(b"llo")
        reply = await peer.reply()
        assert (reply.status, reply.text) == (200, "hello") or reply.status == 503
        assert reply.headers["connection"] == "close"
        assert await peer.rest() == b""
    await stage.alias.terminated()


@pytest.mark.config(stop_timeout=1000.0)
async def test_an_answer_that_never_comes_is_waited_for_no_longer_than_may_be(
    system: ActorSystem, clock: ManualClock
) -> None:  # E10
    probe = TestProbe(system)
    # By the system's clock, as all its times; by another one, this takes too long.
    limits = WebLimits(linger=25.0, request_timeout=None)
    stage = await serve(system, {"/": probe.ref}, limits=limits)
    with await connect(stage) as peer:
        await peer.send(request())
        await probe.expect(HttpRequest)
        stage.alias.stop()
        await until_refused(stage)
        before = asyncio.get_running_loop().time()
        await clock.advance(25.0)
        assert await peer.cut_off() == b""
        assert asyncio.get_running_loop().time() - before < 20.0
    await stage.alias.terminated()


async def test_a_server_that_is_killed_breaks_off(system: ActorSystem) -> None:  # E10
    probe = TestProbe(system)
    stage = await serve(system, {"/": probe.ref, "/ws": WebSocket(Echo)})
    with await connect(stage) as peer, await connect(stage) as idle, await open_socket(stage) as other:
        await peer.send(request())
        await probe.expect(HttpRequest)
        stage.alias.kill()
        assert await peer.cut_off() == b""
        assert await idle.cut_off() == b""
        await other.cut_off()
    assert (await stage.alias.terminated()).kind is ExitKind.KILLED
    probe.reply("nobody hears")
    with pytest.raises(ConnectionError):
        await connect(stage)


async def test_a_system_that_ends_answers_or_refuses_what_it_is_asked(play: Play) -> None:  # E10
    from greenroom import SystemConfig

    entered = asyncio.Event()

    async def slow(asked: HttpRequest) -> str:
        entered.set()
        await asyncio.sleep(0)
        return "done"

    system = ActorSystem("ending", config=SystemConfig())
    async with system:
        stage = await serve(system, {"/": system.spawn(AsyncAnswer, slow)})
        peer = await connect(stage)
        await peer.send(request())
        await entered.wait()
    with peer:
        said = await peer.cut_off()
        assert said == b"" or b" 200 " in said or b" 503 " in said
    assert system.actors() == []


async def test_sockets_are_told_that_the_server_goes_away(system: ActorSystem) -> None:  # E10
    stage = await serve(system, {"/ws": WebSocket(Echo)})
    with await open_socket(stage) as peer:
        stage.alias.stop()
        last = await peer.frame()
        assert (last.opcode, last.code) == (CLOSE, 1001)
        await peer.send(close_frame(1001))
        assert await peer.rest() == b""
    await stage.alias.terminated()


@pytest.mark.config(stop_timeout=1000.0)
async def test_sockets_that_do_not_answer_do_not_hold_the_server_up(
    system: ActorSystem, clock: ManualClock
) -> None:  # E10
    stage = await serve(system, {"/ws": WebSocket(Echo)}, limits=WebLimits(linger=5.0))
    with await open_socket(stage) as peer:
        stage.alias.stop()
        assert (await peer.frame()).opcode == CLOSE
        await clock.advance(5.0)
        assert await peer.cut_off() == b""
    await stage.alias.terminated()


async def test_a_server_that_listens_no_more_keeps_its_sockets_and_ends_with_the_last(
    system: ActorSystem,
) -> None:  # E10
    stage = await serve(system, {"/ws": WebSocket()})
    with await open_socket(stage) as peer, await open_socket(stage) as other:
        for _ in range(2):
            await stage.probe.expect(WebSocketConnected)
        await stage.alias.ask(StopListening())
        await until_refused(stage)
        assert await stage.shown("listening") is False
        await peer.farewell()
        await stage.probe.expect(Closed)
        await stage.until_shown("websockets", 1)
        await other.farewell()
    assert (await stage.alias.terminated()).kind is ExitKind.NORMAL


async def test_a_server_without_connections_that_listens_no_more_ends_at_once(system: ActorSystem) -> None:  # E10
    stage = await serve(system, {})
    stage.alias.tell(StopListening())
    assert (await stage.alias.terminated()).kind is ExitKind.NORMAL
    again = await serve(system, {"/": system.spawn(Answer, lambda asked: "again")}, port=stage.port)
    assert (await fetch(again)).text == "again"  # the port is free


@pytest.mark.parametrize("how", ["reset", "close"])
@pytest.mark.parametrize("when", ["headers", "body", "asked", "answered"])
async def test_a_client_that_goes_away_harms_nobody(system: ActorSystem, when: str, how: str) -> None:  # E10, R7
    probe = TestProbe(system)
    stage = await serve(system, {"/": probe.ref, "/ok": system.spawn(Answer, lambda asked: "fine")})
    peer = await connect(stage)
    whole = request("POST", "/", b"hello")
    await peer.send({"headers": whole[:20], "body": whole[:-2]}.get(when, whole))
    await peer.taken()
    if when in ("asked", "answered"):
        await probe.expect(HttpRequest)
    leave(peer, how)
    if when == "answered":
        probe.reply("x" * 1_000_000)
    elif when == "asked" and how == "close":
        await fetch(stage, path="/ok")
        probe.reply("x" * 1_000_000)  # only now does it show that nobody reads
    await stage.until_shown("connections", 0)
    assert (await fetch(stage, path="/ok")).text == "fine"


def leave(peer: HttpPeer, how: str) -> None:
    if how == "reset":
        peer.reset()
    else:
        peer.sock.close()


@pytest.mark.parametrize("said", [b"", b"\x16\x03\x01"])
async def test_a_connection_within_its_tls_handshake_ends_with_the_server(
    system: ActorSystem, certificates: Certificates, said: bytes
) -> None:  # E10, R7
    context = tls_server(certificates.server, certificates.server_key)
    stage = await serve(system, {}, tls=context, limits=WebLimits(handshake_timeout=300.0))
    with await connect(stage) as peer:
        await peer.send(said)
        await peer.taken()
        stage.alias.stop()
        await stage.alias.terminated()
        assert await peer.cut_off() == b""


async def test_servers_come_and_go(system: ActorSystem) -> None:  # E10, R7: nothing is left of them
    actor: Any = system.spawn(Answer, lambda asked: "hello")
    for _ in range(10):
        stage = await serve(system, {"/": actor, "/ws": WebSocket(Echo)})
        assert (await fetch(stage)).text == "hello"
        with await open_socket(stage) as peer:
            assert await peer.say("x") == "x"
            await peer.farewell()
        stage.owner.stop()
        await stage.alias.terminated()


async def test_a_client_that_resets_its_connection_as_the_server_stops_does_no_harm(system: ActorSystem) -> None:  # E10
    stage = await serve(system, {"/": system.spawn(Answer, lambda asked: "yes")})
    gone, other = await connect(stage), await connect(stage)
    with other:
        await stage.until_shown("connections", 2)
        with capture_logs() as logs:
            gone.send_some(request())
            gone.reset()  # and the server has had no turn yet to see any of this
            stage.alias.stop()
            assert await other.rest() == b""
            await stage.alias.terminated()
        assert [line for line in logs.records if line.levelname == "ERROR"] == []
