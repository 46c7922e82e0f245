"""What classes declare of peers, mates and exposed actors, compared with what is there.

Type checkers hold senders to a declaration: `engine: ServiceHandle[Quote]`. That it is true of the actor they cannot
see, so it is looked at here. What cannot be told when the class is made (a name that is imported for type checkers
only, a type variable, a protocol) is left alone.
"""

from __future__ import annotations

import sys
from abc import ABCMeta
from collections.abc import Callable
from types import NoneType, UnionType
from typing import Annotated, Any, ClassVar, Final, NamedTuple, Never, Union, get_args, get_origin

from greenroom.actor.api.actor import Actor
from greenroom.pods.manifest.factories import actor_class_of, is_troupe
from greenroom.pods.manifest.handles import Handles

__all__ = ["Declared", "annotation_of", "declared_in", "is_class", "misfit", "names_in"]


class Declared(NamedTuple):
    """One name of a subclass of `Handles` or `Mates`, with its type; None if that cannot be told."""

    name: str
    type: Any


def is_class(given: Any) -> bool:
    """Whether it is a class that others can be compared with: not `Any`, a protocol, a union or a type variable."""
    if not isinstance(given, type) or given in (Any, object, UnionType, Annotated, Callable):
        return False
    return not getattr(given, "_is_protocol", False)


def annotation_of(owner: type, attribute: str) -> Any:
    """The type that `owner`, or a base, declares for an attribute; None if there is none, or it cannot be told."""
    for base in owner.__mro__:
        given = vars(base).get("__annotations__", {}).get(attribute)
        if given is not None:
            return _resolved(base, given)
    return None


def declared_in(declared: type) -> list[Declared]:
    """What a subclass of `Handles` or `Mates` declares."""
    found: dict[str, Any] = {}
    for base in reversed(declared.__mro__):
        for name, given in vars(base).get("__annotations__", {}).items():
            if not name.startswith("_"):
                found[name] = _resolved(base, given)
    return [Declared(name, given) for name, given in found.items()]


def names_in(declared: type) -> tuple[str, ...]:
    """The names that it declares."""
    return tuple(one.name for one in declared_in(declared))


def _resolved(base: type, given: Any) -> Any:
    if isinstance(given, str):
        if "<locals>" in base.__qualname__:
            return None  # its names are those of a function
        module = sys.modules.get(base.__module__)
        try:
            given = eval(given, dict(vars(module)) if module is not None else {}, dict(vars(base)))
        except Exception:
            return None
    return _bare(given)


def _bare(given: Any) -> Any:
    """A type without what is said about it: `X`, for `Annotated[X, ...]`, `Final[X]` and `X | None`."""
    while True:
        origin, args = get_origin(given), get_args(given)
        if origin is Annotated or (origin in (ClassVar, Final) and args):
            given = args[0]
        elif origin in (Union, UnionType):
            others = [one for one in args if one is not NoneType]
            if len(others) != 1:
                return None
            given = others[0]
        else:
            return given


def misfit(declared: Any, factory: Any) -> str | None:
    """What is wrong with a declaration of the handle of what this makes; None if nothing is, or none can say."""
    kind = get_origin(declared) or declared
    if not is_class(kind):
        return None
    actor_class = actor_class_of(factory)
    if issubclass(kind, Handles):
        return None if actor_class is None else f"as {kind.__name__}, and it is an actor: declare a ServiceHandle[...]"
    if not getattr(kind, "__greenroom_is_handle__", False):
        return None if isinstance(kind, ABCMeta) else f"as {kind.__name__}, and it is a ServiceHandle[...]"
    if is_troupe(factory):
        return "as a ServiceHandle, and it is a troupe: declare a subclass of Handles, with what that exposes"
    accepted = None if actor_class is None else _accepted_by(actor_class)
    if accepted is None or actor_class is None:
        return None
    for lane in get_args(declared):
        for sent in _classes_in(lane) or ():
            if not any(_is_one(sent, one) for one in accepted):
                takes = " | ".join(one.__name__ for one in accepted) or "nothing"
                return f"to take {sent.__name__}, and {actor_class.__name__} is an actor of {takes}"
    return None


def _accepted_by(actor_class: type[Actor]) -> tuple[type, ...] | None:
    """The classes of the messages that it handles, by its `Actor[...]`, unless a class below that may handle others."""
    for base in actor_class.__mro__:
        for generic in vars(base).get("__orig_bases__", ()):
            if get_origin(generic) is Actor:
                return _classes_in(get_args(generic)[0])
        if "receive" in vars(base):
            return None
    return None


def _classes_in(given: Any) -> tuple[type, ...] | None:
    """The classes of a type, or of a union; None if there is another kind of type in it."""
    if get_origin(given) is Annotated:
        given = get_args(given)[0]
    if given is Never:
        return ()
    if given is None:
        return (NoneType,)
    if get_origin(given) in (Union, UnionType):
        found = [_classes_in(one) for one in get_args(given)]
        return None if None in found else tuple(one for some in found for one in some or ())
    kind = get_origin(given) or given
    return (kind,) if is_class(kind) or kind is object else None


_NUMBERS: tuple[type, ...] = (int, float, complex)


def _is_one(sent: type, accepted: type) -> bool:
    if accepted in _NUMBERS:  # as type checkers have it, an int is a float
        return issubclass(sent, _NUMBERS[: _NUMBERS.index(accepted) + 1])
    try:
        return issubclass(sent, accepted)
    except TypeError:
        return True
