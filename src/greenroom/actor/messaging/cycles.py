"""Finds actors that wait for one another in a circle, and refuses the ask that could never be answered.

An actor waits for another while its handler awaits a question to it and nothing else: waiting for the first of two
asks, or in another task, is no deadlock. It also waits while it has escalated: for its *decider*, the first above it
that has not. A decider acts when its handler is done, so a circle that leads by one is broken at the question to the
actor that has escalated. Of any other circle, one ask is refused.

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

from functools import partial
from typing import TYPE_CHECKING

from greenroom._core.build import COMPILED
from greenroom._core.flags import HELD
from greenroom._core.itemkinds import FAILED, OPEN
from greenroom._core.mailbox.cell import Cell
from greenroom.actor.messaging.question import Question
from greenroom.actor.records.record import ActorRecord
from greenroom.actor.records.states import Stage
from greenroom.errors import AskDeadlock
from greenroom.errors.base import in_words
from greenroom.tracebacks import SHOWS_ALL

if TYPE_CHECKING:
    from greenroom._core.handoff.handoff import Handoff

__all__ = ["find_cycle", "forward_question", "has_escalated", "release_decider", "wait_on_thread"]

# As in `question`.
__tracebackhide__ = not SHOWS_ALL

ESCALATED = int(Stage.ESCALATED)


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
        """The actor that is asked."""
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
    """Make `target` the actor that answers."""
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
    """Refuse `question` if its asker still waits. On the thread of its loop."""
    if question._status == OPEN and is_waited_for(question):
        question._end(FAILED, AskDeadlock(refs))
