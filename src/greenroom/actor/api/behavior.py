"""What a behavior is: a value that a handler returns to say what comes next, or that `spawn` and `become` take.

Users make them with `Behaviors`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from inspect import CO_ASYNC_GENERATOR, CO_GENERATOR, getattr_static
from typing import TYPE_CHECKING, Any

from greenroom._core.behavior import BehaviorBase
from greenroom._core.build import MadeByRuntime
from greenroom.errors import BadArgument, NotAnActor
from greenroom.policy.specs import Supervision

if TYPE_CHECKING:
    from greenroom.actor.api.context import Context
    from greenroom.actor.messaging.signals import Signal
    from greenroom.actor.messaging.stash import Stash
    from greenroom.actor.messaging.timers import KeyedTimers

__all__ = [
    "SAME",
    "STOPPED",
    "UNHANDLED",
    "Behavior",
    "Behaviors",
    "Failed",
    "Receive",
    "Setup",
    "Supervised",
    "refuse_generator",
    "require_answers",
]


def refuse_generator(function: object, shown: str | None = None) -> None:
    """Raise if `function` has a `yield` in it: a call would make a generator, and not run a line of it."""
    while isinstance(function, partial):
        function = function.func
    code = getattr(function, "__code__", None)
    if code is None:  # an object that can be called
        code = getattr(getattr_static(type(function), "__call__", None), "__code__", None)
    flags = getattr(code, "co_flags", 0)
    if flags & (CO_GENERATOR | CO_ASYNC_GENERATOR):
        kind = "a generator" if flags & CO_GENERATOR else "an async generator"
        name = shown or getattr(function, "__qualname__", repr(function))
        raise NotAnActor(
            f"{name} is {kind} function, whose body would never run: return one value, such as a list, instead of "
            "using `yield`, or send many with `tell`"
        )


def require_answers(answers: object, what: str) -> tuple[type[Exception], ...]:
    """The same, if they are types of exceptions that may answer a message.

    >>> require_answers(KeyError, "Booking.answers")
    Traceback (most recent call last):
        ...
    greenroom.errors.BadArgument: Booking.answers must be a tuple of exception types, as in (KeyError,), not KeyError
    """
    if not isinstance(answers, tuple):
        example = answers.__name__ if isinstance(answers, type) and issubclass(answers, Exception) else "SoldOut"
        shown = answers.__name__ if isinstance(answers, type) else repr(answers)
        raise BadArgument(f"{what} must be a tuple of exception types, as in ({example},), not {shown}")
    for one in answers:
        if not isinstance(one, type) or not issubclass(one, Exception):
            shown = one.__name__ if isinstance(one, type) else repr(one)
            why = (
                ": it ends a task or the whole system, and answers nobody"
                if isinstance(one, type) and issubclass(one, BaseException)
                else ""
            )
            raise BadArgument(f"{what} must have subclasses of Exception only, and {shown} is none{why}")
    return answers


class Behavior(BehaviorBase):
    """What an actor does next. `Behaviors` makes them; handlers return them, `spawn` and `become` take them."""

    __slots__ = ()
    __signature__ = MadeByRuntime("Behavior")


class _Word(Behavior):
    __slots__ = ("_name",)

    def __init__(self, name: str, unhandled: bool = False) -> None:
        super().__init__(unhandled)
        self._name = name

    def __repr__(self) -> str:
        return f"Behaviors.{self._name}"

    def __reduce__(self) -> str:
        return self._name.upper()  # the name that it has in this module


SAME: Behavior = _Word("same")
STOPPED: Behavior = _Word("stopped")
UNHANDLED: Behavior = _Word("unhandled", unhandled=True)


class Failed(Behavior):
    """The handler failed, as if it had raised `cause`."""

    __slots__ = ("cause",)

    def __init__(self, cause: BaseException) -> None:
        if not isinstance(cause, BaseException):
            raise BadArgument(f"Behaviors.failed() takes the exception that is the cause, not {cause!r}")
        super().__init__()
        self.cause = cause

    def __reduce__(self) -> tuple[object, ...]:
        return Failed, (self.cause,)

    def __repr__(self) -> str:
        return f"Behaviors.failed({self.cause!r})"


class Receive(Behavior):
    """Messages are handled by `handler(ctx, message)`, signals by `on_signal(ctx, signal)`."""

    __slots__ = ("answers", "handler", "on_signal")

    def __init__(
        self,
        handler: Callable[..., object],
        on_signal: Callable[..., object] | None,
        answers: tuple[type[Exception], ...] = (),
    ) -> None:
        for given in (handler, on_signal):
            if given is not None and not callable(given):
                raise BadArgument(f"a behavior is made of functions, not of {given!r}")
            refuse_generator(given)
        super().__init__()
        self.handler = handler
        self.on_signal = on_signal
        self.answers = require_answers(answers, "answers of Behaviors.receive()")

    def __reduce__(self) -> tuple[object, ...]:
        return Receive, (self.handler, self.on_signal, self.answers)

    def __repr__(self) -> str:
        return f"Behaviors.receive({getattr(self.handler, '__name__', self.handler)})"


class Setup(Behavior):
    """`make(what it needs)` returns the behavior to begin with; called when the actor starts."""

    __slots__ = ("capacity", "make", "needs")

    def __init__(self, needs: str, make: Callable[..., object], capacity: int | None = None) -> None:
        if not callable(make):
            raise BadArgument(f"Behaviors.{needs}() takes a function that returns a behavior, not {make!r}")
        refuse_generator(make)
        super().__init__()
        self.needs = needs
        self.make = make
        self.capacity = capacity

    def __reduce__(self) -> tuple[object, ...]:
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

    def __reduce__(self) -> tuple[object, ...]:
        return Supervised, (self.behavior, self.supervision)

    def __repr__(self) -> str:
        return f"Behaviors.supervise({self.behavior!r}, {self.supervision!r})"


class Behaviors:
    """Behaviors as values, to return from a handler or to spawn.

    >>> def count(ctx, message):
    ...     return Behaviors.stopped if message == "stop" else Behaviors.same
    >>> Behaviors.receive(count)
    Behaviors.receive(count)
    """

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
