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

from collections import deque
from functools import partial
from math import inf
from typing import TYPE_CHECKING

from greenroom._core.flags import RESUME
from greenroom._core.itemkinds import MESSAGE, STASHED
from greenroom.actor.life import machine
from greenroom.actor.life.hooks import do
from greenroom.actor.life.machine import Event
from greenroom.actor.life.starting import HALT
from greenroom.actor.messaging.drain import drain
from greenroom.actor.messaging.ref import Alias
from greenroom.actor.messaging.signals import PostStop, PreStop
from greenroom.actor.records.record import ActorRecord
from greenroom.actor.records.restartstate import incarnation_of, restart_state_of
from greenroom.actor.records.states import COMES_BACK, GOES_DOWN, WAITS_FOR_CHILDREN, Stage
from greenroom.errors import StartTimeout
from greenroom.exits import FORCED, KILLED, SHUTDOWN, ExitReason
from greenroom.runtimelog import RuntimeLog

if TYPE_CHECKING:
    from greenroom._core.mailbox.cell import Cell
    from greenroom.actor.lifecycle import Lifecycle
    from greenroom.actor.records.record import Extras

_log = RuntimeLog()

GRACE = 1.0
"""Seconds that a cancelled handler has before it is abandoned."""
KEPT = 500
"""How many paths of forced actors are kept from the beginning of a system's life, and as many from its end."""

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


# -- what happens to those that do not end in time: cancelled, then abandoned, and named


class ForcedActors:
    """How many actors were forced to end, and the paths of the first and the last of them."""

    __slots__ = ("_first", "_known", "_last", "_sweep_at", "count")

    def __init__(self) -> None:
        self.count = 0
        self._first: dict[str, None] = {}
        self._last: deque[str] = deque(maxlen=KEPT)
        # Invariant: has the actors that are forced at present: one may be noted several times until it has ended
        self._known: dict[Cell, None] = {}
        self._sweep_at = KEPT

    def note(self, cell: Cell) -> None:
        if cell in self._known:
            return
        if len(self._known) >= self._sweep_at:
            self._known = {one: None for one in self._known if isinstance(one.record, ActorRecord)}
            self._sweep_at = max(KEPT, 2 * len(self._known))
        self._known[cell] = None
        self.count += 1
        path = cell.name()
        if len(self._first) < KEPT:
            self._first[path] = None
        else:
            self._last.append(path)

    def paths(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((*self._first, *self._last)))


class Deadline:
    """An alarm that forces an actor to end, if it has not by then."""

    __slots__ = ("_alarm", "_cancelled", "_cell", "is_last")

    def __init__(self, cell: Cell, seconds: float, cancelled: bool = False, is_last: bool = False) -> None:
        self._cell = cell
        # Whether the next one is not put off, even if the handler is about to go on.
        self.is_last = is_last
        # What has been cancelled already, and is abandoned next.
        self._cancelled: object = cell.task.get_coro() if cancelled else None
        self._alarm = cell.loop.call_later(seconds, self._ring)

    @property
    def cancelled(self) -> bool:
        return self._cancelled is not None

    def is_over(self) -> bool:
        """Whether the handler that was cancelled has ended: the next one gets a deadline of its own."""
        task = self._cell.task
        return self._cancelled is not None and (task is None or task.get_coro() is not self._cancelled)

    def cancel(self) -> None:
        self._alarm.cancel()

    def _ring(self) -> None:
        record = self._cell.record
        if isinstance(record, ActorRecord):
            _force(self._cell.loop.host, self._cell, record)


def _start_is_over(cell: Cell, incarnation: int, seconds: float) -> None:
    """Cancel a start that took too long: the actor fails with StartTimeout."""
    record = cell.record
    life = cell.loop.host
    if (
        isinstance(record, ActorRecord)
        and record.stage == STARTING
        and incarnation_of(record) == incarnation
        and cell.task is not None
        and not life.is_told_to_stop(cell)  # that has a deadline of its own
    ):
        life.request_failure(cell, StartTimeout(cell.shown(), seconds))
        cancel_handler(life, cell, record.ensure_extras())


def limit_start(life: Lifecycle, cell: Cell, record: ActorRecord) -> None:
    """Fail a start that waits longer than `start_timeout`; a supervisor waits for children that have their own."""
    seconds = life.system.config.start_timeout
    extras = record.ensure_extras()
    if extras.start_deadline is None and seconds is not None and seconds < inf and not extras.orderly:
        extras.start_deadline = life.loop.call_later(
            seconds, partial(_start_is_over, cell, incarnation_of(record), seconds)
        )


def patience_of(life: Lifecycle, record: ActorRecord) -> float:
    """Seconds that the actor has to end; inf for no limit."""
    extras = record.ensure_extras()
    if record.reason is KILLED:
        return GRACE
    restart_state = extras.restart_state
    supervisor = None if restart_state is None else restart_state.supervisor
    if supervisor is not None and supervisor.time_to_stop is not None:
        return supervisor.time_to_stop
    if extras.orderly and WAITS_FOR_CHILDREN[record.stage]:
        return inf  # the children of a supervisor have times of their own
    own: float | None = record.settings().stop_timeout
    return life.system.config.stop_timeout if own is None else own


def _force(life: Lifecycle, cell: Cell, record: ActorRecord) -> None:
    """Cancel the handler, or abandon it if that was done; without a handler, kill the children."""
    extras = record.ensure_extras()
    if not GOES_DOWN[record.stage] and record.reason is None and not life.is_told_to_change(cell):
        extras.deadline = None  # what it was set for has been settled in another way
        return
    if cell.task is not None:
        fields = life.log_fields(cell)
        what = "stop"
        if _goes_on(life, cell, record):
            what = "come to its restart"
        else:
            life.note_forced(cell)
        deadline = extras.deadline
        if deadline is not None and deadline.cancelled and not deadline.is_over():
            if cell.flags & RESUME and not deadline.is_last:
                # It is about to go on, perhaps to its end: the loop was held up, and not the handler.
                extras.deadline = Deadline(cell, 0.0, cancelled=True, is_last=True)
                return
            told = "%s did not %s though its handler was cancelled: it is abandoned"
            _log.warning(told, cell.name(), what, extra=fields)
            abandon(life, cell)
        else:
            _log.warning("%s did not %s in time: its handler is cancelled", cell.name(), what, extra=fields)
            extras.deadline = Deadline(cell, GRACE, cancelled=True)
            cell.task.cancel()
    elif record.child_list is not None:
        is_killed = patience_of(life, record) <= 0.0  # then they have no time to miss
        for child in reversed(record.child_list.records()):
            life.note_forced(child.cell)
            if not is_killed:
                fields = life.log_fields(child.cell)
                _log.warning("%s did not stop in time, and is killed", child.cell.name(), extra=fields)
            life.request_end(child.cell, KILLED)
        extras.deadline = Deadline(cell, GRACE)


def cancel_handler(life: Lifecycle, cell: Cell, extras: Extras) -> None:
    """Cancel the suspended handler, once; `GRACE` later it is abandoned."""
    if extras.deadline is None or not extras.deadline.cancelled or extras.deadline.is_over():
        if extras.deadline is not None:
            extras.deadline.cancel()
        extras.deadline = Deadline(cell, GRACE, cancelled=True)
        cell.task.cancel()


def abandon(life: Lifecycle, cell: Cell) -> None:
    """Drop the suspended handler or hook of an actor, which then ends, fails or is restarted."""
    record = cell.record
    extras = record.ensure_extras()
    was_handler = cell.task.kind in (MESSAGE, STASHED)
    goes_on = _goes_on(life, cell, record)
    if not goes_on:
        record.reason = KILLED
    extras.abandoned = True
    stands_in_queue = cell.flags & RESUME != 0  # what it waited for has come, and its turn has not
    life.loop.visits.abandon(cell)
    cell.idle = not stands_in_queue
    if goes_on:
        life.clear_deadline(record)
        extras.abandoned = False
    if not was_handler:
        cell.put_code(None, cell.subject)  # a hook hung: none is called any more
    if goes_on and not GOES_DOWN[record.stage]:
        cell.make_runnable()  # for the order that waits
    elif was_handler:
        cell.order(machine.KILL)
    else:
        cell.order(machine.BREAK_OFF)


def _goes_on(life: Lifecycle, cell: Cell, record: ActorRecord) -> bool:
    """Whether the actor fails or is restarted when its handler is out of the way, and does not end."""
    if not GOES_DOWN[record.stage]:
        return record.reason is None and not life.is_told_to_stop(cell)
    return COMES_BACK[record.stage]
