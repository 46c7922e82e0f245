"""The runtime's own log records.

A program configures logging, and its handlers and filters may raise. `logging` lets that out to its caller. Here that
is the loop, in the middle of an actor's failure or of a shutdown: it must go on. So what they raise is printed to the
terminal, as `logging` itself does with what the handlers of its own raise, and goes no further.

>>> import logging
>>> class Broken(logging.Handler):
...     def emit(self, record: logging.LogRecord) -> None:
...         raise ValueError("no disk")
>>> log = RuntimeLog("greenroom.example")
>>> logging.getLogger("greenroom.example").addHandler(Broken())
>>> log.warning("an actor did not stop in %s s", 5)  # prints a traceback
"""

from __future__ import annotations

import logging
import sys
import traceback
from contextlib import suppress
from typing import Any

from greenroom.tracebacks import fold

LOGGED_PER_PERIOD = 5
"""Records of a kind that are logged about one actor in one period, at most."""
LOG_PERIOD = 10.0
"""Seconds of the system's clock."""


class RuntimeLog(logging.LoggerAdapter[logging.Logger]):
    """A logger that never raises an `Exception`."""

    def __init__(self, name: str = "greenroom") -> None:
        super().__init__(logging.getLogger(name))

    def log(self, level: int, msg: object, *args: object, stacklevel: int = 1, **kwargs: Any) -> None:
        """Log on a level; all other methods call this one."""
        try:
            self.logger.log(level, msg, *args, stacklevel=stacklevel + 1, **kwargs)
        except Exception:
            print_error()

    def exception(self, msg: object, *args: object, **kwargs: Any) -> None:
        """Log that something failed, with the exception that is being handled."""
        exc = sys.exception()
        if exc is not None:
            fold(exc)
        self.log(logging.ERROR, msg, *args, exc_info=exc, stacklevel=2, **kwargs)


def print_error() -> None:
    """Print the exception being handled, which the program's logging has raised; unless `logging` is told not to."""
    if logging.raiseExceptions:
        with suppress(Exception):  # there may be no terminal
            traceback.print_exc()


class LogLimit:
    """How many records of a kind were logged in the present period, and how many were not."""

    __slots__ = ("_began", "_limit", "_logged", "place", "unlogged")

    def __init__(self, limit: int = LOGGED_PER_PERIOD) -> None:
        self._limit = limit
        self._began: float | None = None
        self._logged = 0
        self.unlogged = 0
        # Where the last one in this period came from, as a number that tells one place from another.
        self.place: int | None = None

    def has_room(self, now: float) -> bool:
        """Whether one more may be logged in the present period; it is counted."""
        if self._began is None or now - self._began >= LOG_PERIOD:
            self._began = now
            self._logged = 0
            self.place = None
        self._logged += 1
        return self._logged <= self._limit
