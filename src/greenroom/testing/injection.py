"""Injects the faults of one simulation.

Each fault draws from its own random stream. So removing one fault does not change what the others do, and a failure can
be shrunk to fewer faults. A delayed message reserves its room in the mailbox at once, as a message from another thread
does. It waits among the loop's alarms, and notices to the same actor wait behind it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextlib import closing
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import partial
from typing import TYPE_CHECKING, TypeVar, cast
from zlib import crc32

from greenroom._core.flags import ROOM
from greenroom._core.mailbox.cell import Cell
from greenroom._core.receipt import Receipt
from greenroom._core.simulation.director import Director, Interceptor
from greenroom._core.simulation.events import INJECTED
from greenroom._core.simulation.schedules import SplitMix
from greenroom._core.timing.timers import Alarm
from greenroom.actor.messaging.question import Question
from greenroom.actor.messaging.signals import ReceiveTimeout
from greenroom.actor.records.record import ActorRecord
from greenroom.errors import InjectedFault
from greenroom.lanes import Lane, Overflow
from greenroom.testing.events import OUTSIDE
from greenroom.testing.faults import Crash, Delay, Fault, Fill, Shutdown, Slow, Stop, drawn_number, drawn_seconds

if TYPE_CHECKING:
    from greenroom._core.delivery.admission import Admission
    from greenroom.actor.messaging.ref import ActorRef

Pair = tuple[str, Cell, Lane]
"""The sender of messages, the actor they go to, and their lane: what keeps its order."""
T = TypeVar("T")


class Injector(Interceptor):
    """Injects faults: the director calls it for each message, notice and step."""

    def __init__(self, faults: tuple[Fault, ...], prng: SplitMix, director: Director) -> None:
        self._director = director
        # Each fault gets a seed, even if it does not need one.
        seeds = [prng.draw() for _ in faults]
        self.faults = tuple(
            fault.with_seed(seed) if fault.seed is None else fault for fault, seed in zip(faults, seeds, strict=True)
        )
        self._crashes = [fault for fault in self.faults if isinstance(fault, Crash)]
        self._fills = [fault for fault in self.faults if isinstance(fault, Fill)]
        self._slows = [(fault, _prng_of(fault)) for fault in self.faults if isinstance(fault, Slow)]
        self._delays = [(fault, _prng_of(fault)) for fault in self.faults if isinstance(fault, Delay)]
        # Faults at a step, the next one last.
        self._events = sorted(
            ((self._moment_of(fault), fault) for fault in self.faults if isinstance(fault, Stop | Shutdown)),
            key=lambda event: -event[0],
        )
        self._by_actor: dict[Cell, _ActorFaults] = {}
        # What arrives last of all that is delayed: for each actor, and for each sender, actor and lane.
        self._last: dict[Cell | Pair, _DelayedDelivery] = {}

    def _moment_of(self, fault: Stop | Shutdown) -> int:
        prng = _prng_of(fault)
        return drawn_number(fault.at, prng) if prng.fraction() < fault.chance else 1 << 62

    # -- called by the director

    def handle(self, cell: Cell, message: object) -> object:
        planned = self._faults_of(cell)
        planned.handled += 1
        for number, crash in planned.crashes:
            if number == planned.handled:
                self._note(cell, f"{cell.name()} crashes at its message number {number}")
                error = InjectedFault(cell.name(), number) if crash.error is None else crash.error()
                raise self._director.inject(error)
        result = cell.handler(cell.subject, message)
        for fault, prng in self._slows:
            if prng.fraction() < fault.chance and _fits(fault.who, cell):
                result = self._take_time(cell, result, drawn_seconds(fault.by, prng))
        return result

    def _take_time(self, cell: Cell, result: object, seconds: float) -> object:
        self._note(cell, f"{cell.name()} takes {seconds:g} s")
        if isinstance(result, Coroutine) and not isinstance(result, Question):
            return _slowed(result, seconds)
        clock = self._director.clock
        clock.move_to(clock.time + seconds)
        self._director.time_moved()
        return result

    def holds(self, cell: Cell, message: object, sender: object, lane: Lane, by_timer: bool) -> bool:
        if cell.closed:
            return False
        if self._fills:
            planned = self._faults_of(cell)
            planned.sent += 1
            self._fill(cell, planned, planned.sent)
        if not self._delays or by_timer or cell.loop.clock is not self._director.clock:
            return False
        return self._delay(cell, message, sender, lane)

    def approaches(self, cell: Cell) -> None:
        if self._fills and not cell.closed:
            planned = self._faults_of(cell)
            self._fill(cell, planned, planned.sent + 1)

    def holds_notice(self, cell: Cell, notice: object) -> bool:
        last = self._last.get(cell)
        if last is None or isinstance(notice, ReceiveTimeout):  # it says that no message has come
            return False
        self._send(_DelayedDelivery(self, cell, notice, None, None, reserved=False), last.deadline)
        return True

    def after_step(self, step: int) -> None:
        while self._events and self._events[-1][0] <= step:
            self._take_place(self._events.pop()[1])

    def is_on_the_way(self, loop: object) -> bool:
        return any(arrival.cell.loop is loop for arrival in self._last.values())

    def close(self) -> None:
        self._by_actor.clear()
        self._last.clear()

    # -- faults of actors

    def _faults_of(self, cell: Cell) -> _ActorFaults:
        planned = self._by_actor.get(cell)
        if planned is None:
            planned = self._by_actor[cell] = _ActorFaults()
            # Seeded by name: the order in which actors come here depends on the schedule, which shrinking changes.
            number = crc32(cell.name().encode())
            for fault in self._crashes:
                prng = SplitMix((fault.seed or 0) + number)
                if _fits(fault.who, cell) and prng.fraction() < fault.chance:
                    planned.crashes.append((drawn_number(fault.at, prng), fault))
            for filling in self._fills:
                prng = SplitMix((filling.seed or 0) + number)
                if _fits(filling.who, cell) and prng.fraction() < filling.chance:
                    planned.fills.append((drawn_number(filling.at, prng), drawn_seconds(filling.lasting, prng)))
        return planned

    def _take_place(self, fault: Stop | Shutdown) -> None:
        if isinstance(fault, Shutdown):
            self._note(None, "the system is shut down")
            for system in dict.fromkeys(loop.host.system for loop in self._director.loops):
                if system is not None:
                    system.stop()
            return
        living = [cell for loop in self._director.loops for cell in loop.table if _fits(fault.who, cell)]
        if living:
            cell = living[_prng_of(fault).below(len(living))]
            self._note(cell, f"{cell.name()} is {'killed' if fault.kill else 'stopped'}")
            if fault.kill:
                cell.ref.kill()
            else:
                cell.ref.stop()

    def _note(self, cell: Cell | None, text: str) -> None:
        self._director.note(INJECTED, cell, text, None)

    # -- full mailboxes

    def _fill(self, cell: Cell, planned: _ActorFaults, sent: int) -> None:
        drops_oldest = cell.config.overflow is Overflow.DROP_OLD
        for fill in [fill for fill in planned.fills if fill[0] == sent]:
            planned.fills.remove(fill)
            # A mailbox that drops its oldest message has nothing to drop while it is empty.
            if not drops_oldest or cell.depth(1) > 0:
                self._note(cell, f"{cell.name()} has no room for {fill[1]:g} s")
                room = cell.capacity - (1 if drops_oldest else 0)
                cell.reserved += room
                cell.loop.call_later(fill[1], partial(_return_room, cell, room))

    # -- delays

    def _delay(self, cell: Cell, message: object, sender: object, lane: Lane) -> bool:
        seconds = 0.0
        shown = sender.shown_sender() if isinstance(sender, Receipt) else sender
        name = OUTSIDE if shown is None else str(shown)
        for fault, prng in self._delays:
            if prng.fraction() < fault.chance and _fits(fault.to, cell) and _fits_sender(fault.sender, name, shown):
                seconds += drawn_seconds(fault.by, prng)
        now = self._director.clock.time
        pair = (name, cell, lane)
        before = self._last.get(pair)
        if before is None and seconds == 0.0:
            return False
        reserved = cell.config.overflow is not Overflow.DROP_OLD
        if reserved and not cell.loop.inbound.reserve(cell, lane):
            return False
        moment = now + seconds if before is None else max(now + seconds, before.deadline)
        self._send(_DelayedDelivery(self, cell, message, sender, pair, reserved), moment)
        return True

    def _send(self, arrival: _DelayedDelivery, moment: float) -> None:
        arrival.cell.loop.set_alarm(arrival, moment)
        for key in arrival.keys:
            last = self._last.get(key)
            if last is None or last.deadline <= moment:
                self._last[key] = arrival

    def arrived(self, arrival: _DelayedDelivery) -> None:
        for key in arrival.keys:
            if self._last.get(key) is arrival:
                del self._last[key]


@dataclass(slots=True)
class _ActorFaults:
    """The faults planned for one actor, and how many messages it was sent and has handled."""

    sent: int = 0
    handled: int = 0
    crashes: list[tuple[int, Crash]] = field(default_factory=list)
    fills: list[tuple[int, float]] = field(default_factory=list)


class _DelayedDelivery(Alarm):
    """A delayed message or notice. A notice has no `pair`."""

    __slots__ = ("_injector", "_message", "_pair", "_reserved", "_sender", "cell")

    def __init__(
        self, injector: Injector, cell: Cell, message: object, sender: object, pair: Pair | None, reserved: bool
    ) -> None:
        self._injector = injector
        self.cell = cell
        self._message = message
        self._sender = sender
        self._pair = pair
        self._reserved = reserved

    @property
    def keys(self) -> tuple[Cell | Pair, ...]:
        return (self.cell,) if self._pair is None else (self.cell, self._pair)

    def ring(self, admission: object) -> None:
        cell = self.cell
        gate: Admission = cell.loop.admission
        self._injector.arrived(self)
        if self._pair is None:
            if not cell.closed:
                cell.enqueue_notice(self._message)
                cell.make_runnable()
            return
        lane = self._pair[2]
        if self._reserved:
            try:
                gate.deliver_reserved(cell, self._message, self._sender, lane)
            finally:
                cell.loop.inbound.unreserve(cell, lane)
                if cell.flags & ROOM:
                    gate.fill_up(cell)
        else:
            gate.decide(cell, self._message, self._sender, lane)

    def end(self) -> None:
        """The loop has stopped: deliver it, as a dead letter."""
        super().end()
        self.ring(self.cell.loop.admission)


def _return_room(cell: Cell, room: int) -> None:
    """End the fault `fill`: the mailbox has room again, also for messages that wait for it."""
    cell.reserved = max(0, cell.reserved - room)
    if cell.flags & ROOM:
        cell.loop.admission.fill_up(cell)


def _prng_of(fault: Fault) -> SplitMix:
    return SplitMix(fault.seed or 0)


def _fits(who: str | type, cell: Cell) -> bool:
    if isinstance(who, type):
        # What is not started yet, or restarting, will be an instance.
        factory = cell.record.spec.factory if isinstance(cell.record, ActorRecord) else None
        return isinstance(cell.subject, who) or (isinstance(factory, type) and issubclass(factory, who))
    ref = cell.ref
    if ref is None:
        return False
    return who == "*" or fnmatchcase(ref.name, who) or fnmatchcase(ref.path, who)


def _fits_sender(who: str | type, path: str, sender: object) -> bool:
    if isinstance(who, type):
        return sender is not None and _fits(who, cast("ActorRef", sender)._cell)
    return who == "*" or fnmatchcase(path, who) or fnmatchcase(path.rpartition("/")[2], who)


async def _slowed(handling: Coroutine[object, object, T], seconds: float) -> T:
    with closing(handling):
        await asyncio.sleep(seconds)
        return await handling
