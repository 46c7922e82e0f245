"""Virtual threads: several event loops on the one thread of a simulation, for the loops of a system that has several.

One runs at a time, and until its callback is over. Which goes on then is a choice of the schedule, so the seed decides
how the ticks of loops interleave. All have one virtual clock, which moves when none has anything to do. A tick is one
callback, and may be as short as one visit to one actor; a handler is never interrupted.

A callback runs with the event loop of its virtual thread as the running one, and with the loops of that as this
thread's own (`RunQueue.thread`). To these, all other loops are foreign, as those of other threads are.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from math import inf
from typing import Any, TypeVar

from greenroom._core.current import begin_tick, end_tick
from greenroom._core.scheduler.loop import Loop
from greenroom._core.simulation.director import Director
from greenroom.errors import SimulationStuck
from greenroom.testing.simulating.virtualeventloop import VirtualEventLoop

__all__ = ["MainEventLoop"]

T = TypeVar("T")


class MainEventLoop(VirtualEventLoop):
    """The event loop of a simulation's own thread. It also runs those of the virtual threads."""

    number = 0
    name = "the home loop"

    def __init__(self, director: Director) -> None:
        super().__init__(director)
        # This one and those of virtual threads; the one that has waited longest comes first.
        self._all: list[MainEventLoop | _ThreadEventLoop] = [self]
        self._begun = 0
        # The one whose thread runs; and the actor loops of this thread, while another one runs.
        self._current: MainEventLoop | _ThreadEventLoop = self
        self.aside: list[Loop] = []
        director.outside = self._ready

    def close(self) -> None:
        """Close it, and those of virtual threads that have not ended."""
        for thread_loop in self._thread_loops():
            self._end(thread_loop)
        self._director.stage = None
        super().close()

    def all_loops(self) -> list[VirtualEventLoop]:
        """This one and those of virtual threads."""
        return [self, *self._thread_loops()]

    def _thread_loops(self) -> list[_ThreadEventLoop]:
        return [one for one in self._all if isinstance(one, _ThreadEventLoop)]

    # -- as a `Stage`

    def open(self, loop: Loop, name: str) -> asyncio.AbstractEventLoop:
        """Begin a virtual thread for `loop`."""
        self._begun += 1
        thread_loop = _ThreadEventLoop(self._director, self, self._begun, name)
        loop.step_aside()
        thread_loop.aside = [loop]
        self._all.append(thread_loop)
        self._director.outside = _AllReady(self._all)
        self._director.has_threads = True
        return thread_loop

    def end(self, aio: asyncio.AbstractEventLoop) -> None:
        """End a virtual thread once nothing is left to do there. Tasks that never end are the runner's to cancel."""
        if isinstance(aio, _ThreadEventLoop) and not aio.is_closed():
            aio.is_ending = True
            self._end_if_done(aio)

    def _end_if_done(self, thread_loop: _ThreadEventLoop) -> None:
        if thread_loop.is_ending and not thread_loop._ready and not thread_loop.tasks():
            self._end(thread_loop)

    def _end(self, thread_loop: _ThreadEventLoop) -> None:
        self._all.remove(thread_loop)
        thread_loop.close()
        if len(self._all) == 1:
            self._director.outside = self._ready
            self._director.has_threads = False

    def call(self, loop: Loop, action: Callable[[], T]) -> T:
        """Call `action` on the virtual thread of `loop`, now.

        As when a thread waits for another: what was brought to the loop before this is taken in first. Not between two
        runs of a session, when nobody's code may run.
        """
        before, running = self._current, asyncio._get_running_loop()
        self._switch_to(self._home_of(loop))
        if self._current is before:
            return action()
        asyncio._set_running_loop(self._current)
        outer = begin_tick(loop.runq)
        try:
            if running is not None and not loop.ticking and loop.inbound.waiting():
                loop.inbound.take_in()
            return action()
        finally:
            end_tick(outer)
            asyncio._set_running_loop(running)
            self._switch_to(before)

    def _home_of(self, loop: Loop) -> MainEventLoop | _ThreadEventLoop:
        return next((one for one in self._all if loop in one.aside), self._current)

    # -- running

    def next_moment(self) -> float:
        """The time of the next deadline of any virtual thread; inf if there is none."""
        own = super().next_moment()
        return min([own, *(thread_loop.next_moment() for thread_loop in self._thread_loops())])

    def tasks(self) -> list[asyncio.Task[object]]:
        """The tasks of all virtual threads that have not ended."""
        return super().tasks() + [task for thread_loop in self._thread_loops() for task in thread_loop.tasks()]

    def _run_once(self) -> None:
        """Run one callback of one virtual thread; while there are none, do as the base does."""
        if len(self._all) == 1:
            super()._run_once()
            return
        moment = self.next_moment()
        if not any(one._ready for one in self._all):
            if moment == inf:
                raise SimulationStuck
            self._move_to(moment)
        self._require_end()
        for one in self._all:
            one._take_due()
        ready = [one for one in self._all if one._ready]
        chosen = ready[0] if len(ready) == 1 else ready[self._choose(ready)]
        self._all.remove(chosen)
        self._all.append(chosen)
        handle = chosen._ready.popleft()
        self._run(chosen, handle)
        del handle

    def _choose(self, ready: list[MainEventLoop | _ThreadEventLoop]) -> int:
        position: int = self._director.next_thread([one.number for one in ready], [one.name for one in ready])
        return position

    def _run(self, chosen: MainEventLoop | _ThreadEventLoop, handle: asyncio.Handle) -> None:
        if not isinstance(chosen, _ThreadEventLoop):
            if not handle.cancelled():
                handle._run()
            return
        hooks = sys.get_asyncgen_hooks()
        self._switch_to(chosen)
        asyncio._set_running_loop(chosen)
        sys.set_asyncgen_hooks(*chosen.hooks())
        try:
            if not handle.cancelled():
                handle._run()
        finally:
            sys.set_asyncgen_hooks(*hooks)
            asyncio._set_running_loop(self)
            self._switch_to(self)
        self._end_if_done(chosen)

    def _switch_to(self, other: MainEventLoop | _ThreadEventLoop) -> None:
        """Let the loops of another virtual thread be this thread's own, and those of the present one foreign."""
        present = self._current
        if other is present:
            return
        present.aside = [loop for loop in self._director.loops if loop.runq.thread == self._thread]
        for loop in present.aside:
            loop.step_aside()
        for loop in other.aside:
            loop.come_back()
        other.aside = []
        self._current = other


class _ThreadEventLoop(VirtualEventLoop):
    """The event loop of a virtual thread; the main one runs its callbacks."""

    # Private, as those of its base.
    _thread_id: int | None

    def __init__(self, director: Director, main: MainEventLoop, number: int, name: str) -> None:
        self._main = main
        super().__init__(director)
        self.number = number
        self.name = name
        self.aside: list[Loop] = []
        self.is_ending = False
        self._thread_id = self._thread  # so that asyncio takes it as running

    def count(self) -> int:
        """Number a new task or future: those of all virtual threads together."""
        return self._main.count()

    def hooks(self) -> tuple[Any, Any]:
        """What Python calls for asynchronous generators that are begun here, or are never finished."""
        return self._asyncgen_firstiter_hook, self._asyncgen_finalizer_hook  # type: ignore[attr-defined]

    def default_exception_handler(self, context: dict[str, Any]) -> None:
        """As that of the main one, which says how the simulation ends."""
        self._main.default_exception_handler(context)

    def close(self) -> None:
        """Close it."""
        self._thread_id = None
        super().close()


class _AllReady:
    """How many callbacks are ready, on all virtual threads."""

    def __init__(self, loops: list[MainEventLoop | _ThreadEventLoop]) -> None:
        self._loops = loops

    def __len__(self) -> int:
        return sum(len(one._ready) for one in self._loops)
