"""`UdpServer`: packets in and out."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from greenroom.actor.api.behavior import UNHANDLED
from greenroom.errors import BadArgument
from greenroom.lanes import Lane
from greenroom.meta.process.metaprocess import MetaProcess
from greenroom.meta.simulated.network import Network, network_of
from greenroom.meta.sockets.messages import Close, Datagram, SendTo
from greenroom.meta.streams.checks import require_count, require_port
from greenroom.meta.streams.ownerend import OwnerEnd

if TYPE_CHECKING:
    from greenroom.actor.messaging.ref import ActorRef
    from greenroom.exits import ExitReason

__all__ = ["UdpServer"]

LARGEST = 65_507
"""Bytes that fit into one UDP packet over IPv4."""


class UdpServer(MetaProcess):
    """A UDP socket. Its owner gets `Datagram(alias, data, peer)`, and sends `SendTo(data, peer)`.

    UDP holds nobody up: a packet for which the owner's mailbox has no room is dropped and counted, and so is one that
    is larger than `max_size`. Ask `SendTo` instead of telling it to hear of an error.

    Args:
        host, port: Where to listen; port 0 for any that is free: see `address`.
        owner: Who is told, and with whom it ends. The parent, by default.
        max_size: Bytes: larger packets are dropped.
        sock: A bound UDP socket to use instead.
        reuse_port: Whether several servers may share the port.
    """

    _on_loop: ClassVar[bool] = True

    def __init__(
        self,
        host: str = "127.0.0.1",
        port: int = 0,
        *,
        owner: ActorRef | None = None,
        max_size: int = LARGEST,
        sock: socket.socket | None = None,
        reuse_port: bool = False,
    ) -> None:
        require_count("max_size", max_size)
        require_port(port)
        self._where = (host, port)
        self._owner = owner
        self._max_size = max_size
        self._sock = sock
        self._reuse_port = reuse_port
        self._transport: asyncio.DatagramTransport | None = None
        # In a simulation, the one in memory.
        self._network: Network | None = None
        self._over: asyncio.Event | None = None
        self._owner_end: OwnerEnd | None = None
        self._counts = {"received": 0, "sent": 0, "dropped": 0, "errors": 0}
        self.address: Any = None
        """Where it listens, from `init` on."""

    def init(self) -> None:
        """Bind the port: if that fails, there is no server, and whoever spawns it knows."""
        self._network = network_of(self._require_host("a server").ctx.cell.loop)
        if self._network is not None:
            self.address = self._network.address_for(*self._where)
            self._network.bind(self.address, self._received)
            return
        if self._sock is None:
            host, port = self._where
            family = socket.AF_INET6 if ":" in host else socket.AF_INET
            sock = socket.socket(family, socket.SOCK_DGRAM)
            try:
                if self._reuse_port:
                    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
                sock.bind((host, port))
            except BaseException:
                sock.close()
                raise
            self._sock = sock
        self._sock.setblocking(False)
        self.address = self._sock.getsockname()

    async def start(self) -> None:
        """Receive until it is to end."""
        self._over = asyncio.Event()
        if self._owner is not None and self._owner != self.parent:
            self._owner_end = OwnerEnd(self._owner, self._over.set)
        if self._network is None:
            await asyncio.get_running_loop().create_datagram_endpoint(lambda: _Packets(self), sock=self._sock)
        await self._over.wait()

    # -- what comes

    def _received(self, data: bytes, peer: Any) -> None:
        self._counts["received"] += 1
        owner = (self._owner or self.parent)._cell
        message = Datagram(self.id, data, peer)
        if len(data) > self._max_size or not owner.loop.admission.admit_if_room(owner, message, self.id, Lane.DATA):
            self._counts["dropped"] += 1

    def _failed(self, error: BaseException) -> None:
        """A packet was not delivered: nobody listens there, say."""
        self._counts["errors"] += 1
        self.log.debug("a packet could not be delivered: %s", error)

    # -- messages

    def handle_message(self, message: Any) -> object:
        """`SendTo` or `Close`."""
        if isinstance(message, SendTo):
            try:
                self._send(message)
            except Exception as exc:
                self._counts["errors"] += 1
                self.log.error("a packet cannot be sent: %s", exc)
            return None
        if isinstance(message, Close):
            if self._over is not None:
                self._over.set()
            return None
        return UNHANDLED

    def handle_call(self, request: Any) -> object:
        """The same; of `SendTo`, the number of bytes, or the error."""
        return self._send(request) if isinstance(request, SendTo) else self.handle_message(request)

    def _send(self, message: SendTo) -> int:
        data: object = message.data
        if not isinstance(data, bytes | bytearray | memoryview):
            raise BadArgument(f"SendTo() takes bytes, not {type(data).__name__}")
        if self._network is not None:
            self._network.send(bytes(data), message.peer, self.address)
            self._counts["sent"] += 1
            return len(data)
        assert self._sock is not None
        count = self._sock.sendto(data, message.peer)  # asyncio's own `sendto` has its errors told to nobody
        self._counts["sent"] += 1
        return count

    def inspect(self, *items: str) -> Mapping[str, Any]:
        """Where it listens, and what was received, sent and dropped."""
        shown = {"address": self.address, **self._counts}
        return {name: shown[name] for name in items if name in shown} if items else shown

    def terminate(self, reason: ExitReason) -> object:
        """Close the socket."""
        if self._owner_end is not None:
            self._owner_end.cancel()
        if self._network is not None:
            self._network.unbind(self.address)
        if self._transport is not None:
            self._transport.abort()
        elif self._sock is not None:
            self._sock.close()
        return None


class _Packets(asyncio.DatagramProtocol):
    """What asyncio calls."""

    __slots__ = ("_server",)

    def __init__(self, server: UdpServer) -> None:
        self._server = server

    def connection_made(self, transport: Any) -> None:
        """It is up."""
        self._server._transport = transport

    def datagram_received(self, data: bytes, addr: Any) -> None:
        """A packet has come."""
        self._server._received(data, addr)

    def error_received(self, exc: Exception) -> None:
        """A packet was not delivered."""
        self._server._failed(exc)
