"""A parent is killed at random moments, while its meta-processes are in the midst of reading and writing (E2, E12)."""

from __future__ import annotations

import asyncio
import random
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from greenroom import Actor, ActorRef, ActorSystem, Alias
from greenroom.meta import (
    Connected,
    Datagram,
    Fixed,
    Line,
    LineReader,
    MetaProcess,
    Output,
    Port,
    Raw,
    Received,
    SendTo,
    TcpClient,
    TcpServer,
    UdpServer,
    Write,
)
from tests.meta.blocked import reads
from tests.meta.ports.programs import children

if TYPE_CHECKING:
    from tests.conftest import Play

pytestmark = pytest.mark.usefixtures("no_memory_is_left")

KILLS = 25


class Recv(MetaProcess):
    """Blocks in a plain socket, and tells of what comes."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock

    def start(self) -> None:
        while data := self.sock.recv(1000):
            self.send(self.parent, data, wait=True)

    def terminate(self, reason: object) -> None:
        self.sock.close()


class Busy(Actor[Any, Any]):
    """Owns one of each kind, and keeps all of them busy: whatever comes is answered."""

    def __init__(self, chance: random.Random, file: Path, started: list[Alias]) -> None:
        self.chance, self.file, self.started = chance, file, started

    def pre_start(self) -> None:
        server = TcpServer(handler=self.chance.choice([None, Answer]), framing=self.chance.choice([Fixed(64), Raw()]))
        self.own(server)
        for _ in range(3):
            self.own(TcpClient(*server.address))
        packets = UdpServer()
        self.packets = self.own(packets)
        self.packets.tell(SendTo(b"packet", packets.address))
        self.mine, theirs = socket.socketpair()
        self.mine.setblocking(False)
        self.own(Recv(theirs))
        self.mine.send(b"begin")
        self.own(LineReader(self.file, follow=True, interval=0.001))
        if self.chance.random() < 0.3:
            self.own(Port(["cat"], framing=Raw())).tell(Write(b"x" * 5000))

    def own(self, meta: MetaProcess) -> Alias:
        self.started.append(self.ctx.spawn_meta(meta))
        return self.started[-1]

    def post_stop(self) -> None:
        self.mine.close()

    def receive(self, message: Any) -> None:
        match message:
            case Connected():
                message.alias.tell(Write(self.chance.randbytes(64 * self.chance.randrange(1, 8))))
            case Received() | Output():
                message.alias.tell(Write(message.data))
            case Datagram():
                self.packets.tell(SendTo(message.data, message.peer))
            case Line():
                with self.file.open("a") as file:
                    file.write("more\n")
            case bytes():
                self.mine.send(message)


class Answer(Actor[Any, Any]):
    """One for each connection: sends back what it gets."""

    def receive(self, message: Any) -> None:
        if isinstance(message, Received):
            message.alias.tell(Write(message.data))


@pytest.mark.parametrize("seed", range(4))
def test_nothing_is_left_of_its_meta_processes(play: Play, tmp_path: Path, seed: int) -> None:  # E2, E10, E12
    """On two event loops that makes 200 moments. `play` checks the ledger, and a fixture descriptors and threads."""
    chance = random.Random(seed)
    file = tmp_path / "lines"

    async def once(system: ActorSystem) -> None:
        file.write_text("first\n" * chance.randrange(1, 4))
        started: list[Alias] = []
        parent: ActorRef[Any, Any] = system.spawn(Busy, chance, file, started)
        if chance.random() < 0.9:
            await parent.started()
        for _ in range(chance.randrange(0, 60)):
            await asyncio.sleep(0)
        parent.kill()
        await parent.terminated()
        for alias in started:
            await alias.terminated()
        assert reads() == []

    async def program(system: ActorSystem) -> None:
        for _ in range(KILLS):
            await once(system)
            assert system.actors() == []

    before = children()
    play(program)
    assert children() <= before, "all programs are reaped"
