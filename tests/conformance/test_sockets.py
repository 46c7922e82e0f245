"""Sockets: an echo server, a thousand connections, and cut-offs at any moment (E10, J13)."""

from __future__ import annotations

import asyncio
import gc
import random
import threading
from pathlib import Path
from typing import Any

import pytest

from greenroom import Actor, ActorSystem
from greenroom.meta import LengthPrefixed, Received, TcpClient, TcpServer, Write
from greenroom.testing import TestProbe
from tests.gates import turns
from tests.meta.owners import emptied
from tests.meta.peers import Peer, connect

CONNECTIONS = 1000
FRAMED = LengthPrefixed(2)


class Echo(Actor[Any, Any]):
    def receive(self, message: Any) -> None:
        if isinstance(message, Received):
            message.alias.tell(Write(message.data))


class Front(Actor[Any, Any]):
    """Has a server, and knows where."""

    def __init__(self, **options: Any) -> None:
        self.server = TcpServer(**options)

    def pre_start(self) -> None:
        self.alias = self.ctx.spawn_meta(self.server)

    def receive(self, message: Any) -> Any:
        return self.alias, self.server.address


def open_now() -> tuple[int, set[threading.Thread]]:
    """How many descriptors are open, and which threads there are."""
    gc.collect()
    return len(list(Path("/proc/self/fd").iterdir())), set(threading.enumerate())


async def talk(peer: Peer, seed: int) -> int:
    """Say something and hear it again, some times; or stop in the midst of it. How often it was heard."""
    chance = random.Random(seed)
    heard = 0
    for _ in range(chance.randrange(1, 5)):
        frame = FRAMED.encode(chance.randbytes(chance.randrange(0, 2000)))
        cut_off = chance.random()
        if cut_off < 0.1:
            await peer.send(frame[: chance.randrange(len(frame))])  # within a frame
            break
        await peer.send(frame)
        if cut_off < 0.2:
            break  # within its answer
        assert await peer.read(len(frame)) == frame
        heard += 1
    if chance.random() < 0.5:
        peer.reset()
    else:
        peer.sock.close()
    return heard


@pytest.mark.real
@pytest.mark.at_home
@pytest.mark.parametrize("framing", [None, FRAMED], ids=["raw", "framed"])
async def test_a_thousand_connections_are_answered_and_cut_off_and_nothing_is_left(
    system: ActorSystem, framing: Any
) -> None:  # case 68
    async def once(system: ActorSystem, connections: int) -> int:
        front = system.spawn(Front, handler=Echo, framing=framing)
        alias, address = await front.ask("where?", timeout=None)
        peers = [await connect(address) for _ in range(connections)]
        heard = await asyncio.gather(*(talk(peer, seed) for seed, peer in enumerate(peers)))
        await emptied(alias)
        assert await alias.inspect("taken", timeout=None) == {"taken": connections}
        front.stop()
        await front.terminated()
        assert system.actors() == []
        return sum(heard)

    await once(system, 1)  # what is opened once, and kept, is open now
    before = open_now()
    assert await once(system, CONNECTIONS) > CONNECTIONS
    while open_now() != before:  # asyncio closes sockets some turns later; the deadline of `play` bounds this
        await turns(1)


class Caller(Actor[Any, Any]):
    """Has a client that says something; tells what it hears, until that is all."""

    def __init__(self, address: Any, done: Any, data: bytes) -> None:
        self.address = address
        self.done = done
        self.data = data
        self.heard = b""

    def pre_start(self) -> None:
        client = self.ctx.spawn_meta(TcpClient(*self.address))
        client.tell(Write(self.data))

    def receive(self, message: Any) -> None:
        if isinstance(message, Received):
            self.heard += message.data
            if len(self.heard) >= len(self.data):
                self.done.tell(self.heard == self.data)
                self.ctx.stop()


@pytest.mark.real
async def test_clients_and_servers_of_one_system_talk_to_each_other(system: ActorSystem) -> None:  # case 68
    probe = TestProbe(system)
    front = system.spawn(Front, handler=Echo)
    _, address = await front.ask("where?", timeout=None)
    chance = random.Random(68)
    callers = [
        system.spawn(Caller, address, probe.ref, chance.randbytes(chance.randrange(1, 30_000))) for _ in range(50)
    ]
    for _ in callers:
        await probe.expect(True)
    for caller in callers:
        await caller.terminated()
