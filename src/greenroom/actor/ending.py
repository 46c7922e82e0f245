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
14  replies it owed fail; its watchers, its parent, and those who await its end are told
15  observers are told

A kill goes straight to TERMINATED: 4 is left out. An actor that never started has only 3, 5 and 9 to 15.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from greenroom._core.cell import Cell
from greenroom._core.timers import Alarm
from greenroom.actor.body import Body, More
from greenroom.actor.drain import drain
from greenroom.actor.procedures import Procedure, attempt_hook
from greenroom.actor.signals import PostStop, PreStop
from greenroom.actor.states import State
from greenroom.actor.watch import unwatch_all
from greenroom.exits import KILLED, SHUTDOWN, ExitReason

if TYPE_CHECKING:
    from greenroom.actor.lifecycle import Lifecycle

__all__ = ["GRACE", "Deadline", "close", "end", "end_children"]

_log = logging.getLogger("greenroom")

CREATED = State.CREATED.code
STARTING = State.STARTING.code
RUNNING = State.RUNNING.code
STOPPING = State.STOPPING.code
# Phases of an ending.
NONE = 0
LEAVING = 1
WAITING = 2
CLOSING = 3

GRACE = 1.0
"""Seconds that a cancelled handler has before it is abandoned."""


class Deadline(Alarm):
    """Forces an actor to end."""

    __slots__ = ("_cell", "cancelled")

    def __init__(self, cell: Cell, seconds: float, cancelled: bool = False) -> None:
        self._cell = cell
        # Whether the handler has been cancelled already, and is abandoned next.
        self.cancelled = cancelled
        loop = cell.loop
        self.set_up_alarm(loop.now() + seconds)
        loop.timers.add(self)
        if loop.runq.asleep:
            loop.runq.wake()  # to sleep again, but not past this deadline

    def ring(self, door: object) -> None:
        """The time is up."""
        body: Any = self._cell.body
        if isinstance(body, Body):
            force(self._cell.loop.host, self._cell, body)


def end(life: Lifecycle, cell: Cell, body: Body, reason: ExitReason) -> Procedure:
    """Steps 3 to 6, and the rest if there are no children to wait for."""
    more = body.extra()
    if more.phase != NONE:
        if reason is KILLED:
            more.ending = KILLED
            end_children(life, body, KILLED)
        return
    more.phase = LEAVING
    if more.ending is None:
        more.ending = reason
    gently = more.ending is not KILLED
    was_running = body.state == RUNNING
    if body.state in (CREATED, STARTING):
        more.never_ran = True
    if gently:
        life.enter(body, STOPPING)
    cell.close()
    if gently and was_running:
        yield from attempt_hook(body, "pre_stop", PreStop())
    drain(cell, more, "stopped")
    more.phase = WAITING
    if body.family is not None and body.family.count > 0:
        life.set_deadline(cell, body)
        end_children(life, body, SHUTDOWN if more.ending is not KILLED else KILLED)
    else:
        yield from close(life, cell, body)


def end_children(life: Lifecycle, body: Body, reason: ExitReason) -> None:
    """Tell them all at once, the youngest first."""
    if body.family is not None:
        for child in reversed(body.family.bodies()):
            life.request_end(child.cell, reason)


def close(life: Lifecycle, cell: Cell, body: Body) -> Procedure:
    """Steps 8 to 15: the children are gone."""
    more = body.extra()
    if more.phase == CLOSING:
        return
    more.phase = CLOSING
    life.clear_deadline(body)
    if cell.handler is not None:
        yield from attempt_hook(body, "post_stop", PostStop())
    life.finish(cell, body, more.ending)


def force(life: Lifecycle, cell: Cell, body: Body) -> None:
    """The deadline has passed: cancel the handler, then abandon it; kill the children that it waits for."""
    more = body.extra()
    if cell.task is not None:
        life.note_forced(cell)
        if more.deadline.cancelled:
            _log.warning("%s did not stop though its handler was cancelled: it is abandoned", cell.name())
            life.abandon(cell)
        else:
            _log.warning("%s did not stop in time: its handler is cancelled", cell.name())
            more.deadline = Deadline(cell, GRACE, cancelled=True)
            cell.task.cancel()
    elif body.family is not None:
        for child in reversed(body.family.bodies()):
            life.note_forced(child.cell)
            _log.warning("%s did not stop in time, and is killed", child.cell.name())
            life.request_end(child.cell, KILLED)
        more.deadline = Deadline(cell, GRACE)


def let_go(body: Body, more: More) -> None:
    """Steps 9 and 10: nothing of it is under way any more, and nobody has it on a list."""
    if more.quiet is not None:
        more.quiet.stop()
        more.quiet = None
    pipes, more.pipes = more.pipes, {}
    for task in pipes:
        task.cancel()
    unwatch_all(body)
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
