"""ASGI applications behind a server: they start and stop with it, and answer its requests."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable, MutableMapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from wsproto.events import AcceptConnection

from greenroom.errors import HttpError
from greenroom.meta.sockets.messages import Received
from greenroom.meta.web.exchange import target_of
from greenroom.meta.web.messages import HttpResponse, plain, response_for
from greenroom.meta.web.routes import Asgi
from greenroom.meta.web.websocket import BoundedDeflate, WebSocketOptions, WebSocketWire, is_for_websocket, negotiate

if TYPE_CHECKING:
    import h11
    from wsproto import WSConnection

    from greenroom._core.scheduler.loop import Loop
    from greenroom.meta.web.exchange import HttpExchange
    from greenroom.meta.web.messages import HttpRequest
    from greenroom.meta.web.routes import Found
    from greenroom.meta.web.server import WebServer

Message = MutableMapping[str, Any]
MAX_MESSAGE = 1 << 24
MOST_QUEUED = 64
MOST_WAITING = 1 << 20
"""Messages that wait for the application, and their length in all, from which on nothing more is read."""
CLOSED_BY = {"closed": "the application", "stopped": "the server"}
"""The side that has closed a WebSocket, by the reason for its end; for any other reason, the client."""


class Applications:
    """Runs applications. All its methods are for the loop's own thread."""

    def __init__(self, server: WebServer, targets: Iterable[Any]) -> None:
        self._server = server
        self.lifespans = {one: Lifespan(one) for one in targets if isinstance(one, Asgi) and one.lifespan}
        self.sockets: dict[AsgiSocket, None] = {}

    async def startup(self) -> None:
        """Start the applications. If one fails, break all off."""
        try:
            for lifespan in self.lifespans.values():
                await lifespan.startup()
        except BaseException:
            self.abandon()
            for lifespan in self.lifespans.values():
                await lifespan.cancel()
            raise

    async def shutdown(self) -> None:
        """Stop the applications, all at once: a slow one does not keep the others from being told."""
        stopping = [lifespan.shutdown() for lifespan in self.lifespans.values()]
        await asyncio.gather(*stopping, return_exceptions=True)

    def abandon(self) -> None:
        for lifespan in self.lifespans.values():
            lifespan.abandon()

    def close(self, *, abort: bool = False) -> None:
        for socket in list(self.sockets):
            socket.close(abort=abort)

    async def serve(
        self, exchange: HttpExchange, event: h11.Request, request: HttpRequest, found: Found, target: Asgi
    ) -> HttpResponse | None:
        """Have an application answer, or take a WebSocket. Returns a response if it does neither."""
        lifespan = self.lifespans.get(target)
        kind = "websocket" if is_for_websocket(request) else "http"
        server = exchange.transport.get_extra_info("sockname")
        scope = scope_of(kind, event, request, found.mount, {} if lifespan is None else lifespan.state, server)
        if kind == "websocket":
            return await self._serve_websocket(exchange, event, request, target, scope)
        if isinstance(request.body.error, HttpError):  # too large: the application is not asked
            return response_for(request.body.error)
        cycle = AsgiCycle(request, exchange)
        try:
            await target.app(scope, cycle.receive, cycle.send)
        except (ConnectionError, asyncio.CancelledError):
            raise
        except Exception:
            if cycle.refusal is None:
                self._server.log.exception("the application at %s failed", request.path)
        return cycle.end()

    async def _serve_websocket(
        self, exchange: HttpExchange, event: h11.Request, request: HttpRequest, target: Asgi, scope: dict[str, Any]
    ) -> HttpResponse | None:
        socket = AsgiSocket(self._server, exchange, request)
        self.sockets[socket] = None
        try:
            return await socket.serve(event, target, scope)
        except WebSocketIsClosed as exc:  # no failure of the application's
            self._server.log.debug("the application at %s was broken off: %s", request.path, exc)
            return None
        except Exception:
            self._server.log.exception("the application at %s failed", request.path)
            return socket.fail()
        finally:
            del self.sockets[socket]
            self._server._end_if_unused()


def scope_of(
    kind: str, event: h11.Request, request: HttpRequest, mount: str, state: dict[str, Any], server: Any
) -> dict[str, Any]:
    scheme = request.scheme if kind == "http" else {"http": "ws", "https": "wss"}[request.scheme]
    scope = {
        "type": kind,
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": event.http_version.decode("ascii"),
        "scheme": scheme,
        "path": request.path,
        "raw_path": target_of(event).partition("?")[0].encode("latin-1"),
        "query_string": request.query_string.encode("latin-1"),
        "root_path": mount,
        "headers": [(name.encode("latin-1"), value.encode("latin-1")) for name, value in request.headers.pairs()],
        "client": _address(request.peer),
        "server": _address(server),
        "state": dict(state),
    }
    if kind == "http":
        scope["method"] = request.method
    return scope


def _address(given: Any) -> tuple[Any, ...] | None:
    return tuple(given[:2]) if isinstance(given, tuple) else None


class Lifespan:
    def __init__(self, target: Asgi) -> None:
        self._target = target
        self._in: asyncio.Queue[Message] = asyncio.Queue()
        self._out: asyncio.Queue[Message | None] = asyncio.Queue()
        self._task: asyncio.Task[None] | None = None
        self._is_abandoned = False
        self.state: dict[str, Any] = {}

    async def startup(self) -> None:
        """Start the application, which need not know of lifespans. `RuntimeError` if it says that it has failed."""
        self._task = asyncio.get_running_loop().create_task(self._run())
        answer = await self._exchange("lifespan.startup")
        if answer is not None and answer["type"] == "lifespan.startup.failed":
            raise RuntimeError(f"the ASGI application could not be started: {answer.get('message', '')}")

    async def shutdown(self) -> None:
        try:
            if self._task is not None and not self._task.done():
                await self._exchange("lifespan.shutdown")
        finally:
            self.abandon()
        await self.cancel()

    async def cancel(self) -> None:
        """Break off the application, and wait for it to end."""
        self.abandon()
        if self._task is not None:
            await asyncio.wait([self._task])

    def abandon(self) -> None:
        if self._task is not None and not self._is_abandoned:
            self._is_abandoned = True  # cancelled once only: it may have something to await before it ends
            self._task.cancel()

    async def _exchange(self, kind: str) -> Message | None:
        """The answer of the application; None if it ended instead."""
        self._in.put_nowait({"type": kind})
        return await self._out.get()

    async def _run(self) -> None:
        scope = {"type": "lifespan", "asgi": {"version": "3.0", "spec_version": "2.0"}, "state": self.state}
        try:
            with suppress(Exception):  # an application that does not know of lifespans raises
                await self._target.app(scope, self._in.get, self._out.put)
        finally:
            self._out.put_nowait(None)


class AsgiCycle:
    """The `receive` and `send` of one HTTP request."""

    def __init__(self, request: HttpRequest, exchange: HttpExchange) -> None:
        self._request = request
        self._exchange = exchange
        self._has_all = False
        self._ended = asyncio.Event()
        # The answer to a bad body, whatever the application says.
        self.refusal: HttpError | None = None

    async def receive(self) -> Message:
        """The next piece of the body; after the last, wait until the client has gone, or has its answer."""
        if self._has_all:
            await self._ended.wait()
            return {"type": "http.disconnect"}
        try:
            piece = await anext(self._request.body)
        except StopAsyncIteration:
            self._has_all = True
            return {"type": "http.request", "body": b"", "more_body": False}
        except HttpError as exc:
            self.refusal = exc
            return {"type": "http.disconnect"}
        except ConnectionError:
            return {"type": "http.disconnect"}
        return {"type": "http.request", "body": piece, "more_body": True}

    async def send(self, message: Message) -> None:
        kind = message["type"]
        exchange = self._exchange
        if kind == "http.response.start" and not exchange.has_begun:
            if self.refusal is not None:
                return
            pairs = [
                (bytes(name).decode("latin-1"), bytes(value).decode("latin-1"))
                for name, value in message.get("headers", ())
            ]
            await exchange.send_head(message["status"], pairs)
        elif kind == "http.response.body" and exchange.has_begun and not self._ended.is_set():
            if self._request.method != "HEAD":
                await exchange.send_body(bytes(message.get("body", b"")))
            if not message.get("more_body", False):
                self._ended.set()
                await exchange.send_end()
        elif kind != "http.response.body" or self.refusal is None:
            raise RuntimeError(f"an ASGI application sent {kind!r}, which makes no sense now")

    def end(self) -> HttpResponse | None:
        """End when the application has returned or raised. Returns a response if it has sent nothing.

        `ConnectionAbortedError` if it has not sent all.
        """
        if self._ended.is_set():
            return None
        self._ended.set()
        if self._exchange.has_begun:
            raise ConnectionAbortedError("the response broke off")
        if self.refusal is not None:
            return response_for(self.refusal)
        return plain(500, "the application failed")


class WebSocketIsClosed(ConnectionResetError):
    """An application sends to a WebSocket that is closed. ASGI wants an `OSError`."""


class AsgiSocket:
    """The `receive` and `send` of one WebSocket."""

    def __init__(self, server: WebServer, exchange: HttpExchange, request: HttpRequest) -> None:
        self._server = server
        self._exchange = exchange
        self._request = request
        self._wire: QueueWire | None = None
        self._ws: WSConnection | None = None
        self._refusal: HttpResponse | None = None
        self._was_connected = False

    async def serve(self, event: h11.Request, target: Asgi, scope: dict[str, Any]) -> HttpResponse | None:
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
            last = self._wire.last_message()
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
        # When a write fails, asyncio closes the transport at once, and tells the wire in the loop's next turn.
        if wire.reason is None and not wire.transport.is_closing():
            return
        # An application that ignores this and sends on must not keep the loop for itself.
        await asyncio.sleep(0)
        raise WebSocketIsClosed(f"{CLOSED_BY.get(wire.reason or '', 'the client')} has closed the WebSocket")

    def _accept(self, message: Message) -> None:
        assert self._ws is not None
        extra = [(bytes(name), bytes(value)) for name, value in message.get("headers", ())]
        deflate = BoundedDeflate(MAX_MESSAGE)
        head = self._ws.send(
            AcceptConnection(subprotocol=message.get("subprotocol"), extensions=[deflate], extra_headers=extra)
        )
        options = WebSocketOptions(
            idle_timeout=20.0, linger=self._server.limits.linger, max_message=MAX_MESSAGE, ping_timeout=20.0
        )
        self._wire = QueueWire(options, self._server._loop, self._ws)
        self._exchange.upgrade(self._wire, head)

    def fail(self) -> HttpResponse | None:
        if self._wire is None:
            return plain(500, "the application failed")
        self._wire.close("closed", code=1011)
        return None

    def close(self, *, abort: bool = False) -> None:
        """Close because the server stops; with `abort`, break off the application too."""
        if self._wire is not None:
            self._wire.close("stopped", abort=abort)
        if abort:
            self._exchange.cancel()


class QueueWire(WebSocketWire):
    """A wire that keeps its messages until the application asks for them."""

    __slots__ = ("_changed", "_queue", "_waiting")

    def __init__(self, options: WebSocketOptions, loop: Loop, ws: WSConnection) -> None:
        super().__init__(options, loop, lambda wire: None, ws)
        self.alias = None  # type: ignore[assignment]
        self._queue: deque[Any] = deque()
        self._waiting = 0
        self._changed = asyncio.Event()

    def tell(self, message: object) -> None:
        if isinstance(message, Received):
            self._queue.append(message.data)
            self._waiting += len(message.data)
            if self.is_behind():
                self._pause()
        self._changed.set()

    def is_behind(self) -> bool:
        return len(self._queue) >= MOST_QUEUED or self._waiting >= MOST_WAITING

    def _set_reason(self, reason: str, error: BaseException | None) -> None:
        super()._set_reason(reason, error)
        self._changed.set()

    async def next_message(self) -> Any:
        """The next message; None when there are no more."""
        while not self._queue:
            if self.reason is not None:
                return None
            self._changed.clear()
            await self._changed.wait()
        was_behind = self.is_behind()
        data = self._queue.popleft()
        self._waiting -= len(data)
        if was_behind and not self.is_behind():
            self._resume()
        return data
