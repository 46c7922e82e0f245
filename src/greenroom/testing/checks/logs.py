"""`capture_logs`: captures what Greenroom and its actors log."""

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

_LOGGER = "greenroom"
_SHOWN = 20
"""How many records an error shows at most."""


class _Captured(NamedTuple):
    """A record with its text, formatted at once: the arguments may change later."""

    record: logging.LogRecord
    text: str

    def is_about(self, actor: ActorRef | str) -> bool:
        """Whether the record is about `actor`, by its fields or, without such fields, by its text."""
        fields = vars(self.record)
        path = str(actor)
        if "actor" not in fields:
            # `/a.b` is another actor than `/a`; but in "stopped /a." the full stop ends the sentence.
            return re.search(rf"(?<![\w/$.@-]){re.escape(path)}(?![.:@-]*[\w/$])", self.text) is not None
        if not isinstance(actor, Address):
            return bool(fields["actor"] == path)
        known = (fields["actor"], fields.get("actor_id"), fields.get("system"))
        return known == (path, actor.id, actor._cell.loop.host.system.name)

    def __str__(self) -> str:
        return f"{self.record.levelname} {self.text}"


class CapturedLogs:
    """The captured records, oldest first. It can be read during the capture and afterwards."""

    def __init__(self) -> None:
        self._captured: list[_Captured] = []

    @property
    def records(self) -> list[logging.LogRecord]:
        """All records. Those about an actor have the fields `.actor`, `.actor_id` and `.system`."""
        return [one.record for one in self._captured]

    @property
    def messages(self) -> list[str]:
        """The texts of all records."""
        return [one.text for one in self._captured]

    def clear(self) -> None:
        """Forget the records so far."""
        self._captured.clear()

    def assert_logged(
        self,
        pattern: str | re.Pattern[str] = "",
        *,
        level: int | str = logging.NOTSET,
        actor: ActorRef | str | None = None,
    ) -> logging.LogRecord:
        """Fail unless a record matches the regular expression `pattern`. Return the first such record.

        `level` is the lowest level that counts. With `actor`, a ref or a path, only records about that actor count: by
        their fields or, without such fields, by their text.
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
        except Exception as exc:  # a wrong logging call must not fail the actor
            text = f"{record.msg} (its arguments {record.args!r} do not fit: {exc})"
        self._captured.append(_Captured(record, text))


@contextmanager
def capture_logs(*, quiet: bool = False) -> Iterator[CapturedLogs]:
    """Capture what the logger `greenroom` and its children log, at any level. Their settings are restored afterwards.

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

    Other handlers still get the records, even those below their loggers' levels. With `quiet`, the handlers that were
    there before and those above `greenroom` get none. Captures may begin and end in any order.
    """
    capture = _Capture(quiet)
    try:
        yield capture.logs
    finally:
        capture.end()


class _LoggerSettings(NamedTuple):
    """The settings of a logger that a capture changes and restores; handlers are not touched."""

    level: int = logging.NOTSET
    propagate: bool = True
    disabled: bool = False

    def apply_to(self, logger: logging.Logger) -> None:
        logger.setLevel(self.level)
        logger.propagate = self.propagate
        logger.disabled = self.disabled


_lock = threading.Lock()
_open: list[_Capture] = []
"""The captures that are active, in the order they began. Guarded by `_lock`."""


class _Capture:
    """One capture. Captures may overlap, and end in any order."""

    def __init__(self, quiet: bool) -> None:
        """Capture records of every level, whatever the loggers' settings."""
        self.logs = CapturedLogs()
        self._quiet = quiet
        self._handler = _Handler(self.logs)
        self._filter = ExcludeFilter(_LOGGER)
        with _lock:
            top, *below = loggers = _loggers()
            # Invariant: the settings to restore if this is the last capture to end
            self._before = {one: _LoggerSettings(one.level, one.propagate, one.disabled) for one in loggers}
            self._disabled = logging.root.manager.disable
            # Filtered, not removed from their loggers: a test may add or remove handlers meanwhile.
            self._filtered = {handler for logger in loggers for handler in logger.handlers} if quiet else set()
            for handler in self._filtered:
                handler.addFilter(self._filter)
            for logger in below:
                _LoggerSettings().apply_to(logger)
            _LoggerSettings(1, propagate=top.propagate and not quiet).apply_to(top)
            logging.disable(logging.NOTSET)
            top.addHandler(self._handler)
            _open.append(self)

    def end(self) -> None:
        """Restore the settings, unless another active capture depends on them."""
        with _lock:
            top = logging.getLogger(_LOGGER)
            top.removeHandler(self._handler)
            for handler in self._filtered:
                handler.removeFilter(self._filter)
            place = _open.index(self)
            del _open[place]
            if place < len(_open):
                later = _open[place]
                later._before = {**later._before, **self._before}
                later._disabled = self._disabled
                top.propagate = _open[0]._before[top].propagate and not any(other._quiet for other in _open)
            else:
                for logger, settings in self._before.items():
                    settings.apply_to(logger)
                logging.disable(self._disabled)


def _loggers() -> list[logging.Logger]:
    """The logger `greenroom`, then its children: each may have a level of its own, or be disabled by a config."""
    known = sorted(logging.root.manager.loggerDict.items())
    below = [one for name, one in known if isinstance(one, logging.Logger) and name.startswith(f"{_LOGGER}.")]
    return [logging.getLogger(_LOGGER), *below]


class _Handler(logging.Handler):
    def __init__(self, logs: CapturedLogs) -> None:
        super().__init__()
        self._logs = logs

    def emit(self, record: logging.LogRecord) -> None:
        self._logs._take(record)


class ExcludeFilter(logging.Filter):
    """Drops the records of one logger and its children; lets all others through."""

    def filter(self, record: logging.LogRecord) -> bool:
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
