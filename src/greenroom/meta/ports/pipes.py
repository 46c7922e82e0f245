"""The three pipes of a program, as asyncio sees them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from greenroom.meta.ports.messages import Output
from greenroom.meta.streams.outlet import Outlet

if TYPE_CHECKING:
    from greenroom._core.scheduler.loop import Loop
    from greenroom.actor.messaging.ref import ActorRef, Alias
    from greenroom.meta.streams.framing import Decoder

__all__ = ["InputPipe", "OutputPipe", "ProgramOutlet"]


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
            pipe.pause(True)

    def _resume(self) -> None:
        self._told.set()
        for pipe in self.pipes:
            pipe.pause(False)

    async def delivered(self) -> None:
        """Return when the owner has been told all."""
        while self.is_behind():
            self._told.clear()
            await self._told.wait()


class OutputPipe(asyncio.Protocol):
    """What comes from the program: its output, or its errors."""

    def __init__(
        self,
        outlet: ProgramOutlet,
        decoder: Decoder,
        stream: str,
        on_end: Callable[[OutputPipe, BaseException | None], object],
    ) -> None:
        self._outlet = outlet
        self._decoder = decoder
        self._on_end = on_end
        self._transport: Any = None
        self.stream = stream
        self.bytes = 0
        self.over = False

    def connection_made(self, transport: Any) -> None:
        """It is there."""
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Something has come."""
        if not self.over:
            self.bytes += len(data)
            self._feed(lambda: self._decoder.feed(data))

    def _feed(self, frames: Callable[[], Any]) -> None:
        try:
            for frame in frames():
                self._outlet.tell(Output(self._outlet.alias, frame, self.stream))
        except Exception as exc:
            self.close(exc)

    def eof_received(self) -> None:
        """The program has closed it, and so has everybody who had it from the program."""
        if not self.over:
            self._feed(self._decoder.finish)

    def connection_lost(self, exc: BaseException | None) -> None:
        """It is over."""
        self._end(None)

    def close(self, error: BaseException | None = None) -> None:
        """Read no more; a last frame without an end is one all the same."""
        if error is None and not self.over:
            self._feed(self._decoder.finish)
        if self._transport is not None:
            self._transport.close()
        self._end(error)

    def _end(self, error: BaseException | None) -> None:
        if not self.over:
            self.over = True
            self._on_end(self, error)

    def pause(self, paused: bool) -> None:
        """Read nothing for now, or go on."""
        if self._transport is not None and not self.over and not self._transport.is_closing():
            if paused:
                self._transport.pause_reading()
            else:
                self._transport.resume_reading()


class InputPipe(asyncio.BaseProtocol):
    """What goes to the program."""

    def __init__(self, high_water: int, on_stall: Callable[[bool], object], on_lost: Callable[[], object]) -> None:
        self._high_water = high_water
        self._on_lost = on_lost
        self._on_stall = on_stall
        self._drained: asyncio.Future[None] | None = None
        self.transport: Any = None
        self.bytes = 0
        self.over = False

    def connection_made(self, transport: Any) -> None:
        """It is there."""
        self.transport = transport
        transport.set_write_buffer_limits(high=self._high_water)

    def connection_lost(self, exc: BaseException | None) -> None:
        """The program reads no more."""
        self.over = True
        drained, self._drained = self._drained, None
        if drained is not None and not drained.done():
            drained.set_result(None)
        self._on_lost()

    def pause_writing(self) -> None:
        """Its buffer is full."""
        self._drained = asyncio.get_running_loop().create_future()
        self._on_stall(True)

    def resume_writing(self) -> None:
        """There is room again."""
        drained, self._drained = self._drained, None
        if drained is not None and not drained.done():
            drained.set_result(None)
        self._on_stall(False)

    def write(self, data: bytes) -> asyncio.Future[None] | None:
        """Send it; what to wait for before the next, if the buffer is full."""
        self.bytes += len(data)
        self.transport.write(data)
        return self._drained

    def abort(self) -> None:
        """Write nothing more."""
        if self.transport is not None and not self.over:
            self.transport.abort()

    def close(self) -> None:
        """When all is written, let the program see the end of its input."""
        if self.transport is not None and not self.over:
            self.transport.close()
