"""One stream of bytes, between asyncio's transport and the owner of a connection.

**To the owner.** Frames are told to the owner as they come. If its mailbox is full they wait, and nothing is read from
the other side: the network holds it up.

**From the owner.** What is written goes into the transport's buffer. While that is full the connection handles no
further message, and its own mailbox fills: whoever writes is held up, or told.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from greenroom.errors import FrameTooLarge
from greenroom.meta.sockets.messages import Closed, Connected, PeerClosed, Received
from greenroom.meta.streams.alarms import CallAlarm, set_call
from greenroom.meta.streams.outlet import Outlet
from greenroom.meta.streams.unread import end_writing, has_unread

if TYPE_CHECKING:
    from greenroom._core.scheduler.loop import Loop
    from greenroom.actor.messaging.ref import ActorRef, Alias
    from greenroom.meta.sockets.options import StreamOptions

__all__ = ["Wire"]


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
        # Called when it is up; and, once all has been told, when it is over.
        self._on_made = on_made
        self._on_lost: Callable[[Wire], object] | None = None
        # Called when no further message is to be handled, for now, and when they are again.
        self._on_stall: Callable[[bool], object] | None = None
        self._decoder = options.framing.decoder()
        # Whether it is over when it is lost, whatever waits.
        self._is_given_up = False
        # Done when there is room in the transport's buffer again; None while there is.
        self._drained: asyncio.Future[None] | None = None
        self._alarm: CallAlarm | None = None
        # Rings if the other side does not read for too long.
        self._stall_alarm: CallAlarm | None = None
        self._heard = 0.0
        # Whether the other side writes no more; and whether this one does not.
        self._has_ended = False
        self.has_finished = False
        self.peer: Any = None
        self.reason: str | None = None
        self.error: BaseException | None = None
        self.lost = False
        self.bytes_in = self.bytes_out = self.frames_in = 0

    # -- what asyncio calls

    def connection_made(self, transport: Any) -> None:
        """It is up."""
        self.transport = transport
        self.peer = transport.get_extra_info("peername")
        transport.set_write_buffer_limits(high=self.options.high_water)
        self._on_made(self)
        if self.options.idle_timeout is not None and not self.lost and not self.holds:
            self._heard = self._loop.now()
            self._alarm = set_call(self._loop, self.options.idle_timeout, self._look_if_idle)

    def data_received(self, data: bytes) -> None:
        """Something has come."""
        self.bytes_in += len(data)
        if self._alarm is not None:
            self._heard = self._loop.now()
        if self.reason is not None:
            return  # it is being closed: nobody wants it
        alias = self.alias
        try:
            for frame in self._decoder.feed(data):
                self.frames_in += 1
                self.tell(Received(alias, frame))
        except FrameTooLarge as exc:
            self.close("frame too large", exc, abort=True)
        except Exception as exc:
            self.close("bad frame", exc, abort=True)

    def eof_received(self) -> bool:
        """The other side writes no more; True to go on writing."""
        if self.reason is not None:
            return False
        if self._has_ended:
            return True  # asyncio says so again
        self._has_ended = True
        try:
            for frame in self._decoder.finish():
                self.frames_in += 1
                self.tell(Received(self.alias, frame))
        except FrameTooLarge as exc:
            self.close("frame too large", exc, abort=True)
            return False
        except Exception as exc:
            self.close("truncated", exc, abort=True)
            return False
        is_plain = self.transport.get_extra_info("sslcontext") is None
        if self.options.half_open and is_plain:
            self.tell(PeerClosed(self.alias))
            if not self.has_finished:
                return True
        self._leave("eof", None)
        return False

    def connection_lost(self, exc: BaseException | None) -> None:
        """It is over."""
        self.lost = True
        if self._alarm is not None:
            self._alarm.disarm(self._loop.timers)
            self._alarm = None
        self._leave("eof" if exc is None else "reset", exc)
        self._let_writers_go()
        if self.is_heard() or self.is_behind():
            self.tell(self.farewell())
        if self.holds and self._owner is not None:
            self.holds = False  # nobody else will be its owner
            self._deliver_pending()
        if not self.is_behind() or self._is_given_up:
            self._over()

    def pause_writing(self) -> None:
        """Its buffer is full."""
        self._drained = asyncio.get_running_loop().create_future()
        if self._on_stall is not None:
            self._on_stall(True)
        if self.options.write_timeout is not None:
            give_up = partial(self.close, "not reading", abort=True)
            self._stall_alarm = set_call(self._loop, self.options.write_timeout, give_up)

    def resume_writing(self) -> None:
        """There is room again."""
        self._let_writers_go()
        if self._on_stall is not None and self.reason is None:
            self._on_stall(False)

    def _let_writers_go(self) -> None:
        if self._stall_alarm is not None:
            self._stall_alarm.disarm(self._loop.timers)
            self._stall_alarm = None
        drained, self._drained = self._drained, None
        if drained is not None and not drained.done():
            drained.set_result(None)

    # -- to the owner

    def hold_for(self, alias: Alias) -> None:
        """It is `alias`'s, who has yet to say whom to tell: what comes waits."""
        self.alias = alias
        self.hold()

    def greeting(self) -> Connected:
        """What its owner is told first."""
        return Connected(self.alias, self.peer)

    def farewell(self) -> Closed:
        """What its owner is told last."""
        return Closed(self.alias, self.reason or "closed", self.error)

    def begin(
        self,
        alias: Alias,
        owner: ActorRef,
        *,
        holds: bool,
        on_lost: Callable[[Wire], object],
        on_stall: Callable[[bool], object],
    ) -> None:
        """Tell `owner` that it is up; with `holds`, nothing else until it has another one."""
        self.alias = alias
        self._on_lost = on_lost
        self._on_stall = on_stall
        self._owner = owner._cell
        held: deque[object] | None = self._pending
        self._pending = None
        self.holds = False
        self.tell(self.greeting())
        for message in held or ():  # what came before there was an owner
            self.tell(message)
        if held is not None and not holds and not self.is_behind():
            self._resume()
        if holds:
            self.hold()

    def close_unless_registered(self, seconds: float) -> None:
        """Close it if it has no other owner by then."""

        def look() -> None:
            if self.holds and not self.lost:
                self.close("not registered")

        if self._alarm is None:
            self._alarm = set_call(self._loop, seconds, look)

    def hand_over(self, owner: ActorRef) -> None:
        """Let what comes from now on, and what waits, go to `owner`."""
        if self.holds and self._alarm is not None:
            self._alarm.disarm(self._loop.timers)
            self._alarm = None
            if self.options.idle_timeout is not None:
                self._heard = self._loop.now()
                self._alarm = set_call(self._loop, self.options.idle_timeout, self._look_if_idle)
        super().hand_over(owner)

    def _pause(self) -> None:
        if not self.lost and not self.transport.is_closing():
            self.transport.pause_reading()

    def _resume(self) -> None:
        if self.lost:
            self._over()
        elif not self.transport.is_closing() and not self._has_ended:
            self.transport.resume_reading()

    def on_lost(self, tell: Callable[[], object]) -> None:
        """Have `tell` called too when it is lost, whoever has yet to be told: nobody is waited for any more."""
        self._is_given_up = True
        before = self._on_lost

        def both(wire: Wire) -> None:
            if before is not None:
                before(wire)
            tell()

        self._on_lost = both

    def _over(self) -> None:
        on_lost, self._on_lost = self._on_lost, None
        if on_lost is not None:
            on_lost(self)

    # -- from the owner

    def encode(self, data: Any) -> bytes:
        """A frame as it goes over the wire."""
        return self.options.framing.encode(data)

    def write(self, frame: bytes) -> asyncio.Future[None] | None:
        """Send a frame; what to wait for before the next, if the buffer is full."""
        self.bytes_out += len(frame)
        if self._alarm is not None:
            self._heard = self._loop.now()
        self.transport.write(frame)
        return self._drained

    def is_drained(self) -> bool:
        """Whether there is room in the transport's buffer."""
        return self._drained is None

    def close_write(self) -> bool:
        """Send no more; False when that is not possible here."""
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
        """Close it: when all is written, but no later than it may linger; with `abort` at once."""
        self._leave(reason, error)
        if self.lost:
            return
        if abort:
            self.transport.abort()
            return
        if not self.transport.is_closing():
            if self._alarm is not None:
                self._alarm.disarm(self._loop.timers)
            self._alarm = set_call(self._loop, self.options.linger, self.transport.abort)
            if self._has_unread() and self.transport.can_write_eof():
                # Closing now would have the system reset the connection, and the other side lose what it has not read.
                # So the other side sees the end of the stream, and what it sends is thrown away until it closes too.
                self.has_finished = True
                end_writing(self.transport)
                self.transport.resume_reading()
            else:
                self.transport.close()

    def limit_time(self, reason: str) -> None:
        """It is to be closed when all is written: see to it that this does not take for ever."""
        if self._stall_alarm is not None:
            self._stall_alarm.disarm(self._loop.timers)
        if not self.lost:
            close = partial(self.close, reason, abort=True)
            self._stall_alarm = set_call(self._loop, self.options.linger, close)

    def _has_unread(self) -> bool:
        """Whether the other side has sent something that was not read."""
        return not self._has_ended and not self.has_finished and has_unread(self.transport)

    def _leave(self, reason: str, error: BaseException | None) -> None:
        """It is closed from now on, because of the first reason there is: nothing more can be written."""
        if self.reason is None:
            self.reason, self.error = reason, error
            if self._on_stall is not None:
                self._on_stall(True)

    def _look_if_idle(self) -> None:
        quiet = self._loop.now() - self._heard
        limit = self.options.idle_timeout
        if limit is None or self.transport.is_closing():
            return
        if quiet >= limit and self.is_behind():  # it is the owner who is slow
            self._heard = self._loop.now()
            quiet = 0.0
        if quiet >= limit:
            self.close("idle")
        else:
            self._alarm = set_call(self._loop, limit - quiet, self._look_if_idle)
