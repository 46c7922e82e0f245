"""Observers of what happens in a system."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from greenroom._core.observerhooks import ObserverHooks

if TYPE_CHECKING:
    from greenroom.actor.messaging.ref import ActorRef
    from greenroom.exits import ExitReason
    from greenroom.lanes import Lane


class Observer(Protocol):
    """An object with one or more of these methods. Those that it lacks are not called, and cost nothing.

    The methods are called synchronously, on the system's own thread (`mailbox_full` and `message_dropped` on the
    sender's), so they must be quick. If one raises, the error is logged and the observer removed.

    `pod_changed(pod, status)` tells of a pod that has come to another phase, on whichever thread that happened.

    There is one more, `stuck_handler(ref, message, seconds, stack)`, for handlers that block the system's thread (it is
    called on another one then) or a worker process.
    """

    def actor_started(self, ref: ActorRef) -> None:
        """An actor is running."""

    def actor_stopped(self, ref: ActorRef, reason: ExitReason) -> None:
        """An actor has ended for good."""

    def actor_restarted(self, ref: ActorRef, cause: BaseException | None) -> None:
        """An actor was restarted."""

    def escalated(self, ref: ActorRef, cause: BaseException) -> None:
        """A failure was escalated to the next supervisor."""

    def mailbox_full(self, ref: ActorRef, message: Any, lane: Lane) -> None:
        """A message was rejected, because the mailbox is full."""

    def message_dropped(self, ref: ActorRef, message: Any, lane: Lane) -> None:
        """A message was dropped by the overflow policy."""

    def dead_letter(self, ref: ActorRef, message: Any, sender: object, why: str) -> None:
        """A message will never be handled."""

    def slow_handler(self, ref: ActorRef, message: Any, seconds: float) -> None:
        """A handler took long."""


class Observers:
    """The observers of one system."""

    __slots__ = ("_hooks",)

    def __init__(self, hooks: ObserverHooks) -> None:
        self._hooks = hooks

    def add(self, observer: object) -> None:
        """Call the methods of `observer` for every event that it has one for (see `Observer`)."""
        self._hooks.add(observer)

    def remove(self, observer: object) -> None:
        """Call the methods of `observer` no longer."""
        self._hooks.remove(observer)
