"""Who is held up when somebody does not read: the peer by a slow owner, the owner by a slow peer (E10)."""

from __future__ import annotations

import asyncio
import socket
from typing import TYPE_CHECKING, Any

import pytest

from greenroom import ActorSystem, Lane, MailboxConfig, ManualClock
from greenroom.actor.api.props import props
from greenroom.errors import GreenroomError, MailboxFull
from greenroom.meta import (
    Close,
    Closed,
    Connected,
    LengthPrefixed,
    Register,
    TcpConnection,
    Write,
)
from greenroom.testing import TestProbe
from tests.gates import turns
from tests.meta.owners import Echo, Scene, emptied, hear, serve
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
