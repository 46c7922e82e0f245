"""Finds handlers that wait for one another's answers, and refuses an ask that could never be answered.

A handler that awaits a question is followed to the actor asked, to the question *that* one awaits, and so on; coming
back to where we started, none of them could ever answer. Only what a suspended handler awaits directly is followed:
waiting for the first of two asks, or in another task, is no deadlock.

This is for the actors of one loop. Where those who wait lead to another, its host is told (`awaits_elsewhere`); so it
is of an actor that has failed and waits for a decision (`awaits`).
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from greenroom._core.build import COMPILED
from greenroom._core.flags import HELD
from greenroom._core.itemkinds import FAILED, OPEN
from greenroom._core.mailbox.cell import Cell
from greenroom.actor.messaging.question import Question
from greenroom.errors import AskDeadlock
from greenroom.tracebacks import SHOWS_ALL

if TYPE_CHECKING:
    from greenroom._core.current import CurrentHandoff

__all__ = ["break_cycle", "find_cycle", "forward_question", "refuse_in_cycle", "wait_on_thread", "was_left"]

# As in `question`.
__tracebackhide__ = not SHOWS_ALL


def find_cycle(question: Question) -> tuple[object, ...] | None:
    """The actors that wait for one another, this question's asker first and last; None if it can be answered.

    Empty if they end with one that is held, which may itself wait for one of them.
    """
    asker = question.asker
    runq = question._loop.runq
    if question.target is not asker:
        if question.target.runq is not runq:
            question._leads_elsewhere = True
            return None
        if question.target.task is None:
            return None  # nobody else waits: the usual case
    refs = [asker.shown()]  # type: ignore[union-attr]
    passed = {asker}
    followed = question
    # An answer may be on its way here, or come from elsewhere: then who was asked is waited for no more.
    while followed._status == OPEN and not followed.replied:
        cell = followed.target
        refs.append(cell.shown())
        if cell is asker:
            return tuple(refs)
        if cell in passed:
            return None  # a circle that it only leads to: those who are in it will find it
        if cell.runq is not runq:
            question._leads_elsewhere = True
            return None
        passed.add(cell)
        task = cell.task
        waits_for = None if task is None else task._waiter
        # On another thread, it is its work that is waited for, and that which waits: for a question, perhaps.
        next_one = waits_for if isinstance(waits_for, Question) else getattr(waits_for, "question", None)
        if not isinstance(next_one, Question):
            return () if cell.flags & HELD else None
        followed = next_one
    return None


def break_cycle(question: Question) -> None:
    """Whoever waits for this question, and nothing else, must not wait for themselves. On the thread of its loop."""
    if question._status != OPEN or not is_waited_for(question):
        return
    if question.asker is None or question.asker.runq is not question._loop.runq:
        question._loop.host.awaits_elsewhere(question)  # its asker, on another thread, lives on another loop
        return
    cycle = find_cycle(question)
    if cycle:
        question._end(FAILED, AskDeadlock(cycle))
    elif question._leads_elsewhere:
        question._loop.host.awaits_elsewhere(question)
    elif cycle is not None or question.target.flags & HELD:
        question._loop.host.awaits(question)


def is_waited_for(question: Question) -> bool:
    """Whether a handler waits for this question, and nothing else; on another thread, perhaps."""
    handoff = question._handoff
    return question.waiter is not None or (handoff is not None and handoff.question is question)


def wait_on_thread(question: Question, handoff: CurrentHandoff | None) -> None:
    """A handler that runs on another thread waits for this, and for nothing else: that may be for ever."""
    if handoff is not None:
        if question.number == 0:
            question.is_asked_now()  # before a probe can see it: all that do have to see the same number
        question._handoff = handoff
        handoff.question = question
        question._loop.inbound.bring(None, partial(break_cycle, question))
        if handoff.cell.loop is not question._loop:
            handoff.tick_soon()


def was_left(question: Question) -> bool:
    """Whether a handler on another thread has waited for this, and does so no more, though it may be open yet."""
    handoff = question._handoff
    return handoff is not None and handoff.question is not question


def forward_question(question: Question, target: Cell) -> None:
    """Another actor is to answer. If its asker waits, and that one waits for the asker, nobody ever would."""
    if question.number > 0:
        question.is_asked_now()  # before it has another target, so that nobody sees that one with the old number
    if COMPILED:
        guard_target(question, target)
    else:
        question.target = target
    if not question._goes_elsewhere(break_cycle, question):
        break_cycle(question)


def refuse_in_cycle(question: Question, refs: tuple[object, ...]) -> None:
    """A probe has found that its asker waits for itself. From any thread; the asker may be about to wait."""
    question._loop.inbound.bring(None, partial(end_in_cycle, question, refs))


def end_in_cycle(question: Question, refs: tuple[object, ...]) -> None:
    """Refuse it, if its asker still waits. On the thread of its loop."""
    if question._status == OPEN and is_waited_for(question):
        question._end(FAILED, AskDeadlock(refs))
