"""`WebServer`: HTTP and WebSocket, answered by actors."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from wsproto.events import AcceptConnection

from greenroom.exits import KILLED
from greenroom.meta.sockets.server import Server
from greenroom.meta.web.asgi import Applications
from greenroom.meta.web.exchange import HttpExchange
from greenroom.meta.web.messages import HttpResponse, plain
from greenroom.meta.web.routes import Routes, WebLimits, target_of
from greenroom.meta.web.websocket import (
    BoundedDeflate,
    WebSocketConnection,
    WebSocketOptions,
    WebSocketWire,
    authorize,
    is_for_websocket,
    negotiate,
)
from greenroom.validation import require_instance

if TYPE_CHECKING:
    import h11

    from greenroom.exits import ExitReason
    from greenroom.meta.sockets.wire import Wire
    from greenroom.meta.web.messages import HttpRequest
    from greenroom.meta.web.routes import WebSocket


class WebServer(Server):
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
        require_instance("tls", tls, ssl.SSLContext | None, "an ssl.SSLContext: see `tls_server()`")
        require_instance("limits", limits, WebLimits | None, "a WebLimits, as in WebLimits(max_body=1_000_000)")
        self.routes = Routes({path: target_of(target) for path, target in routes.items()})
        self.limits = WebLimits() if limits is None else limits
        super().__init__(host, port, tls, backlog, reuse_port, sock, self.limits.max_connections)
        self._counts["requests"] = 0
        self._exchanges: dict[HttpExchange, None] = {}
        self.applications = Applications(self, self.routes.targets())

    def _prepare(self) -> object:
        # The server has not started before its applications have.
        return self._start_applications() if self.applications.lifespans else None

    async def _start_applications(self) -> None:
        try:
            await self.applications.startup()
        except BaseException:
            self._close_listener()  # terminate() is not called for what has not started
            raise

    async def start(self) -> None:
        await self._open(lambda: HttpExchange(self), self.limits.handshake_timeout)
        self._end_if_unused()
        await self._over.wait()

    # -- what its connections ask

    def add_exchange(self, exchange: HttpExchange) -> bool:
        """Count a new connection. Returns False if there is no room for it."""
        if not self._admit(exchange):
            return False
        self._counts["taken"] += 1
        self._exchanges[exchange] = None
        return True

    def _in_use(self) -> int:
        # WebSockets of applications are no meta-processes.
        return len(self._exchanges) + self._connections + len(self.applications.sockets)

    def remove_exchange(self, exchange: HttpExchange) -> None:
        """Forget a connection that is over, or is a WebSocket now."""
        self._exchanges.pop(exchange, None)
        self._end_if_unused()

    def count_request(self) -> None:
        self._counts["requests"] += 1

    def upgrade(
        self, exchange: HttpExchange, event: h11.Request, request: HttpRequest, target: WebSocket
    ) -> HttpResponse | None:
        """Accept a WebSocket. Returns a response if it is refused."""
        if not is_for_websocket(request):
            return plain(426, "this path takes WebSockets only", {"upgrade": "websocket", "connection": "upgrade"})
        refusal = authorize(request, target, self.log)
        if refusal is not None:
            return refusal
        begun = negotiate(event, request)
        if isinstance(begun, HttpResponse):
            return begun
        ws, asked = begun
        chosen = next((one for one in target.subprotocols if one in asked.subprotocols), None)
        head = ws.send(AcceptConnection(subprotocol=chosen, extensions=[BoundedDeflate(target.max_message)]))
        options = WebSocketOptions(
            idle_timeout=target.ping_interval,
            linger=self.limits.linger,
            max_message=target.max_message,
            ping_timeout=target.ping_timeout,
        )
        exchange.upgrade(WebSocketWire(options, self._loop, partial(self._begin, target), ws, request, chosen), head)
        return None

    def _begin(self, target: WebSocket, wire: Wire) -> None:
        owner = target.owner or self.parent
        self._spawn_connection(WebSocketConnection(wire), wire, owner, target.handler, target.supervision)

    def _shown(self) -> dict[str, Any]:
        websockets = self._connections + len(self.applications.sockets)
        return {**super()._shown(), "connections": len(self._exchanges), "websockets": websockets}

    # -- the end

    def _close_listener(self) -> None:
        super()._close_listener()
        for exchange in list(self._exchanges):
            if not exchange.is_busy:
                exchange.close()

    def _before_children_end(self) -> None:
        # No further request is taken while those that are there are answered.
        self._close_listener()
        self.applications.close()

    async def terminate(self, reason: ExitReason) -> None:
        self._before_children_end()
        if reason is not KILLED and self._in_use():
            alarm = self._loop.call_later(self.limits.linger, self._over.set)
            await self._over.wait()
            alarm.cancel()
        self._close_all()
        await self.applications.shutdown()

    def _give_up(self) -> None:
        self._close_all()
        self.applications.abandon()

    def _close_all(self) -> None:
        self._before_children_end()
        for exchange in list(self._exchanges):
            exchange.close(abort=True)
        self.applications.close(abort=True)
