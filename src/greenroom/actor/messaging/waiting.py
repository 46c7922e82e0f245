"""Waiting for something in an actor's life, from any thread's asyncio loop."""

from __future__ import annotations

import asyncio
from _thread import get_ident
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from greenroom._core.current import current_handoffs
from greenroom._core.mailbox.cell import Cell
from greenroom.actor.messaging.question import current_handoff
from greenroom.actor.records.record import ActorRecord
from greenroom.actor.records.states import State
from greenroom.errors import ActorTerminated, WaitsForItself, in_words
from greenroom.exits import ExitReason

__all__ = ["inspect_actor", "on_loop", "wait_for_end", "wait_for_start"]

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

    waiter = LifeWaiter(ended, for_start=True)
    try:
        await waiter.wait(cell, lambda record: waiter.end(None) if _has_run(record) else None)
    except Exception as exc:
        if cell.loop.director is not None:
            cell.loop.director.heeded(exc)
        raise


def _has_run(record: ActorRecord) -> bool:
    return record.state not in _NOT_YET_RUNNING and (record.extras is None or not record.extras.never_ran)


def _require_other(cell: Cell, what: str) -> None:
    """Raise when an actor's own handler or hook is about to wait for what cannot come before it has ended."""
    handoff = current_handoff(cell.loop)
    here = handoff is not None and handoff.cell is cell if cell.is_foreign() else cell.loop.visits.hand is cell
    if here:
        raise WaitsForItself(f"{cell.shown()} awaits its own {what}, which cannot come before its handler has ended")


async def wait_for_end(cell: Cell) -> ExitReason:
    """Return how the actor of `cell` ended, when it has."""
    _require_other(cell, "end")
    reason: ExitReason = await LifeWaiter(lambda waiter, reason: waiter.end(reason)).wait(cell, lambda record: None)
    return reason


async def inspect_actor(cell: Cell, items: tuple[str, ...]) -> Mapping[str, Any]:
    """What the actor of `cell` says of itself; its code runs on its own loop, between two messages."""
    _require_other(cell, "inspect()")

    waiter = LifeWaiter(lambda waiter, reason: waiter.end(None, ActorTerminated(cell.shown(), reason)))
    seen: Mapping[str, Any] = await waiter.wait(
        cell, lambda record: cell.loop.host.order_inspection(cell, items, waiter.end)
    )
    return seen
