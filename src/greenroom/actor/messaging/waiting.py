"""Waiting for something in an actor's life, for room in its mailbox, or for its answer: in a coroutine or a thread.

What is waited for, an `Awaited`, begins and ends on the actor's own loop. A coroutine waits in any thread's asyncio
loop (`TaskWait`), a thread by blocking (`ThreadWait`). For code in a worker process, a coroutine in the main process
waits.

**Where a thread may block.** A plain thread may; so may a plain `def` handler or hook of an actor whose thread is its
own to block. What would hold up a loop, or asyncio, and with it all others there, is refused with the `await` to write
instead.

**Time** is the system's. But a system whose thread is held up does not come to see that it has passed, so a blocked
thread looks at its own clock too; if the system's is turned by hand, only after a while.

**While it blocks**, a handler's thread says so: its pool may start another, and a clock that is turned by hand advance.
"""

from __future__ import annotations

import asyncio
from _thread import get_ident
from collections.abc import Callable, Mapping
from concurrent.futures import Future as ThreadFuture
from concurrent.futures import InvalidStateError
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from greenroom._core.current import current_handoffs, sender_here
from greenroom._core.delivery.admission import Waiter
from greenroom._core.mailbox.cell import Cell
from greenroom._core.scheduler.loop import Loop
from greenroom.actor.messaging.question import (
    Question,
    current_handoff,
    loop_here,
    require_may_ask,
    seconds_of,
    send_question,
    wait_on_thread,
)
from greenroom.actor.records.record import ActorRecord
from greenroom.actor.records.states import State
from greenroom.clock import ManualClock
from greenroom.errors import ActorTerminated, AskTimeout, NotStarted, SendTimeout, WaitsForItself, WaitTimeout
from greenroom.errortext import in_words
from greenroom.exits import ExitReason
from greenroom.lanes import Lane, as_lane
from greenroom.validation import require_delay

if TYPE_CHECKING:
    from greenroom._core.handoff.handoff import Handoff
    from greenroom._core.mailbox.cell import Order
    from greenroom._core.timing.timers import ScheduledCall

_PATIENCE = 30.0
"""Seconds beyond its timeout that a thread waits for a system whose clock is turned by hand."""
_NOT_YET_RUNNING = (State.CREATED.code, State.STARTING.code, State.FAILED.code, State.RESTARTING.code)


# -- what is waited for


class Awaited:
    """Something that is waited for, from `begin` to `leave`; both on the actor's own loop."""

    __slots__ = ("_alarm", "_deadline", "cell", "finish", "timeout")

    happened = ""
    """What the actor has done when it has happened, for the error when it is late."""

    def __init__(self, cell: Cell, timeout: float | None = None) -> None:
        if timeout is not None:
            require_delay("timeout", timeout)
        self.cell = cell
        self.timeout = timeout
        # Called with the result, and with what prevents it; perhaps more than once, and from any thread.
        self.finish: Callable[[object, BaseException | None], object] = _ignore
        # From now on, not from when it begins on the actor's thread.
        self._deadline = None if timeout is None else cell.loop.now() + timeout
        self._alarm: ScheduledCall | None = None

    def check(self) -> None:
        """Raise where it would be waited for in vain."""

    def begin(self) -> None:
        if self._deadline is not None:
            self._alarm = self.cell.loop.call_at(self._deadline, self.give_up)

    def leave(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()

    def end(self, result: object, cause: BaseException | None = None) -> None:
        """What is waited for has happened, or cannot happen any more. From any thread."""
        if cause is not None and (not isinstance(cause, Exception) or isinstance(cause, StopIteration)):
            wrapped = RuntimeError(f"the actor raised {in_words(cause)}")  # a coroutine cannot raise every exception
            wrapped.__cause__ = cause
            cause = wrapped
        self.finish(result, cause)

    def give_up(self) -> None:
        self.end(None, self.late())

    def late(self) -> BaseException:
        """The error when it did not happen in time."""
        return WaitTimeout(self.cell.shown(), self.happened, self.timeout or 0.0)


class LifeEvent(Awaited):
    """Something in the life of an actor. If the actor ends first, `ended` is called."""

    __slots__ = ()

    for_start = False

    def begin(self) -> None:
        record = self.cell.record
        if not isinstance(record, ActorRecord):
            self.ended(record.reason)
            return
        record.ensure_extras().waiters.append(self)
        self.began(record)
        super().begin()

    def leave(self) -> None:
        record = self.cell.record
        if isinstance(record, ActorRecord):
            extras = record.ensure_extras()
            if self in extras.waiters:
                extras.waiters.remove(self)
        super().leave()

    def began(self, record: ActorRecord) -> None:
        """The actor lives, and is waited for from now on."""

    def ended(self, reason: ExitReason) -> None:
        raise NotImplementedError


class Start(LifeEvent):
    """The moment when an actor is running, or what prevents that."""

    __slots__ = ()

    for_start = True
    happened = "started"

    def check(self) -> None:
        require_startable(self.cell)

    def began(self, record: ActorRecord) -> None:
        if _has_run(record):
            self.end(None)

    def ended(self, reason: ExitReason) -> None:
        self.end(None, ActorTerminated(self.cell.shown(), reason) if reason.cause is None else reason.cause)


class End(LifeEvent):
    __slots__ = ()

    happened = "ended"

    def check(self) -> None:
        require_other(self.cell, "end")

    def ended(self, reason: ExitReason) -> None:
        self.end(reason)


class Inspection(LifeEvent):
    """What an actor says of itself; its code runs on its own loop, between two messages."""

    __slots__ = ("_items", "_order")

    def __init__(self, cell: Cell, items: tuple[str, ...], timeout: float | None) -> None:
        super().__init__(cell, timeout)
        self._items = items
        self._order: Order | None = None

    def check(self) -> None:
        require_other(self.cell, "inspect()")

    def began(self, record: ActorRecord) -> None:
        self._order = self.cell.loop.host.order_inspection(self.cell, self._items, self.end)

    def leave(self) -> None:
        super().leave()
        if self._order is not None and isinstance(self.cell.record, ActorRecord):
            self.cell.withdraw((self._order,))  # an actor that hangs must not collect orders

    def ended(self, reason: ExitReason) -> None:
        self.end(None, ActorTerminated(self.cell.shown(), reason))

    def late(self) -> BaseException:
        error = AskTimeout(self.cell.shown(), self.timeout or 0.0)
        if self.cell.loop.runq.rouse is None:
            error.add_note("its system has not been started: `async with system` comes first")
        return error


class Room(Awaited):
    """Room in a mailbox, which a message waits for, in order of arrival."""

    __slots__ = ("_is_own", "_waiter")

    def __init__(
        self,
        cell: Cell,
        message: object,
        sender: object,
        lane: Lane,
        timeout: float | None,
        *,
        claim: Callable[[], bool] | None = None,
        own: bool = False,
    ) -> None:
        super().__init__(cell, timeout)
        # Whether it is the actor's own handler that waits: while it does, no room is made.
        self._is_own = own
        sender = cell.loop.admission.take_along(cell, sender)
        self._waiter = Waiter(message, sender, lane, lambda error: self.end(None, error), claim)

    def begin(self) -> None:
        admission = self.cell.loop.admission
        if self._is_own and not admission.has_room(self.cell, self._waiter.lane):
            self.end(None, own_mailbox_is_full(self.cell))
            return
        admission.wait_for_room(self.cell, self._waiter)
        super().begin()

    def leave(self) -> None:
        self.cell.loop.admission.give_up(self.cell, self._waiter)
        super().leave()

    def give_up(self) -> None:
        self.cell.loop.admission.give_up(self.cell, self._waiter)
        super().give_up()

    def late(self) -> BaseException:
        return SendTimeout(self.cell.shown(), self._waiter.message, self.timeout or 0.0)


def _ignore(result: object, cause: BaseException | None) -> None:
    pass


def on_loop(cell: Cell, action: Callable[[], object]) -> None:
    """Do something on the thread of the cell's loop; if that has stopped, here."""
    if get_ident() == cell.runq.thread or not cell.loop.inbound.post(cell, action):
        action()


# -- who waits


class TaskWait:
    """A coroutine that waits, in the asyncio loop it runs in."""

    __slots__ = ("_aio", "_future", "_handoff")

    def __init__(self) -> None:
        self._aio = asyncio.get_running_loop()
        self._future: asyncio.Future[Any] = self._aio.create_future()
        # Of the handler that waits, if it runs on another thread than its loop's.
        self._handoff = _handoff_here()

    def end(self, result: object, cause: BaseException | None = None) -> None:
        """What was waited for has happened, or cannot happen any more. From any thread."""
        if asyncio._get_running_loop() is self._aio:
            self._finish(result, cause)
        else:
            if self._handoff is not None:
                self._handoff.touch()
            with suppress(RuntimeError):  # that loop is closed, and the coroutine gone with it
                self._aio.call_soon_threadsafe(self._finish, result, cause)

    def _finish(self, result: object, cause: BaseException | None) -> None:
        if self._future.done():
            return
        if cause is None:
            self._future.set_result(result)
        else:
            self._future.set_exception(cause)

    async def result(self) -> Any:
        return await self._future

    async def until(self, what: Awaited) -> Any:
        what.check()
        what.finish = self.end
        on_loop(what.cell, what.begin)
        try:
            return await self._future
        finally:
            on_loop(what.cell, what.leave)


class ThreadWait:
    """A thread that waits for what a loop brings about."""

    __slots__ = ("_future", "_loop", "_own")

    def __init__(self, loop: Loop, what: str, instead: str) -> None:
        require_may_block(loop, what, instead)
        if loop.runq.rouse is None and not loop.closed:
            raise NotStarted(loop.host.system.name, what)
        self._loop = loop
        self._own = _handoff_here()
        self._future: ThreadFuture[Any] = ThreadFuture()

    def done(self) -> bool:
        """Whether there is nothing to wait for any more. On any thread."""
        return self._future.done()

    def claim(self) -> bool:
        """Keep the wait from being given up; False when it has been."""
        return self._future.set_running_or_notify_cancel()

    def end(self, result: object, cause: BaseException | None = None) -> None:
        with suppress(InvalidStateError):  # it was given up
            if cause is None:
                self._future.set_result(result)
            else:
                self._future.set_exception(cause)

    def until(self, what: Awaited) -> Any:
        what.check()
        what.finish = self.end
        on_loop(what.cell, what.begin)
        try:
            return self.result(what.timeout, what.late)
        finally:
            on_loop(what.cell, what.leave)

    def result(self, timeout: float | None, late: Callable[[], BaseException]) -> Any:
        return _block(self._future, self._loop, self._own, timeout, late, self)


def _block(
    future: ThreadFuture[Any],
    loop: Loop,
    own: Handoff | None,
    timeout: float | None,
    late: Callable[[], BaseException],
    wait: ThreadWait | None = None,
) -> Any:
    """Block until `future` is done; raise `late()` when that takes longer than `timeout`."""
    if own is not None:
        own.waits(True)
        # If an actor of another system is waited for that goes by another clock, this one's is not to go on.
        if wait is not None and loop.clock is own.cell.loop.clock:
            own.question = wait
            own.tick_soon()
    if timeout is not None and isinstance(loop.clock, ManualClock):
        timeout += _PATIENCE
    try:
        return future.result(timeout)
    except TimeoutError:
        if not future.cancel():
            return future.result()  # it has come after all; or this timeout came of it, and is raised
        raise late() from None
    finally:
        if own is not None:
            own.waits(False)
            own.question = None


def _handoff_here() -> Handoff | None:
    return current_handoffs.get(get_ident()) if current_handoffs else None


# -- who may wait


def require_may_block(loop: Loop, what: str, instead: str) -> None:
    """Raise where `what` would hold up a loop, or wait for one that does not run."""
    is_mine = get_ident() == loop.runq.thread and not loop.closed
    if is_mine and loop.runq.rouse is None:
        raise NotStarted(loop.host.system.name, what)
    if is_mine and loop.visits.hand is not None:
        remedy = f"write `await {instead}` here"
        if not loop.visits.stepper.is_stepping():
            remedy = f'write `await {instead}` in an `async def`, or spawn it with `dispatcher="parallel"`'
        raise WaitsForItself(f"{what} in {loop.visits.hand.shown()} would hold up all actors on this thread: {remedy}")
    if is_mine or (asyncio._get_running_loop() is not None and not _is_plain_handler()):
        raise WaitsForItself(f"{what} would hold up the loop of this thread: write `await {instead}` here")


def _is_plain_handler() -> bool:
    """Whether this is a plain `def` of an actor that has its thread, and asyncio there, for itself."""
    handoff = _handoff_here()
    return handoff is not None and not handoff.awaits and handoff.is_awaiting_itself()


def _is_own(cell: Cell) -> bool:
    """Whether this is the handler or hook of the actor of `cell` itself, and no task of its making."""
    if not cell.is_foreign():
        return bool(cell.loop.visits.hand is cell)
    handoff = current_handoff(cell.loop)
    return handoff is not None and handoff.cell is cell and handoff.is_awaiting_itself()


def require_other(cell: Cell, what: str, own: bool | None = None) -> None:
    """Raise when an actor's own handler or hook is about to wait for what cannot come before it has ended."""
    if _is_own(cell) if own is None else own:
        raise WaitsForItself(f"{cell.shown()} awaits its own {what}, which cannot come before its handler has ended")


def require_startable(cell: Cell, own: bool | None = None) -> None:
    """Raise when an actor's own hook is about to wait for its start; a handler need not wait, for it has started."""
    record = cell.peek_record()
    if isinstance(record, ActorRecord) and not _has_run(record):
        require_other(cell, "start", own)


def has_started(cell: Cell) -> bool:
    """Whether the start of the actor of `cell` need not be waited for: it is running, or never will be."""
    record = cell.peek_record()
    return not isinstance(record, ActorRecord) or _has_run(record)


def _has_run(record: ActorRecord) -> bool:
    return record.state not in _NOT_YET_RUNNING and (record.extras is None or not record.extras.never_ran)


def own_mailbox_is_full(cell: Cell) -> WaitsForItself:
    why = f"{cell.shown()} waits for room in its own full mailbox, from which it takes nothing before its handler ends"
    return WaitsForItself(f"{why}: use `tell`, which refuses at once, or a larger mailbox")


# -- the methods of refs


async def wait_for_start(cell: Cell, timeout: float | None = None) -> None:
    try:
        await TaskWait().until(Start(cell, timeout))
    except Exception as exc:
        cell.loop.world.retrieved(exc)
        raise


async def wait_for_end(cell: Cell, timeout: float | None = None) -> ExitReason:
    reason: ExitReason = await TaskWait().until(End(cell, timeout))
    return reason


async def wait_for_inspection(cell: Cell, items: tuple[str, ...], timeout: float | None) -> Mapping[str, Any]:
    inspection = Inspection(cell, items, timeout)
    if timeout is not None and cell.loop.runq.rouse is None:  # it has no timers that ring
        asyncio.get_running_loop().call_later(timeout, inspection.give_up)
    seen: Mapping[str, Any] = await TaskWait().until(inspection)
    return seen


async def wait_for_room(cell: Cell, message: object, sender: object, lane: Lane, timeout: float | None) -> None:
    await TaskWait().until(Room(cell, message, sender, lane, timeout))


def block_for(what: Awaited, call: str, instead: str) -> Any:
    """Wait for it on a thread, and return its result; `call` is the method that does, and `instead` what to await."""
    return ThreadWait(what.cell.loop, call, instead).until(what)


def block_for_room(cell: Cell, message: object, timeout: float | None, lane: Lane, sender: object = None) -> None:
    """Send a message as soon as there is room for it, from `sender` or else from the actor this thread works for."""
    if timeout is not None:
        require_delay("timeout", timeout)
    lane = as_lane(lane)
    wait = ThreadWait(cell.loop, "send_sync()", "ref.send(...)")
    if sender is None:
        sender = sender_here()
    if not cell.loop.inbound.send_if_room(cell, message, sender, lane):
        wait.until(Room(cell, message, sender, lane, timeout, claim=wait.claim, own=_is_own(cell)))


def block_for_answer(cell: Cell, message: object, timeout: float | None, lane: Lane, wait_for_room: bool) -> Any:
    seconds = seconds_of(timeout)
    loop: Loop = cell.loop
    require_may_ask(_cell_here() if cell.is_foreign() else loop.visits.hand)
    require_may_block(loop, "ask_sync()", "ref.ask(...)")
    question = Question.__new__(Question)
    own = _handoff_here()
    question.set_up(loop, cell, None if own is None else own.cell, seconds)
    if own is not None:
        question.is_asked_now()  # before the actor asked can ask another because of it
    future: ThreadFuture[Any] = ThreadFuture()
    question.tell_future(future, None)
    send_question(question, message, lane, wait_for_room)
    if seconds >= 0.0:
        question.arm_at_home()
    wait_on_thread(question, current_handoff(loop))

    def late() -> AskTimeout:
        loop.inbound.post(None, question._give_up)
        return AskTimeout(cell.shown(), seconds)

    try:
        return _block(future, loop, own, None if timeout is None else seconds, late)
    except BaseException as exc:
        question.restore_traceback(exc)
        raise


def _cell_here() -> Cell | None:
    """The cell whose handler this thread runs, on or for any loop."""
    handoff = _handoff_here()
    if handoff is not None:
        return handoff.cell
    home = loop_here()
    return None if home is None else home.visits.hand
