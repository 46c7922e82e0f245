"""One stream of bytes, between asyncio's transport and the owner of a connection.

**To the owner.** The owner is told frames as they come. If its mailbox is full they wait, and nothing is read from the
other side: the network holds it up.

**From the owner.** What is written goes into the transport's buffer. While that is full the connection handles no
further message, and its own mailbox fills: senders are held up, or told.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from greenroom.errors import FrameTooLarge
from greenroom.meta.sockets.messages import Closed, Connected, PeerClosed, Received
from greenroom.meta.streams.framing import RAW, Decoder, Framing, framing_of
from greenroom.meta.streams.owner import Outlet
from greenroom.validation import require_count, require_seconds

try:
    from fcntl import ioctl
    from termios import FIONREAD as _FIONREAD

    HOW_MANY_UNREAD = int(_FIONREAD)
except ImportError:  # Windows
    HOW_MANY_UNREAD = 0

if TYPE_CHECKING:
    from greenroom._core.scheduler.loop import Loop
    from greenroom._core.timing.timers import ScheduledCall
    from greenroom.actor.messaging.ref import ActorRef, Alias

SHUTDOWN_TIMEOUT = 2.0
"""Seconds that the other side has to answer the end of a TLS connection."""


@dataclass(slots=True)
class StreamOptions:
    """How a stream is read, written and closed."""

    framing: Any = RAW
    idle_timeout: float | None = None
    half_open: bool = False
    linger: float = 5.0
    high_water: int = 65_536
    write_timeout: float | None = 60.0

    def __post_init__(self) -> None:
        require_seconds("idle_timeout", self.idle_timeout, none=True)
        require_seconds("linger", self.linger)
        require_count("high_water", self.high_water)
        require_seconds("write_timeout", self.write_timeout, none=True)
        self.framing = framing_of(self.framing)


def secured(tls: Any, handshake_timeout: float) -> dict[str, Any]:
    """asyncio's options for a connection that `tls`, if it is a context, secures."""
    if tls is None:
        return {}
    return {"ssl": tls, "ssl_handshake_timeout": handshake_timeout, "ssl_shutdown_timeout": SHUTDOWN_TIMEOUT}


def has_unread(transport: Any) -> bool:
    """True if something has come on a transport's socket that was not read: closing it would reset the connection."""
    sock = transport.get_extra_info("socket")
    if sock is None or not HOW_MANY_UNREAD:
        return False
    unread = bytearray(4)
    try:
        ioctl(sock.fileno(), HOW_MANY_UNREAD, unread)  # pyright: ignore[reportPossiblyUnboundVariable]
    except OSError:
        return False
    return int.from_bytes(unread, sys.byteorder) > 0


def end_writing(transport: Any) -> None:
    with suppress(OSError):  # asyncio raises what the system knows: that the other side has reset the connection
        transport.write_eof()


def close_when_read(transport: Any) -> None:
    """Close a transport whose other side has sent, or may send, what is not read.

    Closing at once would have the system reset the connection, and the other side lose what it has not read. So the
    other side sees the end of the stream, and what it sends is thrown away until it closes too.
    """
    end_writing(transport)
    transport.resume_reading()


class Wire(Outlet, asyncio.Protocol):
    """The protocol of one asyncio transport. All its methods are for the loop's own thread."""

    __slots__ = (
        "_alarm",
        "_decoder",
        "_drained",
        "_has_ended",
        "_heard",
        "_is_given_up",
        "_on_lost",
        "_on_made",
        "_on_stall",
        "_stall_alarm",
        "bytes_in",
        "bytes_out",
        "error",
        "frames_in",
        "has_finished",
        "lost",
        "options",
        "peer",
        "reason",
        "transport",
    )

    transport: Any

    def __init__(self, options: StreamOptions, loop: Loop, on_made: Callable[[Wire], object]) -> None:
        super().__init__(loop)
        self.options = options
        # Called when the connection is up; and when it is over and the owner knows.
        self._on_made = on_made
        self._on_lost: list[Callable[[], object]] = []
        # Called with True when no further message is to be handled, and with False when it is again.
        self._on_stall: Callable[[bool], object] | None = None
        self._decoder: Decoder = options.framing.decoder()
        # Whether the connection is over as soon as it is lost, though messages wait for the owner.
        self._is_given_up = False
        # Done when there is room in the transport's buffer again; None while there is.
        self._drained: asyncio.Future[None] | None = None
        self._alarm: ScheduledCall | None = None
        # Closes the connection if the other side does not read for too long.
        self._stall_alarm: ScheduledCall | None = None
        self._heard = 0.0
        # Whether the other side writes no more; and whether this side writes no more.
        self._has_ended = False
        self.has_finished = False
        self.peer: Any = None
        self.reason: str | None = None
        self.error: BaseException | None = None
        self.lost = False
        self.bytes_in = self.bytes_out = self.frames_in = 0

    # -- what asyncio calls

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        self.peer = transport.get_extra_info("peername")
        transport.set_write_buffer_limits(high=self.options.high_water)
        self._on_made(self)
        if not self.lost and not self.holds:
            self._watch_for_silence(self.options.idle_timeout)

    def data_received(self, data: bytes) -> None:
        self.bytes_in += len(data)
        if self._alarm is not None:
            self._heard = self._loop.now()
        if self.reason is None:  # else the connection is being closed, and nothing is wanted
            self._tell_frames(partial(self._decoder.feed, data), "bad frame")

    def _tell_frames(self, cut: Callable[[], Iterable[Any]], if_bad: str) -> None:
        try:
            for frame in cut():
                self.frames_in += 1
                self.tell(Received(self.alias, frame))
        except FrameTooLarge as exc:
            self.close("frame too large", exc, abort=True)
        except Exception as exc:
            self.close(if_bad, exc, abort=True)

    def eof_received(self) -> bool:
        """The other side writes no more. Returns True to go on writing."""
        if self.reason is not None:
            return False
        if self._has_ended:
            return True  # asyncio calls this twice
        self._has_ended = True
        self._tell_frames(self._decoder.finish, "truncated")
        if self.reason is not None:
            return False
        is_plain = self.transport.get_extra_info("sslcontext") is None
        if self.options.half_open and is_plain:
            self.tell(PeerClosed(self.alias))
            if not self.has_finished:
                return True
        self._set_reason("eof", None)
        return False

    def connection_lost(self, exc: BaseException | None) -> None:
        self.lost = True
        self._set_alarm(None)
        self._set_reason("eof" if exc is None else "reset", exc)
        self._wake_writers()
        if self.has_live_owner() or self.is_behind():
            self.tell(self.last_message())
        if self.holds and self._owner is not None:
            self.holds = False  # there will be no other owner
            self._deliver_pending()
        if not self.is_behind() or self._is_given_up:
            self._report_lost()

    def pause_writing(self) -> None:
        self._drained = asyncio.get_running_loop().create_future()
        if self._on_stall is not None:
            self._on_stall(True)
        if self.options.write_timeout is not None:
            self._close_after(self.options.write_timeout, "not reading")

    def resume_writing(self) -> None:
        self._wake_writers()
        if self._on_stall is not None and self.reason is None:
            self._on_stall(False)

    def _wake_writers(self) -> None:
        if self._stall_alarm is not None:
            self._stall_alarm.cancel()
            self._stall_alarm = None
        drained, self._drained = self._drained, None
        if drained is not None and not drained.done():
            drained.set_result(None)

    # -- time

    def _set_alarm(self, seconds: float | None, call: Callable[[], object] = object) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
        self._alarm = None if seconds is None else self._loop.call_later(seconds, call)

    def _close_after(self, seconds: float, reason: str) -> None:
        self._stall_alarm = self._loop.call_later(seconds, partial(self.close, reason, abort=True))

    def _watch_for_silence(self, seconds: float | None) -> None:
        if seconds is not None:
            self._heard = self._loop.now()
            self._set_alarm(seconds, self._look_if_idle)

    def _look_if_idle(self) -> None:
        limit = self.options.idle_timeout
        if limit is None or self.transport.is_closing():
            return
        quiet = self._loop.now() - self._heard
        if quiet >= limit and self.is_behind():  # the owner is slow, not the other side
            self._heard = self._loop.now()
            quiet = 0.0
        if quiet >= limit:
            self.close("idle")
        else:
            self._set_alarm(limit - quiet, self._look_if_idle)

    # -- to the owner

    def hold_for(self, alias: Alias) -> None:
        """Become the wire of `alias`, and keep what comes until there is an owner."""
        self.alias = alias
        self.hold()

    def first_message(self) -> Connected:
        return Connected(self.alias, self.peer)

    def last_message(self) -> Closed:
        return Closed(self.alias, self.reason or "closed", self.error)

    def begin(
        self,
        alias: Alias,
        owner: ActorRef,
        *,
        holds: bool,
        on_lost: Callable[[], object],
        on_stall: Callable[[bool], object],
    ) -> None:
        """Tell `owner` that the connection is up; with `holds`, nothing else until there is another owner."""
        self.alias = alias
        self._on_lost.append(on_lost)
        self._on_stall = on_stall
        self._owner = owner._cell
        held, self._pending = self._pending, None
        self.holds = False
        self.tell(self.first_message())
        for message in held or ():  # what came before there was an owner
            self.tell(message)
        if held is not None and not holds and not self.is_behind():
            self._resume()
        if holds:
            self.hold()

    def close_unless_registered(self, seconds: float) -> None:
        def look() -> None:
            if self.holds and not self.lost:
                self.close("not registered")

        if self._alarm is None:
            self._set_alarm(seconds, look)

    def hand_over(self, owner: ActorRef) -> None:
        if self.holds and self._alarm is not None:
            self._set_alarm(None)
            self._watch_for_silence(self.options.idle_timeout)
        super().hand_over(owner)

    def _pause(self) -> None:
        if not self.lost and not self.transport.is_closing():
            self.transport.pause_reading()

    def _resume(self) -> None:
        if self.lost:
            self._report_lost()
        elif not self.transport.is_closing() and not self._has_ended:
            self.transport.resume_reading()

    def on_lost(self, tell: Callable[[], object]) -> None:
        """Call `tell` too when the connection is lost, without waiting for the owner."""
        self._is_given_up = True
        self._on_lost.append(tell)

    def _report_lost(self) -> None:
        on_lost, self._on_lost = self._on_lost, []
        for call in on_lost:
            call()

    # -- from the owner

    def encode(self, data: Any) -> bytes:
        framing: Framing = self.options.framing
        return framing.encode(data)

    def write(self, frame: bytes) -> asyncio.Future[None] | None:
        """Send a frame. Returns what to wait for before the next, if the buffer is full."""
        self.bytes_out += len(frame)
        if self._alarm is not None:
            self._heard = self._loop.now()
        self.transport.write(frame)
        return self._drained

    def is_drained(self) -> bool:
        return self._drained is None

    def close_write(self) -> bool:
        """Send no more. Returns False if the transport cannot do that."""
        if not self.transport.can_write_eof():
            return False
        if not self.has_finished:
            self.has_finished = True
            end_writing(self.transport)
            if self._has_ended:
                self.close("closed")  # neither side writes any more
        return True

    def close(
        self,
        reason: str,
        error: BaseException | None = None,
        *,
        abort: bool = False,
        code: int = 1000,
        text: str = "",
    ) -> None:
        """Close when all is written, but no later than it may linger; with `abort` at once."""
        self._set_reason(reason, error)
        if self.lost:
            return
        if abort:
            self.transport.abort()
        elif not self.transport.is_closing():
            self._close_transport(expects_more=not self.has_finished and has_unread(self.transport))

    def _close_transport(self, *, expects_more: bool) -> None:
        self._set_alarm(self.options.linger, self.transport.abort)
        if self.transport.is_closing():
            return
        if expects_more and not self._has_ended and self.transport.can_write_eof():
            self.has_finished = True
            close_when_read(self.transport)
        else:
            self.transport.close()

    def limit_time(self, reason: str) -> None:
        """Close for `reason` when what is left could not be written within `linger`."""
        if self._stall_alarm is not None:
            self._stall_alarm.cancel()
        if not self.lost:
            self._close_after(self.options.linger, reason)

    def _set_reason(self, reason: str, error: BaseException | None) -> None:
        """Write no more. The first reason counts."""
        if self.reason is None:
            self.reason, self.error = reason, error
            if self._on_stall is not None:
                self._on_stall(True)
