"""Who is told of what happens in a system."""

from __future__ import annotations

from typing import Any, Protocol

from greenroom._core.observerhooks import ObserverHooks

__all__ = ["Observer", "Observers"]


class Observer(Protocol):
    """Something with one or more of these methods; those it lacks are not called, and cost nothing.

    They are called in the middle of things, on the system's own thread (`mailbox_full` and `message_dropped` on the
    sender's): be quick. One that raises is logged and removed.

    One that has a `stuck_handler(ref, message, seconds, stack)` besides is told of handlers that hold the system's
    thread and do not end; on a thread of its own.
    """

    def actor_started(self, ref: Any) -> None:
        """An actor is running."""

    def actor_stopped(self, ref: Any, reason: Any) -> None:
        """An actor has ended for good."""

    def actor_restarted(self, ref: Any, cause: Any) -> None:
        """An actor was made afresh."""

    def escalated(self, ref: Any, cause: Any) -> None:
        """A failure was handed on to the next supervisor."""

    def mailbox_full(self, ref: Any, message: Any, lane: Any) -> None:
        """A message was refused."""

    def message_dropped(self, ref: Any, message: Any, lane: Any) -> None:
        """A message was dropped, by policy."""

    def dead_letter(self, ref: Any, message: Any, sender: Any, why: str) -> None:
        """A message will never be handled."""

    def slow_handler(self, ref: Any, message: Any, seconds: float) -> None:
        """A handler took long."""


class Observers:
    """The observers of one system."""

    __slots__ = ("_hooks",)

    def __init__(self, hooks: ObserverHooks) -> None:
        self._hooks = hooks

    def add(self, observer: object) -> None:
        """Tell `observer` of every event that it has a method for (see `Observer`)."""
        self._hooks.add(observer)

    def remove(self, observer: object) -> None:
        """Tell `observer` nothing more."""
        self._hooks.remove(observer)
