"""The network of a simulated system: who listens where, in memory."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable
from itertools import count
from typing import TYPE_CHECKING, Any

from greenroom.meta.simulated.belongings import belonging
from greenroom.meta.simulated.link import LinkFaults, SimulatedTransport, link
from greenroom.meta.streams.alarms import set_call

if TYPE_CHECKING:
    from greenroom._core.scheduler.loop import Loop

__all__ = ["Network", "network_of"]

NO_FAULTS = LinkFaults()


class _Listening:
    """An address that is bound."""

    def __init__(self) -> None:
        self.make: Callable[[], Any] | None = None
        self.faults = NO_FAULTS
        self.changed = asyncio.Event()


class Network:
    """Where connections are made in a simulation: between meta-processes, and with the peers of a test."""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self._random = loop.host.port.random
        self._ports = count(49_152)
        # Who listens where; one that is bound takes connections when it is open.
        self._listeners: dict[Any, _Listening] = {}
        self._sockets: dict[Any, Callable[[bytes, Any], object]] = {}

    def address_for(self, host: str, port: int) -> tuple[str, int]:
        """An address to listen on; port 0 is any that is free."""
        return host, port or next(self._ports)

    # -- streams

    def bind_stream(self, address: Any) -> None:
        """Have connections to `address` wait for `listen`, as those in a socket's backlog do."""
        if address in self._listeners:
            raise OSError(errno.EADDRINUSE, f"somebody listens on {address} already")
        self._listeners[address] = _Listening()

    def listen(self, address: Any, make: Callable[[], Any], faults: LinkFaults = NO_FAULTS) -> None:
        """Have `make()` be the protocol of each connection to `address`, which is bound."""
        listening = self._listeners[address]
        listening.make, listening.faults = make, faults
        listening.changed.set()

    def stop_listening(self, address: Any) -> None:
        """Take no more connections."""
        listening = self._listeners.pop(address, None)
        if listening is not None:
            listening.make = None
            listening.changed.set()

    async def connect(
        self, address: Any, make: Callable[[], Any], faults: LinkFaults | None = None
    ) -> SimulatedTransport:
        """Connect to `address`; the transport of the near end."""
        listening = self._listeners.get(address)
        if listening is not None:
            await listening.changed.wait()
        if listening is None or listening.make is None:
            raise ConnectionRefusedError(errno.ECONNREFUSED, f"nobody listens on {address}")
        near = ("127.0.0.1", next(self._ports)) if isinstance(address, tuple) else ""
        chosen = listening.faults if faults is None else faults
        return link(self._loop, self._random, chosen, make, listening.make, (near, address))[0]

    # -- packets

    def bind(self, address: Any, receive: Callable[[bytes, Any], object]) -> None:
        """Have packets to `address` come."""
        if address in self._sockets:
            raise OSError(errno.EADDRINUSE, f"somebody listens on {address} already")
        self._sockets[address] = receive

    def unbind(self, address: Any) -> None:
        """Have no more packets come."""
        self._sockets.pop(address, None)

    def send(self, data: bytes, to: Any, sender: Any) -> None:
        """Send a packet; if nobody is there, it is lost, as packets are."""

        def arrive() -> None:
            receive = self._sockets.get(to)
            if receive is not None:
                receive(data, sender)

        set_call(self._loop, 0.0, arrive)


def network_of(loop: Loop) -> Network | None:
    """The network of a system that is simulated; None for a real one, which has the real network."""
    return belonging(loop, Network)
