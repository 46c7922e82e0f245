"""The other end of a connection: sockets that do exactly what a test says."""

from __future__ import annotations

import asyncio
import re
import socket
import struct
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

__all__ = ["LOOPBACK", "PATIENCE", "Peer", "accept", "closed_port", "connect", "connected"]

LOOPBACK = "127.0.0.1"
PATIENCE = 30.0
"""Seconds that something may take which happens at once."""
PIECE = 1 << 16
STILL = 50
"""Turns of asyncio after which what has not been read is not going to be."""


class Peer:
    """A socket of the test's own: `with await connect(address) as peer`."""

    def __init__(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        self.sock = sock
        self.buffer = bytearray()
        self.at_end = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.sock.close()

    # -- sending

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

    async def push(self, data: bytes) -> None:
        """Send as much as is taken: the other side may refuse the rest."""
        with suppress(ConnectionError):
            await self.send(data)

    def end(self) -> None:
        """Send no more."""
        self.sock.shutdown(socket.SHUT_WR)

    def reset(self) -> None:
        """Close it the hard way."""
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.sock.close()

    async def taken(self) -> None:
        """Wait until the other side, which is in this process, has read all that was sent."""
        ours, theirs = self.sock.getsockname()[1], self.sock.getpeername()[1]
        async with asyncio.timeout(PATIENCE):
            while any(_queues(ours, theirs)):  # noqa: ASYNC110
                await asyncio.sleep(0)

    async def stuck(self) -> None:
        """Wait until the other side, which is in this process, leaves unread what has come."""
        ours, theirs = self.sock.getsockname()[1], self.sock.getpeername()[1]
        quiet, before = 0, (0, 0)
        async with asyncio.timeout(PATIENCE):
            while quiet < STILL:
                await asyncio.sleep(0)
                now = _queues(ours, theirs)
                quiet = quiet + 1 if now == before and now[1] else 0
                before = now

    # -- reading

    async def more(self) -> bool:
        """Read something; False at the end."""
        if not self.at_end:
            data = await asyncio.get_running_loop().sock_recv(self.sock, PIECE)
            self.buffer += data
            self.at_end = not data
        return not self.at_end

    async def read(self, size: int) -> bytes:
        """Exactly as many bytes."""
        while len(self.buffer) < size:
            assert await self.more(), f"the stream ended within {size} bytes: {bytes(self.buffer[:200])!r}"
        taken = bytes(self.buffer[:size])
        del self.buffer[:size]
        return taken

    async def read_until(self, end: bytes) -> bytes:
        """What comes before `end`, which is dropped."""
        while (found := self.buffer.find(end)) < 0:
            assert await self.more(), f"the stream ended before {end!r}: {bytes(self.buffer[:200])!r}"
        taken = bytes(self.buffer[:found])
        del self.buffer[: found + len(end)]
        return taken

    async def rest(self) -> bytes:
        """What comes until the other side ends the stream, as it should."""
        while await self.more():
            pass
        taken = bytes(self.buffer)
        self.buffer.clear()
        return taken

    async def cut_off(self) -> bytes:
        """What comes until the other side closes, one way or another."""
        try:
            while await self.more():
                pass
        except (ConnectionError, TimeoutError):
            self.at_end = True
        taken = bytes(self.buffer)
        self.buffer.clear()
        return taken


def _queues(ours: int, theirs: int) -> tuple[int, int]:
    """Of two ports of this machine: how many bytes are under way from the first, and unread at the second."""
    table = Path("/proc/net/tcp").read_text()  # of all connections, also those that are over: maybe thousands

    def sizes(local: int, remote: int) -> tuple[int, int]:
        found = re.search(rf":{local:04X} \w+:{remote:04X} \w\w (\w+):(\w+) ", table)
        return (0, 0) if found is None else (int(found[1], 16), int(found[2], 16))

    return sizes(ours, theirs)[0], sizes(theirs, ours)[1]


async def connected(address: Any, receive_buffer: int | None = None) -> socket.socket:
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
        if family != socket.AF_UNIX:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setblocking(False)
        await asyncio.get_running_loop().sock_connect(sock, address)
    except BaseException:
        sock.close()
        raise
    return sock


async def connect(address: Any, *, receive_buffer: int | None = None) -> Peer:
    return Peer(await connected(address, receive_buffer))


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
