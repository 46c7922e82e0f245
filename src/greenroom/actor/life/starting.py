"""How an actor starts, for the first time or again. `machine` has the order of these steps.

1  the factory makes the actor
2  `pre_start`; if it is told to stop meanwhile, the start ends here
3  `restore(state)` and `post_restart`, if there was an incarnation before
4  `post_start`
5  RUNNING: those who wait for that are told, and what has waited in its mailbox is handled

Whatever raises here fails the start.
"""

from __future__ import annotations

from functools import partial
from inspect import isawaitable
from typing import TYPE_CHECKING

from greenroom._core.flags import NOTIFY_TAKEN
from greenroom.actor.api.actor import Actor
from greenroom.actor.api.behavior import CurrentBehavior, close_unawaited, install_behavior, resolve_behavior
from greenroom.actor.life.hooks import HANDLE, SIGNAL, actor_of, call, call_hook, do, executor_of, method_of
from greenroom.actor.life.spec import BEHAVIOR, HANDLER, class_info_of
from greenroom.actor.messaging.signals import PostRestart, PostStart, PreStart
from greenroom.actor.records.restartstate import restart_state_of
from greenroom.errors import NotAnActor
from greenroom.exits import SHUTDOWN

if TYPE_CHECKING:
    from greenroom._core.mailbox.cell import Cell
    from greenroom.actor.life.hooks import Procedure
    from greenroom.actor.lifecycle import Lifecycle
    from greenroom.actor.records.record import ActorRecord, Extras
    from greenroom.policy.specs import Supervision

HALT = object()
"""What an action returns if the actions after it in its row are not to be done."""
PRE_START = PreStart()
POST_START = PostStart()


def make(life: Lifecycle, cell: Cell, record: ActorRecord) -> Procedure:
    """Step 1, where it takes more than a call here: `Lifecycle._start` has the plain case."""
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


def _stand_in(record: ActorRecord, actor_class: type[Actor] | None, supervision: Supervision | None) -> None:
    """Install an empty instance for an actor made in another process, so that its hooks are known."""
    if supervision is not None:
        record.ensure_extras().settings_of_behavior = record.settings().supervised_by(supervision)
    if actor_class is None:
        install_behavior(record, CurrentBehavior(HANDLE, record, SIGNAL))
    else:
        record.cell.put_code(HANDLE, Actor.__new__(_harmless(actor_class)))


def _harmless(actor_class: type[Actor]) -> type[Actor]:
    """The class without its finalizer, which would find none of its attributes."""
    if not hasattr(actor_class, "__del__"):
        return actor_class
    return type(actor_class.__name__, (actor_class,), {"__del__": lambda self: None})


def install_actor(record: ActorRecord, actor: object) -> None:
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


def pre_start(life: Lifecycle, cell: Cell, record: ActorRecord) -> object:
    """Step 2."""
    # An order that waits already acts when the start is over: it starts, and stops.
    was_told = cell.orders is not None and life.is_told_to_stop(cell)
    rest = life.call_hook(cell, record, "pre_start", PRE_START)
    if rest is not None:
        return rest_of_pre_start(life, cell, rest, was_told)
    return after_pre_start(life, cell, was_told)


def rest_of_pre_start(life: Lifecycle, cell: Cell, rest: Procedure, was_told: bool) -> Procedure:
    yield from rest
    return after_pre_start(life, cell, was_told)


def after_pre_start(life: Lifecycle, cell: Cell, was_told: bool) -> object:
    if life.closed:
        life.request_end(cell, SHUTDOWN)  # the system is stopping, and has yet to come to this one
        return HALT
    if cell.orders is not None and not was_told and life.is_told_to_stop(cell):
        return HALT  # the order that waits takes it from STARTING to STOPPING
    return None


def take_up(life: Lifecycle, cell: Cell, record: ActorRecord) -> Procedure:
    """Step 3."""
    restart_state = restart_state_of(record)
    state, restart_state.kept = restart_state.kept, None
    if state is not None:
        yield from do(record, method_of(record, actor_of(record), "restore"), state)
        restart_state.kept = state  # it was not this that failed, if its start does
    yield from call_hook(record, "post_restart", PostRestart())


def post_start(life: Lifecycle, cell: Cell, record: ActorRecord) -> object:
    """Step 4."""
    return life.call_hook(cell, record, "post_start", POST_START)


def run(life: Lifecycle, cell: Cell, record: ActorRecord) -> None:
    """Step 5."""
    extras = record.extras
    restart_state = None if extras is None else extras.restart_state
    if life.loop.hooks.actor_started and (restart_state is None or restart_state.incarnation == 1):
        life.loop.hooks.emit("actor_started", cell.ref)
    if extras is None:
        return
    extras.never_ran = False
    if extras.waiters:
        tell_started(extras, None)
    if restart_state is None:
        return
    restart_state.running_since = cell.loop.now()
    if extras.receive_timer is not None and not cell.flags & NOTIFY_TAKEN:
        extras.receive_timer.begin()  # an earlier incarnation set it
    # The failure's traceback holds on to the old instance.
    restart_state.kept = restart_state.failure = None
    if restart_state.incarnation > 1:
        cause, restart_state.cause = restart_state.cause, None
        if not restart_state.released_by_supervisor:
            cell.release()
        if life.loop.hooks.actor_restarted:
            life.loop.hooks.emit("actor_restarted", cell.ref, cause)
    if restart_state.supervisor is not None:
        restart_state.supervisor.running(cell)
    if restart_state.sibling is not None:
        restart_state.sibling.running()


def tell_started(extras: Extras, cause: BaseException | None) -> None:
    """Tell those who wait for the start; those who wait for the end wait on."""
    for waiter in list(extras.waiters):
        if waiter.for_start:
            extras.waiters.remove(waiter)
            waiter.end(None, cause)
