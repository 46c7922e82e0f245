"""The applications of one server: started and stopped with it, and asked by its connections."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from greenroom.errors import HttpError
from greenroom.meta.web.asgi.cycle import AsgiCycle
from greenroom.meta.web.asgi.lifespan import Lifespan
from greenroom.meta.web.asgi.scope import scope_of
from greenroom.meta.web.asgi.sockets import AsgiSocket, WebSocketIsClosed
from greenroom.meta.web.http.asking import response_for
from greenroom.meta.web.targets import Asgi
from greenroom.meta.web.websockets.handshake import is_for_websocket

if TYPE_CHECKING:
    import h11

    from greenroom.meta.web.http.exchange import HttpExchange
    from greenroom.meta.web.http.host import WebHost
    from greenroom.meta.web.messages import HttpRequest, HttpResponse
    from greenroom.meta.web.routes import Found

__all__ = ["Applications"]


class Applications:
    """Runs applications. All its methods are for the loop's own thread."""

    def __init__(self, host: WebHost, targets: Iterable[Any], on_left: Callable[[], object]) -> None:
        self._host = host
        # Called when a WebSocket is over.
        self._on_left = on_left
        chosen = {target: None for target in targets if isinstance(target, Asgi) and target.lifespan}
        self._lifespans = {target: Lifespan(target) for target in chosen}
        self.sockets: dict[AsgiSocket, None] = {}

    @property
    def are_started(self) -> bool:
        """Whether some of them are to be started and stopped."""
        return bool(self._lifespans)

    async def startup(self) -> None:
        """Start them; if one fails, none is."""
        try:
            for lifespan in self._lifespans.values():
                await lifespan.startup()
        except BaseException:
            self.abandon()
            for lifespan in self._lifespans.values():
                await lifespan.cancel()
            raise

    async def shutdown(self) -> None:
        """Stop them, all at once: one that is slow keeps no other from being told."""
        stopping = [lifespan.shutdown() for lifespan in self._lifespans.values()]
        await asyncio.gather(*stopping, return_exceptions=True)

    def abandon(self) -> None:
        """Stop them without waiting for any."""
        for lifespan in self._lifespans.values():
            lifespan.abandon()

    def close(self, *, abort: bool = False) -> None:
        """Close their WebSockets."""
        for socket in list(self.sockets):
            socket.close(abort=abort)

    async def serve(
        self, exchange: HttpExchange, event: h11.Request, request: HttpRequest, found: Found, target: Asgi
    ) -> HttpResponse | None:
        """Have one answer, or take a WebSocket; a response if it does neither."""
        lifespan = self._lifespans.get(target)
        kind = "websocket" if is_for_websocket(request) else "http"
        server = exchange.transport.get_extra_info("sockname")
        scope = scope_of(kind, event, request, found.mount, {} if lifespan is None else lifespan.state, server)
        if kind == "websocket":
            return await self._serve_websocket(exchange, event, request, target, scope)
        if isinstance(request.body.error, HttpError):  # its body will be too large: that is for nobody
            return response_for(request.body.error)
        cycle = AsgiCycle(request, exchange.writer)
        try:
            await target.app(scope, cycle.receive, cycle.send)
        except (ConnectionError, asyncio.CancelledError):
            raise
        except Exception:
            if not cycle.is_refused:
                self._host.log.exception("the application at %s failed", request.path)
        return cycle.end()

    async def _serve_websocket(
        self, exchange: HttpExchange, event: h11.Request, request: HttpRequest, target: Asgi, scope: dict[str, Any]
    ) -> HttpResponse | None:
        socket = AsgiSocket(self._host, exchange, request)
        self.sockets[socket] = None
        try:
            return await socket.serve(event, target, scope)
        except WebSocketIsClosed as exc:  # which is no failure of the application's
            self._host.log.debug("the application at %s was broken off: %s", request.path, exc)
            return None
        except Exception:
            self._host.log.exception("the application at %s failed", request.path)
            return socket.fail()
        finally:
            del self.sockets[socket]
            self._on_left()
