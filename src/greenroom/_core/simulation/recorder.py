"""Tells a director what a loop's observers are told."""

from __future__ import annotations

from typing import Any

from greenroom._core.simulation.director import Director
from greenroom._core.simulation.events import DEAD_LETTER, DROPPED, ESCALATED, FULL, RESTARTED, STARTED, STOPPED

__all__ = ["EventRecorder"]


class EventRecorder:
    """An observer that has everything written down."""

    def __init__(self, director: Director) -> None:
        self._director = director

    def _note(self, kind: int, ref: Any, what: object, whom: object = None) -> None:
        self._director.note(kind, getattr(ref, "_cell", ref), what, whom)

    def actor_started(self, ref: object) -> None:
        self._note(STARTED, ref, None)

    def actor_stopped(self, ref: object, reason: object) -> None:
        self._note(STOPPED, ref, reason)

    def actor_restarted(self, ref: object, cause: object) -> None:
        self._note(RESTARTED, ref, cause)

    def escalated(self, ref: object, cause: object) -> None:
        self._note(ESCALATED, ref, cause)

    def mailbox_full(self, ref: object, message: object, lane: object) -> None:
        self._note(FULL, ref, message)

    def message_dropped(self, ref: object, message: object, lane: object) -> None:
        self._note(DROPPED, ref, message)

    def dead_letter(self, ref: object, message: object, sender: object, why: str) -> None:
        self._note(DEAD_LETTER, ref, message, sender)
