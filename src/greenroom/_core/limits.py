"""How much one loop takes on: actors, timers, watched fds, and how long a tick may hold the thread.

>>> Limits(max_msgs_per_actor=10).max_msgs_per_actor
10
>>> Limits(max_tick_time=-1)
Traceback (most recent call last):
    ...
greenroom.errors.ConfigError: max_tick_time=-1: must be a positive number of seconds
"""

from __future__ import annotations

from greenroom.errors import ConfigError
from greenroom.frozen import Frozen
from greenroom.validation import is_number, require_whole

_LARGEST = (1 << 31) - 1


class Limits(Frozen):
    """Each limit is enforced with an error of its own; the budgets bound a tick and the visits in it."""

    __slots__ = (  # noqa: RUF023 - in the order of the arguments
        "max_actors",
        "max_msgs_per_actor",
        "max_actors_per_tick",
        "max_tick_time",
        "max_timers",
        "max_io_watches",
    )

    max_actors: int
    max_msgs_per_actor: int
    """Messages one visit to an actor handles at most."""
    max_actors_per_tick: int
    """Visits one tick makes at most."""
    max_tick_time: float
    """Seconds until a tick hands back the thread, once the message in hand is done: three more, if it was quick."""
    max_timers: int
    max_io_watches: int

    def __init__(
        self,
        max_actors: int = 1_000_000,
        max_msgs_per_actor: int = 64,
        max_actors_per_tick: int = 1024,
        max_tick_time: float = 0.002,
        max_timers: int = 10_000_000,
        max_io_watches: int = 1024,
    ) -> None:
        self._set(max_actors, max_msgs_per_actor, max_actors_per_tick, max_tick_time, max_timers, max_io_watches)
        for name in self.__slots__:
            value = getattr(self, name)
            if name != "max_tick_time":
                require_whole(name, value)
                require_whole(name, value, f"at least 1 and at most {_LARGEST}", 1, _LARGEST)
            elif not is_number(value) or value == 0:
                raise ConfigError(name, value, "must be a positive number of seconds")
