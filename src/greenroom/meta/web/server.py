"""`WebServer`: HTTP and WebSocket, answered by actors."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from greenroom.actor.api.behavior import UNHANDLED
from greenroom.errors import ConfigError, GreenroomError
from greenroom.exits import KILLED
from greenroom.lanes import MailboxConfig
from greenroom.meta.process.metaprocess import MetaProcess
from greenroom.meta.process.options import MetaOptions
from greenroom.meta.process.spawning import spawn_meta
from greenroom.meta.sockets.connection import SHUTDOWN_TIMEOUT
from greenroom.meta.sockets.listener import Listener
from greenroom.meta.sockets.messages import StopListening
from greenroom.meta.sockets.options import StreamOptions
from greenroom.meta.streams.alarms import set_call
from greenroom.meta.streams.checks import require_count, require_port
from greenroom.meta.web.asgi.applications import Applications
from greenroom.meta.web.http.exchange import HttpExchange
from greenroom.meta.web.limits import WebLimits
from greenroom.meta.web.messages import HttpResponse
from greenroom.meta.web.routes import Routes
from greenroom.meta.web.targets import target_of
from greenroom.meta.web.websockets.handshake import accept
from greenroom.meta.web.websockets.wire import WebSocketConnection
from greenroom.policy.directives import Directive
from greenroom.policy.specs import Supervision

if TYPE_CHECKING:
    import h11

    from greenroom._core.scheduler.loop import Loop
    from greenroom.actor.messaging.ref import ActorRef
    from greenroom.exits import ExitReason
    from greenroom.meta.sockets.wire import Wire
    from greenroom.meta.web.messages import HttpRequest
    from greenroom.meta.web.routes import Found
    from greenroom.meta.web.targets import Asgi, WebSocket

__all__ = ["WebServer"]


class WebServer(MetaProcess):
    """Answers HTTP requests by asking actors, and makes meta-processes of WebSockets.

    >>> import asyncio
    >>> from urllib.request import urlopen
    >>> from greenroom import Actor, ActorSystem
    >>> from greenroom.meta import HttpRequest
    >>> class Greeter(Actor[HttpRequest, object]):
    ...     def receive(self, request: HttpRequest) -> object:
    ...         return {"hello": request.params["name"]}
    >>> class Web(Actor[str, int]):
    ...     def pre_start(self) -> None:
    ...         greeter = self.ctx.spawn(Greeter)
    ...         self.server = WebServer(routes={"GET /hello/{name}": greeter})
    ...         self.ctx.spawn_meta(self.server)
    ...     def receive(self, message: str) -> int:
    ...         return self.server.address[1]
    >>> async def main() -> bytes:
    ...     async with ActorSystem() as system:
    ...         port = await system.spawn(Web).ask("port")
    ...         return await asyncio.to_thread(lambda: urlopen(f"http://127.0.0.1:{port}/hello/you").read())
    >>> asyncio.run(main())
    b'{"hello": "you"}'

    Args:
        host, port: Where to listen; port 0 for any that is free: see `address`.
        routes: Which path is answered by whom: `"/books/{id}"`, `"POST /books"` or `"/static/*"` to the ref of an
            actor, a list of refs that take turns, a `Route(...)`, a `WebSocket(...)` or an `Asgi(app)`.
        limits: A `WebLimits`: how many connections, how large requests, and how long all may take.
        tls: An `ssl.SSLContext` for HTTPS: see `tls_server()`.
        backlog, reuse_port, sock: As with `TcpServer`.
    """

    _on_loop: ClassVar[bool] = True

    def __init__(
        self,
        host: str = "127.0.0.1",
        port: int = 0,
        *,
        routes: Mapping[str, Any],
        limits: WebLimits | None = None,
        tls: ssl.SSLContext | None = None,
        backlog: int = 1024,
        reuse_port: bool = False,
        sock: socket.socket | None = None,
    ) -> None:
        require_port(port)
        require_count("backlog", backlog)
        if tls is not None and not isinstance(tls, ssl.SSLContext):
            raise ConfigError("tls", tls, "must be an ssl.SSLContext: see `tls_server()`")
        if limits is not None and not isinstance(limits, WebLimits):
            raise ConfigError("limits", limits, "must be a WebLimits, as in WebLimits(max_body=1_000_000)")
        self.routes = Routes({path: target_of(target) for path, target in routes.items()})
        self.limits = WebLimits() if limits is None else limits
        self._where = (host, port)
        self._tls = tls
        self._backlog = backlog
        self._reuse_port = reuse_port
        self._sock = sock
        self._listener: Listener | None = None
        # Set when it is to end: it listens no more, and its last connection is over.
        self._over = asyncio.Event()
        self._exchanges: dict[HttpExchange, None] = {}
        # WebSockets that are meta-processes; those of applications are theirs.
        self._sockets = 0
        self._applications = Applications(self, self.routes.targets(), self._end_if_unused)
        self._counts = {"taken": 0, "refused": 0, "requests": 0}
        self._is_open = True
        self.address: Any = None
        """Where it listens, from `init` on."""

    # -- listening

    def init(self) -> None:
        """Bind the port: if that fails, there is no server, and whoever spawns it knows."""
        self._listener = Listener(self.loop, self._where, self._backlog, self._reuse_port, self._sock)
        self.address = self._listener.address

    def _prepare(self) -> object:
        """Start its applications: it has not started before they have."""
        return self._start_applications() if self._applications.are_started else None

    async def _start_applications(self) -> None:
        try:
            await self._applications.startup()
        except BaseException:
            self._close_listener()  # nobody ends what has not started
            raise

    async def start(self) -> None:
        """Take connections until it is to end."""
        assert self._listener is not None
        await self._listener.open(
            lambda: HttpExchange(self), self._tls, self.limits.handshake_timeout, SHUTDOWN_TIMEOUT, self._may_take
        )
        self._end_if_unused()
        await self._over.wait()

    # -- what its connections ask

    @property
    def loop(self) -> Loop:
        """The loop it lives on."""
        loop: Loop = self._require_host("a server").ctx.cell.loop
        return loop

    @property
    def is_open(self) -> bool:
        """Whether further requests are taken."""
        return self._is_open

    def joined(self, exchange: HttpExchange) -> bool:
        """A connection is up; whether it may be."""
        if not self._is_open or self._in_use() >= self.limits.max_connections:
            self._counts["refused"] += 1
            return False
        self._counts["taken"] += 1
        self._exchanges[exchange] = None
        return True

    def _may_take(self) -> bool:
        """Whether there may be one more, with those that have yet to be secured."""
        assert self._listener is not None
        if self._in_use() + self._listener.unsecured < self.limits.max_connections:
            return True
        self._counts["refused"] += 1
        return False

    def _in_use(self) -> int:
        return len(self._exchanges) + self._sockets + len(self._applications.sockets)

    def left(self, exchange: HttpExchange) -> None:
        """A connection is over, or is a WebSocket now."""
        self._exchanges.pop(exchange, None)
        self._end_if_unused()

    def asked(self) -> None:
        """A request has come."""
        self._counts["requests"] += 1

    def upgrade(
        self, exchange: HttpExchange, event: h11.Request, request: HttpRequest, target: WebSocket
    ) -> HttpResponse | None:
        """Make a WebSocket of a connection; a response if that is refused."""
        options = StreamOptions(linger=self.limits.linger)
        on_made = partial(self._begin, target)
        accepted = accept(event, request, target, options, self.loop, on_made, self.log)
        if isinstance(accepted, HttpResponse):
            return accepted
        head, wire = accepted
        transport = exchange.transport
        early = exchange.detach()
        transport.write(head)
        transport.set_protocol(wire)
        wire.connection_made(transport)
        if early and not wire.lost:
            wire.data_received(early)
        return None

    def _begin(self, target: WebSocket, wire: Wire) -> None:
        """A WebSocket is up: bring up its meta-process, and its handler if it has one."""
        ctx = self._require_host("a server").ctx
        connection = WebSocketConnection(wire)
        handler: ActorRef | None = None
        try:
            spawn_meta(connection, ctx, MetaOptions(mailbox=MailboxConfig(capacity=1024)), None)
            if target.handler is not None:
                supervision = target.supervision or Supervision(Directive.STOP)
                mailbox = MailboxConfig(capacity=1024)
                handler = ctx.spawn(target.handler, mailbox=mailbox, supervision=supervision)
        except GreenroomError as exc:
            self._counts["refused"] += 1
            self.log.error("a WebSocket from %s is refused: %s", wire.peer, exc)
            wire.lost = True
            wire.transport.abort()
            if connection._host is not None:
                connection._lost()
            return
        self._sockets += 1
        owner = handler or target.owner or self.parent
        connection._take(wire, owner, lambda: self._forget(connection, handler))

    def _forget(self, connection: WebSocketConnection, handler: ActorRef | None) -> None:
        self._sockets -= 1
        connection._lost()
        if handler is not None:
            handler.stop(after_queued=True)
        self._end_if_unused()

    async def serve_asgi(
        self, exchange: HttpExchange, event: h11.Request, request: HttpRequest, found: Found, target: Asgi
    ) -> HttpResponse | None:
        """Have an application answer, or take a WebSocket; a response if it does neither."""
        return await self._applications.serve(exchange, event, request, found, target)

    # -- messages

    def handle_message(self, message: Any) -> object:
        """`StopListening`."""
        if not isinstance(message, StopListening):
            return UNHANDLED
        self._close_listener()
        self._end_if_unused()
        return None

    def handle_call(self, request: Any) -> object:
        """The same."""
        return self.handle_message(request)

    def inspect(self, *items: str) -> Mapping[str, Any]:
        """Where it listens, and how many connections there are and have been."""
        shown = {
            "address": self.address,
            "listening": self._is_open,
            "connections": len(self._exchanges),
            "websockets": self._sockets + len(self._applications.sockets),
            **self._counts,
        }
        return {name: shown[name] for name in items if name in shown} if items else shown

    # -- the end

    def _end_if_unused(self) -> None:
        if not self._is_open and not self._in_use():
            self._over.set()

    def _close_listener(self) -> None:
        self._is_open = False
        if self._listener is not None:
            self._listener.close()
        for exchange in list(self._exchanges):
            if not exchange.is_busy:
                exchange.close()

    def _before_children_end(self) -> None:
        """No further request is taken while those that are there are answered."""
        self._close_listener()
        self._applications.close()

    async def terminate(self, reason: ExitReason) -> None:
        """Answer what is asked, within its time, and close all."""
        self._before_children_end()
        if reason is not KILLED and self._in_use():
            alarm = set_call(self.loop, self.limits.linger, self._over.set)
            await self._over.wait()
            alarm.disarm(self.loop.timers)
        self._close_all()
        await self._applications.shutdown()

    def _give_up(self) -> None:
        """Close all, and wait for no application."""
        self._close_all()
        self._applications.abandon()

    def _close_all(self) -> None:
        """Close all, whether it is asked something or not."""
        self._before_children_end()
        for exchange in list(self._exchanges):
            exchange.close(abort=True)
        self._applications.close(abort=True)
