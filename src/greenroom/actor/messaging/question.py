"""A question put to an actor, and its answer.

A question stands in the sender's slot of its message, so an ask costs one object: it is the receipt that learns what
became of the message, the alarm that rings when no reply came in time, and what the asker awaits (as an `Asked`).

**Whose it is.** If a handler asks, the loop of its actor: there the timeout rings, and there the answer is brought.
Else that of the actor asked; a foreign asker sees only its future. That loop's thread alone touches it, but for what
the answering side calls, from any thread: it looks at `target` by `peek_target`, and brings home what it has to say.
"""

from __future__ import annotations

import asyncio
import sys
from _thread import get_ident
from asyncio import CancelledError
from collections.abc import Callable
from concurrent.futures import InvalidStateError as ThreadFutureIsDone
from contextlib import suppress
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any

from greenroom._core.build import COMPILED, MadeByRuntime
from greenroom._core.current import current_handoffs
from greenroom._core.flags import INTERCEPTED
from greenroom._core.itemkinds import ANSWERED, ASKED, FAILED, GIVEN_UP, OPEN
from greenroom._core.mailbox.cell import Cell
from greenroom._core.scheduler.loop import Loop
from greenroom._core.scheduler.stepping import Wait
from greenroom.errors import (
    ActorTerminated,
    AskDeadlock,
    AskTimeout,
    BadArgument,
    HandlerBroken,
    MessageDropped,
    SystemStopped,
    Unhandled,
)
from greenroom.errors.base import hand_on_notes, in_words
from greenroom.exits import SHUTDOWN, ExitReason
from greenroom.runtimelog import RuntimeLog
from greenroom.tracebacks import SHOWS_ALL, drop_outer, fold, set_traceback

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop
    from types import TracebackType
    from typing import NoReturn, TypeVar

    from greenroom._core.handoff.handoff import Handoff
    from greenroom.actor.messaging.asking import Line

    T = TypeVar("T")

__all__ = ["Question", "current_handoff"]

# pytest leaves out the frames of a module that says so; compiled code cannot take its last one out itself.
__tracebackhide__ = not SHOWS_ALL

_log = RuntimeLog()

_numbers = count(1)
"""Of asks that lead to other loops. They are compared across systems too."""

_TOO_LATE = (asyncio.InvalidStateError, ThreadFutureIsDone)


class NeverAwaited:
    """Why a question failed that has not been awaited yet. If it never is, the log says so."""

    __slots__ = ("_cell", "_error")

    def __init__(self, cell: Cell, error: BaseException) -> None:
        self._cell = cell
        self._error: BaseException | None = error

    def forget(self) -> None:
        self._error = None

    def __del__(self) -> None:
        if self._error is not None and not sys.is_finalizing():
            _log.warning(
                "%s: an ask has failed, and nobody awaits it: %s. `await` it to get the exception, or use tell()",
                self._cell.name(),
                in_words(self._error),
            )


class Question(Wait):
    """What becomes of a message that was asked, and the answer to it."""

    __slots__ = (
        "_aio",
        "_book",
        "_future",
        "_handoff",
        "_is_late",
        "_loop",
        "_never_awaited",
        "_propagated",
        "_status",
        "_traceback",
        "_value",
        "asker",
        "number",
        "replied",
        "target",
        "timeout",
    )
    __signature__ = MadeByRuntime("Question")

    def set_up(self, loop: Loop, target: Cell, asker: Cell | None, timeout: float) -> None:
        """What `__init__` would do; `ask` makes questions without one, as `Loop.spawn` makes cells."""
        self.set_up_alarm(0.0)
        self._loop = loop
        # Whose answer is waited for, and whose handler asked, if one did. The first is guarded, as a cell's fields are.
        self.target = target
        self.asker = asker
        self.timeout = timeout
        self.waiter = None
        self._status = OPEN
        self._value: Any = None
        # Invariant: _aio is None iff the asker runs on the loop's own thread, or waits in a plain thread
        self._aio: AbstractEventLoop | None = None
        self._future: Any = None
        # What waits for it and nothing else, if that is on another thread.
        self._handoff: Handoff | None = None
        # Whether what the handler returns is no answer any more: it replied itself, or will. On its own thread it
        # says so before anything else it does, so a walk that sees what it awaits next sees this too.
        self.replied = False
        # Where it is written down as owed, from `defer` until it ends; before, the line in which it waits for room.
        self._book: dict[Question, None] | Line | None = None
        self._is_late = False
        # When it was asked, or handed on, among those that lead to other loops; 0 if it was not seen to.
        self.number = 0

    def tell_future(self, future: Any, aio: AbstractEventLoop | None) -> None:
        """Give the answer to an asker on another thread by `future`: one of `aio`'s, or of a plain thread's."""
        self._future = future
        self._aio = aio

    def __repr__(self) -> str:
        status = ("open", "answered", "failed", "given up")[self._status]
        return f"<Asked of {self.target.name()}, {status}>"

    def __reduce__(self) -> NoReturn:
        raise BadArgument("an ask cannot be pickled: await it, and send its result")

    def done(self) -> bool:
        """Whether it has ended, in whichever way."""
        return self._status != OPEN

    def peek_target(self) -> Cell:
        """The actor whose answer is waited for. From any thread."""
        if COMPILED:
            target: Cell = guarded_target(self)
            return target
        return self.target

    # -- the asker's side

    def restore_traceback(self, exc: BaseException) -> None:
        """Before `exc` goes on to the asker: let it show where it was raised, and neither the frames in between nor
        those of others who were told the same.
        """
        if SHOWS_ALL:
            return
        if exc is self._value and isinstance(exc, Exception):
            set_traceback(exc, self._traceback)
        elif isinstance(exc, AskDeadlock):
            drop_outer(exc)

    def is_asked_now(self) -> None:
        """Make this the last of the questions that lead to other loops: of a circle, the last is refused."""
        self.number = next(_numbers)

    def _note_awaited(self) -> None:
        never_awaited = self._never_awaited if COMPILED else getattr(self, "_never_awaited", None)  # not set by an ask
        if never_awaited is not None:
            never_awaited.forget()

    def _is_worth_telling(self) -> bool:
        """Whether to log a failure that nobody retrieves. The end of the system tells what it discards, and a world
        that is not real has a way of its own: it must not depend on when garbage is collected.
        """
        if not self._loop.world.is_real:
            return False
        return not (isinstance(self._value, ActorTerminated | SystemStopped) and self._loop.host.closed)

    def _leave(self) -> None:
        """The awaiting task was cancelled, or thrown away: a reply comes too late, even one that is here already."""
        if self._status == OPEN:
            self._give_up()
            self.wake_waiter()  # as with any future: when one who awaits it is cancelled, so are the others
            if self._future is not None and self._aio is None:
                self._future.cancel()
        elif self._status == ANSWERED and not self._is_late:
            self._is_late = True
            self._is_too_late(self._value)

    def cancel(self, msg: object = None) -> bool:
        """Wait no longer; a reply that still comes is a dead letter. False when it has ended already."""
        if self._status != OPEN:
            self._note_awaited()
            return False
        if self._aio is not None:
            is_over = bool(self._future.cancel())
            if is_over:
                self._loop.inbound.post_back(None, self._leave)
            return is_over
        self._give_up()
        self._value = CancelledError() if msg is None else CancelledError(msg)
        self.wake_waiter()
        if self._future is not None:
            self._future.cancel()
        return True

    def _give_up(self) -> None:
        if self._status == OPEN:
            self._close(GIVEN_UP, CancelledError())
            if self.target.flags & INTERCEPTED:
                self._loop.host.gave_up(self)

    def _close(self, status: int, value: object) -> None:
        self._value = value
        if COMPILED:
            book = guard_end(self, status)
        else:
            self._status = status
            book, self._book = self._book, None
        self.disarm(self._loop.timers)
        if book is not None:
            # It is the answering actor's: that may live on another loop.
            loop = self.target.loop
            if loop is self._loop or not loop.inbound.post_back(None, partial(book.pop, self, None)):
                book.pop(self, None)

    # -- the answering side: the actor asked may live on another loop, if the question was forwarded to it

    def _goes_elsewhere(self, method: Callable[[T], object], value: T) -> bool:
        """Whether this is a foreign thread, and the asker's loop has been told to go on with `method(value)`."""
        if (COMPILED and thread_ident() == self._loop.runq.thread) or (
            not COMPILED and get_ident() == self._loop.runq.thread
        ):
            return False
        return self._loop.inbound.post_back(None, partial(method, value))

    def origin(self) -> int:
        """By an ask."""
        return ASKED

    def propagated(self) -> Any:
        """The context variables that were set where it was asked."""
        return self._propagated if COMPILED else getattr(self, "_propagated", None)  # which an ask need not set

    def propagate(self, values: Any) -> None:
        """Let its message bring them along."""
        self._propagated = values

    def shown_sender(self) -> object:
        """The ref of the actor that asked, if an actor did."""
        return None if self.asker is None else self.asker.shown()

    def settle(self, result: object) -> None:
        """The handler returned: that is the answer, unless it has given one or will."""
        if not self.replied:
            self.answer(result)

    def fail(self, cause: BaseException) -> None:
        """The handler raised: the asker gets the same. What only ends tasks or systems would end the asker: wrapped."""
        if not self.replied:
            if isinstance(cause, Exception):
                self.refuse(cause)
            elif self._respondent_lives_on():
                self.break_off(cause, None)
            else:
                self.refuse(self._terminated(self._reason() or ExitReason.of(cause), cause))

    def discard(self, why: str) -> None:
        """The message was not handled."""
        target = self.peek_target()
        ref = target.shown()
        if why == "unhandled":
            self.refuse(Unhandled(ref, target.loop.visits.message))
        elif why in ("stopped", "loop stopped"):
            self.refuse(self._terminated(self._reason() or SHUTDOWN, None))
        else:
            self.refuse(MessageDropped(ref, why))

    def _respondent_lives_on(self) -> bool:
        target = self.peek_target()
        lives_on: bool = target.loop.host.lives_on(target)
        return lives_on

    def _reason(self) -> ExitReason | None:
        """How the actor asked has ended, or will have, as its own loop knows it: it may be another than the asker's."""
        target = self.peek_target()
        reason: ExitReason | None = target.loop.host.reason_of(target)
        return reason

    def end_with(self, reason: ExitReason) -> None:
        """The actor that was to answer has ended."""
        self.refuse(self._terminated(reason, reason.cause))

    def break_off(self, cause: BaseException | None, happened: str | None) -> None:
        """The actor that was to answer will not, though it goes on."""
        broken = HandlerBroken(self.peek_target().shown(), cause, happened)
        broken.__cause__ = cause
        self.refuse(broken)

    def _terminated(self, reason: object, cause: BaseException | None) -> ActorTerminated:
        error = ActorTerminated(self.peek_target().shown(), reason)
        error.__cause__ = cause
        if cause is None and isinstance(reason, ExitReason) and reason.cause is not None:
            hand_on_notes(reason.cause, error)
        return error

    def defer(self, book: dict[Question, None]) -> None:
        """The answer will come later, and is owed until then: it stands in `book`, of the actor that owes it."""
        self.replied = True
        book[self] = None
        is_open = guard_book(self, book) if COMPILED else self._note_book(book)
        if not is_open:
            book.pop(self, None)

    def _note_book(self, book: dict[Question, None]) -> bool:
        if self._status == OPEN:
            self._book = book
        return self._status == OPEN

    def answer(self, value: object) -> None:
        """End with a reply. When it comes too late it is a dead letter. From any thread."""
        self.replied = True
        if not self._goes_elsewhere(self._take_answer, value):
            self._take_answer(value)

    def _take_answer(self, value: object) -> None:
        if self._status == OPEN and (self._future is None or self._aio is not None or not self._future.done()):
            self._end(ANSWERED, value)
        elif self._status != ANSWERED:
            self._give_up()
            self._is_too_late(value)

    def refuse(self, error: BaseException) -> None:
        """End with an exception, which is lost when the asker has given up. From any thread."""
        self.replied = True
        if not self._goes_elsewhere(self._take_refusal, error):
            self._take_refusal(error)

    def _take_refusal(self, error: BaseException) -> None:
        if self._status == OPEN:
            if isinstance(error, StopIteration):  # which no coroutine can raise, and no future hold
                wrapped = RuntimeError(f"{self.target.name()} raised {in_words(error)}")
                wrapped.__cause__ = error
                error = wrapped
            self._end(FAILED, error)

    def _ring_unstarted(self) -> None:
        if self._status == OPEN and self._loop.runq.rouse is None:
            error = AskTimeout(self.target.shown(), self.timeout)
            error.add_note("its system has not been started: `async with system` comes first")
            self._end(GIVEN_UP, error)

    def ring(self, admission: object) -> None:
        """No reply came in time."""
        if self._status == OPEN:
            self._end(GIVEN_UP, AskTimeout(self.target.shown(), self.timeout))

    def _end(self, status: int, value: object) -> None:
        if self._loop.is_guarded:  # else its world has nobody who wants to know
            self._loop.world.ask_ended(self.target, self, status == ANSWERED, value)
        self._close(status, value)
        if status != ANSWERED:
            fold(self._value)
            self._traceback: TracebackType | None = self._value.__traceback__
            if self.waiter is None and self._future is None and self._is_worth_telling():
                self._never_awaited = NeverAwaited(self.target, self._value)
        self.wake_waiter()
        if self._future is not None:
            self._touch_asker()
            if self._aio is None:
                self._tell_future()
            else:
                with suppress(RuntimeError):  # the asker's asyncio loop is closed
                    self._aio.call_soon_threadsafe(self._tell_future)

    def _touch_asker(self) -> None:
        """The asker's handler, which runs on another thread, can go on."""
        if self.asker is None:
            return
        if self.asker.runq is self._loop.runq:
            task = self.asker.task
            touch = None if task is None else getattr(task._waiter, "touch", None)
        else:
            touch = getattr(self.asker.handoff(), "touch", None)
        if touch is not None:
            touch()

    def _tell_future(self) -> None:
        future = self._future
        try:
            if self._status == ANSWERED:
                future.set_result(self._value)
            elif self._status == GIVEN_UP and isinstance(self._value, CancelledError):
                future.cancel()
            else:
                future.set_exception(self._value)
        except _TOO_LATE:  # it was cancelled: by the asker's task, or by a thread whose patience was at an end
            if self._status == ANSWERED:
                self._is_too_late(self._value)

    def _is_too_late(self, value: object) -> None:
        """Count an answer that came too late, where the actor that gave it lives."""
        target = self.peek_target()
        target.loop.host.late_reply(target, value, self.shown_sender())

    def is_let_in(self, error: BaseException | None) -> None:
        """There was room for its message, unless `error` says what prevents that."""
        if COMPILED:
            guard_book(self, None)
        else:
            self._book = None
        if error is not None:
            self.refuse(error)

    def arm(self) -> None:
        """Ring after the timeout."""
        if self._status == OPEN:
            self.deadline = self._loop.timers.now() + self.timeout
            self._loop.timers.add(self)
            if self._loop.runq.asleep:
                self._loop.runq.wake()  # to sleep again, but not past this deadline

    def arm_at_home(self) -> None:
        """As `arm`, from any thread."""
        self._loop.inbound.post(None, self.arm)


def current_handoff(loop: Loop) -> Handoff | None:
    """What this thread does for an actor that goes by the clock of `loop`, if it does something.

    If it waits for an actor of another system that goes by another clock, its own is not to go on.
    """
    handoff = current_handoffs.get(get_ident()) if current_handoffs else None
    return handoff if handoff is not None and handoff.cell.loop.clock is loop.clock else None
