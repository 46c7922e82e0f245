"""How an actor is made afresh, in place (M6).

1  `pre_restart(cause)`, and `snapshot()`: of an instance that was running
2  its children are stopped
3  `post_stop` of the old instance; its timers, monitors, pipes and behaviors end, and the replies it owes fail
4  it rests: messages wait in its mailbox, orders still act
5  when the restart is due: a fresh instance from the factory, with the same arguments
6  `pre_start`, `restore(state)`, `post_restart`, `post_start`
7  RUNNING: what has waited is handled

Steps 1 to 3 happen at once, however long the backoff is: nobody holds a socket while waiting to be born again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from greenroom._core.mailbox.cell import Cell
from greenroom._core.timing.timers import Alarm
from greenroom.actor.api.actor import Actor
from greenroom.actor.life import ending, starting
from greenroom.actor.life.gctracking import track_instance
from greenroom.actor.life.hooks import Procedure, actor_of, attempt_hook, begin, do, method_of
from greenroom.actor.life.spec import class_info_of
from greenroom.actor.messaging.drain import Drain, clear, drain_all
from greenroom.actor.messaging.signals import PreRestart
from greenroom.actor.messaging.timers import set_alarm
from greenroom.actor.records.record import ActorRecord, Extras
from greenroom.actor.records.restartstate import RestartGroup, RestartState, restart_state_of
from greenroom.actor.records.states import State
from greenroom.errors.base import in_words
from greenroom.exits import KILLED, SHUTDOWN, ExitReason, ends_system
from greenroom.policy.directives import OnRestart
from greenroom.runtimelog import RuntimeLog

if TYPE_CHECKING:
    from greenroom.actor.records.ports import ActorHost

__all__ = [
    "RestartOrder",
    "forget",
    "forget_alarm",
    "has_begun",
    "rest",
    "start_again",
    "start_when_due",
    "waits_to_return",
]

_log = RuntimeLog()

STARTING = State.STARTING.code
RUNNING = State.RUNNING.code
STOPPING = State.STOPPING.code
STOPPED = State.STOPPED.code
FAILED = State.FAILED.code
RESTARTING = State.RESTARTING.code

CLEARED = "cleared by a restart"


class RestartOrder:
    """The order to bring the present incarnation to its end, and rest: steps 1 to 4."""

    __slots__ = ("at_once", "cause", "failed", "group", "killed")

    def __init__(
        self,
        cause: BaseException | None,
        group: RestartGroup | None = None,
        at_once: bool = False,
        killed: bool = False,
        failed: bool = False,
    ) -> None:
        self.cause = cause
        # Those it is restarted with, if it is.
        self.group = group
        # Whether somebody wants it back without any delay: no restart in the sense of a limit.
        self.at_once = at_once
        # Without `pre_restart`, and its children are killed.
        self.killed = killed
        # Because it has failed: that means nothing to its next incarnation.
        self.failed = failed

    def __call__(self, cell: Cell) -> object:
        record = cell.record
        if not isinstance(record, ActorRecord):
            return None
        return begin(leave(cell.loop.host, cell, record, self), record)

    def is_stale(self, record: ActorRecord, restart_state: RestartState) -> bool:
        """Whether it comes from a group that no longer waits for this actor."""
        if self.group is None or self.failed:
            return False
        return restart_state.group is not self.group or self.group.has_up(record)


class RestartAlarm(Alarm):
    """Rings when a restart is due."""

    __slots__ = ("_cell",)

    def __init__(self, cell: Cell, deadline: float) -> None:
        self._cell = cell
        set_alarm(cell.loop, self, deadline)

    def ring(self, admission: object) -> None:
        """The backoff is over."""
        record = self._cell.record
        if isinstance(record, ActorRecord):
            restart_state_of(record).alarm = None
            self._cell.order(start_alone)


def leave(life: ActorHost, cell: Cell, record: ActorRecord, order: RestartOrder) -> Procedure:
    """Steps 1 to 3, as far as they go without waiting for children."""
    extras = record.ensure_extras()
    restart_state = restart_state_of(record)
    if order.is_stale(record, restart_state):
        return  # it has left and come back since, or another group has taken it in
    if record.phase != ending.NONE or record.state == STOPPING:
        restart_state.at_once = restart_state.at_once and order.at_once
        return  # it ends, or is being restarted already
    if extras.ending is not None and not restart_state.comes_back:
        return  # its end is decided, and about to come
    if restart_state.resting:
        if order.at_once:
            _prepare(life, cell, record, restart_state)
            yield from starting.start(life, cell, record)
        elif restart_state.at_once and restart_state.supervisor is not None:
            # It was about to come back, because somebody asked; but it has failed, or its supervisor wants it to rest.
            restart_state.at_once = False
            restart_state.supervisor.rested(cell, restart_state.reason or SHUTDOWN)
        return
    failure = restart_state.failure  # of this instance, if it is one that failed, else of one before
    was_running = record.state == RUNNING or (record.state == FAILED and failure is not None and failure.was_running)
    record.phase = ending.LEAVING
    restart_state.comes_back = True
    restart_state.cause = order.cause
    restart_state.at_once = order.at_once
    cell.hold()
    if record.state == STARTING:
        life.enter(record, FAILED)
    life.enter(record, RESTARTING)
    if was_running and not order.killed:
        yield from attempt_hook(record, "pre_restart", PreRestart(order.cause), order.cause)
        restart_state.kept = yield from _snapshot(record)
    record.phase = ending.WAITING
    if record.child_list is not None and record.child_list.count > 0:
        life.set_deadline(cell, record)
        ending.end_children(life, record, KILLED if order.killed else SHUTDOWN)
    else:
        yield from ending.close(life, cell, record)


def _snapshot(record: ActorRecord) -> Procedure:
    """What the old instance wants its successor to have; None if it has nothing to say, or cannot."""
    actor = actor_of(record)
    if not isinstance(actor, Actor) or not class_info_of(type(actor)).keeps_state:
        return None
    try:
        return (yield from do(record, method_of(record, actor, "snapshot")))
    except BaseException as exc:
        if isinstance(exc, GeneratorExit) and record.ensure_extras().abandoned:
            raise
        fields = record.cell.loop.host.log_fields(record.cell)
        _log.exception("snapshot() of %s raised; it is restarted without", record.cell.name(), extra=fields)
        if record.cell.loop.director is not None:
            record.cell.loop.director.hook_raised(record.cell, "snapshot", exc)
        if ends_system(exc):
            record.cell.loop.host.port.fail(exc)
        return None


def waits_to_return(record: ActorRecord) -> bool:
    """Whether the actor rests, between two incarnations."""
    return record.extras is not None and record.extras.restart_state is not None and record.extras.restart_state.resting


def rest(life: ActorHost, cell: Cell, record: ActorRecord, reason: ExitReason) -> None:
    """Step 4. Whoever decides about the restart is told."""
    if cell.record is not record:
        return  # it has been forced to end meanwhile
    extras = record.ensure_extras()
    restart_state = restart_state_of(record)
    life.clear_deadline(record)
    _let_go_of_instance(life, cell, record, extras, restart_state)
    _break_off_replies(extras, restart_state.cause if reason.cause is None else reason.cause)
    _keep_or_clear(cell, record, extras, restart_state)
    extras.settings_of_behavior = None
    if record.state == STOPPING:
        life.enter(record, STOPPED)
    elif record.state == STARTING:
        life.enter(record, FAILED)
    if record.state != RESTARTING:
        life.enter(record, RESTARTING)
    cell.hold()
    record.phase = ending.NONE
    extras.ending = None
    extras.abandoned = False
    restart_state.comes_back = False
    restart_state.resting = True
    restart_state.reason = reason
    life.resting[cell] = None
    if restart_state.at_once and _is_free(record, restart_state):
        cell.order(start_at_once)
    elif restart_state.group is not None:
        restart_state.group.rested(record)
    elif restart_state.supervisor is not None:
        restart_state.supervisor.rested(cell, reason)
    else:
        start_when_due(cell, restart_state)


def _let_go_of_instance(
    life: ActorHost, cell: Cell, record: ActorRecord, extras: Extras, restart_state: RestartState
) -> None:
    life.loop.cancel_timers(cell)
    extras.forced = False
    if extras.receive_timer is not None:
        extras.receive_timer.stop()
        restart_state.receive_timer = extras.receive_timer
    pipes, extras.pipes = extras.pipes, {}
    for task in pipes:
        task.cancel()
    ending.unwatch_fds(extras)
    track_instance(record)
    extras.behaviors.clear()
    extras.on_signal = extras.keyed = None
    extras.answers = ()
    if extras.monitors is not None:  # each call made one, and the next instance will make its own
        extras.monitors.end_all(record)
    if extras.links is not None:
        extras.links.traps_exits = False
    cell.let_code_go()


def _break_off_replies(extras: Extras, cause: BaseException | None) -> None:
    """Replies that the old instance has deferred, and that even its last hook did not give, do not come any more."""
    deferred, extras.deferred = extras.deferred, {}
    why = "" if cause is None else f", because of {in_words(cause)}"
    for question in list(deferred):
        question.break_off(cause, f"it was restarted{why}, before it gave the reply that it had deferred")


def _keep_or_clear(cell: Cell, record: ActorRecord, extras: Extras, restart_state: RestartState) -> None:
    policy = restart_state.mailbox
    if policy is None:
        policy = OnRestart.KEEP if restart_state.supervisor is not None else record.settings().supervision.mailbox
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


def start_when_due(cell: Cell, restart_state: RestartState) -> None:
    """Step 5, now or when the backoff is over."""
    if restart_state.due is None or restart_state.due <= cell.loop.now():
        cell.order(start_alone)
        return
    restart_state.alarm = RestartAlarm(cell, restart_state.due)


def forget_alarm(cell: Cell, restart_state: RestartState) -> None:
    """The restart that was waited for does not come, or comes at once."""
    if restart_state.alarm is not None:
        restart_state.alarm.disarm(cell.loop.timers)
        restart_state.alarm = None
    restart_state.due = None


def forget(cell: Cell, record: ActorRecord, restart_state: RestartState) -> None:
    """The actor has ended for good: nobody waits for it, or with it."""
    forget_alarm(cell, restart_state)
    cell.loop.host.resting.pop(cell, None)
    restart_state.resting = restart_state.comes_back = False
    restart_state.kept = restart_state.receive_timer = restart_state.cause = restart_state.failure = None
    if restart_state.group is not None:
        restart_state.group.lose(record)


def start_alone(cell: Cell) -> object:
    """Steps 5 to 7, unless it is to be started with others by now: an order."""
    record = cell.record
    if isinstance(record, ActorRecord) and restart_state_of(record).group is None:
        return start_again(cell)
    return None


def start_at_once(cell: Cell) -> object:
    """Steps 5 to 7, unless others have a say in that by now: an order."""
    record = cell.record
    if (
        isinstance(record, ActorRecord)
        and restart_state_of(record).at_once
        and _is_free(record, restart_state_of(record))
    ):
        return start_again(cell)
    return None


def _is_free(record: ActorRecord, restart_state: RestartState) -> bool:
    """Whether nobody waits for it to rest with them."""
    return restart_state.group is None or restart_state.group.has_up(record)


def start_again(cell: Cell) -> object:
    """Steps 5 to 7: an order."""
    record = cell.record
    life = cell.loop.host
    if not isinstance(record, ActorRecord) or not waits_to_return(record) or life.closed:
        return None
    if life.is_told_to_stop(cell) and restart_state_of(record).supervisor is None:
        return None  # under a supervisor that may mean nothing to one that rests
    _prepare(life, cell, record, restart_state_of(record))
    return begin(starting.start(life, cell, record))


def _prepare(life: ActorHost, cell: Cell, record: ActorRecord, restart_state: RestartState) -> None:
    forget_alarm(cell, restart_state)
    life.resting.pop(cell, None)
    cell.withdraw(tuple(order for order in cell.waiting_orders() if isinstance(order, RestartOrder) and order.failed))
    restart_state.resting = False
    restart_state.reason = None
    restart_state.escalated = False
    restart_state.incarnation += 1
    restart_state.last_restart = cell.loop.now()
    if not restart_state.at_once:
        restart_state.restarts += 1
    restart_state.at_once = False
    life.enter(record, STARTING)


def has_begun(life: ActorHost, cell: Cell, record: ActorRecord, restart_state: RestartState) -> None:
    """Step 7, and the first start of an actor that has a restart state already."""
    extras = record.ensure_extras()
    restart_state.running_since = cell.loop.now()
    if extras.receive_timer is not None and extras.receive_timer is restart_state.receive_timer:
        extras.receive_timer.begin()
    # Its traceback holds on to the old instance.
    restart_state.receive_timer = restart_state.kept = restart_state.failure = None
    if restart_state.incarnation > 1:
        cause, restart_state.cause = restart_state.cause, None
        if not restart_state.is_held_back:
            cell.release()
        if life.loop.hooks.actor_restarted:
            life.loop.hooks.emit("actor_restarted", cell.ref, cause)
    if restart_state.supervisor is not None:
        restart_state.supervisor.running(cell)
    if restart_state.group is not None:
        restart_state.group.is_up(record)
