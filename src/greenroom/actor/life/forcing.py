"""What happens to those that do not end in time: cancelled, then abandoned, and named."""

from __future__ import annotations

from collections import deque
from functools import partial
from math import inf
from typing import TYPE_CHECKING

from greenroom._core.flags import RESUME
from greenroom._core.itemkinds import MESSAGE, STASHED
from greenroom._core.mailbox.cell import Cell
from greenroom.actor.life.machine import BREAK_OFF, KILL
from greenroom.actor.records.record import ActorRecord, Extras
from greenroom.actor.records.restartstate import incarnation_of
from greenroom.actor.records.states import COMES_BACK, GOES_DOWN, WAITS_FOR_CHILDREN, Stage
from greenroom.errors import StartTimeout
from greenroom.exits import KILLED
from greenroom.runtimelog import RuntimeLog

if TYPE_CHECKING:
    from greenroom.actor.lifecycle import Lifecycle

__all__ = ["GRACE", "Deadline", "ForcedActors", "abandon", "cancel_handler", "limit_start", "patience_of"]

_log = RuntimeLog()

STARTING = int(Stage.STARTING)

GRACE = 1.0
"""Seconds that a cancelled handler has before it is abandoned."""
KEPT = 500
"""How many paths of forced actors are kept from the beginning of a system's life, and as many from its end."""


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
        cell.order(KILL)
    else:
        cell.order(BREAK_OFF)


def _goes_on(life: Lifecycle, cell: Cell, record: ActorRecord) -> bool:
    """Whether the actor fails or is restarted when its handler is out of the way, and does not end."""
    if not GOES_DOWN[record.stage]:
        return record.reason is None and not life.is_told_to_stop(cell)
    return COMES_BACK[record.stage]
