"""What the garbage collector follows of actors: nothing, while they live and are many. Only when compiled.

A hundred thousand actors took the collector as long as everything else that they did (`make bench`, P18F): each was
seven objects to walk over, again and again, though nothing of it could be garbage, because its system has it. The
price: a system that is dropped with more actors than are followed, and never stopped, is not collected.

At its end, all of an actor is followed again: what is left of it may be part of a circle, as through the traceback of
what it failed with.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from greenroom._core.build import COMPILED
from greenroom.actor.records.record import ActorRecord

if TYPE_CHECKING:
    from greenroom.actor.life.spec import ActorSpec

__all__ = ["FOLLOWED", "follow_again", "follow_instance", "leave_instance_unfollowed", "leave_unfollowed"]

FOLLOWED = 1000
"""How many actors of a loop are followed."""


def leave_unfollowed(record: ActorRecord, spec: ActorSpec) -> None:
    """An actor has been spawned, and there are many: leave it to its system."""
    untrack(record)
    untrack(record.cell)
    untrack(record.cell.ref)
    if spec.args:
        untrack(spec)
        untrack(spec.args)


def leave_instance_unfollowed(record: ActorRecord, actor: object) -> None:
    """The user's actor has been made: leave it, too, if the record is left."""
    if not is_tracked(record) and is_tracked(actor):
        untrack(actor)


def follow_again(record: ActorRecord, spec: ActorSpec) -> None:
    """It ends."""
    track(record)
    _follow(record.cell)
    _follow(record.cell.ref)
    if record.child_list is not None:
        _follow(record.child_list)
    follow_instance(record)
    if spec.args:
        _follow(spec)
        _follow(spec.args)


def follow_instance(record: ActorRecord) -> None:
    """The user's actor is let go of, at its end or for another: somebody else may have it still."""
    if record.extras is not None:
        for behavior in record.extras.behaviors:
            _follow(behavior.subject)
    _follow(record.cell.subject)


def _follow(thing: object) -> None:
    if COMPILED and can_be_tracked(thing) and not is_tracked(thing):
        track(thing)
