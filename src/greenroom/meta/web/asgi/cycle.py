"""One HTTP request that an application answers."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from greenroom.errors import HttpError
from greenroom.meta.web.http.asking import response_for
from greenroom.meta.web.http.responses import plain

if TYPE_CHECKING:
    from greenroom.meta.web.asgi.scope import Message
    from greenroom.meta.web.http.writer import ResponseWriter
    from greenroom.meta.web.messages import HttpRequest, HttpResponse

__all__ = ["AsgiCycle"]


class AsgiCycle:
    """What an application is given to `receive` and `send` with."""

    def __init__(self, request: HttpRequest, writer: ResponseWriter) -> None:
        self._request = request
        self._writer = writer
        self._has_all = False
        self._ended = asyncio.Event()
        # Why its request is refused, whatever the application says.
        self._refusal: HttpError | None = None

    async def receive(self) -> Message:
        """A piece of the body; when there are no more, that the client has gone, or has its answer."""
        if self._has_all:
            await self._ended.wait()
            return {"type": "http.disconnect"}
        try:
            piece = await anext(self._request.body)
        except StopAsyncIteration:
            self._has_all = True
            return {"type": "http.request", "body": b"", "more_body": False}
        except HttpError as exc:
            self._refusal = exc
            return {"type": "http.disconnect"}
        except ConnectionError:
            return {"type": "http.disconnect"}
        return {"type": "http.request", "body": piece, "more_body": True}

    async def send(self, message: Message) -> None:
        """A part of the response."""
        kind = message["type"]
        writer = self._writer
        if kind == "http.response.start" and not writer.has_begun:
            if self._refusal is not None:
                return
            pairs = [
                (bytes(name).decode("latin-1"), bytes(value).decode("latin-1"))
                for name, value in message.get("headers", ())
            ]
            await writer.send_head(message["status"], pairs)
        elif kind == "http.response.body" and writer.has_begun and not self.has_ended:
            if self._request.method != "HEAD":
                await writer.send_body(bytes(message.get("body", b"")))
            if not message.get("more_body", False):
                self._ended.set()
                await writer.send_end()
        elif kind != "http.response.body" or self._refusal is None:
            raise RuntimeError(f"an ASGI application sent {kind!r}, which makes no sense now")

    @property
    def has_ended(self) -> bool:
        """Whether the response is whole."""
        return self._ended.is_set()

    @property
    def is_refused(self) -> bool:
        """Whether its body is none that can be answered: what becomes of the application then says nothing of it."""
        return self._refusal is not None

    def end(self) -> HttpResponse | None:
        """The application has returned, or raised: what is to be said instead, if it has said nothing.

        `ConnectionAbortedError` if it has said too little.
        """
        if self.has_ended:
            return None
        self._ended.set()
        if self._writer.has_begun:
            raise ConnectionAbortedError("the response broke off")
        if self._refusal is not None:
            return response_for(self._refusal)
        return plain(500, "the application failed")
