"""Writes the responses of one connection, no faster than its client reads."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, Callable, Iterable
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

import h11

from greenroom.meta.streams.alarms import CallAlarm, set_call
from greenroom.meta.web.http.responses import as_bytes, date, head_of, ready

if TYPE_CHECKING:
    from greenroom.meta.web.http.host import WebHost
    from greenroom.meta.web.messages import HttpResponse

__all__ = ["ResponseWriter"]

IN_ONE = 65_536
"""Bytes of a body that are written together with the headers."""


class ResponseWriter:
    """The side of an HTTP connection that writes. All its methods are for the loop's own thread."""

    def __init__(self, host: WebHost, conn: h11.Connection, give_up: Callable[[], object]) -> None:
        self._host = host
        self._conn = conn
        # Called when the client does not read for too long.
        self._give_up = give_up
        self._alarm: CallAlarm | None = None
        # Done when there is room in the transport's buffer again; None while there is.
        self._drained: asyncio.Future[None] | None = None
        self.transport: Any = None
        # Whether the connection is over, for writing too.
        self.is_over = False
        # Whether something of the response is written.
        self.has_begun = False
        # How often something was.
        self.writes = 0

    # -- what the transport says

    def pause(self) -> None:
        """The client does not read."""
        self._drained = asyncio.get_running_loop().create_future()

    def resume(self) -> None:
        """There is room again; or there is nothing to wait for any more."""
        drained, self._drained = self._drained, None
        if drained is not None and not drained.done():
            drained.set_result(None)

    # -- a response

    async def respond(self, response: HttpResponse, method: str) -> None:
        """Write all of it. `BadArgument` if it cannot be written, and then nothing of it is."""
        pairs, body = ready(response, method)
        if isinstance(body, bytes) and len(body) <= IN_ONE:
            said = [self._head(response.status, pairs)]
            if body and method != "HEAD":
                said.append(self._conn.send(h11.Data(data=body)))
            said.append(self._conn.send(h11.EndOfMessage()))
            await self._write(b"".join(said))
            return
        await self.send_head(response.status, pairs)
        if method != "HEAD":
            if isinstance(body, bytes):
                await self.send_body(body)
            else:
                await self._send_pieces(body)
        await self.send_end()

    async def _send_pieces(self, body: Any) -> None:
        try:
            if hasattr(body, "aclose"):  # a generator, which learns so that nobody wants the rest
                async with aclosing(body):
                    await self._send_each(body)
            else:
                await self._send_each(body)
        except (ConnectionError, h11.LocalProtocolError, asyncio.CancelledError):
            raise
        except Exception as exc:
            # The client has part of it: that it is not all shows by the end of the connection.
            self._host.log.exception("a response broke off")
            raise ConnectionAbortedError("the response broke off") from exc

    async def _send_each(self, body: AsyncIterable[Any] | Iterable[Any]) -> None:
        if isinstance(body, AsyncIterable):
            async for piece in body:
                await self.send_body(as_bytes(piece))
        else:
            for piece in body:
                await self.send_body(as_bytes(piece))
                await asyncio.sleep(0)  # else one that never ends would let nobody else have a turn

    async def send_head(self, status: int, pairs: Iterable[tuple[str, str]]) -> None:
        """Begin a response."""
        await self._write(self._head(status, pairs))

    def _head(self, status: int, pairs: Iterable[tuple[str, str]]) -> bytes:
        pairs = list(pairs)
        names = {name.lower() for name, _ in pairs}
        if "date" not in names:
            pairs = [("date", date()), *pairs]
        if not self._host.is_open and "connection" not in names:
            pairs = [*pairs, ("connection", "close")]
        head = head_of(status, pairs)
        self.has_begun = True
        return self._conn.send(head)

    async def send_body(self, piece: bytes) -> None:
        """A piece of its body."""
        if piece:
            await self._write(self._conn.send(h11.Data(data=piece)))

    async def send_end(self) -> None:
        """That was all of it."""
        await self._write(self._conn.send(h11.EndOfMessage()))

    async def _write(self, data: bytes | None) -> None:
        if self.is_over or self.transport.is_closing():
            raise ConnectionResetError("the client has closed the connection")
        self.writes += 1
        if data:
            self.transport.write(data)
        if self._drained is not None:
            timeout = self._host.limits.write_timeout
            if timeout is not None:
                self._alarm = set_call(self._host.loop, timeout, self._give_up)
            try:
                await self._drained
            finally:
                self.clear_alarm()

    def clear_alarm(self) -> None:
        """The client need not read any more."""
        if self._alarm is not None:
            self._alarm.disarm(self._host.loop.timers)
            self._alarm = None
