"""Sockets of servers. Each is bound at once, so that an error is the caller's, and opened when its server runs."""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

from greenroom.meta.sockets.wire import secured

PAUSE = 1.0
"""Seconds until it tries again to take connections when no more files can be opened."""
_NO_MORE = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})


class Listener:
    """Takes connections at a bound socket, and closes it."""

    _make: Callable[[], Any]
    _may_take: Callable[[], bool]

    def __init__(self, sock: socket.socket, where: tuple[str, int] | str, backlog: int) -> None:
        self._sock = sock
        self._backlog = backlog
        self._is_closed = False
        # By protocol, the connections that are accepted but have no transport: with TLS, those in their handshake.
        self._accepted: dict[Any, tuple[socket.socket, asyncio.Task[None]]] = {}
        self._tls: dict[str, Any] = {}
        self._server: asyncio.AbstractServer | None = None
        if sock.family != getattr(socket, "AF_UNIX", None):
            # For what it accepts, too. asyncio leaves that out, since Python's listening sockets do not say that they
            # are TCP's: a response in two pieces then waits for the client's delayed acknowledgement, 40 ms.
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setblocking(False)
        self.address: Any = where if isinstance(where, str) else sock.getsockname()

    @property
    def unsecured(self) -> int:
        """The number of connections in their TLS handshake."""
        return len(self._accepted) if self._tls else 0

    async def open(
        self, make: Callable[[], Any], tls: Any, handshake_timeout: float, may_take: Callable[[], bool]
    ) -> None:
        """Take connections, each with `make()` as its protocol; with TLS, only those that `may_take()` lets in."""
        if self._is_closed:
            return
        self._make, self._may_take = make, may_take
        self._tls = secured(tls, handshake_timeout)
        aio = asyncio.get_running_loop()
        if isinstance(aio, asyncio.SelectorEventLoop) or (self._tls and not isinstance(aio, asyncio.BaseEventLoop)):
            # Accepted here: asyncio's own server forgets a connection that it accepts just before it is closed, and,
            # as uvloop's does, one that it secures.
            self._sock.listen(self._backlog)
            aio.add_reader(self._sock, self._accept)
            return
        is_unix = self._sock.family == getattr(socket, "AF_UNIX", None)
        create: Any = aio.create_unix_server if is_unix else aio.create_server
        # Made without a wait, for it does not serve yet: so it can be closed, or broken off, at any time.
        server = await create(make, sock=self._sock, backlog=self._backlog, start_serving=False, **self._tls)
        self._server = server
        await server.start_serving()

    def _accept(self) -> None:
        aio = asyncio.get_running_loop()
        for _ in range(self._backlog):
            try:
                sock, _ = self._sock.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as exc:
                if self._is_closed or exc.errno not in _NO_MORE:
                    raise
                # Too many files are open: they wait until some are not.
                aio.remove_reader(self._sock)
                aio.call_later(PAUSE, self._accept_again)
                return
            sock.setblocking(False)
            if self._tls and not self._may_take():
                sock.close()
            else:
                protocol = self._make()
                task = aio.create_task(self._take(protocol, sock))
                self._accepted[protocol] = sock, task
                task.add_done_callback(partial(self._taken, protocol, sock))

    def _accept_again(self) -> None:
        if not self._is_closed:
            asyncio.get_running_loop().add_reader(self._sock, self._accept)

    async def _take(self, protocol: Any, sock: socket.socket) -> None:
        # The connection may fail, take too long, or be unwanted by now.
        with suppress(OSError, asyncio.CancelledError):
            await asyncio.get_running_loop().connect_accepted_socket(lambda: protocol, sock, **self._tls)

    def _taken(self, protocol: Any, sock: socket.socket, task: asyncio.Task[None]) -> None:
        self.forget(protocol)
        if task.cancelled():  # before its first step: there is no transport to close the socket
            sock.close()

    def forget(self, protocol: Any) -> None:
        """The connection of `protocol` is up, or never will be."""
        self._accepted.pop(protocol, None)

    def close(self) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        if self._server is not None:
            self._server.close()
        else:
            with suppress(RuntimeError, ValueError):  # outside of a loop it has never been read
                asyncio.get_running_loop().remove_reader(self._sock)
            self._sock.close()
        for sock, task in list(self._accepted.values()):
            with suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
            task.cancel()


class Packets(asyncio.DatagramProtocol):
    """Sends and receives packets at a bound socket, and closes it."""

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
