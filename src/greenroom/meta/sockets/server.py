"""`TcpServer`: takes connections, and makes a meta-process of each."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from greenroom.actor.api.behavior import UNHANDLED
from greenroom.errors import ConfigError, GreenroomError
from greenroom.exits import NORMAL
from greenroom.lanes import MailboxConfig
from greenroom.meta.process.metaprocess import MetaProcess
from greenroom.meta.process.options import MetaOptions
from greenroom.meta.process.spawning import spawn_meta
from greenroom.meta.sockets.connection import SHUTDOWN_TIMEOUT, AcceptedConnection
from greenroom.meta.sockets.listener import Listener
from greenroom.meta.sockets.messages import StopListening
from greenroom.meta.sockets.options import StreamOptions
from greenroom.meta.sockets.wire import Wire
from greenroom.meta.streams.checks import require_count, require_handler, require_port, require_seconds, require_type
from greenroom.policy.directives import Directive
from greenroom.policy.specs import Supervision

if TYPE_CHECKING:
    from greenroom._core.scheduler.loop import Loop
    from greenroom.actor.messaging.ref import ActorRef
    from greenroom.exits import ExitReason

__all__ = ["TcpServer", "UnixServer"]


class TcpServer(MetaProcess):
    """Listens on a port, and takes connections.

    With a `handler`, each connection gets an actor of its own: `handler` is what `spawn` takes, and the actor gets
    `Connected(alias, peer)`, then `Received(alias, data)` for each frame, and last `Closed(alias, reason)`. It ends
    with its connection, and the connection with it. Without one, the parent gets all of that, for all connections.

    >>> import asyncio
    >>> from greenroom import Actor, ActorSystem, handles
    >>> from greenroom.meta import Received, Write
    >>> class Echo(Actor[object]):
    ...     @handles(Received)
    ...     def echo(self, message: Received) -> None:
    ...         message.alias.tell(Write(message.data))
    >>> class Front(Actor[object]):
    ...     def pre_start(self) -> None:
    ...         self.server = TcpServer(port=0, handler=Echo)
    ...         self.ctx.spawn_meta(self.server)
    ...     def receive(self, message: object) -> object:
    ...         return self.server.address
    >>> async def main() -> bytes:
    ...     async with ActorSystem() as system:
    ...         host, port = await system.spawn(Front).ask("where?")
    ...         reader, writer = await asyncio.open_connection(host, port)
    ...         writer.write(b"hello")
    ...         answer = await reader.readexactly(5)
    ...         writer.close()
    ...         return answer
    >>> asyncio.run(main())
    b'hello'

    Args:
        host: The address to listen on; by default this machine alone. `"0.0.0.0"` or `"::"` for all.
        port: The port; 0 for any that is free: see `address`.
        handler: The actor class, or function, that gets one connection each.
        supervision: What becomes of a handler that fails. By default it is stopped, and its connection closed;
            restarted, it goes on with the same connection.
        framing, idle_timeout, half_open, linger, high_water, write_timeout, tls, handshake_timeout: As with
            `TcpConnection`.
        max_connections: How many there may be at once; further ones are closed at once.
        register: Whether a connection waits for `Register(owner)`, sent to its alias, before it reads anything.
        register_timeout: Seconds it waits for that.
        mailbox: The mailbox of each handler. A full one holds its peer up.
        write_mailbox: The mailbox of each connection: how many writes may wait for a peer that does not read.
        backlog: How many connections the system keeps until they are taken.
        reuse_port: Whether several servers may share the port.
        sock: A listening socket to use instead of `host` and `port`.
    """

    _on_loop: ClassVar[bool] = True

    def __init__(
        self,
        host: str = "127.0.0.1",
        port: int = 0,
        *,
        handler: Any = None,
        supervision: Supervision | None = None,
        framing: Any = None,
        tls: ssl.SSLContext | None = None,
        max_connections: int | None = 50_000,
        handshake_timeout: float = 10.0,
        idle_timeout: float | None = None,
        half_open: bool = False,
        linger: float = 5.0,
        high_water: int = 65_536,
        write_timeout: float | None = 60.0,
        register: bool = False,
        register_timeout: float = 10.0,
        mailbox: MailboxConfig | None = None,
        write_mailbox: MailboxConfig | None = None,
        backlog: int = 1024,
        reuse_port: bool = False,
        sock: socket.socket | None = None,
    ) -> None:
        self._options = StreamOptions.of(framing, idle_timeout, half_open, linger, high_water, write_timeout)
        require_count("max_connections", max_connections, none=True)
        require_count("backlog", backlog)
        require_seconds("handshake_timeout", handshake_timeout, positive=True)
        require_seconds("register_timeout", register_timeout)
        require_port(port)
        require_type("host", host, str, 'an address, as in "127.0.0.1"', none=False)
        require_type("tls", tls, ssl.SSLContext, "an ssl.SSLContext: see `tls_server()`")
        require_type("supervision", supervision, Supervision, "a Supervision")
        require_type("mailbox", mailbox, MailboxConfig, "a MailboxConfig")
        require_type("write_mailbox", write_mailbox, MailboxConfig, "a MailboxConfig")
        require_type("sock", sock, socket.socket, "a listening socket")
        if register and handler is not None:
            raise ConfigError("register", register, "makes no sense with a `handler`, which owns its connection")
        if handler is not None:
            require_handler(handler)
        self._where = (host, port)
        self._handler = handler
        self._supervision = Supervision(Directive.STOP) if supervision is None else supervision
        self._tls = tls
        self._handshake_timeout = handshake_timeout
        self._max_connections = max_connections
        self._register = register
        self._register_timeout = register_timeout
        self._mailbox = MailboxConfig(capacity=1024) if mailbox is None else mailbox
        self._connection_options = MetaOptions(
            mailbox=MailboxConfig(capacity=1024) if write_mailbox is None else write_mailbox
        )
        self._backlog = backlog
        self._reuse_port = reuse_port
        self._sock = sock
        self._listener: Listener | None = None
        self._over: asyncio.Event | None = None
        self._connections = 0
        self._taken = 0
        self._refused = 0
        self._is_open = True
        self.address: Any = None
        """Where it listens, from `init` on: `(host, port)`, or the path of a Unix socket."""

    # -- listening

    def init(self) -> None:
        """Bind the port: if that fails, there is no server, and whoever spawns it knows."""
        loop = self._require_host("a server").ctx.cell.loop
        self._listener = self._bind(loop)
        self.address = self._listener.address

    def _bind(self, loop: Loop) -> Listener:
        return Listener(loop, self._where, self._backlog, self._reuse_port, self._sock)

    async def start(self) -> None:
        """Take connections until it is to end."""
        self._over = asyncio.Event()
        loop = self._require_host("a server").ctx.cell.loop
        options = self._options
        assert self._listener is not None
        await self._listener.open(
            lambda: Wire(options, loop, self._accept),
            self._tls,
            self._handshake_timeout,
            SHUTDOWN_TIMEOUT,
            self._may_take,
        )
        await self._over.wait()

    def _may_take(self) -> bool:
        """Whether there may be one more, with those that have yet to be secured."""
        assert self._listener is not None
        if self._max_connections is None or self._connections + self._listener.unsecured < self._max_connections:
            return True
        self._refused += 1
        return False

    def _accept(self, wire: Wire) -> None:
        """A connection is up."""
        if not self._is_open or (self._max_connections is not None and self._connections >= self._max_connections):
            self._refused += 1
            wire.lost = True
            wire.transport.abort()
            return
        connection = AcceptedConnection(wire)
        ctx = self._require_host("a server").ctx
        try:
            spawn_meta(connection, ctx, self._connection_options, None)
            owner = self._owner_of(ctx)
        except GreenroomError as exc:
            self._refused += 1
            self.log.error("a connection from %s is refused: %s", wire.peer, exc)
            wire.lost = True
            wire.transport.abort()
            if connection._host is not None:
                connection._lost()
            return
        self._connections += 1
        self._taken += 1
        handler = owner if self._handler is not None else None
        connection._take(wire, owner, lambda: self._forget(connection, handler), holds=self._register)
        if self._register:
            wire.close_unless_registered(self._register_timeout)

    def _owner_of(self, ctx: Any) -> ActorRef:
        if self._handler is None:
            return self.parent
        ref: ActorRef = ctx.spawn(self._handler, mailbox=self._mailbox, supervision=self._supervision)
        return ref

    def _forget(self, connection: AcceptedConnection, handler: ActorRef | None) -> None:
        """A connection is over, and its owner knows."""
        self._connections -= 1
        connection._lost()
        if handler is not None:
            handler.stop(after_queued=True)
        if not self._is_open and self._connections == 0:
            self._end()

    # -- messages

    def handle_message(self, message: Any) -> object:
        """`StopListening`."""
        if not isinstance(message, StopListening):
            return UNHANDLED
        self._close_listener()
        if self._connections == 0:
            self._end()
        return None

    def handle_call(self, request: Any) -> object:
        """The same."""
        return self.handle_message(request)

    def inspect(self, *items: str) -> Mapping[str, Any]:
        """Where it listens, and how many connections there are and have been."""
        shown = {
            "address": self.address,
            "listening": self._is_open,
            "connections": self._connections,
            "taken": self._taken,
            "refused": self._refused,
        }
        return {name: shown[name] for name in items if name in shown} if items else shown

    # -- the end

    def _end(self) -> None:
        host = self._require_host("a server")
        host.ctx.cell.loop.host.request_end(host.ctx.cell, NORMAL)

    def _close_listener(self) -> None:
        self._is_open = False
        if self._listener is not None:
            self._listener.close()

    def _before_children_end(self) -> None:
        """No further connection comes while those that are there are closed."""
        self._close_listener()

    def terminate(self, reason: ExitReason) -> object:
        """Listen no more."""
        self._close_listener()
        if self._over is not None:
            self._over.set()
        return None


class UnixServer(TcpServer):
    """The same, on a Unix socket at `path`, which is removed at the end."""

    def __init__(self, path: str | os.PathLike[str], *, mode: int = 0o600, **options: Any) -> None:
        self._path = Path(path)
        self._mode = mode
        self._file: tuple[int, int] | None = None
        super().__init__(**options)

    def _bind(self, loop: Loop) -> Listener:
        if loop.director is None and self._sock is None:
            self._sock = self._bind_path()
        return Listener(loop, ("", 0), self._backlog, False, self._sock, str(self._path))

    def _bind_path(self) -> socket.socket:
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self._remove_stale()
            sock.bind(str(self._path))
            self._path.chmod(self._mode)
            self._file = self._identity()
            sock.listen(self._backlog)
        except BaseException:
            sock.close()
            raise
        return sock

    def _remove_stale(self) -> None:
        """Remove the socket of a server that is gone; one that answers stays, and binding fails."""
        if not self._path.is_socket():
            return
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
            probe.settimeout(0.2)
            try:
                probe.connect(str(self._path))
            except (ConnectionRefusedError, FileNotFoundError):
                self._path.unlink(missing_ok=True)
            except OSError:
                pass

    def terminate(self, reason: ExitReason) -> object:
        """Listen no more, and remove the path."""
        super().terminate(reason)
        with suppress(OSError):
            if self._file is not None and self._identity() == self._file:  # else it is another server's by now
                self._path.unlink()
        return None

    def _identity(self) -> tuple[int, int]:
        found = self._path.stat()
        return found.st_dev, found.st_ino
