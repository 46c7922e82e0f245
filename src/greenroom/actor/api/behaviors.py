"""Behaviors as values: what a handler may return to say what comes next, and actors written as functions.

>>> def count(ctx, message):
...     return Behaviors.stopped if message == "stop" else Behaviors.same
>>> Behaviors.receive(count)
Behaviors.receive(count)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from greenroom.actor.api.behavior import SAME, STOPPED, UNHANDLED, Behavior, Failed, Receive, Setup, Supervised

if TYPE_CHECKING:
    from greenroom.actor.api.context import Context
    from greenroom.actor.messaging.signals import Signal
    from greenroom.actor.messaging.stash import Stash
    from greenroom.actor.messaging.timers import KeyedTimers
    from greenroom.policy.specs import Supervision

__all__ = ["Behaviors"]


class Behaviors:
    """Behaviors as values, to return from a handler or to spawn."""

    same: Behavior = SAME
    """Go on as before."""
    stopped: Behavior = STOPPED
    """Stop, after this message."""
    unhandled: Behavior = UNHANDLED
    """This message was not for this actor: it becomes a dead letter, and an ask fails at once."""

    @staticmethod
    def failed(cause: BaseException) -> Behavior:
        """Fail with `cause`, as if the handler had raised it."""
        return Failed(cause)

    @staticmethod
    def receive(
        fn: Callable[[Context, Any], object],
        *,
        on_signal: Callable[[Context, Signal], object] | None = None,
        answers: tuple[type[Exception], ...] = (),
    ) -> Behavior:
        """Handle messages with `fn(ctx, message)`, which may be async.

        Exceptions of the types in `answers` answer a message, and are no failure; see `Actor.answers`.
        """
        return Receive(fn, on_signal, answers)

    @staticmethod
    def setup(fn: Callable[[Context], Behavior]) -> Behavior:
        """Begin with the behavior that `fn(ctx)` returns when the actor starts."""
        return Setup("setup", fn)

    @staticmethod
    def with_timers(fn: Callable[[KeyedTimers], Behavior]) -> Behavior:
        """Begin with the behavior that `fn(timers)` returns."""
        return Setup("with_timers", fn)

    @staticmethod
    def with_stash(capacity: int, fn: Callable[[Stash], Behavior]) -> Behavior:
        """Begin with the behavior that `fn(stash)` returns; the stash holds at most `capacity` messages."""
        return Setup("with_stash", fn, capacity)

    @staticmethod
    def supervise(behavior: Behavior, supervision: Supervision) -> Behavior:
        """Begin with `behavior`; `supervision` says what becomes of the actor when it fails."""
        return Supervised(behavior, supervision)
