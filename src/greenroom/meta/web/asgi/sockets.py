"""WebSockets of ASGI applications."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Any

from wsproto.events import AcceptConnection

from greenroom.meta.sockets.messages import Received
from greenroom.meta.sockets.options import StreamOptions
from greenroom.meta.web.http.responses import plain
from greenroom.meta.web.messages import HttpResponse
from greenroom.meta.web.websockets.deflate import BoundedDeflate
from greenroom.meta.web.websockets.handshake import negotiate
from greenroom.meta.web.websockets.wire import WebSocketLimits, WebSocketWire

if TYPE_CHECKING:
    import h11
    from wsproto import WSConnection

    from greenroom._core.scheduler.loop import Loop
    from greenroom.meta.web.asgi.scope import Message
    from greenroom.meta.web.http.exchange import HttpExchange
    from greenroom.meta.web.http.host import WebHost
    from greenroom.meta.web.messages import HttpRequest
    from greenroom.meta.web.targets import Asgi

__all__ = ["AsgiSocket", "WebSocketIsClosed"]

LIMITS = WebSocketLimits(max_message=1 << 24, ping_interval=20.0, ping_timeout=20.0)
MOST_QUEUED = 64
MOST_WAITING = 1 << 20
"""Messages that wait for the application, and how long they are in all, from which on nothing more is read."""
CLOSED_BY = {"closed": "the application", "stopped": "the server"}
"""Who has closed a WebSocket, by the reason for its end; in all other cases it is the client."""


class WebSocketIsClosed(ConnectionResetError):
    """An application sends something when nobody can get it any more: ASGI wants it to be an OSError."""


class AsgiSocket:
    """One WebSocket, between a connection and an application."""

    def __init__(self, host: WebHost, exchange: HttpExchange, request: HttpRequest) -> None:
        self._host = host
        self._exchange = exchange
        self._request = request
        self._wire: QueueWire | None = None
        self._ws: WSConnection | None = None
        self._refusal: HttpResponse | None = None
        self._was_connected = False

    async def serve(self, event: h11.Request, target: Asgi, scope: dict[str, Any]) -> HttpResponse | None:
        """Have the application serve it; a response if it is refused."""
        begun = negotiate(event, self._request)
        if isinstance(begun, HttpResponse):
            return begun
        self._ws, asked = begun
        scope["subprotocols"] = list(asked.subprotocols)
        await target.app(scope, self._receive, self._send)
        if self._wire is None:
            return self._refusal or plain(403, "this is not allowed")
        self._wire.close("closed")
        return None

    async def _receive(self) -> Message:
        if not self._was_connected:
            self._was_connected = True
            return {"type": "websocket.connect"}
        if self._wire is None:
            return {"type": "websocket.disconnect", "code": 1006}
        data = await self._wire.next_message()
        if data is None:
            last = self._wire.farewell()
            return {"type": "websocket.disconnect", "code": last.code, "reason": last.text}
        return {"type": "websocket.receive", "text" if isinstance(data, str) else "bytes": data}

    async def _send(self, message: Message) -> None:
        kind = message["type"]
        if kind == "websocket.accept" and self._wire is None:
            self._accept(message)
        elif kind == "websocket.send" and self._wire is not None:
            await self._require_open(self._wire)
            data = message.get("text")
            drained = self._wire.write(self._wire.encode(message["bytes"] if data is None else data))
            if drained is not None:
                await drained
                await self._require_open(self._wire)
        elif kind == "websocket.close":
            if self._wire is None:
                self._refusal = plain(403, "this is not allowed")
            else:
                code, text = message.get("code"), message.get("reason")
                self._wire.close("closed", code=1000 if code is None else code, text=text or "")
        else:
            raise ValueError(f"an ASGI application sent {kind!r}, which makes no sense now")

    async def _require_open(self, wire: QueueWire) -> None:
        # If a write fails, asyncio closes the transport, and tells the wire only when the loop has its next turn.
        if wire.reason is None and not wire.transport.is_closing():
            return
        # An application that sends on whatever happens must not keep the loop for itself.
        await asyncio.sleep(0)
        raise WebSocketIsClosed(f"{CLOSED_BY.get(wire.reason or '', 'the client')} has closed the WebSocket")

    def _accept(self, message: Message) -> None:
        assert self._ws is not None
        extra = [(bytes(name), bytes(value)) for name, value in message.get("headers", ())]
        deflate = BoundedDeflate(LIMITS.max_message)
        head = self._ws.send(
            AcceptConnection(subprotocol=message.get("subprotocol"), extensions=[deflate], extra_headers=extra)
        )
        transport = self._exchange.transport
        wire = self._wire = QueueWire(StreamOptions(linger=self._host.limits.linger), self._host.loop, self._ws)
        early = self._exchange.detach()
        transport.write(head)
        transport.set_protocol(wire)
        wire.connection_made(transport)
        if early:
            wire.data_received(early)

    def fail(self) -> HttpResponse | None:
        """The application raised."""
        if self._wire is None:
            return plain(500, "the application failed")
        self._wire.close("closed", code=1011)
        return None

    def close(self, *, abort: bool = False) -> None:
        """The server is stopped; with `abort` nobody waits for the application."""
        if self._wire is not None:
            self._wire.close("stopped", abort=abort)
        if abort:
            self._exchange.cancel()


class QueueWire(WebSocketWire):
    """A wire whose messages wait for somebody who asks for them."""

    __slots__ = ("_queue", "_waiter_of_queue", "_waiting")

    def __init__(self, options: StreamOptions, loop: Loop, ws: WSConnection) -> None:
        super().__init__(options, loop, lambda wire: None, ws, LIMITS)
        self.alias = None  # type: ignore[assignment]
        self._queue: deque[Any] = deque()
        self._waiting = 0
        self._waiter_of_queue: asyncio.Future[None] | None = None

    def tell(self, message: object) -> None:
        """Keep it."""
        if isinstance(message, Received):
            self._queue.append(message.data)
            self._waiting += len(message.data)
            if self.is_behind():
                self._pause()
        self._wake()

    def is_behind(self) -> bool:
        """Whether enough waits for the application."""
        return len(self._queue) >= MOST_QUEUED or self._waiting >= MOST_WAITING

    def _leave(self, reason: str, error: BaseException | None) -> None:
        super()._leave(reason, error)
        self._wake()

    def connection_lost(self, exc: BaseException | None) -> None:
        """It is over."""
        super().connection_lost(exc)
        self._wake()

    def _wake(self) -> None:
        if self._waiter_of_queue is not None and not self._waiter_of_queue.done():
            self._waiter_of_queue.set_result(None)

    async def next_message(self) -> Any:
        """The next message; None when there are no more."""
        while not self._queue:
            if self.reason is not None:
                return None
            self._waiter_of_queue = asyncio.get_running_loop().create_future()
            try:
                await self._waiter_of_queue
            finally:
                self._waiter_of_queue = None
        was_behind = self.is_behind()
        data = self._queue.popleft()
        self._waiting -= len(data)
        if was_behind and not self.is_behind():
            self._resume()
        return data
