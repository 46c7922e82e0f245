"""Whether a tick's time is up.

The answer is wanted after every message. Asking the clock costs 35 ns, a third of a whole message; the processor's own
counter costs 15 to 25. So the compiled loop compares counters, after a quick message only when three more have been
handled, and asks here when those say that time is up. How many counts make a second is learned from the clock as ticks
go by. A clock that is not the machine's own is asked every time.
"""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic

from greenroom._core.build import COMPILED
from greenroom._core.world import VirtualClock
from greenroom.clock import Clock, MonotonicClock

_LEARNING_TIME = 0.001
_QUICK = 64
"""Quick is who takes less than this part of the time that is left."""


class TickBudget:
    """The time budget of the tick under way."""

    def __init__(self, clock: Clock, seconds: float) -> None:
        machine = type(clock) is MonotonicClock
        self._clock: Callable[[], float] = monotonic if machine else clock.now
        # Whether the time can be had from the machine directly: a third of what the interpreter's way costs.
        self._is_machine = machine and COMPILED and READS_CLOCK
        self._virtual = clock if isinstance(clock, VirtualClock) else None
        self.seconds = seconds
        self._deadline = 0.0
        # When the clock was last asked whether the time is up.
        self._last = 0.0
        # Invariant: the tick's time is not up while fewer than `allowed` counts have passed since `began`
        self.began = 0
        self.allowed = 0
        # After a message that took fewer counts than that, the counter need not be read each time.
        self.quick = 0
        # Counts per second; 0 until known, for ever with a clock that does not follow the machine's.
        self._per_second = 0.0
        self._origin = self.now() if machine else -1.0
        self._count_at_origin = 0
        if COMPILED and machine:
            self._count_at_origin = counter()

    def now(self) -> float:
        if COMPILED and self._is_machine:
            time: float = machine_time()
            return time
        if self._virtual is not None:
            return self._virtual.time
        return self._clock()

    def begin(self) -> float:
        """Begin a tick; the time now."""
        now = self._last = self.now()
        self._deadline = now + self.seconds
        if COMPILED and self._origin >= 0.0:
            self.began = counter()
            elapsed = now - self._origin
            if elapsed > _LEARNING_TIME:
                self._per_second = (self.began - self._count_at_origin) / elapsed
            self._allow(now)
        return now

    def spent(self) -> bool:
        """Whether the time is up, by the clock."""
        now = self._last = self.now()
        if now >= self._deadline:
            return True
        if COMPILED and self._origin >= 0.0:
            self.began = counter()
            self._allow(now)
        return False

    def _allow(self, now: float) -> None:
        """Set how many counts may pass before the clock is asked again."""
        self.allowed = int((self._deadline - now) * self._per_second)
        self.quick = self.allowed // _QUICK

    def since(self, mark: int) -> float:
        """Seconds that have passed since the counter stood at `mark`; where nothing is counted, since the last look."""
        if COMPILED and self._per_second > 0.0:
            seconds: float = (counter() - mark) / self._per_second
            return seconds
        return self.now() - self._last
