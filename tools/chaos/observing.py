"""What a history hears of its systems: their observers, and the log."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from greenroom import ActorRef, ExitReason
from tools.chaos.guests import BAD_RECORD, BadRecord
from tools.chaos.notes import Target

if TYPE_CHECKING:
    from tools.chaos.stage import Stage

__all__ = ["Ears", "Observing"]


class Observing:
    """Writes down what a system tells its observers. It must never raise: it would be dropped."""

    def __init__(self, stage: Stage, system: str) -> None:
        self._stage = stage
        self._system = system

    def actor_started(self, ref: ActorRef) -> None:
        """An actor runs."""
        target = Target(self._system, ref)
        self._stage.meet(target)
        self._stage.journal.write("started", target.ident, ref.path)

    def actor_stopped(self, ref: ActorRef, reason: ExitReason) -> None:
        """An actor has ended."""
        target = Target(self._system, ref)
        self._stage.meet(target)
        parent = "" if ref.parent is None else f"{self._system}{ref.parent.id}"
        self._stage.journal.write("ended", target.ident, reason.kind.value, ref.path, parent)

    def actor_restarted(self, ref: ActorRef, cause: BaseException | None) -> None:
        """An actor was restarted."""
        self._stage.journal.write("restarted", f"{self._system}{ref.id}", type(cause).__name__)


class Ears(logging.Handler):
    """Writes down warnings, and does not like some records."""

    def __init__(self, stage: Stage) -> None:
        super().__init__(logging.INFO)
        self._stage = stage

    def emit(self, record: logging.LogRecord) -> None:
        """Raise for a bad record, as a handler may."""
        text = record.getMessage()
        if BAD_RECORD in text:
            raise BadRecord(text[:50])
        if record.levelno >= logging.WARNING and "fine" not in text:
            error = "" if record.exc_info is None or record.exc_info[1] is None else repr(record.exc_info[1])[:200]
            said = [record.name, record.levelname, text[:300], error, (record.exc_text or "")[-500:]]
            self._stage.journal.write("log", *said)
            if record.name == "asyncio" and record.levelno >= logging.ERROR:
                self._stage.facts.violations.append(f"asyncio: {text[:300]} {error}")
