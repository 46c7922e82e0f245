"""The body of a request, as it comes."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from greenroom.errors import HttpError

__all__ = ["BodyReader"]

HIGH_WATER = 1 << 18
COLLECTED = 1 << 12
"""Bytes: smaller pieces are put together, for each by itself takes far more memory than it holds."""


def _nothing() -> None:
    """Nobody has to know."""


class BodyReader:
    """Pieces of bytes, to iterate over once: `async for piece in request.body`. On the system's own thread."""

    __slots__ = ("_buffered", "_error", "_limit", "_on_read", "_pieces", "_total", "_waiter", "ended")

    def __init__(self, limit: int, on_read: Callable[[], object]) -> None:
        self._limit = limit
        # Called when there is room for more.
        self._on_read = on_read
        self._pieces: deque[bytes | bytearray] = deque()
        self._buffered = 0
        self._total = 0
        self._waiter: asyncio.Future[None] | None = None
        self._error: BaseException | None = None
        self.ended = False

    def feed(self, piece: bytes) -> bool:
        """More of it; False when no more is to come for now."""
        self._total += len(piece)
        if self._total > self._limit:
            self.refuse_as_too_large()
            return False
        last = self._pieces[-1] if self._pieces else None
        if isinstance(last, bytearray) and len(last) < COLLECTED:
            last += piece
        else:
            self._pieces.append(bytearray(piece) if len(piece) < COLLECTED else piece)
        self._buffered += len(piece)
        self._wake()
        return self._buffered <= HIGH_WATER

    def refuse_as_too_large(self) -> None:
        """It has said that it will be."""
        self.fail(HttpError(413, f"the body is larger than {self._limit:,} bytes"))

    def finish(self) -> None:
        """That was all."""
        self.ended = True
        self._wake()

    def fail(self, error: BaseException) -> None:
        """The rest does not come."""
        if self._error is None and not self.ended:
            self._error = error
        self._wake()

    def let_go(self) -> None:
        """The request is answered. Whoever keeps it, as dead letters do, is not to keep its connection too."""
        self._on_read = _nothing
        if self._error is not None:
            self._error.__traceback__ = None  # where it was raised is the connection's code too

    @property
    def error(self) -> BaseException | None:
        """Why the rest of it does not come, if it does not."""
        return self._error

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def __aiter__(self) -> BodyReader:
        return self

    async def __anext__(self) -> bytes:
        while not self._pieces:
            if self._error is not None:
                raise self._error
            if self.ended:
                raise StopAsyncIteration
            self._on_read()
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        piece = bytes(self._pieces.popleft())
        self._buffered -= len(piece)
        if self._buffered <= HIGH_WATER:
            self._on_read()
        return piece

    async def read(self) -> bytes:
        """All that is left of it."""
        return b"".join([piece async for piece in self])
