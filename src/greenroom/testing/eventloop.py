"""asyncio event loops on a virtual clock: time passes only when nothing can run, and then at once.

Callbacks run in the order in which they were scheduled, as asyncio guarantees. A simulation varies when actors run
between them. Threads, sockets and processes are refused: their outcome would differ from run to run.

**Virtual threads.** Each further loop of a system has an event loop of its own, on the one thread of the simulation.
One runs at a time, until its callback is over. The schedule chooses which goes on then, so the seed decides how the
ticks of loops interleave. All have one clock, which moves when none has anything to do. A callback runs with the event
loop of its virtual thread as the running one, and with the loops of that as this thread's own (`RunQueue.thread`). To
these, all other loops are foreign, as those of other threads are.
"""

from __future__ import annotations

import asyncio
import gc
import heapq
import sys
import weakref
from _thread import get_ident
from collections import deque
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextvars import Context
from math import inf
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from greenroom._core.current import begin_tick, end_tick
from greenroom._core.scheduler.loop import Loop
from greenroom._core.simulation.director import Director
from greenroom.errors import InternalError, SimulationEndless, SimulationRefused, SimulationStuck
from greenroom.system.loops.thread import LoopThread

if TYPE_CHECKING:
    from _typeshed import FileDescriptorLike

_LAST_TASKS = 1.0
"""Virtual seconds that the cancelled tasks of a virtual thread have to end."""
_COLLECT_EVERY = 100_000
"""Garbage is collected every so many steps, and at no other time: so finalizers run in the same order in each run."""

_THREADS = "threads are not simulated: make it an actor, or await it"
_SOCKETS = "sockets are not simulated: put an actor in the peer's place, and send it messages"
_CHILDREN = "processes are not simulated: put an actor in the program's place"
_FILES = "pipes and fds are not simulated: put an actor in their place, and send its messages yourself"
_SIGNALS = "signals are not simulated: call what the signal would call"

_REFUSED = {
    _THREADS: ("run_in_executor", "set_default_executor"),
    _SOCKETS: (
        *("getaddrinfo", "getnameinfo", "create_connection", "create_server", "create_datagram_endpoint"),
        *("create_unix_connection", "create_unix_server", "connect_accepted_socket", "start_tls", "sendfile"),
        *("sock_recv", "sock_recv_into", "sock_recvfrom", "sock_recvfrom_into", "sock_sendall", "sock_sendto"),
        *("sock_connect", "sock_accept", "sock_sendfile"),
    ),
    _CHILDREN: ("subprocess_exec", "subprocess_shell"),
    _FILES: ("connect_read_pipe", "connect_write_pipe", "add_reader", "add_writer"),
    _SIGNALS: ("add_signal_handler",),
}
"""The methods that are refused, by what to do instead."""

T = TypeVar("T")


class VirtualEventLoop(asyncio.BaseEventLoop):
    """An asyncio event loop on a virtual clock. It never sleeps, and does no I/O."""

    # Private fields of `BaseEventLoop`, in every Python version so far.
    _ready: deque[asyncio.Handle]
    _scheduled: list[asyncio.TimerHandle]
    _timer_cancelled_count: int

    def __init__(self, director: Director) -> None:
        super().__init__()
        self._director = director
        self._clock = director.clock
        self._thread = get_ident()
        # Loop iterations since an actor last ran, and the step at which it ran.
        self._turns = 0
        self._step = 0
        # The number of tasks and futures made so far.
        self._made = 0
        self._asyncgens = _AsyncGenerators()
        self.set_task_factory(_make_task)
        # How many iterations and moves of the clock are left; limited while a simulation is closed.
        self._turns_left = self._moves_left = inf
        self._collect_at = _COLLECT_EVERY
        self.internal_error: InternalError | None = None

    def time(self) -> float:
        return self._clock.time

    def count(self) -> int:
        """Number a new task or future, from 1."""
        self._made += 1
        return self._made

    def create_future(self) -> asyncio.Future[Any]:
        """Create a future whose hash is the same in each run, so that sets have the same order."""
        return _Future(loop=self)

    def call_soon_threadsafe(
        self, callback: Callable[..., object], *args: object, context: Context | None = None
    ) -> asyncio.Handle:
        if get_ident() != self._thread:
            raise SimulationRefused("call_soon_threadsafe() from another thread", _THREADS)
        return self.call_soon(callback, *args, context=context)

    def next_moment(self) -> float:
        """The time of the next deadline; inf if there is none."""
        self._forget_cancelled()
        return float(self._scheduled[0].when()) if self._scheduled else inf

    def tasks(self) -> list[asyncio.Task[object]]:
        return [task for task in asyncio.all_tasks(self) if not task.done()]

    def allow(self, turns: float, moves: float) -> None:
        """Limit the loop to so many more iterations, and so many moves of the clock."""
        self._turns = 0
        self._turns_left = turns
        self._moves_left = moves

    def _run_once(self) -> None:
        """One iteration of `run_forever`: move the clock if nothing is ready, then run what is ready."""
        self._forget_cancelled()
        scheduled = self._scheduled
        if not self._ready:
            if not scheduled or scheduled[0].when() == inf:
                raise SimulationStuck
            self._move_to(scheduled[0].when())
        self._require_end()
        self._take_due()
        for _ in range(len(self._ready)):
            handle = self._ready.popleft()
            if not handle.cancelled():
                handle._run()
            # As in asyncio: the traceback of a task that failed may hold this frame, and so the task would hold itself.
            del handle

    def _take_due(self) -> None:
        now = self._clock.time
        scheduled = self._scheduled
        while scheduled and scheduled[0].when() <= now:
            self._ready.append(self._take_scheduled())

    def _take_scheduled(self) -> asyncio.TimerHandle:
        handle: asyncio.TimerHandle = heapq.heappop(self._scheduled)
        handle._scheduled = False  # type: ignore[attr-defined]
        if handle.cancelled():
            self._timer_cancelled_count -= 1
        return handle

    def _forget_cancelled(self) -> None:
        """Remove cancelled timers as asyncio does: those that are next, and all of them when they are the majority."""
        scheduled = self._scheduled
        if len(scheduled) > 100 and self._timer_cancelled_count > len(scheduled) // 2:
            for handle in scheduled:
                if handle.cancelled():
                    handle._scheduled = False  # type: ignore[attr-defined]
            scheduled[:] = [handle for handle in scheduled if not handle.cancelled()]
            heapq.heapify(scheduled)
            self._timer_cancelled_count = 0
        while scheduled and scheduled[0].cancelled():
            self._take_scheduled()

    def _move_to(self, moment: float) -> None:
        if moment > self._clock.time:
            self._clock.move_to(moment)
            self._director.time_moved()
            self._moves_left -= 1

    def _require_end(self) -> None:
        """Raise when the steps are used up, or too many iterations have passed in which no actor ran."""
        director = self._director
        self._turns += 1
        self._turns_left -= 1
        if director.step != self._step:
            self._step = director.step
            self._turns = 0
        is_over = director.step >= director.last_step or self._turns_left < 0 or self._moves_left < 0
        if is_over or self._turns > director.max_steps:
            self._turns = 0
            raise SimulationEndless(director.max_steps)
        if director.step >= self._collect_at:
            self._collect_at = director.step + _COLLECT_EVERY
            gc.collect()

    def default_exception_handler(self, context: dict[str, Any]) -> None:
        """Keep an `InternalError`, and pass on the rest: a bug in Greenroom must fail the simulation."""
        exc = context.get("exception")
        if isinstance(exc, InternalError):
            self.internal_error = self.internal_error or exc
        elif exc is not None:
            task = context.get("future") or context.get("task")
            self._director.task_failed(task.get_name() if isinstance(task, asyncio.Task) else "asyncio", exc)
        super().default_exception_handler(context)

    def _write_to_self(self) -> None:
        pass

    def _process_events(self, event_list: object) -> None:
        pass

    def remove_reader(self, fd: FileDescriptorLike) -> bool:
        return False

    def remove_writer(self, fd: FileDescriptorLike) -> bool:
        return False

    def remove_signal_handler(self, sig: int) -> bool:
        return False

    async def shutdown_default_executor(self, timeout: float | None = None) -> None:
        pass


class _Future(asyncio.Future[Any]):
    """A future whose hash is its number: asyncio and its users keep futures in sets."""

    def __init__(self, *, loop: VirtualEventLoop) -> None:
        super().__init__(loop=loop)
        self._number = loop.count()

    def __hash__(self) -> int:
        return self._number


class _Task(asyncio.Task[Any]):
    """A task whose hash is its number, and whose default name does not depend on earlier runs."""

    def __init__(
        self,
        coro: Coroutine[object, object, object],
        *,
        loop: VirtualEventLoop,
        name: str | None = None,
        **options: Any,
    ) -> None:
        self._number = number = loop.count()
        super().__init__(coro, loop=loop, name=f"Task-{number}" if name is None else name, **options)

    def __hash__(self) -> int:
        return self._number


def _make_task(loop: Any, coro: Any, **options: Any) -> asyncio.Task[Any]:
    return _Task(coro, loop=loop, **options)


class _AsyncGenerators(weakref.WeakKeyDictionary[AsyncGenerator[object, object], None]):
    """The unfinished asynchronous generators, in the order they were begun; replaces asyncio's `WeakSet`."""

    def add(self, generator: AsyncGenerator[object, object]) -> None:
        self[generator] = None

    def discard(self, generator: AsyncGenerator[object, object]) -> None:
        self.pop(generator, None)


def _refuse(name: str, remedy: str) -> Callable[..., NoReturn]:
    def refused(self: VirtualEventLoop, *args: object, **kwargs: object) -> NoReturn:
        raise SimulationRefused(f"{name}()", remedy)

    refused.__name__ = name
    refused.__doc__ = f"Refused: {remedy}."
    return refused


for _remedy, _names in _REFUSED.items():
    for _name in _names:
        setattr(VirtualEventLoop, _name, _refuse(_name, _remedy))


class VirtualThread(LoopThread):
    """A further loop of a system, on a virtual thread."""

    def start(self) -> None:
        """Begin the virtual thread, and let the loop run there."""
        threads: MainEventLoop = self.loop.world.threads
        self.aio = threads.open(self.loop, self.name)
        threads.call(self.loop, self.poller.attach)

    async def end_tasks(self) -> None:
        """Cancel what is left of asyncio's tasks, as asyncio does when a thread ends."""
        await self.run(_end_tasks)

    def release(self) -> None:
        """End the virtual thread, once its loop has stopped."""
        if self.aio is not None and not self.aio.is_closed():
            self.loop.world.threads.end(self.aio)


async def _end_tasks() -> None:
    aio = asyncio.get_running_loop()
    tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks, timeout=_LAST_TASKS)
    await aio.shutdown_asyncgens()


class MainEventLoop(VirtualEventLoop):
    """The event loop of a simulation's own thread. It also runs those of the virtual threads."""

    number = 0
    name = "the home loop"
    loop_thread = VirtualThread
    """What a further loop of a system runs on."""

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
        for thread_loop in self._thread_loops():
            self._end(thread_loop)
        self._director.threads = None
        super().close()

    def all_loops(self) -> list[VirtualEventLoop]:
        return [self, *self._thread_loops()]

    def _thread_loops(self) -> list[_ThreadEventLoop]:
        return [one for one in self._all if isinstance(one, _ThreadEventLoop)]

    # -- for the loops of a simulation

    def open(self, loop: Loop, name: str) -> asyncio.AbstractEventLoop:
        self._begun += 1
        thread_loop = _ThreadEventLoop(self._director, self, self._begun, name)
        loop.step_aside()
        thread_loop.aside = [loop]
        self._all.append(thread_loop)
        self._director.outside = _AllReady(self._all)
        self._director.has_threads = True
        return thread_loop

    def end(self, thread_loop: _ThreadEventLoop) -> None:
        """End a virtual thread once nothing is left to do there. Tasks that never end are the runner's to cancel."""
        thread_loop.is_ending = True
        self._end_if_done(thread_loop)

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
        runs of a session, when no code of the program may run.
        """
        before, running = self._current, asyncio._get_running_loop()
        self._switch_to(next((one for one in self._all if loop in one.aside), before))
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

    # -- running

    def next_moment(self) -> float:
        own = super().next_moment()
        return min([own, *(thread_loop.next_moment() for thread_loop in self._thread_loops())])

    def tasks(self) -> list[asyncio.Task[object]]:
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
        position = 0
        if len(ready) > 1:
            position = self._director.next_thread([one.number for one in ready], [one.name for one in ready])
        chosen = ready[position]
        self._all.remove(chosen)
        self._all.append(chosen)
        handle = chosen._ready.popleft()
        self._run(chosen, handle)
        del handle

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
        """Make the loops of another virtual thread this thread's own, and those of the present one foreign."""
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
        return self._main.count()

    def hooks(self) -> tuple[Any, Any]:
        """What Python calls for asynchronous generators that are begun here, or are never finished."""
        return self._asyncgen_firstiter_hook, self._asyncgen_finalizer_hook  # type: ignore[attr-defined]

    def default_exception_handler(self, context: dict[str, Any]) -> None:
        self._main.default_exception_handler(context)

    def close(self) -> None:
        self._thread_id = None
        super().close()


class _AllReady:
    def __init__(self, loops: list[MainEventLoop | _ThreadEventLoop]) -> None:
        self._loops = loops

    def __len__(self) -> int:
        return sum(len(one._ready) for one in self._loops)
