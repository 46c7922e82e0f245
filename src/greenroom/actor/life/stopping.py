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
meta-process has 8 all the same. `machine` has the order of steps 3 to 9; 9 to 15 are `Lifecycle.finish`.

A supervisor's child that is to come back takes steps 3 to 8 too, but its mailbox is held and not closed: what is sent
meanwhile waits for its next incarnation. Then it rests, as `restarting` says.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from greenroom.actor.life.hooks import do
from greenroom.actor.life.machine import Event
from greenroom.actor.life.starting import HALT
from greenroom.actor.messaging.drain import drain
from greenroom.actor.messaging.ref import Alias
from greenroom.actor.messaging.signals import PostStop, PreStop
from greenroom.actor.records.restartstate import incarnation_of, restart_state_of
from greenroom.actor.records.states import COMES_BACK, GOES_DOWN, Stage
from greenroom.exits import FORCED, KILLED, SHUTDOWN, ExitReason

if TYPE_CHECKING:
    from greenroom._core.mailbox.cell import Cell
    from greenroom.actor.lifecycle import Lifecycle
    from greenroom.actor.records.record import ActorRecord, Extras

__all__ = [
    "close",
    "drain_all",
    "drain_messages",
    "end",
    "end_belongings",
    "end_children",
    "finish",
    "is_to_come_back",
    "is_wanted_back",
    "kill_children",
    "must_end",
    "post_stop",
    "pre_stop",
    "tell",
]

CREATED = int(Stage.CREATED)
STARTING = int(Stage.STARTING)
RESTING = int(Stage.RESTING)
PAUSE = int(Event.PAUSE)
STOP = int(Event.STOP)
KILL_AND_RESTART = int(Event.KILL_AND_RESTART)
KILL = int(Event.KILL)
PRE_STOP = PreStop()
POST_STOP = PostStop()


def end(life: Lifecycle, cell: Cell, record: ActorRecord, reason: ExitReason) -> object:
    """The order of step 1: decide whether the actor will come back, and with what reason it ends."""
    extras = record.extras
    stage = record.stage
    is_first = not GOES_DOWN[stage]
    if is_first and extras is not None and extras.forced and reason is not KILLED:
        reason = FORCED
    judged = record.reason if is_first and record.reason is not None else reason
    comes_back = (
        extras is not None
        and extras.restart_state is not None
        and (is_first or COMES_BACK[stage])
        and is_to_come_back(life, record, judged)
    )
    if stage == RESTING:
        if comes_back:
            record.reason = None
            return None  # it has ended already
        before = restart_state_of(record).reason
        if before is not None and before.abnormal and reason is SHUTDOWN:
            record.reason = before  # what it waited for does not come: that is how it ended
    if stage in (CREATED, STARTING) and incarnation_of(record) == 1:
        record.ensure_extras().never_ran = True
    is_new = record.reason is None or (reason is KILLED and not is_first)
    if is_new and (is_first or not comes_back):
        record.reason = reason
    if record.reason is KILLED if is_first else reason is KILLED:
        event = KILL_AND_RESTART if comes_back else KILL
    else:
        event = PAUSE if comes_back else STOP
    return life.advance(cell, record, event)


def is_to_come_back(life: Lifecycle, record: ActorRecord, reason: ExitReason) -> bool:
    """Whether a supervisor's child rests after such an end, to be started again."""
    return is_wanted_back(record, reason) and not must_end(life, record)


def is_wanted_back(record: ActorRecord, reason: ExitReason) -> bool:
    restart_state = restart_state_of(record)
    supervisor = restart_state.supervisor
    return supervisor is not None and not restart_state.final and supervisor.wants(reason.kind)


def must_end(life: Lifecycle, record: ActorRecord) -> bool:
    """Whether the actor's parent or the system is ending, and the actor with it."""
    parent = record.cell.ref._parent
    return life.closed or (parent is not None and GOES_DOWN[parent._cell.record.stage])


def close(life: Lifecycle, cell: Cell, record: ActorRecord) -> None:
    """Step 3."""
    cell.close()


def pre_stop(life: Lifecycle, cell: Cell, record: ActorRecord) -> object:
    """Step 4."""
    return life.try_hook(cell, record, "pre_stop", PRE_STOP)


def drain_all(life: Lifecycle, cell: Cell, record: ActorRecord) -> None:
    """Step 5."""
    if record.extras is not None or cell.queued():
        drain(cell, record.extras, "stopped")


def drain_messages(life: Lifecycle, cell: Cell, record: ActorRecord) -> None:
    """Step 5, of one that comes back: those that are restarted together keep their queues."""
    if not restart_state_of(record).released_by_supervisor:
        drain(cell, record.extras, "stopped", keeps_notices=True)


def end_children(life: Lifecycle, cell: Cell, record: ActorRecord) -> object:
    """Steps 6 and 7."""
    return _end_children(life, cell, record, KILLED if record.reason is KILLED else SHUTDOWN)


def kill_children(life: Lifecycle, cell: Cell, record: ActorRecord) -> object:
    """Steps 6 and 7, without giving them time."""
    return _end_children(life, cell, record, KILLED)


def _end_children(life: Lifecycle, cell: Cell, record: ActorRecord, reason: ExitReason) -> object:
    if record.child_list is None or record.child_list.count == 0:
        return None
    life.set_deadline(cell, record)
    tell_children(life, record, reason)
    return HALT


def tell_children(life: Lifecycle, record: ActorRecord, reason: ExitReason) -> None:
    """Tell all children at once, the youngest first; those of a supervisor one by one, unless they are killed."""
    assert record.child_list is not None
    if reason is not KILLED and record.ensure_extras().orderly:
        child = record.child_list.youngest()
        restart_state = child.ensure_extras().restart_state
        _hand_down_reason(record, child)
        supervisor = None if restart_state is None else restart_state.supervisor
        has_no_time = supervisor is not None and supervisor.time_to_stop == 0.0
        life.request_end(child.cell, KILLED if has_no_time else SHUTDOWN)
        return
    for child in reversed(record.child_list.records()):
        if reason is not KILLED:
            _hand_down_reason(record, child)
        life.request_end(child.cell, reason)


def _hand_down_reason(record: ActorRecord, child: ActorRecord) -> None:
    """A meta-process ends with its parent's reason, or with the cause of its parent's restart."""
    if type(child.cell.ref) is not Alias or child.reason is not None or GOES_DOWN[child.stage]:
        return
    child.reason = record.reason
    restart_state = None if record.extras is None else record.extras.restart_state
    if child.reason is None and restart_state is not None and restart_state.cause is not None:
        child.reason = ExitReason.of(restart_state.cause)


def post_stop(life: Lifecycle, cell: Cell, record: ActorRecord) -> object:
    """Step 8."""
    life.clear_deadline(record)
    if cell.handler is not None:
        if cell.task is not None:  # a hook before this one has suspended, and that is reported once
            life.set_deadline(cell, record)
        return life.try_hook(cell, record, "post_stop", POST_STOP)
    if type(cell.ref) is Alias:  # what it was spawned with holds sockets and files already
        return do(record, record.args[0].end_unstarted, record.reason)
    return None


def finish(life: Lifecycle, cell: Cell, record: ActorRecord) -> None:
    """Steps 9 to 15."""
    assert record.reason is not None
    life.finish(cell, record, record.reason)


def end_belongings(record: ActorRecord, extras: Extras) -> None:
    """End the receive timeout, pipes, watches of descriptors, monitors and behaviors of an instance."""
    if extras.receive_timer is not None:
        extras.receive_timer.stop()
    pipes, extras.pipes = extras.pipes, {}
    for task in pipes:
        task.cancel()
    for watch in list(extras.fd_watches.values()) if extras.fd_watches is not None else ():
        watch.cancel()
    if extras.relations is not None:
        extras.relations.end_incarnation(record)
    # A behavior may refer to the actor: without these it is freed at once.
    extras.behaviors.clear()
    extras.on_signal = extras.keyed = None
    extras.answers = ()


def tell(extras: Extras, reason: ExitReason) -> None:
    """Step 15, in part: fail the replies owed, and tell those who wait for the end."""
    deferred, extras.deferred = extras.deferred, {}
    for question in list(deferred):
        question.end_with(reason)
    waiters, extras.waiters = extras.waiters, []
    for waiter in waiters:
        waiter.ended(reason)
