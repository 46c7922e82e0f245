"""Handing notices about other actors to the actor whose turn it is: `Terminated`, `Down` and `Exit`."""

from __future__ import annotations

from greenroom._core.behavior import BehaviorBase
from greenroom.actor.api.actor import Actor
from greenroom.actor.life.hooks import Procedure, actor_of, begin, call_hook, hand_to_actor
from greenroom.actor.life.spec import class_info_of
from greenroom.actor.messaging.signals import Down, Exit, Terminated
from greenroom.actor.records.record import ActorRecord
from greenroom.actor.relations.links import links_of
from greenroom.actor.relations.monitors import monitors_of
from greenroom.errors import DeathPact, LinkBroken

__all__ = ["deliver_down", "deliver_exit", "deliver_terminated"]


def deliver_terminated(record: ActorRecord, notice: Terminated) -> object:
    """A watched actor has ended: tell this one, unless it has ceased to watch."""
    target = notice.ref._cell
    watching = record.ensure_extras().watching
    watch = watching.get(target)
    if watch is None or watch.notice is not notice:
        return None
    del watching[target]
    if watch.message is not None:
        record.cell.loop.visits.show(watch.message)
        return hand_to_actor(record, watch.message)
    return begin(_call_on_terminated(record, notice))


def _call_on_terminated(record: ActorRecord, notice: Terminated) -> Procedure:
    result = yield from call_hook(record, "on_terminated", notice, notice.ref, notice.cause)
    if not _is_handled(record, result):
        raise DeathPact(record.cell.ref, notice.ref, notice.reason) from notice.cause
    return result


def _is_handled(record: ActorRecord, result: object) -> bool:
    """Whether the actor has an `on_terminated`, or its `on_signal` said what comes next."""
    actor = actor_of(record)
    if isinstance(actor, Actor) and "on_terminated" in class_info_of(type(actor)).hooks:
        return True
    return isinstance(result, BehaviorBase) and not result.unhandled


def deliver_down(record: ActorRecord, notice: Down) -> object:
    """A monitored actor has ended: tell this one, unless it has ended the monitor."""
    monitors = monitors_of(record).own
    if monitors.get(notice.mref) is not notice:
        return None
    del monitors[notice.mref]
    return hand_to_actor(record, notice)


def deliver_exit(record: ActorRecord, notice: Exit) -> object:
    """A linked actor has ended: tell this one, or let it fail too."""
    links = links_of(record)
    target = notice.ref._cell
    if links.peers.get(target) is not notice:
        return None
    del links.peers[target]
    if links.traps_exits:
        return hand_to_actor(record, notice)
    if not notice.reason.abnormal:
        return None
    cause = notice.reason.cause
    if cause is None:
        cause = LinkBroken(record.cell.ref, notice.ref, notice.reason)
    # Not raised: each time it is, an exception's traceback grows, and this one may pass many actors.
    record.cell.loop.host.failed(record.cell, notice, cause)
    return None
