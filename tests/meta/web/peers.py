"""The other end: plain sockets that send exactly what a test says, and read HTTP."""

from __future__ import annotations

import asyncio
import json
import re
import socket
import struct
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.meta.web.stage import PATIENCE, Stage

__all__ = ["Browser", "Reply", "connect", "fetch", "request"]

PIECE = 1 << 16
STILL = 50
"""Turns of asyncio after which what has not been read is not going to be."""


@dataclass
class Reply:
    """A response, as it was read."""

    status: int
    headers: dict[str, str]
    body: bytes = b""
    reason: str = ""
    version: str = "HTTP/1.1"
    pieces: list[bytes] = field(default_factory=list)
    """The chunks, if it came in chunks."""
    all_headers: list[tuple[str, str]] = field(default_factory=list)

    @property
    def text(self) -> str:
        return self.body.decode()

    def json(self) -> Any:
        return json.loads(self.body)


def request(
    method: str = "GET",
    path: str = "/",
    body: bytes | None = None,
    headers: Mapping[str, str] | None = None,
    *,
    version: str = "1.1",
) -> bytes:
    """The bytes of a request."""
    lines = [f"{method} {path} HTTP/{version}", "host: test"]
    lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
    if body is not None:
        lines.append(f"content-length: {len(body)}")
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + (body or b"")


class Browser:
    """A connection of the test's own: `async with await connect(address) as peer`."""

    def __init__(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        self.sock = sock
        self.buffer = bytearray()
        self.at_end = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.sock.close()

    # -- sending

    async def send(self, data: bytes) -> None:
        async with asyncio.timeout(PATIENCE):
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

    def shut(self) -> None:
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
            async with asyncio.timeout(PATIENCE):
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
        except ConnectionError:
            self.at_end = True
        taken = bytes(self.buffer)
        self.buffer.clear()
        return taken

    async def head(self) -> Reply:
        """A response without its body."""
        first, *lines = (await self.read_until(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        version, status, reason = (*first.split(" ", 2), "")[:3]
        pairs = [(name.lower(), value.strip()) for name, _, value in (line.partition(":") for line in lines)]
        return Reply(int(status), dict(pairs), reason=reason, version=version, all_headers=pairs)

    async def reply(self, method: str = "GET") -> Reply:
        """The next response."""
        reply = await self.head()
        if method == "HEAD" or reply.status in (204, 304) or reply.status < 200:
            return reply
        if "chunked" in reply.headers.get("transfer-encoding", ""):
            while piece := await self.chunk():
                reply.pieces.append(piece)
            reply.body = b"".join(reply.pieces)
        elif "content-length" in reply.headers:
            reply.body = await self.read(int(reply.headers["content-length"]))
        else:
            reply.body = await self.rest()
        return reply

    async def chunk(self) -> bytes:
        """The next chunk; none at the end."""
        size = int((await self.read_until(b"\r\n")).partition(b";")[0], 16)
        data = await self.read(size)
        assert await self.read(2) == b"\r\n"
        return data

    async def ask(self, method: str = "GET", path: str = "/", body: bytes | None = None, **headers: str) -> Reply:
        """Send a request, and read the response."""
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        await self.send(request(method, path, body, given))
        return await self.reply(method)


def _queues(ours: int, theirs: int) -> tuple[int, int]:
    """Of two ports of this machine: how many bytes are under way from the first, and unread at the second."""
    table = Path("/proc/net/tcp").read_text()  # of all connections, also those that are over: maybe thousands

    def sizes(local: int, remote: int) -> tuple[int, int]:
        found = re.search(rf":{local:04X} \w+:{remote:04X} \w\w (\w+):(\w+) ", table)
        return (0, 0) if found is None else (int(found[1], 16), int(found[2], 16))

    return sizes(ours, theirs)[0], sizes(theirs, ours)[1]


async def connect(stage: Stage | tuple[str, int], *, receive_buffer: int | None = None) -> Browser:
    """Connect; with a small `receive_buffer`, little is on its way."""
    sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        if receive_buffer is not None:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        peer = Browser(sock)
        await asyncio.get_running_loop().sock_connect(sock, stage.address if isinstance(stage, Stage) else stage)
    except BaseException:
        sock.close()
        raise
    return peer


async def fetch(stage: Stage, method: str = "GET", path: str = "/", body: bytes | None = None, **headers: str) -> Reply:
    """One request on a connection of its own: this is what a good client does."""
    async with await connect(stage) as peer:
        return await peer.ask(method, path, body, **headers)
