"""Runs ASGI applications on a server's connections."""

from __future__ import annotations

import asyncio
from collections.abc import MutableMapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from greenroom.errors import HttpError
from greenroom.meta.web.messages import HttpResponse

if TYPE_CHECKING:
    from greenroom.meta.web.exchange import HttpExchange
    from greenroom.meta.web.messages import HttpRequest
    from greenroom.meta.web.routes import Found
    from greenroom.meta.web.targets import Asgi

__all__ = ["Lifespan", "serve"]

Message = MutableMapping[str, Any]


def scope_of(kind: str, request: HttpRequest, mount: str, state: dict[str, Any]) -> dict[str, Any]:
    """What an application is told of a request."""
    scheme = request.scheme if kind == "http" else {"http": "ws", "https": "wss"}[request.scheme]
    return {
        "type": kind,
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": request.method,
        "scheme": scheme,
        "path": request.path,
        "raw_path": request.path.encode(),
        "query_string": request.query_string.encode("latin-1"),
        "root_path": mount,
        "headers": [(name.encode("latin-1"), value.encode("latin-1")) for name, value in request.headers.pairs()],
        "client": tuple(request.peer[:2]) if isinstance(request.peer, tuple) else None,
        "server": None,
        "state": dict(state),
    }


async def serve(
    exchange: HttpExchange, request: HttpRequest, found: Found, target: Asgi, state: dict[str, Any]
) -> bool:
    """Have the application answer; whether it did, to the end."""
    body = request.body
    done = asyncio.Event()
    ended = False

    async def receive() -> Message:
        try:
            piece = await anext(body)
        except StopAsyncIteration:
            if not done.is_set() and receive.__dict__.setdefault("told", False):
                await done.wait()
                return {"type": "http.disconnect"}
            receive.__dict__["told"] = True
            return {"type": "http.request", "body": b"", "more_body": False}
        except (ConnectionError, HttpError):
            return {"type": "http.disconnect"}
        return {"type": "http.request", "body": piece, "more_body": True}

    async def send(message: Message) -> None:
        nonlocal ended
        kind = message["type"]
        if kind == "http.response.start":
            pairs = [
                (bytes(name).decode("latin-1"), bytes(value).decode("latin-1"))
                for name, value in message.get("headers", ())
            ]
            await exchange.send_head(int(message["status"]), pairs)
        elif kind == "http.response.body":
            if request.method != "HEAD":
                await exchange.send_body(bytes(message.get("body", b"")))
            if not message.get("more_body", False) and not ended:
                ended = True
                done.set()
                await exchange.send_end()
        else:
            raise ValueError(f"an ASGI application sent {kind!r}, which is nothing that HTTP has")

    try:
        await target.app(scope_of("http", request, found.mount, state), receive, send)
    finally:
        done.set()
    return ended


class Lifespan:
    """Starts and stops one application with the server."""

    def __init__(self, target: Asgi) -> None:
        self._target = target
        self._in: asyncio.Queue[Message] = asyncio.Queue()
        self._out: asyncio.Queue[Message] = asyncio.Queue()
        self._task: asyncio.Task[None] | None = None
        self.state: dict[str, Any] = {}

    async def startup(self) -> None:
        """Start it. An application that knows nothing of this is fine too; one that fails is not."""
        self._task = asyncio.get_running_loop().create_task(self._run())
        answer = await self._exchange("lifespan.startup")
        if answer is not None and answer["type"] == "lifespan.startup.failed":
            raise RuntimeError(f"the ASGI application could not be started: {answer.get('message', '')}")

    async def shutdown(self) -> None:
        """Stop it."""
        if self._task is not None and not self._task.done():
            await self._exchange("lifespan.shutdown")
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError, Exception):
                await self._task

    async def _exchange(self, kind: str) -> Message | None:
        """What it answers; None if it ended instead."""
        self._in.put_nowait({"type": kind})
        answer = asyncio.get_running_loop().create_task(self._out.get())
        task = self._task
        assert task is not None
        try:
            await asyncio.wait([answer, task], return_when=asyncio.FIRST_COMPLETED)
            return answer.result() if answer.done() else None
        finally:
            answer.cancel()

    async def _run(self) -> None:
        scope = {"type": "lifespan", "asgi": {"version": "3.0", "spec_version": "2.0"}, "state": self.state}
        with suppress(Exception):  # it does not know of this: so be it
            await self._target.app(scope, self._in.get, self._out.put)


def failed() -> HttpResponse:
    """What is said when an application raises before it has answered."""
    return HttpResponse(b"the application failed\n", 500, {"content-type": "text/plain; charset=utf-8"})
