"""WebSockets: how an HTTP request becomes one, and its wire, whose frames are messages.

wsproto has the protocol, but no limit for messages that are unpacked, and no turns for a peer that sends much.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import re
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from inspect import isawaitable
from typing import TYPE_CHECKING, Any, ClassVar

from wsproto import ConnectionType, WSConnection
from wsproto.connection import ConnectionState
from wsproto.events import (
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
from wsproto.frame_protocol import CloseReason, RsvBits
from wsproto.utilities import LocalProtocolError, RemoteProtocolError

from greenroom.actor.api.behavior import close_unawaited
from greenroom.errors import BadArgument, FrameTooLarge, HttpError
from greenroom.meta.sockets.connection import AcceptedConnection
from greenroom.meta.sockets.messages import Closed, Connected, Received
from greenroom.meta.sockets.wire import StreamOptions, Wire, has_unread
from greenroom.meta.web.messages import HttpResponse, WebSocketConnected, plain, response_for
from greenroom.validation import is_whole

if TYPE_CHECKING:
    from logging import Logger, LoggerAdapter

    import h11
    from wsproto.frame_protocol import Opcode

    from greenroom._core.scheduler.loop import Loop
    from greenroom.meta.web.messages import HttpRequest
    from greenroom.meta.web.routes import WebSocket

NORMAL, GOING_AWAY, TOO_LARGE = 1000, 1001, 1009
AT_ONCE = 256
BYTES_AT_ONCE = 1 << 20
"""Frames, and bytes of messages, that are taken in one turn of the loop: a few packed bytes may be a long message."""
ABNORMAL = 1006
NOT_SENT = frozenset({1004, 1005, ABNORMAL})
"""Codes that report how a WebSocket ended, and must not be sent."""
MOST_TEXT = 123
KEY_BYTES = 16
PARAMETER = re.compile(
    r"(?:(?:server|client)_no_context_takeover|client_max_window_bits"
    r"|(?:server|client)_max_window_bits\s*=\s*(?:9|1[0-5]))\Z"
)
"""Parameters that a client may offer. It may offer a window of 8 bits too, but zlib does not have that."""
END = b"\x00\x00\xff\xff"
"""The end of every packed message, which is not sent."""


@dataclass(slots=True)
class WebSocketOptions(StreamOptions):
    """Options of a WebSocket. After `idle_timeout` seconds of silence, the peer is sent a ping."""

    max_message: int = 1 << 24
    """Bytes, unpacked."""
    ping_timeout: float = 20.0
    """Seconds that the peer has to answer a ping."""


class WebSocketWire(Wire):
    """A wire whose frames are the messages of a WebSocket."""

    options: WebSocketOptions

    __slots__ = (
        "_has_sent_close",
        "_ignores_input",
        "_is_catching_up",
        "_is_taking",
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
        options: WebSocketOptions,
        loop: Loop,
        on_made: Callable[[Wire], object],
        ws: WSConnection,
        request: Any = None,
        subprotocol: str | None = None,
    ) -> None:
        super().__init__(options, loop, on_made)
        self._ws = ws
        # The parts of a message that have come, and their size.
        self._parts: list[Any] = []
        self._size = 0
        # The answer to the last ping, when there is room for it again.
        self._pong: Pong | None = None
        self._has_sent_close = False
        # Whether nothing that comes matters any more; and whether what has come is being taken.
        self._ignores_input = False
        self._is_taking = False
        # Whether there is more than could be taken in one turn; and the bytes of messages that turn has brought.
        self._is_catching_up = False
        self._taken = 0
        self.request = request
        self.subprotocol = subprotocol
        # The code and the text of the close frame.
        self.code: int | None = None
        self.text = ""

    def first_message(self) -> Connected:
        return WebSocketConnected(self.alias, self.peer, self.request, self.subprotocol)

    def last_message(self) -> Closed:
        code = ABNORMAL if self.code is None else self.code
        return Closed(self.alias, self.reason or "closed", self.error, code, self.text)

    # -- what comes

    def data_received(self, data: bytes) -> None:
        self.bytes_in += len(data)
        self._heard = self._loop.now()
        if not self._ignores_input:
            self._ws.receive_data(data)
            if not self._is_catching_up:
                self._advance()

    def _advance(self) -> None:
        """Take what has come, as far as the owner has room for it."""
        if self._is_taking:
            return
        self._is_taking = True
        self._taken = 0
        try:
            for number, event in enumerate(self._ws.events(), 1):
                self._take(event)
                if self._ignores_input or (self.is_behind() and self.reason is None):
                    break
                if number >= AT_ONCE or self._taken >= BYTES_AT_ONCE:
                    self._catch_up_later()
                    break
        except FrameTooLarge as exc:
            self._fail("frame too large", exc, TOO_LARGE)
        finally:
            self._is_taking = False

    def _catch_up_later(self) -> None:
        if not self._is_catching_up:
            self._is_catching_up = True
            self._pause()
            asyncio.get_running_loop().call_soon(self._catch_up)

    def _catch_up(self) -> None:
        self._is_catching_up = False
        if not self.lost and not self._ignores_input and not self.is_behind():
            self._resume()

    def _take(self, event: Event) -> None:
        if isinstance(event, Message):
            self._take_part(event)
        elif isinstance(event, Ping):
            self._answer_ping(event)
        elif isinstance(event, CloseConnection):
            self._take_close(event)
        elif not isinstance(event, Pong):
            self._take_handshake(event)

    def _take_handshake(self, event: Event) -> None: ...

    def _take_part(self, event: Message[Any]) -> None:
        if self.reason is not None:
            return  # it is being closed, and nothing is wanted
        data: Any = event.data
        self._size += len(data) if isinstance(event, BytesMessage) else len(data.encode())
        if self._size > self.options.max_message:
            raise FrameTooLarge(self._size, self.options.max_message)
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
            return  # nothing may follow a close frame
        if self._drained is not None:
            # The other side does not read: when it does, an answer to its last ping will do.
            self._pong = event.response()
        else:
            self.transport.write(self._ws.send(event.response()))

    def _take_close(self, event: CloseConnection) -> None:
        state = self._ws.state
        if state not in (ConnectionState.REMOTE_CLOSING, ConnectionState.CLOSED):
            # This is wsproto's own event: what came is wrong.
            code = int(event.code)
            if code == TOO_LARGE:
                limit = self.options.max_message
                self._fail("frame too large", FrameTooLarge(limit + 1, limit), code)
            else:
                self._fail("bad frame", RemoteProtocolError(event.reason or "this is no frame"), code)
            return
        self.code, self.text = int(event.code), event.reason or ""
        if state is ConnectionState.REMOTE_CLOSING:
            self.transport.write(self._ws.send(event.response()))
        self._set_reason("eof", None)
        self._close_when_written(expects_more=not self.has_finished and has_unread(self.transport))

    def eof_received(self) -> bool:
        """The other side is gone without a close frame, unless one was sent."""
        self._has_ended = True
        self._set_reason("eof" if self._has_sent_close else "reset", None)
        return False

    def _resume(self) -> None:
        self._heard = self._loop.now()  # as long as nothing was read, nothing could be heard
        if not self.lost and not self._ignores_input:
            self._advance()
        if not self.is_behind() and not self._is_catching_up:
            super()._resume()

    # -- what goes

    def encode(self, data: Any) -> bytes:
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
        super().resume_writing()
        pong, self._pong = self._pong, None
        if pong is not None and self._ws.state is ConnectionState.OPEN:
            self.transport.write(self._ws.send(pong))

    def close_write(self) -> bool:
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
        """Send a close frame, and wait for the other side's, but no longer than `linger`."""
        require_close_code(code, text)
        if reason == "stopped" and code == NORMAL:
            code = GOING_AWAY
        self._set_reason(reason, error)
        if self.lost:
            return
        if abort:
            self.transport.abort()
            return
        if self._has_sent_close or self._ignores_input:
            return
        self._send_close(code, text)
        self._set_alarm(self.options.linger, self.transport.abort)
        if not self.transport.is_closing():
            # Even if the owner is behind: of what comes now, only the close frame of the other side matters.
            self.transport.resume_reading()
            self._advance()

    def _send_close(self, code: int, text: str = "") -> None:
        self._has_sent_close = True
        try:
            self.transport.write(self._ws.send(CloseConnection(code, text or None)))
        except LocalProtocolError:  # closed already, or never open
            self.transport.close()
        else:
            self.code, self.text = code, text

    def _fail(self, reason: str, error: BaseException, code: int) -> None:
        """Close because the other side does what it must not, and do not wait for an answer."""
        self._set_reason(reason, error)
        if not self._has_sent_close:
            self._send_close(code)
        self._close_when_written(expects_more=True)

    def _close_when_written(self, *, expects_more: bool) -> None:
        self._ignores_input = True
        self._close_transport(expects_more=expects_more)

    def _look_if_idle(self) -> None:
        interval, timeout = self.options.idle_timeout, self.options.ping_timeout
        if interval is None or self.transport.is_closing() or self._has_sent_close:
            return
        if self.is_behind():  # the owner is slow, not the other side
            self._heard = self._loop.now()
        quiet = self._loop.now() - self._heard
        if quiet >= interval + timeout:
            self.close("idle", abort=True)
            return
        wait = interval - quiet
        if wait <= 0.0:
            if self._ws.state is ConnectionState.OPEN:
                self.transport.write(self._ws.send(Ping()))
            wait = interval + timeout - quiet
        self._set_alarm(wait, self._look_if_idle)


class WebSocketConnection(AcceptedConnection):
    """A WebSocket that a server has taken, as a meta-process."""

    _label: ClassVar[str | None] = "WebSocket"
    _kind: ClassVar[str] = "WebSocket"


def require_close_code(code: Any, text: Any) -> None:
    if not (is_whole(code, 1000, 1014) or is_whole(code, 3000, 4999)) or code in NOT_SENT:
        raise BadArgument(f"a WebSocket is closed with a code from 1000 to 1014 or 3000 to 4999, not with {code!r}")
    try:
        fits = len(text.encode()) <= MOST_TEXT
    except (AttributeError, UnicodeEncodeError):
        fits = False
    if not fits:
        raise BadArgument(f"a WebSocket is closed with a text of at most {MOST_TEXT} bytes, not with {text!r}")


class BoundedDeflate(PerMessageDeflate):
    """wsproto packs; this unpacks.

    It unpacks no further than to `limit` bytes a message, and messages with pings between their parts too: wsproto
    takes the rest of such a message as if it were not packed.
    """

    def __init__(self, limit: int) -> None:
        super().__init__()
        self._limit = limit
        self._inflater: Any = None
        # Of the message that comes: its size by now, and whether it is packed; None between two messages.
        self._size = 0
        self._is_packed: bool | None = None
        self._is_control = False

    def accept(self, offer: str) -> bool | str | None:
        """Agree to the first proper offer. Returns None if `offer` is declined."""
        if self.enabled() or not _is_proper(offer):
            return None
        return super().accept(offer)

    def frame_inbound_header(
        self, proto: Any, opcode: Opcode, rsv: RsvBits, payload_length: int
    ) -> CloseReason | RsvBits:
        """Called again if only part of a header had come."""
        self._is_control = opcode.iscontrol()
        if rsv.rsv1 and (self._is_control or opcode == 0):
            return CloseReason.PROTOCOL_ERROR
        if not self._is_control and self._is_packed is None:
            self._is_packed = rsv.rsv1
            if self._is_packed and self._inflater is None:
                bits = self.server_max_window_bits if proto.client else self.client_max_window_bits
                self._inflater = zlib.decompressobj(-int(bits))
        return RsvBits(True, False, False)

    def frame_inbound_payload_data(self, proto: Any, data: bytes) -> bytes | CloseReason:
        return data if self._is_control or not self._is_packed else self._inflate(data)

    def frame_inbound_complete(self, proto: Any, fin: bool) -> bytes | CloseReason | None:
        if self._is_control or not fin:
            return None
        is_packed, self._is_packed = self._is_packed, None
        if not is_packed:
            return None
        data = self._inflate(END)
        self._size = 0
        forgets = self.server_no_context_takeover if proto.client else self.client_no_context_takeover
        if forgets or self._inflater.eof:  # after the end of its stream, an inflater unpacks nothing more
            self._inflater = None
        return data

    def _inflate(self, data: bytes) -> bytes | CloseReason:
        if self._inflater.eof:
            return b""  # zlib would keep what follows the end of its stream, however much that is
        try:
            unpacked: bytes = self._inflater.decompress(data, self._limit - self._size + 1)
        except zlib.error:
            return CloseReason.INVALID_FRAME_PAYLOAD_DATA
        self._size += len(unpacked)
        return CloseReason.MESSAGE_TOO_BIG if self._size > self._limit else unpacked


def _is_proper(offer: str) -> bool:
    """True if an offer has known parameters only, and each once. Any other must be declined."""
    wishes = [one.strip() for one in offer.split(";")[1:]]
    names = {one.partition("=")[0].strip() for one in wishes}
    return len(names) == len(wishes) and all(PARAMETER.match(one) for one in wishes)


def is_for_websocket(request: HttpRequest) -> bool:
    return any(one.strip().lower() == "websocket" for one in request.headers.get("upgrade", "").split(","))


def authorize(request: HttpRequest, target: WebSocket, log: LoggerAdapter[Logger]) -> HttpResponse | None:
    """The response to a client that is not allowed in; None if it is."""
    if target.authorize is None:
        return None
    try:
        verdict: Any = target.authorize(request)
    except HttpError as exc:
        return response_for(exc)
    except Exception:
        log.exception("authorize() of the WebSocket at %s failed", request.path)
        return plain(500, "whether this is allowed could not be found out")
    if isinstance(verdict, HttpResponse):
        return verdict
    if isawaitable(verdict):
        close_unawaited(verdict)
        log.error("authorize() of the WebSocket at %s is async: it must be a plain function", request.path)
        return plain(500, "whether this is allowed could not be found out")
    return None if verdict is True else plain(403, "this is not allowed")


def negotiate(event: h11.Request, request: HttpRequest) -> HttpResponse | tuple[WSConnection, Request]:
    """Returns a connection that has yet to be accepted and its request, or the response that refuses it."""
    if request.method != "GET":
        return plain(405, "a WebSocket is asked for with GET", {"allow": "GET"})
    if event.http_version != b"1.1":
        return plain(400, "a WebSocket is asked for with HTTP/1.1")
    for name, value in request.headers.pairs():
        if not value.isascii() and (name.startswith("sec-websocket-") or name in ("connection", "host")):
            return plain(400, f"the header {name} has signs in it that it must not have")
    if request.headers.get("sec-websocket-version", "13") != "13":
        upgrade = {"upgrade": "websocket", "connection": "upgrade", "sec-websocket-version": "13"}
        return plain(426, "this server speaks version 13 of WebSocket", upgrade)
    if not _is_key(request.headers.get("sec-websocket-key", "")):
        return plain(400, "the header sec-websocket-key must be 16 bytes, in base64")
    ws = WSConnection(ConnectionType.SERVER)
    try:
        ws.initiate_upgrade_connection(list(event.headers), event.target)
        asked = next((one for one in ws.events() if isinstance(one, Request)), None)
    except (RemoteProtocolError, UnicodeError) as exc:
        return plain(400, f"this is no proper request for a WebSocket: {exc}", {"sec-websocket-version": "13"})
    return plain(400, "this is no proper request for a WebSocket") if asked is None else (ws, asked)


def _is_key(key: str) -> bool:
    try:
        return len(base64.b64decode(key, validate=True)) == KEY_BYTES
    except binascii.Error:
        return False
