"""`openssl s_client` and `openssl s_server`: TLS with and without certificates of clients (E10)."""

from __future__ import annotations

from pathlib import Path

import pytest

from greenroom import ActorSystem
from greenroom.meta import Close, Closed, Connected, Lines, Received, TcpClient, Write, tls_client, tls_server
from tests.meta.interop.programs import Program, needs, run
from tests.meta.owners import PATIENCE, Echo, Scene, emptied, hear, serve
from tests.meta.peers import LOOPBACK
from tests.meta.sockets.certificates import Certificates

pytestmark = needs("openssl")
VERSIONS = ["-tls1_2", "-tls1_3"]


def s_client(certificates: Certificates, port: int, *more: object) -> tuple[object, ...]:
    """The command of a client that looks at the server's certificate, prints only what it receives, and ends at EOF."""
    where = ("-connect", f"{LOOPBACK}:{port}", "-servername", "localhost")
    trusts = ("-CAfile", certificates.ca, "-verify_return_error", "-verify_hostname", "localhost")
    return ("openssl", "s_client", *where, *trusts, "-quiet", "-no_ign_eof", *more)


def shows(certificate: Path, key: Path) -> tuple[object, ...]:
    return ("-cert", certificate, "-key", key)


@pytest.mark.parametrize("version", VERSIONS)
async def test_s_client_is_answered(system: ActorSystem, certificates: Certificates, version: str) -> None:  # E10
    tls = tls_server(certificates.server, certificates.server_key)
    server, alias = await serve(Scene(system), handler=Echo, framing=Lines(), tls=tls, handshake_timeout=PATIENCE)
    with Program(*s_client(certificates, server.address[1], version)) as client:
        for line in (b"hello", b"", b"x" * 4000):
            await client.write(line + b"\n")
            assert await client.line() == line
        client.end_input()
        assert (await client.ended())[:2] == (0, b"")
    await emptied(alias)


async def test_s_client_takes_up_a_session_again(
    system: ActorSystem, certificates: Certificates, tmp_path: Path
) -> None:  # E10
    tls = tls_server(certificates.server, certificates.server_key)
    server, alias = await serve(Scene(system), handler=Echo, framing=Lines(), tls=tls, handshake_timeout=PATIENCE)
    session = tmp_path / "session"
    # Without -quiet it says what it has agreed on with the server, before and after what it receives.
    for option, expected in [("-sess_out", b"New, TLSv1.3"), ("-sess_in", b"Reused, TLSv1.3")]:
        command = [word for word in s_client(certificates, server.address[1], option, session) if word != "-quiet"]
        with Program(*command) as client:
            await client.write(b"hello\n")
            said = []
            while (line := await client.line()) != b"hello":
                said.append(line)
            assert [line for line in said if line.startswith(expected)], said
            client.end_input()
            assert (await client.ended()).status == 0
    await emptied(alias)
    assert (await alias.inspect("taken"))["taken"] == 2


@pytest.mark.parametrize("version", VERSIONS)
async def test_s_client_shows_its_certificate_or_is_refused(
    system: ActorSystem, certificates: Certificates, version: str
) -> None:  # E10
    scene = Scene(system)
    tls = tls_server(certificates.server, certificates.server_key, client_ca=certificates.ca)
    server, alias = await serve(scene, framing=Lines(), tls=tls, handshake_timeout=PATIENCE)
    port = server.address[1]
    known = shows(certificates.client, certificates.client_key)
    stranger = shows(certificates.stranger, certificates.stranger_key)
    for _ in range(2):
        for shown in ((), stranger):
            with Program(*s_client(certificates, port, version, *shown)) as client:
                refused = await client.ended()  # though its input has not
            # asyncio and uvloop close without the alert that would say why.
            assert (refused.status, refused.output) == (1, b""), refused
            assert b"verify return:1" in refused.errors, refused  # the server was not refused
        # The owner has heard of none of them: the first thing that it hears is one that may come in.
        with Program(*s_client(certificates, port, version, *known)) as client:
            connection = (await hear(scene, Connected)).alias
            await client.write(b"let me in\n")
            assert await hear(scene, Received) == Received(connection, b"let me in")
            connection.tell(Write(b"welcome"))
            assert await client.line() == b"welcome"
            connection.tell(Close())
            assert (await client.ended()).status == 0
            assert await hear(scene, Closed) == Closed(connection, "closed")
        await emptied(alias)


async def test_a_client_that_does_not_trust_the_server_goes_away(
    system: ActorSystem, certificates: Certificates
) -> None:  # E10
    scene = Scene(system)
    tls = tls_server(certificates.server, certificates.server_key)
    server, alias = await serve(scene, framing=Lines(), tls=tls, handshake_timeout=PATIENCE)
    port = server.address[1]
    where = ("-connect", f"{LOOPBACK}:{port}", "-verify_return_error", "-quiet")
    gone = await run("openssl", "s_client", *where, "-CAfile", certificates.stranger)
    assert gone.status == 1
    assert b"certificate verify failed" in gone.errors, gone
    with Program(*s_client(certificates, port)) as client:
        connection = (await hear(scene, Connected)).alias
        connection.tell(Write(b"welcome"))
        assert await client.line() == b"welcome"
    await emptied(alias)


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_client_at_s_server(system: ActorSystem, certificates: Certificates, version: str) -> None:  # E10
    itself = shows(certificates.server, certificates.server_key)
    wants = ("-Verify", 1, "-CAfile", certificates.ca, "-verify_return_error")
    # With -rev it answers with each line reversed, and takes one client after the other.
    command = ("openssl", "s_server", "-accept", f"{LOOPBACK}:0", *itself, *wants, version, "-rev")
    with Program(*command) as server:
        while not (line := await server.line()).startswith(b"ACCEPT "):
            pass
        port = int(line.rpartition(b":")[2])
        known = tls_client(certificates.ca, certificate=certificates.client, key=certificates.client_key)
        for _ in range(2):
            scene = Scene(system)
            made = TcpClient(LOOPBACK, port, framing=Lines(), connect_timeout=PATIENCE, tls=known)
            client = await scene.spawn(made)
            await hear(scene, Connected)
            client.tell(Write(b"drawer"))
            assert await hear(scene, Received) == Received(client, b"reward")
            client.tell(Close())
            assert await hear(scene, Closed) == Closed(client, "closed")
            await client.terminated()
