"""A UDP socket: bound first, so that an error is the caller's, and read when its meta-process runs."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import Any

__all__ = ["Packets"]


class Packets(asyncio.DatagramProtocol):
    """Sends and receives packets. It takes the socket over."""

    def __init__(
        self, sock: socket.socket, received: Callable[[bytes, Any], object], failed: Callable[[Exception], object]
    ) -> None:
        sock.setblocking(False)
        self._sock = sock
        self._received = received
        self._failed = failed
        self._transport: asyncio.DatagramTransport | None = None
        self.address: Any = sock.getsockname()

    async def open(self) -> None:
        await asyncio.get_running_loop().create_datagram_endpoint(lambda: self, sock=self._sock)

    def send(self, data: bytes | bytearray | memoryview, to: Any) -> int:
        """Send a packet; the number of bytes."""
        return self._sock.sendto(data, to)  # asyncio's own `sendto` hides errors

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()
        else:
            self._sock.close()

    # -- what asyncio calls

    def connection_made(self, transport: Any) -> None:
        self._transport = transport

    def datagram_received(self, data: bytes, addr: Any) -> None:
        self._received(data, addr)

    def error_received(self, exc: Exception) -> None:
        self._failed(exc)
