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
13  TERMINATED; what is left of it is a tombstone
14  observers are told: before all others, who may ask them at once, from another thread
15  its watchers and those linked to it are told; replies it owed fail; its parent and those who await its end are told

A kill goes straight to TERMINATED: 4 is left out. An actor that never started has only 3, 5 and 9 to 15; a
meta-process has 8 all the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from greenroom._core.mailbox.cell import Cell
from greenroom.actor.life.hooks import Procedure, attempt, attempt_hook, do
from greenroom.actor.messaging.drain import drain
from greenroom.actor.messaging.ref import Alias
from greenroom.actor.messaging.signals import PostStop, PreStop
from greenroom.actor.records.record import ActorRecord, Extras
from greenroom.actor.records.restartstate import restart_state_of
from greenroom.actor.records.states import State
from greenroom.actor.relations.watch import unwatch_all
from greenroom.exits import FORCED, KILLED, SHUTDOWN, ExitReason

if TYPE_CHECKING:
    from greenroom.actor.records.ports import ActorHost

__all__ = ["after_post_stop", "after_pre_stop", "close", "end", "end_children", "is_to_come_back", "unwatch_fds"]

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


def end(life: ActorHost, cell: Cell, record: ActorRecord, reason: ExitReason) -> Procedure:
    """Steps 3 to 6, and the rest if there are no children to wait for."""
    extras = record.ensure_extras()
    if record.phase != NONE:
        _end_all_the_more(life, cell, record, extras, reason)
        return
    if extras.forced and reason is not KILLED:
        reason = FORCED
    restart_state = extras.restart_state
    comes_back = restart_state is not None and is_to_come_back(life, record, extras.ending or reason)
    if restart_state is not None:
        if comes_back and restart_state.resting:
            extras.ending = None
            return  # it has ended already, and comes back
        if (
            restart_state.resting
            and restart_state.reason is not None
            and restart_state.reason.abnormal
            and reason is SHUTDOWN
        ):
            extras.ending = restart_state.reason  # what it waited for does not come: that is how it ended
        restart_state.comes_back = comes_back
    record.phase = LEAVING
    if extras.ending is None:
        extras.ending = reason
    gently = extras.ending is not KILLED
    was_running = record.state == RUNNING
    if record.state in (CREATED, STARTING) and not extras.has_run():
        extras.never_ran = True
    if gently:
        life.enter(record, STOPPING)
    if comes_back:
        cell.hold()  # what comes from now on may be for its next incarnation
    else:
        cell.close()
    if gently and was_running:
        yield from attempt_hook(record, "pre_stop", PreStop())
    yield from _leave(life, cell, record, gently, comes_back)


def after_pre_stop(life: ActorHost, cell: Cell, record: ActorRecord, pre_stop: Procedure) -> Procedure:
    """Go on with the ending of an actor that does not come back from its `pre_stop`."""
    yield from attempt(record, "pre_stop", pre_stop)
    yield from _leave(life, cell, record, gently=True, comes_back=False)


def _leave(life: ActorHost, cell: Cell, record: ActorRecord, gently: bool, comes_back: bool) -> Procedure:
    """Steps 5 and 6."""
    extras = record.ensure_extras()
    # A restart after a kill keeps the queue; so does one of actors that are restarted together, whatever ended them.
    is_kept = comes_back and (not gently or (extras.restart_state is not None and extras.restart_state.is_held_back))
    if not is_kept:
        drain(cell, extras, "stopped", keeps_notices=comes_back)
    record.phase = WAITING
    if record.child_list is not None and record.child_list.count > 0:
        life.set_deadline(cell, record)
        end_children(life, record, SHUTDOWN if extras.ending is not KILLED else KILLED)
    else:
        yield from close(life, cell, record)


def is_to_come_back(life: ActorHost, record: ActorRecord, reason: ExitReason) -> bool:
    """Whether a supervisor's child rests after such an end, to be started again."""
    restart_state = restart_state_of(record)
    if restart_state.supervisor is None or restart_state.final or life.closed:
        return False
    parent = record.cell.ref._parent
    if parent is not None and parent._cell.record.phase != NONE:
        return False
    return restart_state.supervisor.wants(reason.kind)


def _end_all_the_more(life: ActorHost, cell: Cell, record: ActorRecord, extras: Extras, reason: ExitReason) -> None:
    """It is told to end while it does, or while it leaves to be restarted, which it then is not."""
    restart_state = extras.restart_state
    if restart_state is not None and restart_state.comes_back and not is_to_come_back(life, record, reason):
        restart_state.comes_back = False
        if extras.ending is None:
            extras.ending = reason
        if record.state == RESTARTING and reason is not KILLED:
            life.enter(record, STOPPING)
        cell.close()
        drain(cell, extras, "stopped")
    if reason is KILLED:
        if restart_state is None or not restart_state.comes_back:
            extras.ending = KILLED
        end_children(life, record, KILLED)


def end_children(life: ActorHost, record: ActorRecord, reason: ExitReason) -> None:
    """Tell them all at once, the youngest first; those of a supervisor one after the other, unless they are killed."""
    if record.child_list is None or record.child_list.count == 0:
        return
    if record.ensure_extras().orderly and reason is not KILLED:
        _hand_down_reason(record, record.child_list.youngest())
        _end_child(life, record.child_list.youngest())
        return
    for child in reversed(record.child_list.records()):
        if reason is not KILLED:
            _hand_down_reason(record, child)
        life.request_end(child.cell, reason)


def _hand_down_reason(record: ActorRecord, child: ActorRecord) -> None:
    """A meta-process ends as its parent does; or, if that is restarted, with the cause of it."""
    if type(child.cell.ref) is not Alias:
        return
    extras = record.ensure_extras()
    reason: ExitReason | None = extras.ending
    restart_state = extras.restart_state
    if reason is None and restart_state is not None and restart_state.cause is not None:
        reason = ExitReason.of(restart_state.cause)
    of_child = child.ensure_extras()
    if of_child.ending is None and child.phase == NONE:
        of_child.ending = reason


def _end_child(life: ActorHost, child: ActorRecord) -> None:
    """Tell a supervisor's child: it may have no time at all."""
    restart_state = child.ensure_extras().restart_state
    at_once = restart_state is not None and restart_state.patience is not None and restart_state.patience <= 0.0
    life.request_end(child.cell, KILLED if at_once else SHUTDOWN)


def close(life: ActorHost, cell: Cell, record: ActorRecord) -> Procedure:
    """Steps 8 to 15: the children are gone."""
    extras = record.ensure_extras()
    if record.phase == CLOSING:
        return
    record.phase = CLOSING
    life.clear_deadline(record)
    if cell.handler is not None:
        if cell.task is not None:  # a hook before this one has suspended, and nobody is told of it twice
            life.set_deadline(cell, record)
        yield from attempt_hook(record, "post_stop", PostStop())
    elif type(cell.ref) is Alias:  # what it was spawned with holds sockets and files already
        yield from do(record, record.args[0].end_unstarted, extras.ending)
    life.conclude(cell, record)


def after_post_stop(life: ActorHost, cell: Cell, record: ActorRecord, post_stop: Procedure) -> Procedure:
    """Go on from `post_stop`."""
    yield from attempt(record, "post_stop", post_stop)
    life.conclude(cell, record)


def let_go(record: ActorRecord, extras: Extras) -> None:
    """Steps 9 and 10: nothing of it is under way any more, and nobody has it on a list."""
    if extras.receive_timer is not None:
        extras.receive_timer.stop()
        extras.receive_timer = None
    pipes, extras.pipes = extras.pipes, {}
    for task in pipes:
        task.cancel()
    unwatch_fds(extras)
    unwatch_all(record)
    if extras.monitors is not None:
        extras.monitors.end_all(record)
    # What it became may refer to it: without these it is freed at once.
    extras.behaviors.clear()
    extras.on_signal = extras.stash = extras.keyed = None
    extras.answers = ()


def unwatch_fds(extras: Extras) -> None:
    """Nothing more is heard of the descriptors it watched."""
    for watch in list(extras.fd_watches.values()) if extras.fd_watches is not None else ():
        watch.cancel()


def tell(extras: Extras, reason: ExitReason) -> None:
    """Step 15, in part: replies it owed fail, and those who await it are told."""
    deferred, extras.deferred = extras.deferred, {}
    for question in list(deferred):
        question.end_with(reason)
    waiters, extras.waiters = extras.waiters, []
    for waiter in waiters:
        waiter.ended(waiter, reason)
