"""How an actor ends: once, in one place, however it comes about.

 1  it is told: by `stop`, by its parent, by a failure, by `kill`; the order waits for the message in hand
 2  a deadline is set if it cannot act at once: a handler is suspended
 3  STOPPING, and the mailbox closes: what is sent from now on is a dead letter
 4  `pre_stop` runs (not after a failure or a kill); its children still live
 5  what is queued is drained: dead letters, dropped, or redirected; the stash first, for it is older
 6  its children are told to end, all at once; it waits for them and stays open to orders
 7  a deadline is set for them; those that miss it are forced, and named
 8  `post_stop` runs
 9  STOPPED; its timers, its receive timeout and its pipes end
10  whom it watched forget it
11  it leaves its parent; its name is free
12  its slot in the table is freed, its account is closed
13  TERMINATED; what is left of it is an obituary
14  replies it owed fail; its watchers, its parent, those linked to it, and those who await its end are told
15  observers are told

A kill goes straight to TERMINATED: 4 is left out. An actor that never started has only 3, 5 and 9 to 15.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from greenroom._core.mailbox.cell import Cell
from greenroom.actor.records.record import Body, More
from greenroom.actor.messaging.drain import drain
from greenroom.actor.life.hooks import Procedure, attempt_hook
from greenroom.actor.messaging.signals import PostStop, PreStop
from greenroom.actor.records.states import State
from greenroom.actor.relations.watch import unwatch_all
from greenroom.exits import KILLED, SHUTDOWN, ExitReason

if TYPE_CHECKING:
    from greenroom.actor.lifecycle import Lifecycle

__all__ = ["close", "end", "end_children", "is_to_come_back"]

CREATED = State.CREATED.code
STARTING = State.STARTING.code
RUNNING = State.RUNNING.code
STOPPING = State.STOPPING.code
RESTARTING = State.RESTARTING.code
# Phases of an ending.
NONE = 0
LEAVING = 1
WAITING = 2
CLOSING = 3


def end(life: Lifecycle, cell: Cell, body: Body, reason: ExitReason) -> Procedure:
    """Steps 3 to 6, and the rest if there are no children to wait for."""
    more = body.extra()
    if more.phase != NONE:
        _end_all_the_more(life, cell, body, more, reason)
        return
    standing = more.standing
    comes_back = standing is not None and is_to_come_back(life, body, more.ending or reason)
    if standing is not None:
        if comes_back and standing.resting:
            more.ending = None
            return  # it has ended already, and comes back
        if standing.resting and standing.reason is not None and standing.reason.abnormal and reason is SHUTDOWN:
            more.ending = standing.reason  # what it waited for does not come: that is how it ended
        standing.comes_back = comes_back
    more.phase = LEAVING
    if more.ending is None:
        more.ending = reason
    gently = more.ending is not KILLED
    was_running = body.state == RUNNING
    if body.state in (CREATED, STARTING) and not more.has_run():
        more.never_ran = True
    if gently:
        life.enter(body, STOPPING)
    if comes_back:
        cell.hold()  # what comes from now on may be for its next incarnation
    else:
        cell.close()
    if gently and was_running:
        yield from attempt_hook(body, "pre_stop", PreStop())
    if gently or not comes_back:  # a restart after a kill keeps the queue
        drain(cell, more, "stopped", keeps_notices=comes_back)
    more.phase = WAITING
    if body.family is not None and body.family.count > 0:
        life.set_deadline(cell, body)
        end_children(life, body, SHUTDOWN if more.ending is not KILLED else KILLED)
    else:
        yield from close(life, cell, body)


def is_to_come_back(life: Lifecycle, body: Body, reason: ExitReason) -> bool:
    """Whether an actor with a keeper rests after such an end, to be started again."""
    standing = body.extra().standing
    if standing.keeper is None or standing.final or life.closed:
        return False
    parent = body.cell.ref._parent
    above = None if parent is None else parent._cell.body.more
    if above is not None and above.phase != NONE:
        return False
    wanted: bool = standing.keeper.wants(reason.kind)
    return wanted


def _end_all_the_more(life: Lifecycle, cell: Cell, body: Body, more: More, reason: ExitReason) -> None:
    """It is told to end while it does, or while it leaves to be restarted, which it then is not."""
    standing = more.standing
    if standing is not None and standing.comes_back and not is_to_come_back(life, body, reason):
        standing.comes_back = False
        if more.ending is None:
            more.ending = reason
        if body.state == RESTARTING and reason is not KILLED:
            life.enter(body, STOPPING)
        cell.close()
        drain(cell, more, "stopped")
    if reason is KILLED:
        if standing is None or not standing.comes_back:
            more.ending = KILLED
        end_children(life, body, KILLED)


def end_children(life: Lifecycle, body: Body, reason: ExitReason) -> None:
    """Tell them all at once, the youngest first; those of a supervisor one after the other, unless they are killed."""
    if body.family is None or body.family.count == 0:
        return
    if body.extra().orderly and reason is not KILLED:
        _end_child(life, body.family.youngest())
        return
    for child in reversed(body.family.bodies()):
        life.request_end(child.cell, reason)


def _end_child(life: Lifecycle, child: Body) -> None:
    """Tell a supervisor's child: it may have no time at all."""
    standing = child.extra().standing
    at_once = standing is not None and standing.patience is not None and standing.patience <= 0.0
    life.request_end(child.cell, KILLED if at_once else SHUTDOWN)


def close(life: Lifecycle, cell: Cell, body: Body) -> Procedure:
    """Steps 8 to 15: the children are gone."""
    more = body.extra()
    if more.phase == CLOSING:
        return
    more.phase = CLOSING
    life.clear_deadline(body)
    if cell.handler is not None:
        if cell.task is not None:  # a hook before this one has suspended, and nobody is told of it twice
            life.set_deadline(cell, body)
        yield from attempt_hook(body, "post_stop", PostStop())
    life.conclude(cell, body)


def let_go(body: Body, more: More) -> None:
    """Steps 9 and 10: nothing of it is under way any more, and nobody has it on a list."""
    if more.quiet is not None:
        more.quiet.stop()
        more.quiet = None
    pipes, more.pipes = more.pipes, {}
    for task in pipes:
        task.cancel()
    unwatch_all(body)
    if more.bonds is not None:
        more.bonds.let_go(body)
    # What it became may refer to it: without these it is freed at once.
    more.behaviors.clear()
    more.on_signal = more.stash = more.keyed = None


def tell(more: More, reason: ExitReason) -> None:
    """Step 14, in part: replies it owed fail, and those who await it are told."""
    deferred, more.deferred = more.deferred, {}
    for question in list(deferred):
        question.end_with(reason)
    waiters, more.waiters = more.waiters, []
    for waiter in waiters:
        waiter.ended(waiter, reason)
