"""All loops of one system: where actors go, and how the loops begin and end together.

The system's *home* is the loop it would have alone: it runs on the thread of `async with` or `run()`, and decides on
the end of the system. Each further loop has a thread of its own. An actor lives on one loop for life, and its children
live there too.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Iterator
from functools import partial
from threading import Thread
from typing import TYPE_CHECKING, TypeVar

from greenroom._core.scheduler.accounting import count_queued
from greenroom._core.scheduler.celltable import SlotBlocks
from greenroom.clock import ManualClock
from greenroom.errors import BadArgument
from greenroom.system.loops.stillness import LoopsTimeline
from greenroom.system.loops.thread import CallingThread, LoopThread, LoopTimeout, SystemLoop

if TYPE_CHECKING:
    from greenroom._core.scheduler.loop import Loop
    from greenroom.actor.lifecycle import Lifecycle
    from greenroom.actor.messaging.ref import ActorRef
    from greenroom.actor.records.record import ChildList
    from greenroom.system.system import ActorSystem

T = TypeVar("T")

_LAST_STEPS = 1.0
"""Seconds that a loop has for each of its last steps, at least: one that a handler holds for longer is left behind."""

_HELD = "%s: %s holds the thread of %s and cannot be interrupted; it is left behind"
_ADVICE = (
    "the other actors there wait for it. Let it return sooner, or await what it waits for, as in "
    "`await asyncio.to_thread(...)`"
)
"""What to do about a handler that holds the thread of a dispatcher's loop."""


class SystemLoops:
    def __init__(self, system: ActorSystem, count: int) -> None:
        self._system = system
        self.home = SystemLoop(system, system._life, system._poller)
        # The further loops: those that actors are spread over, and then those of dispatchers.
        self.threads: list[LoopThread] = []
        self._named: dict[str, LoopThread] = {}
        # What the further loops share with the home loop. Made with the first of them: alone it is faster.
        self._blocks: SlotBlocks | None = None
        self._spawned: Iterator[int] = itertools.count()
        self._timeline = LoopsTimeline(self)
        # How many steps of the system's end are under way on other threads; and the threads that did not get to theirs,
        # with the tick they were in: they are not waited for again.
        self.steps = 0
        self._held: dict[LoopThread, int] = {}
        for number in range(1, count):
            self.threads.append(self._make_thread(number))
        self._spread = self.lives
        self._count_timers_together()

    def _make_thread(
        self, number: int, core: int | None = None, is_callers: bool = False, label: str | None = None
    ) -> LoopThread:
        home = self.home
        if self._blocks is None:
            self._blocks = SlotBlocks()
            home.loop.table.share(self._blocks)
            # The order in which top-level actors were spawned matters for supervision.
            home.life.number_top(self._spawned)
            home.poller.is_timeline = False
        if home.loop.world.threads is not None:
            make: type[LoopThread] = home.loop.world.threads.loop_thread
        else:
            make = CallingThread if is_callers else LoopThread
        thread = make(self._system, number, self._blocks, core, label)
        thread.life.number_top(self._spawned)
        return thread

    def all(self) -> list[SystemLoop]:
        """The home loop, and then the further ones."""
        return [self.home, *self.threads]

    @property
    def lives(self) -> list[Lifecycle]:
        return [one.life for one in self.all()]

    # -- where actors go

    def least_loaded(self) -> Lifecycle:
        return min(self._spread, key=lambda life: life.loop.table.counted)

    def named(self, dispatcher: str, core: int | None, is_callers: bool = False) -> Lifecycle:
        """The host of the loop that a dispatcher has for itself, made on first use. On the home loop's thread.

        One that `is_callers` has no thread of its own: the thread that calls `play()` runs it.
        """
        thread = self._named.get(dispatcher)
        if thread is None:
            thread = self._make_thread(len(self.threads) + 1, core, is_callers, dispatcher)
            if self.home.poller.home() is not None:
                self._start_one(thread)
                self._join_clock()
            self._named[dispatcher] = thread
            self.threads.append(thread)
            self._count_timers_together()
        return thread.life

    def _count_timers_together(self) -> None:
        if self.threads:
            all_timers = [one.loop.timers for one in self.all()]
            for timers in all_timers:
                timers.others = [other for other in all_timers if other is not timers]

    def life_of(self, name_or_id: object) -> Lifecycle:
        """The host of the loop on which the actor of this id, path or name would live."""
        home = self.home.life
        if self._blocks is None:
            return home
        cell_id = name_or_id
        if isinstance(name_or_id, str):
            first = name_or_id.removeprefix("/").partition("/")[0]
            record = home.top.named(first)
            cell_id = number_in(first) if record is None else record.cell.id
        if not isinstance(cell_id, int) or cell_id <= 0:
            return home
        table = self._blocks.owner(cell_id)
        return next((life for life in self.lives if life.loop.table is table), home)

    def thread_of(self, life: Lifecycle) -> LoopThread | None:
        return next((thread for thread in self.threads if thread.life is life), None)

    def call(self, life: Lifecycle, action: Callable[[], T], timeout: float) -> T:
        """Have `action` called on the thread of one loop, and wait; `LoopTimeout` when it has no time for that."""
        own = next((one for one in self.all() if one.is_here()), None)
        return (self.thread_of(life) or self.home).call(action, timeout, own)

    # -- beginning

    def start(self) -> None:
        """Start all threads, or none. On the home loop's thread."""
        self.home.aio = asyncio.get_running_loop()
        try:
            for thread in self.threads:
                self._start_one(thread)
        except BaseException:
            for started in self.release():
                started.join(_LAST_STEPS)
            raise
        if self.threads:
            self._join_clock()
        self._watch(self.home, self._system._stuck_advice)

    def _join_clock(self) -> None:
        clock = self.home.loop.clock
        if isinstance(clock, ManualClock):
            clock.leave(self.home.poller)
            clock.join(self._timeline)

    def _start_one(self, thread: LoopThread) -> None:
        thread.start()
        if thread.is_dispatchers:
            self._watch(thread, _ADVICE, f"thread ({thread.label})")
        else:
            self._watch(thread, None)

    def _is_watched(self) -> bool:
        return self._system.config.stuck_after > 0 and self.home.loop.world.is_real

    def _watch(self, one: SystemLoop, advice: str | None, place: str = "system's thread") -> None:
        if self._is_watched():
            from greenroom.system import watchdog  # slow to import

            watchdog.watch(one, self._system.config.stuck_after, place, advice)

    def release(self) -> list[Thread]:
        """End all threads, whose loops have stopped; returns those that have not ended yet."""
        clock = self.home.loop.clock
        if isinstance(clock, ManualClock):
            clock.leave(self._timeline)
        if self._is_watched():
            from greenroom.system import watchdog

            for one in self.all():
                watchdog.unwatch(one)
        for thread in self.threads:
            thread.release()
        return [thread.thread for thread in self.threads if thread.thread is not None and thread.thread.is_alive()]

    # -- the end of the further loops, on the home loop's thread

    async def close_spawning(self) -> None:
        for thread in self.threads:
            thread.life.closed = True  # at once, for those who look; the rest on its own thread
            await self._step(thread, thread.close_spawning)

    async def stop_all(self) -> list[Lifecycle]:
        """Tell all actors to stop. Returns the hosts of those loops that have some, and are not left behind."""
        return [thread.life for thread in self.threads if await self._step(thread, thread.stop_all)]

    async def cancel_handlers(self) -> None:
        if self.threads:
            await asyncio.gather(*(self._step(thread, thread.cancel_handlers) for thread in self.threads))

    async def stop(self, late: bool) -> None:
        """End what remains, and the loops."""
        for thread in self.threads:
            stop = partial(thread.force_and_stop, late)
            if not await self._step(thread, stop):
                thread.post(stop)
        for thread in self.threads:
            await thread.end_tasks()

    def stop_at_once(self, late: bool) -> None:
        """Stop the loops where asyncio has no further turn."""
        for thread in self.threads:
            try:
                self.call(thread.life, partial(thread.force_and_stop, late), _LAST_STEPS)
            except LoopTimeout:
                thread.report_holder(_HELD, thread.label)

    async def _step(self, thread: LoopThread, action: Callable[[], object]) -> object:
        """One step of the end on another thread; None if a handler holds that."""
        self.steps += 1
        step = asyncio.ensure_future(thread.run(action))
        # A handler that holds the thread has the time that any actor has to stop.
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
                        thread.report_holder(_HELD, thread.label)
                    return None
        finally:
            step.cancel()
            self.steps -= 1

    def left_behind(self) -> int:
        return sum(count_queued(thread.loop) for thread in self._held if not thread.loop.closed)


def find_by_name(loop: Loop, top: ChildList, wanted: str | int) -> ActorRef | None:
    """The ref of the actor with this id, path, or top-level name; None if none is alive."""
    if isinstance(wanted, int):
        cell = loop.table.find(wanted)
        return None if cell is None else cell.ref
    if not isinstance(wanted, str):
        raise BadArgument(f"actors are found by name, path or id, not by {wanted!r}")
    child_list: ChildList | None = top
    found: ActorRef | None = None
    for name in wanted.removeprefix("/").split("/"):
        found = None if child_list is None else _child(loop, child_list, found, name)
        if found is None:
            return None
        child_list = found._cell.record.child_list
    return found


def _child(loop: Loop, child_list: ChildList, parent: ActorRef | None, name: str) -> ActorRef | None:
    record = child_list.named(name)
    if record is not None:
        named: ActorRef = record.cell.ref
        return named
    number = number_in(name)
    cell = None if number is None else loop.table.find(number)
    ref: ActorRef | None = None if cell is None else cell.ref
    return ref if ref is not None and ref.name == name and ref._parent == parent else None


def number_in(name: str) -> int | None:
    """The id at the end of the name of a nameless actor, by which it is found."""
    _, mark, number = name.rpartition("$")
    slot, _, generation = number.partition(".")
    if not mark or not slot.isdecimal() or not (generation or "1").isdecimal():
        return None
    return int(generation or 1) << 32 | int(slot)
