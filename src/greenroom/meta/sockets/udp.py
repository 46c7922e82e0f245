"""`UdpServer`: packets in and out."""

from __future__ import annotations

import asyncio
import socket
from typing import TYPE_CHECKING, Any

from greenroom.actor.api.behavior import UNHANDLED
from greenroom.errors import BadArgument
from greenroom.lanes import Lane
from greenroom.meta import carriers
from greenroom.meta.sockets.messages import Close, Datagram, SendTo
from greenroom.meta.streams.owner import OwnedProcess
from greenroom.validation import require_count, require_port

if TYPE_CHECKING:
    from greenroom.actor.messaging.ref import ActorRef
    from greenroom.exits import ExitReason
    from greenroom.meta.simulated.network import SimulatedPackets
    from greenroom.meta.sockets.bound import Packets

LARGEST = 65_507
"""Bytes that fit into one UDP packet over IPv4."""


class UdpServer(OwnedProcess):
    """A UDP socket. Its owner gets `Datagram(alias, data, peer)`, and sends `SendTo(data, peer)`.

    UDP holds no sender up: a packet for which the owner's mailbox has no room is dropped and counted, and so is one
    that is larger than `max_size`. Ask `SendTo` instead of telling it to hear of an error.

    Args:
        host, port: Where to listen; port 0 for any that is free: see `address`.
        owner: Who is told, and with whom it ends. The parent, by default.
        max_size: Bytes: larger packets are dropped.
        sock: A bound UDP socket to use instead.
        reuse_port: Whether several servers may share the port.
    """

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
        self._packets: Packets | SimulatedPackets | None = None
        self._over = asyncio.Event()
        self._counts = {"received": 0, "sent": 0, "dropped": 0, "errors": 0}
        self.address: Any = None
        """Where it listens, from `init` on."""

    def init(self) -> None:
        """Bind the port: if that fails, there is no server, and `spawn_meta` raises."""
        self._packets = carriers.bind_packets(self._loop, self._where, self._make_socket, self._received, self._failed)
        self.address = self._packets.address

    def _make_socket(self) -> socket.socket:
        if self._sock is not None:
            return self._sock
        family = socket.AF_INET6 if ":" in self._where[0] else socket.AF_INET
        sock = socket.socket(family, socket.SOCK_DGRAM)
        try:
            if self._reuse_port:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            sock.bind(self._where)
        except BaseException:
            sock.close()
            raise
        return sock

    async def start(self) -> None:
        self._end_with(self._recipient(), self._over.set)
        assert self._packets is not None
        await self._packets.open()
        await self._over.wait()

    # -- what comes

    def _received(self, data: bytes, peer: Any) -> None:
        self._counts["received"] += 1
        owner = self._recipient()._cell
        message = Datagram(self.id, data, peer)
        if len(data) > self._max_size or not owner.loop.admission.send_if_room(owner, message, self.id, Lane.DATA):
            self._counts["dropped"] += 1

    def _failed(self, error: BaseException) -> None:
        self._counts["errors"] += 1
        self.log.debug("a packet could not be delivered: %s", error)

    # -- messages

    def handle_message(self, message: Any) -> object:
        if isinstance(message, SendTo):
            try:
                self._send(message)
            except Exception as exc:
                self._counts["errors"] += 1
                self.log.error("a packet cannot be sent: %s", exc)
            return None
        if isinstance(message, Close):
            self._over.set()
            return None
        return UNHANDLED

    def handle_call(self, request: Any) -> object:
        return self._send(request) if isinstance(request, SendTo) else self.handle_message(request)

    def _send(self, message: SendTo) -> int:
        data: object = message.data
        if not isinstance(data, bytes | bytearray | memoryview):
            raise BadArgument(f"SendTo() takes bytes, not {type(data).__name__}")
        assert self._packets is not None
        count = self._packets.send(data, message.peer)
        self._counts["sent"] += 1
        return count

    def _shown(self) -> dict[str, Any]:
        return {"address": self.address, **self._counts}

    def terminate(self, reason: ExitReason) -> object:
        self._leave_owner()
        if self._packets is not None:
            self._packets.close()
        return None
