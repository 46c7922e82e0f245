"""A listening socket: bound first, so that an error is the caller's, and opened when its meta-process runs."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from greenroom.meta.simulated.network import network_of

if TYPE_CHECKING:
    from greenroom._core.scheduler.loop import Loop
    from greenroom.meta.simulated.network import Network

__all__ = ["Listener"]


class Listener:
    """Takes connections, from the network or, in a simulation, from memory."""

    def __init__(self, loop: Loop, where: tuple[str, int], backlog: int, reuse_port: bool, sock: Any = None) -> None:
        self._network: Network | None = network_of(loop)
        self._backlog = backlog
        self._server: asyncio.AbstractServer | None = None
        self._sock: socket.socket | None = sock
        host, port = where
        if self._network is not None:
            self.address: Any = self._network.address_for(host, port)
            return
        if sock is None:
            family = socket.AF_INET6 if ":" in host else socket.AF_INET
            sock = socket.create_server((host, port), family=family, backlog=backlog, reuse_port=reuse_port)
            self._sock = sock
        sock.setblocking(False)
        self.address = sock.getsockname()

    async def open(self, make: Callable[[], Any], tls: Any, handshake_timeout: float, shutdown_timeout: float) -> None:
        """Have `make()` be the protocol of each connection from now on."""
        if self._network is not None:
            self._network.listen(self.address, make)
            return
        secured: dict[str, Any] = {}
        if tls is not None:
            secured = {
                "ssl": tls,
                "ssl_handshake_timeout": handshake_timeout,
                "ssl_shutdown_timeout": shutdown_timeout,
            }
        aio = asyncio.get_running_loop()
        is_unix = self._sock is not None and self._sock.family == getattr(socket, "AF_UNIX", None)
        create: Any = aio.create_unix_server if is_unix else aio.create_server
        self._server = await create(make, sock=self._sock, backlog=self._backlog, **secured)

    def close(self) -> None:
        """Take no more."""
        if self._network is not None:
            self._network.stop_listening(self.address)
        elif self._server is not None:
            self._server.close()
        elif self._sock is not None:
            self._sock.close()
