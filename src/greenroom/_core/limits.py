"""How much one loop takes on: actors, timers, watched fds, and how long a tick may hold the thread.

>>> Limits(max_msgs_per_actor=10).max_msgs_per_actor
10
>>> Limits(max_tick_time=-1)
Traceback (most recent call last):
    ...
greenroom.errors.ConfigError: max_tick_time=-1: must be a positive number of seconds
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

from greenroom.errors import ConfigError

__all__ = ["Limits"]

_LARGEST = (1 << 31) - 1


@dataclass(frozen=True)
class Limits:
    """Each limit is enforced with an error of its own; the budgets bound a tick and the visits in it."""

    max_actors: int = 1_000_000
    max_msgs_per_actor: int = 64
    """Messages one visit to an actor handles at most."""
    max_actors_per_tick: int = 1024
    """Visits one tick makes at most."""
    max_tick_time: float = 0.002
    """Seconds after which a tick hands the thread back, once the message in hand is done."""
    max_timers: int = 10_000_000
    max_io_watches: int = 1024

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name == "max_tick_time":
                if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
                    raise ConfigError(field.name, value, "must be a positive number of seconds")
            elif isinstance(value, bool) or not isinstance(value, int):
                raise ConfigError(field.name, value, "must be a whole number")
            elif not 1 <= value <= _LARGEST:
                raise ConfigError(field.name, value, f"must be at least 1 and at most {_LARGEST}")
