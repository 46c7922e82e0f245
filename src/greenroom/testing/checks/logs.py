"""`capture_logs`: what Greenroom and its actors log, for a test to look at."""

from __future__ import annotations

import logging
import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from greenroom.actor.address import Address
from greenroom.errors import BadArgument

if TYPE_CHECKING:
    from collections.abc import Iterator

    from greenroom.actor.ref import ActorRef

__all__ = ["CapturedLogs", "capture_logs"]

_LOGGER = "greenroom"
_SHOWN = 20
"""Records that an error shows at most."""


class _Captured(NamedTuple):
    """A record, and its text as it was when it was logged: arguments may change later."""

    record: logging.LogRecord
    text: str

    def is_about(self, actor: ActorRef[Any, Any] | str) -> bool:
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
        actor: ActorRef[Any, Any] | str | None = None,
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
        actor: ActorRef[Any, Any] | str | None = None,
    ) -> None:
        """Fail if anything of this level or above was logged; with `pattern` or `actor`, anything such."""
        found = self._find(pattern, level, actor)
        if found:
            unwanted = f"nothing should have been logged {_in_words(pattern, level, actor)}"
            raise AssertionError(f"{unwanted}; and there was:{_listed(found)}")

    def _find(self, pattern: str | re.Pattern[str], level: int | str, actor: Any) -> list[_Captured]:
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

    Others still get to see what is captured, also what they would not have for its level; with `quiet` they do not.
    """
    logs = CapturedLogs()
    top = logging.getLogger(_LOGGER)
    # Those below may have been given a level of their own, or been shut off by somebody's logging.config.
    below = [
        logger
        for name, logger in sorted(logging.root.manager.loggerDict.items())
        if isinstance(logger, logging.Logger) and name.startswith(f"{_LOGGER}.")
    ]
    before = [(logger, logger.level, logger.propagate, logger.disabled) for logger in (top, *below)]
    handlers = list(top.handlers)
    try:
        for logger in below:
            _set_up(logger, logging.NOTSET, propagate=True, disabled=False)
        top.handlers = [*([] if quiet else handlers), _Handler(logs)]
        _set_up(top, 1, propagate=top.propagate and not quiet, disabled=False)
        yield logs
    finally:
        top.handlers = handlers
        for logger, level, propagate, disabled in before:
            _set_up(logger, level, propagate, disabled)


class _Handler(logging.Handler):
    """Hands every record to those who captured it."""

    def __init__(self, logs: CapturedLogs) -> None:
        super().__init__()
        self._logs = logs

    def emit(self, record: logging.LogRecord) -> None:
        """A record is logged, on whichever thread."""
        self._logs._take(record)


def _set_up(logger: logging.Logger, level: int, propagate: bool, disabled: bool) -> None:
    logger.setLevel(level)
    logger.propagate = propagate
    logger.disabled = disabled


def _number_of(level: int | str) -> int:
    if isinstance(level, int):
        return level
    known = logging.getLevelNamesMapping()
    if level.upper() not in known:
        raise BadArgument(f"{level!r} is no level of logging: there are {', '.join(known)}")
    return known[level.upper()]


def _in_words(pattern: str | re.Pattern[str], level: int | str, actor: Any) -> str:
    text = pattern if isinstance(pattern, str) else pattern.pattern
    like = f"like {text!r} " if text else ""
    about = "" if actor is None else f" about {actor}"
    return f"{like}at {logging.getLevelName(_number_of(level))} or above{about}"


def _listed(captured: list[_Captured]) -> str:
    lines = [f"\n  {one}" for one in captured[-_SHOWN:]]
    before = f"\n  ... {len(captured) - _SHOWN} before" if len(captured) > _SHOWN else ""
    return f"{before}{''.join(lines)}" if captured else " nothing"
