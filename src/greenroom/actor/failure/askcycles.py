"""Finds actors of several loops that wait for one another in a circle.

On one loop a circle is seen at a glance, by `askdeadlock`. Across loops nobody may look at another's actors, so a
*probe* is sent along: to the loop of the actor asked, on to that of the actor which *that* one waits for, and so on.
When it comes back to the actor whose wait it began with, none of them could ever answer.

**Why none is missed.** Each wait sends a probe, and a handler is suspended before its loop takes in the next probe. So
when the last actor of a circle begins to wait, its probe finds all the others waiting. A handler on a thread of its own
says what it waits for before its probe is sent, and that before it waits.

**Why none is made up.** Whoever is found waiting still owes the answer that the probe has followed to it, and gives
none while it waits. So all those before it wait on, too, unless they give up: that is looked at once more in the end.

**Why one of them is refused, and no more.** All who begin to wait at the same moment may find the circle. Each wait has
a number, and whoever finds the circle refuses the last: so all refuse the same. As on one loop, that is the ask which
closed the circle; for what is asked because of another ask has the higher number, whichever of them is awaited first.

An actor that has failed, and whose parent has to decide on it, waits for that parent. If the circle leads through such
a one, the question to it is broken off, as on one loop.
"""

from __future__ import annotations

from functools import partial

from greenroom._core.mailbox.cell import Cell
from greenroom.actor.life import ending
from greenroom.actor.messaging.askdeadlock import refuse_in_cycle, was_left
from greenroom.actor.messaging.question import Question
from greenroom.actor.records.record import ActorRecord
from greenroom.errors.base import in_words

__all__ = ["awaited_by", "decider_of", "has_escalated", "probe", "what_to_say"]


def probe(question: Question) -> None:
    """A handler begins to wait for `question`, and for nothing else: see whether that leads back to its actor."""
    if question.asker is not None:
        Probe(question, question.asker).follow(question)


class Probe:
    """One way along those who wait. It is on one thread at a time, and touches only what is that thread's own."""

    __slots__ = ("_asker", "_broken_off", "_followed", "_origin", "_passed")

    def __init__(self, origin: Question, asker: Cell) -> None:
        self._origin = origin
        self._asker = asker
        self._passed: set[Cell] = set()
        # Each question, the actor that was asked when it was followed, and its number then.
        self._followed: list[tuple[Question, Cell, int]] = []
        # The question to an actor whose failure is not decided on, with what its asker is to be told.
        self._broken_off: tuple[Question, BaseException | None, str] | None = None

    def follow(self, question: Question) -> None:
        """Go on to the actor that is asked."""
        cell = question.peek_target()
        # Its number is looked at second: one that is handed on has a new one before it has another target.
        self._followed.append((question, cell, question.number))
        self._go_to(cell)

    def _go_to(self, cell: Cell) -> None:
        if cell is self._asker:
            self._close()
        elif cell not in self._passed:  # else it only leads to a circle: those who are in it will find it
            self._passed.add(cell)
            if not cell.is_foreign():
                self._look(cell)
            else:
                cell.loop.inbound.bring(None, partial(self._look, cell))

    def _look(self, cell: Cell) -> None:
        """Whom the actor of `cell` waits for. On its own thread."""
        if self._origin.done() or self._is_owed_no_more(cell):
            return
        question = awaited_by(cell)
        if question is not None:
            if not question.done() and not question.replied:
                self.follow(question)
            return
        decider = decider_of(cell)
        if decider is not None and self._broken_off is None:
            self._broken_off = (self._followed[-1][0], *what_to_say(cell, decider))
            self._go_to(decider)

    def _is_owed_no_more(self, cell: Cell) -> bool:
        """Whether the actor of `cell` has answered what it was asked, or left that to another, before this came."""
        question = self._followed[-1][0]
        goes_by_decider = self._broken_off is not None and self._broken_off[0] is question
        return question.replied or not (goes_by_decider or question.peek_target() is cell)

    def _close(self) -> None:
        """All of them waited when they were looked at. If none has an answer, or gave up, they wait at this moment."""
        for question, cell, _ in self._followed:
            if question.done() or was_left(question) or question.replied or question.peek_target() is not cell:
                return
        if self._broken_off is not None:
            question, cause, happened = self._broken_off
            question.break_off(cause, happened)
            return
        numbers = [number for _, _, number in self._followed]
        last = numbers.index(max(numbers))
        asked = [cell.shown() for _, cell, _ in self._followed]
        # Each was asked by the one that was asked before it: the first by the last, which is where this began.
        refuse_in_cycle(self._followed[last][0], (asked[last - 1], *asked[last:], *asked[:last]))


def has_escalated(record: object) -> bool:
    """Whether it waits for a decision further up; one that has been told to end meanwhile does not."""
    if not isinstance(record, ActorRecord) or record.extras is None:
        return False
    extras = record.extras
    return extras.restart_state is not None and extras.restart_state.escalated and record.phase == ending.NONE


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


def what_to_say(cell: Cell, decider: Cell) -> tuple[BaseException | None, str]:
    """What somebody is told who waits for the actor of `cell`, while `decider`, which is to act on it, waits for them:
    its failure, and the rest in words.
    """
    failure = cell.record.extras.restart_state.failure
    cause = None if failure is None else failure.cause
    failed = "it failed" if cause is None else f"it failed with {in_words(cause)}"
    return cause, f"{failed}, and {decider.name()}, which is to act on that, waits for this answer"
