"""`UdpServer`: packets in and out; nobody is held up (E10)."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import Any

import pytest

from greenroom import ActorSystem, MailboxConfig
from greenroom.errors import BadArgument, ConfigError
from greenroom.meta import Close, Datagram, SendTo, UdpServer
from greenroom.testing import TestProbe, capture_logs
from tests.gates import Event
from tests.meta.owners import AsyncOwner, Ended, Scene, hear
from tests.meta.peers import LOOPBACK


@pytest.fixture
def sock() -> Iterator[socket.socket]:
    """A plain UDP socket, which blocks for as long as a test may wait."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as made:
        made.bind((LOOPBACK, 0))
        made.settimeout(60)
        yield made


async def test_a_packet_comes_whole_with_who_sent_it_and_can_be_answered(
    system: ActorSystem, sock: socket.socket
) -> None:  # E10
    scene = Scene(system)
    server = UdpServer()
    alias = await scene.spawn(server)
    for data in (b"hello", b"", b"x" * 65_507):
        sock.sendto(data, server.address)
        assert await hear(scene, Datagram) == Datagram(alias, data, sock.getsockname())
        assert await alias.ask(SendTo(data[::-1], sock.getsockname())) == len(data)
        assert sock.recvfrom(70_000) == (data[::-1], server.address)
    passed = {"received": 3, "sent": 3, "dropped": 0, "errors": 0}
    assert await alias.inspect() == {"address": server.address, **passed}


async def test_a_told_packet_is_sent(system: ActorSystem, sock: socket.socket) -> None:  # E10
    scene = Scene(system)
    alias = await scene.spawn(UdpServer())
    for data in (b"bytes", bytearray(b"array"), memoryview(b"view")):
        alias.tell(SendTo(data, sock.getsockname()))  # type: ignore[arg-type]
    await system.settle()
    assert [sock.recv(100) for _ in range(3)] == [b"bytes", b"array", b"view"]


async def test_many_peers_are_told_apart(system: ActorSystem) -> None:  # E10
    scene = Scene(system)
    server = UdpServer()
    alias = await scene.spawn(server)
    socks = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(20)]
    for number, sock in enumerate(socks):
        sock.settimeout(60)
        sock.sendto(b"%d" % number, server.address)
    for _ in socks:
        packet = await hear(scene, Datagram)
        alias.tell(SendTo(packet.data * 2, packet.peer))
    await system.settle()
    for number, sock in enumerate(socks):
        with sock:
            assert sock.recv(100) == b"%d" % number * 2


async def test_packets_for_which_there_is_no_room_are_dropped_and_counted(
    system: ActorSystem, sock: socket.socket
) -> None:  # E10
    scene = Scene(system, AsyncOwner, mailbox=MailboxConfig(capacity=3))
    gate = Event()
    server = UdpServer()
    alias = await scene.spawn(server)
    scene.owner.tell(lambda ctx: gate.wait())
    for number in range(10):
        sock.sendto(b"%d" % number, server.address)
    while (await alias.inspect("received"))["received"] < 10:
        pass
    assert (await alias.inspect("dropped"))["dropped"] in (6, 7)  # the gate itself may be in the mailbox
    gate.set()
    first = [(await hear(scene, Datagram)).data for _ in range(3)]
    assert first == [b"0", b"1", b"2"]
    sock.sendto(b"again", server.address)
    while (await hear(scene, Datagram)).data != b"again":
        pass
    assert system.dead_letters.count == 0


async def test_packets_that_are_too_large_are_dropped_and_counted(
    system: ActorSystem, sock: socket.socket
) -> None:  # E10, R7
    scene = Scene(system)
    server = UdpServer(max_size=10)
    alias = await scene.spawn(server)
    for data in (b"x" * 11, b"y" * 10, b"z" * 60_000, b"end"):
        sock.sendto(data, server.address)
    assert (await hear(scene, Datagram)).data == b"y" * 10
    assert (await hear(scene, Datagram)).data == b"end"
    assert await alias.inspect("received", "dropped") == {"received": 4, "dropped": 2}


BAD: list[tuple[Any, Any, type[Exception]]] = [
    ("text", (LOOPBACK, 9), BadArgument),
    (None, (LOOPBACK, 9), BadArgument),
    (b"x" * 70_000, (LOOPBACK, 9), OSError),
    (b"x", "nowhere", Exception),
    (b"x", None, Exception),
    (b"x", (LOOPBACK, 70_000), Exception),
]


@pytest.mark.parametrize(("data", "peer", "error"), BAD)
async def test_a_packet_that_cannot_be_sent_is_an_error_and_no_harm_is_done(
    system: ActorSystem, sock: socket.socket, data: Any, peer: Any, error: type[Exception]
) -> None:  # E10
    scene = Scene(system)
    alias = await scene.spawn(UdpServer())
    with capture_logs() as logs:
        alias.tell(SendTo(data, peer))
        await system.settle()
    assert [record.levelname for record in logs.records if record.levelname == "ERROR"] == ["ERROR"]
    with pytest.raises(error):
        await alias.ask(SendTo(data, peer))
    assert await alias.ask(SendTo(b"ok", sock.getsockname())) == 2
    assert sock.recv(10) == b"ok"


async def test_a_packet_to_where_nobody_listens_does_no_harm(system: ActorSystem, sock: socket.socket) -> None:  # E10
    scene = Scene(system)
    server = UdpServer()
    alias = await scene.spawn(server)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as gone:
        gone.bind((LOOPBACK, 0))
        nobody = gone.getsockname()
    for _ in range(3):
        await alias.ask(SendTo(b"x", nobody))
    sock.sendto(b"still here", server.address)
    assert (await hear(scene, Datagram)).data == b"still here"


@pytest.mark.parametrize("how", ["close", "stop", "kill", "parent"])
async def test_a_server_ends_and_its_port_is_free(system: ActorSystem, how: str) -> None:  # E10
    scene = Scene(system)
    server = UdpServer()
    alias = await scene.spawn(server)
    if how == "close":
        alias.tell(Close())
        assert await scene.probe.expect(Ended) == (alias, None)
    elif how == "parent":
        scene.owner.kill()
    else:
        getattr(alias, how)()
    await alias.terminated()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as again:
        again.bind(server.address)


async def test_another_owner_and_a_socket_can_be_given(system: ActorSystem, sock: socket.socket) -> None:  # E10
    scene, other = Scene(system), TestProbe(system)
    mine = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
    mine.bind(("::1", 0))
    server = UdpServer(sock=mine, owner=other.ref)
    alias = await scene.spawn(server)
    with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as six:
        six.sendto(b"six", server.address)
        packet = await other.expect(Datagram)
        assert (packet.alias, packet.data) == (alias, b"six")
        six.settimeout(60)
        await alias.ask(SendTo(b"answer", packet.peer))
        assert six.recv(10) == b"answer"
    other.ref.stop()
    await alias.terminated()  # it ends with its owner, whoever its parent is


@pytest.mark.parametrize(
    ("field", "options"),
    [("port", {"port": -1}), ("port", {"port": "x"}), ("max_size", {"max_size": 0}), ("max_size", {"max_size": 1.5})],
)
def test_options_that_make_no_sense_are_named(field: str, options: dict[str, Any]) -> None:  # E10
    with pytest.raises(ConfigError) as caught:
        UdpServer(**options)
    assert caught.value.field == field
