"""A thread for one actor, with an asyncio loop of its own.

Its handlers may block or await: nothing else runs on the thread, except what they start themselves. The thread starts
with the actor's first call and ends with the actor. It survives restarts, unless a handler blocks it and does not end:
then the next incarnation gets a new thread.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from contextvars import Context, copy_context

from greenroom._core.flags import PROPAGATES
from greenroom._core.handoff.handoff import Handoff, after_turns
from greenroom.actor.offload.executor import Executor
from greenroom.errors import NoThread, WorkerLost
from greenroom.errortext import in_words
from greenroom.runtimelog import RuntimeLog
from greenroom.system.eventloop import keep_on_core

_log = RuntimeLog()

_PROMPT = 0.05
"""Seconds in which a thread that only awaits something reacts."""

LoopFactory = Callable[[], asyncio.AbstractEventLoop]


class PinnedThreads:
    """The threads of one dispatcher. For the loop's own thread only."""

    def __init__(self, dispatcher: str, system: str, core: int | None, loop_factory: LoopFactory | None) -> None:
        self.dispatcher = dispatcher
        self._system = system
        self._core = core
        self._loop_factory = loop_factory
        self._made = 0
        # Invariant: the threads that were started, and not told to end
        self._running: dict[AsyncioThread, None] = {}
        # The threads that were told to end, and may still run.
        self._ending: list[threading.Thread] = []

    @property
    def threads(self) -> int:
        return len(self._running)

    def executor(self, spec: object, args: tuple[object, ...]) -> PinnedExecutor:
        return PinnedExecutor(self)

    def start_thread(self) -> AsyncioThread:
        self._made += 1
        name = f"{self._system} {self.dispatcher} {self._made}"
        thread = AsyncioThread(name, self._core, self._loop_factory)
        self._running[thread] = None
        return thread

    def end_thread(self, thread: AsyncioThread) -> None:
        if self._running.pop(thread, thread) is None:
            thread.stop()
            self._ending = [one for one in self._ending if one.is_alive()]
            self._ending.append(thread.thread)

    def close(self) -> list[threading.Thread]:
        for thread in list(self._running):
            self.end_thread(thread)
        return self._ending


class PinnedExecutor(Executor):
    has_asyncio = True

    def __init__(self, threads: PinnedThreads) -> None:
        super().__init__(threads.dispatcher)
        self._threads = threads
        self._thread: AsyncioThread | None = None
        # The context of the incarnation that `_context` is for.
        self._life: object = None
        self._context = Context()

    def do(self, handoff: Handoff) -> None:
        if self._thread is not None and self._thread.is_dead():
            self._threads.end_thread(self._thread)
            self._thread = None
        if self._thread is None:
            try:
                self._thread = self._threads.start_thread()
            except RuntimeError as exc:
                raise NoThread(f"{handoff.cell.shown()}, by the dispatcher {self.dispatcher!r}") from exc
        thread = self._thread
        handoff.on_abandoned(lambda: self._give_up(thread, handoff))
        handoff.take_turns = thread.take_turns
        thread.do(handoff, self._context_of(handoff))

    def _context_of(self, handoff: Handoff) -> Context:
        """The context variables for its coroutines: new for each incarnation, as for actors on the loop."""
        if handoff.carries_messages and handoff.cell.flags & PROPAGATES:
            return copy_context()  # the loop is in the message's own
        if self._life is not handoff.cell.context:
            self._life = handoff.cell.context
            self._context = Context()
        return self._context

    def _give_up(self, thread: AsyncioThread, handoff: Handoff) -> None:
        """A hand-off takes too long. If it awaits something, end it there; else abandon the thread."""
        if handoff.awaits and thread.abandon(handoff):
            return
        if self._thread is thread:
            self._thread = None
            self._context = self._context.copy()  # the abandoned thread is inside the old one
        self._threads.end_thread(thread)

    def actor_ended(self) -> None:
        if self._thread is not None:
            self._threads.end_thread(self._thread)
            self._thread = None


class AsyncioThread:
    """A thread in which asyncio runs until it is stopped."""

    def __init__(self, name: str, core: int | None, loop_factory: LoopFactory | None) -> None:
        self._core = core
        self._loop_factory = loop_factory
        self._lock = threading.Lock()
        # Invariant: written under _lock. The actions that wait for asyncio to run, in order; None once it runs
        self._early: list[Callable[[], object]] | None = []
        self._aio: asyncio.AbstractEventLoop | None = None
        self._end: asyncio.Event | None = None
        # Invariant: the hand-offs that are not completed; None when the thread has ended
        self._handoffs: dict[Handoff, None] | None = {}
        # Why the thread ends, if it was not told to. Only this thread uses this field, until it ends, and the next.
        self._cause: BaseException | None = None
        # The tasks under way; asyncio itself keeps no reference to them.
        self._tasks: dict[asyncio.Task[None], Handoff] = {}
        # A daemon, so that a handler that never returns does not keep the process alive.
        self.thread = threading.Thread(target=self._run, name=name, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        try:
            if self._core is not None:
                keep_on_core(f"{self.thread.name}:", self._core)
            with asyncio.Runner(loop_factory=self._loop_factory) as runner:
                try:
                    runner.run(self._main())
                except BaseException as exc:
                    self._cause = exc  # before the runner cancels the tasks
                    raise
        except BaseException as exc:
            self._cause = exc
        self._lose_all()

    def _lose_all(self) -> None:
        """The thread ends: fail the hand-offs that it has not completed."""
        with self._lock:
            handoffs, self._handoffs = self._handoffs or {}, None
        for task in list(self._tasks):
            task.get_coro().close()
        for handoff in handoffs:
            handoff.fail(self._lost(handoff, self._cause))

    def _lost(self, handoff: Handoff, cause: BaseException | None) -> WorkerLost:
        why = "" if cause is None else f": {in_words(cause)}"
        name = self.thread.name
        lost = WorkerLost(f"the thread {name!r} has ended, and cannot run {handoff.cell.shown()} any more{why}")
        lost.__cause__ = cause
        return lost

    def is_dead(self) -> bool:
        return self._handoffs is None

    async def _main(self) -> None:
        self._end = asyncio.Event()
        self._catch_up()
        await self._end.wait()

    def _catch_up(self) -> None:
        """Do the actions that waited for asyncio. Not in `_main`, whose frame would keep them alive."""
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
            aio = self._aio
        assert aio is not None
        with suppress(RuntimeError):  # the thread has ended, and its hand-offs with it
            aio.call_soon_threadsafe(action)

    def do(self, handoff: Handoff, context: Context) -> None:
        with self._lock:
            dead = self._handoffs is None
            if self._handoffs is not None:
                self._handoffs[handoff] = None
        if dead:
            raise self._lost(handoff, self._cause)
        self._call(lambda: self._begin(handoff, context))

    def take_turns(self, then: Callable[[], object]) -> None:
        """Call `then` after some turns of asyncio, when nothing there is ready any more. From the loop's thread."""
        self._call(lambda: after_turns(then))

    def stop(self) -> None:
        self._call(lambda: self._end.set())  # type: ignore[union-attr]

    def _end_task(self, task: asyncio.Task[None]) -> None:
        handoff = self._tasks.pop(task)
        with self._lock:
            if self._handoffs is not None:
                self._handoffs.pop(handoff, None)
        if not handoff.has_begun():  # asyncio was closing, and cancelled it before its first step
            handoff.fail(self._lost(handoff, None))
        if not task.cancelled():
            task.exception()  # retrieve it, or asyncio would log it

    def abandon(self, handoff: Handoff) -> bool:
        """End a hand-off where it awaits something; False if the thread does not react. From the loop's thread."""
        is_closed = threading.Event()

        def close() -> None:
            _abandon(handoff.task)  # type: ignore[arg-type]  # it awaits, so it has one
            is_closed.set()

        self._call(close)
        return is_closed.wait(_PROMPT)

    def _begin(self, handoff: Handoff, context: Context) -> None:
        task = asyncio.get_running_loop().create_task(self._carry_out(handoff), context=context)
        handoff.task = task
        self._tasks[task] = handoff
        task.add_done_callback(self._end_task)
        handoff.on_cancel(lambda: self._call(lambda: _cancel(task, handoff)))

    async def _carry_out(self, handoff: Handoff) -> None:
        """Like `Handoff.run`, but await here what can be awaited."""
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
            else:  # asyncio failed, and cancels all tasks
                handoff.take_error(self._lost(handoff, self._cause))
        finally:
            handoff.leave()
            handoff.complete()


def _abandon(task: asyncio.Task[None]) -> None:
    """End a task that did not end when it was cancelled: its `finally` blocks run, but cannot await anything."""
    try:
        task.get_coro().close()
    except RuntimeError:
        _log.exception("a handler would not be broken off")
    task.cancel()


def _cancel(task: asyncio.Task[None], handoff: Handoff) -> None:
    if handoff.has_begun():
        task.cancel()
    elif not task.done() and not handoff.is_closed():
        # A task that is cancelled before its first step never runs, so its hand-off would not be completed.
        task.get_loop().call_soon(_cancel, task, handoff)
