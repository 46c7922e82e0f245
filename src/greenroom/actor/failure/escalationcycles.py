"""Handlers that wait for an answer of somebody who waits for them.

An actor that has escalated answers nobody before somebody above it has acted on that: the *decider*. It acts when its
handler is done; and if that waits for an answer of the one below, directly or through others, neither would go on
before a deadline. So such a question is broken off: when the actor escalates, and when somebody begins to wait later.
"""

from __future__ import annotations

from greenroom._core.mailbox.cell import Cell
from greenroom.actor.failure.askcycles import awaited_by, decider_of, has_escalated, probe, what_to_say
from greenroom.actor.messaging.question import Question

__all__ = ["break_off_if_stuck", "release_decider"]


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


def _break_off(question: Question, decider: Cell) -> None:
    question.break_off(*what_to_say(question.target, decider))
