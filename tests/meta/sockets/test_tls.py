"""TLS: servers, clients, both with certificates, and handshakes that go wrong (E10)."""

from __future__ import annotations

import asyncio
import socket
import ssl
from typing import Any

import pytest

from greenroom import ActorSystem, Backoff
from greenroom.errors import ConfigError
from greenroom.meta import (
    Close,
    Closed,
    CloseWrite,
    Connected,
    Lines,
    TcpClient,
    TcpConnection,
    TcpServer,
    Write,
    tls_client,
    tls_server,
)
from greenroom.testing import capture_logs
from tests.gates import turns
from tests.meta.owners import Echo, Ended, Scene, all_told, emptied, hear, hear_bytes, serve
from tests.meta.peers import LOOPBACK, accept, connect
from tests.meta.sockets.certificates import Certificates

LARGE = b"0123456789abcdef" * 60_000
REFUSED = {"tls failed", "reset", "eof", "connect failed"}


@pytest.fixture
def server_tls(certificates: Certificates) -> ssl.SSLContext:
    return tls_server(certificates.server, certificates.server_key)


@pytest.fixture
def client_tls(certificates: Certificates) -> ssl.SSLContext:
    return tls_client(certificates.ca)


@pytest.fixture
def mutual_tls(certificates: Certificates) -> ssl.SSLContext:
    return tls_server(certificates.server, certificates.server_key, client_ca=certificates.ca)


async def still_serves(scene: Scene, address: Any, client_tls: ssl.SSLContext) -> None:
    """Fail unless an echo server at `address` answers a client."""
    client = await scene.spawn(TcpClient(*address, tls=client_tls))
    await hear(scene, Connected)
    client.tell(Write(b"still here?"))
    assert await hear_bytes(scene, 11) == b"still here?"
    client.tell(Close())
    assert await hear(scene, Closed) == Closed(client, "closed")
    await client.terminated()
    assert (await scene.probe.expect(Ended)).ref == client


async def test_a_client_and_a_server_talk_in_secret(
    system: ActorSystem, server_tls: ssl.SSLContext, client_tls: ssl.SSLContext
) -> None:  # E10
    scene = Scene(system)
    server, _ = await serve(scene, handler=Echo, tls=server_tls)
    client = await scene.spawn(TcpClient(*server.address, tls=client_tls))
    await hear(scene, Connected)
    client.tell(Write(LARGE))
    assert await hear_bytes(scene, len(LARGE)) == LARGE
    client.tell(Close())
    assert await hear(scene, Closed) == Closed(client, "closed")


async def test_what_is_written_before_a_close_reaches_the_peer(
    system: ActorSystem, server_tls: ssl.SSLContext, client_tls: ssl.SSLContext
) -> None:  # E10
    scene, other = Scene(system), Scene(system)
    server, _ = await serve(scene, tls=server_tls)
    await other.spawn(TcpClient(*server.address, tls=client_tls))
    up = await hear(scene, Connected)
    await hear(other, Connected)
    up.alias.tell(Write(LARGE))
    up.alias.tell(Close())
    frames, closed = await all_told(other)
    assert (b"".join(frames), closed.reason) == (LARGE, "eof")
    assert await hear(scene, Closed) == Closed(up.alias, "closed")


async def test_a_name_can_be_asked_for_that_is_not_the_address(
    system: ActorSystem, server_tls: ssl.SSLContext, client_tls: ssl.SSLContext
) -> None:  # E10
    scene = Scene(system)
    server, _ = await serve(scene, handler=Echo, tls=server_tls)
    good = await scene.spawn(TcpClient(*server.address, tls=client_tls, server_hostname="localhost"))
    await hear(scene, Connected)
    good.stop()
    await hear(scene, Closed)
    await scene.probe.expect(Ended)
    bad = await scene.spawn(TcpClient(*server.address, tls=client_tls, server_hostname="example.org"))
    closed = await hear(scene, Closed)
    assert (closed.alias, closed.reason) == (bad, "tls failed")
    assert isinstance(closed.error, ssl.SSLCertVerificationError)
    await scene.probe.expect(Ended)
    await still_serves(scene, server.address, client_tls)


async def test_a_server_whose_authority_is_unknown_is_not_trusted(
    system: ActorSystem, server_tls: ssl.SSLContext
) -> None:  # E10
    scene = Scene(system)
    server, _ = await serve(scene, handler=Echo, tls=server_tls)
    await scene.spawn(TcpClient(*server.address, tls=tls_client()))
    assert (await hear(scene, Closed)).reason == "tls failed"
    await scene.probe.expect(Ended)
    await still_serves(scene, server.address, tls_client(verify=False))


async def test_a_client_with_a_certificate_is_let_in(
    system: ActorSystem, mutual_tls: ssl.SSLContext, certificates: Certificates
) -> None:  # E10
    scene = Scene(system)
    server, _ = await serve(scene, handler=Echo, tls=mutual_tls)
    context = tls_client(certificates.ca, certificate=certificates.client, key=certificates.client_key)
    await still_serves(scene, server.address, context)


@pytest.mark.parametrize("who", ["nobody", "stranger"])
async def test_a_client_without_a_good_certificate_is_refused(
    system: ActorSystem, mutual_tls: ssl.SSLContext, certificates: Certificates, who: str
) -> None:  # E10
    scene, other = Scene(system), Scene(system)
    server, alias = await serve(scene, tls=mutual_tls)
    context = tls_client(certificates.ca)
    if who == "stranger":
        context.load_cert_chain(certificates.stranger, certificates.stranger_key)
    await other.spawn(TcpClient(*server.address, tls=context))
    message = await other.heard()
    if isinstance(message, Connected):  # by TLS 1.3, a client is done before the server has seen its certificate
        message = await other.heard()
    assert isinstance(message, Closed)
    assert message.reason in REFUSED
    assert (await alias.inspect("taken", "connections")) == {"taken": 0, "connections": 0}
    assert scene.probe.messages == []


# -- handshakes that go wrong


async def test_a_plain_client_at_a_tls_port_does_no_harm(
    system: ActorSystem, server_tls: ssl.SSLContext, client_tls: ssl.SSLContext
) -> None:  # E10, R7
    scene = Scene(system)
    server, alias = await serve(scene, handler=Echo, tls=server_tls)
    for data in (b"GET / HTTP/1.0\r\n\r\n", b"\0" * 100, b"\x16\x03\x01\xff\xff" + b"\xff" * 1000, b""):
        with await connect(server.address) as peer:
            await peer.send(data)
            peer.end()
            await peer.cut_off()
    for _ in range(5):
        (await connect(server.address)).reset()
    await still_serves(scene, server.address, client_tls)
    assert await alias.inspect("taken") == {"taken": 1}


async def test_a_tls_client_at_a_plain_port_is_told(system: ActorSystem, client_tls: ssl.SSLContext) -> None:  # E10
    scene = Scene(system)
    server, _ = await serve(scene, handler=Echo)  # it says what it was told, and that is no TLS
    await scene.spawn(TcpClient(*server.address, tls=client_tls))
    assert (await hear(scene, Closed)).reason == "tls failed"


async def test_a_handshake_that_never_comes_is_waited_for_no_longer_than_that(
    system: ActorSystem, server_tls: ssl.SSLContext, client_tls: ssl.SSLContext
) -> None:  # E10
    scene = Scene(system)
    server, alias = await serve(scene, handler=Echo, tls=server_tls, handshake_timeout=0.1)
    with await connect(server.address) as silent, await connect(server.address) as slow:
        await slow.send(b"\x16\x03\x01")
        assert await silent.cut_off() == b""
        await slow.cut_off()
    assert await alias.inspect("taken", "connections") == {"taken": 0, "connections": 0}
    patient, _ = await serve(scene, handler=Echo, tls=server_tls)
    await still_serves(scene, patient.address, client_tls)


@pytest.mark.parametrize("how", ["stop", "kill", "parent"])
async def test_a_server_that_ends_closes_what_is_still_in_its_handshake(
    system: ActorSystem, server_tls: ssl.SSLContext, how: str
) -> None:  # E10
    scene = Scene(system)
    server, alias = await serve(scene, handler=Echo, tls=server_tls, handshake_timeout=1000.0)
    with await connect(server.address) as peer:
        await turns(20)  # it is taken, most likely; if it is not, the system closes it
        if how == "parent":
            scene.owner.kill()
        else:
            getattr(alias, how)()
        await alias.terminated()
        assert await peer.cut_off() == b""


async def test_connections_within_their_handshake_count_too(
    system: ActorSystem, server_tls: ssl.SSLContext, client_tls: ssl.SSLContext
) -> None:  # E10
    scene = Scene(system)
    server, alias = await serve(scene, handler=Echo, tls=server_tls, max_connections=2, handshake_timeout=1000.0)
    with await connect(server.address), await connect(server.address):
        with await connect(server.address) as third:
            assert await third.cut_off() == b""
        assert await alias.inspect("refused", "connections") == {"refused": 1, "connections": 0}


async def test_a_client_does_not_wait_for_ever_for_a_handshake(
    system: ActorSystem, client_tls: ssl.SSLContext
) -> None:  # E10
    scene = Scene(system)
    with socket.create_server((LOOPBACK, 0)) as silent:
        client = await scene.spawn(TcpClient(*silent.getsockname(), tls=client_tls, connect_timeout=0.1))
        closed = await hear(scene, Closed)
        assert closed.alias == client
        assert closed.reason in ("connect failed", "tls failed")
        with await accept(silent) as peer:
            await peer.cut_off()


async def test_a_client_tries_again_after_a_failed_handshake(
    system: ActorSystem, server_tls: ssl.SSLContext, client_tls: ssl.SSLContext
) -> None:  # E10
    scene, servers = Scene(system), Scene(system)
    with socket.create_server((LOOPBACK, 0)) as sock:
        again = Backoff(min=0.0, max=0.0)
        client = await scene.spawn(TcpClient(*sock.getsockname(), tls=client_tls, reconnect=again))
        for _ in range(3):
            with await accept(sock) as peer:
                await peer.send(b"no TLS at all")
        address = sock.getsockname()
    await servers.spawn(TcpServer(*address, handler=Echo, tls=server_tls))
    assert (await hear(scene, Connected)).alias == client
    client.tell(Write(b"at last"))
    assert await hear_bytes(scene, 7) == b"at last"


# -- the rest


async def test_a_peer_that_goes_without_a_word_does_no_harm(
    system: ActorSystem, server_tls: ssl.SSLContext, certificates: Certificates
) -> None:  # E10, R7
    def go(address: Any, how: str) -> None:
        context = tls_client(certificates.ca)
        with socket.create_connection(address) as sock:
            secured = context.wrap_socket(sock, server_hostname="localhost", suppress_ragged_eofs=True)
            secured.sendall(b"hello")
            assert secured.recv(5) == b"hello"
            if how == "cut":
                raw = socket.socket(fileno=secured.detach())  # the stream ends, and TLS does not
                raw.close()
            else:
                secured.close()

    scene = Scene(system)
    server, alias = await serve(scene, handler=Echo, tls=server_tls)
    for how in ("cut", "close"):
        await asyncio.to_thread(go, server.address, how)
    await emptied(alias)
    await still_serves(scene, server.address, tls_client(certificates.ca))


async def test_one_direction_alone_cannot_be_closed(
    system: ActorSystem, server_tls: ssl.SSLContext, client_tls: ssl.SSLContext
) -> None:  # E10
    scene = Scene(system)
    server, _ = await serve(scene, handler=Echo, tls=server_tls)
    client = await scene.spawn(TcpClient(*server.address, tls=client_tls))
    await hear(scene, Connected)
    with capture_logs() as logs:
        client.tell(CloseWrite())
        client.tell(Write(b"goes on"))
        assert await hear_bytes(scene, 7) == b"goes on"
    assert any("CloseWrite" in text or "one direction" in text for text in logs.messages)


@pytest.mark.parametrize("side", ["server", "client"])
async def test_a_connected_socket_can_be_secured(
    system: ActorSystem, server_tls: ssl.SSLContext, client_tls: ssl.SSLContext, side: str
) -> None:  # E10
    scene, other = Scene(system), Scene(system)
    ours, theirs = socket.socketpair()
    one = await scene.spawn(TcpConnection(ours, tls=server_tls, server_side=True, framing=Lines()))
    two = await other.spawn(TcpConnection(theirs, tls=client_tls, server_hostname="localhost", framing=Lines()))
    await hear(scene, Connected)
    await hear(other, Connected)
    one.tell(Write(b"from the server"))
    two.tell(Write(b"from the client"))
    assert await hear_bytes(scene, 15) == b"from the client"
    assert await hear_bytes(other, 15) == b"from the server"
    (one if side == "server" else two).tell(Close())
    assert {(await hear(scene, Closed)).reason, (await hear(other, Closed)).reason} == {"closed", "eof"}


@pytest.mark.parametrize("why", ["no tls", "too late"])
async def test_the_owner_of_a_connected_socket_hears_of_a_failed_handshake(
    system: ActorSystem, server_tls: ssl.SSLContext, why: str
) -> None:  # E10
    scene = Scene(system)
    ours, theirs = socket.socketpair()
    with theirs:
        options: dict[str, Any] = {"tls": server_tls, "server_side": True}
        if why == "too late":
            options["handshake_timeout"] = 0.1
        else:
            theirs.sendall(b"this is no TLS, and never will be\n")
        alias = await scene.spawn(TcpConnection(ours, **options))
        closed = await hear(scene, Closed)
        assert (closed.alias, closed.reason) == (alias, "tls failed")
        await alias.terminated()
        assert ours.fileno() == -1


def test_a_handshake_of_no_time_at_all_is_an_option_that_makes_no_sense(server_tls: ssl.SSLContext) -> None:  # E10
    with pytest.raises(ConfigError) as caught:
        TcpServer(tls=server_tls, handshake_timeout=0)
    assert caught.value.field == "handshake_timeout"
