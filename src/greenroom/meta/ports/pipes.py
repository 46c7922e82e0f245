"""The three pipes of a program."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from greenroom._core.delivery.waitingline import Waiter
from greenroom._core.scheduler.fdwatch import READ, WRITE
from greenroom.lanes import Lane
from greenroom.meta.ports.messages import Output
from greenroom.meta.streams.outlet import Outlet

if TYPE_CHECKING:
    from greenroom._core.scheduler.loop import Loop
    from greenroom.actor.messaging.ref import ActorRef, Alias
    from greenroom.meta.ports.fdend import FdEnd
    from greenroom.meta.simulated.pipe import ReadEnd, WriteEnd
    from greenroom.meta.streams.framing import Decoder

__all__ = ["InputPipe", "OutputPipe", "ProgramOutlet"]

CHUNK = 1 << 16
MOST_LEFT = 1 << 20
"""Bytes that are read of what a program has left in a pipe: the most that one holds, unless a superuser says more."""


class ProgramOutlet(Outlet):
    """Tells the owner what the program writes; when that is too much, neither of its outputs is read."""

    __slots__ = ("_told", "pipes")

    def __init__(self, loop: Loop, alias: Alias, owner: ActorRef) -> None:
        super().__init__(loop)
        self._told = asyncio.Event()
        self.alias = alias
        self.pipes: list[OutputPipe] = []
        self._owner = owner._cell

    def _pause(self) -> None:
        for pipe in self.pipes:
            pipe.pause()

    def _resume(self) -> None:
        self._told.set()
        for pipe in self.pipes:
            pipe.resume()

    async def delivered(self) -> None:
        """Return when the owner has been told all."""
        while self.is_behind():
            self._told.clear()
            await self._told.wait()

    def leave(self) -> None:
        """Nothing more comes. What waits is told as soon as there is room, and nobody waits for that."""
        owner, waiter = self._owner, self._waiter
        pending: deque[object] = self._pending or deque()
        self._owner = self._waiter = self._pending = None
        if waiter is not None:
            pending.popleft()  # which it brings: it stays in line, before the others
        for message in pending:
            if owner is not None:
                self._loop.admission.wait_for_room(owner, Waiter(message, self.alias, Lane.DATA, _nothing))


def _nothing(refused: BaseException | None) -> None:
    """Nobody is told."""


class OutputPipe:
    """What comes from the program: its output, or its errors."""

    def __init__(
        self,
        source: FdEnd | ReadEnd,
        outlet: ProgramOutlet,
        decoder: Decoder,
        stream: str,
        on_end: Callable[[OutputPipe, BaseException | None], object],
    ) -> None:
        self._source = source
        self._outlet = outlet
        self._decoder = decoder
        self._on_end = on_end
        self.stream = stream
        self.bytes = 0
        self.over = False
        source.watch(READ, self._can_read)

    def pause(self) -> None:
        """Read nothing for now."""
        if not self.over:
            self._source.pause()

    def resume(self) -> None:
        """Go on."""
        if not self.over:
            self._source.resume()

    def _can_read(self, events: int) -> None:
        self._read()

    def _read(self) -> int:
        """Read what is there, if that is not too much: how many bytes."""
        try:
            data = self._source.read(CHUNK)
        except BlockingIOError:
            return 0
        except OSError as exc:
            self._end(exc)
            return 0
        if not data:
            self._finish()
            return 0
        self.bytes += len(data)
        if self._outlet.is_heard():  # else it may still write what it has to say when it is asked to end
            self._tell(lambda: self._decoder.feed(data))
        return len(data)

    def _tell(self, frames: Callable[[], Iterable[Any]]) -> None:
        try:
            for frame in frames():
                self._outlet.tell(Output(self._outlet.alias, frame, self.stream))
        except Exception as exc:
            self._end(exc)

    def _finish(self) -> None:
        """The program has closed it, and so has everybody who had it from the program."""
        self._tell(self._decoder.finish)
        self._end(None)

    def hear_out(self) -> None:
        """Read what is left, and no more; a last frame without an end is one all the same."""
        left = MOST_LEFT
        while not self.over and left > 0 and (count := self._read()):
            left -= count
        if not self.over:
            self._finish()

    def drop(self) -> None:
        """Read no more, whatever is there."""
        self._end(None)

    def _end(self, error: BaseException | None) -> None:
        """Read no more. It stays open until the program has ended: else that might be what ends it."""
        if not self.over:
            self.over = True
            self._source.unwatch()
            self._on_end(self, error)


class InputPipe:
    """What goes to the program."""

    def __init__(
        self,
        sink: FdEnd | WriteEnd,
        high_water: int,
        on_stall: Callable[[bool], object],
        on_lost: Callable[[], object],
    ) -> None:
        self._sink = sink
        self._high_water = high_water
        self._on_lost = on_lost
        self._on_stall = on_stall
        self._buffer = bytearray()
        # What is to be called when there is room again; None if there is.
        self._waiting: list[Callable[[], object]] | None = None
        self._is_closing = False
        # Whether nothing can be written any more.
        self.over = False
        self.bytes = 0
        sink.watch(READ, self._is_ready)  # which it is when nobody reads any more

    def write(self, data: bytes) -> None:
        """Send it, now or when there is room in the pipe."""
        self.bytes += len(data)
        if self._buffer:
            self._buffer += data
        else:
            written = self._push(data)
            if written < len(data) and not self.over:
                self._buffer += memoryview(data)[written:]
                self._sink.watch(READ | WRITE, self._is_ready)
        if len(self._buffer) > self._high_water and self._waiting is None:
            self._waiting = []
            self._on_stall(True)

    def is_full(self) -> bool:
        """Whether nothing should be written for now."""
        return self._waiting is not None

    def when_drained(self, call: Callable[[], object]) -> None:
        """Have `call` called when a full one has room for more, or never will."""
        if self._waiting is not None:
            self._waiting.append(call)

    def close(self) -> None:
        """When all is written, let the program see the end of its input."""
        self._is_closing = True
        if not self._buffer:
            self.abort()

    def is_closing(self) -> bool:
        """Whether nothing more is to be written."""
        return self._is_closing or self.over

    def abort(self) -> None:
        """Write nothing more."""
        if not self.over:
            self._end()
            self._sink.close()

    def _end(self) -> None:
        self.over = True
        self._sink.unwatch()
        self._buffer.clear()
        self._go_on()

    def _is_ready(self, events: int) -> None:
        if events & READ:
            self._lose()
            return
        del self._buffer[: self._push(self._buffer)]
        if self.over:
            return
        if not self._buffer:
            self._sink.watch(READ, self._is_ready)
            if self._is_closing:
                self.abort()
                return
        if len(self._buffer) <= self._high_water // 4 and self._waiting is not None:
            self._go_on()
            self._on_stall(False)

    def _push(self, data: bytes | bytearray) -> int:
        """Write as much as there is room for: how many bytes."""
        total = 0
        with memoryview(data) as view:
            while total < len(view):
                try:
                    total += self._sink.write(view[total : total + CHUNK])
                except BlockingIOError:
                    break
                except OSError:
                    break  # nobody reads: that is told
        return total

    def _lose(self) -> None:
        """The program reads no more."""
        self._end()
        if not self._is_closing:
            self._on_lost()

    def _go_on(self) -> None:
        waiting, self._waiting = self._waiting, None
        for call in waiting or ():
            call()
