"""Which peers and pod mates an actor's code mentions: `self.peers.engine`, `self.pod.config`, and where.

Read off the compiled code, so that a wrong name is found when the troupe is declared, and not when a handler comes to
it. What is reached in other ways (`getattr`, a local variable) is not seen here: it is an `AttributeError` when it
happens.
"""

from __future__ import annotations

import dis
from collections.abc import Iterator
from inspect import CO_OPTIMIZED, unwrap
from types import CodeType, FunctionType
from typing import NamedTuple

from greenroom.actor.api.actor import Actor

__all__ = ["Mention", "mentions_of"]

_OF_SELF = ("LOAD_FAST", "LOAD_DEREF")
_OF_OUTER = ("LOAD_DEREF",)
_ATTRIBUTES = ("LOAD_ATTR", "LOAD_METHOD")


class Mention(NamedTuple):
    """`self.<what>.<name>`, somewhere in an actor's code."""

    what: str
    name: str
    where: str


def mentions_of(actor_class: type[Actor], what: tuple[str, ...] = ("peers", "pod")) -> list[Mention]:
    """All mentions in the methods that an actor class has, its own and those of its bases below `Actor`."""
    found: list[Mention] = []
    seen: set[str] = set()
    for base in actor_class.__mro__:
        if base is Actor or not issubclass(base, Actor):
            continue
        for name, value in vars(base).items():
            function = None if name in seen else _function_of(value)
            if function is not None and function.__code__.co_argcount:
                code = function.__code__
                found.extend(_mentions_in(code, code.co_varnames[0], _OF_SELF, what))
        seen.update(vars(base))
    return found


def _function_of(value: object) -> FunctionType | None:
    """The function of a method or a property: its first argument is the actor."""
    if isinstance(value, property):
        value = value.fget
    value = unwrap(value) if callable(value) and not isinstance(value, type) else None
    return value if isinstance(value, FunctionType) else None


def _mentions_in(code: CodeType, owner: str, loads: tuple[str, ...], what: tuple[str, ...]) -> Iterator[Mention]:
    instructions = [one for one in dis.get_instructions(code) if one.opname not in ("CACHE", "PUSH_NULL")]
    for subject, middle, last in zip(instructions, instructions[1:], instructions[2:], strict=False):
        if (
            subject.opname.startswith(loads)
            and _loaded_by(subject) == owner
            and middle.opname == "LOAD_ATTR"
            and middle.argval in what
            and last.opname in _ATTRIBUTES
        ):
            line = last.positions.lineno if last.positions is not None else None
            yield Mention(middle.argval, last.argval, f"{code.co_filename}:{line or code.co_firstlineno}")
    for constant in code.co_consts:
        # In a function within, a name that is not its own; a class within is no function.
        if isinstance(constant, CodeType) and constant.co_flags & CO_OPTIMIZED and owner in constant.co_freevars:
            yield from _mentions_in(constant, owner, _OF_OUTER, what)


def _loaded_by(instruction: dis.Instruction) -> object:
    """The name of the variable that is loaded last: one instruction may load two."""
    return instruction.argval[-1] if isinstance(instruction.argval, tuple) else instruction.argval
