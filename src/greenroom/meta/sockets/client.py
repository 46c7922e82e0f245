"""`TcpClient`: connects, and if it is told to, connects again."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from greenroom.errors import ConfigError
from greenroom.errors.base import in_words
from greenroom.meta.simulated.network import network_of
from greenroom.meta.sockets.connection import SHUTDOWN_TIMEOUT, TcpConnection
from greenroom.meta.sockets.messages import Closed
from greenroom.meta.sockets.options import StreamOptions
from greenroom.meta.sockets.wire import Wire
from greenroom.meta.streams.alarms import sleep
from greenroom.meta.streams.checks import require_count, require_seconds
from greenroom.policy.backoff import Backoff

if TYPE_CHECKING:
    from greenroom.actor.messaging.ref import ActorRef

__all__ = ["TcpClient", "UnixClient"]

# Why a connection ends that is not made again.
_WANTED = frozenset({"closed", "stopped", "owner ended"})


class TcpClient(TcpConnection):
    """Connects to a server. Its owner gets `Connected`, `Received` and `Closed`, and sends `Write` and `Close`.

    With `reconnect`, it connects again when the connection is lost or cannot be made, after delays that grow; each
    time the owner gets `Closed`, and then `Connected`. What is written meanwhile waits in its mailbox; what was written
    to a connection that broke may be lost. It ends when it is closed by its owner, or without `reconnect` by anybody.

    Args:
        host, port: Where to.
        owner, framing, idle_timeout, half_open, linger, high_water: As with `TcpConnection`.
        tls: An `ssl.SSLContext` to secure it with: see `tls_client()`.
        server_hostname: The name that the server's certificate must have; by default `host`.
        connect_timeout: Seconds that an attempt may take, its TLS handshake included.
        reconnect: `Backoff(min=0.1, max=30.0)`, say; None to connect only once.
        max_attempts: After how many failed attempts in a row it gives up; None for never.
    """

    def __init__(
        self,
        host: str,
        port: int,
        *,
        owner: ActorRef | None = None,
        framing: Any = None,
        tls: ssl.SSLContext | None = None,
        server_hostname: str | None = None,
        connect_timeout: float = 10.0,
        reconnect: Backoff | None = None,
        max_attempts: int | None = None,
        idle_timeout: float | None = None,
        half_open: bool = False,
        linger: float = 5.0,
        high_water: int = 65_536,
    ) -> None:
        self._options = StreamOptions.of(framing, idle_timeout, half_open, linger, high_water)
        require_seconds("connect_timeout", connect_timeout)
        require_count("max_attempts", max_attempts, none=True)
        if reconnect is not None and not isinstance(reconnect, Backoff):
            raise ConfigError("reconnect", reconnect, "must be a Backoff, as in Backoff(min=0.1, max=30.0), or None")
        if tls is not None and not isinstance(tls, ssl.SSLContext):
            raise ConfigError("tls", tls, "must be an ssl.SSLContext: see `tls_client()`")
        self._where: Any = (host, port)
        self._owner = owner
        self._tls = tls
        self._server_hostname = server_hostname
        self._connect_timeout = connect_timeout
        self._reconnect = reconnect
        self._max_attempts = max_attempts
        self._attempts = 0

    async def start(self) -> None:
        """Connect, again and again if it is to."""
        random = self._require_host("a client").ctx.system.random
        while True:
            self._attempts += 1
            wire = await self._attempt()
            if wire is not None:
                self._attempts = 0
                over = asyncio.Event()
                self._take(wire, self._owner or self.parent, over.set)
                await over.wait()
                if wire.reason in _WANTED:
                    return
            if self._reconnect is None or self._attempts == self._max_attempts:
                return
            await sleep(self._loop, self._reconnect.delay(max(0, self._attempts - 1), random.random()))

    async def _attempt(self) -> Wire | None:
        try:
            async with asyncio.timeout(self._connect_timeout):
                return await self._open()
        except (OSError, TimeoutError, ssl.SSLError, UnicodeError) as exc:
            is_last = self._reconnect is None or self._attempts == self._max_attempts
            then = "it gives up" if is_last else "it tries again"
            self.log.info("cannot connect to %s (%s): %s", self._where, in_words(exc), then)
            if is_last:
                reason = "tls failed" if isinstance(exc, ssl.SSLError) else "connect failed"
                self.send(self._owner or self.parent, Closed(self.id, reason, exc))
            return None

    async def _open(self) -> Wire:
        wire = self._new_wire()
        await self._connect(lambda: wire)
        return wire

    async def _connect(self, make: Any) -> None:
        network = network_of(self._loop)
        if network is not None:
            network.connect(self._where, make)
            return
        host, port = self._where
        await asyncio.get_running_loop().create_connection(make, host, port, **self._secured(host))

    def _secured(self, host: str) -> dict[str, Any]:
        if self._tls is None:
            return {}
        return {
            "ssl": self._tls,
            "server_hostname": host if self._server_hostname is None else self._server_hostname,
            "ssl_handshake_timeout": max(self._connect_timeout, 0.001),
            "ssl_shutdown_timeout": SHUTDOWN_TIMEOUT,
        }

    def _is_final(self) -> bool:
        if self._wire is None or self._wire.reason is None:
            return False
        return self._reconnect is None or self._wire.reason in _WANTED

    def inspect(self, *items: str) -> Mapping[str, Any]:
        """Where to, and what a connection shows."""
        shown = {"address": self._where, "attempts": self._attempts, **super().inspect()}
        return {name: shown[name] for name in items if name in shown} if items else shown


class UnixClient(TcpClient):
    """The same, to a Unix socket at `path`."""

    def __init__(self, path: str | os.PathLike[str], **options: Any) -> None:
        if not hasattr(socket, "AF_UNIX"):
            raise ConfigError("path", path, "is a Unix socket, which this system does not have")
        super().__init__("", 0, **options)
        self._where = os.fspath(path)

    async def _connect(self, make: Any) -> None:
        network = network_of(self._loop)
        if network is not None:
            network.connect(self._where, make)
            return
        await asyncio.get_running_loop().create_unix_connection(make, self._where, **self._secured(""))
