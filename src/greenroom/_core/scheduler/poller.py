"""How a loop lives inside asyncio or uvloop.

Each tick is one asyncio callback. When there is more to do the next tick is asked for at once, behind whatever asyncio
has ready; when there is not, the thread sleeps in asyncio's own poll until the next deadline, a future, an fd, or
another thread's first message ends it. Nothing here is done per message.

**Other threads.** A thread that waits for the GIL is to get it within `sys.getswitchinterval()`. But asyncio gives it
up in each poll, for a moment: the waiting thread is woken, finds it taken again, and begins its wait anew. Beside a
loop that is always busy, that goes on for seconds. So a busy loop, if there are others, gives it up long enough once in
that time.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from contextlib import suppress
from contextvars import Context
from functools import partial
from math import inf
from threading import active_count
from time import sleep
from weakref import WeakSet, ref

from greenroom._core.scheduler.fdwatch import FdWatches
from greenroom._core.scheduler.loop import Loop
from greenroom.clock import ManualClock
from greenroom.errors import AlreadyAttached, LoopStopped, WaitsForItself

_LONGEST_SLEEP = 3600.0
"""Seconds: event loops differ in how far ahead they can look."""
_LONG_ENOUGH = 0.00005
"""Seconds for another thread to wake up and take the GIL."""


_attached: dict[int, WeakSet[Poller]] = {}
"""The pollers that run on each thread. Each entry is written by that thread alone."""


def _introduce(thread: int) -> None:
    """Tell all loops of a thread of one another: nearly always there is one."""
    together = list(_attached[thread])
    if not together:
        del _attached[thread]
    for poller in together:
        others = [ref(other.loop.runq) for other in together if other is not poller and other._place is poller._place]
        poller.loop.visits.set_neighbours(tuple(others))


def _has_gil() -> bool:
    """Whether one thread of this process runs Python code at a time."""
    is_enabled: Callable[[], bool] | None = getattr(sys, "_is_gil_enabled", None)
    return is_enabled is None or is_enabled()


class Poller:
    """Ties one loop to one asyncio loop, from `attach` to `detach`; both on that loop's thread."""

    def __init__(self, loop: Loop) -> None:
        self.loop = loop
        self._aio: asyncio.AbstractEventLoop | None = None
        self._is_manual = isinstance(loop.clock, ManualClock)
        self._soon: asyncio.Handle | None = None
        # The next wake-up by the clock, and when it is. It may come too early, because what it was for is over: then it
        # finds nothing to do. Setting it anew in each tick would cost an ask from outside a third (`make bench`, P6).
        self._later: asyncio.TimerHandle | None = None
        self._later_at = inf
        self._idle: list[asyncio.Future[None]] = []
        self._watches: FdWatches | None = None
        # Where ticks run, so that asyncio need not copy a context for each.
        self._context = Context()
        # Whether a clock that is turned by hand looks at this loop; else it looks at several as one.
        self.is_timeline = True
        # Called after each tick, if set: what the tick brought about can be sent in one piece.
        self.after_tick: Callable[[], object] | None = None
        # Where it was attached: on which thread, and on which virtual one if threads are not real.
        self._thread = 0
        self._place: asyncio.AbstractEventLoop | None = None
        # For how many seconds the loop may be busy before others get the GIL; and since when it is, or -1.
        self._switch_interval = inf
        self._busy_since = -1.0
        # Bound once, from attach to detach.
        self._callback: Callable[[], None] | None = None

    def attach(self, aio: asyncio.AbstractEventLoop | None = None) -> None:
        """Run the loop on the calling thread, inside `aio` (by default the running one)."""
        loop = self.loop
        if loop.runq.rouse is not None:
            raise AlreadyAttached("this loop is attached already: detach it first")
        if loop.closed:
            raise LoopStopped("a closed loop cannot run again: make a new one")
        inside = asyncio.get_running_loop() if aio is None else aio
        loop.adopt()
        self._aio = inside
        self._callback = self._tick_due
        self._watches = FdWatches(self._aio, loop.limits.max_io_watches)
        loop.visits.stepper.aio = self._aio
        loop.inbound.rouse_by(partial(self._rouse_from_outside, inside))
        loop.runq.rouse = self._tick_soon
        if isinstance(loop.clock, ManualClock) and self.is_timeline:
            loop.clock.join(self)
        loop.runq.asleep = False
        self._thread = loop.runq.thread
        self._place = None if loop.world.is_real else inside
        if loop.world.is_real and _has_gil():
            self._switch_interval = sys.getswitchinterval()
        _attached.setdefault(self._thread, WeakSet()).add(self)
        _introduce(self._thread)
        self._tick_soon()

    def detach(self) -> None:
        """Give the loop's thread back for good: no tick comes any more. Messages still queued stay queued."""
        if self._aio is None:
            return
        loop = self.loop
        _attached[self._thread].discard(self)
        _introduce(self._thread)
        loop.visits.set_neighbours(())
        loop.inbound.note_awake()
        loop.runq.asleep = False
        loop.visits.stepper.leave()
        loop.visits.stepper.aio = None
        loop.inbound.rouse_by(None)
        loop.runq.rouse = None
        if isinstance(loop.clock, ManualClock):
            loop.clock.leave(self)
        if self._watches is not None:
            self._watches.close()
            self._watches = None
        for handle in (self._soon, self._later):
            if handle is not None:
                handle.cancel()
        self._soon = self._later = None
        self._later_at = inf
        self._aio = self._callback = self._place = None
        self._tell_idle()

    def _tick_soon(self) -> None:
        """Ask asyncio for a tick, behind what it has ready."""
        aio = self._aio
        if self._soon is None and aio is not None:
            try:
                self._soon = aio.call_soon(self._callback, context=self._context)  # type: ignore[arg-type]
            except RuntimeError:
                # asyncio was closed before we were detached: what is queued stays queued.
                if not aio.is_closed():
                    raise

    def _rouse_from_outside(self, aio: asyncio.AbstractEventLoop) -> None:
        """Another thread posted something while this one slept: the one write that ends a sleep."""
        # An asyncio loop that was closed before we were detached has no more ticks for us: the message waits.
        with suppress(RuntimeError):
            aio.call_soon_threadsafe(self._tick_now, aio, context=self._context)

    def _tick_now(self, aio: asyncio.AbstractEventLoop) -> None:
        # The call may have been on its way while the loop moved to another asyncio loop.
        if self._aio is aio and self._soon is None:
            self._tick()

    def _tick_due(self) -> None:
        self._soon = None
        self._tick()

    def _tick(self) -> None:
        loop = self.loop
        if self._soon is not None:
            self._soon.cancel()
            self._soon = None
        loop.runq.asleep = False
        loop.inbound.note_awake()
        took_in = loop.inbound.waiting()
        try:
            loop.tick()
            if self.after_tick is not None:
                self.after_tick()
        finally:
            if self._aio is not None:
                self._next(took_in)

    def _next(self, took_in: bool) -> None:
        """Arrange for the next tick, or for sleep.

        After foreign messages the loop looks once more before it sleeps: who sends, sends again, and a turn of asyncio
        costs less than a sleep and a wake-up. With four threads sending, that doubles the rate (`make bench`, P10).
        """
        loop = self.loop
        if took_in or loop.has_work() or not loop.inbound.fall_asleep():
            self._let_others_run()
            self._tick_soon()
            return
        loop.runq.asleep = True
        self._busy_since = -1.0
        deadline = loop.timers.next_deadline()
        moment = loop.visits.trim_at if deadline is None else min(deadline, loop.visits.trim_at)
        if moment < self._later_at and not self._is_manual:
            self._set_alarm(moment)
        if self._idle:
            self._tell_idle()

    def _let_others_run(self) -> None:
        """Give the GIL up for a while, if it is time to."""
        now = self.loop.now()
        if self._busy_since < 0.0:
            self._busy_since = now
        elif now - self._busy_since >= self._switch_interval:
            self._busy_since = now
            if active_count() > 1:
                sleep(_LONG_ENOUGH)

    def _set_alarm(self, moment: float) -> None:
        if self._later is not None:
            self._later.cancel()
        aio: asyncio.AbstractEventLoop = self._aio  # type: ignore[assignment]
        now = self.loop.now()
        self._later_at = min(max(now, moment), now + _LONGEST_SLEEP)
        self._later = aio.call_later(self._later_at - now, self._wake_up, context=self._context)

    def _wake_up(self) -> None:
        self._later = None
        self._later_at = inf
        self._tick()

    async def idle(self) -> None:
        """Return when nothing is runnable, taken in or due at the present time; suspended handlers may remain.

        Handlers that keep one another busy for ever keep this waiting as long: give it a deadline.
        """
        if self.loop.ticking:
            raise WaitsForItself("a handler waits for its own loop to be idle, which it is not before the handler ends")
        while not self.is_idle():
            self._ask_for_rest()
            await self.next_sleep()

    def _ask_for_rest(self) -> None:
        """Have what is at work elsewhere report when it only waits."""
        aio = asyncio.get_running_loop()

        def look_again() -> None:
            with suppress(RuntimeError):  # it is closed, and the waiting is over
                aio.call_soon_threadsafe(self._tell_idle)

        for one in (*self.loop.handoffs, *self.loop.helpers):
            if not one.is_at_rest():
                one.report_rest(look_again)

    async def settled(self) -> None:
        """Return when the loop is idle, no handler is suspended, and no message waits for time to pass by itself."""
        await self.idle()
        while self.loop.visits.suspended > 0 or self._waits_for_time():
            await self.next_sleep()
            await self.idle()

    def is_settled(self) -> bool:
        """Whether `settled` would return at once."""
        return self.is_idle() and self.loop.visits.suspended == 0 and not self._waits_for_time()

    async def handed_back(self) -> None:
        """Return when nothing is done for the loop on other threads or in worker processes."""
        while self.loop.handoffs:
            await self.next_sleep()

    async def next_sleep(self, at_most: float | None = None) -> None:
        """Return when the loop next falls asleep; after `at_most` seconds at the latest."""
        aio = asyncio.get_running_loop()
        waiter: asyncio.Future[None] = aio.create_future()
        self._idle.append(waiter)
        timeout = None if at_most is None else aio.call_later(at_most, _resolve, waiter)
        try:
            await waiter
        finally:
            if timeout is not None:
                timeout.cancel()
            if waiter in self._idle:
                self._idle.remove(waiter)

    def _waits_for_time(self) -> bool:
        """Whether messages are queued, or on their way, that are handled only when some time has passed."""
        if self._is_manual:
            return False
        loop = self.loop
        return loop.world.owes_time(loop) or loop.host.waits_for_time() or loop.queued_in_rings() > 0

    def is_idle(self) -> bool:
        """Whether nothing is runnable, to be taken in or due at present; a detached loop does nothing at all."""
        if self._aio is None:
            return True
        return self.loop.runq.asleep and not self.loop.has_work() and not self._is_worked_for()

    def _is_worked_for(self) -> bool:
        """Whether another thread, or a worker process, does something for the loop, and does not only wait."""
        loop = self.loop
        return any(not one.is_at_rest() for one in loop.handoffs) or any(not one.is_at_rest() for one in loop.helpers)

    def _tell_idle(self) -> None:
        waiters, self._idle = self._idle, []
        for waiter in waiters:
            _resolve(waiter)

    def home(self) -> asyncio.AbstractEventLoop | None:
        return self._aio

    def busy(self) -> list[str]:
        """The names of the cells that are runnable, or at work on another thread or in a worker process."""
        runq = self.loop.runq
        runnable = [runq.at(position).name() for position in range(runq.count)]
        at_work = [handoff.cell.name() for handoff in self.loop.handoffs if not handoff.is_at_rest()]
        # Of a worker that is waited for, its actors say more than its own name.
        helping = [] if at_work else [one.name for one in self.loop.helpers if not one.is_at_rest()]
        return runnable + at_work + helping

    def next_deadline(self) -> float | None:
        return self.loop.timers.next_deadline()

    def time_moved(self) -> None:
        """A manual clock has moved: something may be due."""
        if self.loop.runq.asleep and self.loop.has_work():
            self.loop.runq.wake()

    def watch(self, fd: int, events: int, ready: Callable[[int], object]) -> None:
        """Call `ready(events)` when `fd` can be read or written. It sends a message, and does no work of its own."""
        if self._watches is None:
            raise LoopStopped("a poller that is not attached cannot watch an fd")
        self._watches.add(fd, events, ready)

    def pause(self, fd: int) -> None:
        """Say nothing of a watched `fd` for now."""
        if self._watches is not None:
            self._watches.pause(fd)

    def resume(self, fd: int, ready: Callable[[int], object] | None = None) -> bool:
        """Go on with a paused `fd`; False when it has been closed meanwhile, or another than `ready` is told of it."""
        return self._watches is not None and self._watches.resume(fd, ready)

    def unwatch(self, fd: int, ready: Callable[[int], object] | None = None) -> bool:
        """Watch `fd` no more; False when it was not watched, or another than `ready` is told of it."""
        return self._watches is not None and self._watches.remove(fd, ready)


def _resolve(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
