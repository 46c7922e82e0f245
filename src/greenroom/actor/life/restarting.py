"""How an actor is made afresh, in place (M6). `machine` has the order of these steps.

1  `pre_restart(cause)`, and `snapshot()`: of an instance that was running
2  its children are stopped
3  `post_stop` of the old instance; its timers, monitors, pipes and behaviors end, and the replies it owes fail
4  it rests: messages wait in its mailbox, orders still act
5  when the restart is due, a new incarnation is counted, and starts: `starting` says how

Steps 1 to 3 happen at once, however long the backoff is: no actor holds a socket while it waits to be made again.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from greenroom.actor.api.actor import Actor
from greenroom.actor.life.hooks import actor_of, attempt, call_hook, do, hook_raised, method_of
from greenroom.actor.life.machine import Event
from greenroom.actor.life.spec import class_info_of
from greenroom.actor.life.stopping import end_belongings
from greenroom.actor.messaging.drain import Drain, clear, drain_all
from greenroom.actor.messaging.signals import PreRestart
from greenroom.actor.records.record import ActorRecord, track_instance
from greenroom.actor.records.restartstate import RestartState, restart_state_of
from greenroom.actor.records.states import GOES_DOWN, Stage
from greenroom.errortext import in_words
from greenroom.exits import SHUTDOWN
from greenroom.policy.directives import OnRestart
from greenroom.runtimelog import RuntimeLog

if TYPE_CHECKING:
    from greenroom._core.mailbox.cell import Cell
    from greenroom.actor.failure.siblings import Sibling
    from greenroom.actor.life.hooks import Procedure
    from greenroom.actor.lifecycle import Lifecycle
    from greenroom.actor.records.record import Extras

_log = RuntimeLog()

RESTING = int(Stage.RESTING)
WILL_RESTART = int(Stage.WILL_RESTART)

CLEARED = "cleared by a restart"


class RestartOrder:
    """The order to end the present incarnation, and rest: steps 1 to 4."""

    __slots__ = ("at_once", "cause", "failed", "killed", "sibling")

    def __init__(
        self,
        cause: BaseException | None,
        sibling: Sibling | None = None,
        at_once: bool = False,
        killed: bool = False,
        failed: bool = False,
    ) -> None:
        self.cause = cause
        # What it is among those that it is to leave with, if it is.
        self.sibling = sibling
        # Whether a user wants it back without delay: this does not count toward a limit.
        self.at_once = at_once
        # Without `pre_restart`, and its children are killed.
        self.killed = killed
        # Because it has failed: that means nothing to its next incarnation.
        self.failed = failed

    def __call__(self, cell: Cell) -> object:
        record = cell.record
        if not isinstance(record, ActorRecord):
            return None
        life: Lifecycle = cell.loop.host
        restart_state = restart_state_of(record)
        if self.sibling is not None and not (self.sibling is restart_state.sibling and self.sibling.leaves):
            return None  # it has left and come back since
        if GOES_DOWN[record.stage]:
            restart_state.at_once = restart_state.at_once and self.at_once
            return None  # it ends, or is being restarted already
        if record.reason is not None and record.stage != WILL_RESTART:
            return None  # its end is decided, and about to come
        if record.stage == RESTING:
            if self.at_once:
                return life.advance(cell, record, Event.START)
            if restart_state.at_once and restart_state.supervisor is not None:
                # It was about to come back, because a user asked; but its supervisor wants it to rest.
                restart_state.at_once = False
                restart_state.supervisor.rested(cell, restart_state.reason or SHUTDOWN)
            return None
        restart_state.cause = self.cause
        restart_state.at_once = self.at_once
        return life.advance(cell, record, Event.KILL_AND_RESTART if self.killed else Event.RESTART)


def hold(life: Lifecycle, cell: Cell, record: ActorRecord) -> None:
    cell.hold()


def release(life: Lifecycle, cell: Cell, record: ActorRecord) -> None:
    life.clear_deadline(record)
    cell.release()


def pre_restart(life: Lifecycle, cell: Cell, record: ActorRecord) -> Procedure:
    """Step 1."""
    restart_state = restart_state_of(record)
    if restart_state.failure is not None and not restart_state.failure.was_running:
        return  # its start failed
    hook = call_hook(record, "pre_restart", PreRestart(restart_state.cause), restart_state.cause)
    yield from attempt(record, "pre_restart", hook)
    restart_state.kept = yield from _snapshot(record)


def _snapshot(record: ActorRecord) -> Procedure:
    """What the old instance hands to the next; None if it has no `snapshot`, or that raises."""
    actor = actor_of(record)
    if not isinstance(actor, Actor) or not class_info_of(type(actor)).keeps_state:
        return None
    try:
        return (yield from do(record, method_of(record, actor, "snapshot")))
    except BaseException as exc:
        if isinstance(exc, GeneratorExit) and record.ensure_extras().abandoned:
            raise
        hook_raised(record, "snapshot", exc, "{}() of %s raised; it is restarted without")
        return None


def discard_instance(life: Lifecycle, cell: Cell, record: ActorRecord) -> None:
    """Step 3, after `post_stop`."""
    extras = record.ensure_extras()
    restart_state = restart_state_of(record)
    life.clear_deadline(record)
    life.loop.cancel_timers(cell)
    extras.forced = extras.abandoned = False
    track_instance(record)
    end_belongings(record, extras)
    if extras.relations is not None:
        extras.relations.traps_exits = False
    cell.forget_code()
    cause = restart_state.cause if record.reason is None or record.reason.cause is None else record.reason.cause
    why = "" if cause is None else f", because of {in_words(cause)}"
    deferred, extras.deferred = extras.deferred, {}
    for question in list(deferred):
        question.break_off(cause, f"it was restarted{why}, before it gave the reply that it had deferred")
    _keep_or_clear(cell, record, extras, restart_state)
    extras.settings_of_behavior = None


def _keep_or_clear(cell: Cell, record: ActorRecord, extras: Extras, restart_state: RestartState) -> None:
    if restart_state.supervisor is None:
        policy = record.settings().supervision.mailbox
    else:
        policy = restart_state.supervisor.on_restart
    stash, extras.stash = extras.stash, None
    if stash is not None and policy is OnRestart.KEEP:
        try:
            stash.unstash_all()
        except Exception:  # a user's priority key
            fields = cell.loop.host.log_fields(cell)
            _log.exception("the stash of %s cannot be queued again", cell.name(), extra=fields)
    if stash is not None:
        drain_all(cell, Drain.DEAD_LETTER, stash.give_up(), CLEARED)
    if policy is OnRestart.CLEAR:
        clear(cell, Drain.DEAD_LETTER, CLEARED)


def rest(life: Lifecycle, cell: Cell, record: ActorRecord) -> None:
    """Step 4: tell the supervisor or the siblings, or wait for the backoff."""
    restart_state = restart_state_of(record)
    restart_state.reason = SHUTDOWN if record.reason is None else record.reason
    record.reason = None
    cell.hold()
    life.resting[cell] = None
    if restart_state.at_once and _is_free(restart_state):
        cell.order(start_at_once)
    elif restart_state.sibling is not None:
        restart_state.sibling.rested(restart_state.reason)
    elif restart_state.supervisor is not None:
        restart_state.supervisor.rested(cell, restart_state.reason)
    else:
        start_when_due(cell, restart_state)


def start_when_due(cell: Cell, restart_state: RestartState) -> None:
    """Step 5, now or when the backoff is over."""
    if restart_state.due is None or restart_state.due <= cell.loop.now():
        cell.order(start_alone)
        return
    restart_state.alarm = cell.loop.call_at(restart_state.due, partial(_is_due, cell))


def _is_due(cell: Cell) -> None:
    record = cell.record
    if isinstance(record, ActorRecord):
        restart_state_of(record).alarm = None
        cell.order(start_alone)


def start_alone(cell: Cell) -> object:
    """An order: step 5, unless the actor is restarted with siblings by now."""
    record = cell.record
    if isinstance(record, ActorRecord) and restart_state_of(record).sibling is None:
        return start_again(cell)
    return None


def start_at_once(cell: Cell) -> object:
    """An order: step 5, unless a supervisor or siblings have a say in that by now."""
    record = cell.record
    if isinstance(record, ActorRecord) and restart_state_of(record).at_once and _is_free(restart_state_of(record)):
        return start_again(cell)
    return None


def _is_free(restart_state: RestartState) -> bool:
    """Whether no siblings wait for the actor to rest with them."""
    return restart_state.sibling is None or not restart_state.sibling.leaves


def start_again(cell: Cell) -> object:
    """An order: step 5."""
    record = cell.record
    life: Lifecycle = cell.loop.host
    if not isinstance(record, ActorRecord) or record.stage != RESTING or life.closed:
        return None
    if life.is_told_to_stop(cell) and restart_state_of(record).supervisor is None:
        return None  # under a supervisor that may mean nothing to one that rests
    return life.advance(cell, record, Event.START)


def renew(life: Lifecycle, cell: Cell, record: ActorRecord) -> None:
    """Step 5: count a new incarnation."""
    restart_state = restart_state_of(record)
    restart_state.forget_alarm()
    life.resting.pop(cell, None)
    # That it failed means nothing to its next incarnation.
    cell.withdraw(tuple(order for order in cell.waiting_orders() if isinstance(order, RestartOrder) and order.failed))
    restart_state.reason = None
    restart_state.incarnation += 1
    restart_state.last_restart = cell.loop.now()
    if not restart_state.at_once:
        restart_state.restarts += 1
    restart_state.at_once = False


def forget(cell: Cell, record: ActorRecord, restart_state: RestartState) -> None:
    """Cancel what is left of a restart, as the actor has ended for good."""
    restart_state.forget_alarm()
    cell.loop.host.resting.pop(cell, None)
    restart_state.kept = restart_state.cause = restart_state.failure = None
    if restart_state.sibling is not None:
        restart_state.sibling.gone()
