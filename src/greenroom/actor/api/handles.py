"""Dispatch by message type: methods marked with `@handles`.

>>> class Counter:
...     @handles(int)
...     def add(self, message): return "a number"
...     @handles(str, bytes)
...     def note(self, message): return "text"
>>> dispatch = dispatcher_of(Counter)
>>> dispatch(Counter(), 7), dispatch(Counter(), True), dispatch(Counter(), b"x"), dispatch(Counter(), 1.5)
('a number', 'a number', 'text', Behaviors.unhandled)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from greenroom.actor.api.behavior import UNHANDLED, refuse_generator
from greenroom.errors import BadArgument, HandlerConflict

__all__ = ["dispatcher_of", "handles"]

F = TypeVar("F", bound=Callable[..., object])


def handles(*types: type) -> Callable[[F], F]:
    """Let the method handle messages of these types: the exact type first, then its bases in their order."""
    if not types or not all(isinstance(given, type) for given in types):
        raise BadArgument(f"@handles() takes the message types, as in @handles(Deposit, Withdraw); it got {types!r}")

    def mark(method: F) -> F:
        refuse_generator(method)
        method.__greenroom_handles__ = (*getattr(method, "__greenroom_handles__", ()), *types)  # type: ignore[attr-defined]
        return method

    return mark


def dispatcher_of(actor_class: type) -> Callable[..., object] | None:
    """A function `(actor, message)` that finds the method for the message, or None when no method is marked."""
    known = _marked_methods(actor_class)
    if not known:
        return None

    def dispatch(actor: object, message: object) -> object:
        kind = type(message)
        method = known.get(kind)
        if method is None:
            if kind in known:
                return UNHANDLED
            method = known[kind] = next((known[base] for base in kind.__mro__ if known.get(base)), None)
            if method is None:
                return UNHANDLED
        return method(actor, message)

    return dispatch


def _marked_methods(actor_class: type) -> dict[type, Callable[..., object] | None]:
    """Methods by message type. A subclass's method replaces its base's, by name and by message type."""
    known: dict[type, Callable[..., object] | None] = {}
    for base in reversed(actor_class.__mro__):
        here: dict[type, str] = {}
        for name, method in vars(base).items():
            for message_type in getattr(method, "__greenroom_handles__", ()):
                if message_type in here:
                    raise HandlerConflict(base, message_type, here[message_type], name)
                here[message_type] = name
                known[message_type] = getattr(actor_class, name)
    return known
