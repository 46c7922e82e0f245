"""HTTP connections. Each reads requests, and has them answered one after the other."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, Callable, Iterable
from contextlib import aclosing, nullcontext, suppress
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import h11

from greenroom.errors import (
    ActorTerminated,
    AskTimeout,
    BadArgument,
    GreenroomError,
    HttpError,
    MailboxFull,
    SystemStopped,
)
from greenroom.meta.sockets.wire import close_when_read, has_unread
from greenroom.meta.web.messages import (
    Headers,
    HttpRequest,
    HttpResponse,
    as_bytes,
    date,
    head_of,
    plain,
    ready,
    response_for,
    response_of,
)
from greenroom.meta.web.routes import Asgi, Route, WebSocket

if TYPE_CHECKING:
    from greenroom._core.timing.timers import ScheduledCall
    from greenroom.meta.web.routes import Found
    from greenroom.meta.web.server import WebServer
    from greenroom.meta.web.websocket import WebSocketWire

FULL = b"HTTP/1.1 503 Service Unavailable\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
AT_ONCE = 256
"""Parts of requests that are taken in one turn of the loop."""
DRAIN = 1.0
"""Seconds in which the rest of an unread body is thrown away, so that the connection can be used again."""
HIGH_WATER = 1 << 18
"""Bytes of a body that wait for its reader, from which on nothing more is read."""
IN_ONE = 65_536
"""Bytes of a body that are written together with the headers."""


class BodyReader:
    """Pieces of bytes, to iterate over once: `async for piece in request.body`. On the system's own thread."""

    __slots__ = ("_buffer", "_changed", "_limit", "_on_read", "_total", "ended", "error")

    def __init__(self, limit: int, on_read: Callable[[], object]) -> None:
        self._limit = limit
        # Called when there is room for more.
        self._on_read = on_read
        # One buffer, and not the pieces as they come: each of many small ones would take far more than it holds.
        self._buffer = bytearray()
        self._total = 0
        self._changed = asyncio.Event()
        # Why the rest of the body does not come, if it does not.
        self.error: BaseException | None = None
        self.ended = False

    def feed(self, piece: bytes | bytearray) -> bool:
        self._total += len(piece)
        if self._total > self._limit:
            self.refuse_as_too_large()
            return False
        self._buffer += piece
        self._changed.set()
        return len(self._buffer) <= HIGH_WATER

    def refuse_as_too_large(self) -> None:
        self.fail(HttpError(413, f"the body is larger than {self._limit:,} bytes"))

    def finish(self) -> None:
        self.ended = True
        self._changed.set()

    def fail(self, error: BaseException) -> None:
        if self.error is None and not self.ended:
            self.error = error
        self._changed.set()

    def detach(self) -> None:
        """Forget the connection: an answered request may be kept, as dead letters do."""
        self._on_read = lambda: None
        if self.error is not None:
            self.error.__traceback__ = None  # where it was raised is the connection's code too

    def __aiter__(self) -> BodyReader:
        return self

    async def __anext__(self) -> bytes:
        while not self._buffer:
            if self.error is not None:
                raise self.error
            if self.ended:
                raise StopAsyncIteration
            self._changed.clear()
            self._on_read()
            await self._changed.wait()
        piece = bytes(self._buffer)
        self._buffer.clear()
        self._on_read()
        return piece

    async def read(self) -> bytes:
        return b"".join([piece async for piece in self])


class HttpExchange(asyncio.Protocol):
    """The protocol of one HTTP connection. All its methods are for the loop's own thread."""

    def __init__(self, server: WebServer) -> None:
        self._server = server
        self._limits = server.limits
        self._conn = h11.Connection(h11.SERVER, max_incomplete_event_size=server.limits.max_headers)
        self.transport: Any = None
        self.peer: Any = None
        self.scheme = "http"
        # Answers the request in hand; None between two of them.
        self._task: asyncio.Task[None] | None = None
        self._body: BodyReader | None = None
        # Ends the wait for what the client has to send, or read.
        self._alarm: ScheduledCall | None = None
        # Whether nothing of the next request has come: it may take its time.
        self._is_resting = False
        self._is_paused = False
        # The client sends no more.
        self._has_ended = False
        # Nothing is read any more: the connection is being closed, or has become a WebSocket.
        self._is_over = False
        self._is_leaving = False
        # Nothing can be written any more.
        self._is_lost = False
        # Done when there is room in the transport's buffer again; None while there is.
        self._drained: asyncio.Future[None] | None = None
        # Whether something of the response in hand is written; and the number of writes.
        self.has_begun = False
        self._writes = 0
        # There is more than could be taken in one turn.
        self._is_going_on = False

    # -- what asyncio calls

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        self.peer = transport.get_extra_info("peername")
        self.scheme = "https" if transport.get_extra_info("sslcontext") is not None else "http"
        if self._server.add_exchange(self):
            self._set_alarm(self._limits.header_timeout, self._give_up_on_headers)
        else:
            self._is_over = True
            transport.write(FULL)
            transport.close()

    def data_received(self, data: bytes) -> None:
        if self._is_over:
            return
        if self._is_resting:
            self._is_resting = False
            self._set_alarm(self._limits.header_timeout, self._give_up_on_headers)
        self._conn.receive_data(data)
        self._advance()

    def eof_received(self) -> bool:
        """The other side sends no more; what it has asked for is still answered."""
        self._has_ended = True
        if self._is_over:
            return False
        self._conn.receive_data(b"")
        self._advance()
        is_kept = self._task is not None and self.scheme == "http" and not self._is_over
        if is_kept:
            self._listen_for_silence()
        return is_kept

    def connection_lost(self, exc: BaseException | None) -> None:
        self._is_over = self._is_lost = True
        self._set_alarm(None)
        self.resume_writing()
        self._fail_body(ConnectionResetError("the client has closed the connection"))
        self.cancel()
        self._server.remove_exchange(self)

    def pause_writing(self) -> None:
        self._drained = asyncio.get_running_loop().create_future()

    def resume_writing(self) -> None:
        drained, self._drained = self._drained, None
        if drained is not None and not drained.done():
            drained.set_result(None)

    # -- time

    def _set_alarm(self, seconds: float | None, call: Callable[[], object] = object) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
        self._alarm = None if seconds is None else self._server._loop.call_later(seconds, call)

    def _give_up_on_headers(self) -> None:
        if self._conn.their_state is h11.IDLE and not self._conn.trailing_data[0]:
            self.close()
        else:
            self._refuse(408, "the request did not come in time")

    def _wait_for_body(self) -> None:
        self._set_alarm(self._limits.body_timeout, self._give_up_on_body)

    def _give_up_on_body(self) -> None:
        self._fail_body(HttpError(408, "the body did not come in time"))

    def _listen_for_silence(self, writes_before: int = -1) -> None:
        # Only a write shows whether a client that has closed its side still reads. So the response must go on.
        if self.has_begun and self._writes == writes_before:
            self.close(abort=True)
        else:
            self._set_alarm(self._limits.write_timeout, partial(self._listen_for_silence, self._writes))

    # -- requests

    def _advance(self) -> None:
        try:
            for _ in range(AT_ONCE):
                if self._is_over or not self._take(self._conn.next_event()):
                    return
        except h11.RemoteProtocolError as exc:
            self._take_bad_request(exc)
            return
        # There is more, tiny chunks say: other connections have their turn first.
        self._pause(True)
        if not self._is_going_on:
            self._is_going_on = True
            asyncio.get_running_loop().call_soon(self._go_on)

    def _go_on(self) -> None:
        self._is_going_on = False
        if not self._is_over:
            self._advance()

    def _take(self, event: Any) -> bool:
        """Take one event. Returns False when there are no more for now."""
        if event is h11.NEED_DATA:
            self._pause(False)
            if self._conn.their_state is h11.SEND_BODY and not self._conn.they_are_waiting_for_100_continue:
                self._wait_for_body()
            return False
        if event is h11.PAUSED:
            # The next request waits. Only reading shows whether the client is still there.
            self._pause(len(self._conn.trailing_data[0]) > self._limits.max_headers)
            return False
        if isinstance(event, h11.Request):
            self._begin(event)
        elif isinstance(event, h11.Data):
            if self._body is not None and not self._body.feed(event.data):
                # Until the body is read on, the client is not late.
                self._set_alarm(None)
                self._pause(True)
                return False
        elif isinstance(event, h11.EndOfMessage):
            self._set_alarm(None)
            if self._body is not None:
                self._body.finish()
        elif isinstance(event, h11.ConnectionClosed):
            if self._task is None:
                self.close()
            return False
        return True

    def _take_bad_request(self, error: h11.RemoteProtocolError) -> None:
        """Answer what is no HTTP, or will not be completed."""
        self._set_alarm(None)
        if self._has_ended:
            self._fail_body(ConnectionResetError("the client closed the connection within a request"))
            self.close()
        elif self._task is None:
            self._refuse(error.error_status_hint, str(error))
        else:
            self._fail_body(HttpError(error.error_status_hint, str(error)))
            self._pause(True)

    def _pause(self, paused: bool) -> None:
        if paused != self._is_paused and not self._is_over and not self.transport.is_closing():
            self._is_paused = paused
            if paused:
                self.transport.pause_reading()
            else:
                self.transport.resume_reading()

    def _begin(self, event: h11.Request) -> None:
        self._server.count_request()
        self._set_alarm(None)
        # h11 looks at the size of what is incomplete only.
        lines = sum(len(name) + len(value) + 4 for name, value in event.headers)
        if lines + len(event.method) + len(event.target) + 12 > self._limits.max_headers:
            self._refuse(431, f"the headers are larger than {self._limits.max_headers:,} bytes", event.method)
            return
        if not event.http_version.startswith(b"1."):
            self._refuse(505, "this server speaks HTTP/1.1", event.method)
            return
        if event.method == b"CONNECT":
            self._refuse(501, "this server is no proxy", event.method)
            return
        request = self._request_of(event)
        found = self._server.routes.find(request.method, request.path)
        request.params = found.params
        limit = self._limits.max_body
        if isinstance(found.target, Route) and found.target.max_body is not None:
            limit = found.target.max_body
        body = self._body = BodyReader(limit, self._read_on)
        length = request.headers.get("content-length", "")
        if length.isdigit() and int(length) > limit:
            body.refuse_as_too_large()
        self.has_begun = False
        self._task = asyncio.get_running_loop().create_task(self._answer(event, request, found, body))
        self._task.add_done_callback(self._answered)
        if self._has_ended:
            self._listen_for_silence()

    def _request_of(self, event: h11.Request) -> HttpRequest:
        path, _, query = target_of(event).partition("?")
        headers = Headers((name.decode("latin-1"), value.decode("latin-1")) for name, value in event.headers)
        return HttpRequest(
            event.method.decode("ascii"),
            unquote(path),
            headers,
            query_string=query,
            peer=self.peer,
            scheme=self.scheme,
        )

    def _read_on(self) -> None:
        if self._is_over:
            return
        if self._conn.they_are_waiting_for_100_continue:
            with suppress(h11.LocalProtocolError):
                self.transport.write(self._conn.send(h11.InformationalResponse(status_code=100, headers=[])))
            self._wait_for_body()
        if self._is_paused and not self._is_going_on and self._conn.their_state is h11.SEND_BODY:
            self._advance()

    def _fail_body(self, error: BaseException) -> None:
        if self._body is not None:
            self._body.fail(error)

    # -- answers

    async def _answer(self, event: h11.Request, request: HttpRequest, found: Found, body: BodyReader) -> None:
        target = found.target
        server = self._server
        try:
            response: HttpResponse | None
            if isinstance(target, Asgi):
                request.body = body
                response = await server.applications.serve(self, event, request, found, target)
            elif isinstance(target, WebSocket):
                response = server.upgrade(self, event, request, target)
            else:
                response = await self._ask(request, found, body)
            if response is not None:
                await self._respond(response, request)
        except ConnectionError as exc:
            server.log.debug("%s %s was not answered: %s", request.method, request.path, exc)
            self.close(abort=True)
        except h11.LocalProtocolError as exc:
            server.log.error("the response to %s %s broke off: %s", request.method, request.path, exc)
            self.close(abort=True)
        else:
            await self._drain(body)

    async def _ask(self, request: HttpRequest, found: Found, body: BodyReader) -> HttpResponse:
        """Ask the actor of a route, if there is one. `ConnectionError` if the client has gone."""
        server = self._server
        route: Route | None = found.target
        if route is None:
            if found.allowed:
                allowed = ", ".join(one or "*" for one in found.allowed)
                return plain(405, "this path has other methods", {"allow": allowed})
            return plain(404, f"there is nothing at {request.path}")
        if not server.is_open:
            return plain(503, "the server is being stopped", {"connection": "close"})
        try:
            request.body = body if route.stream else await body.read()
            timeout = server.limits.request_timeout if route.timeout is None else route.timeout
            return response_of(await route.next_ref().ask(request, timeout=timeout))
        except HttpError as exc:
            return response_for(exc)
        except AskTimeout as exc:
            server.log.warning("%s %s: %s", request.method, request.path, exc)
            return plain(504, "the answer did not come in time")
        except (MailboxFull, ActorTerminated, SystemStopped) as exc:
            server.log.warning("%s %s: %s", request.method, request.path, exc)
            return plain(503, "too busy, or not there: try again later", {"retry-after": "1"})
        except (ConnectionError, asyncio.CancelledError):
            raise
        except Exception as exc:
            kind = "" if isinstance(exc, GreenroomError) else f"{type(exc).__name__}: "
            server.log.error("%s %s failed: %s%s", request.method, request.path, kind, exc)
            return plain(500, "the answer could not be made")

    async def _respond(self, response: HttpResponse, request: HttpRequest) -> None:
        try:
            await self.respond(response, request.method)
        except BadArgument as exc:
            self._server.log.error("the response to %s %s cannot be written: %s", request.method, request.path, exc)
            await self.respond(plain(500, "the answer could not be written"), request.method)

    async def _drain(self, body: BodyReader) -> None:
        """Read the rest of a body if it comes soon: the next request begins after it."""
        if self._is_over or self._conn.their_state is not h11.SEND_BODY or body.error is not None:
            return
        alarm = self._server._loop.call_later(DRAIN, lambda: body.fail(TimeoutError()))
        with suppress(HttpError, ConnectionError, TimeoutError):
            async for _ in body:
                pass
        alarm.cancel()

    def _answered(self, task: asyncio.Task[None]) -> None:
        if self._body is not None:
            self._body.detach()
        self._task = self._body = None
        if task.cancelled() or self._is_over:
            return
        error = task.exception()
        if error is not None:
            self._server.log.error("a connection from %s broke: %r", self.peer, error)
            self.close(abort=True)
            return
        conn = self._conn
        if conn.our_state is not h11.DONE or conn.their_state is not h11.DONE or not self._server.is_open:
            self.close()
            return
        conn.start_next_cycle()
        self._is_resting = not conn.trailing_data[0]
        limits = self._limits
        self._set_alarm(limits.keep_alive if self._is_resting else limits.header_timeout, self._give_up_on_headers)
        self._advance()

    def _refuse(self, status: int, text: str, method: bytes = b"") -> None:
        if self._conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            pairs, body = ready(plain(status, text, {"date": date(), "connection": "close"}), "")
            with suppress(h11.LocalProtocolError):
                self.transport.write(self._whole(head_of(status, pairs), b"" if method == b"HEAD" else body))
        self.close()

    # -- writing, no faster than the client reads

    async def respond(self, response: HttpResponse, method: str) -> None:
        """Write a response. `BadArgument` if it cannot be written, and then nothing of it is."""
        pairs, body = ready(response, method)
        if isinstance(body, bytes) and len(body) <= IN_ONE:
            await self._write(self._whole(self._head(response.status, pairs), b"" if method == "HEAD" else body))
            return
        await self.send_head(response.status, pairs)
        if method != "HEAD":
            await self._send_pieces((body,) if isinstance(body, bytes) else body)
        await self.send_end()

    def _whole(self, head: h11.Response, body: bytes) -> bytes:
        events = (head, h11.Data(data=body), h11.EndOfMessage())
        return b"".join(self._conn.send(event) or b"" for event in events)

    async def _send_pieces(self, body: Any) -> None:
        try:
            # Tells a generator that the rest is not wanted.
            async with aclosing(body) if hasattr(body, "aclose") else nullcontext():
                await self._send_each(body)
        except (ConnectionError, h11.LocalProtocolError, asyncio.CancelledError):
            raise
        except Exception as exc:
            # The client has part of it. The end of the connection says that it is not all.
            self._server.log.exception("a response broke off")
            raise ConnectionAbortedError("the response broke off") from exc

    async def _send_each(self, body: AsyncIterable[Any] | Iterable[Any]) -> None:
        if isinstance(body, AsyncIterable):
            async for piece in body:
                await self.send_body(as_bytes(piece))
        else:
            for piece in body:
                await self.send_body(as_bytes(piece))
                await asyncio.sleep(0)  # else an endless body would keep the loop for itself

    async def send_head(self, status: int, pairs: Iterable[tuple[str, str]]) -> None:
        await self._write(self._conn.send(self._head(status, pairs)))

    def _head(self, status: int, pairs: Iterable[tuple[str, str]]) -> h11.Response:
        pairs = list(pairs)
        names = {name.lower() for name, _ in pairs}
        if "date" not in names:
            pairs = [("date", date()), *pairs]
        if not self._server.is_open and "connection" not in names:
            pairs = [*pairs, ("connection", "close")]
        head = head_of(status, pairs)
        self.has_begun = True
        return head

    async def send_body(self, piece: bytes) -> None:
        if piece:
            await self._write(self._conn.send(h11.Data(data=piece)))

    async def send_end(self) -> None:
        await self._write(self._conn.send(h11.EndOfMessage()))

    async def _write(self, data: bytes | None) -> None:
        if self._is_lost or self.transport.is_closing():
            raise ConnectionResetError("the client has closed the connection")
        self._writes += 1
        if data:
            self.transport.write(data)
        if self._drained is not None:
            timeout, alarm = self._limits.write_timeout, None
            if timeout is not None:
                alarm = self._server._loop.call_later(timeout, partial(self.close, abort=True))
            try:
                await self._drained
            finally:
                if alarm is not None:
                    alarm.cancel()

    # -- the end

    def upgrade(self, wire: WebSocketWire, head: bytes) -> None:
        """Turn the connection into a WebSocket, whose first bytes are `head`."""
        self._is_over = True
        self._set_alarm(None)
        if self._is_paused:
            self.transport.resume_reading()
        self._server.remove_exchange(self)
        early = bytes(self._conn.trailing_data[0])
        self.transport.write(head)
        self.transport.set_protocol(wire)
        wire.connection_made(self.transport)
        if early and not wire.lost:
            wire.data_received(early)

    def cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()

    def close(self, *, abort: bool = False) -> None:
        self._set_alarm(None)
        self._is_over = True
        if self.transport is None:
            return
        if abort:
            self.transport.abort()
            return
        self._alarm = self._server._loop.call_later(self._limits.linger, self.transport.abort)
        if self._is_leaving or self.transport.is_closing():
            return
        self._is_leaving = True
        expects_more = self._conn.their_state in (h11.SEND_BODY, h11.ERROR) or has_unread(self.transport)
        if self._has_ended or not expects_more:
            self.transport.close()
        elif self.transport.can_write_eof():
            close_when_read(self.transport)
        else:  # TLS cannot end one direction only, but the response has said that it is the last one
            self.transport.resume_reading()

    @property
    def is_busy(self) -> bool:
        return self._task is not None


def target_of(event: h11.Request) -> str:
    """The path and the query of a request, also if it has the whole address, as for a proxy."""
    target = event.target.decode("latin-1")
    if target.startswith(("http://", "https://")):
        rest = target.partition("://")[2]
        authority, slash, path = rest.partition("/")
        query = authority.partition("?")[2]
        return f"/{path}" if slash else f"/?{query}" if query else "/"
    return target
