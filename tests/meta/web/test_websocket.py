"""WebSocket routes: owners and handlers, and farewells (E10)."""

from __future__ import annotations

from typing import Any

import pytest

from greenroom import ActorSystem, Supervision
from greenroom.errors import ActorTerminated, BadArgument
from greenroom.meta import (
    Close,
    Closed,
    HttpRequest,
    Received,
    Register,
    WebSocket,
    WebSocketConnected,
    Write,
)
from greenroom.testing import TestProbe, capture_logs
from tests.meta.owners import Ref
from tests.meta.web.frames import (
    BINARY,
    CLOSE,
    PING,
    TEXT,
    close_frame,
    frame,
    open_socket,
)
from tests.meta.web.stage import Reporter, serve


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
