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
from typing import Any

from greenroom._core.errands import Work
from greenroom.actor.places import Place

__all__ = ["PinnedPlace", "PinnedThreads"]

_log = logging.getLogger("greenroom")

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

    def place(self) -> PinnedPlace:
        """A place for one more actor."""
        return PinnedPlace(self)

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


class PinnedPlace(Place):
    """The place of one actor."""

    def __init__(self, threads: PinnedThreads) -> None:
        super().__init__(threads.dispatcher)
        self._threads = threads
        self._home: AsyncioThread | None = None

    def do(self, work: Work) -> None:
        """Have it carried out on the actor's thread."""
        if self._home is None:
            self._home = self._threads.start_thread()
        home = self._home
        work.on_cut(lambda: self._give_up(home, work))
        home.do(work)

    def _give_up(self, home: AsyncioThread, work: Work) -> None:
        """What a thread does takes too long. If it only awaits something it is broken off; else that is done with."""
        if work.awaits:
            home.abandon(work)
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
        # What is under way, so that it can be cancelled; and so that asyncio does not lose it.
        self._tasks: dict[asyncio.Task[None], None] = {}
        # A daemon, because of handlers that never return: the process must be able to end without them.
        self.thread = threading.Thread(target=self._run, name=name, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        if self._core is not None:
            _pin(self._core)
        with asyncio.Runner(loop_factory=self._loop_factory) as runner:
            runner.run(self._main())

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
        try:
            aio.call_soon_threadsafe(action)
        except RuntimeError:  # it has ended: only what is cut by now can come too late
            if not aio.is_closed():
                raise

    def do(self, work: Work) -> None:
        """Have it carried out. From the loop's thread."""
        self._call(lambda: self._begin(work))

    def stop(self) -> None:
        """End, with what is under way cancelled. From the loop's thread."""
        self._call(lambda: self._end.set())  # type: ignore[union-attr]

    def _end_task(self, task: asyncio.Task[None]) -> None:
        self._tasks.pop(task, None)
        if not task.cancelled():
            task.exception()  # of one that was broken off: asyncio would complain of it, but everybody knows

    def abandon(self, work: Work) -> None:
        """Break it off where it awaits something. From the loop's thread."""
        self._call(lambda: _abandon(work.task))

    def _begin(self, work: Work) -> None:
        task = asyncio.get_running_loop().create_task(_carry_out(work))
        work.task = task
        self._tasks[task] = None
        task.add_done_callback(self._end_task)
        work.on_cancel(lambda: self._call(lambda: _cancel(task, work)))


def _abandon(task: asyncio.Task[None]) -> None:
    """End what would not end when it was cancelled: its `finally` blocks run, but can await nothing more."""
    coroutine: Any = task.get_coro()
    try:
        coroutine.close()
    except RuntimeError:
        _log.exception("a handler would not be broken off")
    task.cancel()


def _cancel(task: asyncio.Task[None], work: Work) -> None:
    if work.has_begun():
        task.cancel()
    else:  # a task that is cancelled before its first step takes none, and nobody would bring its work home
        task.get_loop().call_soon(_cancel, task, work)


async def _carry_out(work: Work) -> None:
    """What `Work.run` does, with what can be awaited awaited here."""
    work.enter()
    try:
        while work.begin_next():
            result = work.perform()
            if work.may_await(result):
                work.awaits = True
                result = await result
                work.awaits = False
            if not work.accept(result):
                break
    except BaseException as exc:
        work.take_error(exc)
    finally:
        work.leave()
        work.bring_home()


def _pin(core: int) -> None:
    """Keep this thread on one processor, where the system can do that."""
    try:
        os.sched_setaffinity(0, {core})
    except (AttributeError, OSError) as exc:
        name = threading.current_thread().name
        _log.warning("%s: cannot be kept on processor %d, and runs on any: %s", name, core, exc)
