"""A thread for one actor, with an asyncio loop of its own.

Its handlers may block, or await: nothing else runs there but what they start themselves. The thread begins with the
actor's first call and ends with the actor; restarts leave it as it is, unless a handler holds it and does not let go:
then the next incarnation gets another.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from contextvars import Context
from typing import Any

from greenroom._core.handoff.handoff import Handoff
from greenroom.actor.offload.executor import Executor
from greenroom.errors import WorkerLost

__all__ = ["PinnedExecutor", "PinnedThreads"]

_log = logging.getLogger("greenroom")

_PROMPT = 0.05
"""Seconds in which a thread that only awaits something does what it is told."""

_TURNS = 5
"""Turns of asyncio in which what is ready there comes to rest, as for a ManualClock."""

LoopFactory = Callable[[], asyncio.AbstractEventLoop]


class PinnedThreads:
    """The threads of one dispatcher. Belongs to the loop's own thread."""

    def __init__(self, dispatcher: str, system: str, core: int | None, loop_factory: LoopFactory | None) -> None:
        self.dispatcher = dispatcher
        self._system = system
        self._core = core
        self._loop_factory = loop_factory
        self._made = 0
        # Invariant: those that have been started, and not been told to end
        self._homes: dict[AsyncioThread, None] = {}
        # Those that have been told, and may not have come to it yet.
        self._ending: list[threading.Thread] = []

    @property
    def threads(self) -> int:
        """How many there are at present."""
        return len(self._homes)

    def executor(self, spec: object) -> PinnedExecutor:
        """A place for one more actor."""
        return PinnedExecutor(self)

    def start_thread(self) -> AsyncioThread:
        """A new thread, for an actor that has none."""
        self._made += 1
        name = f"{self._system} {self.dispatcher} {self._made}"
        home = AsyncioThread(name, self._core, self._loop_factory)
        self._homes[home] = None
        return home

    def end_thread(self, home: AsyncioThread) -> None:
        """It is not needed any more; it ends when it has done what it does."""
        if self._homes.pop(home, home) is None:
            home.stop()
            self._ending = [thread for thread in self._ending if thread.is_alive()]
            self._ending.append(home.thread)

    def close(self) -> list[threading.Thread]:
        """Let all of them end; those that are still to be waited for."""
        for home in list(self._homes):
            self.end_thread(home)
        return self._ending


class PinnedExecutor(Executor):
    """The place of one actor."""

    has_asyncio = True

    def __init__(self, threads: PinnedThreads) -> None:
        super().__init__(threads.dispatcher)
        self._threads = threads
        self._home: AsyncioThread | None = None
        self._life: Any = None
        self._context = Context()

    def do(self, handoff: Handoff) -> None:
        """Have it carried out on the actor's thread."""
        if self._home is not None and self._home.is_dead():
            self._threads.end_thread(self._home)
            self._home = None
        if self._home is None:
            self._home = self._threads.start_thread()
        home = self._home
        handoff.on_abandoned(lambda: self._give_up(home, handoff))
        handoff.take_turns = home.take_turns
        home.do(handoff, self._context_of(handoff))

    def _context_of(self, handoff: Handoff) -> Context:
        """What its coroutines run in: one for each life of the actor, as there is one for those on its loop."""
        if self._life is not handoff.cell.context:
            self._life = handoff.cell.context
            self._context = Context()
        return self._context

    def _give_up(self, home: AsyncioThread, handoff: Handoff) -> None:
        """What a thread does takes too long. If it only awaits something it is broken off; else that is done with."""
        if handoff.awaits and home.abandon(handoff):
            return
        if self._home is home:
            self._home = None
        self._threads.end_thread(home)

    def let_go(self) -> None:
        """The actor has ended."""
        if self._home is not None:
            self._threads.end_thread(self._home)
            self._home = None


class AsyncioThread:
    """A thread in which asyncio runs until it is stopped."""

    def __init__(self, name: str, core: int | None, loop_factory: LoopFactory | None) -> None:
        self._core = core
        self._loop_factory = loop_factory
        self._lock = threading.Lock()
        # Invariant: written under _lock. What came before asyncio ran, in order; None once it runs
        self._early: list[Callable[[], object]] | None = []
        self._aio: asyncio.AbstractEventLoop | None = None
        self._end: asyncio.Event | None = None
        # Invariant: what was given to this thread and has not come home; None when the thread has ended
        self._handoffs: dict[Handoff, None] | None = {}
        # Why the thread ends, if nobody told it to. This and the next are touched by this thread alone.
        self._cause: BaseException | None = None
        # What is under way, so that asyncio does not lose it.
        self._tasks: dict[asyncio.Task[None], Handoff] = {}
        # A daemon, because of handlers that never return: the process must be able to end without them.
        self.thread = threading.Thread(target=self._run, name=name, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        try:
            if self._core is not None:
                _pin(self._core)
            with asyncio.Runner(loop_factory=self._loop_factory) as runner:
                try:
                    runner.run(self._main())
                except BaseException as exc:
                    self._cause = exc
                    raise
        except BaseException as exc:
            self._end_works(exc)
        else:
            self._end_works(None)

    def _end_works(self, cause: BaseException | None) -> None:
        """The thread ends, because it was told to or for whatever reason: nobody may wait for what it leaves."""
        with self._lock:
            handoffs, self._handoffs = self._handoffs or {}, None
        for task in list(self._tasks):
            task.get_coro().close()
        for handoff in handoffs:
            self._lose(handoff, cause)

    def _lose(self, handoff: Handoff, cause: BaseException | None) -> None:
        lost = WorkerLost(f"the thread {self.thread.name!r} has ended, and cannot run {handoff.cell.shown()} any more")
        lost.__cause__ = cause
        handoff.take_error(lost)
        handoff.complete()

    def is_dead(self) -> bool:
        """Whether the thread has ended."""
        return self._handoffs is None

    async def _main(self) -> None:
        self._end = asyncio.Event()
        self._catch_up()
        await self._end.wait()

    def _catch_up(self) -> None:
        """Do what came before asyncio ran. Apart, for `_main` never returns and would keep it."""
        with self._lock:
            self._aio = asyncio.get_running_loop()
            early, self._early = self._early, None
        for action in early or ():
            action()

    def _call(self, action: Callable[[], object]) -> None:
        with self._lock:
            if self._early is not None:
                self._early.append(action)
                return
            aio: Any = self._aio
        with suppress(RuntimeError):  # it has ended, and what it was given with it
            aio.call_soon_threadsafe(action)

    def do(self, handoff: Handoff, context: Context) -> None:
        """Have it carried out. From the loop's thread."""
        with self._lock:
            dead = self._handoffs is None
            if self._handoffs is not None:
                self._handoffs[handoff] = None
        if dead:
            raise WorkerLost(f"the thread {self.thread.name!r} has ended")
        self._call(lambda: self._begin(handoff, context))

    def take_turns(self, then: Callable[[], object]) -> None:
        """Call `then` when asyncio has done what it has ready, and what came of that. From the loop's thread."""
        self._call(lambda: _turn(_TURNS, then))

    def stop(self) -> None:
        """End, with what is under way cancelled. From the loop's thread."""
        self._call(lambda: self._end.set())  # type: ignore[union-attr]

    def _end_task(self, task: asyncio.Task[None]) -> None:
        handoff = self._tasks.pop(task)
        with self._lock:
            if self._handoffs is not None:
                self._handoffs.pop(handoff, None)
        if not handoff.has_begun():  # asyncio was about to end, and cancelled it before its first step
            self._lose(handoff, None)
        if not task.cancelled():
            task.exception()  # of one that was broken off: asyncio would complain of it, but everybody knows

    def abandon(self, handoff: Handoff) -> bool:
        """Break it off where it awaits something; False when it seems not to. From the loop's thread."""
        broken_off = threading.Event()

        def break_off() -> None:
            _abandon(handoff.task)  # type: ignore[arg-type]  # it awaits, so it has one
            broken_off.set()

        self._call(break_off)
        return broken_off.wait(_PROMPT)

    def _begin(self, handoff: Handoff, context: Context) -> None:
        task = asyncio.get_running_loop().create_task(self._carry_out(handoff), context=context)
        handoff.task = task
        self._tasks[task] = handoff
        task.add_done_callback(self._end_task)
        handoff.on_cancel(lambda: self._call(lambda: _cancel(task, handoff)))

    async def _carry_out(self, handoff: Handoff) -> None:
        """What `Handoff.run` does, with what can be awaited awaited here."""
        handoff.enter()
        try:
            while handoff.begin_next():
                result = handoff.perform()
                if handoff.may_await(result):
                    handoff.awaits = True
                    result = await result
                    handoff.awaits = False
                if not handoff.accept(result):
                    break
        except BaseException as exc:
            if self._cause is None:
                handoff.take_error(exc)
            else:  # asyncio cancels all that is left, when it breaks down
                self._lose(handoff, self._cause)
        finally:
            handoff.leave()
            handoff.complete()


def _turn(left: int, then: Callable[[], object]) -> None:
    if left:
        asyncio.get_running_loop().call_soon(_turn, left - 1, then)
    else:
        then()


def _abandon(task: asyncio.Task[None]) -> None:
    """End what would not end when it was cancelled: its `finally` blocks run, but can await nothing more."""
    coroutine: Any = task.get_coro()
    try:
        coroutine.close()
    except RuntimeError:
        _log.exception("a handler would not be broken off")
    task.cancel()


def _cancel(task: asyncio.Task[None], handoff: Handoff) -> None:
    if handoff.has_begun():
        task.cancel()
    elif not task.done() and not handoff.is_closed():
        # A task that is cancelled before its first step takes none, and nobody would bring its work home.
        task.get_loop().call_soon(_cancel, task, handoff)


def _pin(core: int) -> None:
    """Keep this thread on one processor, where the system can do that."""
    try:
        os.sched_setaffinity(0, {core})
    except (AttributeError, OSError) as exc:
        name = threading.current_thread().name
        _log.warning("%s: cannot be kept on processor %d, and runs on any: %s", name, core, exc)
