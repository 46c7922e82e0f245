"""`become` and `unbecome`: which behavior handles an actor's messages, and what was before it."""

from __future__ import annotations

import inspect
from inspect import isawaitable
from types import FunctionType, MethodType
from typing import TYPE_CHECKING, Any, NamedTuple

from greenroom._core.mailbox.cell import Cell
from greenroom.actor.api.behavior import STOPPED, Behavior, Failed, Receive, Setup, Supervised, refuse_generator
from greenroom.actor.records.record import ActorRecord
from greenroom.errors import BadArgument, NotAnActor
from greenroom.exits import NORMAL

if TYPE_CHECKING:
    from collections.abc import Callable


__all__ = [
    "CurrentBehavior",
    "become",
    "become_next",
    "close_unawaited",
    "install_behavior",
    "positional_arguments",
    "resolve_behavior",
    "unbecome",
]


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
    """What a behavior, function or method is made of; behaviors that need something are given it."""
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
    """Take on the behavior that a handler returned."""
    if isinstance(behavior, Failed):
        raise behavior.cause
    record = cell.record
    if isinstance(record, ActorRecord):
        become(record, behavior)


def close_unawaited(awaitable: Any) -> None:
    if hasattr(awaitable, "close"):
        awaitable.close()


def positional_arguments(function: Callable[..., object]) -> int:
    """How many arguments `function` must be given."""
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
