"""The network of a simulated system, in memory, with the delays and the cut-offs of a network.

Each end of a stream is a transport of asyncio's kind: protocols cannot tell the difference. The simulation's own clock
and random numbers decide what happens when, so a seed replays it.
"""

from __future__ import annotations

import asyncio
import errno
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Any, TypeVar, cast

if TYPE_CHECKING:
    from greenroom._core.scheduler.loop import Loop

T = TypeVar("T")
_WHERE = "_simulated"


def one_per_system(loop: Loop, make: Callable[[Loop], T]) -> T | None:
    """The one `make(loop)` of the system of `loop`; None for a system that is not simulated.

    The system itself holds it: it refers to the system, and would keep it alive if held elsewhere.
    """
    if loop.world.is_real:
        return None
    kept: dict[Any, object] = vars(loop.host.system).setdefault(_WHERE, {})
    if make not in kept:
        kept[make] = make(loop)
    return cast("T", kept[make])


@dataclass(frozen=True, slots=True)
class LinkFaults:
    """The faults of a stream."""

    delay: tuple[float, float] = (0.0, 0.0)
    """Seconds that each piece takes, at least and at most."""
    split: bool = False
    """Cut pieces apart on the way."""
    cut: float = 0.0
    """The probability, for each piece, that the connection breaks instead."""


class Line:
    """Applies faults to one direction of a stream, as the seed decides."""

    def __init__(self, loop: Loop, faults: LinkFaults) -> None:
        self._loop = loop
        self._random = loop.host.system.random
        self._faults = faults
        self._due = 0.0

    def pieces(self, data: bytes) -> list[bytes]:
        random = self._random
        if not self._faults.split or len(data) < 2:
            return [data]
        pieces = []
        while len(data) > 1 and random.random() < 0.5:
            at = 1 + int(random.random() * (len(data) - 1))
            pieces.append(data[:at])
            data = data[at:]
        return [*pieces, data]

    def send(self, arrive: Callable[[], object]) -> None:
        """Call `arrive` when the next piece arrives, after those that were sent before it."""
        low, high = self._faults.delay
        delay = low + (high - low) * self._random.random() if high > low else low
        now = self._loop.now()
        self._due = max(self._due, now + delay)
        self._loop.call_later(self._due - now, arrive)

    def breaks(self) -> bool:
        """True if the stream breaks at the next piece."""
        return self._faults.cut > 0 and self._random.random() < self._faults.cut


class SimulatedTransport(asyncio.Transport):
    """One end of a link."""

    def __init__(self, loop: Loop, faults: LinkFaults, protocol: Any, peer: Any, sock: Any) -> None:
        super().__init__({"peername": peer, "sockname": sock})
        self._loop = loop
        self._line = Line(loop, faults)
        self._protocol = protocol
        self._other: SimulatedTransport | None = None
        # Pieces that the other end has not got; None is the end of the stream.
        self._in_flight: deque[bytes | None] = deque()
        self._unread = 0
        # The number of pieces that arrived while the other end was paused.
        self._held = 0
        self._high = 65_536
        self._is_paused = False
        self._has_stopped_writer = False
        self._is_closing = False
        self._is_over = False
        self._has_ended = False

    # -- what asyncio's transports have

    def set_protocol(self, protocol: Any) -> None:
        self._protocol = protocol

    def is_closing(self) -> bool:
        return self._is_closing

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._high = 65_536 if high is None else high

    def get_write_buffer_size(self) -> int:
        """Bytes that the other side has not read."""
        return self._unread

    def pause_reading(self) -> None:
        self._is_paused = True

    def resume_reading(self) -> None:
        self._is_paused = False
        other = self._other
        if other is not None:
            held, other._held = other._held, 0
            for _ in range(held):
                self._loop.call_later(0.0, other._deliver)

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        if not self._has_ended and not self._is_over:
            self._has_ended = True
            self._in_flight.append(None)
            self._line.send(self._deliver)

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self._is_over or self._has_ended or not data:
            return
        for piece in self._line.pieces(bytes(data)):
            self._in_flight.append(piece)
            self._unread += len(piece)
            self._line.send(self._deliver)
        if self._unread > self._high and not self._has_stopped_writer:
            self._has_stopped_writer = True
            self._protocol.pause_writing()

    def close(self) -> None:
        if not self._is_closing:
            self._is_closing = True
            self.write_eof()
            self._end_if_flushed()

    def abort(self) -> None:
        self._is_closing = True
        self._lose(None)
        other = self._other
        if other is not None:
            self._loop.call_later(
                0.0, lambda: other._lose(ConnectionResetError("the other side closed the connection"))
            )

    # -- on the way

    def _deliver(self) -> None:
        other = self._other
        if other is None or other._is_over:
            self._in_flight.clear()
        if not self._in_flight or other is None:
            self._end_if_flushed()
            return
        if other._is_paused:
            self._held += 1
            return
        if self._line.breaks():
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
        """Break the connection: both sides lose it, and what is on its way."""
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
            self._loop.call_later(0.0, lambda: self._protocol.connection_lost(error))


NO_FAULTS = LinkFaults()


class Network:
    """Connects the meta-processes of a simulation, with one another and with the peers of a test."""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self._ports = count(49_152)
        self.listeners: dict[Any, SimulatedListener] = {}
        self._sockets: dict[Any, Callable[[bytes, Any], object]] = {}

    def address_for(self, host: str, port: int) -> tuple[str, int]:
        """The address to listen on; for port 0, with a free port."""
        return host, port or next(self._ports)

    async def connect(
        self, address: Any, make: Callable[[], Any], faults: LinkFaults | None = None
    ) -> SimulatedTransport:
        """Connect to `address`. Returns the transport of the near end."""
        listener = self.listeners.get(address)
        if listener is not None:
            await listener.changed.wait()
        if listener is None or listener.make is None:
            raise ConnectionRefusedError(errno.ECONNREFUSED, f"nobody listens on {address}")
        near = ("127.0.0.1", next(self._ports)) if isinstance(address, tuple) else ""
        chosen = listener.faults if faults is None else faults
        client = SimulatedTransport(self._loop, chosen, make(), address, near)
        server = SimulatedTransport(self._loop, chosen, listener.make(), near, address)
        client._other, server._other = server, client
        server._protocol.connection_made(server)
        client._protocol.connection_made(client)
        return client

    def bind(self, address: Any, receive: Callable[[bytes, Any], object]) -> None:
        if address in self._sockets:
            raise OSError(errno.EADDRINUSE, f"somebody listens on {address} already")
        self._sockets[address] = receive

    def unbind(self, address: Any) -> None:
        self._sockets.pop(address, None)

    def send(self, data: bytes, to: Any, sender: Any) -> None:
        """Send a packet. Without a receiver, it is lost."""

        def arrive() -> None:
            receive = self._sockets.get(to)
            if receive is not None:
                receive(data, sender)

        self._loop.call_later(0.0, arrive)


class SimulatedListener:
    """Takes connections at an address of a simulated network; as `sockets.bound.Listener` does at a socket.

    Until it is open, connections wait, as those in a socket's backlog do.
    """

    unsecured = 0

    def __init__(self, network: Network, where: tuple[str, int] | str) -> None:
        self._network = network
        self.address: Any = where if isinstance(where, str) else network.address_for(*where)
        if self.address in network.listeners:
            raise OSError(errno.EADDRINUSE, f"somebody listens on {self.address} already")
        network.listeners[self.address] = self
        self._is_closed = False
        # The protocol of each connection; None while it is not open.
        self.make: Callable[[], Any] | None = None
        self.faults = NO_FAULTS
        # Set when it is open, or closed.
        self.changed = asyncio.Event()

    async def open(
        self, make: Callable[[], Any], tls: object, handshake_timeout: float, may_take: Callable[[], bool]
    ) -> None:
        self.listen(make)

    def listen(self, make: Callable[[], Any], faults: LinkFaults = NO_FAULTS) -> None:
        if not self._is_closed:
            self.make, self.faults = make, faults
            self.changed.set()

    def forget(self, protocol: object) -> None:
        """A connection is up, which took no time."""

    def close(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            del self._network.listeners[self.address]
            self.make = None
            self.changed.set()


class SimulatedPackets:
    """Sends and receives packets at an address of a simulated network; as `sockets.bound.Packets` at a socket."""

    def __init__(self, network: Network, where: tuple[str, int], received: Callable[[bytes, Any], object]) -> None:
        self._network = network
        self.address = network.address_for(*where)
        network.bind(self.address, received)

    async def open(self) -> None:
        pass

    def send(self, data: bytes | bytearray | memoryview, to: Any) -> int:
        self._network.send(bytes(data), to, self.address)
        return len(data)

    def close(self) -> None:
        self._network.unbind(self.address)


def network_of(loop: Loop) -> Network | None:
    """The network of a system that is simulated; None for a real one, which has the real network."""
    return one_per_system(loop, Network)
