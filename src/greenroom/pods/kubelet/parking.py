"""`park()`: what an actor of a pod does when it has handled what there was, and whether its pod may sleep.

An actor with a method `park` has it called at the end of each cycle that handled something, as the last thing before
the thread would sleep. What it returns says what comes next: `Park.IDLE`, or None, lets the thread sleep until a bell
is rung; `Park.BUSY` has it called again at once, after whatever has come meanwhile; a number, after so many seconds at
most.
"""

from __future__ import annotations

from collections.abc import Awaitable
from enum import Enum
from inspect import isawaitable
from math import inf
from typing import TYPE_CHECKING, Any

from greenroom.actor.failure.reports import FailureSource
from greenroom.actor.records.record import ActorRecord
from greenroom.actor.records.states import Stage

if TYPE_CHECKING:
    from collections.abc import Callable

    from greenroom._core.mailbox.cell import Cell
    from greenroom._core.timing.timers import ScheduledCall

_RUNNING = int(Stage.RUNNING)


class Park(Enum):
    """What `park()` says."""

    IDLE = "idle"
    """Nothing is left to do: sleep until something comes."""
    BUSY = "busy"
    """There is more to do: look whether something has come, and call it again."""


def parks(actor: object) -> bool:
    return callable(getattr(actor, "park", None))


class _AfterTick:
    """Called after each tick of a loop: looks at all actors there that park, of any pod."""

    def __init__(self) -> None:
        self.parkings: list[Parking] = []

    def __call__(self) -> None:
        for parking in list(self.parkings):
            parking.look()


class Parking(FailureSource):
    """Calls `park` of one actor until `end`; also the order to do so. On its loop's thread."""

    __slots__ = ("_alarm", "_cell", "_handled", "_is_called", "_is_ending", "_wants_more")

    def __init__(self, cell: Cell, is_ending: Callable[[], bool]) -> None:
        self._cell = cell
        # Whether the troupe is about to end: then only messages are a reason to call it, or it might never be done.
        self._is_ending = is_ending
        # What it had handled when it was last called, and whether it is about to be, or wants to be again.
        self._handled = -1
        self._is_called = True
        self._wants_more = False
        self._alarm: ScheduledCall | None = None
        poller = cell.loop.host.poller
        if poller.after_tick is None:
            poller.after_tick = _AfterTick()
        poller.after_tick.parkings.append(self)
        cell.order(self)

    def end(self) -> None:
        self._cancel_alarm()
        poller = self._cell.loop.host.poller
        poller.after_tick.parkings.remove(self)
        if not poller.after_tick.parkings:
            poller.after_tick = None

    def look(self) -> None:
        """Have `park` called, if it is time."""
        cell = self._cell
        record = cell.record
        if self._is_called or not isinstance(record, ActorRecord) or record.stage != _RUNNING:
            return
        if not cell.idle or cell.task is not None:
            return  # it has something to do before
        if cell.handled != self._handled or (self._wants_more and not self._is_ending()):
            self._is_called = True
            cell.order(self)

    def is_told(self) -> bool:
        return False  # a failure in park() is the actor's own

    def __str__(self) -> str:
        return "in park()"

    def __call__(self, cell: Cell) -> object:
        self._is_called = False
        self._cancel_alarm()
        record = cell.record
        if not isinstance(record, ActorRecord) or record.stage != _RUNNING or not parks(cell.subject):
            return None
        self._handled = cell.handled
        self._wants_more = False
        subject: Any = cell.subject
        said = subject.park()
        if isawaitable(said):
            return self._wait(said)
        self._take(said)
        return None

    async def _wait(self, said: Awaitable[Any]) -> None:
        self._take(await said)

    def _take(self, said: object) -> None:
        if said is Park.BUSY:
            self._wants_more = True
        elif isinstance(said, int | float) and not isinstance(said, bool) and said >= 0:
            if said == inf:
                return  # not before the next message
            self._alarm = self._cell.loop.call_later(said, self._ring)
        elif said is not None and said is not Park.IDLE:
            raise TypeError(f"park() returned {said!r}: it must be Park.IDLE, Park.BUSY, a number of seconds, or None")

    def _cancel_alarm(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None

    def _ring(self) -> None:
        self._alarm = None
        self._wants_more = True
