"""netcat: lines, bytes, and streams of which one direction ends first (E10)."""

from __future__ import annotations

import random
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from greenroom import Actor, ActorSystem
from greenroom.meta import Close, Closed, Connected, Lines, PeerClosed, Received, TcpClient, UnixServer, Write
from tests.meta.interop.programs import Program, held_port, run
from tests.meta.owners import PATIENCE, Echo, Scene, emptied, hear, hear_bytes, serve
from tests.meta.peers import LOOPBACK


def _is_openbsds() -> bool:
    """Whether `nc` is there, and the one of several that has `-N`."""
    if shutil.which("nc") is None:
        return False
    return b"OpenBSD" in subprocess.run(["nc", "-h"], capture_output=True).stderr


pytestmark = pytest.mark.skipif(not _is_openbsds(), reason="not installed: nc, of netcat-openbsd")


class EchoToTheEnd(Actor[Any, Any]):
    """Writes back what it receives, and closes when no more comes."""

    def receive(self, message: Any) -> None:
        if isinstance(message, Received):
            message.alias.tell(Write(message.data))
        elif isinstance(message, PeerClosed):
            message.alias.tell(Close())


class Adder(Actor[Any, Any]):
    """Says the sum of the numbers it was told, when there are no more."""

    def __init__(self) -> None:
        self.sum = 0

    def receive(self, message: Any) -> None:
        if isinstance(message, Received):
            self.sum += int(message.data)
        elif isinstance(message, PeerClosed):
            message.alias.tell(Write(b"%d" % self.sum))
            message.alias.tell(Close())


@pytest.mark.parametrize("framing", [Lines(), None], ids=["lines", "raw"])
async def test_netcat_is_answered_line_by_line(system: ActorSystem, framing: Any) -> None:  # E10
    server, alias = await serve(Scene(system), handler=Echo, framing=framing)
    with Program("nc", *server.address) as nc:
        for line in (b"hello", b"", "grüße".encode(), b"x" * 4000):
            await nc.write(line + b"\n")
            assert await nc.line() == line
    await emptied(alias)


async def test_netcat_ends_its_lines_as_telnet_does(system: ActorSystem) -> None:  # E10
    scene = Scene(system)
    server, _ = await serve(scene, framing=Lines(b"\r\n"))
    with Program("nc", "-C", *server.address) as nc:
        alias = (await hear(scene, Connected)).alias
        await nc.write(b"one\ntwo\n")
        assert [(await hear(scene, Received)).data for _ in range(2)] == [b"one", b"two"]
        alias.tell(Write(b"three"))
        assert await nc.line() == b"three\r"


async def test_all_that_netcat_writes_is_answered_after_its_last_word(system: ActorSystem) -> None:  # E10
    server, alias = await serve(Scene(system), handler=Adder, framing=Lines(), half_open=True, linger=PATIENCE)
    for data in (b"1\n2\n39\n", b"1\n2\n39", b"7" * 1000, b"1\n" * 10_000):
        expected = sum(map(int, data.split()))
        assert await run("nc", "-N", *server.address, data=data) == (0, b"%d\n" % expected, b"")
    await emptied(alias)


async def test_netcat_gets_back_all_that_it_pipes_in(system: ActorSystem) -> None:  # E10
    server, alias = await serve(Scene(system), handler=EchoToTheEnd, half_open=True, linger=PATIENCE)
    data = random.Random(1).randbytes(2_000_000)
    for part in (b"", b"\x00", data):
        assert await run("nc", "-N", *server.address, data=part) == (0, part, b"")
    await emptied(alias)


async def test_a_look_whether_a_port_is_open_does_no_harm(system: ActorSystem) -> None:  # E10
    server, alias = await serve(Scene(system), handler=Echo)
    for _ in range(5):
        assert (await run("nc", "-z", *server.address)).status == 0
    with Program("nc", *server.address) as nc:
        await nc.write(b"still here?\n")
        assert await nc.line() == b"still here?"
    await emptied(alias)
    assert (await alias.inspect("taken"))["taken"] == 6


async def test_netcat_at_a_unix_socket(system: ActorSystem, tmp_path: Path) -> None:  # E10
    path = tmp_path / "socket"
    await serve(Scene(system), UnixServer(path, handler=EchoToTheEnd, half_open=True, linger=PATIENCE))
    data = random.Random(1).randbytes(300_000)
    assert await run("nc", "-N", "-U", path, data=data) == (0, data, b"")


async def test_netcat_as_a_server(system: ActorSystem) -> None:  # E10
    scene = Scene(system)
    with held_port() as port, Program("nc", "-l", "-v", "-N", LOOPBACK, port) as nc:
        await nc.error(b"Listening")
        client = await scene.spawn(TcpClient(LOOPBACK, port))
        assert (await hear(scene, Connected)).peer == (LOOPBACK, port)
        client.tell(Write(b"to netcat\n"))
        assert await nc.line() == b"to netcat"
        await nc.write(b"from netcat")
        assert await hear_bytes(scene, 11) == b"from netcat"
        nc.end_input()
        assert await hear(scene, Closed) == Closed(client, "eof")
        assert (await nc.ended()).status == 0
