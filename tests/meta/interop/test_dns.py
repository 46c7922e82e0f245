"""A name server of a few lines, asked by hand and by `dig`: packets, and frames with their length before them (E10)."""

from __future__ import annotations

import asyncio
import socket
import struct
from typing import Any

import pytest

from greenroom import Actor, ActorSystem
from greenroom.meta import Datagram, LengthPrefixed, Received, SendTo, TcpServer, UdpServer, Write
from tests.meta.interop.programs import needs, run
from tests.meta.owners import PATIENCE
from tests.meta.peers import LOOPBACK, connect

HEADER = struct.Struct("!6H")  # id, flags, and how many questions, answers, authorities and others
ANSWER, WANTS_RECURSION, NO_SUCH_NAME = 0x8400, 0x0100, 3
A, INTERNET, TTL = 1, 1, 60
NAMES = {"one.example": "192.0.2.1", "two.example": "192.0.2.2"}


def name_in(packet: bytes, start: int) -> tuple[str, int]:
    """A name, and where it ends."""
    labels = []
    while size := packet[start]:
        labels.append(packet[start + 1 : start + 1 + size].decode())
        start += 1 + size
    return ".".join(labels).lower(), start + 1


def query(number: int, name: str) -> bytes:
    """Ask for the address of a name."""
    labels = b"".join(bytes([len(label)]) + label.encode() for label in name.split("."))
    return HEADER.pack(number, WANTS_RECURSION, 1, 0, 0, 0) + labels + b"\x00" + struct.pack("!2H", A, INTERNET)


def answer(packet: bytes) -> bytes:
    """The question again, and the address if there is one."""
    number, flags, *_ = HEADER.unpack_from(packet)
    name, end = name_in(packet, HEADER.size)
    address = NAMES.get(name)
    flags = ANSWER | flags & WANTS_RECURSION | (0 if address else NO_SUCH_NAME)
    head = HEADER.pack(number, flags, 1, 1 if address else 0, 0, 0) + packet[HEADER.size : end + 4]
    if address is None:
        return head
    there = 0xC000 | HEADER.size  # the name is where the question has it
    return head + struct.pack("!3HIH", there, A, INTERNET, TTL, 4) + socket.inet_aton(address)


def address_in(packet: bytes, number: int) -> str | None:
    """The address that an answer has."""
    got, flags, questions, answers, *_ = HEADER.unpack_from(packet)
    assert (got, flags & ANSWER, questions) == (number, ANSWER, 1)
    if flags & 0xF == NO_SUCH_NAME:
        assert answers == 0
        return None
    assert (flags & 0xF, answers) == (0, 1)
    return socket.inet_ntoa(packet[-4:])


class NameServer(Actor[Any, Any]):
    """Answers over UDP, and over TCP at the same port; says which that is."""

    def pre_start(self) -> None:
        # Which ports are free at both, only the attempt can tell.
        while True:
            packets = UdpServer()
            alias = self.ctx.spawn_meta(packets)
            try:
                self.ctx.spawn_meta(TcpServer(LOOPBACK, packets.address[1], framing=LengthPrefixed(2)))
            except OSError:
                alias.stop()
            else:
                self.port = packets.address[1]
                return

    def receive(self, message: Any) -> Any:
        if isinstance(message, Datagram):
            message.alias.tell(SendTo(answer(message.data), message.peer))
        elif isinstance(message, Received):
            message.alias.tell(Write(answer(message.data)))
        elif message == "port":
            return self.port
        return None


async def serve(system: ActorSystem) -> int:
    port: int = await system.spawn(NameServer).ask("port", timeout=None)
    return port


async def test_names_are_looked_up_by_packet(system: ActorSystem) -> None:  # E10
    port = await serve(system)
    loop = asyncio.get_running_loop()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.setblocking(False)
        sock.connect((LOOPBACK, port))
        for number, name in enumerate([*NAMES, "three.example", "ONE.Example"]):
            await loop.sock_sendall(sock, query(number, name))
            async with asyncio.timeout(PATIENCE):
                assert address_in(await loop.sock_recv(sock, 512), number) == NAMES.get(name.lower())


async def test_names_are_looked_up_in_a_stream(system: ActorSystem) -> None:  # E10
    names = [*NAMES, "three.example"] * 100
    with await connect((LOOPBACK, await serve(system))) as peer:
        asked = [query(number, name) for number, name in enumerate(names)]
        await peer.send(b"".join(struct.pack("!H", len(packet)) + packet for packet in asked))
        for number, name in enumerate(names):
            (size,) = struct.unpack("!H", await peer.read(2))
            assert address_in(await peer.read(size), number) == NAMES.get(name)


@needs("dig")
@pytest.mark.parametrize("how", ["+notcp", "+tcp"])
async def test_dig_finds_names(system: ActorSystem, how: str) -> None:  # E10
    port = await serve(system)
    where = (f"@{LOOPBACK}", "-p", port, how, "+tries=1", f"+time={PATIENCE:.0f}", "-r")
    for name, address in NAMES.items():
        assert await run("dig", *where, "+short", name, "A") == (0, f"{address}\n".encode(), b"")
    said = await run("dig", *where, "three.example", "A")
    assert said.status == 0
    assert b"status: NXDOMAIN" in said.output
