"""What happens to those that do not end in time: cancelled, then abandoned, and named."""

from __future__ import annotations

from collections import deque
from math import inf
from typing import TYPE_CHECKING

from greenroom._core.flags import RESUME
from greenroom._core.itemkinds import MESSAGE, STASHED
from greenroom._core.mailbox.cell import Cell
from greenroom._core.timing.timers import Alarm
from greenroom.actor.life import ending
from greenroom.actor.messaging.drain import drain
from greenroom.actor.messaging.timers import set_alarm
from greenroom.actor.records.record import ActorRecord, Extras
from greenroom.actor.records.restartstate import incarnation_of
from greenroom.actor.records.states import State
from greenroom.errors import StartTimeout
from greenroom.exits import KILLED
from greenroom.runtimelog import RuntimeLog

if TYPE_CHECKING:
    from greenroom.actor.records.ports import ActorHost

__all__ = ["GRACE", "Deadline", "ForcedActors", "abandon", "cancel_handler", "limit_start", "patience_of"]

_log = RuntimeLog()

STARTING = State.STARTING.code

GRACE = 1.0
"""Seconds that a cancelled handler has before it is abandoned."""
KEPT = 500
"""How many paths of forced actors are kept from the beginning of a system's life, and as many from its end."""


class ForcedActors:
    """Those that had to be forced to end: how many, and the paths of the first and the last of them."""

    __slots__ = ("_first", "_known", "_last", "_sweep_at", "count")

    def __init__(self) -> None:
        self.count = 0
        self._first: dict[str, None] = {}
        self._last: deque[str] = deque(maxlen=KEPT)
        # Invariant: has those that are forced at present, for one may be noted several times until it has ended
        self._known: dict[Cell, None] = {}
        self._sweep_at = KEPT

    def note(self, cell: Cell) -> None:
        """Remember an actor, once."""
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
        """The first of them, and the last."""
        return tuple(dict.fromkeys((*self._first, *self._last)))


class Deadline(Alarm):
    """Forces an actor to end."""

    __slots__ = ("_cancelled", "_cell", "is_last")

    def __init__(self, cell: Cell, seconds: float, cancelled: bool = False, is_last: bool = False) -> None:
        self._cell = cell
        # Whether the next one is not put off, even if the handler is about to go on.
        self.is_last = is_last
        # What has been cancelled already, and is abandoned next.
        self._cancelled: object = cell.task.get_coro() if cancelled else None
        set_alarm(cell.loop, self, cell.loop.now() + seconds)

    @property
    def cancelled(self) -> bool:
        """Whether something was cancelled for it."""
        return self._cancelled is not None

    def is_over(self) -> bool:
        """Whether what was cancelled for it has ended: the next has a deadline of its own."""
        task = self._cell.task
        return self._cancelled is not None and (task is None or task.get_coro() is not self._cancelled)

    def ring(self, admission: object) -> None:
        """The time is up."""
        record = self._cell.record
        if isinstance(record, ActorRecord):
            _force(self._cell.loop.host, self._cell, record)


class StartDeadline(Alarm):
    """Cancels the start of an actor, which then fails: whoever supervises it decides."""

    __slots__ = ("_cell", "_incarnation", "_seconds")

    def __init__(self, cell: Cell, incarnation: int, seconds: float) -> None:
        self._cell = cell
        self._incarnation = incarnation
        self._seconds = seconds
        set_alarm(cell.loop, self, cell.loop.now() + seconds)

    def ring(self, admission: object) -> None:
        """The time is up."""
        cell = self._cell
        record = cell.record
        life = cell.loop.host
        if (
            isinstance(record, ActorRecord)
            and record.state == STARTING
            and incarnation_of(record) == self._incarnation
            and cell.task is not None
            and not life.is_told_to_stop(cell)  # that has a deadline of its own
        ):
            life.request_failure(cell, StartTimeout(cell.shown(), self._seconds))
            cancel_handler(life, cell, record.ensure_extras())


def limit_start(life: ActorHost, cell: Cell, record: ActorRecord) -> None:
    """The start of an actor waits for something: it must not for ever. A supervisor waits for its children, which have
    deadlines of their own.
    """
    seconds = life.port.config.start_timeout
    extras = record.ensure_extras()
    if extras.start_deadline is None and seconds is not None and seconds < inf and not extras.orderly:
        extras.start_deadline = StartDeadline(cell, incarnation_of(record), seconds)


def patience_of(life: ActorHost, record: ActorRecord) -> float:
    """Seconds that an actor has to end; inf for as long as it likes."""
    extras = record.ensure_extras()
    if extras.ending is KILLED:
        return GRACE
    restart_state = extras.restart_state
    if restart_state is not None and restart_state.patience is not None:
        return restart_state.patience
    if extras.orderly and record.phase == ending.WAITING:
        return inf  # the children of a supervisor have times of their own
    own: float | None = record.settings().stop_timeout
    return life.port.config.stop_timeout if own is None else own


def _force(life: ActorHost, cell: Cell, record: ActorRecord) -> None:
    """The deadline has passed: cancel the handler, then abandon it; kill the children that it waits for."""
    extras = record.ensure_extras()
    if record.phase == ending.NONE and extras.ending is None and not life.is_told_to_change(cell):
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
        is_killed = patience_of(life, record) <= 0.0  # then nobody has given them time
        for child in reversed(record.child_list.records()):
            life.note_forced(child.cell)
            if not is_killed:
                fields = life.log_fields(child.cell)
                _log.warning("%s did not stop in time, and is killed", child.cell.name(), extra=fields)
            life.request_end(child.cell, KILLED)
        extras.deadline = Deadline(cell, GRACE)


def cancel_handler(life: ActorHost, cell: Cell, extras: Extras) -> None:
    """Cancel what is suspended, once; it is abandoned if it has not ended a while later."""
    if extras.deadline is None or not extras.deadline.cancelled or extras.deadline.is_over():
        if extras.deadline is not None:
            extras.deadline.disarm(life.loop.timers)
        extras.deadline = Deadline(cell, GRACE, cancelled=True)
        cell.task.cancel()


def abandon(life: ActorHost, cell: Cell) -> None:
    """Break off the suspended handler or hook of an actor, and end it; or go on with its restart."""
    record = cell.record
    extras = record.ensure_extras()
    was_handler = cell.task.kind in (MESSAGE, STASHED)
    goes_on = _goes_on(life, cell, record)
    if not goes_on:
        extras.ending = KILLED
    extras.abandoned = True
    stands_in_queue = cell.flags & RESUME != 0  # what it waited for has come, and its turn has not
    life.loop.visits.abandon(cell)
    cell.idle = not stands_in_queue
    if goes_on:
        life.clear_deadline(record)
        extras.abandoned = False
    if not was_handler:
        cell.put_code(None, cell.subject)  # a hook hung: none is called any more
    if record.phase == ending.NONE and goes_on:
        cell.make_runnable()  # for the order that waits
    elif was_handler:
        life.order_kill(cell)
    else:
        if not goes_on:
            cell.close()
            drain(cell, extras, "stopped")
        record.phase = ending.WAITING
        if record.child_list is None or record.child_list.count == 0:
            life.order_close(cell)
        elif goes_on:
            life.set_deadline(cell, record)
            ending.end_children(life, record, KILLED)
        else:
            life.order_kill(cell)


def _goes_on(life: ActorHost, cell: Cell, record: ActorRecord) -> bool:
    """Whether the actor is not to end, but to fail or to be restarted, when its handler is out of the way."""
    extras = record.ensure_extras()
    if record.phase == ending.NONE:
        return extras.ending is None and not life.is_told_to_stop(cell)
    return extras.restart_state is not None and extras.restart_state.comes_back
