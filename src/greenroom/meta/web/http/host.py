"""The server, as its connections know it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from logging import Logger, LoggerAdapter

    import h11

    from greenroom._core.scheduler.loop import Loop
    from greenroom.meta.web.http.exchange import HttpExchange
    from greenroom.meta.web.limits import WebLimits
    from greenroom.meta.web.messages import HttpRequest, HttpResponse
    from greenroom.meta.web.routes import Found, Routes
    from greenroom.meta.web.targets import Asgi, WebSocket

__all__ = ["WebHost"]


class WebHost(Protocol):
    """What a connection asks of its server."""

    limits: WebLimits
    routes: Routes

    @property
    def loop(self) -> Loop:
        """The loop it lives on."""
        ...

    @property
    def log(self) -> LoggerAdapter[Logger]:
        """Its logger."""
        ...

    @property
    def is_open(self) -> bool:
        """Whether further requests are taken."""
        ...

    def joined(self, exchange: HttpExchange) -> bool:
        """A connection is up; whether it may be."""
        ...

    def left(self, exchange: HttpExchange) -> None:
        """A connection is over, or is a WebSocket now."""
        ...

    def asked(self) -> None:
        """A request has come."""
        ...

    def upgrade(
        self, exchange: HttpExchange, event: h11.Request, request: HttpRequest, target: WebSocket
    ) -> HttpResponse | None:
        """Make a WebSocket of it; a response if that is refused."""
        ...

    async def serve_asgi(
        self, exchange: HttpExchange, event: h11.Request, request: HttpRequest, found: Found, target: Asgi
    ) -> HttpResponse | None:
        """Have an application answer, or take a WebSocket; a response if it does neither."""
        ...
