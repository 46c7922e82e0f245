"""What an actor's class says of its peers and pod mates: what it declares, and what its code mentions.

Type checkers hold senders to a declaration: `engine: ServiceHandle[Quote]`. That it is true of the actor they cannot
see, so it is looked at here. What cannot be told when the class is made (a name that is imported for type checkers
only, a type variable, a protocol) is left alone.

A mention is `self.peers.engine` or `self.pod.config` in compiled code, so that a wrong name is found when the troupe is
declared, and not when a handler comes to it. What is reached in other ways (`getattr`, a local variable) is not seen
here: it is an `AttributeError` when it happens.
"""

from __future__ import annotations

import dis
import sys
from abc import ABCMeta
from collections.abc import Callable, Iterator
from inspect import CO_OPTIMIZED, unwrap
from types import CodeType, FunctionType, NoneType, UnionType
from typing import Annotated, Any, ClassVar, Final, Never, Union, get_args, get_origin

from greenroom.actor.api.actor import Actor
from greenroom.pods.manifest.handles import Handles
from greenroom.pods.manifest.pod import actor_class_of, is_troupe


def is_class(given: Any) -> bool:
    """Whether others can be compared with a class: not with `Any`, a protocol, a union or a type variable."""
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


def declared_in(declared: type) -> dict[str, Any]:
    """What a subclass of `Handles` or `Mates` declares: names with their types, None for one that cannot be told."""
    return {
        name: _resolved(base, given)
        for base in reversed(declared.__mro__)
        for name, given in vars(base).get("__annotations__", {}).items()
        if not name.startswith("_")
    }


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


def mismatch(declared: Any, factory: Any) -> str | None:
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


_OF_SELF = ("LOAD_FAST", "LOAD_DEREF")
_OF_OUTER = ("LOAD_DEREF",)


def mentioned_in(actor_class: type[Actor], attribute: str) -> dict[str, str]:
    """The names of `self.<attribute>.<name>` in an actor's methods, those of its bases too; each with its first place.

    A name that begins with an underscore is not meant.
    """
    found: dict[str, str] = {}
    seen: set[str] = set()
    for base in actor_class.__mro__:
        if base is Actor or not issubclass(base, Actor):
            continue
        for method, value in vars(base).items():
            function = None if method in seen else _function_of(value)
            if function is not None and function.__code__.co_argcount:
                code = function.__code__
                for name, where in _mentions(code, code.co_varnames[0], _OF_SELF, attribute):
                    found.setdefault(name, where)
        seen.update(vars(base))
    return found


def _function_of(value: object) -> FunctionType | None:
    """The function of a method or a property: its first argument is the actor."""
    if isinstance(value, property):
        value = value.fget
    value = unwrap(value) if callable(value) and not isinstance(value, type) else None
    return value if isinstance(value, FunctionType) else None


def _mentions(code: CodeType, owner: str, loads: tuple[str, ...], attribute: str) -> Iterator[tuple[str, str]]:
    instructions = [one for one in dis.get_instructions(code) if one.opname not in ("CACHE", "PUSH_NULL")]
    for subject, middle, last in zip(instructions, instructions[1:], instructions[2:], strict=False):
        if (
            subject.opname.startswith(loads)
            # An instruction may load two variables: the last one counts.
            and (subject.argval[-1] if isinstance(subject.argval, tuple) else subject.argval) == owner
            and (middle.opname, middle.argval) == ("LOAD_ATTR", attribute)
            and last.opname in ("LOAD_ATTR", "LOAD_METHOD")
            and not last.argval.startswith("_")
        ):
            line = last.positions.lineno if last.positions is not None else None
            yield last.argval, f"{code.co_filename}:{line or code.co_firstlineno}"
    for constant in code.co_consts:
        # In a function within, a name that is not its own; a class within is no function.
        if isinstance(constant, CodeType) and constant.co_flags & CO_OPTIMIZED and owner in constant.co_freevars:
            yield from _mentions(constant, owner, _OF_OUTER, attribute)
