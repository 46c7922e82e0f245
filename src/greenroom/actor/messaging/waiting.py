"""Waiting for something in an actor's life, from any thread's asyncio loop."""

from __future__ import annotations

import asyncio
from _thread import get_ident
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from greenroom._core.current import current_handoffs
from greenroom._core.mailbox.cell import Cell
from greenroom._core.timing.timers import Alarm
from greenroom.actor.messaging.question import current_handoff, require_timeout
from greenroom.actor.records.record import ActorRecord
from greenroom.actor.records.states import State
from greenroom.errors import ActorTerminated, AskTimeout, WaitsForItself, in_words
from greenroom.exits import ExitReason

if TYPE_CHECKING:
    from greenroom._core.mailbox.cell import Order

__all__ = [
    "WaitTimeout",
    "inspect_actor",
    "on_loop",
    "require_other",
    "require_startable",
    "wait_for_end",
    "wait_for_start",
]

_NOT_YET_RUNNING = (State.CREATED.code, State.STARTING.code, State.FAILED.code, State.RESTARTING.code)


class LifeWaiter:
    """One coroutine that waits; `ended` is called if the actor has ended meanwhile."""

    __slots__ = ("_aio", "_future", "_handoff", "ended", "for_start")

    def __init__(self, ended: Callable[[LifeWaiter, ExitReason], object], for_start: bool = False) -> None:
        self.ended = ended
        self.for_start = for_start
        self._aio = asyncio.get_running_loop()
        self._future: asyncio.Future[Any] = self._aio.create_future()
        # Of the handler that waits, if it runs on another thread than its loop's.
        self._handoff = current_handoffs.get(get_ident()) if current_handoffs else None

    def end(self, result: object, cause: BaseException | None = None) -> None:
        """What was waited for has happened, or cannot happen any more. From any thread."""
        try:
            here = asyncio.get_running_loop() is self._aio
        except RuntimeError:
            here = False
        if here:
            self._finish(result, cause)
        else:
            if self._handoff is not None:
                self._handoff.touch()
            with suppress(RuntimeError):  # that loop is closed: nobody waits any more
                self._aio.call_soon_threadsafe(self._finish, result, cause)

    def _finish(self, result: object, cause: BaseException | None) -> None:
        if self._future.done():
            return
        if cause is None:
            self._future.set_result(result)
        elif isinstance(cause, Exception) and not isinstance(cause, StopIteration):
            self._future.set_exception(cause)
        else:
            wrapped = RuntimeError(f"the actor raised {in_words(cause)}")
            wrapped.__cause__ = cause
            self._future.set_exception(wrapped)

    async def wait(self, cell: Cell, begin: Callable[[ActorRecord], object]) -> Any:
        """Begin to wait, on the actor's own loop, and wait."""

        def begin_or_end() -> None:
            record = cell.record
            if isinstance(record, ActorRecord):
                record.ensure_extras().waiters.append(self)  # pyright: ignore[reportArgumentType]
                begin(record)
            else:
                self.ended(self, record.reason)

        def forget() -> None:
            record = cell.record
            if isinstance(record, ActorRecord) and self in record.ensure_extras().waiters:
                record.ensure_extras().waiters.remove(self)

        on_loop(cell, begin_or_end)
        try:
            return await self._future
        finally:
            on_loop(cell, forget)


def on_loop(cell: Cell, action: Callable[[], object]) -> None:
    """Do something on the thread of the cell's loop; if that has stopped, here."""
    if get_ident() == cell.runq.thread or not cell.loop.inbound.call(cell, action):
        action()


async def wait_for_start(cell: Cell) -> None:
    """Return when the actor of `cell` is running; raise what prevented that."""

    def ended(waiter: LifeWaiter, reason: ExitReason) -> None:
        waiter.end(None, ActorTerminated(cell.shown(), reason) if reason.cause is None else reason.cause)

    require_startable(cell)
    waiter = LifeWaiter(ended, for_start=True)
    try:
        await waiter.wait(cell, lambda record: waiter.end(None) if _has_run(record) else None)
    except Exception as exc:
        if cell.loop.director is not None:
            cell.loop.director.heeded(exc)
        raise


def _has_run(record: ActorRecord) -> bool:
    return record.state not in _NOT_YET_RUNNING and (record.extras is None or not record.extras.never_ran)


def _is_own(cell: Cell) -> bool:
    """Whether this is the handler or hook of the actor of `cell` itself, and no task of its making."""
    if not cell.is_foreign():
        return bool(cell.loop.visits.hand is cell)
    handoff = current_handoff(cell.loop)
    return handoff is not None and handoff.cell is cell and handoff.is_awaiting_itself()


def require_other(cell: Cell, what: str, is_own: bool | None = None) -> None:
    """Raise when an actor's own handler or hook is about to wait for what cannot come before it has ended."""
    if _is_own(cell) if is_own is None else is_own:
        raise WaitsForItself(f"{cell.shown()} awaits its own {what}, which cannot come before its handler has ended")


def require_startable(cell: Cell, is_own: bool | None = None) -> None:
    """Raise when an actor's own hook is about to wait for its start; a handler need not wait, for it has started."""
    record = cell.record
    if isinstance(record, ActorRecord) and not _has_run(record):
        require_other(cell, "start", is_own)


async def wait_for_end(cell: Cell) -> ExitReason:
    """Return how the actor of `cell` ended, when it has."""
    require_other(cell, "end")
    reason: ExitReason = await LifeWaiter(lambda waiter, reason: waiter.end(reason)).wait(cell, lambda record: None)
    return reason


class WaitTimeout(Alarm):
    """Ends a wait, by the system's own clock."""

    __slots__ = ("_give_up",)

    def __init__(self, deadline: float, give_up: Callable[[], object]) -> None:
        self.set_up_alarm(deadline)
        self._give_up = give_up

    def ring(self, admission: object) -> None:
        """What was waited for did not come in time."""
        self._give_up()


async def inspect_actor(cell: Cell, items: tuple[str, ...], timeout: float | None) -> Mapping[str, Any]:
    """What the actor of `cell` says of itself; its code runs on its own loop, between two messages."""
    if timeout is not None:
        require_timeout(timeout)
    require_other(cell, "inspect()")
    loop = cell.loop
    waiter = LifeWaiter(lambda waiter, reason: waiter.end(None, ActorTerminated(cell.shown(), reason)))
    ordered: list[Order] = []

    def give_up() -> None:
        error = AskTimeout(cell.shown(), timeout or 0.0)
        if loop.runq.rouse is None:
            error.add_note("its system has not been started: `async with system` comes first")
        waiter.end(None, error)

    def begin(record: ActorRecord) -> None:
        ordered.append(loop.host.order_inspection(cell, items, waiter.end))
        if alarm is not None:
            loop.timers.add(alarm)
            if loop.runq.asleep:
                loop.runq.wake()

    def leave() -> None:
        if isinstance(cell.record, ActorRecord):
            cell.withdraw(tuple(ordered))  # an actor that hangs must not collect them
        if alarm is not None:
            alarm.disarm(loop.timers)

    alarm = None if timeout is None else WaitTimeout(loop.now() + timeout, give_up)
    if timeout is not None and loop.runq.rouse is None:  # it has no timers that ring
        asyncio.get_running_loop().call_later(timeout, give_up)
    try:
        seen: Mapping[str, Any] = await waiter.wait(cell, begin)
    finally:
        on_loop(cell, leave)
    return seen
