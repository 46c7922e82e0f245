"""`capture_logs`: what Greenroom and its actors log, for a test to look at."""

from __future__ import annotations

import logging
import re
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from greenroom.actor.messaging.address import Address
from greenroom.errors import BadArgument

if TYPE_CHECKING:
    from collections.abc import Iterator

    from greenroom.actor.messaging.ref import ActorRef

__all__ = ["CapturedLogs", "capture_logs"]

_LOGGER = "greenroom"
_SHOWN = 20
"""Records that an error shows at most."""


class _Captured(NamedTuple):
    """A record, and its text as it was when it was logged: arguments may change later."""

    record: logging.LogRecord
    text: str

    def is_about(self, actor: ActorRef | str) -> bool:
        """Whether it has the actor in its fields or, if it has none, in its text."""
        fields = vars(self.record)
        path = str(actor)
        if "actor" not in fields:
            # A name may go on after a full stop or the like; a sentence that ends with it does not.
            return re.search(rf"(?<![\w/$.@-]){re.escape(path)}(?![.:@-]*[\w/$])", self.text) is not None
        if not isinstance(actor, Address):
            return bool(fields["actor"] == path)
        known = (fields["actor"], fields.get("actor_id"), fields.get("system"))
        return known == (path, actor.id, actor._cell.loop.host.port.name)

    def __str__(self) -> str:
        return f"{self.record.levelname} {self.text}"


class CapturedLogs:
    """The records that were logged, oldest first; it can be read during the capture and after it."""

    def __init__(self) -> None:
        self._captured: list[_Captured] = []

    @property
    def records(self) -> list[logging.LogRecord]:
        """All of them. Those about one actor, its own or Greenroom's, have `.actor`, `.actor_id` and `.system`."""
        return [one.record for one in self._captured]

    @property
    def messages(self) -> list[str]:
        """Their texts."""
        return [one.text for one in self._captured]

    def clear(self) -> None:
        """Forget what was logged until now."""
        self._captured.clear()

    def assert_logged(
        self,
        pattern: str | re.Pattern[str] = "",
        *,
        level: int | str = logging.NOTSET,
        actor: ActorRef | str | None = None,
    ) -> logging.LogRecord:
        """Fail unless something was logged that `pattern`, a regular expression, is found in; the first such record.

        `level` is the lowest that counts. `actor`, a ref or a path, keeps to records about one actor: that say so in
        their fields or, if they have none, in their text.
        """
        found = self._find(pattern, level, actor)
        if not found:
            wanted = f"nothing was logged {_in_words(pattern, level, actor)}"
            raise AssertionError(f"{wanted}; what was:{_listed(self._captured)}")
        return found[0].record

    def assert_none(
        self,
        pattern: str | re.Pattern[str] = "",
        *,
        level: int | str = logging.WARNING,
        actor: ActorRef | str | None = None,
    ) -> None:
        """Fail if anything of this level or above was logged; with `pattern` or `actor`, anything such."""
        found = self._find(pattern, level, actor)
        if found:
            unwanted = f"nothing should have been logged {_in_words(pattern, level, actor)}"
            raise AssertionError(f"{unwanted}; and there was:{_listed(found)}")

    def _find(self, pattern: str | re.Pattern[str], level: int | str, actor: ActorRef | str | None) -> list[_Captured]:
        lowest = _number_of(level)
        return [
            one
            for one in list(self._captured)
            if one.record.levelno >= lowest and re.search(pattern, one.text) and (actor is None or one.is_about(actor))
        ]

    def _take(self, record: logging.LogRecord) -> None:
        try:
            text = record.getMessage()
        except Exception as exc:  # what is wrong with a call to log must not fail the actor that made it
            text = f"{record.msg} (its arguments {record.args!r} do not fit: {exc})"
        self._captured.append(_Captured(record, text))


@contextmanager
def capture_logs(*, quiet: bool = False) -> Iterator[CapturedLogs]:
    """Capture what the logger `greenroom` and those below it log, at any level; how they are set up is put back after.

    >>> import asyncio
    >>> from greenroom import Actor, ActorSystem
    >>> class Worker(Actor[str]):
    ...     def receive(self, message: str) -> None:
    ...         self.ctx.log.warning("no idea what to do with %s", message)
    >>> async def main():
    ...     async with ActorSystem() as system:
    ...         worker = system.spawn(Worker, name="worker")
    ...         worker.tell("tea")
    ...         await system.settle()
    ...         logs.assert_logged("no idea .* tea", level="WARNING", actor=worker)
    >>> with capture_logs(quiet=True) as logs:
    ...     asyncio.run(main())
    >>> logs.messages[0]
    '/worker: no idea what to do with tea'

    Others still get to see what is captured, also what they would not have for its level; with `quiet` those who
    listened before do not, nor does anybody above `greenroom`. Captures may begin and end in any order.
    """
    capture = _Capture(quiet)
    capture.begin()
    try:
        yield capture.logs
    finally:
        capture.end()


class _LoggerSettings(NamedTuple):
    """How a logger is set up, apart from its handlers: those are whoever's they are, and stay where they are."""

    level: int
    propagate: bool
    disabled: bool

    @classmethod
    def of(cls, logger: logging.Logger) -> _LoggerSettings:
        return cls(logger.level, logger.propagate, logger.disabled)

    def apply_to(self, logger: logging.Logger) -> None:
        logger.setLevel(self.level)
        logger.propagate = self.propagate
        logger.disabled = self.disabled


_lock = threading.Lock()
_open: list[_Capture] = []
"""The captures that have begun and not ended, in the order they began. Under `_lock`."""


class _Capture:
    """One capture, from its beginning to its end: which need not be before the end of those that began earlier."""

    def __init__(self, quiet: bool) -> None:
        self.logs = CapturedLogs()
        self._quiet = quiet
        self._handler = _Handler(self.logs)
        self._filter = _ExcludeFilter(_LOGGER)
        self._filtered: list[logging.Handler] = []
        # Invariant: what is to be put back at the end of the captures from this one on, were it to end last
        self._before: dict[logging.Logger, _LoggerSettings] = {}
        self._disabled = logging.NOTSET

    def begin(self) -> None:
        """Listen to everything, whatever was set up."""
        with _lock:
            top, *below = loggers = _loggers()
            self._before = {logger: _LoggerSettings.of(logger) for logger in loggers}
            self._disabled = logging.root.manager.disable
            if self._quiet:
                self._filter_out([handler for logger in loggers for handler in logger.handlers])
            for logger in below:
                _LoggerSettings(logging.NOTSET, propagate=True, disabled=False).apply_to(logger)
            _LoggerSettings(1, propagate=top.propagate and not self._quiet, disabled=False).apply_to(top)
            logging.disable(logging.NOTSET)
            top.addHandler(self._handler)
            _open.append(self)

    def end(self) -> None:
        """Put back what this capture has changed, as far as no other depends on it."""
        with _lock:
            top = logging.getLogger(_LOGGER)
            top.removeHandler(self._handler)
            for handler in self._filtered:
                handler.removeFilter(self._filter)
            place = _open.index(self)
            del _open[place]
            if place < len(_open):
                _open[place]._take_over(self)
                top.propagate = _open[0]._before[top].propagate and not any(other._quiet for other in _open)
            else:
                for logger, settings in self._before.items():
                    settings.apply_to(logger)
                logging.disable(self._disabled)

    def _filter_out(self, handlers: list[logging.Handler]) -> None:
        # Not taken out of their loggers: a test may add some meanwhile, or take some out.
        self._filtered = list(dict.fromkeys(handlers))
        for handler in self._filtered:
            handler.addFilter(self._filter)

    def _take_over(self, earlier: _Capture) -> None:
        """Put back, at the end, what one that began earlier has found."""
        self._before = {**self._before, **earlier._before}
        self._disabled = earlier._disabled


def _loggers() -> list[logging.Logger]:
    """The logger `greenroom`, then those below it: they may have been given a level, or been shut off by a config."""
    known = sorted(logging.root.manager.loggerDict.items())
    below = [one for name, one in known if isinstance(one, logging.Logger) and name.startswith(f"{_LOGGER}.")]
    return [logging.getLogger(_LOGGER), *below]


class _Handler(logging.Handler):
    """Hands every record to those who captured it."""

    def __init__(self, logs: CapturedLogs) -> None:
        super().__init__()
        self._logs = logs

    def emit(self, record: logging.LogRecord) -> None:
        """A record is logged, on whichever thread."""
        self._logs._take(record)


class _ExcludeFilter(logging.Filter):
    """Lets through what is of any other logger than the one it is named after, and those below that."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether others may see it."""
        return not super().filter(record)


def _number_of(level: int | str) -> int:
    if isinstance(level, int):
        return level
    known = logging.getLevelNamesMapping()
    if level.upper() not in known:
        raise BadArgument(f"{level!r} is no level of logging: there are {', '.join(known)}")
    return known[level.upper()]


def _in_words(pattern: str | re.Pattern[str], level: int | str, actor: ActorRef | str | None) -> str:
    text = pattern if isinstance(pattern, str) else pattern.pattern
    like = f"like {text!r} " if text else ""
    about = "" if actor is None else f" about {actor}"
    return f"{like}at {logging.getLevelName(_number_of(level))} or above{about}"


def _listed(captured: list[_Captured]) -> str:
    lines = [f"\n  {one}" for one in captured[-_SHOWN:]]
    before = f"\n  ... {len(captured) - _SHOWN} before" if len(captured) > _SHOWN else ""
    return f"{before}{''.join(lines)}" if captured else " nothing"
