"""Dispatch by message type: methods marked with `@handles`, and `receive` for every other type.

>>> class Counter:
...     @handles(int)
...     def add(self, message): return "a number"
...     @handles(str, bytes)
...     def note(self, message): return "text"
>>> dispatch = dispatcher_of(Counter, lambda actor, message: "something else")
>>> dispatch(Counter(), 7), dispatch(Counter(), True), dispatch(Counter(), b"x"), dispatch(Counter(), 1.5)
('a number', 'a number', 'text', 'something else')
"""

from __future__ import annotations

from collections.abc import Callable
from inspect import CO_VARARGS
from types import FunctionType, UnionType
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin

from greenroom.actor.api.behavior import refuse_generator
from greenroom.errors import BadArgument, HandlerConflict

F = TypeVar("F", bound=Callable[..., object])

_PROMOTED: dict[type, tuple[type, ...]] = {float: (int,), complex: (int, float), bytes: (bytearray, memoryview)}
"""What type checkers accept where one of these is annotated, though it is no subclass."""


def handles(*types: type) -> Callable[[F], F]:
    """Mark a method that handles messages of these types: the exact type first, then its bases in their order."""
    if not types or not all(isinstance(given, type) for given in types):
        raise BadArgument(f"@handles() takes the message types, as in @handles(Deposit, Withdraw); it got {types!r}")

    def mark(method: F) -> F:
        refuse_generator(method)
        method.__greenroom_handles__ = (*getattr(method, "__greenroom_handles__", ()), *types)  # type: ignore[attr-defined]
        return method

    return mark


def dispatcher_of(actor_class: type, otherwise: Callable[..., object]) -> Callable[..., object] | None:
    """A function `(actor, message)` that calls the method for the message, or `otherwise`; None if none is marked."""
    marked = _marked_methods(actor_class)
    if not marked:
        return None
    # By the type of messages that have come. Apart from `marked`: what a base's messages go to says nothing about a
    # type that has other bases too.
    found = dict(marked)

    def dispatch(actor: object, message: object) -> object:
        kind = type(message)
        method = found.get(kind)
        if method is None:
            method = found[kind] = next((marked[base] for base in kind.__mro__ if base in marked), otherwise)
        return method(actor, message)

    return dispatch


def _marked_methods(actor_class: type) -> dict[type, Callable[..., object]]:
    """Methods by message type. A subclass's method replaces its base's, by name and by message type."""
    known: dict[type, Callable[..., object]] = {}
    for base in reversed(actor_class.__mro__):
        require_matching_types(base)
        here: dict[type, str] = {}
        for name, method in _members(base):
            for message_type in getattr(method, "__greenroom_handles__", ()):
                if message_type in here:
                    raise HandlerConflict(base, message_type, here[message_type], name)
                here[message_type] = name
                known[message_type] = getattr(actor_class, name)
                refuse_generator(known[message_type])  # it may be another than the marked one
    return known


def _members(actor_class: type) -> list[tuple[str, Any]]:
    """What its body defines. A copy: another thread that spawns one for the first time notes that in the class."""
    return list(vars(actor_class).items())


# -- what a method handles, and what its parameter is annotated with


def require_matching_types(actor_class: type) -> None:
    """Raise if a method of this class takes no message, or handles a type that its annotation excludes."""
    for name, method in _members(actor_class):
        types = getattr(method, "__greenroom_handles__", ())
        if not types:
            continue
        if not _takes_a_message(method):
            kind = types[0].__name__
            raise BadArgument(
                f"{actor_class.__name__}.{name} handles {kind}, but cannot be called with a message: write "
                f"`def {name}(self, message: {kind})`"
            )
        parameter, annotation = _annotated(actor_class, method)
        for handled in types:
            if _excludes(annotation, handled):
                shown = annotation.__name__ if isinstance(annotation, type) else str(annotation)
                raise BadArgument(
                    f"{actor_class.__name__}.{name} handles {handled.__name__}, but its parameter `{parameter}` is "
                    f"annotated {shown}: write @handles({shown}), or annotate it {handled.__name__}"
                )


def _takes_a_message(method: object) -> bool:
    """Whether a method can be called with itself and one message. In doubt, yes."""
    if not isinstance(method, FunctionType) or hasattr(method, "__wrapped__"):
        return True
    code = method.__code__
    least = code.co_argcount - len(method.__defaults__ or ())
    most = code.co_argcount if not code.co_flags & CO_VARARGS else 2
    unnamed = code.co_kwonlyargcount - len(method.__kwdefaults__ or ())
    return least <= 2 <= most and unnamed == 0


def _annotated(actor_class: type, method: object) -> tuple[str, Any]:
    """The name and annotation of a method's parameter; Any if they cannot be evaluated here and now."""
    if not isinstance(method, FunctionType) or method.__code__.co_argcount < 2 or hasattr(method, "__wrapped__"):
        return "", Any
    name = method.__code__.co_varnames[1]
    try:
        annotation = method.__annotations__.get(name, Any)
        if isinstance(annotation, str):
            names = {**vars(actor_class), actor_class.__name__: actor_class}
            annotation = eval(annotation, method.__globals__, names)  # as `typing.get_type_hints` does
    except Exception:  # it names something that is defined later, or for type checkers only
        return name, Any
    return name, annotation


def _excludes(annotation: Any, handled: type) -> bool:
    """Whether no message of the type `handled` can fit `annotation`. In doubt, no."""
    if annotation is Any:  # which is a class
        return False
    if annotation is None:
        annotation = type(None)
    origin = get_origin(annotation)
    if origin is Annotated:
        return _excludes(get_args(annotation)[0], handled)
    if origin is Union or origin is UnionType:
        return all(_excludes(one, handled) for one in get_args(annotation))
    # Abstract classes, protocols and typed dicts have their own idea of what is one of them.
    if origin is not None or not isinstance(annotation, type) or not _is_plain(annotation):
        return False
    if issubclass(handled, (annotation, *_PROMOTED.get(annotation, ()))):
        return False
    # One that handles a base may know that only some of its subclasses come.
    return _is_plain(handled) and not issubclass(annotation, handled)


def _is_plain(kind: type) -> bool:
    return type(kind).__subclasscheck__ is type.__subclasscheck__
