"""Which peers and pod mates an actor's code mentions: `self.peers.engine`, `self.pod.config`, and where.

Read off the compiled code, so that a wrong name is found when the troupe is declared, and not when a handler comes to
it. What is reached in other ways (`getattr`, a local variable) is not seen here: it is an `AttributeError` when it
happens.
"""

from __future__ import annotations

import dis
from collections.abc import Iterator
from inspect import unwrap
from types import CodeType, FunctionType
from typing import NamedTuple

from greenroom.actor.api.actor import Actor

__all__ = ["Mention", "mentions_of"]

_OF_SELF = ("LOAD_FAST", "LOAD_DEREF")
_ATTRIBUTES = ("LOAD_ATTR", "LOAD_METHOD")


class Mention(NamedTuple):
    """`self.<what>.<name>`, somewhere in an actor's code."""

    what: str
    name: str
    where: str


def mentions_of(actor_class: type[Actor], what: tuple[str, ...] = ("peers", "pod")) -> list[Mention]:
    """All mentions in the methods of an actor class, and of its bases below `Actor`."""
    found: list[Mention] = []
    for base in actor_class.__mro__:
        if base is Actor or not issubclass(base, Actor):
            continue
        for value in vars(base).values():
            function = _function_of(value)
            if function is not None:
                found.extend(_mentions_in(function.__code__, what))
    return found


def _function_of(value: object) -> FunctionType | None:
    if isinstance(value, staticmethod | classmethod):
        value = value.__func__
    elif isinstance(value, property):
        value = value.fget
    value = unwrap(value) if callable(value) else None
    return value if isinstance(value, FunctionType) else None


def _mentions_in(code: CodeType, what: tuple[str, ...]) -> Iterator[Mention]:
    instructions = [one for one in dis.get_instructions(code) if one.opname not in ("CACHE", "PUSH_NULL")]
    for subject, middle, last in zip(instructions, instructions[1:], instructions[2:], strict=False):
        if (
            subject.opname.startswith(_OF_SELF)
            and middle.opname == "LOAD_ATTR"
            and middle.argval in what
            and last.opname in _ATTRIBUTES
        ):
            line = last.positions.lineno if last.positions is not None else None
            yield Mention(middle.argval, last.argval, f"{code.co_filename}:{line or code.co_firstlineno}")
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _mentions_in(constant, what)
