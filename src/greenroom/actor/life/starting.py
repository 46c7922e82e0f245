"""How an actor begins."""

from __future__ import annotations

from functools import partial
from inspect import isawaitable
from typing import TYPE_CHECKING

from greenroom._core.mailbox.cell import Cell
from greenroom.actor.api.actor import Actor
from greenroom.actor.api.becoming import CurrentBehavior, close_unawaited, install_behavior, resolve_behavior
from greenroom.actor.life.hooks import HANDLE, SIGNAL, Procedure, actor_of, call, call_hook, do, executor_of, method_of
from greenroom.actor.life.spec import BEHAVIOR, HANDLER, class_info_of
from greenroom.actor.messaging.signals import PostRestart, PostStart, PreStart
from greenroom.actor.records.record import ActorRecord, Extras
from greenroom.actor.records.restartstate import restart_state_of
from greenroom.errors import NotAnActor
from greenroom.exits import SHUTDOWN

if TYPE_CHECKING:
    from greenroom.actor.records.ports import ActorHost
    from greenroom.actor.records.restartstate import RestartState
    from greenroom.policy.specs import Supervision

__all__ = ["after_post_start", "after_pre_start", "install_actor", "start", "tell_started"]


def start(life: ActorHost, cell: Cell, record: ActorRecord) -> Procedure:
    """Make the actor, and run its hooks until it is ready for its first message."""
    spec = record.spec
    executor = executor_of(record)
    if executor is not None and executor.is_remote:
        _stand_in(record, *(yield executor.enter(cell, record)))
    elif spec.kind == HANDLER:
        install_behavior(record, CurrentBehavior(spec.factory, record, None))
    elif spec.kind == BEHAVIOR:
        install_behavior(record, (yield from call(record, resolve_behavior, record, spec.factory)))
    else:
        install_actor(record, (yield from call(record, partial(spec.factory, *record.args, **spec.kwargs))))
        if not record.args and spec.class_info is not None and spec is spec.class_info.spec:
            spec.class_info.proven = True
    was_told = cell.orders is not None and life.is_told_to_stop(cell)
    yield from after_pre_start(life, cell, record, was_told, call_hook(record, "pre_start", PreStart()))


def after_pre_start(
    life: ActorHost, cell: Cell, record: ActorRecord, was_told: bool, pre_start: Procedure
) -> Procedure:
    """Go on from `pre_start`; `was_told` says whether it had been told to end before that."""
    yield from pre_start
    if life.closed:
        life.request_end(cell, SHUTDOWN)  # the system is stopping, and has yet to come to this one
        return
    if cell.orders is not None and not was_told and life.is_told_to_stop(cell):
        return  # told meanwhile: the order that waits takes it from STARTING to STOPPING
    if record.extras is not None and record.extras.has_run():
        yield from _take_up(record, restart_state_of(record))
    yield from after_post_start(life, cell, record, call_hook(record, "post_start", PostStart()))


def after_post_start(life: ActorHost, cell: Cell, record: ActorRecord, post_start: Procedure) -> Procedure:
    """Go on from `post_start`."""
    yield from post_start
    life.begin_to_run(cell, record)


def _stand_in(record: ActorRecord, actor_class: type[Actor] | None, supervision: Supervision | None) -> None:
    """The actor has been made in another process: let something here stand for it, so that its hooks are known."""
    if supervision is not None:
        record.ensure_extras().settings_of_behavior = record.settings().supervised_by(supervision)
    if actor_class is None:
        install_behavior(record, CurrentBehavior(HANDLE, record, SIGNAL))
    else:
        record.cell.put_code(HANDLE, Actor.__new__(_harmless(actor_class)))


def _harmless(actor_class: type[Actor]) -> type[Actor]:
    """A class whose instances can stand for an actor's: a finalizer would find nothing of what it is for."""
    if not hasattr(actor_class, "__del__"):
        return actor_class
    return type(actor_class.__name__, (actor_class,), {"__del__": lambda self: None})


def _take_up(record: ActorRecord, restart_state: RestartState) -> Procedure:
    """Give a fresh instance what the last one wanted it to have."""
    state, restart_state.kept = restart_state.kept, None
    if state is not None:
        yield from do(record, method_of(record, actor_of(record), "restore"), state)
        restart_state.kept = state  # it was not this that failed, if its start does
    yield from call_hook(record, "post_restart", PostRestart())


def install_actor(record: ActorRecord, actor: object) -> None:
    """Let `actor` handle the messages."""
    if isawaitable(actor):
        close_unawaited(actor)
        raise NotAnActor(
            f"{record.spec.label[0]}(...) is async: an actor is made at once; what takes time goes into `pre_start`"
        )
    if not isinstance(actor, Actor):
        raise NotAnActor(
            f"{record.spec.label[0]}(...) made {actor!r}, which is no Actor: it must return an instance of a subclass"
        )
    actor.ctx = record  # type: ignore[assignment]
    record.cell.put_code(class_info_of(type(actor)).handler, actor)


def tell_started(extras: Extras, cause: BaseException | None) -> None:
    """Those who wait for it to start can go on; those who wait for its end wait on."""
    for waiter in list(extras.waiters):
        if waiter.for_start:
            extras.waiters.remove(waiter)
            waiter.end(None, cause)
