"""Timers by key, and the timeout between messages."""

from __future__ import annotations

from collections.abc import Hashable

from greenroom._core.flags import NOTIFY_TAKEN
from greenroom._core.mailbox.cell import Cell
from greenroom._core.timing.timers import Alarm, Timer
from greenroom.actor.messaging.address import Address
from greenroom.actor.messaging.signals import ReceiveTimeout
from greenroom.errors import BadArgument, InvalidDelay
from greenroom.validation import LONGEST_DELAY, is_number, require_delay

_FEW = 32
"""Keys that are kept without a look at whether their timers are over."""


class KeyedTimers:
    """Timers of one actor that have a name: starting one under a key ends the one that had it."""

    __slots__ = ("_sweep_at", "_timers", "cell")

    def __init__(self, cell: Cell) -> None:
        self.cell = cell
        self._timers: dict[Hashable, Timer] = {}
        self._sweep_at = _FEW

    def start(
        self,
        key: Hashable,
        delay: float,
        message: object,
        *,
        every: float | None = None,
        fixed_rate: bool = False,
        target: Address | None = None,
    ) -> Timer:
        """Send `message` to the actor itself (or to `target`) after `delay`, and then every `every` seconds.

        A tick of the timer that had this key before is not delivered any more, even if it is queued.
        """
        to = self.cell if target is None else cell_of(target, "timers.start()")
        started = start_timer(self.cell, delay, to, message, every, fixed_rate)
        self.cancel(key)
        if len(self._timers) >= self._sweep_at:
            self._sweep()
        self._timers[key] = started
        return started

    def _sweep(self) -> None:
        """Forget the timers that are over; done seldom enough to cost next to nothing each time."""
        self._timers = {key: timer for key, timer in self._timers.items() if timer.active}
        self._sweep_at = max(_FEW, 2 * len(self._timers))

    def cancel(self, key: Hashable) -> bool:
        """End the timer of this key; False when there is none that is active."""
        timer = self._timers.pop(key, None)
        return timer is not None and timer.cancel()

    def cancel_all(self) -> None:
        """End every timer that has a key."""
        for key in list(self._timers):
            self.cancel(key)

    def is_active(self, key: Hashable) -> bool:
        """Whether a tick of this key's timer is still to come."""
        timer = self._timers.get(key)
        return timer is not None and timer.active

    @property
    def active(self) -> list[Hashable]:
        """The keys whose timers are active."""
        return [key for key, timer in self._timers.items() if timer.active]


def cell_of(target: object, what: str) -> Cell:
    """The cell of a ref, or an error that says what was given to `what` instead."""
    if not isinstance(target, Address):
        raise BadArgument(f"{what} takes the ref of an actor, not {target!r}")
    return target._cell


def start_timer(
    owner: Cell, delay: float, target: Cell, message: object, every: float | None, fixed_rate: bool
) -> Timer:
    """A timer that ends with `owner`; `every` is None for one tick."""
    if type(delay) is not float:
        require_delay("delay", delay)
    interval = 0.0
    if every is not None:
        require_delay("interval", every)
        if every <= 0.0:
            raise InvalidDelay("interval", every)
        interval = every
    started: Timer = owner.loop.start_timer(delay, target, message, interval, fixed_rate, owner)
    return started


class ReceiveTimer(Alarm):
    """Rings when an actor has had no message for a while. It is set once, not at every message: when it rings too
    early, because a message came meanwhile, it waits for the rest of the time.
    """

    __slots__ = ("_cell", "_last", "_queued", "seconds")

    def __init__(self, cell: Cell, seconds: object) -> None:
        if not is_number(seconds, LONGEST_DELAY) or seconds == 0.0:
            raise InvalidDelay("seconds", seconds, "must be a number of seconds above zero, or None for no timeout")
        self._cell = cell
        self.seconds = seconds
        self._queued = False
        self._last = 0.0

    def begin(self) -> None:
        self._last = self._cell.loop.now()
        self._cell.flags |= NOTIFY_TAKEN
        self._wait_from(self._last)

    def touch(self) -> None:
        self._last = self._cell.loop.now()

    def ring(self, admission: object) -> None:
        if self._is_time(self._cell.loop.now()):
            self._queued = True
            self._cell.notify(ReceiveTimeout())
        else:
            self._wait_from(self._last)

    def is_still_quiet(self) -> bool:
        """Whether no message came while the notice was queued; the next wait begins."""
        if not self._queued:
            return False
        self._queued = False
        now = self._cell.loop.now()
        receive_timer = self._is_time(now)
        self._wait_from(now if receive_timer else self._last)
        return receive_timer

    def stop(self) -> None:
        self._queued = False
        self._cell.flags &= ~NOTIFY_TAKEN
        self.disarm(self._cell.loop.timers)

    def _is_time(self, now: float) -> bool:
        # The same sum as the alarm's: `now - last >= seconds` may differ from it, and then the alarm rings for ever.
        late: bool = now >= self._last + self.seconds
        return late

    def _wait_from(self, moment: float) -> None:
        self._cell.loop.set_alarm(self, moment + self.seconds)
