"""What blocks its thread: `ask_sync`, `send_sync`, `started_sync`, `terminated_sync`, `inspect_sync`.

**Where.** On a plain thread; in a plain `def` handler or hook of an actor whose thread is its own to block. Who would
hold up a loop, or asyncio, and with it everybody else there, is refused, and told what to write instead.

**Time** is the system's. But a system whose thread is held up does not come to see that it has passed, so a waiting
thread looks at its own clock too; if the system's is turned by hand, only after a while.

**While it waits**, a handler's thread says so: its pool may start another, and a clock that is turned by hand advance.
"""

from __future__ import annotations

import asyncio
from _thread import get_ident
from collections.abc import Callable, Mapping
from concurrent.futures import Future as ThreadFuture
from concurrent.futures import InvalidStateError
from contextlib import suppress
from typing import Any

from greenroom._core.current import CurrentHandoff, current_handoffs, sender_here
from greenroom._core.mailbox.cell import Cell
from greenroom._core.scheduler.loop import Loop
from greenroom.actor.messaging.askdeadlock import wait_on_thread
from greenroom.actor.messaging.asking import loop_here, require_may_ask, require_timeout, seconds_of, send_from_outside
from greenroom.actor.messaging.question import Question, current_handoff
from greenroom.actor.messaging.waiting import (
    LifeWaiter,
    RoomWaiter,
    end_of,
    inspection_of,
    is_own,
    on_loop,
    require_other,
    require_startable,
    start_of,
)
from greenroom.clock import ManualClock
from greenroom.errors import AskTimeout, NotStarted, WaitsForItself, WaitTimeout
from greenroom.exits import ExitReason
from greenroom.lanes import Lane, as_lane

__all__ = [
    "ThreadWait",
    "block_for_answer",
    "block_for_end",
    "block_for_inspection",
    "block_for_room",
    "block_for_start",
    "require_may_block",
]

_PATIENCE = 30.0
"""Seconds beyond its timeout that a thread waits for a system whose clock is turned by hand."""


def require_may_block(loop: Loop, what: str, instead: str) -> None:
    """Raise where `what` would hold up a loop, or wait for one that does not run."""
    is_mine = get_ident() == loop.runq.thread and not loop.closed
    if is_mine and loop.runq.rouse is None:
        raise NotStarted(loop.host.port.name, what)
    if is_mine and loop.visits.hand is not None:
        remedy = f"write `await {instead}` here"
        if not loop.visits.stepper.is_stepping():
            remedy = f'write `await {instead}` in an `async def`, or spawn it with `dispatcher="parallel"`'
        raise WaitsForItself(f"{what} in {loop.visits.hand.shown()} would hold up all actors on this thread: {remedy}")
    if is_mine or (asyncio._get_running_loop() is not None and not _is_plain_handler()):
        raise WaitsForItself(f"{what} would hold up the loop of this thread: write `await {instead}` here")


def _cell_here() -> Cell | None:
    """Whose handler this thread runs, on whichever loop or for whichever it does so."""
    handoff = current_handoffs.get(get_ident()) if current_handoffs else None
    if handoff is not None:
        return handoff.cell
    home = loop_here()
    return None if home is None else home.visits.hand


def _is_plain_handler() -> bool:
    """Whether this is a plain `def` of an actor that has its thread, and asyncio there, for itself."""
    handoff = current_handoffs.get(get_ident()) if current_handoffs else None
    return handoff is not None and not handoff.awaits and handoff.is_awaiting_itself()


class ThreadWait:
    """A thread that waits for what a loop brings about."""

    __slots__ = ("_future", "_loop", "_own")

    def __init__(self, loop: Loop, what: str, instead: str) -> None:
        require_may_block(loop, what, instead)
        if loop.runq.rouse is None and not loop.closed:
            raise NotStarted(loop.host.port.name, what)
        self._loop = loop
        self._own: CurrentHandoff | None = current_handoffs.get(get_ident()) if current_handoffs else None
        self._future: ThreadFuture[Any] = ThreadFuture()

    def done(self) -> bool:
        """Whether there is nothing to wait for any more. On any thread."""
        return self._future.done()

    def claim(self) -> bool:
        """Let it not be given up any more; False when it has been."""
        return self._future.set_running_or_notify_cancel()

    def end(self, result: object, cause: BaseException | None = None) -> None:
        """What was waited for has happened, or cannot happen any more. From any thread."""
        with suppress(InvalidStateError):  # it was given up
            if cause is None:
                self._future.set_result(result)
            else:
                self._future.set_exception(cause)

    def until(self, what: LifeWaiter | RoomWaiter, timeout: float | None, late: Callable[[], BaseException]) -> Any:
        """Wait for it."""
        on_loop(what.cell, what.begin)
        try:
            return self.result(timeout, late)
        finally:
            on_loop(what.cell, what.leave)

    def result(self, timeout: float | None, late: Callable[[], BaseException]) -> Any:
        """What came of it."""
        own = self._own
        if own is not None:
            own.waits(True)
            # If an actor of another system is waited for that goes by another clock, this one's is not to go on.
            if self._loop.clock is own.cell.loop.clock:
                own.question = self
                own.tick_soon()
        is_manual = isinstance(self._loop.clock, ManualClock)
        try:
            return self._future.result(None if timeout is None else timeout + (_PATIENCE if is_manual else 0.0))
        except TimeoutError:
            if not self._future.cancel():
                return self._future.result()  # it has come after all; or this timeout came of it
            raise late() from None
        finally:
            if own is not None:
                own.waits(False)
                own.question = None


def block_for_room(cell: Cell, message: object, timeout: float | None, lane: Lane, sender: object = None) -> None:
    """Send a message as soon as there is room for it, from `sender` or else from whoever this thread works for."""
    if timeout is not None:
        require_timeout(timeout)
    lane = as_lane(lane)
    wait = ThreadWait(cell.loop, "send_sync()", "ref.send(...)")
    if sender is None:
        sender = sender_here()
    if not cell.loop.inbound.offer_if_room(cell, message, sender, lane):
        room = RoomWaiter(cell, wait, message, sender, lane, timeout, claim=wait.claim, own=is_own(cell))
        wait.until(room, timeout, room.late)


def block_for_start(cell: Cell, timeout: float | None) -> None:
    """Return when the actor of `cell` is running; raise what prevented that."""
    if timeout is not None:
        require_timeout(timeout)
    wait = ThreadWait(cell.loop, "started_sync()", "ref.started()")
    require_startable(cell)
    wait.until(start_of(cell, wait, timeout), timeout, lambda: WaitTimeout(cell.shown(), "started", timeout or 0.0))


def block_for_end(cell: Cell, timeout: float | None) -> ExitReason:
    """Return how the actor of `cell` ended, when it has."""
    if timeout is not None:
        require_timeout(timeout)
    wait = ThreadWait(cell.loop, "terminated_sync()", "ref.terminated()")
    require_other(cell, "end")
    end = end_of(cell, wait, timeout)
    reason: ExitReason = wait.until(end, timeout, lambda: WaitTimeout(cell.shown(), "ended", timeout or 0.0))
    return reason


def block_for_inspection(cell: Cell, items: tuple[str, ...], timeout: float | None) -> Mapping[str, Any]:
    """What the actor of `cell` says of itself."""
    if timeout is not None:
        require_timeout(timeout)
    wait = ThreadWait(cell.loop, "inspect_sync()", "ref.inspect(...)")
    require_other(cell, "inspect()")
    inspection = inspection_of(cell, wait, items, timeout)
    seen: Mapping[str, Any] = wait.until(inspection, timeout, lambda: AskTimeout(cell.shown(), timeout or 0.0))
    return seen


def block_for_answer(cell: Cell, message: object, timeout: float | None, lane: Lane, wait_for_room: bool) -> Any:
    """Send `message` and wait for the reply."""
    seconds = seconds_of(timeout)
    loop: Loop = cell.loop
    require_may_ask(_cell_here() if cell.is_foreign() else loop.visits.hand)
    require_may_block(loop, "ask_sync()", "ref.ask(...)")
    question = Question.__new__(Question)
    own = current_handoffs.get(get_ident()) if current_handoffs else None
    question.set_up(loop, cell, None if own is None else own.cell, seconds)
    if own is not None:
        question.is_asked_now()  # before the actor asked can ask somebody else because of it
    future: ThreadFuture[Any] = ThreadFuture()
    question.tell_future(future, None)
    send_from_outside(loop, cell, question, message, lane, wait_for_room)
    wait_on_thread(question, current_handoff(loop))
    if own is not None:
        own.waits(True)
    patience = None if timeout is None else seconds + (_PATIENCE if isinstance(loop.clock, ManualClock) else 0.0)
    try:
        return future.result(patience)
    except TimeoutError:
        if not future.cancel():
            return future.result()  # it has come after all; or the timeout is the handler's own, and raised
        loop.inbound.call(None, question._give_up)
        raise AskTimeout(cell.shown(), seconds) from None
    except BaseException as exc:
        question.restore_traceback(exc)
        raise
    finally:
        if own is not None:
            own.waits(False)
            own.question = None
