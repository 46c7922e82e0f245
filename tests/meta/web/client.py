"""A client of the web: a connection that sends exactly what a test says, and reads HTTP."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.meta.peers import Peer, connected
from tests.meta.web.stage import Stage

__all__ = ["HttpPeer", "Reply", "connect", "fetch", "request"]


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


class HttpPeer(Peer):
    """A connection of the test's own: `with await connect(stage) as peer`."""

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


async def connect(stage: Stage | tuple[str, int], *, receive_buffer: int | None = None) -> HttpPeer:
    address = stage.address if isinstance(stage, Stage) else stage
    return HttpPeer(await connected(address, receive_buffer))


async def fetch(stage: Stage, method: str = "GET", path: str = "/", body: bytes | None = None, **headers: str) -> Reply:
    """One request on a connection of its own: this is what a good client does."""
    with await connect(stage) as peer:
        return await peer.ask(method, path, body, **headers)
