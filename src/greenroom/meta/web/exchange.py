"""One HTTP connection: reads requests, has them answered, and writes the responses."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterable, Callable, Iterable
from contextlib import suppress
from email.utils import formatdate
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import unquote

import h11

from greenroom.errors import (
    ActorTerminated,
    AskTimeout,
    GreenroomError,
    HttpError,
    MailboxFull,
    SystemStopped,
)
from greenroom.meta.streams.alarms import CallAlarm, set_call
from greenroom.meta.web.body import BodyReader
from greenroom.meta.web.headers import Headers
from greenroom.meta.web.messages import HttpRequest, HttpResponse, response_of
from greenroom.meta.web.targets import Asgi, Route, WebSocket

if TYPE_CHECKING:
    from logging import Logger, LoggerAdapter

    from greenroom._core.scheduler.loop import Loop
    from greenroom.meta.web.limits import WebLimits
    from greenroom.meta.web.routes import Found, Routes

__all__ = ["HttpExchange", "WebHost"]


class WebHost(Protocol):
    """The server, as its connections know it."""

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
    ) -> bool:
        """Have an application answer; False when the connection is a WebSocket from now on."""
        ...


class HttpExchange(asyncio.Protocol):
    """The protocol of one HTTP connection. All its methods are for the loop's own thread."""

    def __init__(self, host: WebHost) -> None:
        self._host = host
        self._limits = host.limits
        self.conn = h11.Connection(h11.SERVER, max_incomplete_event_size=host.limits.max_headers)
        self.transport: Any = None
        self.peer: Any = None
        self.scheme = "http"
        self._task: asyncio.Task[None] | None = None
        self._body: BodyReader | None = None
        self._alarm: CallAlarm | None = None
        self._drained: asyncio.Future[None] | None = None
        self._is_paused = False
        self._is_over = False
        # Whether the response that is written has begun.
        self.has_responded = False

    # -- what asyncio calls

    def connection_made(self, transport: Any) -> None:
        """It is up."""
        self.transport = transport
        self.peer = transport.get_extra_info("peername")
        self.scheme = "https" if transport.get_extra_info("sslcontext") is not None else "http"
        if self._host.joined(self):
            self._wait(self._limits.header_timeout, self._give_up_on_headers)
        else:
            self._is_over = True
            transport.write(b"HTTP/1.1 503 Service Unavailable\r\nconnection: close\r\ncontent-length: 0\r\n\r\n")
            transport.close()

    def data_received(self, data: bytes) -> None:
        """Something has come."""
        if self._is_over:
            return
        try:
            self.conn.receive_data(data)
            self._advance()
        except h11.RemoteProtocolError as exc:
            self._refuse(exc)

    def eof_received(self) -> bool:
        """The other side sends no more; what it has asked for is still answered."""
        if self._is_over:
            return False
        try:
            self.conn.receive_data(b"")
            self._advance()
        except h11.RemoteProtocolError as exc:
            self._fail_body(exc)
            return False
        return self._task is not None and self.scheme == "http"

    def connection_lost(self, exc: BaseException | None) -> None:
        """It is over."""
        self._is_over = True
        self._clear_alarm()
        self.resume_writing()
        self._fail_body(ConnectionResetError("the client has closed the connection"))
        if self._task is not None:
            self._task.cancel()
        self._host.left(self)

    def pause_writing(self) -> None:
        """The client does not read."""
        self._drained = asyncio.get_running_loop().create_future()

    def resume_writing(self) -> None:
        """There is room again."""
        drained, self._drained = self._drained, None
        if drained is not None and not drained.done():
            drained.set_result(None)

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
        if self.conn.their_state is h11.IDLE and not self.conn.trailing_data[0]:
            self.close()
        else:
            self._answer_at_once(408, "the request did not come in time")

    def _give_up_on_body(self) -> None:
        self._fail_body(HttpError(408, "the body did not come in time"))

    # -- requests

    def _advance(self) -> None:
        """Take what has come, as far as it goes."""
        while not self._is_over:
            event = self.conn.next_event()
            if event is h11.NEED_DATA:
                self._pause(False)
                return
            if event is h11.PAUSED:
                self._pause(True)
                return
            if isinstance(event, h11.Request):
                self._begin(event)
            elif isinstance(event, h11.Data):
                self._wait(self._limits.body_timeout, self._give_up_on_body)
                if self._body is not None and not self._body.feed(bytes(event.data)):
                    self._pause(True)
                    return
            elif isinstance(event, h11.EndOfMessage):
                self._clear_alarm()
                if self._body is not None:
                    self._body.finish()
            elif isinstance(event, h11.ConnectionClosed):
                if self._task is None:
                    self.close()
                return

    def _pause(self, paused: bool) -> None:
        if paused != self._is_paused and not self._is_over and not self.transport.is_closing():
            self._is_paused = paused
            if paused:
                self.transport.pause_reading()
            else:
                self.transport.resume_reading()

    def _begin(self, event: h11.Request) -> None:
        self._host.asked()
        request = self._request_of(event)
        found = self._host.routes.find(request.method, request.path)
        request.params = found.params
        target = found.target
        self._clear_alarm()
        self.has_responded = False
        limit = self._limits.max_body
        if isinstance(target, Route) and target.max_body is not None:
            limit = target.max_body
        body = self._body = BodyReader(limit, self._read_on)
        length = request.headers.get("content-length", "")
        if length.isdigit() and int(length) > limit:
            body.fail(HttpError(413, f"the body is larger than {limit:,} bytes"))
        self._wait(self._limits.body_timeout, self._give_up_on_body)
        aio = asyncio.get_running_loop()
        self._task = aio.create_task(self._answer(event, request, found, body))
        self._task.add_done_callback(self._answered)

    def _request_of(self, event: h11.Request) -> HttpRequest:
        target = event.target.decode("latin-1")
        if target.startswith(("http://", "https://")):
            target = "/" + target.partition("://")[2].partition("/")[2]
        path, _, query = target.partition("?")
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
        if self.conn.they_are_waiting_for_100_continue and not self._is_over:
            with suppress(h11.LocalProtocolError):
                self.transport.write(self.conn.send(h11.InformationalResponse(status_code=100, headers=[])))
        if self._is_paused:
            self._pause(False)
            with suppress(h11.RemoteProtocolError):
                self._advance()

    def _fail_body(self, error: BaseException) -> None:
        if self._body is not None:
            self._body.fail(error)

    # -- answers

    async def _answer(self, event: h11.Request, request: HttpRequest, found: Found, body: BodyReader) -> None:
        target = found.target
        try:
            if isinstance(target, Asgi):
                request.body = body
                if not await self._host.serve_asgi(self, event, request, found, target):
                    return
            elif isinstance(target, WebSocket):
                response = self._host.upgrade(self, event, request, target)
                if response is None:
                    return
                await self.respond(response, request.method)
            else:
                await self.respond(await self._ask(request, found, body), request.method)
        except (ConnectionError, h11.LocalProtocolError) as exc:
            self._host.log.debug("%s %s was not answered: %s", request.method, request.path, exc)
            self.close(abort=True)
            return
        await self._end_cycle(body)

    async def _ask(self, request: HttpRequest, found: Found, body: BodyReader) -> HttpResponse:
        """What an actor answers, or what is to be said instead."""
        route: Route | None = found.target
        if route is None:
            if found.allowed:
                allowed = ", ".join(one or "*" for one in found.allowed)
                return _plain(405, "this path has other methods", {"allow": allowed})
            return _plain(404, f"there is nothing at {request.path}")
        if not self._host.is_open:
            return _plain(503, "the server is being stopped", {"connection": "close"})
        try:
            request.body = body if route.stream else await body.read()
            timeout = self._limits.request_timeout if route.timeout is None else route.timeout
            return response_of(await route.next_ref().ask(request, timeout=timeout))
        except HttpError as exc:
            return _plain(exc.status, exc.text or _phrase(exc.status))
        except AskTimeout as exc:
            self._host.log.warning("%s %s: %s", request.method, request.path, exc)
            return _plain(504, "the answer did not come in time")
        except (MailboxFull, ActorTerminated, SystemStopped) as exc:
            self._host.log.warning("%s %s: %s", request.method, request.path, exc)
            return _plain(503, "too busy, or not there: try again later", {"retry-after": "1"})
        except (ConnectionError, asyncio.CancelledError):
            raise
        except Exception as exc:
            kind = "" if isinstance(exc, GreenroomError) else f"{type(exc).__name__}: "
            self._host.log.error("%s %s failed: %s%s", request.method, request.path, kind, exc)
            return _plain(500, "the answer could not be made")

    async def respond(self, response: HttpResponse, method: str = "GET") -> None:
        """Write a response."""
        body: Any = response.body
        pairs = response.header_pairs()
        if isinstance(body, str):
            body = body.encode()
        whole = body is None or isinstance(body, bytes | bytearray | memoryview)
        names = {name.lower() for name, _ in pairs}
        if whole and "content-length" not in names and response.status not in (204, 304) and response.status >= 200:
            pairs.append(("content-length", str(len(body or b""))))
        await self.send_head(response.status, pairs)
        if method != "HEAD" and response.status not in (204, 304):
            if whole:
                if body:
                    await self.send_body(bytes(body))
            else:
                await self._send_pieces(response.body)
        await self.send_end()

    async def _send_pieces(self, body: AsyncIterable[Any] | Iterable[Any]) -> None:
        try:
            if isinstance(body, AsyncIterable):
                async for piece in body:
                    await self.send_body(piece.encode() if isinstance(piece, str) else bytes(piece))
            else:
                for piece in body:
                    await self.send_body(piece.encode() if isinstance(piece, str) else bytes(piece))
        except (ConnectionError, h11.LocalProtocolError, asyncio.CancelledError):
            raise
        except Exception as exc:
            # The client has part of it: that it is not all shows by the end of the connection.
            self._host.log.exception("a response broke off")
            raise ConnectionAbortedError("the response broke off") from exc

    async def send_head(self, status: int, pairs: list[tuple[str, str]]) -> None:
        """Begin a response."""
        names = {name.lower() for name, _ in pairs}
        if "date" not in names:
            pairs = [("date", _date()), *pairs]
        if not self._host.is_open and "connection" not in names:
            pairs = [*pairs, ("connection", "close")]
        self.has_responded = True
        headers = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in pairs]
        head = h11.Response(status_code=status, headers=headers, reason=_phrase(status).encode())
        await self._write(self.conn.send(head))

    async def send_body(self, piece: bytes) -> None:
        """A piece of its body."""
        if piece:
            await self._write(self.conn.send(h11.Data(data=piece)))

    async def send_end(self) -> None:
        """That was all of it."""
        await self._write(self.conn.send(h11.EndOfMessage()))

    async def _write(self, data: bytes | None) -> None:
        if self._is_over or self.transport.is_closing():
            raise ConnectionResetError("the client has closed the connection")
        if data:
            self.transport.write(data)
        if self._drained is not None:
            self._wait(self._limits.write_timeout, lambda: self.close(abort=True))
            await self._drained
            self._clear_alarm()

    async def _end_cycle(self, body: BodyReader) -> None:
        """The response is written: take the next request, or close."""
        if self._is_over:
            return
        if self.conn.their_state is h11.SEND_BODY and not body.is_too_large:
            # What nobody has read is read now, if it is little; else there is no telling where the next one begins.
            with suppress(HttpError, ConnectionError, TimeoutError):
                async with asyncio.timeout(1.0):
                    await body.read()
        self._body = None
        if self.conn.our_state is not h11.DONE or self.conn.their_state is not h11.DONE or not self._host.is_open:
            self.close()
            return
        self.conn.start_next_cycle()

    def _answered(self, task: asyncio.Task[None]) -> None:
        self._task = None
        if task.cancelled() or self._is_over:
            return
        error = task.exception()
        if error is not None:
            self._host.log.error("a connection from %s broke: %r", self.peer, error)
            self.close(abort=True)
        elif self.conn.our_state is h11.IDLE:
            self._wait(self._limits.keep_alive, self._give_up_on_headers)
            try:
                self._advance()
            except h11.RemoteProtocolError as exc:
                self._refuse(exc)

    def _refuse(self, error: h11.RemoteProtocolError) -> None:
        """What came is no HTTP."""
        if self._task is not None:
            self._fail_body(HttpError(400, str(error)))
            self._is_paused = True
            self.transport.pause_reading()
            return
        self._answer_at_once(error.error_status_hint, str(error))

    def _answer_at_once(self, status: int, text: str) -> None:
        """Say what is wrong, and close."""
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            body = f"{text}\n".encode()
            headers = [
                (b"date", _date().encode()),
                (b"content-type", b"text/plain; charset=utf-8"),
                (b"content-length", str(len(body)).encode()),
                (b"connection", b"close"),
            ]
            with suppress(h11.LocalProtocolError):
                head = h11.Response(status_code=status, headers=headers, reason=_phrase(status).encode())
                events = (head, h11.Data(data=body), h11.EndOfMessage())
                self.transport.write(b"".join(self.conn.send(event) or b"" for event in events))
        self.close()

    # -- the end

    def detach(self) -> bytes:
        """It is a WebSocket from now on: what has come for that already."""
        self._is_over = True
        self._clear_alarm()
        if self._is_paused:
            self.transport.resume_reading()
        return bytes(self.conn.trailing_data[0])

    def forget(self) -> None:
        """It is somebody else's now: the server has one connection less, but its task goes on."""
        self._host.left(self)

    def close(self, *, abort: bool = False) -> None:
        """Close it, when all is written."""
        self._clear_alarm()
        self._is_over = True
        if self.transport is None:
            return
        if abort:
            self.transport.abort()
        elif not self.transport.is_closing():
            self._alarm = set_call(self._host.loop, self._limits.linger, self.transport.abort)
            self.transport.close()

    @property
    def is_busy(self) -> bool:
        """Whether a request is being answered."""
        return self._task is not None


def _plain(status: int, text: str, headers: dict[str, str] | None = None) -> HttpResponse:
    shown = {"content-type": "text/plain; charset=utf-8", **(headers or {})}
    return HttpResponse(f"{text}\n".encode(), status, shown)


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return ""


_last_date = (0, "")


def _date() -> str:
    """The time of day, as HTTP has it; it changes once a second."""
    global _last_date
    now = int(time.time())
    if _last_date[0] != now:
        _last_date = (now, formatdate(now, usegmt=True))
    return _last_date[1]
