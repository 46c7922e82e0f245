"""What happens to those that do not end in time: cancelled, then abandoned, and named."""

from __future__ import annotations

import logging
from math import inf
from typing import TYPE_CHECKING, Any

from greenroom._core.mailbox.cell import Cell
from greenroom._core.itemkinds import MESSAGE, STASHED
from greenroom._core.timing.timers import Alarm
from greenroom.actor.life import ending
from greenroom.actor.records.record import Body, More
from greenroom.actor.messaging.drain import drain
from greenroom.actor.messaging.timers import set_alarm
from greenroom.exits import KILLED

if TYPE_CHECKING:
    from greenroom.actor.lifecycle import Lifecycle

__all__ = ["GRACE", "Deadline", "abandon", "cancel_handler", "patience_of"]

_log = logging.getLogger("greenroom")

GRACE = 1.0
"""Seconds that a cancelled handler has before it is abandoned."""


class Deadline(Alarm):
    """Forces an actor to end."""

    __slots__ = ("_cancelled", "_cell")

    def __init__(self, cell: Cell, seconds: float, cancelled: bool = False) -> None:
        self._cell = cell
        # What has been cancelled already, and is abandoned next.
        self._cancelled: Any = cell.task.get_coro() if cancelled else None
        set_alarm(cell.loop, self, cell.loop.now() + seconds)

    @property
    def cancelled(self) -> bool:
        """Whether something was cancelled for it."""
        return self._cancelled is not None

    def is_over(self) -> bool:
        """Whether what was cancelled for it has ended: the next has a deadline of its own."""
        task = self._cell.task
        return self._cancelled is not None and (task is None or task.get_coro() is not self._cancelled)

    def ring(self, door: object) -> None:
        """The time is up."""
        body: Any = self._cell.body
        if isinstance(body, Body):
            _force(self._cell.loop.host, self._cell, body)


def patience_of(life: Lifecycle, more: More) -> float:
    """Seconds that an actor has to end; inf for as long as it likes."""
    if more.ending is KILLED:
        return GRACE
    standing = more.standing
    if standing is not None and standing.patience is not None:
        own: float = standing.patience
        return own
    # The children of a supervisor have times of their own.
    return inf if more.orderly and more.phase == ending.WAITING else life.port.stop_timeout


def _force(life: Lifecycle, cell: Cell, body: Body) -> None:
    """The deadline has passed: cancel the handler, then abandon it; kill the children that it waits for."""
    more = body.extra()
    if more.phase == ending.NONE and more.ending is None and not life.is_told_to_change(cell):
        more.deadline = None  # what it was set for has been settled in another way
        return
    if cell.task is not None:
        fields = life.log_fields(cell)
        what = "stop"
        if _goes_on(life, cell, more):
            what = "come to its restart"
        else:
            life.note_forced(cell)
        if more.deadline.cancelled and not more.deadline.is_over():
            told = "%s did not %s though its handler was cancelled: it is abandoned"
            _log.warning(told, cell.name(), what, extra=fields)
            abandon(life, cell)
        else:
            _log.warning("%s did not %s in time: its handler is cancelled", cell.name(), what, extra=fields)
            more.deadline = Deadline(cell, GRACE, cancelled=True)
            cell.task.cancel()
    elif body.family is not None:
        for child in reversed(body.family.bodies()):
            life.note_forced(child.cell)
            fields = life.log_fields(child.cell)
            _log.warning("%s did not stop in time, and is killed", child.cell.name(), extra=fields)
            life.request_end(child.cell, KILLED)
        more.deadline = Deadline(cell, GRACE)


def cancel_handler(life: Lifecycle, cell: Cell, more: More) -> None:
    """Cancel what is suspended, once; it is abandoned if it has not ended a while later."""
    if more.deadline is None or not more.deadline.cancelled or more.deadline.is_over():
        if more.deadline is not None:
            more.deadline.disarm(life.loop.timers)
        more.deadline = Deadline(cell, GRACE, cancelled=True)
        cell.task.cancel()


def abandon(life: Lifecycle, cell: Cell) -> None:
    """Break off the suspended handler or hook of an actor, and end it; or go on with its restart."""
    body = cell.body
    more = body.extra()
    was_handler = cell.task.kind in (MESSAGE, STASHED)
    goes_on = _goes_on(life, cell, more)
    if not goes_on:
        more.ending = KILLED
    more.abandoned = True
    life.loop.visits.abandon(cell)
    cell.idle = True
    if goes_on:
        life.clear_deadline(body)
        more.abandoned = False
    if not was_handler:
        cell.handler = None  # a hook hung: none is called any more
    if more.phase == ending.NONE and goes_on:
        cell.make_runnable()  # for the order that waits
    elif was_handler:
        life.order_kill(cell)
    else:
        if not goes_on:
            cell.close()
            drain(cell, more, "stopped")
        more.phase = ending.WAITING
        if body.family is None or body.family.count == 0:
            life.order_close(cell)
        elif goes_on:
            life.set_deadline(cell, body)
            ending.end_children(life, body, KILLED)
        else:
            life.order_kill(cell)


def _goes_on(life: Lifecycle, cell: Cell, more: More) -> bool:
    """Whether the actor is not to end, but to fail or to be restarted, when its handler is out of the way."""
    if more.phase == ending.NONE:
        return more.ending is None and not life.is_told_to_stop(cell)
    return more.standing is not None and more.standing.comes_back
