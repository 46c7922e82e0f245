"""How an actor is made afresh, in place (M6).

1  `pre_restart(cause)`, and `snapshot()`: of an instance that was running
2  its children are stopped
3  `post_stop` of the old instance; its timers, pipes and behaviors end
4  it rests: messages wait in its mailbox, orders still act
5  when the restart is due: a fresh instance from the factory, with the same arguments
6  `pre_start`, `restore(state)`, `post_restart`, `post_start`
7  RUNNING: what has waited is handled

Steps 1 to 3 happen at once, however long the backoff is: nobody holds a socket while waiting to be born again.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from greenroom._core.mailbox.cell import Cell
from greenroom._core.timing.timers import Alarm
from greenroom.actor.life import ending, starting
from greenroom.actor.api.actor import Actor
from greenroom.actor.records.record import Body, More
from greenroom.actor.messaging.drain import Drain, clear, drain_all
from greenroom.actor.life.hooks import Procedure, actor_of, attempt_hook, begin, do, method_of
from greenroom.actor.messaging.signals import PreRestart
from greenroom.actor.life.spec import blueprint_of
from greenroom.actor.records.restartstate import Standing, standing_of
from greenroom.actor.records.states import State
from greenroom.actor.messaging.timers import set_alarm
from greenroom.exits import KILLED, SHUTDOWN, ExitReason, ends_system
from greenroom.policy.directives import OnRestart

if TYPE_CHECKING:
    from greenroom.actor.lifecycle import Lifecycle

__all__ = ["Leave", "forget", "forget_alarm", "has_begun", "rest", "start_again", "start_when_due", "waits_to_return"]

_log = logging.getLogger("greenroom")

STARTING = State.STARTING.code
RUNNING = State.RUNNING.code
STOPPING = State.STOPPING.code
STOPPED = State.STOPPED.code
FAILED = State.FAILED.code
RESTARTING = State.RESTARTING.code

CLEARED = "cleared by a restart"


class Leave:
    """The order to bring the present incarnation to its end, and rest: steps 1 to 4."""

    __slots__ = ("at_once", "cause", "failed", "group", "killed")

    def __init__(
        self,
        cause: BaseException | None,
        group: Any = None,
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

    def __call__(self, cell: Cell) -> Any:
        body = cell.body
        if not isinstance(body, Body):
            return None
        return begin(leave(cell.loop.host, cell, body, self), body)


class Due(Alarm):
    """Rings when a restart is due."""

    __slots__ = ("_cell",)

    def __init__(self, cell: Cell, deadline: float) -> None:
        self._cell = cell
        set_alarm(cell.loop, self, deadline)

    def ring(self, door: object) -> None:
        """The backoff is over."""
        body = self._cell.body
        if isinstance(body, Body):
            standing_of(body).alarm = None
            self._cell.order(start_alone)


def leave(life: Lifecycle, cell: Cell, body: Body, order: Leave) -> Procedure:
    """Steps 1 to 3, as far as they go without waiting for children."""
    more = body.extra()
    standing = standing_of(body)
    if more.phase != ending.NONE or body.state == STOPPING:
        standing.at_once = standing.at_once and order.at_once
        return  # it ends, or is being restarted already
    if more.ending is not None and not standing.comes_back:
        return  # its end is decided, and about to come
    if standing.resting:
        if order.at_once:
            _prepare(life, cell, body, standing)
            yield from starting.start(life, cell, body)
        elif standing.at_once and standing.keeper is not None:
            # Somebody asked for it, so it was about to come back; but it has failed, or its keeper wants it to rest.
            standing.at_once = False
            standing.keeper.rested(cell, standing.reason or SHUTDOWN)
        return
    failure = standing.failure  # of this instance, if it is one that failed, else of one before
    was_running = body.state == RUNNING or (body.state == FAILED and failure is not None and failure.was_running)
    more.phase = ending.LEAVING
    standing.comes_back = True
    standing.cause = order.cause
    standing.at_once = order.at_once
    cell.hold()
    if body.state == STARTING:
        life.enter(body, FAILED)
    life.enter(body, RESTARTING)
    if was_running and not order.killed:
        yield from attempt_hook(body, "pre_restart", PreRestart(order.cause), order.cause)
        standing.kept = yield from _snapshot(body)
    more.phase = ending.WAITING
    if body.family is not None and body.family.count > 0:
        life.set_deadline(cell, body)
        ending.end_children(life, body, KILLED if order.killed else SHUTDOWN)
    else:
        yield from ending.close(life, cell, body)


def _snapshot(body: Body) -> Procedure:
    """What the old instance wants its successor to have; None if it has nothing to say, or cannot."""
    actor = actor_of(body)
    if not isinstance(actor, Actor) or not blueprint_of(type(actor)).keeps_state:
        return None
    try:
        return (yield from do(body, method_of(body, actor, "snapshot")))
    except BaseException as exc:
        if isinstance(exc, GeneratorExit) and body.extra().abandoned:
            raise
        fields = body.cell.loop.host.log_fields(body.cell)
        _log.exception("snapshot() of %s raised; it is restarted without", body.cell.name(), extra=fields)
        if body.cell.loop.director is not None:
            body.cell.loop.director.hook_raised(body.cell, "snapshot", exc)
        if ends_system(exc):
            body.cell.loop.host.port.fail(exc)
        return None


def waits_to_return(body: Body) -> bool:
    """Whether the actor rests, between two incarnations."""
    return body.more is not None and body.more.standing is not None and body.more.standing.resting


def rest(life: Lifecycle, cell: Cell, body: Body, reason: ExitReason) -> None:
    """Step 4. Whoever decides about the restart is told."""
    if cell.body is not body:
        return  # it has been forced to end meanwhile
    more = body.extra()
    standing = standing_of(body)
    life.clear_deadline(body)
    _let_go_of_instance(life, cell, body, more, standing)
    _keep_or_clear(cell, body, more, standing)
    more.by_behavior = None
    if body.state == STOPPING:
        life.enter(body, STOPPED)
    elif body.state == STARTING:
        life.enter(body, FAILED)
    if body.state != RESTARTING:
        life.enter(body, RESTARTING)
    cell.hold()
    more.phase = ending.NONE
    more.ending = None
    more.abandoned = False
    standing.comes_back = False
    standing.resting = True
    standing.reason = reason
    life.resting[cell] = None
    if standing.at_once and _is_free(body, standing):
        cell.order(start_at_once)
    elif standing.group is not None:
        standing.group.rested(body)
    elif standing.keeper is not None:
        standing.keeper.rested(cell, reason)
    else:
        start_when_due(cell, standing)


def _let_go_of_instance(life: Lifecycle, cell: Cell, body: Body, more: More, standing: Standing) -> None:
    life.loop.cancel_timers(cell)
    if more.quiet is not None:
        more.quiet.stop()
        standing.quiet = more.quiet
    pipes, more.pipes = more.pipes, {}
    for task in pipes:
        task.cancel()
    more.behaviors.clear()
    more.on_signal = more.keyed = None
    if more.bonds is not None:
        more.bonds.traps = False
    cell.subject = cell.handler = cell.context = None


def _keep_or_clear(cell: Cell, body: Body, more: More, standing: Standing) -> None:
    policy = standing.mailbox
    if policy is None:
        policy = OnRestart.KEEP if standing.keeper is not None else body.settings().supervision.mailbox
    stash, more.stash = more.stash, None
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


def start_when_due(cell: Cell, standing: Standing) -> None:
    """Step 5, now or when the backoff is over."""
    if standing.due is None or standing.due <= cell.loop.now():
        cell.order(start_alone)
        return
    standing.alarm = Due(cell, standing.due)


def forget_alarm(cell: Cell, standing: Standing) -> None:
    """The restart that was waited for does not come, or comes at once."""
    if standing.alarm is not None:
        standing.alarm.disarm(cell.loop.timers)
        standing.alarm = None
    standing.due = None


def forget(cell: Cell, body: Body, standing: Standing) -> None:
    """The actor has ended for good: nobody waits for it, or with it."""
    forget_alarm(cell, standing)
    cell.loop.host.resting.pop(cell, None)
    standing.resting = standing.comes_back = False
    standing.kept = standing.quiet = standing.cause = standing.failure = None
    if standing.group is not None:
        standing.group.lose(body)


def start_alone(cell: Cell) -> Any:
    """Steps 5 to 7, unless it is to be started with others by now: an order."""
    body = cell.body
    if isinstance(body, Body) and standing_of(body).group is None:
        return start_again(cell)
    return None


def start_at_once(cell: Cell) -> Any:
    """Steps 5 to 7, unless others have a say in that by now: an order."""
    body = cell.body
    if isinstance(body, Body) and standing_of(body).at_once and _is_free(body, standing_of(body)):
        return start_again(cell)
    return None


def _is_free(body: Body, standing: Standing) -> bool:
    """Whether nobody waits for it to rest with them."""
    return standing.group is None or standing.group.has_up(body)


def start_again(cell: Cell) -> Any:
    """Steps 5 to 7: an order."""
    body = cell.body
    life = cell.loop.host
    if not isinstance(body, Body) or not waits_to_return(body) or life.closed:
        return None
    if life.is_told_to_stop(cell) and standing_of(body).keeper is None:
        return None  # under a keeper that may mean nothing to one that rests
    _prepare(life, cell, body, standing_of(body))
    return begin(starting.start(life, cell, body))


def _prepare(life: Lifecycle, cell: Cell, body: Body, standing: Standing) -> None:
    forget_alarm(cell, standing)
    life.resting.pop(cell, None)
    cell.withdraw(tuple(order for order in cell.waiting_orders() if isinstance(order, Leave) and order.failed))
    standing.resting = False
    standing.reason = None
    standing.escalated = False
    standing.incarnation += 1
    standing.last_restart = cell.loop.now()
    if not standing.at_once:
        standing.restarts += 1
    standing.at_once = False
    life.enter(body, STARTING)


def has_begun(life: Lifecycle, cell: Cell, body: Body, standing: Standing) -> None:
    """Step 7, and the first start of an actor that has a standing already."""
    more = body.extra()
    standing.running_since = cell.loop.now()
    if more.quiet is not None and more.quiet is standing.quiet:
        more.quiet.begin()
    # Its traceback holds on to the old instance.
    standing.quiet = standing.kept = standing.failure = None
    if standing.incarnation > 1:
        cause, standing.cause = standing.cause, None
        cell.release()
        if life.loop.hooks.actor_restarted is not None:
            life.loop.hooks.actor_restarted(cell.ref, cause)
    if standing.keeper is not None:
        standing.keeper.running(cell)
    if standing.group is not None:
        standing.group.is_up(body)
