"""`WebSocketClient`: a WebSocket to a server, which may reconnect."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from urllib.parse import SplitResult, quote, urlsplit

from wsproto import ConnectionType, WSConnection
from wsproto.events import AcceptConnection, Event, RejectConnection, Request

from greenroom.errors import ConfigError
from greenroom.meta.sockets.client import TcpClient
from greenroom.meta.web.websocket import BoundedDeflate, WebSocketOptions, WebSocketWire
from greenroom.validation import require_count, require_seconds

if TYPE_CHECKING:
    from greenroom._core.scheduler.loop import Loop
    from greenroom.actor.messaging.ref import ActorRef
    from greenroom.meta.sockets.wire import Wire
    from greenroom.policy.backoff import Backoff

SAFE = "/?:@!$&'()*+,;=-._~%#[]|"
"""Characters of a path and a query that stay as they are; those that are not ASCII are quoted."""


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
        parts = _parted(url)
        require_count("max_message", max_message)
        require_seconds("ping_interval", ping_interval, none=True)
        require_seconds("ping_timeout", ping_timeout)
        if parts.scheme == "wss" and tls is None:
            tls = ssl.create_default_context()
        elif parts.scheme == "ws" and tls is not None:
            raise ConfigError("tls", tls, 'goes with "wss://", and this url begins with "ws://"')
        super().__init__(
            parts.hostname or "",
            parts.port or (443 if parts.scheme == "wss" else 80),
            owner=owner,
            tls=tls,
            connect_timeout=connect_timeout,
            reconnect=reconnect,
            max_attempts=max_attempts,
            linger=linger,
        )
        self.url = url
        self._host_header = parts.netloc.rpartition("@")[2]
        self._target = quote((parts.path or "/") + (f"?{parts.query}" if parts.query else ""), safe=SAFE)
        self._headers = dict(headers or {})
        self._subprotocols = list(subprotocols)
        self._ws_options = WebSocketOptions(
            idle_timeout=ping_interval, linger=linger, max_message=max_message, ping_timeout=ping_timeout
        )
        try:
            WSConnection(ConnectionType.CLIENT).send(self._request())
        except Exception as exc:
            given = {"headers": self._headers, "subprotocols": self._subprotocols}
            raise ConfigError("headers", given, f"cannot be sent: {exc}") from exc

    def _request(self) -> Request:
        """A request for each connection: wsproto keeps in its extensions what is agreed on."""
        return Request(
            host=self._host_header,
            target=self._target,
            extensions=[BoundedDeflate(self._ws_options.max_message)],
            extra_headers=[(name.encode("latin-1"), value.encode("latin-1")) for name, value in self._headers.items()],
            subprotocols=list(self._subprotocols),
        )

    async def _open(self) -> Wire:
        aio = asyncio.get_running_loop()
        opened: asyncio.Future[None] = aio.create_future()
        ws = WSConnection(ConnectionType.CLIENT)
        made = ClientWire(self._ws_options, self._loop, ws, opened)
        made.alias = self.id
        await self._connect(lambda: made)
        made.transport.write(ws.send(self._request()))
        try:
            await opened
        except BaseException:
            made.transport.abort()
            raise
        return made


def _parted(url: Any) -> SplitResult:
    with suppress(ValueError):
        parts = urlsplit(url if isinstance(url, str) else "")
        if parts.scheme in ("ws", "wss") and parts.hostname and parts.port != 0 and not any(one <= " " for one in url):
            return parts
    raise ConfigError("url", url, 'must be as in "ws://host:port/path", or "wss://..."')


class ClientWire(WebSocketWire):
    """The wire of a client: `opened` is done when the server has accepted."""

    __slots__ = ("_opened",)

    def __init__(
        self,
        options: WebSocketOptions,
        loop: Loop,
        ws: WSConnection,
        opened: asyncio.Future[None],
    ) -> None:
        super().__init__(options, loop, lambda wire: None, ws)
        self._opened = opened

    def data_received(self, data: bytes) -> None:
        if self._opened.done():
            super().data_received(data)
            return
        try:
            super().data_received(data)
        except Exception as exc:  # h11, wsproto and Python each have errors of their own for a bad answer
            self._ignores_input = True
            self._fail_to_open(ConnectionError(f"the server's answer is not a WebSocket's: {exc}"))

    def _take_handshake(self, event: Event) -> None:
        if isinstance(event, AcceptConnection):
            self.subprotocol = event.subprotocol
            self.hold_for(self.alias)
            if not self._opened.done():
                self._opened.set_result(None)
        elif isinstance(event, RejectConnection):
            self._ignores_input = True
            self._fail_to_open(ConnectionRefusedError(f"the server answered {event.status_code}"))

    def _set_reason(self, reason: str, error: BaseException | None) -> None:
        super()._set_reason(reason, error)
        self._fail_to_open(error or ConnectionResetError("the server closed the connection before it was a WebSocket"))

    def _fail_to_open(self, error: BaseException) -> None:
        if not self._opened.done():
            self._opened.set_exception(error)
