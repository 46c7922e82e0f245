"""Waiting for something in an actor's life, or for room in its mailbox.

What is waited for begins and ends on the actor's own loop: a `LifeWaiter`, a `RoomWaiter`. Who waits is a coroutine, of
any thread's asyncio loop (`TaskWait`), or a thread (`ThreadWait`, in `blocking`).
"""

from __future__ import annotations

import asyncio
from _thread import get_ident
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol

from greenroom._core.current import current_handoffs
from greenroom._core.delivery.waitingline import Waiter
from greenroom._core.mailbox.cell import Cell
from greenroom._core.timing.timers import Alarm
from greenroom.actor.messaging.asking import require_timeout
from greenroom.actor.messaging.question import current_handoff
from greenroom.actor.records.record import ActorRecord
from greenroom.actor.records.states import State
from greenroom.errors import ActorTerminated, AskTimeout, SendTimeout, WaitsForItself, WaitTimeout
from greenroom.errors.base import in_words
from greenroom.exits import ExitReason
from greenroom.lanes import Lane

if TYPE_CHECKING:
    from greenroom._core.mailbox.cell import Order

__all__ = [
    "LifeWaiter",
    "RoomWaiter",
    "end_of",
    "has_started",
    "inspection_of",
    "is_own",
    "on_loop",
    "own_mailbox_is_full",
    "require_other",
    "require_startable",
    "start_of",
    "wait_for_end",
    "wait_for_inspection",
    "wait_for_room",
    "wait_for_start",
]

_NOT_YET_RUNNING = (State.CREATED.code, State.STARTING.code, State.FAILED.code, State.RESTARTING.code)


class Wait(Protocol):
    """Who waits."""

    def end(self, result: object, cause: BaseException | None = None) -> None:
        """What was waited for has happened, or cannot happen any more. From any thread."""
        ...


class TaskWait:
    """A coroutine that waits, in whichever asyncio loop it runs."""

    __slots__ = ("_aio", "_future", "_handoff")

    def __init__(self) -> None:
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
        else:
            self._future.set_exception(cause)

    async def until(self, what: LifeWaiter | RoomWaiter) -> Any:
        """Wait for it."""
        on_loop(what.cell, what.begin)
        try:
            return await self._future
        finally:
            on_loop(what.cell, what.leave)


class WaitAlarm(Alarm):
    """Ends a wait, by the system's own clock."""

    __slots__ = ("_give_up",)

    def __init__(self, deadline: float, give_up: Callable[[], object]) -> None:
        self.set_up_alarm(deadline)
        self._give_up = give_up

    def ring(self, admission: object) -> None:
        """What was waited for did not come in time."""
        self._give_up()


def _alarm_of(cell: Cell, timeout: float | None, give_up: Callable[[], object]) -> WaitAlarm | None:
    return None if timeout is None else WaitAlarm(cell.loop.now() + timeout, give_up)


def _set(cell: Cell, alarm: WaitAlarm | None) -> None:
    if alarm is not None:
        loop = cell.loop
        loop.timers.add(alarm)
        if loop.runq.asleep:
            loop.runq.wake()


class LifeWaiter:
    """What is waited for in the life of an actor. `begin` may end it at once; `ended`, if the actor has ended."""

    __slots__ = ("_alarm", "_begin", "_ended", "_late", "_leave", "_wait", "cell", "for_start")

    def __init__(
        self,
        cell: Cell,
        wait: Wait,
        ended: Callable[[LifeWaiter, ExitReason], object],
        begin: Callable[[LifeWaiter, ActorRecord], object] | None = None,
        leave: Callable[[], object] | None = None,
        *,
        timeout: float | None = None,
        late: Callable[[], BaseException] | None = None,
        for_start: bool = False,
    ) -> None:
        self.cell = cell
        self.for_start = for_start
        self._wait = wait
        self._ended = ended
        self._begin = begin
        self._leave = leave
        self._late = late
        self._alarm = _alarm_of(cell, timeout, self.give_up)

    def end(self, result: object, cause: BaseException | None = None) -> None:
        """It has happened, or cannot happen any more. From any thread."""
        if cause is not None and (not isinstance(cause, Exception) or isinstance(cause, StopIteration)):
            wrapped = RuntimeError(f"the actor raised {in_words(cause)}")
            wrapped.__cause__ = cause
            cause = wrapped
        self._wait.end(result, cause)

    def ended(self, waiter: object, reason: ExitReason) -> None:
        """The actor has ended."""
        self._ended(self, reason)

    def give_up(self) -> None:
        """It did not happen in time."""
        if self._late is not None:
            self.end(None, self._late())

    def begin(self) -> None:
        """Begin to wait. On the actor's own loop."""
        record = self.cell.record
        if not isinstance(record, ActorRecord):
            self._ended(self, record.reason)
            return
        record.ensure_extras().waiters.append(self)  # pyright: ignore[reportArgumentType]
        if self._begin is not None:
            self._begin(self, record)
        _set(self.cell, self._alarm)

    def leave(self) -> None:
        """Wait no longer. On the actor's own loop."""
        record = self.cell.record
        if isinstance(record, ActorRecord):
            extras = record.ensure_extras()
            if self in extras.waiters:
                extras.waiters.remove(self)  # pyright: ignore[reportArgumentType]
            if self._leave is not None:
                self._leave()
        if self._alarm is not None:
            self._alarm.disarm(self.cell.loop.timers)


def on_loop(cell: Cell, action: Callable[[], object]) -> None:
    """Do something on the thread of the cell's loop; if that has stopped, here."""
    if get_ident() == cell.runq.thread or not cell.loop.inbound.call(cell, action):
        action()


def start_of(cell: Cell, wait: Wait, timeout: float | None = None) -> LifeWaiter:
    """The moment when the actor of `cell` is running, or what prevents that."""

    def ended(waiter: LifeWaiter, reason: ExitReason) -> None:
        waiter.end(None, ActorTerminated(cell.shown(), reason) if reason.cause is None else reason.cause)

    def begin(waiter: LifeWaiter, record: ActorRecord) -> None:
        if _has_run(record):
            waiter.end(None)

    def late() -> BaseException:
        return WaitTimeout(cell.shown(), "started", timeout or 0.0)

    return LifeWaiter(cell, wait, ended, begin, timeout=timeout, late=late, for_start=True)


async def wait_for_start(cell: Cell, timeout: float | None = None) -> None:
    """Return when the actor of `cell` is running; raise what prevented that."""
    require_startable(cell)
    wait = TaskWait()
    try:
        await wait.until(start_of(cell, wait, timeout))
    except Exception as exc:
        if cell.loop.director is not None:
            cell.loop.director.heeded(exc)
        raise


def _has_run(record: ActorRecord) -> bool:
    return record.state not in _NOT_YET_RUNNING and (record.extras is None or not record.extras.never_ran)


def has_started(cell: Cell) -> bool:
    """Whether nobody need wait for the actor of `cell` to start: it is running, or never will be."""
    record = cell.peek_record()
    return not isinstance(record, ActorRecord) or _has_run(record)


def is_own(cell: Cell) -> bool:
    """Whether this is the handler or hook of the actor of `cell` itself, and no task of its making."""
    if not cell.is_foreign():
        return bool(cell.loop.visits.hand is cell)
    handoff = current_handoff(cell.loop)
    return handoff is not None and handoff.cell is cell and handoff.is_awaiting_itself()


def require_other(cell: Cell, what: str, own: bool | None = None) -> None:
    """Raise when an actor's own handler or hook is about to wait for what cannot come before it has ended."""
    if is_own(cell) if own is None else own:
        raise WaitsForItself(f"{cell.shown()} awaits its own {what}, which cannot come before its handler has ended")


def require_startable(cell: Cell, own: bool | None = None) -> None:
    """Raise when an actor's own hook is about to wait for its start; a handler need not wait, for it has started."""
    record = cell.peek_record()
    if isinstance(record, ActorRecord) and not _has_run(record):
        require_other(cell, "start", own)


def end_of(cell: Cell, wait: Wait, timeout: float | None = None) -> LifeWaiter:
    """The end of the actor of `cell`: its exit reason."""

    def late() -> BaseException:
        return WaitTimeout(cell.shown(), "ended", timeout or 0.0)

    return LifeWaiter(cell, wait, lambda waiter, reason: waiter.end(reason), timeout=timeout, late=late)


async def wait_for_end(cell: Cell, timeout: float | None = None) -> ExitReason:
    """Return how the actor of `cell` ended, when it has."""
    require_other(cell, "end")
    wait = TaskWait()
    reason: ExitReason = await wait.until(end_of(cell, wait, timeout))
    return reason


def inspection_of(cell: Cell, wait: Wait, items: tuple[str, ...], timeout: float | None) -> LifeWaiter:
    """What the actor of `cell` says of itself; its code runs on its own loop, between two messages."""
    loop = cell.loop
    ordered: list[Order] = []

    def late() -> BaseException:
        error = AskTimeout(cell.shown(), timeout or 0.0)
        if loop.runq.rouse is None:
            error.add_note("its system has not been started: `async with system` comes first")
        return error

    return LifeWaiter(
        cell,
        wait,
        lambda waiter, reason: waiter.end(None, ActorTerminated(cell.shown(), reason)),
        lambda waiter, record: ordered.append(loop.host.order_inspection(cell, items, waiter.end)),
        lambda: cell.withdraw(tuple(ordered)),  # an actor that hangs must not collect them
        timeout=timeout,
        late=late,
    )


async def wait_for_inspection(cell: Cell, items: tuple[str, ...], timeout: float | None) -> Mapping[str, Any]:
    """The same, when it has come."""
    if timeout is not None:
        require_timeout(timeout)
    require_other(cell, "inspect()")
    wait = TaskWait()
    waiter = inspection_of(cell, wait, items, timeout)
    if timeout is not None and cell.loop.runq.rouse is None:  # it has no timers that ring
        asyncio.get_running_loop().call_later(timeout, waiter.give_up)
    seen: Mapping[str, Any] = await wait.until(waiter)
    return seen


class RoomWaiter:
    """Room in a mailbox, which a message waits for, in order of arrival."""

    __slots__ = ("_alarm", "_is_own", "_timeout", "_wait", "_waiter", "cell")

    def __init__(
        self,
        cell: Cell,
        wait: Wait,
        message: object,
        sender: object,
        lane: Lane,
        timeout: float | None,
        *,
        claim: Callable[[], bool] | None = None,
        own: bool = False,
    ) -> None:
        self.cell = cell
        self._wait = wait
        self._timeout = timeout
        # Whether it is the actor's own handler that waits: while it does, nobody makes room.
        self._is_own = own
        sender = cell.loop.admission.take_along(cell, sender)
        self._waiter = Waiter(message, sender, lane, lambda error: wait.end(None, error), claim)
        self._alarm = _alarm_of(cell, timeout, self.give_up)

    def late(self) -> SendTimeout:
        """There was no room in time."""
        return SendTimeout(self.cell.shown(), self._waiter.message, self._timeout or 0.0)

    def give_up(self) -> None:
        """Tell whoever waits so."""
        self.cell.loop.admission.give_up(self.cell, self._waiter)
        self._wait.end(None, self.late())

    def begin(self) -> None:
        """Stand in line. On the actor's own loop."""
        admission, waiter = self.cell.loop.admission, self._waiter
        if self._is_own and not admission.has_room(self.cell, waiter.lane):
            self._wait.end(None, own_mailbox_is_full(self.cell))
            return
        admission.wait_for_room(self.cell, waiter)
        _set(self.cell, self._alarm)

    def leave(self) -> None:
        """Wait no longer. On the actor's own loop."""
        self.cell.loop.admission.give_up(self.cell, self._waiter)
        if self._alarm is not None:
            self._alarm.disarm(self.cell.loop.timers)


def own_mailbox_is_full(cell: Cell) -> WaitsForItself:
    """An actor's own handler cannot wait for room there."""
    why = f"{cell.shown()} waits for room in its own full mailbox, from which it takes nothing before its handler ends"
    return WaitsForItself(f"{why}: use `tell`, which refuses at once, or a larger mailbox")


async def wait_for_room(cell: Cell, message: object, sender: object, lane: Lane, timeout: float | None) -> None:
    """Send a message as soon as there is room for it."""
    wait = TaskWait()
    await wait.until(RoomWaiter(cell, wait, message, sender, lane, timeout))
