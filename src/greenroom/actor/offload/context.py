"""The context of an actor whose code runs on another thread than its loop's.

What only its own code touches (the behavior it has become, its stash) it touches where that runs. Everything that its
loop keeps for it (children, timers, watches) is done by the loop's thread, and waited for: a call of that kind takes
some tens of microseconds here, and reads as everywhere else.
"""

from __future__ import annotations

import asyncio
from _thread import get_ident
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import copy_context
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast

from greenroom._core.current import current_handoffs
from greenroom._core.flags import PROPAGATES
from greenroom.actor.api.context import Context, ContextRecord, start_pipe
from greenroom.actor.messaging.timers import KeyedTimers
from greenroom.actor.offload.pipe import OffloadedPipe
from greenroom.clock import ManualClock
from greenroom.errors import HandlerAbandoned

if TYPE_CHECKING:
    from greenroom._core.mailbox.cell import Cell
    from greenroom._core.ports import Hand
    from greenroom.actor.messaging.ref import ActorRef, Alias
    from greenroom.actor.records.parts import ExecutorPort

__all__ = ["OffloadedContext"]

F = TypeVar("F", bound=Callable[..., object])


class HasCell(Protocol):
    """An actor's context, or something of its own."""

    @property
    def cell(self) -> Cell:
        """The actor's place on its loop."""
        ...


def on_loop_thread(method: F) -> F:
    """The same method, done by the loop's own thread whichever calls it."""
    what = f"{method.__name__}()"

    @wraps(method)
    def done_at_home(self: HasCell, /, *args: object, **kwargs: object) -> object:
        cell = self.cell
        if not cell.is_foreign():
            return method(self, *args, **kwargs)
        require_wanted(cell)
        action = partial(method, self, *args, **kwargs)
        if cell.flags & PROPAGATES:  # what is begun there brings along what is set here
            return cell.loop.host.call(what, partial(copy_context().run, action))
        return cell.loop.host.call(what, action)

    return cast(F, done_at_home)


def unless_abandoned(method: F) -> F:
    """The same method, unless the handler that calls it has been given up."""

    @wraps(method)
    def done_here(self: HasCell, /, *args: object, **kwargs: object) -> object:
        require_wanted(self.cell)
        return method(self, *args, **kwargs)

    return cast(F, done_here)


def require_wanted(cell: Cell) -> None:
    """Raise when this thread runs a handler of `cell` that has been abandoned: its actor goes on without it."""
    handoff = current_handoffs.get(get_ident())
    if handoff is not None and handoff.cell is cell and handoff.is_closed():
        raise HandlerAbandoned(cell.shown())


class OffloadedTimers(KeyedTimers):
    """Keyed timers of an actor that works elsewhere."""

    __slots__ = ()

    start = on_loop_thread(KeyedTimers.start)
    cancel = on_loop_thread(KeyedTimers.cancel)
    cancel_all = on_loop_thread(KeyedTimers.cancel_all)


class OffloadedContext(ContextRecord):
    """What an actor can find out and do, from wherever its code runs."""

    __slots__ = ()

    def _hand(self) -> Hand | None:
        """Who has a message of this actor in hand, as seen from this thread: its loop, a hand-off, or nobody."""
        handoff = current_handoffs.get(get_ident()) if self.cell.is_foreign() else None
        if handoff is None or handoff.cell is not self.cell:
            return super()._hand()
        require_wanted(self.cell)
        return handoff if handoff.carries_messages else None  # type: ignore[return-value]

    def blocking(self) -> AbstractContextManager[None]:
        """Say that this handler only waits inside the block."""
        handoff: Any = current_handoffs.get(get_ident()) if self.cell.is_foreign() else None
        if handoff is None or handoff.cell is not self.cell:
            return nullcontext()
        require_wanted(self.cell)
        return _blocking(handoff)

    def _receipt(self) -> object:
        # A thread of the handler's own making: what it works for is what the hand-off has in hand.
        handoff = self.cell.handoff()
        return super()._receipt() if handoff is None or self._hand() is not None else handoff.sender

    @property
    def children(self) -> list[ActorRef]:
        """The refs of its children, eldest first."""
        return self._children()

    @on_loop_thread
    def _children(self) -> list[ActorRef]:
        return Context.children.fget(self)  # type: ignore[attr-defined,no-any-return]

    @property
    def metas(self) -> list[Alias]:
        """The aliases of its meta-processes, eldest first."""
        return self._metas()

    @on_loop_thread
    def _metas(self) -> list[Alias]:
        return Context.metas.fget(self)  # type: ignore[attr-defined,no-any-return]

    @property
    def trap_exit(self) -> bool:
        """Whether the end of a linked actor comes as the message `Exit(ref, reason)`, instead of failing this one."""
        return Context.trap_exit.fget(self)  # type: ignore[attr-defined,no-any-return]

    @trap_exit.setter
    def trap_exit(self, traps: bool) -> None:
        self._set_trap_exit(traps)

    @on_loop_thread
    def _set_trap_exit(self, traps: bool) -> None:
        Context.trap_exit.fset(self, traps)  # type: ignore[attr-defined]

    @property
    def timers(self) -> OffloadedTimers:
        """Timers by key."""
        extras = self.ensure_extras()
        if extras.keyed is None:
            extras.keyed = OffloadedTimers(self.cell)
        keyed: OffloadedTimers = extras.keyed
        return keyed

    _publish = on_loop_thread(Context._publish)
    _owe = on_loop_thread(Context._owe)
    _hand_on = on_loop_thread(Context._hand_on)
    spawn = unless_abandoned(Context.spawn)
    stop = unless_abandoned(Context.stop)
    become = unless_abandoned(Context.become)
    unbecome = unless_abandoned(Context.unbecome)
    watch = on_loop_thread(Context.watch)
    unwatch = on_loop_thread(Context.unwatch)
    monitor = on_loop_thread(Context.monitor)
    demonitor = on_loop_thread(Context.demonitor)
    link = on_loop_thread(Context.link)
    unlink = on_loop_thread(Context.unlink)
    send_after = on_loop_thread(Context.send_after)
    send_every = on_loop_thread(Context.send_every)
    set_receive_timeout = on_loop_thread(Context.set_receive_timeout)
    spawn_meta = unless_abandoned(Context.spawn_meta)
    watch_fd = on_loop_thread(Context.watch_fd)
    unwatch_fd = on_loop_thread(Context.unwatch_fd)

    def pipe_to_self(
        self,
        awaitable: Awaitable[Any],
        map: Callable[[Any], object] | None = None,  # noqa: A002 - the word of the contract
        *,
        on_error: Callable[[BaseException], object] | None = None,
    ) -> asyncio.Task[None]:
        """As with any actor; where this thread has an asyncio loop of its own, `awaitable` runs there."""
        executor: ExecutorPort = self.ensure_extras().executor
        if not executor.has_asyncio or asyncio._get_running_loop() is None or not self.cell.is_foreign():
            return self._pipe_on_loop(awaitable, map, on_error=on_error)
        require_wanted(self.cell)
        aio = asyncio.get_running_loop()
        pipe = OffloadedPipe(self.cell, aio, start_pipe(self, awaitable, map, on_error))
        forget = self._keep_pipe(pipe)
        pipe.task.add_done_callback(lambda _: self.cell.loop.inbound.bring(self.cell, forget))
        return pipe.task

    _pipe_on_loop = on_loop_thread(Context.pipe_to_self)

    @on_loop_thread
    def _keep_pipe(self, pipe: OffloadedPipe) -> Callable[[], object]:
        """Have it end with the actor, and the clock wait for it; what is returned forgets it."""
        pipes = self.ensure_extras().pipes
        helpers = self.cell.loop.helpers
        pipes[pipe] = None
        if isinstance(self.cell.loop.clock, ManualClock):
            helpers[pipe] = None

        def forget() -> None:
            pipes.pop(pipe, None)
            helpers.pop(pipe, None)

        return forget


@contextmanager
def _blocking(handoff: Any) -> Iterator[None]:
    handoff.block()
    try:
        yield
    finally:
        handoff.unblock()
