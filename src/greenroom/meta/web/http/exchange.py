"""One HTTP connection: reads requests, and has them answered one after the other."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import h11

from greenroom.errors import BadArgument, HttpError
from greenroom.meta.streams.alarms import CallAlarm, set_call
from greenroom.meta.streams.unread import end_writing, has_unread
from greenroom.meta.web.headers import Headers
from greenroom.meta.web.http.asking import ask
from greenroom.meta.web.http.body import BodyReader
from greenroom.meta.web.http.responses import date, head_of, plain, ready
from greenroom.meta.web.http.writer import ResponseWriter
from greenroom.meta.web.messages import HttpRequest, HttpResponse
from greenroom.meta.web.targets import Asgi, Route, WebSocket

if TYPE_CHECKING:
    from greenroom.meta.web.http.host import WebHost
    from greenroom.meta.web.routes import Found

__all__ = ["HttpExchange", "target_of"]

FULL = b"HTTP/1.1 503 Service Unavailable\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
AT_ONCE = 256
"""Parts of requests that are taken in one turn of the loop."""
DRAIN = 1.0
"""Seconds in which the rest of a body that nobody has read is thrown away, so that the connection is of further use."""


class HttpExchange(asyncio.Protocol):
    """The protocol of one HTTP connection. All its methods are for the loop's own thread."""

    def __init__(self, host: WebHost) -> None:
        self._host = host
        self._limits = host.limits
        self._conn = h11.Connection(h11.SERVER, max_incomplete_event_size=host.limits.max_headers)
        self.writer = ResponseWriter(host, self._conn, lambda: self.close(abort=True))
        self.transport: Any = None
        self.peer: Any = None
        self.scheme = "http"
        # What has the request in hand answered; None between two of them.
        self._task: asyncio.Task[None] | None = None
        self._body: BodyReader | None = None
        # Rings when what is waited for has not come.
        self._alarm: CallAlarm | None = None
        # Whether the next request may take its time: nothing of it has come.
        self._is_resting = False
        self._is_paused = False
        # Whether the client sends no more.
        self._has_ended = False
        # Whether nothing is read any more: it is being closed, or somebody else's.
        self._is_over = False
        self._is_leaving = False
        # Whether there is more than could be taken in one turn.
        self._is_going_on = False

    # -- what asyncio calls

    def connection_made(self, transport: Any) -> None:
        """It is up."""
        self.transport = self.writer.transport = transport
        self.peer = transport.get_extra_info("peername")
        self.scheme = "https" if transport.get_extra_info("sslcontext") is not None else "http"
        if self._host.joined(self):
            self._wait(self._limits.header_timeout, self._give_up_on_headers)
        else:
            self._is_over = True
            transport.write(FULL)
            transport.close()

    def data_received(self, data: bytes) -> None:
        """Something has come."""
        if self._is_over:
            return
        if self._is_resting:
            self._is_resting = False
            self._wait(self._limits.header_timeout, self._give_up_on_headers)
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
        """It is over."""
        self._is_over = self.writer.is_over = True
        self._clear_alarm()
        self.writer.resume()
        self._fail_body(ConnectionResetError("the client has closed the connection"))
        self.cancel()
        self._host.left(self)

    def pause_writing(self) -> None:
        """The client does not read."""
        self.writer.pause()

    def resume_writing(self) -> None:
        """There is room again."""
        self.writer.resume()

    # -- time

    def _wait(self, seconds: float | None, then: Callable[[], object]) -> None:
        self._clear_alarm()
        if seconds is not None:
            self._alarm = set_call(self._host.loop, seconds, then)

    def _clear_alarm(self) -> None:
        if self._alarm is not None:
            self._alarm.disarm(self._host.loop.timers)
            self._alarm = None

    def _give_up_on_headers(self) -> None:
        """Nothing has come, or too little: a client that waits gets to know why."""
        if self._conn.their_state is h11.IDLE and not self._conn.trailing_data[0]:
            self.close()
        else:
            self._refuse(408, "the request did not come in time")

    def _give_up_on_body(self) -> None:
        self._fail_body(HttpError(408, "the body did not come in time"))

    def _listen_for_silence(self) -> None:
        """Whether a client that sends no more still reads shows only when something is written: so that must go on."""
        writes = self.writer.writes
        self._wait(self._limits.write_timeout, lambda: self._give_up_on_silence(writes))

    def _give_up_on_silence(self, writes: int) -> None:
        if self.writer.has_begun and self.writer.writes == writes:
            self.close(abort=True)
        else:
            self._listen_for_silence()

    # -- requests

    def _advance(self) -> None:
        """Take what has come, as far as it goes."""
        try:
            for _ in range(AT_ONCE):
                if self._is_over or not self._take(self._conn.next_event()):
                    return
        except h11.RemoteProtocolError as exc:
            self._take_nonsense(exc)
            return
        # Tiny chunks, say: the others have their turn first.
        self._pause(True)
        if not self._is_going_on:
            self._is_going_on = True
            asyncio.get_running_loop().call_soon(self._go_on)

    def _go_on(self) -> None:
        self._is_going_on = False
        if not self._is_over:
            self._advance()

    def _take(self, event: Any) -> bool:
        """Take one event; False when there are no more for now."""
        if event is h11.NEED_DATA:
            self._pause(False)
            if self._conn.their_state is h11.SEND_BODY and not self._conn.they_are_waiting_for_100_continue:
                self._wait(self._limits.body_timeout, self._give_up_on_body)
            return False
        if event is h11.PAUSED:
            # The next request waits. Only reading shows whether the client is still there.
            self._pause(len(self._conn.trailing_data[0]) > self._limits.max_headers)
            return False
        if isinstance(event, h11.Request):
            self._begin(event)
        elif isinstance(event, h11.Data):
            if self._body is not None and not self._body.feed(bytes(event.data)):
                # Until it is read on, it is not the client who is late.
                self._clear_alarm()
                self._pause(True)
                return False
        elif isinstance(event, h11.EndOfMessage):
            self._clear_alarm()
            if self._body is not None:
                self._body.finish()
        elif isinstance(event, h11.ConnectionClosed):
            if self._task is None:
                self.close()
            return False
        return True

    def _take_nonsense(self, error: h11.RemoteProtocolError) -> None:
        """What came is no HTTP, or not all of it will come."""
        self._clear_alarm()
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
        self._host.asked()
        self._clear_alarm()
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
        found = self._host.routes.find(request.method, request.path)
        request.params = found.params
        limit = self._limits.max_body
        if isinstance(found.target, Route) and found.target.max_body is not None:
            limit = found.target.max_body
        body = self._body = BodyReader(limit, self._read_on)
        length = request.headers.get("content-length", "")
        if length.isdigit() and int(length) > limit:
            body.refuse_as_too_large()
        self.writer.has_begun = False
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
        """More of the body is wanted."""
        if self._is_over:
            return
        if self._conn.they_are_waiting_for_100_continue:
            with suppress(h11.LocalProtocolError):
                self.transport.write(self._conn.send(h11.InformationalResponse(status_code=100, headers=[])))
            self._wait(self._limits.body_timeout, self._give_up_on_body)
        if self._is_paused and not self._is_going_on and self._conn.their_state is h11.SEND_BODY:
            self._advance()

    def _fail_body(self, error: BaseException) -> None:
        if self._body is not None:
            self._body.fail(error)

    # -- answers

    async def _answer(self, event: h11.Request, request: HttpRequest, found: Found, body: BodyReader) -> None:
        target = found.target
        try:
            response: HttpResponse | None
            if isinstance(target, Asgi):
                request.body = body
                response = await self._host.serve_asgi(self, event, request, found, target)
            elif isinstance(target, WebSocket):
                response = self._host.upgrade(self, event, request, target)
            else:
                response = await ask(self._host, request, found, body)
            if response is not None:
                await self._respond(response, request)
        except ConnectionError as exc:
            self._host.log.debug("%s %s was not answered: %s", request.method, request.path, exc)
            self.close(abort=True)
        except h11.LocalProtocolError as exc:
            self._host.log.error("the response to %s %s broke off: %s", request.method, request.path, exc)
            self.close(abort=True)
        else:
            await self._drain(body)

    async def _respond(self, response: HttpResponse, request: HttpRequest) -> None:
        try:
            await self.writer.respond(response, request.method)
        except BadArgument as exc:
            self._host.log.error("the response to %s %s cannot be written: %s", request.method, request.path, exc)
            await self.writer.respond(plain(500, "the answer could not be written"), request.method)

    async def _drain(self, body: BodyReader) -> None:
        """Read what nobody has read, if it comes at once; else there is no telling where the next request begins."""
        if self._is_over or self._conn.their_state is not h11.SEND_BODY or body.error is not None:
            return
        alarm = set_call(self._host.loop, DRAIN, lambda: body.fail(TimeoutError()))
        with suppress(HttpError, ConnectionError, TimeoutError):
            async for _ in body:
                pass
        alarm.disarm(self._host.loop.timers)

    def _answered(self, task: asyncio.Task[None]) -> None:
        """Take the next request, or close."""
        if self._body is not None:
            self._body.let_go()
        self._task = self._body = None
        if task.cancelled() or self._is_over:
            return
        error = task.exception()
        if error is not None:
            self._host.log.error("a connection from %s broke: %r", self.peer, error)
            self.close(abort=True)
            return
        conn = self._conn
        if conn.our_state is not h11.DONE or conn.their_state is not h11.DONE or not self._host.is_open:
            self.close()
            return
        conn.start_next_cycle()
        self._is_resting = not conn.trailing_data[0]
        limits = self._limits
        self._wait(limits.keep_alive if self._is_resting else limits.header_timeout, self._give_up_on_headers)
        self._advance()

    def _refuse(self, status: int, text: str, method: bytes = b"") -> None:
        """Say what is wrong, and close."""
        if self._conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            pairs, body = ready(plain(status, text, {"date": date(), "connection": "close"}), "")
            said = b"" if method == b"HEAD" else body
            events = (head_of(status, pairs), h11.Data(data=said), h11.EndOfMessage())
            with suppress(h11.LocalProtocolError):
                self.transport.write(b"".join(self._conn.send(event) or b"" for event in events))
        self.close()

    # -- the end

    def detach(self) -> bytes:
        """It is a WebSocket from now on: what has come for that already."""
        self._is_over = True
        self._clear_alarm()
        if self._is_paused:
            self.transport.resume_reading()
        self._host.left(self)
        return bytes(self._conn.trailing_data[0])

    def cancel(self) -> None:
        """Nobody wants an answer any more."""
        if self._task is not None:
            self._task.cancel()

    def close(self, *, abort: bool = False) -> None:
        """Close it, when all is written."""
        self._clear_alarm()
        self._is_over = True
        if self.transport is None:
            return
        if abort:
            self.transport.abort()
            return
        self._alarm = set_call(self._host.loop, self._limits.linger, self.transport.abort)
        if self._is_leaving or self.transport.is_closing():
            return
        self._is_leaving = True
        if self._has_ended or not self._may_have_more():
            self.transport.close()
            return
        # Closing now would have the system reset the connection, and the client lose what it has not read. So it sees
        # the end of the stream, and what it sends is thrown away until it closes too. TLS has no such end: there the
        # response has said that it is the last one.
        if self.transport.can_write_eof():
            end_writing(self.transport)
        self.transport.resume_reading()

    def _may_have_more(self) -> bool:
        """Whether the client may have sent something that was not read."""
        return self._conn.their_state in (h11.SEND_BODY, h11.ERROR) or has_unread(self.transport)

    @property
    def is_busy(self) -> bool:
        """Whether a request is being answered."""
        return self._task is not None


def target_of(event: h11.Request) -> str:
    """The path and the query that are asked for, as they came; also if the whole address did, as for a proxy."""
    target = event.target.decode("latin-1")
    if target.startswith(("http://", "https://")):
        rest = target.partition("://")[2]
        authority, slash, path = rest.partition("/")
        query = authority.partition("?")[2]
        return f"/{path}" if slash else f"/?{query}" if query else "/"
    return target
