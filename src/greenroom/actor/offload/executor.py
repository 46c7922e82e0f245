"""Where the code of an actor runs, if that is not on its loop's own thread; and the context that it has there.

An actor's life stays on its loop, wherever its code runs. An executor only carries out calls of the user's functions,
one at a time for each actor, and brings back what came of them. A subclass says how, in `do`.

What only the actor's own code touches (the behavior it has become, its stash) it touches where that runs. Everything
that its loop keeps for it (children, timers, watches) is done by the loop's thread, and waited for: a call of that kind
takes some tens of microseconds here, and reads as everywhere else. `operations` says which is which.
"""

from __future__ import annotations

import asyncio
from _thread import get_ident
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from contextvars import copy_context
from functools import partial, wraps
from inspect import iscoroutine
from typing import TYPE_CHECKING, Any, TypeVar

from greenroom._core.current import current_handoffs
from greenroom._core.flags import PROPAGATES
from greenroom._core.handoff.handoff import CallHandoff, Handoff, after_turns
from greenroom._core.handoff.messages import MessageHandoff
from greenroom._core.mailbox.cell import Cell
from greenroom.actor.api.context import Context, ContextRecord, start_pipe
from greenroom.actor.messaging.timers import KeyedTimers
from greenroom.actor.offload.operations import Operation, Way, carries_out
from greenroom.clock import ManualClock
from greenroom.errors import HandlerAbandoned, NotAwaited

if TYPE_CHECKING:
    from greenroom._core.scheduler.visits import Visits
    from greenroom.actor.records.record import ActorRecord

T = TypeVar("T")

_NEVER = -1


class Executor:
    """Carries out what its actors have to do. Made by a dispatcher, for one actor or for many."""

    has_asyncio = False
    """Whether an asyncio loop runs where the code does."""
    is_remote = False
    """Whether that is in another process: then the actor itself is there, and only a stand-in here."""

    def __init__(self, dispatcher: str) -> None:
        self.dispatcher = dispatcher

    def do(self, handoff: Handoff) -> None:
        """Start carrying out a hand-off, and return. For the loop's own thread."""
        raise NotImplementedError

    def others_wait(self) -> bool:
        return False

    def is_backed_up(self) -> bool:
        """Whether hand-offs wait, and no thread is free."""
        return False

    def examine(self, message: object) -> None:
        """Raise if a message cannot be sent to where the code runs. From any thread."""

    def enter(self, cell: Cell, record: ActorRecord) -> Handoff:
        """Create the actor in another process; to be awaited: its class, if it has one, and its supervision."""
        raise NotImplementedError

    def has_lost_actor(self) -> bool:
        """Whether the actor was in another process that is lost."""
        return False

    def actor_ended(self) -> None:
        """Forget an actor that has ended for good. For the loop's own thread."""

    def new_context(self) -> Context:
        return OffloadedContext()

    def runs_on_loop(self, function: Callable[..., object]) -> bool:
        """Whether the loop's own thread calls a function all the same: an async one, if there is no asyncio."""
        return False

    def call(
        self, cell: Cell, function: Callable[..., object], arguments: tuple[object, ...], awaits: bool
    ) -> CallHandoff:
        """Call a user's function; to be awaited. With `awaits`, its result may be awaited there too."""
        call = CallHandoff(cell, function, arguments, awaits)
        self._give(call)
        return call

    def _give(self, handoff: Handoff) -> None:
        try:
            self.do(handoff)
        except BaseException:
            handoff.abandon()
            raise

    def carry(self, cell: Cell, message: object, sender: object, lane: int) -> Coroutine[object, None, object]:
        """Handle a message, and those behind it; to be awaited: what the last handler returned."""
        if self.runs_on_loop(cell.handler):
            handled: Coroutine[object, None, object] = cell.handler(cell.subject, message)
            return handled
        handoff = MessageHandoff(cell, message, sender, lane, self.others_wait, self.is_backed_up)
        handoff.carry()
        return self._carry_out(cell, handoff)

    async def _carry_out(self, cell: Cell, handoff: MessageHandoff) -> object:
        self._give(handoff)
        result = await handoff
        if hasattr(type(result), "__await__"):
            # An async handler was only called there; it runs here, where asyncio does.
            if not iscoroutine(result):
                raise NotAwaited(cell.shown(), result)
            result = await result
        return result


def _handoff_here(cell: Cell) -> Handoff | None:
    """The hand-off of `cell` that this thread carries out."""
    handoff = current_handoffs.get(get_ident())
    return handoff if handoff is not None and handoff.cell is cell else None


def _require_wanted(cell: Cell) -> None:
    """Raise when this thread runs a handler of `cell` that has been abandoned: its actor goes on without it."""
    handoff = _handoff_here(cell)
    if handoff is not None and handoff.is_closed():
        raise HandlerAbandoned(cell.shown())


def _call_home(cell: Cell, what: str, action: Callable[[], T]) -> T:
    if not cell.is_foreign():
        return action()
    _require_wanted(cell)
    if cell.flags & PROPAGATES:  # what is begun there brings along what is set here
        action = partial(copy_context().run, action)
    result: T = cell.loop.host.call(what, action)
    return result


def _stub(row: Operation, function: Callable[..., Any]) -> Callable[..., Any] | None:
    """What a thread has in place of a method of a context, or of its timers."""
    what = f"{function.__name__}()"

    @wraps(function)
    def called_at_home(self: Context | KeyedTimers, /, *args: object, **kwargs: object) -> object:
        return _call_home(self.cell, what, partial(function, self, *args, **kwargs))

    @wraps(function)
    def done_here(self: Context | KeyedTimers, /, *args: object, **kwargs: object) -> object:
        _require_wanted(self.cell)
        return function(self, *args, **kwargs)

    return {Way.CALL: called_at_home, Way.UNLESS_ABANDONED: done_here}.get(row.shared)


@carries_out("timers", _stub)
class OffloadedTimers(KeyedTimers):
    __slots__ = ()


@carries_out("ctx", _stub)
class OffloadedContext(ContextRecord):
    """What an actor can find out and do, from wherever its code runs."""

    __slots__ = ()

    def _hand(self) -> Visits | MessageHandoff | None:
        """What has a message of this actor in hand, as seen from this thread: its loop, a hand-off, or nothing."""
        handoff = _handoff_here(self.cell) if self.cell.is_foreign() else None
        if handoff is None:
            return super()._hand()
        _require_wanted(self.cell)
        return handoff if handoff.carries_messages else None  # type: ignore[return-value]

    def blocking(self) -> AbstractContextManager[None]:
        handoff = _handoff_here(self.cell) if self.cell.is_foreign() else None
        if handoff is None:
            return nullcontext()
        _require_wanted(self.cell)
        return _blocking(handoff)

    def _receipt(self) -> object:
        # A thread of the handler's own making: what it works for is what the hand-off has in hand.
        handoff = self.cell.handoff()
        return super()._receipt() if handoff is None or self._hand() is not None else handoff.sender

    def _new_timers(self) -> KeyedTimers:
        return OffloadedTimers(self.cell)

    def pipe_to_self(
        self,
        awaitable: Awaitable[Any],
        map: Callable[[Any], object] | None = None,  # noqa: A002 - the word of the contract
        *,
        on_error: Callable[[BaseException], object] | None = None,
    ) -> asyncio.Task[None]:
        """As with any actor; where this thread has an asyncio loop of its own, `awaitable` runs there."""
        cell = self.cell
        executor: Executor = self.ensure_extras().executor
        if not executor.has_asyncio or asyncio._get_running_loop() is None or not cell.is_foreign():
            at_home = super().pipe_to_self
            return _call_home(cell, "pipe_to_self()", lambda: at_home(awaitable, map, on_error=on_error))
        _require_wanted(cell)
        pipe = OffloadedPipe(cell, asyncio.get_running_loop(), start_pipe(self, awaitable, map, on_error))

        def begin() -> None:
            self._begin_pipe(pipe)
            if isinstance(cell.loop.clock, ManualClock):
                cell.loop.helpers[pipe] = None

        def end() -> None:
            self._end_pipe(pipe)
            cell.loop.helpers.pop(pipe, None)

        _call_home(cell, "pipe_to_self()", begin)
        pipe.task.add_done_callback(lambda _: cell.loop.inbound.post_back(cell, end))
        return pipe.task


@contextmanager
def _blocking(handoff: Handoff) -> Iterator[None]:
    handoff.block()
    try:
        yield
    finally:
        handoff.unblock()


class OffloadedPipe:
    """A task of another thread's asyncio loop that ends with the actor. For a manual clock it reports when it waits."""

    __slots__ = ("_aio", "_asked", "_cell", "_settled", "task")

    def __init__(self, cell: Cell, aio: asyncio.AbstractEventLoop, task: asyncio.Task[None]) -> None:
        self._cell = cell
        self._aio = aio
        self.task = task
        # The tick of the actor's loop after which it was last asked to report, and after which it last did. What it
        # waits for comes with a tick.
        self._asked = _NEVER
        self._settled = _NEVER

    @property
    def name(self) -> str:
        return self._cell.name()

    def cancel(self) -> None:
        """End the task, from the loop's thread."""
        with suppress(RuntimeError):  # that loop is closed, and the task with it
            self._aio.call_soon_threadsafe(self.task.cancel)

    def is_at_rest(self) -> bool:
        """Whether the task has ended, or is known to wait for what the actor's loop has to bring about."""
        if self.task.done() or self._aio.is_closed():
            return True
        future = getattr(self.task, "_fut_waiter", None)
        return self._settled == self._cell.loop.ticks and future is not None and not future.done()

    def report_rest(self, tell: Callable[[], object]) -> None:
        """Have `tell` called, on the other thread, when asyncio there has done what it has ready."""
        ticks = self._cell.loop.ticks
        if self._asked == ticks and self._settled != ticks:
            return  # that is under way

        def settled() -> None:
            self._settled = ticks
            tell()

        self._asked = ticks
        try:
            self._aio.call_soon_threadsafe(after_turns, settled)
        except RuntimeError:  # that loop is closed
            tell()
