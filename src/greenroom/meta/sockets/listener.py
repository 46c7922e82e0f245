"""A listening socket: bound first, so that an error is the caller's, and opened when its meta-process runs."""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from greenroom.meta.simulated.network import network_of

if TYPE_CHECKING:
    from greenroom._core.scheduler.loop import Loop
    from greenroom.meta.simulated.network import Network

__all__ = ["Listener"]

PAUSE = 1.0
"""Seconds until it tries again to take connections when no more files can be opened."""
_NO_MORE = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})


class Listener:
    """Takes connections, from the network or, in a simulation, from memory."""

    def __init__(
        self,
        loop: Loop,
        where: tuple[str, int],
        backlog: int,
        reuse_port: bool,
        sock: Any = None,
        path: str | None = None,
    ) -> None:
        self._network: Network | None = network_of(loop)
        self._backlog = backlog
        self._is_closed = False
        # Connections that are being secured, and others that have been accepted only just now.
        self._handshakes: dict[_Handshake | _Accepted, None] = {}
        self._arriving: dict[_Handshake | _Accepted, None] = {}
        self._server: asyncio.AbstractServer | None = None
        self._sock: socket.socket | None = sock
        host, port = where
        if self._network is not None:
            self.address: Any = self._network.address_for(host, port) if path is None else path
            self._network.bind_stream(self.address)
            return
        if sock is None:
            family = socket.AF_INET6 if ":" in host else socket.AF_INET
            sock = socket.create_server((host, port), family=family, backlog=backlog, reuse_port=reuse_port)
            self._sock = sock
        if sock.family != getattr(socket, "AF_UNIX", None):
            # For what it accepts, too. asyncio leaves that out, since Python's listening sockets do not say that they
            # are TCP's: a response in two pieces then waits for the client's delayed acknowledgement, 40 ms.
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setblocking(False)
        self.address = sock.getsockname() if path is None else path

    @property
    def unsecured(self) -> int:
        """How many connections are in their TLS handshake."""
        return len(self._handshakes)

    async def open(
        self,
        make: Callable[[], Any],
        tls: Any,
        handshake_timeout: float,
        shutdown_timeout: float,
        may_take: Callable[[], bool] = lambda: True,
    ) -> None:
        """Have `make()` be the protocol of each connection from now on; of TLS, of those that `may_take()` lets in."""
        if self._is_closed:
            return
        if self._network is not None:
            self._network.listen(self.address, make)
            return
        aio = asyncio.get_running_loop()
        assert self._sock is not None
        may_secure = partial(self._may_secure, may_take)
        secured: dict[str, Any] = {"ssl_handshake_timeout": handshake_timeout, "ssl_shutdown_timeout": shutdown_timeout}
        if isinstance(aio, asyncio.SelectorEventLoop):
            # Accepted here: asyncio's own server forgets a connection that it accepts just before it is closed.
            if tls is not None:
                make = partial(_Handshake, make, {"sslcontext": tls, **secured}, self._handshakes, may_secure)
            self._accept_by(partial(_Accepted, make, {}, self._arriving), self._is_listening)
        elif tls is not None and not isinstance(aio, asyncio.BaseEventLoop):
            # uvloop cannot secure a connection that it has accepted (`start_tls` resets it), and keeps those to itself
            # that it accepts and secures.
            self._accept_by(partial(_Accepted, make, {"ssl": tls, **secured}, self._handshakes), may_secure)
        else:
            is_unix = self._sock.family == getattr(socket, "AF_UNIX", None)
            create: Any = aio.create_unix_server if is_unix else aio.create_server
            # Without serving at once, it is made without a wait: it can be closed, or broken off, at any time.
            options = {"ssl": tls, **secured} if tls is not None else {}
            server = self._server = await create(
                make, sock=self._sock, backlog=self._backlog, start_serving=False, **options
            )
            await server.start_serving()

    def _is_listening(self) -> bool:
        return not self._is_closed

    def _may_secure(self, may_take: Callable[[], bool]) -> bool:
        """Whether a connection may be secured: one that asyncio had accepted may be up only after the end."""
        return not self._is_closed and may_take()

    def _accept_by(self, take: Callable[[socket.socket], _Accepted], may_take: Callable[[], bool]) -> None:
        assert self._sock is not None
        self._sock.listen(self._backlog)
        aio = asyncio.get_running_loop()
        aio.add_reader(self._sock, self._accept, aio, take, may_take)

    def _accept(
        self, aio: asyncio.AbstractEventLoop, take: Callable[[socket.socket], _Accepted], may_take: Callable[[], bool]
    ) -> None:
        assert self._sock is not None
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
                aio.call_later(PAUSE, self._accept_again, aio, take, may_take)
                return
            sock.setblocking(False)
            if may_take():
                take(sock).begin()
            else:
                sock.close()

    def _accept_again(
        self, aio: asyncio.AbstractEventLoop, take: Callable[[socket.socket], _Accepted], may_take: Callable[[], bool]
    ) -> None:
        if not self._is_closed and self._sock is not None:
            aio.add_reader(self._sock, self._accept, aio, take, may_take)

    def close(self) -> None:
        """Take no more."""
        if self._is_closed:
            return
        self._is_closed = True
        if self._network is not None:
            self._network.stop_listening(self.address)
        elif self._server is not None:
            self._server.close()
        elif self._sock is not None:
            with suppress(RuntimeError, ValueError):  # outside of a loop it has never been read
                asyncio.get_running_loop().remove_reader(self._sock)
            self._sock.close()
        for accepted in [*self._handshakes, *self._arriving]:
            accepted.abort()


class _Accepted:
    """A connection until it has a transport, and on uvloop until it is secured."""

    __slots__ = ("_has_begun", "_make", "_sock", "_task", "_tls", "_under_way")

    def __init__(
        self, make: Callable[[], Any], tls: dict[str, Any], under_way: dict[Any, None], sock: socket.socket
    ) -> None:
        self._make = make
        self._tls = tls
        self._under_way = under_way
        self._sock = sock
        self._has_begun = False
        self._task: asyncio.Task[None] | None = None

    def begin(self) -> None:
        """Have it made."""
        self._under_way[self] = None
        self._task = asyncio.get_running_loop().create_task(self._take())
        self._task.add_done_callback(self._done)

    async def _take(self) -> None:
        self._has_begun = True
        # It may fail, take too long, or be not wanted any more.
        with suppress(OSError, asyncio.CancelledError):
            await asyncio.get_running_loop().connect_accepted_socket(self._make, self._sock, **self._tls)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._under_way.pop(self, None)
        if not self._has_begun:  # then there is no transport to close it
            self._sock.close()

    def abort(self) -> None:
        """It is not wanted any more."""
        with suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)
        if self._task is not None:
            self._task.cancel()


class _Handshake(asyncio.Protocol):
    """The protocol of a connection until it is secured; asyncio's own way would leave it to itself until then."""

    def __init__(
        self,
        make: Callable[[], Any],
        tls: dict[str, Any],
        under_way: dict[Any, None],
        may_take: Callable[[], bool],
    ) -> None:
        self._make = make
        self._tls = tls
        self._under_way = under_way
        self._may_take = may_take
        self._task: asyncio.Task[None] | None = None
        self._transport: Any = None
        # What comes right behind the handshake, before there is anybody to take it.
        self._early: list[bytes] = []
        self._has_ended = False
        self._lost: tuple[BaseException | None] | None = None

    def connection_made(self, transport: Any) -> None:
        """It is there, but not secured."""
        self._transport = transport
        if not self._may_take():
            transport.abort()
            return
        transport.pause_reading()
        self._under_way[self] = None
        self._task = asyncio.get_running_loop().create_task(self._secure())

    async def _secure(self) -> None:
        try:
            secured = await asyncio.get_running_loop().start_tls(self._transport, self, server_side=True, **self._tls)
        except (OSError, asyncio.CancelledError):  # it failed, took too long, or is not wanted any more
            self._transport.abort()
            return
        finally:
            self._under_way.pop(self, None)
        assert secured is not None
        protocol = self._make()
        secured.set_protocol(protocol)
        protocol.connection_made(secured)
        for data in self._early:
            protocol.data_received(data)
        if self._lost is not None:
            protocol.connection_lost(self._lost[0])
        elif self._has_ended and not protocol.eof_received():
            secured.close()

    def data_received(self, data: bytes) -> None:
        """It is secured, and something has come already."""
        self._early.append(data)

    def eof_received(self) -> bool:
        """The same, and that was all."""
        self._has_ended = True
        return False

    def connection_lost(self, exc: BaseException | None) -> None:
        """The other side is gone."""
        self._lost = (exc,)

    def abort(self) -> None:
        """It is not wanted any more."""
        if self._task is not None:
            self._task.cancel()
        self._transport.abort()
