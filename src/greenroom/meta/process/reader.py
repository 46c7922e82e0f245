"""What runs a meta-process's `start`: a thread of its own, or a task of the system's event loop."""

from __future__ import annotations

import asyncio
import threading
import traceback
from contextvars import copy_context
from typing import TYPE_CHECKING, cast

from greenroom._core.current import current_reader
from greenroom.meta.process import interrupt

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from greenroom.meta.process.ports import ReaderPort

__all__ = ["Reader", "TaskReader", "ThreadReader"]

AT_EASE = 0.3
"""Seconds that a reader has to leave what it was broken off in before `terminate()` is called beside it."""
BETWEEN_ATTEMPTS = 0.03


class Reader:
    """Runs one `start`, from `begin` until it is `over`. All its methods are for the loop's own thread."""

    __slots__ = ("_host", "_waiter", "over")

    def __init__(self, host: ReaderPort) -> None:
        self._host = host
        self._waiter: asyncio.Future[None] | None = None
        self.over = False

    def begin(self) -> None:
        """Have it run."""
        raise NotImplementedError

    def break_off(self, hard: bool = False) -> bool:
        """End what it waits for, `hard` even in the midst of something; whether it can be expected to leave."""
        raise NotImplementedError

    def where(self) -> str:
        """What it runs at present, for the log."""
        return ""

    async def wait(self, seconds: float) -> None:
        """Return when it is over, or after `seconds`."""
        if not self.over:
            self._waiter = asyncio.get_running_loop().create_future()
            await asyncio.wait([self._waiter], timeout=seconds)
            self._waiter = None

    async def leave_off(self) -> bool:
        """Give it a little time to leave; it may block again meanwhile, on something else. False if there is none."""
        aio = asyncio.get_running_loop()
        until = aio.time() + AT_EASE
        try:
            while not self.over and aio.time() < until:
                await self.wait(BETWEEN_ATTEMPTS)
                if not self.over:
                    self.break_off()
        except asyncio.CancelledError:
            return False  # it is killed: `terminate` is called at once, whether this has left or not
        return True

    async def insist(self, seconds: float) -> None:
        """Break it off until it is over, for at most `seconds`."""
        aio = asyncio.get_running_loop()
        deadline = aio.time() + seconds
        attempts = 0
        while not self.over and aio.time() < deadline:
            self.break_off(hard=attempts * BETWEEN_ATTEMPTS > AT_EASE)
            attempts += 1
            await self.wait(BETWEEN_ATTEMPTS)

    def insist_alone(self, seconds: float, on_stuck: Callable[[Reader], object]) -> None:
        """The same, when nobody can wait for it: it was killed."""
        if not self.over:
            self.break_off(hard=True)

    def _ended(self, error: BaseException | None) -> None:
        self.over = True
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
        self._host.reader_ended(self, error)


class ThreadReader(Reader):
    """A thread: what it runs may block."""

    __slots__ = ("_thread",)

    def begin(self) -> None:
        """Start the thread."""
        host = self._host
        system = host.ctx.system.name
        self._thread = threading.Thread(target=self._run, name=f"{system} reads {host.alias.path}", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        current_reader.set(self._host.alias)
        error: BaseException | None = None
        try:
            self._host.meta.start()
        except interrupt.ReaderStopped:
            pass
        except BaseException as exc:
            error = exc
        self._host.ctx.cell.loop.inbound.call(None, lambda: self._join(error))

    def _join(self, error: BaseException | None) -> None:
        self._thread.join()  # it has nothing left to do
        interrupt.restore(self._thread)
        self._ended(error)

    def break_off(self, hard: bool = False) -> bool:
        """End what it is blocked on."""
        if self._host.meta._sees_end:
            return True
        if hard:
            interrupt.raise_in(self._thread)
        return interrupt.break_off(self._thread, self._host.meta)

    def insist_alone(self, seconds: float, on_stuck: Callable[[Reader], object]) -> None:
        """Break it off, now and then, until it is over; a thread may have to be more than once."""
        aio = asyncio.get_running_loop()
        deadline = aio.time() + seconds

        def attempt() -> None:
            if self.over:
                return
            if aio.time() >= deadline:
                on_stuck(self)
                return
            self.break_off(hard=True)
            aio.call_later(BETWEEN_ATTEMPTS, attempt)

        attempt()

    def where(self) -> str:
        """Its stack."""
        frame = interrupt.stack_of(self._thread)
        return "" if frame is None else "".join(traceback.format_stack(frame))


def _let_frames_go(task: asyncio.Task[object]) -> None:
    """Let go of what a cancelled task had in hand.

    Its error holds its frames, and through them the whole meta-process. On CPython 3.11 such an error was seen to be
    left when nothing referred to it any more.
    """
    try:
        task.exception()
    except asyncio.CancelledError as exc:
        traceback.clear_frames(exc.__traceback__)


class TaskReader(Reader):
    """A task of the system's event loop: it awaits, and never blocks."""

    __slots__ = ("_task",)

    def begin(self) -> None:
        """Start the task."""
        aio = self._host.ctx.cell.loop.visits.stepper.aio
        context = copy_context()
        if self._host.callbacks.own_code:
            context.run(current_reader.set, self._host.alias)
        start = cast("Coroutine[object, object, object]", self._host.meta.start())
        self._task = aio.create_task(start, context=context)
        self._task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[object]) -> None:
        if task.cancelled():
            _let_frames_go(task)
            error = None if self._host.is_stopping else asyncio.CancelledError()
            self._ended(error)
        else:
            self._ended(task.exception())

    def break_off(self, hard: bool = False) -> bool:
        """Cancel it."""
        return bool(self._task.cancel())

    def where(self) -> str:
        """Its stack."""
        return "".join("".join(traceback.format_stack(frame)) for frame in self._task.get_stack()[-1:])
