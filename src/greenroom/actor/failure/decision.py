"""The failure decision: what becomes of an actor that failed, by its `Supervision`. Others carry it out.

The decision is the runtime's own: no message passes, nobody is asked. A supervisor's child comes to rest
instead, and the supervisor decides when it is told.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from greenroom._core.mailbox.cell import Cell
from greenroom.actor.api.actor import Actor
from greenroom.actor.failure.askcycles import has_escalated
from greenroom.actor.failure.escalationcycles import release_decider
from greenroom.actor.failure.groups import join_group
from greenroom.actor.failure.reports import FailureSource, describe, report, when
from greenroom.actor.life import ending, starting
from greenroom.actor.life.hooks import actor_of, executor_of
from greenroom.actor.life.restarting import RestartOrder, waits_to_return
from greenroom.actor.life.spawnsite import note_spawn
from greenroom.actor.records.record import ActorRecord
from greenroom.actor.records.restartstate import RestartState, incarnation_of, restart_state_of
from greenroom.actor.records.states import State
from greenroom.errors import HandlerBroken, StartTimeout, WorkerLost
from greenroom.errors.base import add_note, counted, in_words
from greenroom.exits import ExitReason, ends_system
from greenroom.policy.backoff import next_delay
from greenroom.policy.directives import Directive, Scope
from greenroom.policy.intensity import Window, elapsed
from greenroom.policy.specs import Supervision

if TYPE_CHECKING:
    from greenroom.actor.messaging.ref import ActorRef
    from greenroom.actor.records.ports import ActorHost

__all__ = ["FailOrder", "decide_on_failure"]

STARTING = State.STARTING.code
RUNNING = State.RUNNING.code
FAILED = State.FAILED.code


class FailOrder(FailureSource):
    """The order to fail with `cause`; `child` is the one that escalated, if that is why."""

    __slots__ = ("cause", "child", "incarnation", "settled", "why")

    def __init__(
        self, cause: BaseException, child: ActorRef | None = None, incarnation: int = 0, why: str = "as it was told to"
    ) -> None:
        self.cause = cause
        self.child = child
        # In words, if it is no child.
        self.why = why
        # Which incarnation it was escalated to; and whether that one has acted on another child's failure since, and
        # the child goes on.
        self.incarnation = incarnation
        self.settled = False

    def __call__(self, cell: Cell) -> None:
        life = cell.loop.host
        child = self.child
        if child is not None:
            # One that is STARTING here was cancelled in its start to hear of this, so it has failed in any case.
            is_settled = self.settled or self.incarnation != incarnation_of(cell.record)
            if is_settled and cell.record.state != STARTING:
                return  # another child has escalated too
            if waits_to_return(cell.record):
                life.order_stop(child._cell)  # there is nobody above it who could be restarted
                return
        elif cell.loop.director is not None:
            cell.loop.director.fails(cell, self.cause)
        # Not raised: each time it is, an exception's traceback grows, and this one may pass many actors.
        life.failed(cell, self, self.cause)

    def is_reason_for(self, cause: BaseException) -> bool:
        """Whether a handler failed with `cause` because it waited for the child that escalated."""
        if self.child is None or not isinstance(cause, HandlerBroken):
            return False
        # What has come from another process is no longer the same exception.
        return cause.__cause__ is self.cause or cause.ref == self.child

    def is_told(self) -> bool:
        """Whether it is a child's."""
        return self.child is not None

    def __str__(self) -> str:
        if isinstance(self.cause, StartTimeout):
            return "while it started"
        if isinstance(self.cause, WorkerLost):
            return "while it was idle"
        return self.why if self.child is None else f"because {self.child} escalated"


def decide_on_failure(life: ActorHost, cell: Cell, record: ActorRecord, message: object, cause: BaseException) -> None:
    """An actor has failed: see to it that what should become of it does."""
    extras = record.ensure_extras()
    restart_state = restart_state_of(record)
    if restart_state.resting or restart_state.comes_back or restart_state.escalated:
        return  # it has failed already, and something is being done about it
    was_running = record.state != STARTING
    if isinstance(cause, AttributeError) and cause.name == "ctx" and not was_running:
        add_note(cause, "An actor has its `ctx` from `pre_start` on, not in `__init__`.")
    restart_state.is_misfit = not was_running and note_spawn(cell, record, cause)
    restart_state.failure = describe(cell, record, message, cause, was_running)
    restart_state.last_failure = in_words(cause)
    restart_state.reported = False
    if not was_running:
        extras.never_ran = restart_state.running_since is None and restart_state.incarnation == 1
        starting.tell_started(extras, cause)
    if record.state != FAILED:
        life.enter(record, FAILED)
    reason = ExitReason.of(cause)
    if extras.ending is not None or ends_system(cause) or _must_end(life, cell, record, reason):
        _stop(life, cell, record, reason, "it is ending anyway")
    elif restart_state.supervisor is not None:
        _leave_it_to_supervisor(life, cell, record, restart_state, reason)
    else:
        _decide(life, cell, record, restart_state, cause)


def _must_end(life: ActorHost, cell: Cell, record: ActorRecord, reason: ExitReason) -> bool:
    """Whether nothing but its end can come: it, its parent or the whole system is about to."""
    if life.closed or (life.is_told_to_stop(cell) and not _is_kept(record, reason)):
        return True
    parent = cell.ref._parent
    return parent is not None and parent._cell.record.phase != ending.NONE


def _is_kept(record: ActorRecord, reason: ExitReason) -> bool:
    """Whether its supervisor wants it back after such an end."""
    restart_state = restart_state_of(record)
    return (
        restart_state.supervisor is not None and not restart_state.final and restart_state.supervisor.wants(reason.kind)
    )


def _leave_it_to_supervisor(
    life: ActorHost, cell: Cell, record: ActorRecord, restart_state: RestartState, reason: ExitReason
) -> None:
    if not _is_kept(record, reason):
        _stop(life, cell, record, reason, "it is not to be restarted")
    else:
        record.ensure_extras().ending = reason
        restart_state.comes_back = True
        life.forget_stops(cell)
        cell.hold()
        cell.order(RestartOrder(reason.cause, failed=True))


def _decide(
    life: ActorHost, cell: Cell, record: ActorRecord, restart_state: RestartState, cause: BaseException
) -> None:
    supervision: Supervision = record.settings().supervision
    directive = _directive(life, cell, supervision, cause)
    assert restart_state.failure is not None
    was_running = restart_state.failure.was_running
    if directive is Directive.RESUME and (not was_running or record.ensure_extras().orderly or _is_lost(record)):
        directive = Directive.RESTART  # there is nothing to go on with: a supervisor that fails has no children left
    why = ""
    if directive is Directive.RESTART:
        why = _why_not(cell, restart_state, supervision)
        if why:
            directive = supervision.on_limit
    remedy = _remedy(record, restart_state, supervision) if why and not restart_state.is_misfit else ""
    if directive is Directive.RESTART:
        _restart(life, cell, record, restart_state, supervision, cause)
    elif directive is Directive.RESUME:
        report(cell, restart_state, "it goes on with the next message", 0.0)
        _, restart_state.streak = next_delay(
            None, restart_state.streak, _ran(cell, restart_state), supervision.within, 0.5
        )
        restart_state.quiet_time = supervision.within
        _resume(life, record)
    elif directive is Directive.ESCALATE:
        _escalate(life, cell, record, restart_state, cause, why, remedy)
    else:
        _stop(life, cell, record, ExitReason.of(cause), f"{why}it is stopped", remedy)


def _is_lost(record: ActorRecord) -> bool:
    """Whether the process that the actor was in is gone, and the actor with it."""
    executor = executor_of(record)
    return executor is not None and executor.has_lost_actor()


def _why_not(cell: Cell, restart_state: RestartState, supervision: Supervision) -> str:
    """Note a restart; why there must not be one, if there must not."""
    if restart_state.is_misfit:
        return "its arguments do not fit its constructor, so a restart is of no use: "
    if restart_state.window is None:
        restart_state.window = Window(supervision.max_restarts, supervision.within)
    else:  # what it became may have brought other limits
        restart_state.window.limit, restart_state.window.within = supervision.max_restarts, supervision.within
    if restart_state.window.admits(cell.loop.now()):
        return ""
    return f"more than {counted(supervision.max_restarts, 'restart')} in {supervision.within:g} s: "


def _remedy(record: ActorRecord, restart_state: RestartState, supervision: Supervision) -> str:
    """What to do about an actor that came to its limit."""
    failure = restart_state.failure
    assert failure is not None
    name = type(failure.cause).__name__
    ways = ["raise `max_restarts` or `within` of its Supervision"]
    if supervision.on_limit is not Directive.ESCALATE:
        ways.append("set `on_limit=Directive.ESCALATE` to let its parent decide")
    if failure.message_type is None or not isinstance(failure.cause, Exception):
        return f"Find out why it fails, {', or '.join(ways)}"
    actor = actor_of(record)
    where, declared = "Behaviors.receive()", record.ensure_extras().answers
    if isinstance(actor, Actor):
        where, declared = type(actor).__name__, type(actor).answers
    names = f"({name},)" if not declared else f"({', '.join([*(one.__name__ for one in declared), name])})"
    return (
        f"If {name} only refuses a request, declare it in {where}: `answers = {names}`. If it is a failure, find out "
        f"why, {', or '.join(ways)}"
    )


def _directive(life: ActorHost, cell: Cell, supervision: Supervision, cause: BaseException) -> Directive:
    """What the strategy says; one that cannot say hands the failure on, with a note of its own."""
    try:
        return supervision.directive_for(cause)
    except BaseException as exc:
        if ends_system(exc):
            life.port.fail(exc)
            return Directive.STOP
        if life.loop.director is not None:
            life.loop.director.hook_raised(cell, "strategy", exc)
        add_note(cause, f"Greenroom: its `strategy` could not decide, so it is escalated: {in_words(exc)}")
        return Directive.ESCALATE


def _stop(
    life: ActorHost, cell: Cell, record: ActorRecord, reason: ExitReason, decision: str, remedy: str = ""
) -> None:
    restart_state = restart_state_of(record)
    queued = cell.queued()
    if queued:
        decision = f"{decision}, with {counted(queued, 'message')} queued"
    report(cell, restart_state, decision, 0.0, always=True, remedy=remedy)
    _leave_group(restart_state, record)
    extras = record.ensure_extras()
    if extras.ending is None:
        extras.ending = reason
    if not life.is_told_to_stop(cell):  # a second order would find it resting, if it is to come back
        life.order_stop(cell)


def _restart(
    life: ActorHost,
    cell: Cell,
    record: ActorRecord,
    restart_state: RestartState,
    supervision: Supervision,
    cause: BaseException,
) -> None:
    now = cell.loop.now()
    chance = life.port.random.random() if supervision.backoff is not None and supervision.backoff.jitter else 0.5
    ran = _ran(cell, restart_state)
    delay, restart_state.streak = next_delay(supervision.backoff, restart_state.streak, ran, supervision.within, chance)
    restart_state.quiet_time = supervision.within
    due = restart_state.due = now + delay
    restart_state.comes_back = True
    who = "" if supervision.scope is Scope.ONE_FOR_ONE else f" with its siblings ({supervision.scope.value})"
    report(cell, restart_state, f"it is restarted{who} {when(delay)}", delay)
    cell.hold()
    join_group(life, record, supervision.scope, cause, due)
    cell.order(RestartOrder(cause, restart_state.group, failed=True))


def _ran(cell: Cell, restart_state: RestartState) -> float | None:
    """How long the actor had run when it failed; None if it was not running, or nobody knows since when."""
    if restart_state.failure is None or not restart_state.failure.was_running or restart_state.running_since is None:
        return None
    return elapsed(restart_state.running_since, cell.loop.now())


def _escalate(
    life: ActorHost,
    cell: Cell,
    record: ActorRecord,
    restart_state: RestartState,
    cause: BaseException,
    why: str,
    remedy: str,
) -> None:
    parent = cell.ref._parent
    above = "the system, which stops" if parent is None else f"its parent {parent}"
    report(cell, restart_state, f"{why}it is escalated to {above}", 0.0, not restart_state.spared, remedy)
    _leave_group(restart_state, record)
    add_note(cause, f"Greenroom: escalated by {cell.name()}")
    restart_state.escalated = True
    # How it will have ended, unless its parent is resumed and it with it.
    record.ensure_extras().ending = ExitReason.of(cause)
    cell.hold()
    if life.loop.hooks.escalated:
        life.loop.hooks.emit("escalated", cell.ref, cause)
    if parent is None:
        life.port.fail(cause)
    else:
        restart_state.escalation = life.request_failure(parent._cell, cause, cell.ref)
        release_decider(parent._cell)


def _leave_group(restart_state: RestartState, record: ActorRecord) -> None:
    """It is not restarted with its siblings: those go on without it."""
    if restart_state.group is not None:
        restart_state.group.lose(record)


def _resume(life: ActorHost, record: ActorRecord) -> None:
    """Go on as before; those below that had escalated go on too. One whose start failed is started again."""
    waiting = [record]
    while waiting:
        record = waiting.pop()
        restart_state = restart_state_of(record)
        restart_state.spared = restart_state.escalated
        restart_state.escalated = False
        if restart_state.escalation is not None:
            restart_state.escalation.settled = True
            restart_state.escalation = None
        record.ensure_extras().ending = None
        failure = restart_state.failure
        is_gone = failure is not None and (not failure.was_running or _is_lost(record))
        if failure is not None and (is_gone or (restart_state.spared and record.ensure_extras().orderly)):
            _start_over(life, record.cell, record, restart_state, failure.cause)
            continue
        life.enter(record, RUNNING)
        restart_state.running_since = record.cell.loop.now()
        restart_state.failure = None  # its traceback holds on to the handler's frame
        life.clear_deadline(record)
        record.cell.release()
        if record.child_list is not None:
            waiting.extend(child for child in record.child_list.records() if has_escalated(child))


def _start_over(
    life: ActorHost, cell: Cell, record: ActorRecord, restart_state: RestartState, cause: BaseException
) -> None:
    """One whose start failed, or a supervisor that gave up, cannot go on: that is a restart like any other, but nobody
    is left to escalate to.
    """
    supervision: Supervision = record.settings().supervision
    why = _why_not(cell, restart_state, supervision)
    if why:
        remedy = _remedy(record, restart_state, supervision)
        _stop(life, cell, record, ExitReason.of(cause), f"{why}it is stopped", remedy)
    else:
        _restart(life, cell, record, restart_state, supervision, cause)
