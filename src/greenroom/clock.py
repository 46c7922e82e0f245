"""Where time comes from.

Nothing in Greenroom reads the wall clock by itself: it asks the system's `Clock`. Swap it, and a program's timing is
under the test's control.

>>> clock = ManualClock()
>>> clock.now()
0.0
>>> clock.step(2.5)        # nothing was due on the way
False
>>> clock.now()
2.5
"""

from __future__ import annotations

import asyncio
import math
import time
from typing import Protocol

from greenroom.errors import BadArgument, ClockHeldUp, InvalidDelay
from greenroom.validation import FINITE, require_delay

TURNS = 5
"""Turns of asyncio after which a `ManualClock` assumes that nothing there is ready any more."""
_NANOSECOND = 1e-9
_PARTS = 64


class Clock(Protocol):
    """A source of time that never goes back."""

    def now(self) -> float:
        """Seconds since some fixed moment."""
        ...


class MonotonicClock:
    """The machine's monotonic clock."""

    __slots__ = ()

    def now(self) -> float:
        """Seconds since some fixed moment, unaffected by changes of the wall clock."""
        return time.monotonic()


class Timeline(Protocol):
    """Something with deadlines that a `ManualClock` moves along: a loop, through its poller."""

    def home(self) -> asyncio.AbstractEventLoop | None:
        """The asyncio loop that it runs in, on whichever thread; None if it may be moved from anywhere."""
        ...

    def busy(self) -> list[str]:
        """Who has something to do at the present time, by name."""
        ...

    def next_deadline(self) -> float | None:
        """The earliest pending deadline, if any."""
        ...

    def time_moved(self) -> None:
        """Called after the clock has moved."""
        ...

    def is_idle(self) -> bool:
        """Whether nothing is left to do at the present time."""
        ...

    async def idle(self) -> None:
        """Return when nothing is left to do at the present time."""
        ...


class ManualClock:
    """A clock that stands still until it is advanced, and then passes every deadline on the way.

    All systems that use one clock run on one thread, but for their further loops; it can be advanced from any.
    """

    __slots__ = ("_now", "_timelines")

    def __init__(self, start: float = 0.0) -> None:
        require_delay("start", start, FINITE)
        self._now = float(start)
        self._timelines: list[Timeline] = []

    def now(self) -> float:
        """The time it was last moved to."""
        return self._now

    def join(self, timeline: Timeline) -> None:
        """Pass the deadlines of `timeline` one by one from now on."""
        if timeline not in self._timelines:
            self._timelines.append(timeline)

    def leave(self, timeline: Timeline) -> None:
        """Forget `timeline`, if it had joined."""
        if timeline in self._timelines:
            self._timelines.remove(timeline)

    async def advance(self, seconds: float, *, patience: float = 30.0) -> None:
        """Advance by `seconds`. At every deadline on the way, let what is due run before going on.

        A deadline within a nanosecond of the end is reached too, so ten times 0.1 s is a second. Handlers that never
        come to rest hold the clock up: after `patience` seconds of real time it raises `ClockHeldUp`.
        """
        require_delay("seconds", seconds, FINITE)
        until = self._now + seconds
        home = self._home()
        if home is None or home is asyncio.get_running_loop():
            await self._advance(until, patience)
        else:
            await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(self._advance(until, patience), home))

    async def _advance(self, until: float, patience: float) -> None:
        limit = asyncio.timeout(patience)
        try:
            async with limit:
                await self._idle()
                while self.step(until):
                    await self._idle()
                await self._idle()
                while (due := self._next_deadline()) <= until + slack(until):
                    self.step(due)
                    await self._idle()
        except TimeoutError:
            if not limit.expired():
                raise
            busy = [name for timeline in self._timelines for name in timeline.busy()]
            raise ClockHeldUp(self._now, patience, busy) from None

    def _home(self) -> asyncio.AbstractEventLoop | None:
        homes = [home for timeline in self._timelines if (home := timeline.home()) is not None]
        if any(home is not homes[0] for home in homes):
            raise BadArgument("systems on several threads go by one ManualClock: give each a clock of its own")
        return homes[0] if homes else None

    def step(self, until: float) -> bool:
        """Move to the next deadline if it is not after `until`, else to `until`; True when there was one."""
        if math.isnan(until) or until == math.inf:
            raise InvalidDelay("until", until)
        due = self._next_deadline()
        self._now = max(self._now, min(due, until))
        for timeline in list(self._timelines):
            timeline.time_moved()
        return due <= until

    def _next_deadline(self) -> float:
        deadlines = [line.next_deadline() for line in self._timelines]
        return min((moment for moment in deadlines if moment is not None), default=math.inf)

    async def _idle(self) -> None:
        # What is on its way through asyncio (a cancelled handler, a task's result) comes first, for time stands still.
        for _ in range(TURNS):
            await asyncio.sleep(0)
        # One timeline's work may give another some more, so all have to be idle at once.
        while busy := [timeline for timeline in self._timelines if not timeline.is_idle()]:
            for timeline in busy:
                await timeline.idle()


def slack(moment: float) -> float:
    """How much later something may be due and still count as due at `moment`: what a sum of fractions may be off by.

    A nanosecond, which asyncio counts as no time either; on a clock that is far on, what its floats cannot tell apart.
    """
    return max(_NANOSECOND, _PARTS * math.ulp(moment))
