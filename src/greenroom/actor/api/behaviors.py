"""Behaviors as values: what a handler may return to say what comes next, and actors written as functions.

>>> def count(ctx, message):
...     return Behaviors.stopped if message == "stop" else Behaviors.same
>>> Behaviors.receive(count)
Behaviors.receive(count)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from greenroom._core.behavior import Verdict
from greenroom.errors import BadArgument
from greenroom.policy.specs import Supervision

if TYPE_CHECKING:
    from greenroom.actor.api.context import Context
    from greenroom.actor.messaging.signals import Signal
    from greenroom.actor.messaging.stash import Stash
    from greenroom.actor.messaging.timers import KeyedTimers

__all__ = ["Behavior", "Behaviors"]


class Behavior(Verdict):
    """What an actor does next. Made by `Behaviors`, returned by a handler or given to `spawn` and `become`."""

    __slots__ = ()


class _Word(Behavior):
    """A behavior that is nothing but its name."""

    __slots__ = ("_name",)

    def __init__(self, name: str, unhandled: bool = False) -> None:
        super().__init__(unhandled)
        self._name = name

    def __repr__(self) -> str:
        return f"Behaviors.{self._name}"

    def __reduce__(self) -> str | tuple[Any, ...]:
        return getattr, (Behaviors, self._name)


class Failed(Behavior):
    """The handler failed, as if it had raised `cause`."""

    __slots__ = ("cause",)

    def __init__(self, cause: BaseException) -> None:
        if not isinstance(cause, BaseException):
            raise BadArgument(f"Behaviors.failed() takes the exception that is the cause, not {cause!r}")
        super().__init__()
        self.cause = cause

    def __reduce__(self) -> tuple[Any, ...]:
        return Failed, (self.cause,)

    def __repr__(self) -> str:
        return f"Behaviors.failed({self.cause!r})"


class Receive(Behavior):
    """Messages are handled by `handler(ctx, message)`, signals by `on_signal(ctx, signal)`."""

    __slots__ = ("handler", "on_signal")

    def __init__(self, handler: Callable[..., object], on_signal: Callable[..., object] | None) -> None:
        for given in (handler, on_signal):
            if given is not None and not callable(given):
                raise BadArgument(f"a behavior is made of functions, not of {given!r}")
        super().__init__()
        self.handler = handler
        self.on_signal = on_signal

    def __reduce__(self) -> tuple[Any, ...]:
        return Receive, (self.handler, self.on_signal)

    def __repr__(self) -> str:
        return f"Behaviors.receive({getattr(self.handler, '__name__', self.handler)})"


class Setup(Behavior):
    """`make(what it needs)` returns the behavior to begin with; called when the actor starts."""

    __slots__ = ("capacity", "make", "needs")

    def __init__(self, needs: str, make: Callable[..., object], capacity: int | None = None) -> None:
        if not callable(make):
            raise BadArgument(f"Behaviors.{needs}() takes a function that returns a behavior, not {make!r}")
        super().__init__()
        self.needs = needs
        self.make = make
        self.capacity = capacity

    def __reduce__(self) -> tuple[Any, ...]:
        return Setup, (self.needs, self.make, self.capacity)

    def __repr__(self) -> str:
        return f"Behaviors.{self.needs}({getattr(self.make, '__name__', self.make)})"


class Supervised(Behavior):
    """`behavior`, with its own say in what becomes of it when it fails."""

    __slots__ = ("behavior", "supervision")

    def __init__(self, behavior: Behavior, supervision: Supervision) -> None:
        if not isinstance(supervision, Supervision):
            raise BadArgument(f"Behaviors.supervise() takes a Supervision, not {supervision!r}")
        super().__init__()
        self.behavior = behavior
        self.supervision = supervision

    def __reduce__(self) -> tuple[Any, ...]:
        return Supervised, (self.behavior, self.supervision)

    def __repr__(self) -> str:
        return f"Behaviors.supervise({self.behavior!r}, {self.supervision!r})"


class Behaviors:
    """The behaviors there are."""

    same: Behavior = _Word("same")
    """Go on as before."""
    stopped: Behavior = _Word("stopped")
    """Stop, after this message."""
    unhandled: Behavior = _Word("unhandled", unhandled=True)
    """This message was not for this actor: it becomes a dead letter, and an ask fails at once."""

    @staticmethod
    def failed(cause: BaseException) -> Behavior:
        """Fail with `cause`, as if the handler had raised it."""
        return Failed(cause)

    @staticmethod
    def receive(
        fn: Callable[[Context, Any], object], *, on_signal: Callable[[Context, Signal], object] | None = None
    ) -> Behavior:
        """Handle messages with `fn(ctx, message)`, which may be async."""
        return Receive(fn, on_signal)

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
