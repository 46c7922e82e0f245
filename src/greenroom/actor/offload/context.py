"""The context of an actor whose code runs on another thread than its loop's.

What only its own code touches (the behavior it has become, its stash) it touches where that runs. Everything that its
loop keeps for it (children, timers, watches) is done by the loop's thread, and waited for: a call of that kind takes
some tens of microseconds here, and reads as everywhere else.
"""

from __future__ import annotations

import asyncio
from _thread import get_ident
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, TypeVar, cast

from greenroom._core.current import doing
from greenroom.actor.api.context import Context, start_pipe
from greenroom.actor.messaging.timers import KeyedTimers
from greenroom.errors import HandlerAbandoned

if TYPE_CHECKING:
    from greenroom._core.mailbox.cell import Cell
    from greenroom.actor.messaging.ref import ActorRef

__all__ = ["AwayContext"]

F = TypeVar("F", bound=Callable[..., Any])


def at_home(method: F) -> F:
    """The same method, done by the loop's own thread whichever calls it."""
    what = f"{method.__name__}()"

    @wraps(method)
    def done_at_home(self: Any, /, *args: Any, **kwargs: Any) -> Any:
        cell = self.cell
        if not cell.is_foreign():
            return method(self, *args, **kwargs)
        require_wanted(cell)
        return cell.loop.host.call(what, partial(method, self, *args, **kwargs))

    return cast(F, done_at_home)


def here(method: F) -> F:
    """The same method, unless the handler that calls it has been given up."""

    @wraps(method)
    def done_here(self: Any, /, *args: Any, **kwargs: Any) -> Any:
        require_wanted(self.cell)
        return method(self, *args, **kwargs)

    return cast(F, done_here)


def require_wanted(cell: Cell) -> None:
    """Raise when this thread runs a handler of `cell` that has been abandoned: its actor goes on without it."""
    work = doing.get(get_ident())
    if work is not None and work.cell is cell and work.is_cut():
        raise HandlerAbandoned(cell.shown())


class AwayTimers(KeyedTimers):
    """Keyed timers of an actor that works elsewhere."""

    __slots__ = ()

    start = at_home(KeyedTimers.start)
    cancel = at_home(KeyedTimers.cancel)
    cancel_all = at_home(KeyedTimers.cancel_all)


class AwayContext(Context):
    """What an actor can find out and do, from wherever its code runs."""

    __slots__ = ()

    def hand(self) -> Any:
        """Who has a message of this actor in hand, as seen from this thread: its loop, an errand, or nobody."""
        work: Any = doing.get(get_ident()) if self.cell.is_foreign() else None
        if work is None or work.cell is not self.cell:
            return super().hand()
        require_wanted(self.cell)
        return work if work.is_errand else None

    def _slip(self) -> Any:
        # A thread of the handler's own making: what it works for is what the errand has in hand.
        errand = self.cell.errand()
        return super()._slip() if errand is None or self.hand() is not None else errand.sender

    @property
    def children(self) -> list[ActorRef[Any, Any]]:
        """The refs of its children, eldest first."""
        return self._children()

    @at_home
    def _children(self) -> list[ActorRef[Any, Any]]:
        return Context.children.fget(self)  # type: ignore[attr-defined,no-any-return]

    @property
    def trap_exit(self) -> bool:
        """Whether the end of a linked actor comes as the message `Exit(ref, reason)`, instead of failing this one."""
        return Context.trap_exit.fget(self)  # type: ignore[attr-defined,no-any-return]

    @trap_exit.setter
    def trap_exit(self, traps: bool) -> None:
        self._set_trap_exit(traps)

    @at_home
    def _set_trap_exit(self, traps: bool) -> None:
        Context.trap_exit.fset(self, traps)  # type: ignore[attr-defined]

    @property
    def timers(self) -> AwayTimers:
        """Timers by key."""
        more = self.extra()
        if more.keyed is None:
            more.keyed = AwayTimers(self.cell)
        keyed: AwayTimers = more.keyed
        return keyed

    _publish = at_home(Context._publish)
    _owe = at_home(Context._owe)
    _hand_on = at_home(Context._hand_on)
    spawn = here(Context.spawn)
    stop = here(Context.stop)
    become = here(Context.become)
    unbecome = here(Context.unbecome)
    watch = at_home(Context.watch)
    unwatch = at_home(Context.unwatch)
    monitor = at_home(Context.monitor)
    demonitor = at_home(Context.demonitor)
    link = at_home(Context.link)
    unlink = at_home(Context.unlink)
    send_after = at_home(Context.send_after)
    send_every = at_home(Context.send_every)
    set_receive_timeout = at_home(Context.set_receive_timeout)

    def pipe_to_self(
        self,
        awaitable: Awaitable[Any],
        map: Callable[[Any], Any] | None = None,  # noqa: A002 - the word of the contract
        *,
        on_error: Callable[[BaseException], Any] | None = None,
    ) -> asyncio.Task[None]:
        """As with any actor; where this thread has an asyncio loop of its own, `awaitable` runs there."""
        place: Any = self.extra().place
        if not place.has_asyncio or asyncio._get_running_loop() is None or not self.cell.is_foreign():
            return self._pipe_at_home(awaitable, map, on_error=on_error)
        require_wanted(self.cell)
        aio = asyncio.get_running_loop()
        pipe = PipeElsewhere(aio, start_pipe(self, awaitable, map, on_error))
        pipes = self._keep_pipe(pipe)
        forget = partial(pipes.pop, pipe, None)
        pipe.task.add_done_callback(lambda _: self.cell.loop.inbound.bring(self.cell, forget))
        return pipe.task

    _pipe_at_home = at_home(Context.pipe_to_self)

    @at_home
    def _keep_pipe(self, pipe: PipeElsewhere) -> dict[Any, None]:
        pipes = self.extra().pipes
        pipes[pipe] = None
        return pipes


class PipeElsewhere:
    """A task of another thread's asyncio loop that ends with the actor."""

    __slots__ = ("_aio", "task")

    def __init__(self, aio: asyncio.AbstractEventLoop, task: asyncio.Task[None]) -> None:
        self._aio = aio
        self.task = task

    def cancel(self) -> None:
        """End it, from the loop's thread."""
        with suppress(RuntimeError):  # that loop is closed, and the task with it
            self._aio.call_soon_threadsafe(self.task.cancel)
