"""The three pipes of a program, and what passes between it and its owner besides `Write`, `CloseWrite`, `Close`."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from greenroom._core.scheduler.fdwatch import READ, WRITE
from greenroom.meta.streams.owner import Outlet

if TYPE_CHECKING:
    from greenroom._core.scheduler.loop import Loop
    from greenroom.actor.messaging.ref import ActorRef, Alias
    from greenroom.meta.ports.program import FdEnd
    from greenroom.meta.simulated.program import PortEnd
    from greenroom.meta.streams.framing import Decoder

__all__ = ["Exited", "InputPipe", "Output", "OutputPipe", "ProgramOutlet", "SendSignal"]

CHUNK = 1 << 16
MOST_LEFT = 1 << 20
"""Bytes that are read of what a program has left in a pipe: the most that one holds, unless a superuser says more."""


@dataclass(slots=True, unsafe_hash=True)
class Output:
    """A frame that the program has written, to `"stdout"` or to `"stderr"`."""

    alias: Alias
    data: Any
    stream: str = "stdout"


@dataclass(slots=True, unsafe_hash=True)
class Exited:
    """The program has ended: the last message of a `Port`. `status` is 0 if all went well, -9 if signal 9 ended it.

    `error` says what broke it off, if its output did: a frame that is too large, say.
    """

    alias: Alias
    status: int
    error: BaseException | None = None


@dataclass(slots=True, unsafe_hash=True)
class SendSignal:
    """Send the program, and all it has started, a signal."""

    signal: int = signal.SIGTERM


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
        while self.is_behind():
            self._told.clear()
            await self._told.wait()


class OutputPipe:
    """Reads the program's output, or its errors."""

    def __init__(
        self,
        source: FdEnd | PortEnd,
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
        source.watch(READ, lambda events: self._read())

    def pause(self) -> None:
        if not self.over:
            self._source.pause()

    def resume(self) -> None:
        if not self.over:
            self._source.resume()

    def _read(self) -> int:
        """Read what is there, up to a chunk. Returns the number of bytes."""
        try:
            data = self._source.read(CHUNK)
        except BlockingIOError:
            return 0
        except OSError as exc:
            self.end(exc)
            return 0
        if not data:
            self._finish()
            return 0
        self.bytes += len(data)
        if self._outlet.has_live_owner():  # a program whose owner has ended may still write: that is thrown away
            self._tell(lambda: self._decoder.feed(data))
        return len(data)

    def _tell(self, frames: Callable[[], Iterable[Any]]) -> None:
        try:
            for frame in frames():
                self._outlet.tell(Output(self._outlet.alias, frame, self.stream))
        except Exception as exc:
            self.end(exc)

    def _finish(self) -> None:
        self._tell(self._decoder.finish)
        self.end()

    def read_rest(self) -> None:
        """Read what is left, and no more. The owner is told of a last frame without an end too."""
        left = MOST_LEFT
        while not self.over and left > 0 and (count := self._read()):
            left -= count
        if not self.over:
            self._finish()

    def end(self, error: BaseException | None = None) -> None:
        """Read no more. The pipe stays open until the program has ended: closing it might be what ends the program."""
        if not self.over:
            self.over = True
            self._source.unwatch()
            self._on_end(self, error)


class InputPipe:
    """Writes to the program's input."""

    def __init__(
        self,
        sink: FdEnd | PortEnd,
        high_water: int,
        on_stall: Callable[[bool], object],
        on_lost: Callable[[], object],
    ) -> None:
        self._sink = sink
        self._high_water = high_water
        self._on_lost = on_lost
        self._on_stall = on_stall
        self._buffer = bytearray()
        # Called when there is room again; None while there is.
        self._waiting: list[Callable[[], object]] | None = None
        self._is_closing = False
        self.over = False
        self.bytes = 0
        sink.watch(READ, self._is_ready)  # ready to read when the program reads no more

    def write(self, data: bytes) -> None:
        """Write now, or when there is room in the pipe."""
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
        return self._waiting is not None

    def when_drained(self, call: Callable[[], object]) -> None:
        """Call `call` when a full pipe has room for more, or never will."""
        if self._waiting is not None:
            self._waiting.append(call)

    def close(self) -> None:
        """When all is written, let the program see the end of its input."""
        self._is_closing = True
        if not self._buffer:
            self.abort()

    def is_closing(self) -> bool:
        return self._is_closing or self.over

    def abort(self) -> None:
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
        total = 0
        with memoryview(data) as view:
            while total < len(view):
                try:
                    total += self._sink.write(view[total : total + CHUNK])
                except OSError:  # there is no room now, or the program reads no more: that is told
                    break
        return total

    def _lose(self) -> None:
        self._end()
        if not self._is_closing:
            self._on_lost()

    def _go_on(self) -> None:
        waiting, self._waiting = self._waiting, None
        for call in waiting or ():
            call()
