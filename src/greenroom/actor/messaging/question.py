"""Asks: a question put to an actor, its answer, and the circles in which actors would wait for one another.

A question stands in the sender's slot of its message, so an ask costs one object: it is the receipt that learns what
became of the message, the alarm that rings when no reply came in time, and what the asker awaits (as an `Asked`).

**Whose it is.** If a handler asks, the loop of its actor: there the timeout rings, and there the answer is brought.
Else that of the actor asked; a foreign asker sees only its future. That loop's thread alone touches it, but for what
the answering side calls, from any thread: it looks at `target` by `peek_target`, and brings home what it has to say.

**Two ways to wait.** A handler that awaits an ask of an actor on its own loop is resumed by the run queue: nothing goes
through asyncio. Everybody else awaits an asyncio future, made when first awaited, or at once if the asker runs on
another thread than the actor asked.

**asyncio.** An ask is a `Coroutine` too, so that `create_task` and the like take it as it is. Nothing is kept for that:
a task's step looks whether the answer is there, and yields an asyncio future if it is not.

**Circles.** When actors wait for one another in a circle, the ask that could never be answered is refused. An actor
waits for another while its handler awaits a question to it and nothing else: waiting for the first of two asks, or in
another task, is no deadlock. It also waits while it has escalated: for its *decider*, the first above it that has not.
A decider acts when its handler is done, so a circle that leads by one is broken at the question to the actor that has
escalated. Of any other circle, one ask is refused.

A `Walk` follows those who wait, from each new wait on. On one loop it is over at once. Across loops, where no thread
may look at another's actors, it goes on from thread to thread.

**Why none is missed.** Each wait begins a walk, and a handler is suspended before its loop takes in the next. So when
the last actor of a circle begins to wait, its walk finds all the others waiting. A handler on a thread of its own says
what it waits for before its walk begins, and that before it waits.

**Why none is made up.** An actor that is found waiting still owes the answer that the walk has followed to it, and
gives none while it waits. So all before it wait on, too, unless they give up: that is looked at once more in the end.

**Why one of them is refused, and no more.** On one loop, it is the ask whose wait closes the circle. Across loops, all
who begin to wait at the same moment may find the circle. There each ask has a number, and all of them refuse the last:
what is asked because of another ask has the higher number, whichever of them is awaited first.
"""

from __future__ import annotations

import asyncio
import sys
from _thread import get_ident
from asyncio import CancelledError, get_running_loop
from collections.abc import Coroutine
from concurrent.futures import InvalidStateError as ThreadFutureIsDone
from contextlib import suppress
from functools import partial
from itertools import count
from types import GenericAlias
from typing import TYPE_CHECKING, Any

from greenroom._core.build import COMPILED, MadeByRuntime
from greenroom._core.current import current_handoffs, current_reader, ticking_here
from greenroom._core.delivery.admission import Waiter
from greenroom._core.flags import HELD, INTERCEPTED, MAY_NOT_ASK
from greenroom._core.itemkinds import ANSWERED, ASKED, FAILED, GIVEN_UP, OPEN
from greenroom._core.mailbox.cell import Cell
from greenroom._core.scheduler.loop import Loop
from greenroom._core.scheduler.stepping import Wait
from greenroom.actor.records.record import ActorRecord
from greenroom.actor.records.states import Stage
from greenroom.errors import (
    ActorTerminated,
    AskDeadlock,
    AskTimeout,
    BadArgument,
    HandlerBroken,
    InvalidDelay,
    MessageDropped,
    MetaCannotAsk,
    SystemStopped,
    Unhandled,
    WrongThread,
)
from greenroom.errortext import hand_on_notes, in_words
from greenroom.exits import SHUTDOWN, ExitReason
from greenroom.lanes import Lane, as_lane
from greenroom.runtimelog import RuntimeLog
from greenroom.tracebacks import SHOWS_ALL, drop_outer, fold, set_traceback
from greenroom.validation import LONGEST_DELAY, require_delay

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop
    from collections.abc import Callable, Generator
    from types import TracebackType
    from typing import NoReturn, TypeVar

    from greenroom._core.handoff.handoff import Handoff

    T = TypeVar("T")

# pytest leaves out the frames of a module that says so; compiled code cannot take its last one out itself.
__tracebackhide__ = not SHOWS_ALL

_log = RuntimeLog()

_numbers = count(1)
"""Of asks that lead to other loops. They are compared across systems too."""

_TOO_LATE = (asyncio.InvalidStateError, ThreadFutureIsDone)
ESCALATED = int(Stage.ESCALATED)

# Since Python 3.12, a task may take its first step inside the handler that makes it.
EAGER_TASKS = sys.version_info >= (3, 12)


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
        """Whether the ask has ended, with a reply or without."""
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
        """Whether to log a failure that is never retrieved. The end of the system tells what it discards, and a world
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
            # The book is the answering actor's, which may live on another loop.
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
        return self._propagated if COMPILED else getattr(self, "_propagated", None)  # which an ask need not set

    def propagate(self, values: Any) -> None:
        """Send these context variables along with the message."""
        self._propagated = values

    def shown_sender(self) -> object:
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
                return
            target = self.peek_target()
            if target.loop.host.lives_on(target):
                self.break_off(cause, None)
            else:
                self.refuse(self._terminated(self._reason() or ExitReason.of(cause), cause))

    def discard(self, why: str) -> None:
        target = self.peek_target()
        ref = target.shown()
        if why == "unhandled":
            self.refuse(Unhandled(ref, target.loop.visits.message))
        elif why in ("stopped", "loop stopped"):
            self.refuse(self._terminated(self._reason() or SHUTDOWN, None))
        else:
            self.refuse(MessageDropped(ref, why))

    def _reason(self) -> ExitReason | None:
        """How the actor asked has ended, or will have, as its own loop knows it: it may be another than the asker's."""
        target = self.peek_target()
        reason: ExitReason | None = target.loop.host.reason_of(target)
        return reason

    def end_with(self, reason: ExitReason) -> None:
        """Fail because the actor that was to answer has ended."""
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
        if self._status == OPEN:
            self._end(GIVEN_UP, AskTimeout(self.target.shown(), self.timeout))

    def _end(self, status: int, value: object) -> None:
        if self._loop.is_guarded:  # else its world does not want to know
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
        """Start the timeout, from any thread."""
        self._loop.inbound.post(None, self.arm)


def current_handoff(loop: Loop) -> Handoff | None:
    """What this thread does for an actor that goes by the clock of `loop`, if it does something.

    If it waits for an actor of another system that goes by another clock, its own is not to go on.
    """
    handoff = current_handoffs.get(get_ident()) if current_handoffs else None
    return handoff if handoff is not None and handoff.cell.loop.clock is loop.clock else None


# -- circles


def find_cycle(question: Question) -> tuple[object, ...] | None:
    """The circle that is closed by waiting for `question`, its asker first and last, if all of it is on one loop.

    None if there is no such circle; one that is broken in another way is dealt with. For the thread of its loop.
    """
    asker, target = question.asker, question.target
    if asker is None:
        return None
    is_near = target is not asker and target.runq is asker.runq
    if is_near and not target.flags & HELD and (target.task is None or awaited_by(target) is None):
        return None  # the actor asked waits for nothing: the usual case
    return Walk(question, asker).run(question)


class Walk:
    """One way along those who wait. It is on one thread at a time, and touches only what is that thread's own."""

    __slots__ = ("_asker", "_broken_off", "_cycle", "_followed", "_is_local", "_origin", "_passed")

    def __init__(self, origin: Question, asker: Cell) -> None:
        self._origin = origin
        self._asker = asker
        self._passed: set[Cell] = set()
        # Each question, the actor that was asked when it was followed, and its number then.
        self._followed: list[tuple[Question, Cell, int]] = []
        # The question to an actor that has escalated, with what its asker is to be told.
        self._broken_off: tuple[Question, BaseException | None, str] | None = None
        # Whether all that were passed live on the asker's loop, and the circle that they are then.
        self._is_local = True
        self._cycle: tuple[object, ...] | None = None

    def run(self, question: Question) -> tuple[object, ...] | None:
        """Follow `question`, and all that are waited for; the circle, if it is on one loop."""
        cell: Cell | None = self.follow(question)
        while cell is not None:
            cell = self._go_to(cell)
        return self._cycle

    def follow(self, question: Question) -> Cell:
        cell = question.peek_target()
        # Its number is looked at second: one that is handed on has a new one before it has another target.
        self._followed.append((question, cell, question.number))
        return cell

    def _go_to(self, cell: Cell) -> Cell | None:
        """Look at the actor of `cell`, and return the next one that this thread may look at."""
        if cell is self._asker:
            self._close()
            return None
        if cell in self._passed:
            return None  # this only leads to a circle: those who are in it find it
        self._passed.add(cell)
        if self._is_local and cell.runq is not self._asker.runq:
            self._is_local = False
            if self._origin.number == 0:
                self._origin.is_asked_now()
                self._followed[0] = (self._origin, self._followed[0][1], self._origin.number)
        if not cell.is_foreign():
            return self._next(cell)
        cell.loop.inbound.post_back(None, partial(self._arrive, cell))
        return None

    def _arrive(self, cell: Cell) -> None:
        following = self._next(cell)
        while following is not None:
            following = self._go_to(following)

    def _next(self, cell: Cell) -> Cell | None:
        """The actor that the actor of `cell` waits for. On its own thread."""
        question, asked, _ = self._followed[-1]
        if self._origin.done():
            return None
        by_decider = asked is not cell
        if not by_decider and question.peek_target() is not cell:
            return None  # it has left the answer to another meanwhile
        decider = decider_of(cell)
        if decider is not None and self._broken_off is None:
            self._broken_off = (question, *what_to_say(cell, decider))
            return decider
        if question.replied and not by_decider:
            return None  # its answer is on its way, or comes from elsewhere
        awaited = awaited_by(cell)
        return None if awaited is None or awaited.done() or awaited.replied else self.follow(awaited)

    def _close(self) -> None:
        """All of them waited when they were looked at. If none has an answer, or gave up, they wait at this moment."""
        broken_off = None if self._broken_off is None else self._broken_off[0]
        for question, cell, _ in self._followed:
            if question.done() or was_left(question) or question.peek_target() is not cell:
                return
            if question.replied and question is not broken_off:
                return
        if self._broken_off is not None:
            question, cause, happened = self._broken_off
            question.break_off(cause, happened)
            return
        asked = [cell.shown() for _, cell, _ in self._followed]
        # Each was asked by the one that was asked before it: the first by the last, which is where this began.
        if self._is_local:
            self._cycle = (asked[-1], *asked)
            return
        numbers = [number for _, _, number in self._followed]
        last = numbers.index(max(numbers))
        refuse_in_cycle(self._followed[last][0], (asked[last - 1], *asked[last:], *asked[:last]))


def awaited_by(cell: Cell) -> Question | None:
    """What the handler of an actor waits for, and for nothing else; None for an actor of another loop."""
    task = None if cell.is_foreign() else cell.task
    waits_for = None if task is None else task._waiter
    # On another thread, it is its work that is waited for, and that which waits: for a question, perhaps.
    question = waits_for if isinstance(waits_for, Question) else getattr(waits_for, "question", None)
    return question if isinstance(question, Question) else None


def has_escalated(record: object) -> bool:
    """Whether an actor waits for a decision further up; one that has been told to end meanwhile does not."""
    return isinstance(record, ActorRecord) and record.stage == ESCALATED


def decider_of(cell: Cell) -> Cell | None:
    """The actor that has to act before one that has escalated goes on; None if it has not, or if that is the system."""
    decider = None
    while not cell.is_foreign() and has_escalated(cell.record):
        parent = cell.ref._parent
        if parent is None:
            return None
        decider = cell = parent._cell
    return decider


def what_to_say(cell: Cell, decider: Cell) -> tuple[BaseException | None, str]:
    """The failure of the actor of `cell`, and why a question to it is broken off, in words."""
    failure = cell.record.extras.restart_state.failure
    cause = None if failure is None else failure.cause
    failed = "it failed" if cause is None else f"it failed with {in_words(cause)}"
    return cause, f"{failed}, and {decider.name()}, which is to act on that, waits for this answer"


def release_decider(decider: Cell) -> None:
    """An actor has escalated to `decider`, whose handler must not wait for those that wait for it."""
    question = awaited_by(decider)
    if question is not None and not question.done():
        Walk(question, decider).run(question)


def wait_on_thread(question: Question, handoff: Handoff | None) -> None:
    """A handler that runs on another thread waits for `question`, and for nothing else."""
    if handoff is not None:
        if question.number == 0:
            question.is_asked_now()  # before a walk can see it: all that do have to see the same number
        question._handoff = handoff
        handoff.question = question
        question._loop.inbound.post_back(None, partial(break_cycle, question))
        if handoff.cell.loop is not question._loop:
            handoff.tick_soon()


def was_left(question: Question) -> bool:
    """Whether a handler on another thread has waited for `question`, and no longer does."""
    handoff = question._handoff
    return handoff is not None and handoff.question is not question


def is_waited_for(question: Question) -> bool:
    """Whether a handler waits for `question`, and nothing else; on another thread, perhaps."""
    handoff = question._handoff
    return question.waiter is not None or (handoff is not None and handoff.question is question)


def break_cycle(question: Question) -> None:
    """See whether `question`, which may be waited for, closes a circle. On the thread of its loop."""
    if question._status == OPEN and is_waited_for(question):
        cycle = find_cycle(question)
        if cycle:
            question._end(FAILED, AskDeadlock(cycle))


def forward_question(question: Question, target: Cell) -> None:
    if question.number > 0:
        question.is_asked_now()  # before it has another target, so that no walk sees that one with the old number
    if COMPILED:
        guard_target(question, target)
    else:
        question.target = target
    if not question._goes_elsewhere(break_cycle, question):
        break_cycle(question)


def refuse_in_cycle(question: Question, refs: tuple[object, ...]) -> None:
    """Refuse `question`, whose asker is in a circle, or is about to be. From any thread."""
    question._loop.inbound.post_back(None, partial(end_in_cycle, question, refs))


def end_in_cycle(question: Question, refs: tuple[object, ...]) -> None:
    if question._status == OPEN and is_waited_for(question):
        question._end(FAILED, AskDeadlock(refs))


# -- asking


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
        """Give up: the task that it was given to was thrown away."""
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
        give_up = partial(self._cell.loop.admission.give_up, self._cell, self._waiter)
        if not self._cell.is_foreign() or not self._cell.loop.inbound.post_back(None, give_up):
            give_up()


def put_question(cell: Cell, message: object, timeout: float | None, lane: Lane, patiently: bool) -> Asked:
    """Send `message` to `cell` and return what is awaited. What prevents the sending is raised where it is awaited.

    If it is asked `patiently`, the message waits for room in a full mailbox.
    """
    seconds = seconds_of(timeout)
    loop = cell.loop
    question = Asked.__new__(Asked)
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
        question.is_asked_now()  # before the actor asked can ask another because of it
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
    question.is_asked_now()  # before the actor asked can ask another because of it
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
