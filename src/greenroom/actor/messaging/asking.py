"""Putting a question: from the loop of the actor asked or from another thread, at once or when there is room."""

from __future__ import annotations

from _thread import get_ident
from asyncio import get_running_loop
from functools import partial

from greenroom._core.build import COMPILED
from greenroom._core.mailbox.cell import Cell
from greenroom._core.scheduler.loop import Loop
from greenroom._core.timing.timers import LONGEST_DELAY
from greenroom.actor.messaging.question import Question, current_handoff
from greenroom.errors import InvalidDelay, WrongThread
from greenroom.lanes import Lane, as_lane

__all__ = [
    "put_patiently",
    "put_question",
    "require_timeout",
    "seconds_of",
    "send_from_outside",
    "send_patiently",
]


def put_question(cell: Cell, message: object, timeout: float | None, lane: Lane) -> Question:
    """Send `message` to `cell` and return its question. What prevents the sending is raised where it is awaited."""
    return _put(cell.loop, cell, Question.__new__(Question), message, seconds_of(timeout), lane)


def _put(loop: Loop, cell: Cell, question: Question, message: object, seconds: float, lane: Lane) -> Question:
    if (COMPILED and thread_ident() != loop.runq.thread) or (not COMPILED and get_ident() != loop.runq.thread):
        return _ask_from_outside(loop, cell, question, message, seconds, lane)
    question.set_up(loop, cell, loop.visits.hand, seconds)
    try:
        loop.admission.admit(cell, message, question, lane)
    except Exception as exc:
        question.refuse(exc)
    if seconds >= 0.0:
        question.arm()
    return question


def put_patiently(cell: Cell, message: object, timeout: float | None, lane: Lane) -> Question:
    """As `put_question`, but the message waits for room in a full mailbox."""
    seconds, loop, question = seconds_of(timeout), cell.loop, Question.__new__(Question)
    if cell.is_foreign():
        return _ask_from_outside(loop, cell, question, message, seconds, lane, True)
    question.set_up(loop, cell, loop.visits.hand, seconds)
    loop.admission.take_along(cell, question)
    _wait_for_room(question, message, as_lane(lane))
    if seconds >= 0.0:
        question.arm()
    return question


def _wait_for_room(question: Question, message: object, lane: Lane) -> None:
    if not question._loop.host.asks_elsewhere(question, message, lane):
        question.wait_for_room(message, lane)


def _ask_from_outside(
    loop: Loop,
    cell: Cell,
    question: Question,
    message: object,
    seconds: float,
    lane: Lane,
    wait_for_room: bool = False,
) -> Question:
    loop.inbound.refuse_simulated(cell)
    try:
        aio = get_running_loop()
    except RuntimeError:
        raise WrongThread("ask()", "no asyncio loop runs here: use `ask_sync()`") from None
    handoff = current_handoff(loop)
    question.set_up(loop, cell, None if handoff is None else handoff.cell, seconds)
    question.tell_future(aio.create_future(), aio)
    send_from_outside(loop, cell, question, message, lane, wait_for_room)
    return question


def send_from_outside(
    loop: Loop, cell: Cell, question: Question, message: object, lane: Lane, wait_for_room: bool
) -> None:
    """Send `message`, from another thread than the loop's; with `wait_for_room`, when there is room."""
    try:
        if wait_for_room:
            send_patiently(loop, cell, question, message, as_lane(lane))
        else:
            loop.inbound.offer(cell, message, question, lane)
    except Exception as exc:
        question.refuse(exc)
    else:
        if question.timeout >= 0.0:
            loop.inbound.call(None, question.arm)


def send_patiently(loop: Loop, cell: Cell, question: Question, message: object, lane: Lane) -> None:
    """Send `message` when there is room, from another thread than the loop's."""
    if not loop.host.is_elsewhere(cell) and loop.inbound.offer_if_room(cell, message, question, lane):
        return
    loop.admission.take_along(cell, question)
    wait = partial(_wait_for_room, question, message, lane)
    if not loop.inbound.call_to_line(cell, wait):
        wait()


def seconds_of(timeout: float | None) -> float:
    """The time that an answer has, negative if all the time in the world; raise unless it is a number of seconds."""
    if timeout is None:
        return -1.0
    if type(timeout) is not float:
        require_timeout(timeout)
    seconds: float = timeout
    if not 0.0 <= seconds <= LONGEST_DELAY:
        raise InvalidDelay("timeout", timeout)
    return seconds


def require_timeout(timeout: float) -> None:
    """Raise unless `timeout` is a number of seconds."""
    try:
        valid = 0.0 <= timeout <= LONGEST_DELAY
    except TypeError:
        valid = False
    if not valid:
        raise InvalidDelay("timeout", timeout)
