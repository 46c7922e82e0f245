"""One WebSocket: what a stream's wire is, with messages instead of bytes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar

from wsproto.connection import ConnectionState
from wsproto.events import BytesMessage, CloseConnection, Event, Message, Ping, Pong, TextMessage
from wsproto.utilities import LocalProtocolError, RemoteProtocolError

from greenroom.errors import BadArgument, FrameTooLarge
from greenroom.meta.sockets.connection import AcceptedConnection
from greenroom.meta.sockets.messages import Closed, Connected, Received
from greenroom.meta.sockets.wire import Wire
from greenroom.meta.streams.alarms import set_call
from greenroom.meta.streams.unread import end_writing
from greenroom.meta.web.messages import WebSocketConnected

if TYPE_CHECKING:
    from wsproto import WSConnection

    from greenroom._core.scheduler.loop import Loop
    from greenroom.meta.sockets.options import StreamOptions

__all__ = ["WebSocketConnection", "WebSocketLimits", "WebSocketWire"]

NORMAL, GOING_AWAY, TOO_LARGE = 1000, 1001, 1009
AT_ONCE = 256
BYTES_AT_ONCE = 1 << 20
"""How many frames, and how much of messages, is taken in one turn of the loop: a little that came may be much."""
ABNORMAL = 1006
NOT_SENT = frozenset({1004, 1005, ABNORMAL})
"""Codes that mean something to whoever gets to know of them, and must not be sent."""
MOST_TEXT = 123


class WebSocketLimits:
    """What a WebSocket may do, and when it is asked whether it is still there."""

    __slots__ = ("max_message", "ping_interval", "ping_timeout")

    def __init__(self, max_message: int, ping_interval: float | None, ping_timeout: float) -> None:
        self.max_message = max_message
        self.ping_interval = ping_interval
        self.ping_timeout = ping_timeout


class WebSocketWire(Wire):
    """A wire whose frames are the messages of a WebSocket."""

    __slots__ = (
        "_has_said_farewell",
        "_is_catching_up",
        "_is_deaf",
        "_is_taking",
        "_limits",
        "_parts",
        "_pong",
        "_size",
        "_taken",
        "_ws",
        "code",
        "request",
        "subprotocol",
        "text",
    )

    def __init__(
        self,
        options: StreamOptions,
        loop: Loop,
        on_made: Callable[[Wire], object],
        ws: WSConnection,
        limits: WebSocketLimits,
        request: Any = None,
        subprotocol: str | None = None,
    ) -> None:
        super().__init__(options, loop, on_made)
        self._ws = ws
        self._limits = limits
        # What has come of a message.
        self._parts: list[Any] = []
        self._size = 0
        # What a ping is answered with when there is room for it again.
        self._pong: Pong | None = None
        self._has_said_farewell = False
        # Whether nothing that comes matters any more; and whether it is being taken.
        self._is_deaf = False
        self._is_taking = False
        # Whether there is more than could be taken in one turn, and how much that turn has brought.
        self._is_catching_up = False
        self._taken = 0
        self.request = request
        self.subprotocol = subprotocol
        # What it was closed with.
        self.code: int | None = None
        self.text = ""

    def connection_made(self, transport: Any) -> None:
        """It is up."""
        super().connection_made(transport)
        if self._limits.ping_interval is not None and not self.lost:
            self._heard = self._loop.now()
            self._alarm = set_call(self._loop, self._limits.ping_interval, self._look_if_idle)

    def greeting(self) -> Connected:
        """What its owner is told first."""
        return WebSocketConnected(self.alias, self.peer, self.request, self.subprotocol)

    def farewell(self) -> Closed:
        """What its owner is told last."""
        code = ABNORMAL if self.code is None else self.code
        return Closed(self.alias, self.reason or "closed", self.error, code, self.text)

    # -- what comes

    def data_received(self, data: bytes) -> None:
        """Something has come."""
        self.bytes_in += len(data)
        self._heard = self._loop.now()
        if not self._is_deaf:
            self._ws.receive_data(data)
            if not self._is_catching_up:
                self._advance()

    def _advance(self) -> None:
        """Take what has come, as far as its owner has room for it."""
        if self._is_taking:
            return
        self._is_taking = True
        self._taken = 0
        try:
            for number, event in enumerate(self._ws.events(), 1):
                self._take(event)
                if self._is_deaf or (self.is_behind() and self.reason is None):
                    break
                if number >= AT_ONCE or self._taken >= BYTES_AT_ONCE:
                    self._catch_up_later()
                    break
        except FrameTooLarge as exc:
            self._fail("frame too large", exc, TOO_LARGE)
        finally:
            self._is_taking = False

    def _catch_up_later(self) -> None:
        """The others have their turn first."""
        if not self._is_catching_up:
            self._is_catching_up = True
            self._pause()
            asyncio.get_running_loop().call_soon(self._catch_up)

    def _catch_up(self) -> None:
        self._is_catching_up = False
        if not self.lost and not self._is_deaf and not self.is_behind():
            self._resume()

    def _take(self, event: Event) -> None:
        if isinstance(event, Message):
            self._take_part(event)
        elif isinstance(event, Ping):
            self._answer_ping(event)
        elif isinstance(event, CloseConnection):
            self._take_farewell(event)
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
            if data:  # else a message that never ends could be as long as it likes
                self._parts.append(data)
            if not event.message_finished:
                return
            nothing: Any = b"" if isinstance(event, BytesMessage) else ""
            message = nothing.join(self._parts)
            self._parts = []
        self._taken += self._size
        self._size = 0
        self.frames_in += 1
        self.tell(Received(self.alias, bytes(message) if isinstance(event, BytesMessage) else message))

    def _answer_ping(self, event: Ping) -> None:
        if self._ws.state is not ConnectionState.OPEN:
            return  # nothing may follow a farewell
        if self._drained is not None:
            # The other side does not read: when it does, an answer to its last ping will do.
            self._pong = event.response()
        else:
            self.transport.write(self._ws.send(event.response()))

    def _take_farewell(self, event: CloseConnection) -> None:
        state = self._ws.state
        if state not in (ConnectionState.REMOTE_CLOSING, ConnectionState.CLOSED):
            # It is wsproto who says so: what came is wrong.
            code = int(event.code)
            if code == TOO_LARGE:
                limit = self._limits.max_message
                self._fail("frame too large", FrameTooLarge(limit + 1, limit), code)
            else:
                self._fail("bad frame", RemoteProtocolError(event.reason or "this is no frame"), code)
            return
        self.code, self.text = int(event.code), event.reason or ""
        if state is ConnectionState.REMOTE_CLOSING:
            self.transport.write(self._ws.send(event.response()))
        self._leave("eof", None)
        self._part(expects_more=self._has_unread())

    def eof_received(self) -> bool:
        """The other side is gone without a farewell, unless that was under way."""
        self._has_ended = True
        self._leave("eof" if self._has_said_farewell else "reset", None)
        return False

    def _resume(self) -> None:
        self._heard = self._loop.now()  # as long as nothing was read, nothing could be heard
        if not self.lost and not self._is_deaf:
            self._advance()
        if not self.is_behind() and not self._is_catching_up:
            super()._resume()

    # -- what goes

    def encode(self, data: Any) -> bytes:
        """A message as it goes over the wire: a text, or bytes."""
        if isinstance(data, str):
            return self._ws.send(TextMessage(data))
        if isinstance(data, bytes | bytearray | memoryview):
            return self._ws.send(BytesMessage(bytes(data)))
        raise TypeError(f"a WebSocket writes a text or bytes, not {type(data).__name__}")

    def write(self, frame: bytes) -> asyncio.Future[None] | None:
        """Send a frame, which is no sign of life of the other side; what to wait for, if the buffer is full."""
        self.bytes_out += len(frame)
        self.transport.write(frame)
        return self._drained

    def resume_writing(self) -> None:
        """There is room again."""
        super().resume_writing()
        pong, self._pong = self._pong, None
        if pong is not None and self._ws.state is ConnectionState.OPEN:
            self.transport.write(self._ws.send(pong))

    def close_write(self) -> bool:
        """A WebSocket has no such thing."""
        return False

    def close(
        self,
        reason: str,
        error: BaseException | None = None,
        *,
        abort: bool = False,
        code: int = NORMAL,
        text: str = "",
    ) -> None:
        """Say farewell, and wait for the other side to do so, but no longer than it may linger."""
        require_farewell(code, text)
        if reason == "stopped" and code == NORMAL:
            code = GOING_AWAY
        self._leave(reason, error)
        if self.lost:
            return
        if abort:
            self.transport.abort()
            return
        if self._has_said_farewell or self._is_deaf:
            return
        self._say_farewell(code, text)
        self._limit_end()
        if not self.transport.is_closing():
            # Its owner may be behind, but what comes besides the other side's farewell is not for it any more.
            self.transport.resume_reading()
            self._advance()

    def _say_farewell(self, code: int, text: str = "") -> None:
        self._has_said_farewell = True
        try:
            self.transport.write(self._ws.send(CloseConnection(code, text or None)))
        except LocalProtocolError:  # it is closed already, or was never open
            self.transport.close()
        else:
            self.code, self.text = code, text

    def _fail(self, reason: str, error: BaseException, code: int) -> None:
        """The other side does what it must not: say so, and do not wait for an answer."""
        self._leave(reason, error)
        if not self._has_said_farewell:
            self._say_farewell(code)
        self._part(expects_more=True)

    def _part(self, *, expects_more: bool) -> None:
        """All is said: close it when all is written."""
        self._is_deaf = True
        self._limit_end()
        if self.transport.is_closing():
            return
        if expects_more and not self._has_ended and self.transport.can_write_eof():
            # As with any stream: closing now would have the system reset the connection, and the farewell be lost.
            self.has_finished = True
            end_writing(self.transport)
            self.transport.resume_reading()
        else:
            self.transport.close()

    def _limit_end(self) -> None:
        if self._alarm is not None:
            self._alarm.disarm(self._loop.timers)
        self._alarm = set_call(self._loop, self.options.linger, self.transport.abort)

    def _look_if_idle(self) -> None:
        """Ask whether the other side is still there; without an answer, it is not."""
        limits = self._limits
        if limits.ping_interval is None or self.transport.is_closing() or self._has_said_farewell:
            return
        if self.is_behind():  # it is the owner who is slow
            self._heard = self._loop.now()
        quiet = self._loop.now() - self._heard
        if quiet >= limits.ping_interval + limits.ping_timeout:
            self.close("idle", abort=True)
            return
        wait = limits.ping_interval - quiet
        if wait <= 0.0:
            if self._ws.state is ConnectionState.OPEN:
                self.transport.write(self._ws.send(Ping()))
            wait = limits.ping_interval + limits.ping_timeout - quiet
        self._alarm = set_call(self._loop, wait, self._look_if_idle)


class WebSocketConnection(AcceptedConnection):
    """A WebSocket that a server has taken, as a meta-process."""

    _label: ClassVar[str | None] = "WebSocket"


def require_farewell(code: Any, text: Any) -> None:
    """Raise unless a WebSocket can be closed with that."""
    is_number = isinstance(code, int) and not isinstance(code, bool)
    if not is_number or not (1000 <= code <= 1014 or 3000 <= code <= 4999) or code in NOT_SENT:
        raise BadArgument(f"a WebSocket is closed with a code from 1000 to 1014 or 3000 to 4999, not with {code!r}")
    try:
        fits = len(text.encode()) <= MOST_TEXT
    except (AttributeError, UnicodeEncodeError):
        fits = False
    if not fits:
        raise BadArgument(f"a WebSocket is closed with a text of at most {MOST_TEXT} bytes, not with {text!r}")
