"""`TcpClient`: connects, and if it is told to, connects again."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from collections import deque
from collections.abc import Callable
from typing import Any

from greenroom.actor.messaging.ref import ActorRef
from greenroom.actor.messaging.reply import Reply
from greenroom.errors import ConfigError, ConnectionClosed
from greenroom.errortext import in_words
from greenroom.exits import ExitReason
from greenroom.meta import carriers
from greenroom.meta.sockets.connection import TcpConnection
from greenroom.meta.sockets.messages import Close, Write
from greenroom.meta.sockets.wire import StreamOptions, Wire, secured
from greenroom.policy.backoff import Backoff
from greenroom.validation import require_count, require_instance, require_port, require_seconds

MOST_UNSENT = 1024
"""Writes that are kept while there is no connection; further ones wait in the mailbox."""
# After these reasons, a client does not connect again.
_WANTED = frozenset({"closed", "stopped", "owner ended"})


class TcpClient(TcpConnection):
    """Connects to a server. Its owner gets `Connected`, `Received` and `Closed`, and sends `Write` and `Close`.

    With `reconnect`, it connects again when the connection is lost or cannot be made, after delays that grow; each
    time the owner gets `Closed`, and then `Connected`. What is written meanwhile waits in its mailbox; what was written
    to a connection that broke may be lost. It ends when it is closed by its owner, or without `reconnect` by any side.

    Args:
        host, port: Where to.
        owner, framing, idle_timeout, half_open, linger, high_water, write_timeout: As with `TcpConnection`.
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
        write_timeout: float | None = 60.0,
    ) -> None:
        self._options = StreamOptions(framing, idle_timeout, half_open, linger, high_water, write_timeout)
        require_seconds("connect_timeout", connect_timeout, positive=True)
        require_count("max_attempts", max_attempts, none=True)
        if reconnect is not None and not isinstance(reconnect, Backoff):
            raise ConfigError("reconnect", reconnect, "must be a Backoff, as in Backoff(min=0.1, max=30.0), or None")
        require_instance("tls", tls, ssl.SSLContext | None, "an ssl.SSLContext: see `tls_client()`, or None")
        require_instance("host", host, str, "a name or an address")
        require_instance("owner", owner, ActorRef | None, "the ref of an actor, or None")
        require_port(port)
        self._where: Any = (host, port)
        self._owner = owner
        self._tls = tls
        self._server_hostname = server_hostname
        self._connect_timeout = connect_timeout
        self._reconnect = reconnect
        self._max_attempts = max_attempts
        self._attempts = 0
        self._last_delay = 0.0
        # Writes that wait for a connection.
        self._unsent: deque[tuple[Write, Reply | None]] = deque()

    async def start(self) -> None:
        self._end_with(self._recipient(), self._owner_ended)
        random = self._spawned().ctx.system.random
        while True:
            self._attempts += 1
            wire = await self._attempt()
            if wire is not None:
                up_since = self._loop.now()
                over = asyncio.Event()
                self._take(wire, self._recipient(), over.set)
                await over.wait()
                if wire.reason in _WANTED:
                    return
                if wire.frames_in or self._loop.now() - up_since >= self._last_delay:
                    self._attempts = 0  # else it was closed at once, which is no better than refused
            if self._reconnect is None or self._attempts == self._max_attempts:
                return
            self._last_delay = self._reconnect.delay(max(0, self._attempts - 1), random.random())
            over = asyncio.Event()
            alarm = self._loop.call_later(self._last_delay, over.set)
            try:
                await over.wait()
            finally:
                alarm.cancel()

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
                await self._tell_owner_of_failure(reason, exc)
            return None

    async def _open(self) -> Wire:
        wire = self._new_wire()
        await self._connect(lambda: wire)
        return wire

    async def _connect(self, make: Any) -> None:
        tls = secured(self._tls, max(self._connect_timeout, 0.001))
        if tls:
            host = "" if isinstance(self._where, str) else self._where[0]
            tls["server_hostname"] = host if self._server_hostname is None else self._server_hostname
        await carriers.connect(self._loop, self._where, make, tls)

    # -- while it is not connected

    def _is_unready(self) -> bool:
        return False  # writes are kept, up to a number, so that `Close` behind them is heard

    def _is_connected(self) -> bool:
        return self._wire is not None and self._wire.reason is None

    def handle_message(self, message: Any) -> object:
        if self._is_connected() or self._is_final():
            return super().handle_message(message)
        return self._handle_unconnected(message, None)

    def handle_call(self, request: Any) -> object:
        if self._is_connected() or self._is_final():
            return super().handle_call(request)
        return self._handle_unconnected(request, self.defer_reply() if isinstance(request, Write) else None)

    def _handle_unconnected(self, message: Any, reply: Reply | None) -> object:
        if isinstance(message, Close):
            self._spawned().ctx.stop()
            return None
        if not isinstance(message, Write):
            return super().handle_message(message)
        self._unsent.append((message, reply))
        if len(self._unsent) >= MOST_UNSENT:
            self._spawned().stall(True)
        return None

    def _owner_ended(self) -> None:
        super()._owner_ended()
        if not self._is_connected():
            self._spawned().ctx.stop()

    def _take(self, wire: Wire, owner: ActorRef, on_lost: Callable[[], object], *, holds: bool = False) -> None:
        super()._take(wire, owner, on_lost, holds=holds)
        while self._unsent and self._is_connected():
            message, reply = self._unsent.popleft()
            try:
                frame = wire.encode(message.data)
                wire.write(frame)
            except Exception as exc:
                if reply is not None:
                    reply.fail(exc)
                else:
                    self._bury_unwritten(message, exc)
            else:
                if reply is not None:
                    reply.send(len(frame))
        if self._is_connected() and wire.is_drained():
            self._stall(False)

    def _stall(self, stalls: bool) -> None:
        if not stalls or self._is_connected():
            super()._stall(stalls)

    def terminate(self, reason: ExitReason) -> object:
        while self._unsent:
            message, reply = self._unsent.popleft()
            if reply is not None:
                reply.fail(ConnectionClosed(self.id, "there was no connection"))
            else:
                self._bury(message, "there was no connection")
        return super().terminate(reason)

    def _is_final(self) -> bool:
        if self._wire is None or self._wire.reason is None:
            return False
        return self._reconnect is None or self._wire.reason in _WANTED

    def _shown(self) -> dict[str, Any]:
        return {"address": self._where, "attempts": self._attempts, **super()._shown()}


class UnixClient(TcpClient):
    """A `TcpClient` to a Unix socket at `path`."""

    def __init__(self, path: str | os.PathLike[str], **options: Any) -> None:
        if not hasattr(socket, "AF_UNIX"):
            raise ConfigError("path", path, "is a Unix socket, which this system does not have")
        super().__init__("", 0, **options)
        self._where = os.fspath(path)
