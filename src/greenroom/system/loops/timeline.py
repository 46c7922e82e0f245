"""A system of several loops as a `ManualClock` sees it: one timeline.

Time goes on when no loop has anything to do at the present moment. That is found out as in `quiet`, and holds for one
look only: something may be sent afterwards that no loop has seen yet.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from greenroom.clock import TURNS

if TYPE_CHECKING:
    from greenroom._core.scheduler.poller import Poller
    from greenroom.system.loops.thread import LoopThread

__all__ = ["LoopsTimeline"]

Look = tuple[int, float | None] | None
"""How many ticks a loop has had, and its next deadline; None if it has something to do."""


class LoopsTimeline:
    """What a `ManualClock` asks of all loops of one system. On the home loop's thread."""

    def __init__(self, home: Poller, threads: list[LoopThread], steps: Callable[[], int]) -> None:
        self._home = home
        # The further loops, of which there may be more later; and how many steps of the system's end are under way.
        self._threads = threads
        self._steps = steps
        # What the loops looked like when they were last found idle, that of the home loop first; and whether nobody has
        # asked since.
        self._seen: list[Look] = []
        self._is_fresh = False

    def home(self) -> asyncio.AbstractEventLoop | None:
        """The asyncio loop of the home loop."""
        return self._home.home()

    def next_deadline(self) -> float | None:
        """The earliest deadline of all."""
        others = [look[1] for look in self._seen[1:] if look is not None]
        deadlines = [moment for moment in [self._home.next_deadline(), *others] if moment is not None]
        return min(deadlines, default=None)

    def time_moved(self) -> None:
        """Something may be due."""
        self._home.time_moved()
        for thread in self._threads:
            thread.post(thread.poller.time_moved)

    def is_idle(self) -> bool:
        """Whether nothing was left to do when all were looked at just now, and none has ticked since."""
        if not self._is_fresh:
            return False
        self._is_fresh = False
        ticks = [self._home.loop.ticks, *(thread.loop.ticks for thread in self._threads)]
        return None not in self._seen and ticks == [look[0] for look in self._seen if look is not None]

    async def idle(self) -> None:
        """Return when nothing is left to do."""
        while True:
            await self._let_steps_end()
            await self._home.idle()
            for thread in self._threads:
                await thread.do(thread.poller.idle)
            first, second = await self._look_at_all(), await self._look_at_all()
            if None not in first and first == second:
                self._seen = second
                self._is_fresh = True
                return

    async def _let_steps_end(self) -> None:
        """Wait until the end of the system has taken the step that it is at: time must not pass over that."""
        calm = 0
        while calm < TURNS:
            await asyncio.sleep(0)
            calm = 0 if self._steps() else calm + 1

    async def _look_at_all(self) -> list[Look]:
        others = [await thread.do(partial(_look, thread.poller)) for thread in self._threads]
        return [_look(self._home), *others]

    def busy(self) -> list[str]:
        """Who is at work on the home loop, and which other loops are awake."""
        awake = [thread.name for thread in self._threads if not thread.loop.runq.asleep]
        return self._home.busy() + awake


def _look(poller: Poller) -> Look:
    return (poller.loop.ticks, poller.next_deadline()) if poller.is_idle() else None
