"""The other end of a `WebSocketClient`: a server that answers as a test says."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Callable
from typing import Any

from tests.meta.web.frames import WebSocketPeer, accept_key
from tests.meta.web.stage import PATIENCE

__all__ = ["raw_server"]


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
