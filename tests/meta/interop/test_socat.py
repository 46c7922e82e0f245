"""socat: as a client over TCP, TLS, UDP and Unix sockets, and as a server that goes away and comes back (E10)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from greenroom import ActorSystem, Backoff
from greenroom.meta import (
    Close,
    Closed,
    Connected,
    Datagram,
    Lines,
    Received,
    SendTo,
    TcpClient,
    UdpServer,
    UnixClient,
    UnixServer,
    Write,
    tls_client,
    tls_server,
)
from tests.meta.interop.programs import Program, held_port, needs
from tests.meta.owners import PATIENCE, Echo, Scene, emptied, hear, serve
from tests.meta.peers import LOOPBACK
from tests.meta.sockets.certificates import Certificates

pytestmark = needs("socat", "openssl")
SOON = Backoff(min=0.02, max=0.02)


def verified(certificates: Certificates) -> str:
    """socat's options for a side that wants to see the other's certificate."""
    return f"cafile={certificates.ca},verify=1,openssl-min-proto-version=TLS1.2"


async def echoed(socat: Program) -> None:
    """Fail unless what socat is told comes back."""
    for line in (b"hello", b"", b"x" * 3000, "grüße".encode()):
        await socat.write(line + b"\n")
        assert await socat.line() == line


async def test_socat_over_tcp(system: ActorSystem) -> None:  # E10
    server, alias = await serve(Scene(system), handler=Echo, framing=Lines())
    host, port = server.address
    with Program("socat", "-", f"TCP:{host}:{port}") as one, Program("socat", "-", f"TCP:{host}:{port}") as other:
        await echoed(one)
        await echoed(other)
        one.end_input()
        assert await one.ended() == (0, b"", b"")
        await echoed(other)
    await emptied(alias)


async def test_socat_at_a_unix_socket(system: ActorSystem, tmp_path: Path) -> None:  # E10
    path = tmp_path / "socket"
    _, alias = await serve(Scene(system), UnixServer(path, handler=Echo, framing=Lines()))
    with Program("socat", "-", f"UNIX-CONNECT:{path}") as socat:
        await echoed(socat)
        socat.end_input()
        assert await socat.ended() == (0, b"", b"")
    await emptied(alias)


@pytest.mark.parametrize("version", ["TLS1.2", "TLS1.3"])
async def test_socat_over_tls(system: ActorSystem, certificates: Certificates, version: str) -> None:  # E10
    tls = tls_server(certificates.server, certificates.server_key, client_ca=certificates.ca)
    server, alias = await serve(Scene(system), handler=Echo, framing=Lines(), tls=tls, handshake_timeout=PATIENCE)
    host, port = server.address
    where = f"OPENSSL:{host}:{port},commonname=localhost,cafile={certificates.ca},verify=1"
    speaks = f"openssl-min-proto-version={version},openssl-max-proto-version={version}"
    shows = f"cert={certificates.client},key={certificates.client_key}"
    with Program("socat", "-", f"{where},{speaks},{shows}") as socat:
        await echoed(socat)
        socat.end_input()
        assert await socat.ended() == (0, b"", b"")
    await emptied(alias)
    assert (await alias.inspect("taken"))["taken"] == 1


async def test_socat_over_udp(system: ActorSystem) -> None:  # E10
    scene = Scene(system)
    server = UdpServer()
    alias = await scene.spawn(server)
    host, port = server.address
    with Program("socat", "-", f"UDP:{host}:{port}") as one, Program("socat", "-", f"UDP:{host}:{port}") as other:
        peers = []
        for socat, data in [(one, b"first\n"), (other, b"second\n"), (one, b"x" * 3000 + b"\n")]:
            await socat.write(data)
            packet = await hear(scene, Datagram)
            assert (packet.alias, packet.data) == (alias, data)
            assert await alias.ask(SendTo(data.upper(), packet.peer), timeout=None) == len(data)
            assert await socat.line() + b"\n" == data.upper()
            peers.append(packet.peer)
        assert peers[0] == peers[2] != peers[1]
    passed = {"received": 3, "sent": 3, "dropped": 0, "errors": 0}
    assert await alias.inspect(*passed) == passed


# -- socat as the server


async def talk(scene: Scene, client: Any, socat: Program) -> None:
    """Fail unless a client and socat hear one another."""
    client.tell(Write(b"to socat"))
    assert await socat.line() == b"to socat"
    await socat.write(b"from socat\n")
    assert await hear(scene, Received) == Received(client, b"from socat")


async def come_and_go(system: ActorSystem, make: Callable[[], Any], listens: str) -> None:
    """A server that is ended twice: its client waits for the next one, with what is written meanwhile."""
    scene = Scene(system)
    client = None
    for number in range(3):
        with Program("socat", "-d", "-d", listens, "-") as socat:
            await socat.error(b"listening")
            if client is None:
                client = await scene.spawn(make())
            assert (await hear(scene, Connected)).alias == client
            if number:
                assert await socat.line() == b"meanwhile"
            await talk(scene, client, socat)
            if number == 2:
                client.tell(Close())
                assert await hear(scene, Closed) == Closed(client, "closed")
                assert (await socat.ended()).status == 0
                break
            socat.terminate()
            closed = await hear(scene, Closed)
            assert (closed.alias, closed.reason in ("eof", "reset")) == (client, True)
            await socat.ended()
        client.tell(Write(b"meanwhile"))
    assert client is not None
    await client.terminated()


async def test_a_client_waits_for_a_server_that_comes_back(system: ActorSystem) -> None:  # E10
    with held_port() as port:
        listens = f"TCP-LISTEN:{port},bind={LOOPBACK},reuseaddr"
        await come_and_go(system, lambda: TcpClient(LOOPBACK, port, framing=Lines(), reconnect=SOON), listens)


async def test_a_client_waits_for_a_unix_socket_that_comes_back(system: ActorSystem, tmp_path: Path) -> None:  # E10
    path = tmp_path / "socket"
    make = lambda: UnixClient(path, framing=Lines(), reconnect=SOON)  # noqa: E731
    await come_and_go(system, make, f"UNIX-LISTEN:{path},unlink-early")


async def test_a_client_waits_for_a_server_with_tls_that_comes_back(
    system: ActorSystem, certificates: Certificates
) -> None:  # E10
    def make(port: int) -> TcpClient:
        tls = tls_client(certificates.ca, certificate=certificates.client, key=certificates.client_key)
        return TcpClient(LOOPBACK, port, framing=Lines(), reconnect=SOON, connect_timeout=PATIENCE, tls=tls)

    with held_port() as port:
        shows = f"cert={certificates.server},key={certificates.server_key},{verified(certificates)}"
        listens = f"OPENSSL-LISTEN:{port},bind={LOOPBACK},reuseaddr,{shows}"
        await come_and_go(system, lambda: make(port), listens)
