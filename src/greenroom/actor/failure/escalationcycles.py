"""Handlers that wait for an answer of somebody who waits for them.

An actor that has escalated answers nobody before somebody above it has acted on that: the *decider*. It acts when its
handler is done; and if that waits for an answer of the one below, directly or through others, neither would go on
before a deadline. So such a question is broken off: when the actor escalates, and when somebody begins to wait later.
"""

from __future__ import annotations

from greenroom._core.mailbox.cell import Cell
from greenroom.actor.failure.askcycles import probe
from greenroom.actor.life import ending
from greenroom.actor.messaging.question import Question
from greenroom.actor.records.record import ActorRecord
from greenroom.errors.base import in_words

__all__ = ["break_off_if_stuck", "has_escalated", "release_decider"]


def has_escalated(record: object) -> bool:
    """Whether it waits for a decision further up; one that has been told to end meanwhile does not."""
    if not isinstance(record, ActorRecord) or record.extras is None:
        return False
    extras = record.extras
    return extras.restart_state is not None and extras.restart_state.escalated and extras.phase == ending.NONE


def release_decider(decider: Cell) -> None:
    """Somebody has escalated to `decider`: its handler must not wait for those that wait for it."""
    passed = [decider]
    question = awaited_by(decider)
    while question is not None and not question.done():
        target = question.peek_target()
        if target.is_foreign():
            probe(question)
            return
        if decider_of(target) is decider:
            _break_off(question, decider)
            return
        if question.replied or target in passed:
            return
        passed.append(target)
        question = awaited_by(target)


def break_off_if_stuck(question: Question) -> None:
    """A handler begins to wait, for an actor that is held or that waits for one: if that one waits for the handler, it
    must not.
    """
    last = question
    passed: list[Cell] = []
    while not has_escalated(last.target.record):  # all on this loop: what leads elsewhere, a probe follows
        awaited = awaited_by(last.target)
        if awaited is None or awaited.done() or awaited.replied or last.target in passed:
            return
        passed.append(last.target)
        last = awaited
    decider = decider_of(last.target)
    passed = []
    waiting = decider
    while waiting is not None and waiting is not last.asker and waiting not in passed:
        passed.append(waiting)
        awaited = question if waiting is question.asker else awaited_by(waiting)
        waiting = None if awaited is None or awaited.done() or awaited.replied else awaited.target
    if decider is not None and waiting is last.asker and not last.done():
        _break_off(last, decider)


def awaited_by(cell: Cell) -> Question | None:
    """What the handler of an actor waits for, and for nothing else; on another thread, its hand-off knows.

    None for an actor of another loop.
    """
    task = None if cell.is_foreign() else cell.task
    waits_for = None if task is None else task._waiter
    question = waits_for if isinstance(waits_for, Question) else getattr(waits_for, "question", None)
    return question if isinstance(question, Question) else None


def decider_of(cell: Cell) -> Cell | None:
    """Who has to act before an actor that has escalated goes on; None if it has not, or if that is the system."""
    decider = None
    while not cell.is_foreign() and has_escalated(cell.record):
        parent = cell.ref._parent
        if parent is None:
            return None
        decider = cell = parent._cell
    return decider


def _break_off(question: Question, decider: Cell) -> None:
    question.break_off(*what_to_say(question.target, decider))


def what_to_say(cell: Cell, decider: Cell) -> tuple[BaseException | None, str]:
    """What somebody is told who waits for the actor of `cell`, while `decider`, which is to act on it, waits for them:
    its failure, and the rest in words.
    """
    failure = cell.record.extras.restart_state.failure
    cause = None if failure is None else failure.cause
    failed = "it failed" if cause is None else f"it failed with {in_words(cause)}"
    return cause, f"{failed}, and {decider.name()}, which is to act on that, waits for this answer"
