"""The minute of time that both timer programs move through, and the stopwatch they share."""

from collections.abc import Callable

from benchmarks.program import Report

SPAN = 60.0
STEPS = 60


class SteppedClock:
    """A clock that stands still until it is moved; it satisfies ``greenroom.Clock``."""

    __slots__ = ("_now",)

    def __init__(self) -> None:
        self._now = 0.0

    def now(self) -> float:
        """Seconds moved so far."""
        return self._now

    def move(self, seconds: float) -> None:
        """Move the clock by ``seconds`` at once."""
        self._now += seconds


class Stopwatch:
    """Times consecutive laps of one measurement."""

    def __init__(self, read: Callable[[], float]) -> None:
        self._read = read
        self._laps: dict[str, float] = {}
        self._last = read()

    def lap(self, name: str) -> None:
        """End the lap that began at the last call."""
        now = self._read()
        self._laps[name] = now - self._last
        self._last = now

    def report(self, timers: int) -> Report:
        """Timers per second over all laps; each lap's seconds are the parts."""
        return Report(
            timers / sum(self._laps.values()),
            {f"seconds to {name}": seconds for name, seconds in self._laps.items()},
        )
