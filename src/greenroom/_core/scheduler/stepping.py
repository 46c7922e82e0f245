"""Running coroutines inside our own tick.

A handler's coroutine takes its first step at once, and nearly all end with it. So one task object per loop is entered
as asyncio's current task once per tick and lent to one handler after another; only a handler that really suspends, or
that keeps or cancels its task, gets it for good. What a handler can see of `HandlerTask` is what `asyncio.Task` shows:
`timeout`, `TaskGroup`, cancellation and anyio work inside handlers as they do in a task.

A future's callback only makes the actor runnable again, it never steps in place: the callback may come while another
actor's Context is entered. A bare yield (`sleep(0)`) goes to the back of the run queue.
"""

from __future__ import annotations

from asyncio import CancelledError, InvalidStateError, tasks
from collections.abc import Callable, Generator
from contextvars import Context, copy_context
from sys import getrefcount
from typing import TYPE_CHECKING, Any
from weakref import getweakrefcount

from greenroom._core.build import COMPILED
from greenroom._core.timing.timers import Alarm

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop, Future
    from collections.abc import Coroutine
    from types import FrameType

    from greenroom._core.mailbox.cell import Cell

    AnyCoroutine = Coroutine[Any, Any, object]

# asyncio's own extension points for other kinds of task; its stubs allow only `Task`.
_enter_task: Callable[..., None] = tasks._enter_task
_leave_task: Callable[..., None] = tasks._leave_task

SUSPENDED = object()
"""What a step returns when the coroutine waits for something."""

PENDING = 0
FINISHED = 1
FAILED = 2
CANCELLED = 3


class Yielded:
    """What a coroutine yielded, as opposed to what it returned. A stepper has one, for one step after another."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value: Any = None

    def take(self) -> Any:
        """What was yielded, and keep it no longer."""
        value, self.value = self.value, None
        return value


def send(coro: AnyCoroutine, context: Context, yielded: Yielded) -> object:
    """One step inside `context`: what the coroutine returned, or `yielded` with what it yielded."""
    if COMPILED:
        return c_send(coro, context, yielded)
    try:
        yielded.value = context.run(coro.send, None)
        return yielded
    except StopIteration as stop:
        return stop.value


def throw(coro: AnyCoroutine, context: Context, exc: BaseException, yielded: Yielded) -> object:
    """One step inside `context` that begins with `exc`."""
    try:
        yielded.value = context.run(coro.throw, exc)
        return yielded
    except StopIteration as stop:
        return stop.value


def references(task: object) -> int:
    """How many references there are to `task`; only comparisons mean something."""
    count: int = refcount(task) if COMPILED else getrefcount(task)
    return count


class Stepper:
    """Steps the coroutines of one loop, as the current task of `aio`, its asyncio loop."""

    def __init__(self) -> None:
        self.aio: AbstractEventLoop | None = None
        # Where our own callbacks run, so that asyncio need not copy a context for each. Not shared with other loops: a
        # context is entered by one thread at a time.
        self.bare = Context()
        # Invariant: _entered is asyncio's current task of aio, or None and we have not touched that
        self._entered: HandlerTask | None = None
        self._outer: object = None
        self._spare: HandlerTask | None = None
        self._yielded = Yielded()

    def _enter(self, task: HandlerTask) -> None:
        if self._entered is task or self.aio is None:
            return
        if self._entered is not None:
            _leave_task(self.aio, self._entered)
            self._entered = None
        else:
            # A tick may be run by code that is itself inside a task: that one steps aside until leave().
            outer = tasks.current_task(self.aio)
            if outer is not None:
                _leave_task(self.aio, outer)
                self._outer = outer
        _enter_task(self.aio, task)
        self._entered = task

    def is_current(self) -> bool:
        """Whether the running code is that of the handler being stepped, and not of another task."""
        return self._entered is not None and tasks.current_task(self.aio) is self._entered  # type: ignore[comparison-overlap]

    def is_stepping(self) -> bool:
        """Whether the running code is a handler's coroutine, and no plain function."""
        coro = None if self._entered is None else self._entered._coro
        return coro is not None and getattr(coro, "cr_running", True)

    def leave(self) -> None:
        """Have no current task of ours; to be called at the end of every tick."""
        if self._entered is not None:
            _leave_task(self.aio, self._entered)
            self._entered = None
            if self._outer is not None:
                outer, self._outer = self._outer, None
                _enter_task(self.aio, outer)

    def first(self, coro: AnyCoroutine, cell: Cell) -> object:
        """The first step: what the coroutine returned, or SUSPENDED with the task in `cell.task`."""
        task = self._spare
        # A sync handler may have got hold of the task as well, and cancelled it.
        if task is None or task._cancels > 0:
            task = self._spare = HandlerTask(self)
        if self._entered is not task:
            self._enter(task)
        context = cell.context
        if context is None:
            context = cell.context = Context()
        task._coro = coro
        task._cell = cell
        task._context = context
        task._aio = self.aio  # type: ignore[assignment]
        try:
            out = send(coro, context, self._yielded)
        except BaseException as exc:
            self._spare = None
            task._fail(exc)
            raise
        if out is self._yielded:
            self._spare = None
            cell.task = task
            self._suspend(task, self._yielded.take())
            return SUSPENDED
        if task._cancels > 0 or task._callbacks is not None or references(task) > LENT or getweakrefcount(task) > 0:
            self._spare = None
            task._return(out)
        else:
            task._coro = task._cell = None  # type: ignore[assignment]
        return out

    def step(self, task: HandlerTask) -> object:
        """A later step: what the coroutine returned, or SUSPENDED."""
        exc = task._inject
        task._inject = None
        if task._must_cancel:
            if not isinstance(exc, CancelledError):
                exc = task._make_cancelled_error()
            task._must_cancel = False
        task._waiter = None
        self._enter(task)
        try:
            if exc is None:
                out = send(task._coro, task._context, self._yielded)
            else:
                out = throw(task._coro, task._context, exc, self._yielded)
        except BaseException as error:
            task._cell.task = None
            task._fail(error)
            raise
        finally:
            exc = None
        if out is self._yielded:
            self._suspend(task, self._yielded.take())
            return SUSPENDED
        task._cell.task = None
        task._return(out)
        return out

    def _suspend(self, task: HandlerTask, future: Any) -> None:
        try:
            task._suspend(future)
        except BaseException as exc:
            # What was yielded is no proper future: the handler gets the error, where it waits.
            task._inject = exc
            task._cell.resume()


class Wait(Alarm):
    """Something a handler can wait for without asyncio: when it is over, the actor's turn comes by the run queue.

    To be awaited it yields itself; a subclass says what its end is, and calls `wake_waiter` then.
    """

    __slots__ = ("waiter",)

    # No C method: one with arguments that may be left out cannot be overridden across modules.
    def cancel(self, msg: object = None) -> bool:
        """Give up waiting; False when it is over."""
        raise NotImplementedError

    def remove_done_callback(self, fn: object) -> int:
        """The handler that waits is broken off."""
        self.waiter: HandlerTask | None = None
        self.cancel()
        return 1

    def wake_waiter(self) -> None:
        """Resume the handler that waits, if one does."""
        task = self.waiter
        if task is not None:
            self.waiter = None
            task.go_on()


class HandlerTask:
    """The task that code inside an async handler sees, in the shape of `asyncio.Task`."""

    __slots__ = (
        "__weakref__",
        "_aio",
        "_asyncio_future_blocking",
        "_callbacks",
        "_cancel_message",
        "_cancels",
        "_cell",
        "_context",
        "_coro",
        "_exception",
        "_inject",
        "_must_cancel",
        "_result",
        "_state",
        "_stepper",
        "_waiter",
        "began",
        "kind",
        "lane",
        "message",
        "sender",
    )

    def __init__(self, stepper: Stepper) -> None:
        self._stepper = stepper
        self._aio: AbstractEventLoop = stepper.aio  # type: ignore[assignment]
        self._cell: Cell = None  # type: ignore[assignment]
        # What is in hand while the coroutine is suspended; the loop's own.
        self.kind = 0
        self.lane = 0
        self.began = 0.0
        self.message: object = None
        self.sender: object = None
        self._coro: Any = None
        self._context: Context = None  # type: ignore[assignment]
        self._waiter: Future[Any] | Wait | None = None
        self._inject: BaseException | None = None
        self._must_cancel = False
        self._cancels = 0
        self._cancel_message: object = None
        self._state = PENDING
        self._result: object = None
        self._exception: BaseException | None = None
        self._callbacks: list[tuple[Callable[[HandlerTask], object], Context]] | None = None
        self._asyncio_future_blocking = False

    # asyncio's own helpers and anyio look at some of a task's private names: `_fut_waiter`, `_must_cancel`,
    # `_cancel_message` and `_make_cancelled_error`.
    @property
    def _fut_waiter(self) -> Future[Any] | Wait | None:
        return self._waiter

    def __repr__(self) -> str:
        state = ("pending", "finished", "failed", "cancelled")[self._state]
        return f"<HandlerTask {self.get_name()} {state} coro={self._coro!r}>"

    def get_loop(self) -> AbstractEventLoop:
        return self._aio

    def get_coro(self) -> Any:
        return self._coro

    def get_context(self) -> Context:
        return self._context

    def get_name(self) -> str:
        if self._cell is None:
            return "greenroom handler"
        return f"greenroom handler of {self._cell.name()}"

    def set_name(self, value: object) -> None:
        """Accepted and ignored: the name is the actor's."""

    def get_stack(self, *, limit: int | None = None) -> list[FrameType]:
        frame = getattr(self._coro, "cr_frame", None)
        return [] if frame is None else [frame]

    def done(self) -> bool:
        return self._state != PENDING

    def cancelled(self) -> bool:
        return self._state == CANCELLED

    def cancelling(self) -> int:
        return self._cancels

    def uncancel(self) -> int:
        if self._cancels > 0:
            self._cancels -= 1
            if self._cancels == 0:
                self._must_cancel = False
        return self._cancels

    def cancel(self, msg: object = None) -> bool:
        """Have `CancelledError` raised where the handler waits; False when it has ended."""
        if self._state != PENDING:
            return False
        self._cancels += 1
        if self._waiter is not None and self._waiter.cancel(msg=msg):
            return True
        self._must_cancel = True
        self._cancel_message = msg
        return True

    def result(self) -> object:
        if self._state == PENDING:
            raise InvalidStateError("Result is not set.")
        if self._exception is not None:
            raise self._exception
        return self._result

    def exception(self) -> BaseException | None:
        if self._state == PENDING:
            raise InvalidStateError("Exception is not set.")
        if self._state == CANCELLED:
            raise self._exception  # type: ignore[misc]
        return self._exception

    def add_done_callback(self, fn: Callable[[HandlerTask], object], *, context: Context | None = None) -> None:
        where = copy_context() if context is None else context
        if self._state != PENDING:
            self._aio.call_soon(fn, self, context=where)
        elif self._callbacks is None:
            self._callbacks = [(fn, where)]
        else:
            self._callbacks.append((fn, where))

    def remove_done_callback(self, fn: Callable[[HandlerTask], object]) -> int:
        if self._callbacks is None:
            return 0
        kept = [pair for pair in self._callbacks if pair[0] != fn]
        removed = len(self._callbacks) - len(kept)
        self._callbacks = kept
        return removed

    def __await__(self) -> Generator[HandlerTask, None, object]:
        if self._state == PENDING:
            self._asyncio_future_blocking = True
            yield self
        return self.result()

    def _suspend(self, future: Any) -> None:
        """Arrange to go on when what was yielded is done."""
        if future is None:
            self._cell.resume()
            return
        if isinstance(future, Wait):
            wait = future
            wait.waiter = self
            self._waiter = wait
            if self._must_cancel and wait.cancel(self._cancel_message):
                self._must_cancel = False
            return
        blocking = getattr(future, "_asyncio_future_blocking", None)
        aio = self._stepper.aio
        if blocking:
            future._asyncio_future_blocking = False
        if blocking and future is not self and aio is not None and future.get_loop() is aio:
            future.add_done_callback(self._wake_up, context=self._stepper.bare)
            self._waiter = future
            if self._must_cancel and future.cancel(msg=self._cancel_message):
                self._must_cancel = False
            return
        if blocking is None:
            why = f"the handler awaited something that yields {future!r}, which asyncio cannot wait for"
        elif not blocking:
            why = f"`yield` was used instead of `await` on {future!r}"
        elif aio is None:
            why = "the handler awaits a future, but its loop runs without asyncio: attach a poller"
        elif future is self:
            why = "the handler awaits its own task, which cannot end before it"
        else:
            why = f"the handler awaits {future!r}, which belongs to another asyncio loop"
        self._inject = RuntimeError(f"{self.get_name()}: {why}")
        self._cell.resume()

    def _wake_up(self, future: Any) -> None:
        if self._waiter is not future:
            return  # abandoned since, with this call already on its way
        try:
            future.result()  # type: ignore[union-attr]
        except BaseException as exc:
            self._inject = exc
        self._cell.resume()

    def go_on(self) -> None:
        """What was waited for without asyncio is over."""
        self._waiter = None
        self._cell.resume()

    def abandon_waiter(self) -> None:
        """Do not wait any longer for what is done elsewhere, if that is what is waited for."""
        abandon = getattr(self._waiter, "abandon", None)
        if abandon is not None:
            abandon()

    def abandon(self) -> None:
        """Break the suspended handler off where it stands: its `finally` blocks run, but can await nothing more."""
        if self._waiter is not None:
            self._waiter.remove_done_callback(self._wake_up)
            self._waiter = None
        self._cell.task = None
        try:
            self._context.run(self._coro.close)
        finally:
            self._fail(CancelledError("abandoned"))

    def _make_cancelled_error(self) -> CancelledError:
        return CancelledError() if self._cancel_message is None else CancelledError(self._cancel_message)

    def _return(self, result: object) -> None:
        """End with `result`, unless a cancellation came too late to be raised: who awaits the task gets that."""
        if self._must_cancel:
            self._finish(CANCELLED, None, self._make_cancelled_error())
        else:
            self._finish(FINISHED, result, None)

    def _fail(self, exc: BaseException) -> None:
        self._finish(CANCELLED if isinstance(exc, CancelledError) else FAILED, None, exc)

    def _finish(self, state: int, result: object, exc: BaseException | None) -> None:
        self._state = state
        self._result = result
        self._exception = exc
        callbacks, self._callbacks = self._callbacks, None
        if callbacks and not self._aio.is_closed():
            for fn, context in callbacks:
                self._aio.call_soon(fn, self, context=context)


def _references_while_lent() -> int:
    """How many references `first` sees to a task that is kept nowhere else, asyncio's own included."""
    stepper = Stepper()
    task = stepper._spare = HandlerTask(stepper)
    stepper._entered = task
    return references(task) + 1


LENT = _references_while_lent()
