"""How long a restart waits: the delays of plain supervision, of supervisors and of pods.

>>> backoff = Backoff(min=0.01, max=0.05)
>>> [backoff.delay(attempt) for attempt in range(4)]
[0.01, 0.02, 0.04, 0.05]
>>> Backoff(min=1.0, jitter=0.5).delay(0, chance=0.0)
0.5
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from greenroom.errors import ConfigError
from greenroom.frozen import ByFields, Frozen
from greenroom.validation import is_number

if TYPE_CHECKING:
    from greenroom.seededrandom import Random


@dataclass(frozen=True, eq=False, repr=False)
class Backoff(ByFields):
    """Delays that grow by `factor` from `min` to `max` seconds. `jitter` varies each by up to that fraction."""

    min: float = 0.01
    max: float = 1.0
    factor: float = 2.0
    jitter: float = 0.0

    def __post_init__(self) -> None:
        for name in ("min", "max", "factor", "jitter"):
            value = getattr(self, name)
            if not is_number(value):
                raise ConfigError(f"backoff.{name}", value, "must be a number, zero or more")
        if self.max < self.min:
            raise ConfigError("backoff.max", self.max, f"must not be below `min`, which is {self.min}")
        if self.factor < 1.0:
            raise ConfigError("backoff.factor", self.factor, "must be at least 1: delays do not shrink")
        if self.jitter > 1.0:
            raise ConfigError("backoff.jitter", self.jitter, "must be at most 1: a delay cannot be negative")

    def delay(self, attempt: int, chance: float = 0.5) -> float:
        """The delay before the restart that is number `attempt` in a row, the first being 0.

        `chance` is a random number from 0 to 1; with 0.5 the jitter is none.
        """
        try:
            delay = min(self.min * self.factor**attempt, self.max)
        except OverflowError:
            delay = self.max if self.min else 0.0
        return delay * (1.0 + self.jitter * (2.0 * chance - 1.0)) if self.jitter else delay


def elapsed(since: float, now: float) -> float:
    """Seconds from one moment to another, to the nanosecond: what is less is noise of the arithmetic.

    >>> elapsed(3.44, 4.44), 4.44 - 3.44
    (1.0, 1.0000000000000004)
    """
    return round(now - since, 9)


class Streak(Frozen):
    """Failures in a row: how many delays were given, and the last of them, since the actor last ran long enough."""

    __slots__ = ("attempt", "last_delay")

    attempt: int
    last_delay: float

    def __init__(self, attempt: int = 0, last_delay: float = 0.0) -> None:
        self._set(attempt, last_delay)


def next_delay(
    backoff: Backoff | None, streak: Streak, ran: float | None, quiet: float, chance: float
) -> tuple[float, Streak]:
    """The delay before the next restart, and the streak it makes.

    `ran` is how long the actor had been running when it failed, None if it never was; having run for `quiet` seconds,
    and for as long as its last delay, it begins a new streak.

    >>> next_delay(Backoff(), Streak(3, 0.04), ran=0.5, quiet=1.0, chance=0.5)
    (0.08, Streak(attempt=4, last_delay=0.08))
    >>> next_delay(Backoff(), Streak(3, 0.04), ran=1.0, quiet=1.0, chance=0.5)
    (0.01, Streak(attempt=1, last_delay=0.01))
    """
    if ran is not None and ran >= max(quiet, streak.last_delay):
        streak = Streak()
    delay = 0.0 if backoff is None else backoff.delay(streak.attempt, chance)
    return delay, Streak(streak.attempt + 1, delay)


class Delays:
    """The delays of one actor's restarts, or of one pod's."""

    __slots__ = ("quiet_time", "streak")

    def __init__(self) -> None:
        self.streak = Streak()
        # How long it has to run without failing, before a failure is the first in a row again.
        self.quiet_time = 0.0

    def next(self, backoff: Backoff | None, ran: float | None, quiet_time: float, random: Random) -> float:
        """How long the next restart waits; `ran` is as in `next_delay`."""
        chance = random.random() if backoff is not None and backoff.jitter else 0.5
        delay, self.streak = next_delay(backoff, self.streak, ran, quiet_time, chance)
        self.quiet_time = quiet_time
        return delay

    def in_a_row(self, ran: float | None) -> int:
        """How many failures there were without a run that was long enough in between."""
        is_over = ran is not None and ran >= max(self.quiet_time, self.streak.last_delay)
        return 0 if is_over else self.streak.attempt
