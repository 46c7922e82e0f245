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

from greenroom._core.timing.timers import Alarm
from greenroom.actor.failure.reports import FailureSource
from greenroom.actor.messaging.timers import set_alarm
from greenroom.actor.records.record import ActorRecord
from greenroom.actor.records.states import State

if TYPE_CHECKING:
    from collections.abc import Callable

    from greenroom._core.mailbox.cell import Cell
    from greenroom._core.scheduler.poller import Poller

__all__ = ["Park", "Parking", "parks"]

_RUNNING = State.RUNNING.code


class Park(Enum):
    """What `park()` says."""

    IDLE = "idle"
    """Nothing is left to do: sleep until something comes."""
    BUSY = "busy"
    """There is more to do: look whether something has come, and call it again."""


def parks(actor: object) -> bool:
    """Whether an actor has a `park` of its own."""
    return callable(getattr(actor, "park", None))


class Parking:
    """Calls `park` of the actors of one pod. On their loop's thread."""

    def __init__(self, poller: Poller, is_ending: Callable[[], bool]) -> None:
        self._poller = poller
        self._is_ending = is_ending
        self._places: list[_Place] = []

    def add(self, cell: Cell) -> None:
        """Call `park` of this actor from now on."""
        place = _Place(cell, self._is_ending)
        self._places.append(place)
        after_tick = self._poller.after_tick
        if not isinstance(after_tick, _AfterTick):
            after_tick = self._poller.after_tick = _AfterTick(after_tick)
        after_tick.places.append(place)
        cell.order(place)

    def end(self) -> None:
        """Call it of nobody."""
        places, self._places = self._places, []
        after_tick = self._poller.after_tick
        for place in places:
            place.forget()
            if isinstance(after_tick, _AfterTick):
                after_tick.places.remove(place)
        if isinstance(after_tick, _AfterTick) and not after_tick.places:
            self._poller.after_tick = after_tick.before


class _AfterTick:
    """What is called after each tick of a loop: all that park there, of whichever pod."""

    def __init__(self, before: Callable[[], object] | None) -> None:
        self.before = before
        self.places: list[_Place] = []

    def __call__(self) -> None:
        if self.before is not None:
            self.before()
        for place in list(self.places):
            place.look()


class _Place(FailureSource):
    """One actor that parks, and the order to do so."""

    __slots__ = ("_alarm", "_cell", "_handled", "_is_called", "_is_ending", "_wants_more")

    def __init__(self, cell: Cell, is_ending: Callable[[], bool]) -> None:
        self._cell = cell
        # Whether the troupe is about to end: then only messages are a reason to call it, or it might never be done.
        self._is_ending = is_ending
        # What it had handled when it was last called, and whether it is about to be, or wants to be again.
        self._handled = -1
        self._is_called = True
        self._wants_more = False
        self._alarm: _ParkAlarm | None = None

    def look(self) -> None:
        """Have it called, if it is its time."""
        cell = self._cell
        record = cell.record
        if self._is_called or not isinstance(record, ActorRecord) or record.state != _RUNNING:
            return
        if not cell.idle or cell.task is not None:
            return  # it has something to do before
        if cell.handled != self._handled or (self._wants_more and not self._is_ending()):
            self._is_called = True
            cell.order(self)

    def is_told(self) -> bool:
        """A failure here is the actor's own."""
        return False

    def __str__(self) -> str:
        return "in park()"

    def __call__(self, cell: Cell) -> object:
        self._is_called = False
        self.forget()
        record = cell.record
        if not isinstance(record, ActorRecord) or record.state != _RUNNING or not parks(cell.subject):
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
            self._alarm = _ParkAlarm(self._cell, self._cell.loop.now() + said, self)
        elif said is not None and said is not Park.IDLE:
            raise TypeError(f"park() returned {said!r}: it must be Park.IDLE, Park.BUSY, a number of seconds, or None")

    def forget(self) -> None:
        """Do not call it by the clock."""
        if self._alarm is not None:
            self._alarm.disarm(self._cell.loop.timers)
            self._alarm = None

    def ring(self) -> None:
        """Its time has come."""
        self._alarm = None
        self._wants_more = True


class _ParkAlarm(Alarm):
    """Rings when an actor wants to be called again."""

    __slots__ = ("_place",)

    def __init__(self, cell: Cell, deadline: float, place: _Place) -> None:
        self._place = place
        set_alarm(cell.loop, self, deadline)

    def ring(self, admission: object) -> None:
        """The time has come."""
        self._place.ring()
