"""`TcpConnection`: one stream socket, as a meta-process."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from greenroom.actor.api.behavior import UNHANDLED
from greenroom.actor.messaging.ref import ActorRef
from greenroom.errors import BadArgument, ConnectionClosed
from greenroom.exits import KILLED, NORMAL
from greenroom.meta.process.base import MetaBase
from greenroom.meta.process.metaprocess import MetaProcess
from greenroom.meta.sockets.messages import Close, Closed, CloseWrite, Register, Write
from greenroom.meta.sockets.options import StreamOptions
from greenroom.meta.sockets.wire import Wire
from greenroom.meta.streams.checks import require_seconds, require_type
from greenroom.meta.streams.ownerend import OwnerEnd

if TYPE_CHECKING:
    from greenroom._core.scheduler.loop import Loop
    from greenroom.exits import ExitReason

__all__ = ["TcpConnection"]

SHUTDOWN_TIMEOUT = 2.0
"""Seconds that the other side has to answer the end of a TLS connection."""


DONE, FAILED = 1000, 1011
"""What a WebSocket is told when its owner has ended."""
OWNER_ENDED = object()
"""A notice to itself, behind what its owner wrote."""


class TcpConnection(MetaProcess):
    """A connected stream socket: its owner gets `Connected`, `Received` and `Closed`, and sends `Write` and `Close`.

    `TcpServer` makes one for each connection. Give it a connected socket of your own, TCP or Unix, to hand that to the
    system: `ctx.spawn_meta(TcpConnection(sock))`.

    Args:
        sock: The connected socket. It belongs to the connection from now on.
        owner: Who is told. The parent, by default.
        framing: How the stream is cut: `Raw()`, `Lines()`, `LengthPrefixed()`, `Fixed(n)`, or a function.
        tls: An `ssl.SSLContext` to secure it with.
        server_side: Whether this is the side that shows its certificate first.
        server_hostname: The name that the other side's certificate must have; `""` for none.
        handshake_timeout: Seconds that the other side has for the TLS handshake.
        idle_timeout: Seconds without anything read or written until it is closed.
        half_open: Whether it stays open for writing when the other side writes no more, and the owner gets
            `PeerClosed`.
        linger: Seconds to write out what is left when it is closed.
        high_water: Bytes in the output buffer from which on no further `Write` is handled. What is urgent still is:
            `alias.tell(Close(abort=True), lane=Lane.CONTROL)`.
        write_timeout: Seconds that the other side may not read when that is so, until the connection is closed.
    """

    _on_loop: ClassVar[bool] = True
    _wire: Wire | None = None
    _owner: ActorRef | None = None
    # Tells of the owner's end, which ends the connection.
    _owner_end: OwnerEnd | None = None

    def __init__(
        self,
        sock: socket.socket,
        *,
        owner: ActorRef | None = None,
        framing: Any = None,
        tls: ssl.SSLContext | None = None,
        server_side: bool = False,
        server_hostname: str | None = None,
        handshake_timeout: float = 10.0,
        idle_timeout: float | None = None,
        half_open: bool = False,
        linger: float = 5.0,
        high_water: int = 65_536,
        write_timeout: float | None = 60.0,
    ) -> None:
        self._options = StreamOptions.of(framing, idle_timeout, half_open, linger, high_water, write_timeout)
        require_type("sock", sock, socket.socket, "a connected socket", none=False)
        require_type("tls", tls, ssl.SSLContext, "an ssl.SSLContext: see `tls_server()` and `tls_client()`")
        require_type("owner", owner, ActorRef, "the ref of an actor")
        require_seconds("handshake_timeout", handshake_timeout, positive=True)
        self._sock = sock
        self._tls = tls
        self._handshake = (server_side, server_hostname, handshake_timeout)
        self._owner = owner

    @property
    def _loop(self) -> Loop:
        loop: Loop = self._require_host("a connection").ctx.cell.loop
        return loop

    async def start(self) -> None:
        """Take the socket over."""
        aio = asyncio.get_running_loop()
        wire = self._new_wire()
        side, hostname, timeout = self._handshake
        secured: dict[str, Any] = {}
        if self._tls is not None:
            secured = {"ssl": self._tls, "ssl_handshake_timeout": timeout, "ssl_shutdown_timeout": SHUTDOWN_TIMEOUT}
        self._sock.setblocking(False)
        try:
            await self._secure(aio, wire, side, hostname, secured)
        except (OSError, TimeoutError) as exc:  # an SSLError is an OSError
            owner = self._owner or self.parent
            await self._require_host("a connection").send_patiently(owner, Closed(self.id, "tls failed", exc))
            return
        over = asyncio.Event()
        self._take(wire, self._owner or self.parent, over.set)
        await over.wait()

    async def _secure(
        self, aio: asyncio.AbstractEventLoop, wire: Wire, side: bool, hostname: str | None, secured: dict[str, Any]
    ) -> None:
        if self._tls is not None and not side:
            await aio.create_connection(
                lambda: wire,
                sock=self._sock,
                server_hostname=hostname or "",
                **secured,
            )
        else:
            await aio.connect_accepted_socket(lambda: wire, self._sock, **secured)

    # -- its wire

    def _new_wire(self) -> Wire:
        """One that keeps what comes before it is taken."""
        return Wire(self._options, self._loop, lambda wire: wire.hold_for(self.id))

    def _take(self, wire: Wire, owner: ActorRef, on_lost: Any, *, holds: bool = False) -> None:
        """Let `wire` be its own, and `owner` hear of it; `on_lost` is called when it is over."""
        self._wire = wire
        self._belong_to(owner)
        wire.begin(self.id, owner, holds=holds, on_lost=lambda wire: on_lost(), on_stall=self._stall)
        self._stall(False)

    def _is_unready(self) -> bool:
        """Until it is connected, messages wait."""
        return self._wire is None

    def _stall(self, stalls: bool) -> None:
        """Let messages wait, for as long as the network does not take what they bring; it can be stopped all the same.

        What a closed connection is still sent does not wait: it is told that it is too late.
        """
        if not stalls or not self._is_final():
            self._require_host("a connection").stall(stalls)

    def _is_final(self) -> bool:
        """Whether it is closed, and there is no other wire to come."""
        return self._wire is not None and self._wire.reason is not None

    def _belong_to(self, owner: ActorRef) -> None:
        """Let it end with `owner`."""
        self._leave_owner()
        self._owner = owner
        if owner != self.parent:
            self._owner_end = OwnerEnd(owner, self._owner_ended)

    def _leave_owner(self) -> None:
        owner_end, self._owner_end = self._owner_end, None
        if owner_end is not None:
            owner_end.cancel()

    def _owner_ended(self) -> None:
        """What the owner wrote is still sent, as far as it can be within its time."""
        if self._wire is not None:
            self._require_host("a connection").ctx.cell.notify(OWNER_ENDED)
            self._wire.limit_time("owner ended")

    # -- messages

    def handle_message(self, message: Any) -> object:
        """`Write`, `Close`, `CloseWrite` or `Register`."""
        if type(message) is Write:
            wire = self._wire
            if wire is None or wire.reason is not None or wire.has_finished:
                self._bury(message, "the connection is closed")
                return None
            try:
                frame = wire.encode(message.data)
            except Exception as exc:
                self.log.error("this cannot be written, and is a dead letter: %s", exc)
                self._bury(message, f"cannot be written: {exc}")
                return None
            wire.write(frame)
            return None
        try:
            return self._control(message)
        except BadArgument as exc:
            if not isinstance(message, Close):
                raise
            self.log.error("this cannot be said, and is a dead letter: %s", exc)
            self._bury(message, str(exc))
            return None

    def _control(self, message: object) -> object:
        wire = self._wire
        if isinstance(message, Close):
            if wire is not None:
                wire.close("closed", abort=message.abort, code=message.code, text=message.text)
        elif message is OWNER_ENDED:
            if wire is not None:
                has_failed = self._owner_end is not None and self._owner_end.has_failed
                wire.close("owner ended", code=FAILED if has_failed else DONE)
        elif isinstance(message, CloseWrite):
            if wire is not None and not wire.lost and not wire.close_write():
                self.log.error("TLS cannot close one direction only: send Close() instead")
        elif isinstance(message, Register):
            if not isinstance(message.owner, ActorRef):
                raise BadArgument(f"Register() takes the ref of the new owner, not {message.owner!r}")
            if wire is not None:
                self._belong_to(message.owner)
                wire.hand_over(message.owner)
        else:
            return UNHANDLED
        return None

    def handle_call(self, request: Any) -> object:
        """The same, answered when it is done: of `Write`, with the number of bytes."""
        if type(request) is not Write:
            return self._control(request)
        wire = self._wire
        if wire is None or wire.reason is not None or wire.has_finished:
            reason = "not connected" if wire is None else wire.reason or "its writing was closed"
            raise ConnectionClosed(self.id, reason)
        frame = wire.encode(request.data)
        drained = wire.write(frame)
        if drained is None:
            return len(frame)
        # Not by waiting here: it must be possible to stop it meanwhile.
        reply = self.defer_reply()

        def answer(future: object) -> None:
            if wire.lost:
                reply.fail(ConnectionClosed(self.id, str(wire.reason)))
            else:
                reply.send(len(frame))

        drained.add_done_callback(answer)
        return None

    def _bury(self, message: object, why: str) -> None:
        self._require_host("a connection").bury(message, why)

    def inspect(self, *items: str) -> Mapping[str, Any]:
        """Its peer, how much has passed, and what waits."""
        wire = self._wire
        if wire is None:
            return {"connected": False}
        shown = {
            "connected": not wire.lost,
            "peer": wire.peer,
            "bytes_in": wire.bytes_in,
            "bytes_out": wire.bytes_out,
            "frames_in": wire.frames_in,
            "unwritten": 0 if wire.lost else wire.transport.get_write_buffer_size(),
        }
        return {name: shown[name] for name in items if name in shown} if items else shown

    # -- the end

    def terminate(self, reason: ExitReason) -> object:
        """Close it, and wait until what was written is sent."""
        self._require_host("a connection").stall(False)
        self._leave_owner()
        wire = self._wire
        sock: socket.socket | None = getattr(self, "_sock", None)
        if wire is None:
            if sock is not None:
                sock.close()
            return None
        if wire.lost:
            wire.give_up()
            return None
        wire.close("stopped", abort=reason is KILLED)
        return self._until_lost(wire)

    def _give_up(self) -> None:
        """Nobody waits for it: break it off."""
        if self._wire is not None:
            self._break_off(self._wire)

    async def _until_lost(self, wire: Wire) -> None:
        over = asyncio.Event()
        wire.on_lost(over.set)
        try:
            async with asyncio.timeout(wire.options.linger + SHUTDOWN_TIMEOUT + 1.0):
                await over.wait()
        except TimeoutError:
            pass
        finally:
            self._break_off(wire)

    def _break_off(self, wire: Wire) -> None:
        if not wire.lost:
            wire.transport.abort()
        wire.give_up()


class AcceptedConnection(TcpConnection):
    """One that a server has made: its socket is asyncio's already, and nothing has to run for it."""

    _label: ClassVar[str | None] = "TcpConnection"
    start = MetaBase.start  # type: ignore[assignment]

    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    def _lost(self) -> None:
        """Its wire is over: so is it."""
        host = self._require_host("a connection")
        host.ctx.cell.loop.host.request_end(host.ctx.cell, NORMAL)
