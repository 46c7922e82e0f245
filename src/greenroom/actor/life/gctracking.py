"""Hides living actors from the garbage collector, when there are many. Only when compiled.

A hundred thousand actors took the collector as long as everything else that they did (`make bench`, P18F): each was
seven objects to traverse, again and again, though none of them could be garbage, because their system has them. The
price: a system that is dropped with more actors than are tracked, and never stopped, is not collected.

At its end, all of an actor is tracked again: what is left of it may be part of a reference cycle, through the traceback
of what it failed with, say.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from greenroom._core.build import COMPILED
from greenroom.actor.records.record import ActorRecord

if TYPE_CHECKING:
    from greenroom.actor.life.spec import ActorSpec

__all__ = ["TRACKED", "track_actor", "track_instance", "untrack_actor", "untrack_instance"]

TRACKED = 1000
"""How many actors of a loop the garbage collector tracks."""


def untrack_actor(record: ActorRecord, spec: ActorSpec) -> None:
    """Hide an actor that has just been spawned from the garbage collector."""
    untrack(record)
    untrack(record.cell)
    untrack(record.cell.ref)
    if spec.args:
        untrack(spec)
        untrack(spec.args)


def untrack_instance(record: ActorRecord, actor: object) -> None:
    """Hide the user's instance, which has just been made, if its actor is hidden."""
    if not is_tracked(record) and is_tracked(actor):
        untrack(actor)


def track_actor(record: ActorRecord, spec: ActorSpec) -> None:
    """Have all of an actor tracked again: it ends."""
    track(record)
    _track(record.cell)
    _track(record.cell.ref)
    if record.child_list is not None:
        _track(record.child_list)
    track_instance(record)
    if spec.args:
        _track(spec)
        _track(spec.args)


def track_instance(record: ActorRecord) -> None:
    """Have the user's instance tracked again: its actor lets go of it, and somebody else may still have it."""
    if record.extras is not None:
        for behavior in record.extras.behaviors:
            _track(behavior.subject)
    _track(record.cell.subject)


def _track(thing: object) -> None:
    if COMPILED and can_be_tracked(thing) and not is_tracked(thing):
        track(thing)
