"""All loops of one system: where actors go, what is asked of every loop, and how they begin and end together.

The system's *home* is the loop it would have alone: it runs on the thread of `async with` or `run()`, and decides on
the end of the system. Each further loop has a thread of its own. An actor lives on one loop for life, and its children
live there too.
"""

from __future__ import annotations

import asyncio
import itertools
from _thread import get_ident
from collections.abc import Callable
from functools import partial
from threading import Thread
from typing import TYPE_CHECKING, TypeVar

from greenroom._core.scheduler.accounting import count_queued
from greenroom._core.scheduler.celltable import SlotBlocks
from greenroom.clock import ManualClock
from greenroom.runtimelog import RuntimeLog
from greenroom.system import watchdog
from greenroom.system.eventloop import LoopTimeout, loop_factory
from greenroom.system.loops.callingthread import CallingThread
from greenroom.system.loops.calls import LoopCalls
from greenroom.system.loops.quiet import QuietLoops, is_at_rest
from greenroom.system.loops.simulated import SimulatedCalls, SimulatedThread
from greenroom.system.loops.thread import LoopThread
from greenroom.system.loops.timeline import LoopsTimeline
from greenroom.system.paths import number_in

if TYPE_CHECKING:
    from greenroom._core.scheduler.loop import Loop
    from greenroom._core.scheduler.poller import Poller
    from greenroom.actor.lifecycle import Lifecycle
    from greenroom.system.loops.ports import OwningSystem

__all__ = ["SystemLoops"]

_log = RuntimeLog()

T = TypeVar("T")

_LAST_STEPS = 1.0
"""Seconds that a loop has for each of its last steps, at least: one that a handler holds for longer is left behind."""

_GLANCE = 0.1
"""Seconds after which one who waits for a look at a loop sees whether a handler holds that."""
_GLANCES = 100
"""How often, before the loop is taken for a busy one."""


class SystemLoops:
    """The loops of one system."""

    def __init__(self, system: OwningSystem, count: int) -> None:
        self._system = system
        self._blocks = SlotBlocks()
        system._loop.table.share(self._blocks)
        self._is_simulated = system._loop.director is not None
        self._home_calls = SimulatedCalls(system._loop) if self._is_simulated else LoopCalls(system._loop)
        # Who was spawned before whom, at the top, matters for supervision.
        self._spawned = itertools.count()
        system._life.number_top(self._spawned)
        # Those that actors are spread over, and those of dispatchers, by name.
        self.threads = [self._make_thread(number) for number in range(1, count)]
        self._spread = [system._life, *(thread.life for thread in self.threads)]
        self._named: dict[str, LoopThread] = {}
        # How many steps of the system's end are under way on other threads; and the threads that did not get to theirs,
        # with what they were at: they are not waited for again.
        self.steps = 0
        self._held: dict[LoopThread, int] = {}
        self._count_timers_together()
        self._timeline = LoopsTimeline(system._poller, self.threads, lambda: self.steps)
        system._poller.is_timeline = False

    def _make_thread(
        self, number: int, core: int | None = None, is_callers: bool = False, label: str | None = None
    ) -> LoopThread:
        make = SimulatedThread if self._is_simulated else CallingThread if is_callers else LoopThread
        thread = make(self._system, number, self._blocks, core, label)
        thread.life.number_top(self._spawned)
        return thread

    @property
    def lives(self) -> list[Lifecycle]:
        """The hosts of all loops, that of the home loop first."""
        return [self._system._life, *(thread.life for thread in self.threads)]

    def pollers(self) -> list[Poller]:
        """What runs each loop, that of the home loop first."""
        return [self._system._poller, *(thread.poller for thread in self.threads)]

    # -- where actors go

    def least_loaded(self) -> Lifecycle:
        """The host of the loop with the fewest actors: of several, the first."""
        return min(self._spread, key=lambda life: life.loop.table.counted)

    def named(self, dispatcher: str, core: int | None, is_callers: bool = False) -> Lifecycle:
        """The host of the loop that a dispatcher has for itself, made on first use. On the home loop's thread.

        One that `is_callers` has no thread of its own: whoever calls `play()` runs it.
        """
        thread = self._named.get(dispatcher)
        if thread is None:
            thread = self._make_thread(len(self.threads) + 1, core, is_callers, dispatcher)
            if self._system._poller.home() is not None:
                self._start_one(thread)
                self._join_clock()
            self._named[dispatcher] = thread
            self.threads.append(thread)
            self._count_timers_together()
        return thread.life

    def _count_timers_together(self) -> None:
        all_timers = [life.loop.timers for life in self.lives]
        for timers in all_timers:
            timers.others = [other for other in all_timers if other is not timers]

    def life_of(self, name_or_id: object) -> Lifecycle:
        """The host of the loop on which the actor of this id, path or name would live."""
        cell_id = name_or_id
        if isinstance(name_or_id, str):
            first = name_or_id.removeprefix("/").partition("/")[0]
            record = self._system._life.top.named(first)
            cell_id = number_in(first) if record is None else record.cell.id
        if not isinstance(cell_id, int) or cell_id <= 0:
            return self._system._life
        table = self._blocks.owner(cell_id)
        return next((life for life in self.lives if life.loop.table is table), self._system._life)

    def thread_of(self, life: Lifecycle) -> LoopThread:
        """The thread of a further loop."""
        return next(thread for thread in self.threads if thread.life is life)

    # -- what others want to have done on a loop's thread

    def call(self, life: Lifecycle, action: Callable[[], T], timeout: float) -> T:
        """Have `action` called on the thread of one loop, and wait; `LoopTimeout` when it has no time for that."""
        calls = self._calls_of(life.loop)
        return action() if calls.is_here() else calls.call(action, self._calls_here(), timeout)

    def _calls_of(self, loop: Loop) -> LoopCalls:
        return next((thread.calls for thread in self.threads if thread.loop is loop), self._home_calls)

    def _calls_here(self) -> LoopCalls | None:
        """What this thread is called for, if it is one of the system's own."""
        here = get_ident()
        if here == self._home_calls.loop.runq.thread:
            return self._home_calls
        return next((thread.calls for thread in self.threads if thread.loop.runq.thread == here), None)

    def is_here(self) -> bool:
        """Whether this is the thread of one of the loops."""
        return self._calls_here() is not None

    # -- beginning

    def start(self) -> None:
        """Start all threads, or none. On the home loop's thread."""
        try:
            for thread in self.threads:
                self._start_one(thread)
        except BaseException:
            for started in self.release():
                started.join(_LAST_STEPS)
            raise
        self._join_clock()

    def _join_clock(self) -> None:
        """Let a clock that is turned by hand see all loops as one."""
        clock = self._system._loop.clock
        if isinstance(clock, ManualClock):
            clock.leave(self._system._poller)
            clock.join(self._timeline)

    def _start_one(self, thread: LoopThread) -> None:
        thread.start(None if self._is_simulated else loop_factory())
        patience = self._system.config.stuck_after
        if patience > 0 and not self._is_simulated:
            if thread.is_dispatchers:
                watchdog.watch(thread, patience, f"thread ({thread.label})", watchdog.LOOP_ADVICE)
            else:
                watchdog.watch(thread, patience)

    def release(self) -> list[Thread]:
        """Let all threads end, whose loops have stopped; those that have not ended yet."""
        clock = self._system._loop.clock
        if isinstance(clock, ManualClock):
            clock.leave(self._timeline)
        for thread in self.threads:
            if not self._is_simulated:
                watchdog.unwatch(thread)
            thread.release()
        return [thread.thread for thread in self.threads if thread.thread is not None and thread.thread.is_alive()]

    # -- rest

    async def rest(self) -> None:
        """Return when all loops are at rest at the same time."""
        home = self._system._poller
        while True:
            await home.rest()
            for thread in self.threads:
                await thread.do(thread.poller.rest)
            if await self._agree():
                return

    async def are_at_rest(self) -> bool:
        """Whether all loops are at rest. To look takes a turn of each thread: that is waited for, and no handler is."""
        look = asyncio.ensure_future(self._look_until_clear())
        try:
            for _ in range(_GLANCES):
                ticks = [thread.loop.ticks for thread in self.threads]
                await asyncio.wait((look,), timeout=_GLANCE)
                if look.done():
                    return look.result()
                loops = [thread.loop for thread in self.threads]
                if any(loop.ticking and loop.ticks == seen for loop, seen in zip(loops, ticks, strict=False)):
                    return False
            return False
        finally:
            look.cancel()

    async def _look_until_clear(self) -> bool:
        """Whether all are at rest: a tick between two looks, which found nothing to do, is no reason why not."""
        while True:
            looks = [await self._look_at_all(), await self._look_at_all()]
            if None in looks[0] or None in looks[1]:
                return False
            if looks[0] == looks[1]:
                return True

    async def _agree(self) -> bool:
        """Whether all are at rest, and none of them did anything between one look and the next."""
        looks = [await self._look_at_all(), await self._look_at_all()]
        return None not in looks[0] and looks[0] == looks[1]

    async def _look_at_all(self) -> list[int | None]:
        others = [await thread.do(partial(is_at_rest, thread.poller)) for thread in self.threads]
        return [is_at_rest(self._system._poller), *others]

    def quiet(self) -> QuietLoops:
        """What waits until no loop has anything to do that others want of it."""
        return QuietLoops(self._system._loop, self._system._poller, self.threads)

    # -- the end, on the home loop's thread

    async def close_spawning(self) -> None:
        """Let nothing be spawned any more."""
        for thread in self.threads:
            thread.life.closed = True  # at once, for those who look; the rest on its own thread
            await self._step(thread, thread.end.close_spawning)

    async def stop_all(self) -> list[Lifecycle]:
        """Tell all actors to stop; the hosts of those loops that have some, and are not left behind."""
        return [thread.life for thread in self.threads if await self._step(thread, thread.end.stop_all)]

    def cancel_messages(self) -> None:
        """Cancel the suspended handlers."""
        for thread in self.threads:
            thread.post(thread.end.cancel_messages)

    async def cancel_handlers(self) -> None:
        """Cancel all that is suspended, and let it have a last turn."""
        await asyncio.gather(*(self._step(thread, thread.end.cancel_handlers) for thread in self.threads))

    async def stop(self, late: bool) -> None:
        """End what remains, and the loops."""
        for thread in self.threads:
            if not await self._step(thread, partial(_force_and_stop, thread, late)):
                thread.later(partial(_force_and_stop, thread, late))
        for thread in self.threads:
            await thread.end_tasks()

    def stop_at_once(self, late: bool) -> None:
        """The same, where asyncio has no further turn."""
        for thread in self.threads:
            try:
                self.call(thread.life, partial(_force_and_stop, thread, late), _LAST_STEPS)
            except LoopTimeout:
                self._leave_behind(thread)

    async def _step(self, thread: LoopThread, action: Callable[[], object]) -> object:
        """One step of the end on another thread; None if a handler holds that."""
        self.steps += 1
        step = asyncio.ensure_future(thread.do(action))
        # Whoever holds the thread has the time that any actor has to stop.
        patience = max(_LAST_STEPS, self._system.config.stop_timeout)
        if self._held.get(thread) == thread.loop.ticks:
            patience = 0.0
        try:
            while True:
                ticks = thread.loop.ticks
                done, _ = await asyncio.wait((step,), timeout=patience)
                if done:
                    return step.result()
                if thread.loop.ticking and thread.loop.ticks == ticks:
                    if self._held.get(thread) != ticks:
                        self._held[thread] = ticks
                        self._leave_behind(thread)
                    return None
        finally:
            step.cancel()
            self.steps -= 1

    def _leave_behind(self, thread: LoopThread) -> None:
        hand, _ = thread.loop.visits.peek_hand()
        told = "%s: %s holds the thread of %s and cannot be interrupted; it is left behind"
        if hand is None:
            _log.error(told, self._system.name, "asyncio", thread.label)
        else:
            thread.life.note_forced(hand)
            _log.error(told, self._system.name, hand.name(), thread.label, extra=thread.life.log_fields(hand))

    def left_behind(self) -> int:
        """How many messages wait on loops that did not get to their end."""
        return sum(count_queued(thread.loop) for thread in self._held if not thread.loop.closed)


def _force_and_stop(thread: LoopThread, late: bool) -> bool:
    thread.end.force_all(late)
    thread.end.stop_loop()
    return True
