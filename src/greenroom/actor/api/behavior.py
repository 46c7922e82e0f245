"""Behaviors: values that a handler returns to say what comes next, or that `spawn` and `become` take.

Users make them with `Behaviors`. What handles an actor's messages at present is its `CurrentBehavior`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from inspect import CO_ASYNC_GENERATOR, CO_GENERATOR, getattr_static, isawaitable
from types import FunctionType, MethodType
from typing import TYPE_CHECKING, Any, NamedTuple

from greenroom._core.behavior import BehaviorBase
from greenroom._core.build import MadeByRuntime
from greenroom.actor.records.record import ActorRecord
from greenroom.errors import BadArgument, NotAnActor
from greenroom.exits import NORMAL
from greenroom.policy.specs import Supervision

if TYPE_CHECKING:
    from greenroom._core.mailbox.cell import Cell
    from greenroom.actor.api.context import Context
    from greenroom.actor.messaging.signals import Signal
    from greenroom.actor.messaging.stash import Stash
    from greenroom.actor.messaging.timers import KeyedTimers


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
    """Return `answers` if they are types of exceptions that may answer a message.

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

    __slots__: tuple[str, ...] = ()
    __signature__ = MadeByRuntime("Behavior")

    def __reduce__(self) -> str | tuple[object, ...]:
        return type(self), tuple(getattr(self, name) for name in self.__slots__)


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

    def __repr__(self) -> str:
        return f"Behaviors.failed({self.cause!r})"


class Receive(Behavior):
    """Messages are handled by `handler(ctx, message)`, signals by `on_signal(ctx, signal)`."""

    __slots__ = ("handler", "on_signal", "answers")  # noqa: RUF023 - their order is that of the arguments

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

    def __repr__(self) -> str:
        return f"Behaviors.receive({getattr(self.handler, '__name__', self.handler)})"


class Setup(Behavior):
    """`make(what it needs)` returns the behavior to begin with; called when the actor starts."""

    __slots__ = ("needs", "make", "capacity")  # noqa: RUF023 - as above

    def __init__(self, needs: str, make: Callable[..., object], capacity: int | None = None) -> None:
        if not callable(make):
            raise BadArgument(f"Behaviors.{needs}() takes a function that returns a behavior, not {make!r}")
        refuse_generator(make)
        super().__init__()
        self.needs = needs
        self.make = make
        self.capacity = capacity

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


# -- what handles an actor's messages

MOST_BEHAVIORS = 1000
"""How many behaviors an actor may have to go back to."""


class CurrentBehavior(NamedTuple):
    """What handles an actor's messages and signals at present."""

    handler: Callable[..., object]
    subject: object
    on_signal: Callable[..., object] | None
    answers: tuple[type[Exception], ...] = ()


def install_behavior(record: ActorRecord, part: CurrentBehavior) -> None:
    record.cell.put_code(part.handler, part.subject)
    if part.on_signal is not None or part.answers or record.extras is not None:
        extras = record.ensure_extras()
        extras.on_signal = part.on_signal
        extras.answers = part.answers


def resolve_behavior(record: ActorRecord, behavior: object) -> CurrentBehavior:
    while isinstance(behavior, Setup | Supervised):
        if isinstance(behavior, Supervised):
            record.ensure_extras().settings_of_behavior = record.settings().supervised_by(behavior.supervision)
            behavior = behavior.behavior
        else:
            behavior = _set_up(record, behavior)
            if isawaitable(behavior):
                close_unawaited(behavior)
                raise NotAnActor(
                    "a behavior is set up at once, not by an `async def`: what takes time is its own message"
                )
    if isinstance(behavior, Failed):
        raise behavior.cause
    if behavior is STOPPED:
        record.cell.loop.host.request_end(record.cell, NORMAL)
        return CurrentBehavior(_ignore, record, None)
    if isinstance(behavior, Receive):
        return CurrentBehavior(behavior.handler, record, behavior.on_signal, behavior.answers)
    if isinstance(behavior, Behavior) or not callable(behavior):
        raise NotAnActor(f"{behavior!r} cannot handle messages: give a Behaviors.receive(...), or a function")
    return _part_of_function(record, behavior)


def _set_up(record: ActorRecord, behavior: Setup) -> object:
    context: Any = record
    if behavior.needs == "setup":
        return behavior.make(context)
    if behavior.needs == "with_timers":
        return behavior.make(context.timers)
    context.stash_capacity = behavior.capacity
    return behavior.make(record.ensure_extras().stash)


def _ignore(ctx: object, message: object) -> None:
    """Nothing comes any more."""


def _part_of_function(record: ActorRecord, function: Callable[..., object]) -> CurrentBehavior:
    """A function `(ctx, message)` or `(message)`, like the methods of the actor itself."""
    refuse_generator(function)
    count = positional_arguments(function)
    if count == 2:
        return CurrentBehavior(function, record, None)
    if count == 1:
        if isinstance(function, MethodType):
            return CurrentBehavior(function.__func__, function.__self__, None)
        return CurrentBehavior(lambda _, message: function(message), record, None)
    raise NotAnActor(f"{function!r} cannot handle messages: it must take (ctx, message), or a method (message)")


def become(record: ActorRecord, behavior: object, push: bool = False) -> None:
    """Handle what comes next with `behavior`, in place of the present one or, with `push`, on top of it.

    The first behavior always stays below, for `unbecome` and for its hooks.
    """
    handler, subject = record.cell.code()
    if handler is None:
        raise BadArgument(f"{record.cell.shown()} has no behavior yet: return it from the setup, instead of become()")
    if push and record.extras is not None and len(record.extras.behaviors) >= MOST_BEHAVIORS:
        raise BadArgument(
            f"{record.cell.shown()} has {MOST_BEHAVIORS:,} behaviors to go back to, which is the limit: use "
            "`unbecome()`, or replace the present behavior with `become(...)` without `push=True`"
        )
    part = resolve_behavior(record, behavior)
    extras = record.ensure_extras()
    if push or not extras.behaviors:
        present = CurrentBehavior(handler, subject, extras.on_signal, extras.answers)
        extras.behaviors.append(present)
    install_behavior(record, part)


def unbecome(record: ActorRecord) -> None:
    """Go back to what the last push saved, or to the first behavior."""
    if record.extras is not None and record.extras.behaviors:
        install_behavior(record, record.extras.behaviors.pop())


def become_next(cell: Cell, behavior: object) -> None:
    if isinstance(behavior, Failed):
        raise behavior.cause
    record = cell.record
    if isinstance(record, ActorRecord):
        become(record, behavior)


def close_unawaited(awaitable: Any) -> None:
    if hasattr(awaitable, "close"):
        awaitable.close()


def positional_arguments(function: Callable[..., object]) -> int:
    plain = function.__func__ if isinstance(function, MethodType) else function
    if type(plain) is FunctionType and not plain.__code__.co_kwonlyargcount and not hasattr(plain, "__wrapped__"):
        bound = 1 if plain is not function else 0
        return plain.__code__.co_argcount - len(plain.__defaults__ or ()) - bound
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return 0
    return sum(
        1 for one in parameters if one.default is one.empty and one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD)
    )
