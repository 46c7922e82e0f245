"""Refusals: exceptions that an actor declares as answers, and raises to refuse a request. They are no failures.

The asker gets the exception, as with any other, and the actor goes on as if it had replied. A refusal that no asker
hears would be lost, so it is logged: as with failures, one by one until there are too many in a period.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from greenroom.actor.api.actor import Actor
from greenroom.actor.life.hooks import actor_of, executor_of
from greenroom.actor.life.spec import class_info_of
from greenroom.actor.messaging.question import Question
from greenroom.actor.records.record import ActorRecord
from greenroom.errors import (
    HandlerAbandoned,
    InternalError,
    NotAnActor,
    NotAwaited,
    NoThread,
    SimulationRefused,
    TroupeEnding,
    WorkerLost,
)
from greenroom.errors.base import in_words
from greenroom.runtimelog import LogLimit, RuntimeLog

if TYPE_CHECKING:
    from greenroom._core.mailbox.cell import Cell

__all__ = ["declared_as", "is_heard", "is_refusal", "report_refusal"]

_log = RuntimeLog()

_NEVER_ANSWERS = (HandlerAbandoned, InternalError, NotAnActor, NoThread, NotAwaited, SimulationRefused, WorkerLost)
"""What the runtime raises about a handler, and no handler about a message: however wide the declared types are."""


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
    """Log a refusal that no asker hears."""
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
