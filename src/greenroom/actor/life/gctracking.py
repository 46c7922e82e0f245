"""Hides living actors from the garbage collector, when there are many. Only when compiled.

A hundred thousand actors took the collector as long as everything else that they did (`make bench`, P18F): each was
six objects to traverse, again and again, though none of them could be garbage, because their system has them. The
price: a system that is dropped with more actors than are tracked, and never stopped, is not collected.

At its end, what others may still have of an actor is tracked again: it may be part of a reference cycle, through the
traceback of what it failed with, say. Only the ref and the cell of one that ended well, which lead to its parent and to
the system and nowhere else, are set aside until the system ends, or a parent ends otherwise: as senders of messages
that waited, they took the collector a fifth of P18F.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from greenroom._core.build import COMPILED
from greenroom.actor.records.record import ActorRecord
from greenroom.exits import KILLED, NORMAL, SHUTDOWN

if TYPE_CHECKING:
    from greenroom._core.mailbox.cell import Cell
    from greenroom.actor.messaging.address import Address
    from greenroom.exits import ExitReason

__all__ = [
    "TRACKED",
    "leads_only_up",
    "leave_remains",
    "track_actor",
    "track_instance",
    "track_what_leads_to",
    "untrack_actor",
    "untrack_instance",
]

TRACKED = 1000
"""How many actors of a loop the garbage collector tracks."""


def untrack_actor(record: ActorRecord) -> None:
    """Hide an actor that has just been spawned from the garbage collector."""
    untrack(record)
    untrack(record.cell)
    untrack(record.cell.ref)
    if record.args:
        untrack(record.args)


def untrack_instance(record: ActorRecord, actor: object) -> None:
    """Hide the user's instance, which has just been made, if its actor is hidden."""
    if not is_tracked(record) and is_tracked(actor):
        untrack(actor)


def leads_only_up(cell: Cell, record: ActorRecord, reason: ExitReason) -> bool:
    """Whether nothing but the system, and its parent, can be reached from what will be left of an actor."""
    return (
        (reason is NORMAL or reason is SHUTDOWN or reason is KILLED)
        and (record.extras is None or (record.extras.history is None and not record.extras.behaviors))
        and cell.task is None
        and cell.priority is None
        and not cell.loop.closed
    )


def leave_remains(record: ActorRecord, cell: Cell, ref: Address) -> None:
    """Set aside what is left of a hidden actor, and have all else tracked again that outlives it."""
    set_thing_aside(cell.runq, ref)
    set_thing_aside(cell.runq, cell)
    if is_tracked(cell.record):
        set_thing_aside(cell.runq, cell.record)
    if not is_last(record):
        _track_record(record)
    elif record.args and not has_last_args(record):
        _track(record.args)


def track_what_leads_to(record: ActorRecord) -> None:
    """Have the collector walk over all that stands aside if this actor's children may be there: from them, one comes to
    what is left of it, and that leads to more than the system.
    """
    if COMPILED and record.child_list is not None:
        track_all_aside(record.cell.runq)


def track_actor(record: ActorRecord) -> None:
    """Have all of an actor tracked again: it ends."""
    _track_record(record)
    _track(record.cell)
    _track(record.cell.ref)
    track_instance(record)


def track_instance(record: ActorRecord) -> None:
    """Have the user's instance tracked again: its actor lets go of it, and somebody else may still have it.

    A function has the actor's record in that place, which stays what it is.
    """
    if record.extras is not None:
        for behavior in record.extras.behaviors:
            if behavior.subject is not record:
                _track(behavior.subject)
    if COMPILED and record.cell.subject is not record and not is_subject_last(record.cell):
        _track(record.cell.subject)


def _track_record(record: ActorRecord) -> None:
    _track(record)
    if record.args:
        _track(record.args)
    if record.child_list is not None:
        _track(record.child_list)


def _track(thing: object) -> None:
    if COMPILED and can_be_tracked(thing) and not is_tracked(thing):
        track(thing)
