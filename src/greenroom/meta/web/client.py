"""`WebSocketClient`: a WebSocket to a server, made again when it is lost if it is to be."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from wsproto import ConnectionType, WSConnection
from wsproto.events import AcceptConnection, Event, RejectConnection, Request
from wsproto.extensions import PerMessageDeflate

from greenroom.errors import ConfigError
from greenroom.meta.sockets.client import TcpClient
from greenroom.meta.streams.checks import require_count, require_seconds
from greenroom.meta.web.websocket import WebSocketLimits, WebSocketWire

if TYPE_CHECKING:
    from greenroom.actor.messaging.ref import ActorRef
    from greenroom.meta.sockets.wire import Wire
    from greenroom.policy.backoff import Backoff

__all__ = ["WebSocketClient"]


class WebSocketClient(TcpClient):
    """A WebSocket to `url`. Its owner gets `WebSocketConnected`, `Received` with a text or bytes, and `Closed`; it
    sends `Write` and `Close`. The arguments besides are those of `TcpClient` and of `WebSocket`.

    Args:
        url: `"ws://host:port/path"`, or `"wss://..."` for TLS.
        headers: Further headers of the request: for a login, say.
        subprotocols: Those that the client speaks, the best first.
    """

    def __init__(
        self,
        url: str,
        *,
        owner: ActorRef | None = None,
        headers: Mapping[str, str] | None = None,
        subprotocols: Sequence[str] = (),
        tls: ssl.SSLContext | None = None,
        connect_timeout: float = 10.0,
        reconnect: Backoff | None = None,
        max_attempts: int | None = None,
        max_message: int = 1 << 20,
        ping_interval: float | None = 20.0,
        ping_timeout: float = 20.0,
        linger: float = 5.0,
    ) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("ws", "wss") or not parts.hostname:
            raise ConfigError("url", url, 'must be as in "ws://host:port/path", or "wss://..."')
        require_count("max_message", max_message)
        require_seconds("ping_interval", ping_interval, none=True)
        require_seconds("ping_timeout", ping_timeout)
        if parts.scheme == "wss" and tls is None:
            tls = ssl.create_default_context()
        super().__init__(
            parts.hostname,
            parts.port or (443 if parts.scheme == "wss" else 80),
            owner=owner,
            tls=tls if parts.scheme == "wss" else None,
            connect_timeout=connect_timeout,
            reconnect=reconnect,
            max_attempts=max_attempts,
            linger=linger,
        )
        self.url = url
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        self._request = Request(
            host=parts.netloc.rpartition("@")[2],
            target=path,
            extensions=[PerMessageDeflate()],
            extra_headers=[(name.encode(), value.encode()) for name, value in (headers or {}).items()],
            subprotocols=list(subprotocols),
        )
        self._limits = WebSocketLimits(max_message, ping_interval, ping_timeout)

    async def _open(self) -> Wire:
        """Connect, and ask for a WebSocket; the wire when that is granted."""
        aio = asyncio.get_running_loop()
        opened: asyncio.Future[None] = aio.create_future()
        ws = WSConnection(ConnectionType.CLIENT)
        made = ClientWire(self._options, self._loop, ws, self._limits, opened)
        made.alias = self.id
        await self._connect(lambda: made)
        made.transport.write(ws.send(self._request))
        try:
            await opened
        except BaseException:
            made.transport.abort()
            raise
        return made


class ClientWire(WebSocketWire):
    """The client's side, which waits for the server to grant it."""

    __slots__ = ("_opened", "_status")

    def __init__(self, options: Any, loop: Any, ws: WSConnection, limits: WebSocketLimits, opened: Any) -> None:
        super().__init__(options, loop, lambda wire: None, ws, limits)
        self._opened = opened
        self._status: int | None = None

    def _take_handshake(self, event: Event) -> None:
        if isinstance(event, AcceptConnection):
            self.hold_for(self.alias)
            if not self._opened.done():
                self._opened.set_result(None)
        elif isinstance(event, RejectConnection) and not self._opened.done():
            self._opened.set_exception(ConnectionRefusedError(f"the server answered {event.status_code}"))

    def _leave(self, reason: str, error: BaseException | None) -> None:
        super()._leave(reason, error)
        if not self._opened.done():
            why = error or ConnectionResetError("the server closed the connection before it was a WebSocket")
            self._opened.set_exception(why)
