"""`TcpServer`: takes connections, and makes a meta-process of each."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from greenroom.actor.api.behavior import UNHANDLED
from greenroom.actor.life.spec import spec_of
from greenroom.errors import ConfigError, GreenroomError, NotAnActor
from greenroom.lanes import MailboxConfig
from greenroom.meta import carriers
from greenroom.meta.process.metaprocess import spawn_meta
from greenroom.meta.process.options import MetaOptions
from greenroom.meta.sockets.connection import AcceptedConnection
from greenroom.meta.sockets.messages import StopListening
from greenroom.meta.sockets.wire import StreamOptions, Wire
from greenroom.meta.streams.owner import OwnedProcess
from greenroom.policy.directives import Directive
from greenroom.policy.specs import Supervision
from greenroom.validation import require_count, require_instance, require_port, require_seconds

if TYPE_CHECKING:
    from greenroom.actor.messaging.ref import ActorRef
    from greenroom.exits import ExitReason
    from greenroom.meta.simulated.network import SimulatedListener
    from greenroom.meta.sockets.bound import Listener

ROOM = MailboxConfig(capacity=1024)
"""The mailbox of a connection, and of its handler, if nothing else is said."""


class Server(OwnedProcess):
    """Listens, and makes a meta-process of each connection; ends when it takes no more, and the last one has ended."""

    _listener: Listener | SimulatedListener | None = None
    is_open = True
    _mailbox = ROOM
    _connection_options = MetaOptions(mailbox=ROOM)
    # Whether a connection waits for `Register`.
    _register = False
    # Connections that are meta-processes.
    _connections = 0
    address: Any = None
    """Where it listens, from `init` on: `(host, port)`, or the path of a Unix socket."""

    def __init__(
        self,
        host: str,
        port: int,
        tls: ssl.SSLContext | None,
        backlog: int,
        reuse_port: bool,
        sock: socket.socket | None,
        max_connections: int | None,
    ) -> None:
        require_port(port)
        require_count("backlog", backlog)
        self._where: Any = (host, port)
        self._tls = tls
        self._backlog = backlog
        self._reuse_port = reuse_port
        self._sock = sock
        self._max_connections = max_connections
        # Set when the server is to end.
        self._over = asyncio.Event()
        self._counts = {"taken": 0, "refused": 0}

    # -- connections

    def init(self) -> None:
        """Bind the port: if that fails, there is no server, and `spawn_meta` raises."""
        self._listener = carriers.bind(self._loop, self._where, self._make_socket, self._backlog)
        self.address = self._listener.address

    def _make_socket(self) -> socket.socket:
        if self._sock is not None:
            return self._sock
        family = socket.AF_INET6 if ":" in self._where[0] else socket.AF_INET
        return socket.create_server(self._where, family=family, backlog=self._backlog, reuse_port=self._reuse_port)

    async def _open(self, make: Any, handshake_timeout: float) -> None:
        """Take connections, each with `make()` as its protocol."""
        assert self._listener is not None
        await self._listener.open(make, self._tls, handshake_timeout, self._may_take)

    def _may_take(self) -> bool:
        """True if there is room for one more, beside those in their TLS handshake."""
        assert self._listener is not None
        return self._has_room(self._listener.unsecured)

    def _admit(self, protocol: Any) -> bool:
        """A connection is up. Returns False if there is no room for it."""
        assert self._listener is not None
        self._listener.forget(protocol)
        return self._has_room()

    def _has_room(self, others: int = 0) -> bool:
        most = self._max_connections
        if self.is_open and (most is None or self._in_use() + others < most):
            return True
        self._counts["refused"] += 1
        return False

    def _in_use(self) -> int:
        return self._connections

    def _spawn_connection(
        self,
        connection: AcceptedConnection,
        wire: Wire,
        owner: ActorRef,
        handler: Any,
        supervision: Supervision | None,
    ) -> bool:
        """Spawn the meta-process of a connection, and its handler if it has one. Returns False if that fails."""
        ctx: Any = self._spawned().ctx
        ref: ActorRef | None = None
        try:
            spawn_meta(connection, ctx, self._connection_options)
            if handler is not None:
                ref = ctx.spawn(handler, mailbox=self._mailbox, supervision=supervision or Supervision(Directive.STOP))
        except GreenroomError as exc:
            self._counts["refused"] += 1
            self.log.error("a %s from %s is refused: %s", connection._kind, wire.peer, exc)
            self._refuse(wire)
            if connection._incarnation is not None:
                connection._end()
            return False
        self._connections += 1
        connection._take(wire, ref or owner, lambda: self._forget(connection, ref), holds=self._register)
        return True

    def _refuse(self, wire: Wire) -> None:
        wire.lost = True
        wire.transport.abort()

    def _forget(self, connection: AcceptedConnection, handler: ActorRef | None) -> None:
        """Count a connection that is over, and whose owner knows."""
        self._connections -= 1
        connection._end()
        if handler is not None:
            handler.stop(after_queued=True)
        self._end_if_unused()

    # -- messages

    def handle_message(self, message: Any) -> object:
        if not isinstance(message, StopListening):
            return UNHANDLED
        self._close_listener()
        self._end_if_unused()
        return None

    def handle_call(self, request: Any) -> object:
        return self.handle_message(request)

    def _shown(self) -> dict[str, Any]:
        return {
            "address": self.address,
            "listening": self.is_open,
            "connections": self._connections,
            **self._counts,
        }

    # -- the end

    def _end_if_unused(self) -> None:
        if not self.is_open and not self._in_use():
            self._over.set()

    def _close_listener(self) -> None:
        self.is_open = False
        if self._listener is not None:
            self._listener.close()

    def _before_children_end(self) -> None:
        # No further connection comes while those that are there are closed.
        self._close_listener()


class TcpServer(Server):
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
        self._options = StreamOptions(framing, idle_timeout, half_open, linger, high_water, write_timeout)
        require_count("max_connections", max_connections, none=True)
        require_seconds("handshake_timeout", handshake_timeout, positive=True)
        require_seconds("register_timeout", register_timeout)
        require_instance("host", host, str, 'an address, as in "127.0.0.1"')
        require_instance("tls", tls, ssl.SSLContext | None, "an ssl.SSLContext: see `tls_server()`, or None")
        require_instance("supervision", supervision, Supervision | None, "a Supervision, or None")
        require_instance("mailbox", mailbox, MailboxConfig | None, "a MailboxConfig, or None")
        require_instance("write_mailbox", write_mailbox, MailboxConfig | None, "a MailboxConfig, or None")
        require_instance("sock", sock, socket.socket | None, "a listening socket, or None")
        if register and handler is not None:
            raise ConfigError("register", register, "makes no sense with a `handler`, which owns its connection")
        if handler is not None:
            try:
                spec_of(handler, (), {})
            except NotAnActor as exc:
                raise ConfigError("handler", handler, f"must be what `spawn` takes: {exc}") from exc
        super().__init__(host, port, tls, backlog, reuse_port, sock, max_connections)
        self._handler = handler
        self._supervision = supervision
        self._handshake_timeout = handshake_timeout
        self._register = register
        self._register_timeout = register_timeout
        if mailbox is not None:
            self._mailbox = mailbox
        if write_mailbox is not None:
            self._connection_options = MetaOptions(mailbox=write_mailbox)

    async def start(self) -> None:
        options, loop = self._options, self._loop
        await self._open(lambda: Wire(options, loop, self._accept), self._handshake_timeout)
        await self._over.wait()

    def _accept(self, wire: Wire) -> None:
        if not self._admit(wire):
            self._refuse(wire)
        elif self._spawn_connection(AcceptedConnection(wire), wire, self.parent, self._handler, self._supervision):
            self._counts["taken"] += 1
            if self._register:
                wire.close_unless_registered(self._register_timeout)

    def terminate(self, reason: ExitReason) -> object:
        self._close_listener()
        self._over.set()
        return None


class UnixServer(TcpServer):
    """A `TcpServer` on a Unix socket at `path`, which is removed at the end."""

    def __init__(self, path: str | os.PathLike[str], *, mode: int = 0o600, **options: Any) -> None:
        self._path = Path(path)
        self._mode = mode
        self._file: tuple[int, int] | None = None
        super().__init__(**options)
        self._where = str(path)

    def _make_socket(self) -> socket.socket:
        if self._sock is not None:
            return self._sock
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
        """Remove the socket of a server that is gone. That of one that answers stays, and binding fails."""
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
        super().terminate(reason)
        with suppress(OSError):
            if self._file is not None and self._identity() == self._file:  # else another server has the path by now
                self._path.unlink()
        return None

    def _identity(self) -> tuple[int, int]:
        found = self._path.stat()
        return found.st_dev, found.st_ino
