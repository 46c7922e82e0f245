"""Two ends of a stream in memory, with the delays and the cut-offs of a network.

Each end is a transport, as asyncio's are: the protocols on both sides cannot tell the difference. What happens when is
decided by the simulation's own clock and random numbers, so a seed replays it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from greenroom.meta.streams.alarms import set_call

if TYPE_CHECKING:
    from greenroom._core.scheduler.loop import Loop
    from greenroom.seededrandom import Random

__all__ = ["LinkFaults", "SimulatedTransport", "link"]


@dataclass(frozen=True, slots=True)
class LinkFaults:
    """What a network does to a stream."""

    delay: tuple[float, float] = (0.0, 0.0)
    """Seconds that each piece takes, at least and at most."""
    split: bool = False
    """Whether pieces come apart on the way."""
    cut: float = 0.0
    """How likely it is, for each piece, that the connection breaks instead."""

    def pieces(self, data: bytes, random: Random) -> list[bytes]:
        """What becomes of `data` on the way."""
        if not self.split or len(data) < 2:
            return [data]
        pieces = []
        while len(data) > 1 and random.random() < 0.5:
            at = 1 + int(random.random() * (len(data) - 1))
            pieces.append(data[:at])
            data = data[at:]
        return [*pieces, data]

    def seconds(self, random: Random) -> float:
        """How long the next piece takes."""
        low, high = self.delay
        return low + (high - low) * random.random() if high > low else low

    def strikes(self, random: Random) -> bool:
        """Whether it breaks at the next piece."""
        return self.cut > 0 and random.random() < self.cut


class SimulatedTransport(asyncio.Transport):
    """One end of a link."""

    def __init__(self, loop: Loop, random: Random, faults: LinkFaults, protocol: Any, peer: Any, sock: Any) -> None:
        super().__init__({"peername": peer, "sockname": sock})
        self._loop = loop
        self._random = random
        self._faults = faults
        self._protocol = protocol
        self._other: SimulatedTransport | None = None
        # What is on its way to the other end, or waits there to be read: None is the end of the stream.
        self._in_flight: deque[bytes | None] = deque()
        self._unread = 0
        # How many of them have arrived while the other end was paused.
        self._held = 0
        self._due = 0.0
        self._high = 65_536
        self._is_paused = False
        self._has_stopped_writer = False
        self._is_closing = False
        self._is_over = False
        self._has_ended = False

    # -- what asyncio's transports have

    def get_protocol(self) -> Any:
        """Who is told."""
        return self._protocol

    def set_protocol(self, protocol: Any) -> None:
        """Let another be told."""
        self._protocol = protocol

    def is_closing(self) -> bool:
        """Whether it is closed, or about to be."""
        return self._is_closing

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """From how many bytes on the writer is held up."""
        self._high = 65_536 if high is None else high

    def get_write_buffer_size(self) -> int:
        """Bytes that the other side has not read."""
        return self._unread

    def pause_reading(self) -> None:
        """Tell nothing for now."""
        self._is_paused = True

    def resume_reading(self) -> None:
        """Go on."""
        self._is_paused = False
        other = self._other
        if other is not None:
            held, other._held = other._held, 0
            for _ in range(held):
                set_call(self._loop, 0.0, other._deliver)

    def can_write_eof(self) -> bool:
        """It can."""
        return True

    def write_eof(self) -> None:
        """Write no more; the other side sees the end of the stream."""
        if not self._has_ended and not self._is_over:
            self._has_ended = True
            self._in_flight.append(None)
            self._deliver_soon(self._faults.seconds(self._random))

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Send it, in one piece or in several."""
        if self._is_over or self._has_ended or not data:
            return
        for piece in self._faults.pieces(bytes(data), self._random):
            self._in_flight.append(piece)
            self._unread += len(piece)
            self._deliver_soon(self._faults.seconds(self._random))
        if self._unread > self._high and not self._has_stopped_writer:
            self._has_stopped_writer = True
            self._protocol.pause_writing()

    def close(self) -> None:
        """Close it when all is sent."""
        if not self._is_closing:
            self._is_closing = True
            self.write_eof()
            self._end_if_flushed()

    def abort(self) -> None:
        """Close it at once; what is on its way is lost."""
        self._is_closing = True
        self._lose(None)
        other = self._other
        if other is not None:
            set_call(self._loop, 0.0, lambda: other._lose(ConnectionResetError("the other side closed the connection")))

    # -- on the way

    def _deliver_soon(self, delay: float) -> None:
        """Have the first of what is on its way arrive, after what was sent before it."""
        self._due = max(self._due, self._loop.now() + delay)
        set_call(self._loop, self._due - self._loop.now(), self._deliver)

    def _deliver(self) -> None:
        other = self._other
        if other is None or other._is_over:
            self._in_flight.clear()  # nobody is there to take it
        if not self._in_flight or other is None:
            self._end_if_flushed()
            return
        if other._is_paused:
            self._held += 1
            return
        if self._faults.strikes(self._random):
            self.cut()
            return
        piece = self._in_flight.popleft()
        if piece is None:
            if not other._protocol.eof_received():
                other.close()
        else:
            self._unread -= len(piece)
            if self._has_stopped_writer and self._unread <= self._high // 4 and not self._is_over:
                self._has_stopped_writer = False
                self._protocol.resume_writing()
            other._protocol.data_received(piece)
        self._end_if_flushed()

    def cut(self) -> None:
        """The network breaks: both sides lose the connection, and what is on its way."""
        error = ConnectionResetError("the network broke")
        for end in (self, self._other):
            if end is not None:
                end._is_closing = True
                end._lose(error)

    def _end_if_flushed(self) -> None:
        if self._is_closing and not self._in_flight:
            self._lose(None)

    def _lose(self, error: BaseException | None) -> None:
        if not self._is_over:
            self._is_over = self._is_closing = True
            self._in_flight.clear()
            set_call(self._loop, 0.0, lambda: self._protocol.connection_lost(error))


def link(
    loop: Loop,
    random: Random,
    faults: LinkFaults,
    client: Callable[[], Any],
    server: Callable[[], Any],
    addresses: tuple[Any, Any],
) -> tuple[SimulatedTransport, SimulatedTransport]:
    """Connect two protocols, which are made for it: the transports of both ends."""
    near, far = addresses
    of_client = SimulatedTransport(loop, random, faults, client(), far, near)
    of_server = SimulatedTransport(loop, random, faults, server(), near, far)
    of_client._other, of_server._other = of_server, of_client
    of_server._protocol.connection_made(of_server)
    of_client._protocol.connection_made(of_client)
    return of_client, of_server
