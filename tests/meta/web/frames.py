"""WebSocket by hand: the frames of RFC 6455, as bytes."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hashlib
import os
import socket
import struct
import tracemalloc
import zlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any

from tests.meta.peers import PATIENCE
from tests.meta.web.client import HttpPeer, Reply, connect
from tests.meta.web.stage import Stage

__all__ = [
    "BINARY",
    "CLOSE",
    "CONT",
    "NO_TAKEOVER",
    "PING",
    "PONG",
    "TEXT",
    "Frame",
    "WebSocketPeer",
    "accept_key",
    "close_frame",
    "deflated",
    "deflated_frames",
    "frame",
    "handshake",
    "open_socket",
    "raw_server",
]

NO_TAKEOVER: dict[str, Any] = {"sec_websocket_extensions": "permessage-deflate; client_no_context_takeover"}
"""What a client asks for whose messages are packed each by itself."""

CONT, TEXT, BINARY, CLOSE, PING, PONG = 0, 1, 2, 8, 9, 10
KEY = "dGhlIHNhbXBsZSBub25jZQ=="
GUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
DEFLATE = "permessage-deflate"


@dataclass(frozen=True)
class Frame:
    """A frame, as it came."""

    opcode: int
    payload: bytes = b""
    fin: bool = True
    rsv: int = 0
    masked: bool = False

    @property
    def code(self) -> int | None:
        """What a socket is closed with."""
        return struct.unpack("!H", self.payload[:2])[0] if len(self.payload) >= 2 else None


def frame(
    opcode: int,
    payload: bytes | str = b"",
    *,
    fin: bool = True,
    rsv: int = 0,
    mask: bool = True,
    length: int | None = None,
    width: int | None = None,
) -> bytes:
    """The bytes of a frame; `length` is what it claims to have, `width` how many bits say so."""
    data = payload.encode() if isinstance(payload, str) else payload
    size = len(data) if length is None else length
    if width is None:
        width = 7 if size < 126 else 16 if size < 1 << 16 else 64
    marks = 0x80 if mask else 0
    head = bytes([(0x80 if fin else 0) | rsv << 4 | opcode])
    if width == 7:
        head += bytes([marks | size])
    elif width == 16:
        head += bytes([marks | 126]) + struct.pack("!H", size)
    else:
        head += bytes([marks | 127]) + struct.pack("!Q", size)
    if not mask:
        return head + data
    key = os.urandom(4)
    return head + key + masked(data, key)


def masked(data: bytes, key: bytes) -> bytes:
    """Mask, or unmask."""
    size = len(data)
    whole = (key * (size // 4 + 1))[:size]
    return (int.from_bytes(data, "big") ^ int.from_bytes(whole, "big")).to_bytes(size, "big")


def close_frame(code: int | None = 1000, reason: bytes | str = b"", *, mask: bool = True) -> bytes:
    """The bytes of a farewell."""
    said = reason.encode() if isinstance(reason, str) else reason
    return frame(CLOSE, b"" if code is None else struct.pack("!H", code) + said, mask=mask)


def deflated(data: bytes) -> bytes:
    """What a message is with permessage-deflate."""
    packer = zlib.compressobj(wbits=-15)
    packed = packer.compress(data) + packer.flush(zlib.Z_SYNC_FLUSH)
    return packed.removesuffix(b"\x00\x00\xff\xff")


def deflated_frames(number: int, size: int, noise: int) -> bytes:
    """So many messages that unpack to so many bytes; `noise` of these cannot be packed."""
    return frame(BINARY, deflated(os.urandom(noise) + bytes(size - noise)), rsv=4) * number


def accept_key(key: str = KEY) -> str:
    """What a server answers to a key."""
    return base64.b64encode(hashlib.sha1((key + GUID).encode()).digest()).decode()


def handshake(path: str = "/ws", *, without: tuple[str, ...] = (), method: str = "GET", **headers: str) -> bytes:
    """The bytes of a request for a WebSocket."""
    given = {
        "host": "test",
        "upgrade": "websocket",
        "connection": "Upgrade",
        "sec-websocket-key": KEY,
        "sec-websocket-version": "13",
        **{name.replace("_", "-"): value for name, value in headers.items()},
    }
    lines = [f"{name}: {value}" for name, value in given.items() if name not in without]
    return "\r\n".join([f"{method} {path} HTTP/1.1", *lines, "", ""]).encode("latin-1")


class WebSocketPeer(HttpPeer):
    """A connection that is a WebSocket."""

    answer: Reply

    async def send_until_stuck(self, data: bytes) -> tuple[asyncio.Future[None], int]:
        """Send it until the other side reads no more: the sending, which goes on, and the memory that was in use."""
        tracemalloc.start()
        try:
            sending = asyncio.ensure_future(self.send(data))
            await self.stuck()
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        return sending, peak

    async def frame(self) -> Frame:
        """The next frame."""
        first, second = await self.read(2)
        size = second & 0x7F
        if size == 126:
            (size,) = struct.unpack("!H", await self.read(2))
        elif size == 127:
            (size,) = struct.unpack("!Q", await self.read(8))
        key = await self.read(4) if second & 0x80 else b""
        data = await self.read(size)
        if key:
            data = masked(data, key)
        return Frame(first & 0x0F, data, bool(first & 0x80), first >> 4 & 7, bool(key))

    async def all_frames(self) -> list[Frame]:
        """Those that come until the stream ends, one way or another."""
        rest = await self.cut_off()
        self.buffer += rest
        found = []
        while self.buffer:
            found.append(await self.frame())
        return found

    async def message(self) -> str | bytes:
        """The next message, however many frames it has."""
        first = await self.frame()
        assert first.opcode in (TEXT, BINARY), first
        data, last = bytearray(first.payload), first
        while not last.fin:
            last = await self.frame()
            assert last.opcode == CONT
            data += last.payload
        if first.rsv == 4:
            return_data = zlib.decompressobj(wbits=-15).decompress(bytes(data) + b"\x00\x00\xff\xff")
        else:
            return_data = bytes(data)
        return return_data.decode() if first.opcode == TEXT else return_data

    async def say(self, text: str) -> str | bytes:
        """Send a text, and read what comes next."""
        await self.send(frame(TEXT, text))
        return await self.message()

    async def farewell(self, code: int = 1000) -> Frame:
        """Close it, and read what the other side says to that, which is its last word."""
        await self.send(close_frame(code))
        last = await self.frame()
        assert last.opcode == CLOSE, last
        assert await self.rest() == b""
        return last


async def open_socket(
    stage: Stage,
    path: str = "/ws",
    *,
    early: bytes = b"",
    deflate: bool = False,
    receive_buffer: int | None = None,
    **headers: Any,
) -> WebSocketPeer:
    """Ask for a WebSocket, and get it; `early` is sent together with the request."""
    plain = await connect(stage, receive_buffer=receive_buffer)
    peer = WebSocketPeer(plain.sock)
    if deflate:
        headers.setdefault("sec_websocket_extensions", DEFLATE)
    try:
        await peer.send(handshake(path, **headers) + early)
        peer.answer = await peer.head()
        assert peer.answer.status == 101, peer.answer
        assert peer.answer.headers["sec-websocket-accept"] == accept_key()
        assert (DEFLATE in peer.answer.headers.get("sec-websocket-extensions", "")) == deflate
    except BaseException:
        peer.sock.close()
        raise
    return peer


@contextlib.asynccontextmanager
async def raw_server() -> AsyncIterator[tuple[Callable[..., Any], str]]:
    """A socket that answers handshakes as a test says."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)

        async def accept(
            answer: bytes | None = None, early: bytes = b"", extensions: str | None = None
        ) -> WebSocketPeer:
            async with asyncio.timeout(PATIENCE):
                sock, _ = await asyncio.get_running_loop().sock_accept(listener)
            peer = WebSocketPeer(sock)
            head = (await peer.read_until(b"\r\n\r\n")).decode()
            key = next(
                line.split(": ")[1] for line in head.splitlines() if line.lower().startswith("sec-websocket-key")
            )
            if answer is None:
                lines = ["HTTP/1.1 101 Switching Protocols", "Upgrade: websocket", "Connection: Upgrade"]
                if extensions is not None:
                    lines.append(f"Sec-WebSocket-Extensions: {extensions}")
                answer = "\r\n".join([*lines, f"Sec-WebSocket-Accept: {accept_key(key)}", "", ""]).encode()
            await peer.send(answer + early)
            return peer

        yield accept, f"ws://127.0.0.1:{listener.getsockname()[1]}/"
