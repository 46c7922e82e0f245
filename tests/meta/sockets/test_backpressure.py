"""Who is held up when somebody does not read: the peer by a slow owner, the owner by a slow peer (E10)."""

from __future__ import annotations

import asyncio
import socket
import threading
from typing import TYPE_CHECKING, Any

import pytest

from greenroom import Actor, ActorSystem, Lane, MailboxConfig, ManualClock, Overflow
from greenroom.actor.api.props import props
from greenroom.errors import GreenroomError, MailboxFull
from greenroom.meta import (
    Close,
    Closed,
    Connected,
    LengthPrefixed,
    PeerClosed,
    Received,
    Register,
    TcpConnection,
    Write,
)
from greenroom.testing import TestProbe
from tests.gates import Event, turns
from tests.meta.owners import AsyncOwner, Echo, Scene, emptied, hear, hear_bytes, serve
from tests.meta.peers import Peer, connect

if TYPE_CHECKING:
    from greenroom import Alias

PIECE = b"0123456789abcdef" * 4096
LARGE = b"0123456789abcdef" * 1_000_000
FRAMED = LengthPrefixed(4)


async def stalled(scene: Scene, address: Any) -> tuple[Peer, Alias]:
    """A connection that has been given more than all buffers between it and a peer that does not read."""
    peer = await connect(address, receive_buffer=131_072)
    alias = (await hear(scene, Connected)).alias
    alias.tell(Write(LARGE))
    await scene.system.settle()
    return peer, alias


# -- the owner is held up
async def test_writes_to_a_peer_that_does_not_read_fill_the_mailbox(system: ActorSystem) -> None:  # E10
    scene = Scene(system)
    server, _ = await serve(scene, write_mailbox=MailboxConfig(capacity=3), linger=0)
    peer, alias = await stalled(scene, server.address)
    with peer:
        for _ in range(3):
            alias.tell(Write(b"x"))
        with pytest.raises(MailboxFull):
            alias.tell(Write(b"one too many"))
        alias.stop()
        await alias.terminated()
        assert await hear(scene, Closed) == Closed(alias, "stopped")
    await system.settle()


async def test_an_owner_can_wait_until_the_peer_reads_and_all_comes_in_order(system: ActorSystem) -> None:  # E10
    scene = Scene(system)
    server, _ = await serve(scene, framing=FRAMED, write_mailbox=MailboxConfig(capacity=2))
    with await connect(server.address, receive_buffer=131_072) as peer:
        alias = (await hear(scene, Connected)).alias

        async def write() -> None:
            for number in range(300):
                await alias.send(Write(number.to_bytes(4, "big") + PIECE))

        writing = asyncio.create_task(write())
        await turns(100)
        assert not writing.done()
        for number in range(300):
            frame = await peer.read(4 + 4 + len(PIECE))
            assert frame[4:8] == number.to_bytes(4, "big")
        await writing
    await hear(scene, Closed)


async def test_an_ask_is_answered_when_the_network_has_taken_it_in(system: ActorSystem) -> None:  # E10
    scene = Scene(system)
    server, _ = await serve(scene)
    with await connect(server.address, receive_buffer=131_072) as peer:
        alias = (await hear(scene, Connected)).alias
        assert await alias.ask(Write(b"small")) == 5
        asked = alias.ask(Write(LARGE), timeout=None).future()
        assert await peer.read(5) == b"small"
        await turns(100)
        assert not asked.done()
        assert await peer.read(len(LARGE)) == LARGE
        assert await asked == len(LARGE)


@pytest.mark.parametrize("how", ["stop", "kill"])
async def test_a_connection_that_is_stalled_can_be_stopped_at_once(system: ActorSystem, how: str) -> None:  # E10
    scene = Scene(system)
    server, _ = await serve(scene, linger=0)
    peer, alias = await stalled(scene, server.address)
    with peer:
        alias.tell(Write(b"x"))
        asked = alias.ask(Write(b"y"), timeout=None).future()
        waiting = asyncio.create_task(alias.send(Write(b"z")))
        await asyncio.sleep(0)
        getattr(alias, how)()
        await alias.terminated()
        await waiting
        with pytest.raises(GreenroomError):
            await asked
        await peer.cut_off()
    assert await hear(scene, Closed) == Closed(alias, "stopped")


async def test_a_connection_can_be_stopped_at_once_while_a_write_is_asked_of_it(system: ActorSystem) -> None:  # E10
    scene = Scene(system)
    server, _ = await serve(scene, linger=0)
    with await connect(server.address, receive_buffer=131_072) as peer:
        alias = (await hear(scene, Connected)).alias
        asked = alias.ask(Write(LARGE), timeout=None).future()
        await turns()
        alias.stop()
        await alias.terminated()
        with pytest.raises(GreenroomError):
            await asked
        await peer.cut_off()


async def test_a_stalled_connection_is_closed_when_its_owner_ends(system: ActorSystem) -> None:  # E10
    scene, other = Scene(system), TestProbe(system)
    server, _ = await serve(scene, linger=0)
    with await connect(server.address, receive_buffer=131_072) as peer:
        alias = (await hear(scene, Connected)).alias
        await alias.ask(Register(other.ref))
        alias.tell(Write(LARGE))
        await system.settle()
        other.ref.stop()
        await alias.terminated()
        await peer.cut_off()


@pytest.mark.parametrize("abort", [True, False])
async def test_a_connection_that_is_stalled_can_be_closed(system: ActorSystem, abort: bool) -> None:  # E10
    """What is urgent does not wait for a peer that never reads."""
    scene = Scene(system)
    server, _ = await serve(scene, linger=0)
    peer, alias = await stalled(scene, server.address)
    with peer:
        alias.tell(Close(abort=abort), lane=Lane.CONTROL)
        assert await hear(scene, Closed) == Closed(alias, "closed")
        await alias.terminated()
        await peer.cut_off()


async def test_a_peer_that_does_not_read_for_too_long_is_cut_off(
    system: ActorSystem, clock: ManualClock
) -> None:  # E10
    scene = Scene(system)
    server, _ = await serve(scene, write_timeout=10.0)
    peer, alias = await stalled(scene, server.address)
    with peer:
        alias.tell(Close())  # behind what cannot be written
        await clock.advance(9.9)
        assert alias.is_alive
        await clock.advance(0.2)
        assert await hear(scene, Closed) == Closed(alias, "not reading")
        await alias.terminated()


@pytest.mark.parametrize("how", ["reset", "close"])
async def test_a_stalled_connection_ends_when_its_peer_does(system: ActorSystem, how: str) -> None:  # E10
    scene = Scene(system)
    server, _ = await serve(scene)
    peer, alias = await stalled(scene, server.address)
    asked = alias.ask(Write(b"y"), timeout=None).future()
    if how == "reset":
        peer.reset()
    else:
        peer.sock.close()  # it has unread data: that is a reset as well
    assert (await hear(scene, Closed)).reason == "reset"
    with pytest.raises(GreenroomError):
        await asked
    await alias.terminated()


async def test_a_stalled_connection_shows_what_is_not_written(system: ActorSystem) -> None:  # E10
    scene = Scene(system)
    server, _ = await serve(scene, linger=0)
    peer, alias = await stalled(scene, server.address)
    with peer:
        assert (await alias.inspect("unwritten"))["unwritten"] > 0
        alias.kill()
        await alias.terminated()


async def test_an_echo_to_a_peer_that_does_not_read_does_not_grow_without_bound(system: ActorSystem) -> None:  # E10
    """The handler's own tells are refused when the connection is full: it fails, and so its connection is closed."""
    scene = Scene(system)
    server, alias = await serve(scene, handler=props(Echo), write_mailbox=MailboxConfig(capacity=4), linger=0)
    with await connect(server.address, receive_buffer=131_072) as peer:
        sent = 0
        try:
            while True:
                await peer.send(PIECE)
                sent += len(PIECE)
                assert sent < 200_000_000
        except ConnectionError:
            pass
    await emptied(alias)


async def test_a_write_larger_than_all_buffers_arrives_whole(system: ActorSystem) -> None:  # E10
    scene = Scene(system)
    ours, theirs = socket.socketpair()
    with Peer(theirs) as peer:
        alias = await scene.spawn(TcpConnection(ours, high_water=1))
        await hear(scene, Connected)
        data = bytes(range(256)) * 40_000
        alias.tell(Write(data))
        alias.tell(Write(b"end"))
        assert await peer.read(len(data)) == data
        assert await peer.read(3) == b"end"
    await hear(scene, Closed)


def flood(address: Any, frames: int, go: threading.Event, done: threading.Event) -> None:
    """On a thread of its own: as much as it can, blocking."""
    with socket.create_connection(address) as sock:
        go.wait()
        for number in range(frames):
            sock.sendall(FRAMED.encode(number.to_bytes(4, "big") + PIECE[:1000]))
        done.set()
        sock.shutdown(socket.SHUT_WR)
        assert sock.recv(1) == b""


async def test_a_peer_that_floods_is_held_up_and_nothing_is_lost(system: ActorSystem) -> None:  # E10
    frames = 12_000  # 12 MB: more than all buffers between the two
    scene = Scene(system, AsyncOwner, mailbox=MailboxConfig(capacity=16))
    gate, go, done = Event(), threading.Event(), threading.Event()
    server, _ = await serve(scene, framing=FRAMED)
    flooding = asyncio.create_task(asyncio.to_thread(flood, server.address, frames, go, done))
    up = await hear(scene, Connected)
    scene.owner.tell(lambda ctx: gate.wait())
    go.set()
    held_up = -1
    while held_up != (held_up := (await up.alias.inspect("bytes_in"))["bytes_in"]):  # noqa: ASYNC110
        await asyncio.sleep(0.05)  # until nothing comes any more
    assert not done.is_set()
    assert held_up < 1_000_000
    assert (await up.alias.inspect("frames_in"))["frames_in"] < 1000
    gate.set()
    for number in range(frames):
        data = (await hear(scene, Received)).data
        assert int.from_bytes(data[:4], "big") == number
    assert await hear(scene, Closed) == Closed(up.alias, "eof")
    await flooding
    assert system.dead_letters.count == 0


async def test_a_slow_handler_holds_up_its_own_peer_alone(system: ActorSystem) -> None:  # E10
    gate = Event()

    class Slow(Actor[Any, Any]):
        async def receive(self, message: Any) -> None:
            if isinstance(message, Received):
                if message.data.startswith(b"slow"):
                    await gate.wait()
                message.alias.tell(Write(message.data))

    scene = Scene(system)
    server, _ = await serve(scene, handler=Slow, mailbox=MailboxConfig(capacity=2), framing="lines")
    with await connect(server.address) as slow, await connect(server.address) as quick:
        sent = b"".join(b"slow %d\n" % number for number in range(50))
        await slow.send(sent)
        for number in range(20):
            await quick.send(b"%03d\n" % number)
            assert await quick.read(4) == b"%03d\n" % number
        gate.set()
        assert await slow.read(len(sent)) == sent


@pytest.mark.parametrize("overflow", list(Overflow))
async def test_whatever_a_full_mailbox_does_with_others_a_connection_waits_for_room(
    system: ActorSystem, overflow: Any
) -> None:  # E10
    scene = Scene(system, AsyncOwner, mailbox=MailboxConfig(capacity=3, overflow=overflow))
    gate = Event()
    server, _ = await serve(scene, framing=LengthPrefixed(1))
    with await connect(server.address) as peer:
        up = await hear(scene, Connected)
        scene.owner.tell(lambda ctx: gate.wait())
        await peer.send(b"".join(b"\x01%c" % number for number in range(100)))
        while (await up.alias.inspect("frames_in"))["frames_in"] < 100:
            pass
        gate.set()
        assert await hear_bytes(scene, 100) == bytes(range(100))
    await hear(scene, Closed)


async def test_what_waits_for_a_full_owner_comes_before_the_end_of_the_connection(system: ActorSystem) -> None:  # E10
    scene = Scene(system, AsyncOwner, mailbox=MailboxConfig(capacity=2))
    gate = Event()
    server, alias = await serve(scene, framing=LengthPrefixed(1))
    with await connect(server.address) as peer:
        up = await hear(scene, Connected)
        scene.owner.tell(lambda ctx: gate.wait())
        await peer.send(b"".join(b"\x01%c" % number for number in range(20)))
        while (await up.alias.inspect("frames_in"))["frames_in"] < 20:
            pass
        up.alias.tell(Close(abort=True))
        assert await peer.cut_off() == b""
    gate.set()
    assert await hear_bytes(scene, 20) == bytes(range(20))
    assert await hear(scene, Closed) == Closed(up.alias, "closed")
    await up.alias.terminated()
    assert await alias.inspect("connections") == {"connections": 0}


async def test_an_owner_that_was_full_hears_once_that_the_peer_writes_no_more(system: ActorSystem) -> None:  # E10
    scene = Scene(system, AsyncOwner, mailbox=MailboxConfig(capacity=2))
    gate = Event()
    server, _ = await serve(scene, framing=LengthPrefixed(1), half_open=True)
    with await connect(server.address) as peer:
        up = await hear(scene, Connected)
        scene.owner.tell(lambda ctx: gate.wait())
        await peer.send(b"\1a\1b")
        while (await up.alias.inspect("frames_in"))["frames_in"] < 2:
            pass
        peer.end()  # the mailbox is full, and nothing else waits
        await asyncio.sleep(0.02)  # long enough, mostly; if it is not, the test is easier to pass
        gate.set()
        assert await hear_bytes(scene, 2) == b"ab"
        assert await hear(scene, PeerClosed) == PeerClosed(up.alias)
        await up.alias.ask(Write(b"bye"))
        up.alias.tell(Close())
        assert await peer.rest() == b"\3bye"
    assert await hear(scene, Closed) == Closed(up.alias, "closed")


async def test_an_owner_that_ends_with_a_full_mailbox_takes_its_connection_along(system: ActorSystem) -> None:  # E10
    gate = Event()

    class Stuck(Actor[Any, Any]):
        async def receive(self, message: Any) -> None:
            await gate.wait()
            self.ctx.stop()

    scene = Scene(system)
    options: dict[str, Any] = {"mailbox": MailboxConfig(capacity=2), "framing": LengthPrefixed(1)}
    server, alias = await serve(scene, handler=Stuck, **options)
    with await connect(server.address) as peer:
        await peer.send(b"\1x" * 1000)
        while system.ledger().queued < 2:  # noqa: ASYNC110 - nobody is told
            await asyncio.sleep(0)
        gate.set()
        assert await peer.cut_off() == b""
    await emptied(alias)
