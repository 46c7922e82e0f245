"""The other end of a connection: plain sockets of the test's own, and what owners are told of theirs."""

from __future__ import annotations

import asyncio
import socket
import struct
from types import TracebackType
from typing import Any, Self, TypeVar

from greenroom import Actor, ActorRef, Alias
from greenroom.meta import Closed, Connected, Received, TcpServer, Write
from tests.meta.cast import Scene

__all__ = [
    "LOOPBACK",
    "Echo",
    "Peer",
    "Reporter",
    "accept",
    "all_told",
    "closed_port",
    "connect",
    "emptied",
    "hear",
    "hear_bytes",
    "serve",
]

T = TypeVar("T")
LOOPBACK = "127.0.0.1"
PIECE = 1 << 16


class Peer:
    """A socket that does exactly what a test says: `with await connect(address) as peer`."""

    def __init__(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        self.sock = sock

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.sock.close()

    async def send(self, data: bytes) -> None:
        await asyncio.get_running_loop().sock_sendall(self.sock, data)

    def send_some(self, data: bytes) -> int:
        """Send what fits into the buffers at once: how much that is."""
        sent = 0
        while sent < len(data):
            try:
                sent += self.sock.send(data[sent : sent + PIECE])
            except BlockingIOError:
                break
        return sent

    async def read(self, size: int) -> bytes:
        """Exactly as many bytes."""
        got = bytearray()
        while len(got) < size:
            data = await asyncio.get_running_loop().sock_recv(self.sock, min(size - len(got), PIECE))
            assert data, f"the stream ended after {len(got)} of {size} bytes: {bytes(got[:100])!r}"
            got += data
        return bytes(got)

    async def rest(self) -> bytes:
        """What comes until the other side ends the stream, as it should."""
        got = bytearray()
        while data := await asyncio.get_running_loop().sock_recv(self.sock, PIECE):
            got += data
        return bytes(got)

    async def cut_off(self) -> bytes:
        """What comes until the other side closes, one way or another."""
        got = bytearray()
        try:
            while data := await asyncio.get_running_loop().sock_recv(self.sock, PIECE):
                got += data
        except (ConnectionError, TimeoutError):
            pass
        return bytes(got)

    def end(self) -> None:
        """Write no more."""
        self.sock.shutdown(socket.SHUT_WR)

    def reset(self) -> None:
        """Close it the hard way."""
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.sock.close()


async def connect(address: Any, *, receive_buffer: int | None = None) -> Peer:
    """Connect to `address`; with a small `receive_buffer`, little is on its way.

    It holds a packet, of 64 KiB here, in any case: with less, TCP itself waits for up to minutes.
    """
    if isinstance(address, str | bytes):
        family = socket.AF_UNIX
    else:
        family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        if receive_buffer is not None:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        peer = Peer(sock)
        await asyncio.get_running_loop().sock_connect(sock, address)
    except BaseException:
        sock.close()
        raise
    return peer


async def accept(listener: socket.socket) -> Peer:
    """The next connection to a socket of the test's own."""
    listener.setblocking(False)
    sock, _ = await asyncio.get_running_loop().sock_accept(listener)
    return Peer(sock)


def closed_port() -> int:
    """A port at which nobody listens, for a while."""
    with socket.create_server((LOOPBACK, 0)) as sock:
        port: int = sock.getsockname()[1]
        return port


async def serve(scene: Scene, server: TcpServer | None = None, **options: Any) -> tuple[TcpServer, Alias]:
    """Have the owner of `scene` listen."""
    server = TcpServer(**options) if server is None else server
    return server, await scene.spawn(server)


async def emptied(server: Alias) -> None:
    """Return when a server has no connection any more."""
    while (await server.inspect("connections", timeout=None))["connections"]:  # noqa: ASYNC110 - nobody is told
        await asyncio.sleep(0)


async def hear(scene: Scene, kind: type[T]) -> T:
    """What the owner of `scene` hears next, which is of this kind."""
    message = await scene.heard()
    assert isinstance(message, kind), message
    return message


async def hear_bytes(scene: Scene, size: int) -> bytes:
    """What the owner receives next, however it is cut: as many bytes as that."""
    got = bytearray()
    while len(got) < size:
        got += (await hear(scene, Received)).data
    return bytes(got)


async def all_told(scene: Scene) -> tuple[list[Any], Closed]:
    """All frames of one connection, and how it ended."""
    frames = []
    while isinstance(message := await scene.heard(), Received):
        frames.append(message.data)
    assert isinstance(message, Closed), message
    return frames, message


class Echo(Actor[Any, Any]):
    """Writes back what it receives."""

    def receive(self, message: Any) -> None:
        if isinstance(message, Received):
            message.alias.tell(Write(message.data))


class Reporter(Actor[Any, Any]):
    """Tells a witness what it is told, and who it is."""

    def __init__(self, witness: ActorRef[Any, Any]) -> None:
        self.witness = witness

    def receive(self, message: Any) -> None:
        if isinstance(message, Received) and message.data == b"fail":
            raise ValueError("told to fail")
        if isinstance(message, Received) and message.data == b"stop":
            self.ctx.stop()
        if isinstance(message, Connected | Received | Closed):
            self.witness.tell((self.ctx.self, message))
