"""Limits of a server: connections, frames, quiet, and how long a connection waits for its owner (E10)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from greenroom import ActorSystem, MailboxConfig, ManualClock
from greenroom.errors import FrameError, FrameTooLarge
from greenroom.meta import Closed, Connected, Custom, Fixed, LengthPrefixed, Lines, Received, Register, TcpServer, Write
from greenroom.testing import TestProbe
from tests.gates import Event
from tests.meta.owners import AsyncOwner, Echo, Scene, all_told, hear, hear_bytes, serve
from tests.meta.peers import connect

if TYPE_CHECKING:
    from tests.conftest import Play


# -- connections


@pytest.mark.parametrize("handler", [None, Echo])
async def test_connections_beyond_the_limit_are_closed_at_once(system: ActorSystem, handler: Any) -> None:  # E10
    scene = Scene(system)
    server, alias = await serve(scene, max_connections=2, handler=handler)
    with await connect(server.address) as one, await connect(server.address) as two:
        await _both_are_up(one, two, scene, handler)
        for _ in range(5):
            with await connect(server.address) as further:
                assert await further.cut_off() == b""
        assert await alias.inspect("connections", "refused") == {"connections": 2, "refused": 5}
        before = system.actors()
        await two.send(b"still")
        assert (await two.read(5) if handler else await hear_bytes(scene, 5)) == b"still"
        assert system.actors() == before


async def _both_are_up(one: Any, two: Any, scene: Scene, handler: Any) -> None:
    for peer in (one, two):
        if handler is None:
            await hear(scene, Connected)
        else:
            await peer.send(b"x")
            assert await peer.read(1) == b"x"


async def test_when_a_connection_ends_there_is_room_for_another(system: ActorSystem) -> None:  # E10
    scene = Scene(system)
    server, alias = await serve(scene, max_connections=1)
    for _ in range(3):
        with await connect(server.address):
            up = await hear(scene, Connected)
            with await connect(server.address) as further:
                assert await further.cut_off() == b""
        assert await hear(scene, Closed) == Closed(up.alias, "eof")
        await up.alias.terminated()
    assert await alias.inspect("taken", "refused") == {"taken": 3, "refused": 3}


@pytest.mark.parametrize("room", [0, 1])
def test_a_connection_for_which_the_system_has_no_room_is_refused_and_leaves_nothing(
    play: Play, room: int
) -> None:  # E10
    """Of the two actors that it takes there is room for `room`."""

    async def program(system: ActorSystem) -> None:
        scene = Scene(system)
        server, alias = await serve(scene, handler=Echo)
        before = system.actors()
        for _ in range(3):
            with await connect(server.address) as peer:
                assert await peer.cut_off() == b""
        await system.settle()
        assert system.actors() == before
        assert await alias.inspect("connections", "refused") == {"connections": 0, "refused": 3}

    play(program, max_actors=3 + room)


# -- frames

TOO_LARGE: list[tuple[Any, bytes, list[Any]]] = [
    (Lines(max_size=10), b"one\n" + b"x" * 11 + b"\n" + b"two\n", [b"one"]),
    (Lines(max_size=10), b"one\n" + b"x" * 50, [b"one"]),
    (LengthPrefixed(1, max_size=10), b"\x03one\x0bxxx", [b"one"]),
    (LengthPrefixed(8), b"\0\0\0\0\0\0\0\3one" + b"\xff" * 8, [b"one"]),
    (Custom(lambda data: (), max_size=10), b"x" * 11, []),
]


@pytest.mark.parametrize(("framing", "stream", "frames"), TOO_LARGE)
async def test_a_frame_that_is_too_large_closes_its_connection(
    system: ActorSystem, framing: Any, stream: bytes, frames: list[Any]
) -> None:  # E10, R7
    scene = Scene(system)
    server, _ = await serve(scene, framing=framing)
    with await connect(server.address) as peer:
        up = await hear(scene, Connected)
        await peer.send(stream)
        told, closed = await all_told(scene)
        assert told == frames
        assert (closed.alias, closed.reason) == (up.alias, "frame too large")
        assert isinstance(closed.error, FrameTooLarge)
        assert await peer.cut_off() == b""
    await up.alias.terminated()


def bad_decode(data: bytearray) -> list[bytes]:
    raise ZeroDivisionError


@pytest.mark.parametrize(
    ("framing", "stream", "reason"),
    [
        (bad_decode, b"x", "bad frame"),
        (lambda data: None, b"x", "bad frame"),
        (Lines(encoding="utf-8"), b"\xff\n", "bad frame"),
        (LengthPrefixed(2), b"\x00\x05ab", "truncated"),
        (LengthPrefixed(2), b"\x00", "truncated"),
        (Fixed(3), b"ab", "truncated"),
    ],
)
async def test_a_bad_frame_closes_its_connection_and_says_why(
    system: ActorSystem, framing: Any, stream: bytes, reason: str
) -> None:  # E10, R7
    scene = Scene(system)
    server, _ = await serve(scene, framing=framing)
    with await connect(server.address) as peer:
        await hear(scene, Connected)
        await peer.send(stream)
        if reason == "truncated":
            peer.end()
        told, closed = await all_told(scene)
        assert (told, closed.reason) == ([], reason)
        assert closed.error is not None
        if reason == "truncated":
            assert isinstance(closed.error, FrameError)
        assert await peer.cut_off() == b""


# -- quiet


async def test_a_connection_that_is_idle_is_closed(system: ActorSystem, clock: ManualClock) -> None:  # E10
    scene = Scene(system)
    server, _ = await serve(scene, idle_timeout=10.0)
    with await connect(server.address) as peer:
        up = await hear(scene, Connected)
        await clock.advance(9)
        await peer.send(b"x")
        await hear_bytes(scene, 1)  # it was heard at 9
        await clock.advance(9)
        assert await up.alias.ask(Write(b"y")) == 1  # and written to at 18
        await clock.advance(9.5)
        assert scene.probe.messages == []
        await clock.advance(0.5)
        assert await hear(scene, Closed) == Closed(up.alias, "idle")
        assert await peer.rest() == b"y"
    await up.alias.terminated()


async def test_others_are_not_idle_with_it(system: ActorSystem, clock: ManualClock) -> None:  # E10
    scene = Scene(system)
    server, alias = await serve(scene, idle_timeout=10.0, handler=Echo)
    with await connect(server.address) as quiet, await connect(server.address) as busy:
        for peer in (quiet, busy, busy, busy):
            await peer.send(b"x")
            assert await peer.read(1) == b"x"
            await clock.advance(4)
        assert await quiet.rest() == b""
        assert await alias.inspect("connections") == {"connections": 1}


async def test_a_connection_whose_owner_is_slow_is_not_idle(system: ActorSystem, clock: ManualClock) -> None:  # E10
    scene = Scene(system, AsyncOwner, mailbox=MailboxConfig(capacity=2))
    gate = Event()
    server, _ = await serve(scene, idle_timeout=10.0, framing=Fixed(1))
    with await connect(server.address) as peer:
        up = await hear(scene, Connected)
        scene.owner.tell(lambda ctx: gate.wait())
        await peer.send(b"abcde")
        while (await up.alias.inspect("frames_in"))["frames_in"] < 5:
            pass
        await clock.advance(30)
        assert (await up.alias.inspect("connected"))["connected"]
        gate.set()
        assert await hear_bytes(scene, 5) == b"abcde"
        await clock.advance(30)
        assert await hear(scene, Closed) == Closed(up.alias, "idle")
        assert await peer.cut_off() == b""


# -- waiting for an owner


async def test_a_connection_that_nobody_registers_is_closed(system: ActorSystem, clock: ManualClock) -> None:  # E10
    scene = Scene(system)
    server, alias = await serve(scene, register=True, register_timeout=3.0)
    with await connect(server.address) as peer:
        up = await hear(scene, Connected)
        await clock.advance(2.9)
        assert scene.probe.messages == []
        await clock.advance(0.1)
        assert await peer.cut_off() == b""
        assert await hear(scene, Closed) == Closed(up.alias, "not registered")
        await up.alias.terminated()
        assert await alias.inspect("connections") == {"connections": 0}


async def test_a_connection_that_is_registered_in_time_stays(system: ActorSystem, clock: ManualClock) -> None:  # E10
    scene, other = Scene(system), TestProbe(system)
    server, _ = await serve(scene, register=True, register_timeout=3.0)
    with await connect(server.address) as peer:
        up = await hear(scene, Connected)
        await clock.advance(2.9)
        await up.alias.ask(Register(other.ref))
        await clock.advance(10)
        await peer.send(b"x")
        await other.expect(Received(up.alias, b"x"))


async def test_a_connection_that_waits_for_an_owner_counts(system: ActorSystem) -> None:  # E10
    scene = Scene(system)
    server = TcpServer(register=True, max_connections=1)
    await scene.spawn(server)
    with await connect(server.address):
        await hear(scene, Connected)
        with await connect(server.address) as further:
            assert await further.cut_off() == b""
