"""A peer that floods is held up by a slow owner, and nothing is lost (E10)."""

from __future__ import annotations

import asyncio
import socket
import threading
from typing import Any

import pytest

from greenroom import Actor, ActorSystem, MailboxConfig, Overflow
from greenroom.meta import (
    Close,
    Closed,
    Connected,
    LengthPrefixed,
    PeerClosed,
    Received,
    Write,
)
from tests.gates import Event
from tests.meta.owners import AsyncOwner, Scene, emptied, hear, hear_bytes, serve
from tests.meta.peers import connect

PIECE = b"0123456789abcdef" * 4096
LARGE = b"0123456789abcdef" * 1_000_000
FRAMED = LengthPrefixed(4)


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
