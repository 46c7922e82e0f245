"""A listening socket: bound first, so that an error is the caller's, and opened when its meta-process runs."""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from greenroom.meta.sockets.wire import SHUTDOWN_TIMEOUT

if TYPE_CHECKING:
    pass

__all__ = ["Listener"]

PAUSE = 1.0
"""Seconds until it tries again to take connections when no more files can be opened."""
_NO_MORE = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})


class Listener:
    """Takes connections at a bound socket, which it takes over."""

    _make: Callable[[], Any]
    _may_take: Callable[[], bool]

    def __init__(self, sock: socket.socket, where: tuple[str, int] | str, backlog: int) -> None:
        self._sock = sock
        self._backlog = backlog
        self._is_closed = False
        # By protocol, the connections that have been accepted, and are not up: with TLS, those in their handshake.
        self._accepted: dict[Any, _Accepted] = {}
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
        """How many connections are in their TLS handshake."""
        return len(self._accepted) if self._tls else 0

    async def open(
        self, make: Callable[[], Any], tls: Any, handshake_timeout: float, may_take: Callable[[], bool]
    ) -> None:
        """Have `make()` be the protocol of each connection from now on; of TLS, of those that `may_take()` lets in."""
        if self._is_closed:
            return
        self._make, self._may_take = make, may_take
        if tls is not None:
            timeouts = {"ssl_handshake_timeout": handshake_timeout, "ssl_shutdown_timeout": SHUTDOWN_TIMEOUT}
            self._tls = {"ssl": tls, **timeouts}
        aio = asyncio.get_running_loop()
        if isinstance(aio, asyncio.SelectorEventLoop) or (self._tls and not isinstance(aio, asyncio.BaseEventLoop)):
            # Accepted here: asyncio's own server forgets a connection that it accepts just before it is closed, and
            # leaves one to itself that it secures, as uvloop's does.
            self._sock.listen(self._backlog)
            aio.add_reader(self._sock, self._accept)
            return
        is_unix = self._sock.family == getattr(socket, "AF_UNIX", None)
        create: Any = aio.create_unix_server if is_unix else aio.create_server
        # Without serving at once, it is made without a wait: it can be closed, or broken off, at any time.
        server = await create(make, sock=self._sock, backlog=self._backlog, start_serving=False, **self._tls)
        self._server = server
        await server.start_serving()

    def _accept(self) -> None:
        for _ in range(self._backlog):
            try:
                sock, _ = self._sock.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as exc:
                if self._is_closed or exc.errno not in _NO_MORE:
                    raise
                # Too many files are open: they wait until some are not.
                aio = asyncio.get_running_loop()
                aio.remove_reader(self._sock)
                aio.call_later(PAUSE, self._accept_again)
                return
            sock.setblocking(False)
            if self._tls and not self._may_take():
                sock.close()
            else:
                protocol = self._make()
                self._accepted[protocol] = accepted = _Accepted(protocol, sock, self._tls)
                accepted.task.add_done_callback(partial(self.made, protocol))

    def _accept_again(self) -> None:
        if not self._is_closed:
            asyncio.get_running_loop().add_reader(self._sock, self._accept)

    def made(self, protocol: Any, task: object = None) -> None:
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
        for accepted in list(self._accepted.values()):
            accepted.abort()


class _Accepted:
    """A connection until it has a transport; with TLS, until it is secured."""

    __slots__ = ("_has_begun", "_sock", "task")

    def __init__(self, protocol: Any, sock: socket.socket, tls: dict[str, Any]) -> None:
        self._sock = sock
        self._has_begun = False
        self.task = asyncio.get_running_loop().create_task(self._take(protocol, tls))
        self.task.add_done_callback(self._done)

    async def _take(self, protocol: Any, tls: dict[str, Any]) -> None:
        self._has_begun = True
        # It may fail, take too long, or be not wanted any more.
        with suppress(OSError, asyncio.CancelledError):
            await asyncio.get_running_loop().connect_accepted_socket(lambda: protocol, self._sock, **tls)

    def _done(self, task: object) -> None:
        if not self._has_begun:  # then there is no transport to close it
            self._sock.close()

    def abort(self) -> None:
        with suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)
        self.task.cancel()
