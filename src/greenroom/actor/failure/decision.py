"""Deciding about failures, by the `Supervision` of the actor that failed; the doing is elsewhere.

The decision is the runtime's own: no message passes, nobody is asked. An actor that has a keeper (a supervisor's child)
leaves instead, and the keeper decides when it hears of that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from greenroom._core.mailbox.cell import Cell
from greenroom.actor.life import ending, starting
from greenroom.actor.records.record import Body
from greenroom.actor.failure.groups import join_group
from greenroom.actor.life.hooks import place_of
from greenroom.actor.failure.reports import Doing, describe, report, when
from greenroom.actor.life.restarting import Leave, waits_to_return
from greenroom.actor.records.restartstate import Standing, standing_of
from greenroom.actor.records.states import State
from greenroom.errors import add_note, in_words
from greenroom.exits import ExitReason, ends_system
from greenroom.policy.backoff import next_delay
from greenroom.policy.directives import Directive, Scope
from greenroom.policy.intensity import Window, elapsed
from greenroom.policy.specs import Supervision

if TYPE_CHECKING:
    from greenroom.actor.lifecycle import Lifecycle

__all__ = ["Failing", "judge"]

STARTING = State.STARTING.code
RUNNING = State.RUNNING.code
FAILED = State.FAILED.code


class Failing(Doing):
    """The order to fail with `cause`; `child` is the one that escalated, if that is why."""

    __slots__ = ("cause", "child")

    def __init__(self, cause: BaseException, child: object = None) -> None:
        self.cause = cause
        self.child = child

    def __call__(self, cell: Cell) -> None:
        life = cell.loop.host
        child: Any = self.child
        if child is not None:
            # One that is STARTING here was cancelled in its start to hear of this, so it has failed in any case.
            if not (child.is_alive and _has_escalated(child._cell.body)) and cell.body.state != STARTING:
                return  # it is settled: another child has escalated too
            if waits_to_return(cell.body):
                life.order_stop(child._cell)  # there is nobody above it who could be restarted
                return
        elif cell.loop.director is not None:
            cell.loop.director.fails(cell, self.cause)
        # Not raised: each time it is, an exception's traceback grows, and this one may pass many actors.
        life.failed(cell, self, self.cause)

    def __str__(self) -> str:
        return "as it was told to" if self.child is None else f"because {self.child} escalated"


def judge(life: Lifecycle, cell: Cell, body: Body, message: object, cause: BaseException) -> None:
    """An actor has failed: see to it that what should become of it does."""
    more = body.extra()
    standing = standing_of(body)
    if standing.resting or standing.comes_back or standing.escalated:
        return  # it has failed already, and something is being done about it
    was_running = body.state != STARTING
    if isinstance(cause, AttributeError) and cause.name == "ctx" and not was_running:
        add_note(cause, "An actor has its `ctx` from `pre_start` on, not in `__init__`.")
    standing.failure = describe(cell, body, message, cause, was_running)
    standing.last_failure = in_words(cause)
    standing.reported = False
    if not was_running:
        more.never_ran = standing.running_since is None and standing.incarnation == 1
        starting.tell_started(more, cause)
    if body.state != FAILED:
        life.enter(body, FAILED)
    reason = ExitReason.of(cause)
    if more.ending is not None or ends_system(cause) or _must_end(life, cell, body, reason):
        _stop(life, cell, body, reason, "it is ending anyway")
    elif standing.keeper is not None:
        _leave_it_to_keeper(life, cell, body, standing, reason)
    else:
        _decide(life, cell, body, standing, cause)


def _must_end(life: Lifecycle, cell: Cell, body: Body, reason: ExitReason) -> bool:
    """Whether nothing but its end can come: it, its parent or the whole system is about to."""
    if life.closed or (life.is_told_to_stop(cell) and not _is_kept(body, reason)):
        return True
    parent: Any = cell.ref._parent
    above = None if parent is None else parent._cell.body.more
    return above is not None and above.phase != ending.NONE


def _is_kept(body: Body, reason: ExitReason) -> bool:
    """Whether its keeper wants it back after such an end."""
    standing = standing_of(body)
    return standing.keeper is not None and not standing.final and standing.keeper.wants(reason.kind)


def _leave_it_to_keeper(life: Lifecycle, cell: Cell, body: Body, standing: Standing, reason: ExitReason) -> None:
    if not _is_kept(body, reason):
        _stop(life, cell, body, reason, "it is not to be restarted")
    else:
        body.extra().ending = reason
        standing.comes_back = True
        life.forget_stops(cell)
        cell.hold()
        cell.order(Leave(reason.cause, failed=True))


def _decide(life: Lifecycle, cell: Cell, body: Body, standing: Standing, cause: BaseException) -> None:
    supervision: Supervision = body.settings().supervision
    directive = _directive(life, cell, supervision, cause)
    assert standing.failure is not None
    was_running = standing.failure.was_running
    if directive is Directive.RESUME and (not was_running or body.extra().orderly or _is_lost(body)):
        directive = Directive.RESTART  # there is nothing to go on with: a supervisor that fails has no children left
    why = ""
    if directive is Directive.RESTART:
        why = _why_not(cell, standing, supervision)
        if why:
            directive = supervision.on_limit
    if directive is Directive.RESTART:
        _restart(life, cell, body, standing, supervision, cause)
    elif directive is Directive.RESUME:
        report(cell, standing, "it goes on with the next message", 0.0)
        _, standing.streak = next_delay(None, standing.streak, _ran(cell, standing), supervision.within, 0.5)
        standing.quiet_time = supervision.within
        _resume(life, body)
    elif directive is Directive.ESCALATE:
        _escalate(life, cell, body, standing, cause, why)
    else:
        _stop(life, cell, body, ExitReason.of(cause), f"{why}it is stopped")


def _is_lost(body: Body) -> bool:
    """Whether the process that the actor was in is gone, and the actor with it."""
    place = place_of(body)
    return place is not None and place.has_lost_actor()


def _why_not(cell: Cell, standing: Standing, supervision: Supervision) -> str:
    """Note a restart; why there must not be one, if there must not."""
    if standing.window is None:
        standing.window = Window(supervision.max_restarts, supervision.within)
    else:  # what it became may have brought other limits
        standing.window.limit, standing.window.within = supervision.max_restarts, supervision.within
    if standing.window.admits(cell.loop.now()):
        return ""
    return f"more than {supervision.max_restarts} restarts in {supervision.within:g} s: "


def _directive(life: Lifecycle, cell: Cell, supervision: Supervision, cause: BaseException) -> Directive:
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


def _stop(life: Lifecycle, cell: Cell, body: Body, reason: ExitReason, decision: str) -> None:
    standing = standing_of(body)
    report(cell, standing, decision, 0.0, always=True)
    _leave_group(standing, body)
    more = body.extra()
    if more.ending is None:
        more.ending = reason
    if not life.is_told_to_stop(cell):  # a second order would find it resting, if it is to come back
        life.order_stop(cell)


def _restart(
    life: Lifecycle, cell: Cell, body: Body, standing: Standing, supervision: Supervision, cause: BaseException
) -> None:
    now = cell.loop.now()
    chance = life.port.random.random() if supervision.backoff is not None and supervision.backoff.jitter else 0.5
    ran = _ran(cell, standing)
    delay, standing.streak = next_delay(supervision.backoff, standing.streak, ran, supervision.within, chance)
    standing.quiet_time = supervision.within
    due = standing.due = now + delay
    standing.comes_back = True
    who = "" if supervision.scope is Scope.ONE_FOR_ONE else f" with its siblings ({supervision.scope.value})"
    report(cell, standing, f"it is restarted{who} {when(delay)}", delay)
    cell.hold()
    join_group(life, body, supervision.scope, cause, due)
    cell.order(Leave(cause, standing.group, failed=True))


def _ran(cell: Cell, standing: Standing) -> float | None:
    """How long the actor had run when it failed; None if it was not running, or nobody knows since when."""
    if standing.failure is None or not standing.failure.was_running or standing.running_since is None:
        return None
    return elapsed(standing.running_since, cell.loop.now())


def _escalate(life: Lifecycle, cell: Cell, body: Body, standing: Standing, cause: BaseException, why: str) -> None:
    parent: Any = cell.ref._parent
    above = "the system, which stops" if parent is None else f"its parent {parent}"
    report(cell, standing, f"{why}it is escalated to {above}", 0.0, always=not standing.spared)
    _leave_group(standing, body)
    add_note(cause, f"Greenroom: escalated by {cell.name()}")
    standing.escalated = True
    # How it will have ended, unless its parent is resumed and it with it.
    body.extra().ending = ExitReason.of(cause)
    cell.hold()
    if life.loop.hooks.escalated is not None:
        life.loop.hooks.escalated(cell.ref, cause)
    if parent is None:
        life.port.fail(cause)
    else:
        life.request_failure(parent._cell, cause, cell.ref)


def _leave_group(standing: Standing, body: Body) -> None:
    """It is not restarted with its siblings: those go on without it."""
    if standing.group is not None:
        standing.group.lose(body)


def _resume(life: Lifecycle, body: Body) -> None:
    """Go on as before; those below that had escalated go on too. One whose start failed is started again."""
    waiting = [body]
    while waiting:
        body = waiting.pop()
        standing = standing_of(body)
        standing.spared = standing.escalated
        standing.escalated = False
        body.extra().ending = None
        failure = standing.failure
        is_gone = failure is not None and (not failure.was_running or _is_lost(body))
        if failure is not None and (is_gone or (standing.spared and body.extra().orderly)):
            _start_over(life, body.cell, body, standing, failure.cause)
            continue
        life.enter(body, RUNNING)
        standing.running_since = body.cell.loop.now()
        standing.failure = None  # its traceback holds on to the handler's frame
        life.clear_deadline(body)
        body.cell.release()
        if body.family is not None:
            waiting.extend(child for child in body.family.bodies() if _has_escalated(child))


def _start_over(life: Lifecycle, cell: Cell, body: Body, standing: Standing, cause: BaseException) -> None:
    """One whose start failed, or a supervisor that gave up, cannot go on: that is a restart like any other, but nobody
    is left to escalate to.
    """
    supervision: Supervision = body.settings().supervision
    why = _why_not(cell, standing, supervision)
    if why:
        _stop(life, cell, body, ExitReason.of(cause), f"{why}it is stopped")
    else:
        _restart(life, cell, body, standing, supervision, cause)


def _has_escalated(body: Body) -> bool:
    """Whether it waits for a decision further up; one that has been told to end meanwhile does not."""
    more = body.more
    return more is not None and more.standing is not None and more.standing.escalated and more.phase == ending.NONE
