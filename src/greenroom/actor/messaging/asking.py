"""Asking: a question is put, at once or when there is room, and its answer awaited.

**Two ways to wait.** A handler that awaits an ask of an actor on its own loop is resumed by the run queue: nothing goes
through asyncio. Everybody else awaits an asyncio future, made when first awaited, or at once if the asker runs on
another thread than the actor asked.

**asyncio.** An ask is a `Coroutine` too, so that `create_task` and the like take it as it is. Nothing is kept for that:
a task's step looks whether the answer is there, and yields an asyncio future if it is not.
"""

from __future__ import annotations

import asyncio
import sys
from _thread import get_ident
from asyncio import get_running_loop
from collections.abc import Coroutine, Generator
from functools import partial
from types import GenericAlias
from typing import TYPE_CHECKING, Any

from greenroom._core.build import COMPILED, MadeByRuntime
from greenroom._core.current import current_handoffs, current_reader, ticking_here
from greenroom._core.delivery.admission import Waiter
from greenroom._core.flags import INTERCEPTED, MAY_NOT_ASK
from greenroom._core.itemkinds import ANSWERED, OPEN
from greenroom._core.mailbox.cell import Cell
from greenroom._core.scheduler.loop import Loop
from greenroom.actor.messaging.cycles import find_cycle, wait_on_thread
from greenroom.actor.messaging.question import Question, current_handoff
from greenroom.errors import AskDeadlock, InvalidDelay, MetaCannotAsk, WrongThread
from greenroom.lanes import Lane, as_lane
from greenroom.tracebacks import SHOWS_ALL
from greenroom.validation import LONGEST_DELAY, require_delay

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop
    from typing import NoReturn

__all__ = [
    "Asked",
    "Line",
    "loop_here",
    "put_question",
    "require_may_ask",
    "seconds_of",
    "send_question",
]

# As in `question`.
__tracebackhide__ = not SHOWS_ALL

# Since Python 3.12, a task may take its first step inside the handler that makes it.
EAGER_TASKS = sys.version_info >= (3, 12)


class Asked(Question):
    """What `ask` returns: await it for the reply."""

    __slots__ = ()
    __signature__ = MadeByRuntime("Asked")

    @classmethod
    def __class_getitem__(cls, item: object) -> GenericAlias:
        return GenericAlias(cls, item)

    # A generator: what it returns reaches the asker without a StopIteration, which would cost a fifth of the whole ask
    # (callgrind).
    def __await__(self) -> Generator[Any, None, Any]:
        if self._aio is not None:
            # What happens on another thread shows in the future alone.
            handoff = current_handoff(self._loop)
            if handoff is not None and not handoff.is_awaiting_itself():
                handoff = None  # a task of the handler's making: the handler need not wait for it
            wait_on_thread(self, handoff)
            try:
                return (yield from self._future)
            except BaseException as exc:
                self._loop.inbound.post_back(None, self._leave)
                self._loop.world.retrieved(exc)
                self.restore_traceback(exc)
                if COMPILED:
                    raise exc  # without its name, it would have the old traceback again
                raise
            finally:
                if handoff is not None:
                    handoff.question = None
        if self._status == OPEN:
            try:
                if self._future is None and self.waiter is None and self._is_awaited_by_asker():
                    cycle = find_cycle(self)
                    if cycle:
                        self._give_up()
                        raise AskDeadlock(cycle)
                    if self.target.flags & INTERCEPTED:
                        self._loop.host.awaits(self)
                    if self._status == OPEN:
                        yield self
                else:
                    if self._future is None:
                        self._future = get_running_loop().create_future()
                        self._ring_though_unstarted(get_running_loop())
                    yield from self._future
            except BaseException as exc:
                self._leave()
                if exc is self._value:
                    self._note_retrieved()
                self.restore_traceback(exc)
                if COMPILED:
                    raise exc
                raise
        if self._status == ANSWERED:
            return self._value
        self._note_retrieved()
        try:
            raise self._value
        except BaseException as exc:
            self.restore_traceback(exc)
            if COMPILED:
                raise exc
            raise

    def send(self, value: object) -> asyncio.Future[Any]:
        """A step of the task that it is given to: raises `StopIteration` with the reply, or yields a future."""
        if self._aio is not None:
            # What happens on another thread shows in the future alone.
            if self._future.done():
                try:
                    reply = self._future.result()
                except BaseException as exc:
                    self._loop.world.retrieved(exc)
                    raise
                raise StopIteration(reply)
        elif self._status == ANSWERED:
            raise StopIteration(self._value)
        elif self._status != OPEN:
            self._note_retrieved()
            raise self._value
        future = self._future_here()
        future._asyncio_future_blocking = True
        return future

    def throw(self, kind: Any, value: Any = None, traceback: object = None) -> NoReturn:
        """A step of that task that begins with an exception: it was cancelled, or the ask has failed."""
        error: BaseException = kind if isinstance(kind, BaseException) else (kind() if value is None else value)
        if self._aio is None and not self._is_asked_elsewhere():
            self._leave()
            self._note_awaited()
            if error is self._value:
                self._note_retrieved()
        else:
            self._loop.inbound.post_back(None, self._leave)
            self._loop.world.retrieved(error)
        raise error

    def close(self) -> None:
        """The task that it was given to was thrown away."""
        self.cancel()

    def future(self) -> asyncio.Future[Any]:
        """An asyncio future of the reply, in the running loop, for functions that insist on one: `asyncio.wait`.

        Cancelling it gives the ask up.
        """
        future = self._future_here()
        if not future.done():
            future.add_done_callback(self._leave_with)
        return future

    def _leave_with(self, future: asyncio.Future[Any]) -> None:
        if future.cancelled():
            self._loop.inbound.post_back(None, self._leave)

    def _future_here(self) -> asyncio.Future[Any]:
        aio = get_running_loop()
        if self._aio is not None or self._is_asked_elsewhere():
            future: asyncio.Future[Any] = self._future if self._aio is aio else self._future_elsewhere(aio)
            return future
        if self._future is None:
            self._future = aio.create_future()
            if self._status != OPEN:
                self._note_awaited()  # else asyncio says so
                self._tell_future()
            else:
                self._ring_though_unstarted(aio)
        mine: asyncio.Future[Any] = self._future
        return mine

    def _is_asked_elsewhere(self) -> bool:
        return get_ident() != self._loop.runq.thread and not self._loop.closed

    def _future_elsewhere(self, aio: AbstractEventLoop) -> asyncio.Future[Any]:
        """A future of the reply in another asyncio loop than the one where it was asked."""
        home = self._loop.visits.stepper.aio if self._aio is None else self._aio
        if home is None:
            raise WrongThread("awaiting an ask of a system that does not run")
        waiting = _wait_for(self)
        try:
            return asyncio.wrap_future(asyncio.run_coroutine_threadsafe(waiting, home), loop=aio)
        except RuntimeError:  # that loop is closed
            waiting.close()
            raise

    def _ring_though_unstarted(self, aio: AbstractEventLoop) -> None:
        """A system that has not been started has no timers that ring."""
        if self._loop.runq.rouse is None and self.timeout >= 0.0:
            aio.call_later(self.timeout, self._ring_unstarted)

    def _note_retrieved(self) -> None:
        """The asker is told what came of it, so that it need not be told at the end that it was never retrieved."""
        self._note_awaited()
        if self._future is not None and self._aio is None and self._future.done() and not self._future.cancelled():
            self._future.exception()
        self._loop.world.retrieved(self._value)

    def _is_awaited_by_asker(self) -> bool:
        """Whether the asker's own handler awaits, and no task of its making."""
        visits = self._loop.visits
        if self.asker is None or visits.hand is not self.asker:
            return False
        return not EAGER_TASKS or visits.stepper.is_current()


Coroutine.register(Asked)  # pyright: ignore[reportAttributeAccessIssue]


async def _wait_for(asked: Asked) -> object:
    return await asked


class Line:
    """The line in which a question waits for room: it leaves that when it ends, as it leaves the book of the owed."""

    __slots__ = ("_cell", "_waiter")

    def __init__(self, cell: Cell, waiter: Waiter) -> None:
        self._cell = cell
        self._waiter = waiter

    def pop(self, question: object, default: object) -> None:
        """Leave it."""
        give_up = partial(self._cell.loop.admission.give_up, self._cell, self._waiter)
        if not self._cell.is_foreign() or not self._cell.loop.inbound.post_back(None, give_up):
            give_up()


def put_question(cell: Cell, message: object, timeout: float | None, lane: Lane, patiently: bool) -> Asked:
    """Send `message` to `cell` and return what is awaited. What prevents the sending is raised where it is awaited.

    If it is asked `patiently`, the message waits for room in a full mailbox.
    """
    return _put(cell.loop, cell, Asked.__new__(Asked), message, seconds_of(timeout), lane, patiently)


def _put(
    loop: Loop, cell: Cell, question: Asked, message: object, seconds: float, lane: Lane, patiently: bool
) -> Asked:
    if (COMPILED and thread_ident() != loop.runq.thread) or (not COMPILED and get_ident() != loop.runq.thread):
        return _ask_from_outside(loop, cell, question, message, seconds, lane, patiently)
    asker = loop.visits.hand
    if asker is None or asker.flags & MAY_NOT_ASK:
        if asker is None and (home := loop_here()) is not None:
            return _ask_from_another_loop(home, cell, question, message, seconds, lane, patiently)
        require_may_ask(asker)
    question.set_up(loop, cell, asker, seconds)
    if patiently:
        send_question(question, message, as_lane(lane), patiently)
    else:
        try:
            loop.admission.admit(cell, message, question, lane)
        except Exception as exc:
            question.refuse(exc)
    if seconds >= 0.0:
        question.arm()
    return question


def _ask_from_outside(
    loop: Loop, cell: Cell, question: Asked, message: object, seconds: float, lane: Lane, patiently: bool
) -> Asked:
    """Another thread than the loop's asks."""
    loop.inbound.require_same_world(cell)
    home = loop_here()
    if home is not None:
        return _ask_from_another_loop(home, cell, question, message, seconds, lane, patiently)
    handoff = current_handoffs.get(get_ident()) if current_handoffs else None
    asker = None if handoff is None else handoff.cell
    require_may_ask(asker)
    try:
        aio = get_running_loop()
    except RuntimeError:
        raise WrongThread("ask()", "no asyncio loop runs here: use `ask_sync()`") from None
    question.set_up(loop, cell, asker, seconds)
    if asker is not None:
        question.is_asked_now()  # before the actor asked can ask somebody else because of it
    question.tell_future(aio.create_future(), aio)
    send_question(question, message, lane, patiently)
    if seconds >= 0.0:
        question.arm_at_home()
    return question


def _ask_from_another_loop(
    home: Loop, cell: Cell, question: Asked, message: object, seconds: float, lane: Lane, patiently: bool
) -> Asked:
    """A handler of `home` asks an actor that lives on another loop, or in another system."""
    asker = home.visits.hand
    require_may_ask(asker)
    question.set_up(home, cell, asker, seconds)
    question.is_asked_now()  # before the actor asked can ask somebody else because of it
    send_question(question, message, lane, patiently)
    if seconds >= 0.0:
        question.arm()
    return question


def loop_here() -> Loop | None:
    """The loop that has an actor in hand on this thread, or None."""
    runq = ticking_here()
    loop: Loop | None = None if runq is None else runq.admission.host.loop
    return None if loop is None or loop.visits.hand is None else loop


def send_question(question: Question, message: object, lane: Lane, patiently: bool) -> None:
    """Send `message` to the actor asked, from any thread; `patiently`, when there is room.

    What prevents that ends the question.
    """
    cell = question.target
    try:
        if not patiently:
            cell.post(message, question, lane)
            return
        lane = as_lane(lane)
        loop, wait = cell.loop, partial(_send_when_room, question, message, lane)
        is_foreign = cell.is_foreign()
        if is_foreign and not loop.host.is_elsewhere(cell) and loop.inbound.send_if_room(cell, message, question, lane):
            return
        loop.admission.take_along(cell, question)
        if not is_foreign or not loop.inbound.post_to_line(cell, wait):
            wait()
    except Exception as exc:
        question.refuse(exc)


def _send_when_room(question: Question, message: object, lane: Lane) -> None:
    """Send `message` as soon as there is room, unless the question has ended. On the thread of the actor asked."""
    cell = question.target
    loop: Loop = cell.loop
    if question._status != OPEN or loop.host.asks_elsewhere(question, message, lane):
        return
    try:
        if loop.admission.send_if_room(cell, message, question, lane):
            return
        if cell.flags & INTERCEPTED:
            loop.host.examine(cell, message)  # one that cannot be sent need not wait to hear so
    except Exception as exc:
        question.refuse(exc)
    else:
        waiter = Waiter(message, question, lane, question.is_let_in)
        question._book = Line(cell, waiter)
        loop.admission.wait_for_room(cell, waiter)


def require_may_ask(asker: Cell | None) -> None:
    """Raise when it is a meta-process that asks: its handler is `asker`'s, or its reader runs here."""
    if asker is not None:
        if asker.flags & MAY_NOT_ASK:
            raise MetaCannotAsk(asker.shown())
        return
    reader = current_reader.get()
    if reader is not None:
        raise MetaCannotAsk(reader)


def seconds_of(timeout: float | None) -> float:
    """The time that an answer has, negative if all the time in the world; raise unless it is a number of seconds."""
    if timeout is None:
        return -1.0
    if type(timeout) is not float:
        require_delay("timeout", timeout)
    seconds: float = timeout
    if not 0.0 <= seconds <= LONGEST_DELAY:
        raise InvalidDelay("timeout", timeout)
    return seconds
