"""`TcpConnection`: one stream socket, as a meta-process."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar

from greenroom.actor.api.behavior import UNHANDLED
from greenroom.actor.messaging.ref import ActorRef
from greenroom.actor.messaging.waiting import wait_for_room
from greenroom.errors import BadArgument, ConnectionClosed
from greenroom.exits import KILLED
from greenroom.lanes import Lane
from greenroom.meta.process.metaprocess import MetaProcess
from greenroom.meta.sockets.messages import Close, Closed, CloseWrite, Register, Write
from greenroom.meta.sockets.wire import SHUTDOWN_TIMEOUT, StreamOptions, Wire, secured
from greenroom.meta.streams.owner import OwnedProcess
from greenroom.validation import require_instance, require_seconds

if TYPE_CHECKING:
    from greenroom.exits import ExitReason

DONE, FAILED = 1000, 1011
"""The codes that close a WebSocket when its owner has ended."""
OWNER_ENDED = object()
"""A notice that a connection sends itself, behind what its owner wrote."""


class TcpConnection(OwnedProcess):
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

    _wire: Wire | None = None
    _sock: socket.socket | None = None

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
        self._options = StreamOptions(framing, idle_timeout, half_open, linger, high_water, write_timeout)
        require_instance("sock", sock, socket.socket, "a connected socket")
        require_instance(
            "tls", tls, ssl.SSLContext | None, "an ssl.SSLContext: see `tls_server()` and `tls_client()`, or None"
        )
        require_instance("owner", owner, ActorRef | None, "the ref of an actor, or None")
        require_seconds("handshake_timeout", handshake_timeout, positive=True)
        self._sock = sock
        self._tls = tls
        self._handshake = (server_side, server_hostname, handshake_timeout)
        self._owner = owner

    async def start(self) -> None:
        aio = asyncio.get_running_loop()
        wire = self._new_wire()
        is_server, hostname, timeout = self._handshake
        tls = secured(self._tls, timeout)
        sock = self._sock
        assert sock is not None
        sock.setblocking(False)
        try:
            if tls and not is_server:
                await aio.create_connection(lambda: wire, sock=sock, server_hostname=hostname or "", **tls)
            else:
                await aio.connect_accepted_socket(lambda: wire, sock, **tls)
        except (OSError, TimeoutError) as exc:  # an SSLError is an OSError
            await self._tell_owner_of_failure("tls failed", exc)
            return
        over = asyncio.Event()
        self._take(wire, self._recipient(), over.set)
        await over.wait()

    async def _tell_owner_of_failure(self, reason: str, error: BaseException) -> None:
        cell = self._recipient()._cell
        closed = Closed(self.id, reason, error)
        if not cell.loop.admission.send_if_room(cell, closed, self.id, Lane.DATA):
            await wait_for_room(cell, closed, self.id, Lane.DATA, None)

    # -- its wire

    def _new_wire(self) -> Wire:
        """A wire that keeps what comes before `_take`."""
        return Wire(self._options, self._loop, lambda wire: wire.hold_for(self.id))

    def _take(self, wire: Wire, owner: ActorRef, on_lost: Callable[[], object], *, holds: bool = False) -> None:
        """Take over `wire` for `owner`. Calls `on_lost` when the wire is over."""
        self._wire = wire
        self._end_with(owner, self._owner_ended)
        wire.begin(self.id, owner, holds=holds, on_lost=on_lost, on_stall=self._stall)
        self._stall(False)

    def _is_unready(self) -> bool:
        return self._wire is None

    def _stall(self, stalls: bool) -> None:
        # Messages to a closed connection do not wait: the sender is told that it is too late.
        if not stalls or not self._is_final():
            self._spawned().stall(stalls)

    def _is_final(self) -> bool:
        """True if the connection is closed, and no other wire is to come."""
        return self._wire is not None and self._wire.reason is not None

    def _owner_ended(self) -> None:
        # What the owner wrote is still sent, as far as `linger` lets it.
        if self._wire is not None:
            self._spawned().ctx.cell.notify(OWNER_ENDED)
            self._wire.limit_time("owner ended")

    # -- messages

    def handle_message(self, message: Any) -> object:
        if type(message) is not Write:
            try:
                return self._control(message)
            except BadArgument as exc:
                if not isinstance(message, Close):
                    raise
                self.log.error("this cannot be said, and is a dead letter: %s", exc)
                self._bury(message, str(exc))
                return None
        wire = self._wire
        if wire is None or wire.reason is not None or wire.has_finished:
            self._bury(message, "the connection is closed")
            return None
        try:
            frame = wire.encode(message.data)
        except Exception as exc:
            self._bury_unwritten(message, exc)
            return None
        wire.write(frame)
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
                self._end_with(message.owner, self._owner_ended)
                wire.hand_over(message.owner)
        else:
            return UNHANDLED
        return None

    def handle_call(self, request: Any) -> object:
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
        # Waiting here would keep the connection from being stopped meanwhile.
        reply = self.defer_reply()

        def answer(future: object) -> None:
            if wire.lost:
                reply.fail(ConnectionClosed(self.id, str(wire.reason)))
            else:
                reply.send(len(frame))

        drained.add_done_callback(answer)
        return None

    def _shown(self) -> dict[str, Any]:
        wire = self._wire
        if wire is None:
            return {"connected": False}
        return {
            "connected": not wire.lost,
            "peer": wire.peer,
            "bytes_in": wire.bytes_in,
            "bytes_out": wire.bytes_out,
            "frames_in": wire.frames_in,
            "unwritten": 0 if wire.lost else wire.transport.get_write_buffer_size(),
        }

    # -- the end

    def terminate(self, reason: ExitReason) -> object:
        self._spawned().stall(False)
        self._leave_owner()
        wire = self._wire
        if wire is None:
            if self._sock is not None:
                self._sock.close()
            return None
        if wire.lost:
            wire.discard()
            return None
        wire.close("stopped", abort=reason is KILLED)
        return self._until_lost(wire)

    async def _until_lost(self, wire: Wire) -> None:
        over = asyncio.Event()
        wire.on_lost(over.set)
        try:
            async with asyncio.timeout(wire.options.linger + SHUTDOWN_TIMEOUT + 1.0):
                await over.wait()
        except TimeoutError:
            pass
        finally:
            self._give_up()

    def _give_up(self) -> None:
        wire = self._wire
        if wire is not None:
            if not wire.lost:
                wire.transport.abort()
            wire.discard()


class AcceptedConnection(TcpConnection):
    """A connection that a server has accepted: its transport is up, and nothing has to run for it."""

    _label: ClassVar[str | None] = "TcpConnection"
    # Its name in the log.
    _kind: ClassVar[str] = "connection"
    start = MetaProcess.start  # type: ignore[assignment]

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
