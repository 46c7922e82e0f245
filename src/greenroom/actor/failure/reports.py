"""Reports of failures: one log record each, with what a reader needs to act on it.

An actor that fails again and again fills no log: after a few records in a period of the system's clock the rest are
counted, and the count stands in the next record. What ends an actor, or goes further up, is always told.

Refusals are no failures: exceptions that an actor declares as answers, and raises to refuse a request. The asker gets
the exception, as with any other, and the actor goes on as if it had replied. A refusal that no asker hears would be
lost, so it is logged.
"""

from __future__ import annotations

from contextlib import suppress
from traceback import walk_tb
from typing import TYPE_CHECKING

from greenroom.actor.api.actor import Actor
from greenroom.actor.life.hooks import actor_of, executor_of
from greenroom.actor.life.spec import class_info_of
from greenroom.actor.messaging.question import Question
from greenroom.actor.messaging.signals import Exit, Signal
from greenroom.actor.records.record import ActorRecord
from greenroom.actor.records.restartstate import Failure, RestartState, restart_state_of
from greenroom.errors import (
    DeathPact,
    HandlerAbandoned,
    InternalError,
    NotAnActor,
    NotAwaited,
    NoThread,
    SimulationRefused,
    TroupeEnding,
    WorkerLost,
)
from greenroom.errortext import counted, in_words
from greenroom.runtimelog import LogLimit, RuntimeLog
from greenroom.tracebacks import SHOWS_ALL, ShownElsewhere, place_of

if TYPE_CHECKING:
    from types import TracebackType

    from greenroom._core.mailbox.cell import Cell

_log = RuntimeLog()

_NEVER_ANSWERS = (HandlerAbandoned, InternalError, NotAnActor, NoThread, NotAwaited, SimulationRefused, WorkerLost)
"""What the runtime raises about a handler, and no handler about a message: however wide the declared types are."""


class FailureSource:
    """An order or notice that says, as text, what a failure in handling it was about."""

    __slots__ = ()

    def is_told(self) -> bool:
        """Whether the failure is another actor's, which that one has reported."""
        return True


def describe(cell: Cell, record: ActorRecord, message: object, cause: BaseException, was_running: bool) -> Failure:
    visits = cell.loop.visits
    restart_state = restart_state_of(record)
    message_type = None
    took: float = visits.took
    is_told = isinstance(cause, DeathPact)  # which says in words whose failure that was
    if isinstance(message, FailureSource | Exit):
        took = 0.0  # it has not handled anything
        is_told = isinstance(message, Exit) or message.is_told()
        activity = str(message) if isinstance(message, FailureSource) else f"because {message.ref}, linked to it, has"
    else:
        if not was_running:
            activity = "while it started" if restart_state.incarnation == 1 else "while it was started again"
        else:
            message_type = type(message).__name__
            activity = f"on {message_type}" if not isinstance(message, Signal) else f"on the signal {message_type}"
    incarnation = restart_state.incarnation
    return Failure(cause, activity, message_type, took, incarnation, was_running, is_told, cause.__traceback__)


def report(
    cell: Cell,
    restart_state: RestartState,
    decision: str,
    acts_in: float | None,
    always: bool = False,
    remedy: str = "",
) -> None:
    """Log the last failure with what was decided: at once (`acts_in` 0.0), after a while, or never (None).

    `remedy` says what can be done about it.
    """
    failure = restart_state.failure
    restart_state.reported = True
    log = restart_state.log
    if failure is None or not (log.has_room(cell.loop.now()) or always):
        log.unlogged += 1
        return
    unlogged, log.unlogged = log.unlogged, 0
    path = cell.name()
    were = "was" if unlogged == 1 else "were"
    before = f" ({counted(unlogged, 'failure')} before this one {were} not logged)" if unlogged else ""
    life = f", in its life number {failure.incarnation}" if failure.incarnation > 1 else ""
    after = f" after {_duration(failure.handling_time)}" if failure.message_type is not None else ""
    is_again = _is_again(failure, restart_state)
    where = f" ({_place(failure)}, as before)" if is_again else ""
    with suppress(Exception):  # a failure to log must not decide what becomes of the actor
        _log.error(
            "%s failed %s%s%s: %s%s; %s%s%s",
            path,
            failure.activity,
            after,
            life,
            in_words(failure.cause),
            where,
            decision,
            before,
            f". {remedy}" if remedy else "",
            exc_info=_origin(failure, is_again),
            extra={
                **cell.loop.host.log_fields(cell),
                "incarnation": failure.incarnation,
                "message_type": failure.message_type,
                "handling_time": failure.handling_time,
                "cause": failure.cause,
                "decision": decision,
                "acts_in": acts_in,
                "not_logged": unlogged,
            },
        )


def _origin(failure: Failure, is_again: bool) -> tuple[type[BaseException], BaseException, TracebackType | None] | None:
    """Where it was raised, once: not where another record has it already, with what it came from.

    That a worker is gone was found out by the runtime itself: where is of no interest.
    """
    cause = failure.cause
    if isinstance(cause, WorkerLost) and cause.__cause__ is None:
        return None
    if (not failure.is_told and not is_again) or SHOWS_ALL:
        return type(cause), cause, failure.traceback
    has_more = cause.__cause__ is not None or (cause.__context__ is not None and not cause.__suppress_context__)
    return None if has_more or isinstance(cause, BaseExceptionGroup) else (type(cause), cause, None)


def _is_again(failure: Failure, restart_state: RestartState) -> bool:
    """Whether the failure comes from the same lines as the last one that was logged."""
    cause = failure.cause
    if isinstance(cause.__cause__, ShownElsewhere):
        place = hash((type(cause), str(cause.__cause__)))
    elif failure.traceback is not None:
        frames = walk_tb(failure.traceback)
        place = hash((type(cause), *((frame.f_code.co_filename, line) for frame, line in frames)))
    else:
        return False
    last, restart_state.log.place = restart_state.log.place, place
    return place == last


def _place(failure: Failure) -> str:
    file, line, _ = place_of(failure.traceback)
    return f"{file}:{line}" if file else "in the same place"


def report_undecided(cell: Cell, restart_state: RestartState) -> None:
    """Report the failure of an actor that ends before the decision about it."""
    if not restart_state.reported:
        report(cell, restart_state, "it ends with its parent", 0.0, always=True)


def _duration(seconds: float) -> str:
    """A length of time for people.

    >>> _duration(0.00042), _duration(0.0123), _duration(4.2)
    ('0.42 ms', '12.3 ms', '4.2 s')
    """
    return f"{1000 * seconds:.3g} ms" if seconds < 1.0 else f"{seconds:.3g} s"


def when(delay: float) -> str:
    return f"in {delay:.3g} s" if delay > 0.0 else "at once"


# -- refusals


def is_refusal(cell: Cell, message: object, sender: object, cause: BaseException) -> bool:
    """Whether `cause`, raised by a message's handler, is one of the actor's answers; log it if no asker waits."""
    record = cell.record
    if not isinstance(record, ActorRecord):
        return False
    executor = executor_of(record)
    if executor is not None and executor.is_remote:
        return False  # that is found out in its process; what comes from there is a failure
    declared = declared_as(record, cause)
    if declared is None:
        return False
    if not is_heard(sender) and declared is not TroupeEnding:
        report_refusal(cell, record, type(message).__name__, cause, declared.__name__)
    return True


def declared_as(record: ActorRecord, cause: BaseException) -> type[Exception] | None:
    """Which of the declared types `cause` is: those of the actor's class, and of the behavior it has become.

    A `TroupeEnding` is declared by all: what the actor has tried is of no use, and it is about to end itself.
    """
    if isinstance(cause, TroupeEnding):
        return TroupeEnding
    actor = actor_of(record)
    answers = class_info_of(type(actor)).answers if isinstance(actor, Actor) else ()
    if record.extras is not None and record.extras.answers:
        answers = (*answers, *record.extras.answers)
    if not answers or isinstance(cause, _NEVER_ANSWERS):
        return None
    bases = type(cause).__mro__  # and no `isinstance`, which may be a user's code
    return next((one for one in answers if one in bases), None)


def is_heard(sender: object) -> bool:
    """Whether an asker waits: the message was asked, and the handler has not replied or forwarded it."""
    return isinstance(sender, Question) and not sender.replied and not sender.done()


def report_refusal(cell: Cell, record: ActorRecord, message_type: str, cause: BaseException, declared: str) -> None:
    cell.loop.world.declined(cell, cause)
    extras = record.ensure_extras()
    if extras.refusal_log is None:
        extras.refusal_log = LogLimit()
    log: LogLimit = extras.refusal_log
    if not log.has_room(cell.loop.now()):
        log.unlogged += 1
        return
    unlogged, log.unlogged = log.unlogged, 0
    _log.warning(
        "%s refused %s, for which no asker waits: %s (declared in `answers` as %s)%s",
        cell.name(),
        message_type,
        in_words(cause),
        declared,
        f" ({unlogged} refusals before this one were not logged)" if unlogged else "",
        extra={
            **cell.loop.host.log_fields(cell),
            "message_type": message_type,
            "cause": cause,
            "declared": declared,
            "not_logged": unlogged,
        },
    )
