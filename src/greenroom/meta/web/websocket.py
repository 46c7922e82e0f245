"""One WebSocket: what a stream's wire is, with messages instead of bytes; and how an HTTP request becomes one."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, ClassVar

from wsproto import ConnectionType, WSConnection
from wsproto.connection import ConnectionState
from wsproto.events import (
    AcceptConnection,
    BytesMessage,
    CloseConnection,
    Event,
    Message,
    Ping,
    Pong,
    Request,
    TextMessage,
)
from wsproto.extensions import PerMessageDeflate
from wsproto.frame_protocol import CloseReason
from wsproto.utilities import LocalProtocolError, RemoteProtocolError

from greenroom.errors import FrameTooLarge
from greenroom.meta.sockets.connection import AcceptedConnection
from greenroom.meta.sockets.messages import Connected, Received
from greenroom.meta.sockets.wire import Wire
from greenroom.meta.streams.alarms import set_call
from greenroom.meta.web.messages import HttpResponse, WebSocketConnected

if TYPE_CHECKING:
    import h11

    from greenroom._core.scheduler.loop import Loop
    from greenroom.meta.sockets.options import StreamOptions
    from greenroom.meta.web.messages import HttpRequest
    from greenroom.meta.web.targets import WebSocket

__all__ = ["WebSocketConnection", "WebSocketLimits", "WebSocketWire", "accept", "negotiate"]


class WebSocketLimits:
    """What a WebSocket may do, and when it is asked whether it is still there."""

    __slots__ = ("max_message", "ping_interval", "ping_timeout")

    def __init__(self, max_message: int, ping_interval: float | None, ping_timeout: float) -> None:
        self.max_message = max_message
        self.ping_interval = ping_interval
        self.ping_timeout = ping_timeout


class WebSocketWire(Wire):
    """A wire whose frames are the messages of a WebSocket."""

    __slots__ = ("_is_closing", "_limits", "_parts", "_size", "_ws", "close_code", "request")

    def __init__(
        self,
        options: StreamOptions,
        loop: Loop,
        on_made: Callable[[Wire], object],
        ws: WSConnection,
        limits: WebSocketLimits,
        request: Any = None,
    ) -> None:
        super().__init__(options, loop, on_made)
        self._ws = ws
        self._limits = limits
        self._parts: list[Any] = []
        self._size = 0
        self._is_closing = False
        self.request = request
        # What the other side closed it with.
        self.close_code: int | None = None

    def connection_made(self, transport: Any) -> None:
        """It is up."""
        super().connection_made(transport)
        if self._limits.ping_interval is not None and not self.lost:
            self._heard = self._loop.now()
            self._alarm = set_call(self._loop, self._limits.ping_interval, self._look_if_idle)

    def greeting(self) -> Connected:
        """What its owner is told first."""
        return WebSocketConnected(self.alias, self.peer, self.request)

    # -- what comes

    def data_received(self, data: bytes) -> None:
        """Something has come."""
        self.bytes_in += len(data)
        self._heard = self._loop.now()
        try:
            self._ws.receive_data(data)
            for event in self._ws.events():
                self._take(event)
        except RemoteProtocolError as exc:
            hint = exc.event_hint
            code = hint.code if isinstance(hint, CloseConnection) else CloseReason.PROTOCOL_ERROR
            self._fail("bad frame", exc, int(code))
        except FrameTooLarge as exc:
            self._fail("frame too large", exc, int(CloseReason.MESSAGE_TOO_BIG))

    def _take(self, event: Event) -> None:
        if isinstance(event, Message):
            self._take_part(event)
        elif isinstance(event, Ping):
            self.transport.write(self._ws.send(event.response()))
        elif isinstance(event, CloseConnection):
            self.close_code = int(event.code)
            if self._ws.state is ConnectionState.REMOTE_CLOSING:
                self.transport.write(self._ws.send(event.response()))
            self._leave("eof", None)
            self.transport.close()
        elif not isinstance(event, Pong):
            self._take_handshake(event)

    def _take_handshake(self, event: Event) -> None:
        """A client's wire is answered."""

    def _take_part(self, event: Message[Any]) -> None:
        if self.reason is not None:
            return  # it is being closed: nobody wants it
        data: Any = event.data
        self._size += len(data) if isinstance(event, BytesMessage) else len(data.encode())
        if self._size > self._limits.max_message:
            raise FrameTooLarge(self._size, self._limits.max_message)
        if event.message_finished and not self._parts:
            message = data
        else:
            self._parts.append(data)
            if not event.message_finished:
                return
            nothing: Any = b"" if isinstance(event, BytesMessage) else ""
            message = nothing.join(self._parts)
            self._parts = []
        self._size = 0
        self.frames_in += 1
        self.tell(Received(self.alias, bytes(message) if isinstance(event, BytesMessage) else message))

    def eof_received(self) -> bool:
        """The other side is gone without a farewell, unless that was under way."""
        self._leave("eof" if self._is_closing else "reset", None)
        return False

    # -- what goes

    def encode(self, data: Any) -> bytes:
        """A message as it goes over the wire: a text, or bytes."""
        if isinstance(data, str):
            return self._ws.send(TextMessage(data))
        if isinstance(data, bytes | bytearray | memoryview):
            return self._ws.send(BytesMessage(bytes(data)))
        raise TypeError(f"a WebSocket writes a text or bytes, not {type(data).__name__}")

    def close_write(self) -> bool:
        """A WebSocket has no such thing."""
        return False

    def close(self, reason: str, error: BaseException | None = None, *, abort: bool = False, code: int = 1000) -> None:
        """Say farewell, and wait for the other side to do so, but no longer than it may linger."""
        if reason == "stopped" and code == CloseReason.NORMAL_CLOSURE:
            code = CloseReason.GOING_AWAY
        self._leave(reason, error)
        if self.lost or abort:
            if not self.lost:
                self.transport.abort()
            return
        if self._is_closing:
            return
        self._is_closing = True
        try:
            self.transport.write(self._ws.send(CloseConnection(code)))
        except LocalProtocolError:  # it is closed already, or was never open
            self.transport.close()
        if self._alarm is not None:
            self._alarm.disarm(self._loop.timers)
        self._alarm = set_call(self._loop, self.options.linger, self.transport.abort)

    def _fail(self, reason: str, error: BaseException, code: int) -> None:
        """The other side does what it must not: say so, and do not wait for an answer."""
        self._leave(reason, error)
        if not self._is_closing:
            self._is_closing = True
            with suppress(LocalProtocolError):
                self.transport.write(self._ws.send(CloseConnection(code)))
        self.transport.close()

    def _look_if_idle(self) -> None:
        """Ask whether the other side is still there; without an answer, it is not."""
        limits = self._limits
        if limits.ping_interval is None or self.transport.is_closing() or self._is_closing:
            return
        quiet = self._loop.now() - self._heard
        if quiet >= limits.ping_interval + limits.ping_timeout:
            self.close("idle", abort=True)
            return
        wait = limits.ping_interval - quiet
        if wait <= 0.0:
            self.transport.write(self._ws.send(Ping()))
            wait = limits.ping_interval + limits.ping_timeout - quiet
        self._alarm = set_call(self._loop, wait, self._look_if_idle)


class WebSocketConnection(AcceptedConnection):
    """A WebSocket that a server has taken, as a meta-process."""

    _label: ClassVar[str | None] = "WebSocket"


def accept(
    event: h11.Request,
    request: HttpRequest,
    target: WebSocket,
    options: StreamOptions,
    loop: Loop,
    on_made: Callable[[Wire], object],
) -> HttpResponse | tuple[bytes, WebSocketWire]:
    """What is sent to accept a WebSocket, and its wire; or the response that refuses it."""
    if request.headers.get("upgrade", "").lower() != "websocket":
        return _refusal(426, "this path takes WebSockets only", {"upgrade": "websocket", "connection": "upgrade"})
    if target.authorize is not None:
        verdict = target.authorize(request)
        if isinstance(verdict, HttpResponse):
            return verdict
        if verdict is not True:
            return _refusal(403, "this is not allowed")
    begun = negotiate(event)
    if isinstance(begun, HttpResponse):
        return begun
    ws, asked = begun
    chosen = next((one for one in target.subprotocols if one in asked.subprotocols), None)
    head = ws.send(AcceptConnection(subprotocol=chosen, extensions=[PerMessageDeflate()]))
    limits = WebSocketLimits(target.max_message, target.ping_interval, target.ping_timeout)
    return head, WebSocketWire(options, loop, on_made, ws, limits, request)


def negotiate(event: h11.Request) -> HttpResponse | tuple[WSConnection, Request]:
    """A connection that has yet to be accepted, and what was asked for; or the response that refuses it."""
    ws = WSConnection(ConnectionType.SERVER)
    try:
        ws.initiate_upgrade_connection(list(event.headers), event.target)
        asked = next((one for one in ws.events() if isinstance(one, Request)), None)
    except RemoteProtocolError as exc:
        return _refusal(400, f"this is no proper request for a WebSocket: {exc}", {"sec-websocket-version": "13"})
    return _refusal(400, "this is no proper request for a WebSocket") if asked is None else (ws, asked)


def _refusal(status: int, text: str, headers: dict[str, str] | None = None) -> HttpResponse:
    return HttpResponse(f"{text}\n".encode(), status, {"content-type": "text/plain; charset=utf-8", **(headers or {})})
