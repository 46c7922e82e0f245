"""The failure decision: what becomes of an actor that failed, by its `Supervision`. Others carry it out.

The decision is the runtime's own: no message passes, and no actor is asked. A supervisor's child comes to rest
instead, and the supervisor decides when it is told.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from greenroom._core.mailbox.cell import Cell
from greenroom.actor.api.actor import Actor
from greenroom.actor.failure.reports import FailureSource, describe, report, when
from greenroom.actor.failure.siblings import leave_siblings, restart_with_siblings
from greenroom.actor.life import starting, stopping
from greenroom.actor.life.hooks import actor_of, executor_of
from greenroom.actor.life.machine import STOP, Event
from greenroom.actor.life.restarting import RestartOrder
from greenroom.actor.life.spawnsite import note_spawn
from greenroom.actor.messaging.question import has_escalated, release_decider
from greenroom.actor.records.record import ActorRecord
from greenroom.actor.records.restartstate import RestartState, incarnation_of, restart_state_of
from greenroom.actor.records.states import Stage
from greenroom.errors import HandlerBroken, StartTimeout, WorkerLost
from greenroom.errortext import add_note, counted, in_words
from greenroom.exits import ExitReason, ends_system
from greenroom.policy.directives import Directive, Scope
from greenroom.policy.limits import Window
from greenroom.policy.specs import Supervision

if TYPE_CHECKING:
    from greenroom.actor.lifecycle import Lifecycle
    from greenroom.actor.messaging.ref import ActorRef
    from greenroom.policy.backoff import Backoff

STARTING = int(Stage.STARTING)
RESTING = int(Stage.RESTING)


class FailOrder(FailureSource):
    """The order to fail with `cause`; `child` is the actor whose escalation that is, if any."""

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
            if is_settled and cell.record.stage != STARTING:
                return  # another child has escalated too
            if cell.record.stage == RESTING:
                child._cell.order(STOP)  # no actor above it can be restarted
                return
        else:
            cell.loop.world.failed(cell, self.cause)
        # Not raised: each time it is, an exception's traceback grows, and this one may pass many actors.
        life.failed(cell, self, self.cause)

    def is_reason_for(self, cause: BaseException) -> bool:
        """Whether a handler failed with `cause` because it waited for the child that escalated."""
        if self.child is None or not isinstance(cause, HandlerBroken):
            return False
        # What has come from another process is no longer the same exception.
        return cause.__cause__ is self.cause or cause.ref == self.child

    def is_told(self) -> bool:
        return self.child is not None

    def __str__(self) -> str:
        if isinstance(self.cause, StartTimeout):
            return "while it started"
        if isinstance(self.cause, WorkerLost):
            return "while it was idle"
        return self.why if self.child is None else f"because {self.child} escalated"


def decide_on_failure(life: Lifecycle, cell: Cell, record: ActorRecord, message: object, cause: BaseException) -> None:
    extras = record.ensure_extras()
    restart_state = restart_state_of(record)
    if not life.may(record, Event.FAIL):
        return  # it has failed already, and something is being done about it
    was_running = record.stage != STARTING
    if isinstance(cause, AttributeError) and cause.name == "ctx" and not was_running:
        add_note(cause, "An actor has its `ctx` from `pre_start` on, not in `__init__`.")
    restart_state.bad_arguments = not was_running and note_spawn(cell, record, cause)
    restart_state.failure = describe(cell, record, message, cause, was_running)
    restart_state.last_failure = in_words(cause)
    restart_state.reported = False
    if not was_running:
        extras.never_ran = restart_state.running_since is None and restart_state.incarnation == 1
        starting.tell_started(extras, cause)
    life.advance(cell, record, Event.FAIL)
    reason = ExitReason.of(cause)
    is_wanted_back = stopping.is_wanted_back(record, reason)
    is_told_to_stop = life.is_told_to_stop(cell) and not is_wanted_back
    if record.reason is not None or ends_system(cause) or is_told_to_stop or stopping.must_end(life, record):
        _stop(record, reason, "it is ending anyway")
    elif restart_state.supervisor is None:
        _decide(record, restart_state, cause)
    elif not is_wanted_back:
        _stop(record, reason, "it is not to be restarted")
    else:  # its supervisor decides, when it is at rest
        record.reason = reason
        life.advance(cell, record, Event.DECIDED_RESTART)
        life.forget_stops(cell)
        cell.order(RestartOrder(cause, failed=True))


def _decide(record: ActorRecord, restart_state: RestartState, cause: BaseException) -> None:
    supervision: Supervision = record.settings().supervision
    directive = _directive(record.cell, supervision, cause)
    assert restart_state.failure is not None
    was_running = restart_state.failure.was_running
    if directive is Directive.RESUME and (not was_running or record.ensure_extras().orderly or _is_lost(record)):
        directive = Directive.RESTART  # there is nothing to go on with: a supervisor that fails has no children left
    why = ""
    if directive is Directive.RESTART:
        why = _why_not(record, restart_state, supervision)
        if why:
            directive = supervision.on_limit
    remedy = _remedy(record, restart_state, supervision) if why and not restart_state.bad_arguments else ""
    if directive is Directive.RESTART:
        _restart(record, restart_state, supervision, cause)
    elif directive is Directive.RESUME:
        report(record.cell, restart_state, "it goes on with the next message", 0.0)
        _next_delay(record, restart_state, supervision, None)
        _resume(record)
    elif directive is Directive.ESCALATE:
        _escalate(record, restart_state, cause, why, remedy)
    else:
        _stop(record, ExitReason.of(cause), f"{why}it is stopped", remedy)


def _is_lost(record: ActorRecord) -> bool:
    """Whether the worker process of the actor is gone."""
    executor = executor_of(record)
    return executor is not None and executor.has_lost_actor()


def _why_not(record: ActorRecord, restart_state: RestartState, supervision: Supervision) -> str:
    """Count a restart; why it may not be, or an empty text."""
    if restart_state.bad_arguments:
        return "its arguments do not fit its constructor, so a restart is of no use: "
    if restart_state.window is None:
        restart_state.window = Window(supervision.max_restarts, supervision.within)
    else:  # what it became may have brought other limits
        restart_state.window.limit, restart_state.window.within = supervision.max_restarts, supervision.within
    if restart_state.window.admits(record.cell.loop.now()):
        return ""
    return f"more than {counted(supervision.max_restarts, 'restart')} in {supervision.within:g} s: "


def _remedy(record: ActorRecord, restart_state: RestartState, supervision: Supervision) -> str:
    """What the user can do about an actor that reached its limit."""
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


def _directive(cell: Cell, supervision: Supervision, cause: BaseException) -> Directive:
    """The directive of the actor's strategy; ESCALATE, with a note, if the strategy itself raises."""
    try:
        return supervision.directive_for(cause)
    except BaseException as exc:
        if ends_system(exc):
            cell.loop.host.system.fail(exc)
            return Directive.STOP
        cell.loop.world.hook_raised(cell, "strategy", exc)
        add_note(cause, f"Greenroom: its `strategy` could not decide, so it is escalated: {in_words(exc)}")
        return Directive.ESCALATE


def _stop(record: ActorRecord, reason: ExitReason, decision: str, remedy: str = "") -> None:
    cell, restart_state = record.cell, restart_state_of(record)
    life: Lifecycle = cell.loop.host
    queued = cell.queued()
    if queued:
        decision = f"{decision}, with {counted(queued, 'message')} queued"
    report(cell, restart_state, decision, 0.0, always=True, remedy=remedy)
    leave_siblings(restart_state)
    if record.reason is None:
        record.reason = reason
    life.advance(cell, record, Event.DECIDED_STOP)
    if not life.is_told_to_stop(cell):  # a second order would find it resting, if it is to come back
        cell.order(STOP)


def _next_delay(
    record: ActorRecord, restart_state: RestartState, supervision: Supervision, backoff: Backoff | None
) -> float:
    life: Lifecycle = record.cell.loop.host
    ran = restart_state.ran(record.cell.loop.now())
    return restart_state.delays.next(backoff, ran, supervision.within, life.system.random)


def _restart(record: ActorRecord, restart_state: RestartState, supervision: Supervision, cause: BaseException) -> None:
    cell = record.cell
    life: Lifecycle = cell.loop.host
    now = cell.loop.now()
    delay = _next_delay(record, restart_state, supervision, supervision.backoff)
    due = restart_state.due = now + delay
    life.advance(cell, record, Event.DECIDED_RESTART)
    who = "" if supervision.scope is Scope.ONE_FOR_ONE else f" with its siblings ({supervision.scope.value})"
    report(cell, restart_state, f"it is restarted{who} {when(delay)}", delay)
    restart_with_siblings(life, record, supervision.scope, cause, due)
    cell.order(RestartOrder(cause, failed=True))


def _escalate(record: ActorRecord, restart_state: RestartState, cause: BaseException, why: str, remedy: str) -> None:
    cell = record.cell
    life: Lifecycle = cell.loop.host
    parent = cell.ref._parent
    above = "the system, which stops" if parent is None else f"its parent {parent}"
    report(cell, restart_state, f"{why}it is escalated to {above}", 0.0, not restart_state.was_escalated, remedy)
    leave_siblings(restart_state)
    add_note(cause, f"Greenroom: escalated by {cell.name()}")
    # How it will have ended, unless its parent is resumed and it with it.
    record.reason = ExitReason.of(cause)
    life.advance(cell, record, Event.DECIDED_ESCALATE)
    if life.loop.hooks.escalated:
        life.loop.hooks.emit("escalated", cell.ref, cause)
    if parent is None:
        life.system.fail(cause)
    else:
        restart_state.escalation = life.request_failure(parent._cell, cause, cell.ref)
        release_decider(parent._cell)


def _resume(record: ActorRecord) -> None:
    """Resume an actor, and those below it that had escalated; one whose start failed is started again."""
    life: Lifecycle = record.cell.loop.host
    waiting = [record]
    while waiting:
        record = waiting.pop()
        restart_state = restart_state_of(record)
        restart_state.was_escalated = has_escalated(record)
        if restart_state.escalation is not None:
            restart_state.escalation.settled = True
            restart_state.escalation = None
        record.reason = None
        failure = restart_state.failure
        is_gone = failure is not None and (not failure.was_running or _is_lost(record))
        if failure is not None and (is_gone or (restart_state.was_escalated and record.ensure_extras().orderly)):
            _start_over(record, restart_state, failure.cause)
            continue
        life.advance(record.cell, record, Event.DECIDED_RESUME)
        restart_state.running_since = record.cell.loop.now()
        restart_state.failure = None  # its traceback holds on to the handler's frame
        if record.child_list is not None:
            waiting.extend(child for child in record.child_list.records() if has_escalated(child))


def _start_over(record: ActorRecord, restart_state: RestartState, cause: BaseException) -> None:
    """Restart an actor that cannot go on: its start failed, or it is a supervisor that gave up. It cannot escalate."""
    supervision: Supervision = record.settings().supervision
    why = _why_not(record, restart_state, supervision)
    if why:
        remedy = _remedy(record, restart_state, supervision)
        _stop(record, ExitReason.of(cause), f"{why}it is stopped", remedy)
    else:
        _restart(record, restart_state, supervision, cause)
