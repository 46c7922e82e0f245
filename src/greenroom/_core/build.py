"""Which build this is: in a compiled one, `receipt` is an extension like the other hot modules."""

from __future__ import annotations

from typing import TYPE_CHECKING

from greenroom._core import receipt

if TYPE_CHECKING:
    from inspect import Signature

COMPILED: bool = not receipt.__file__.endswith((".py", ".pyc"))


class MadeByRuntime:
    """The `__signature__` of a class that users make no instances of: without it, a compiled class has none at all."""

    __slots__ = ("_owner",)

    def __init__(self, owner: str) -> None:
        self._owner = owner

    def __get__(self, instance: object, owner: type) -> Signature:
        if owner.__name__ != self._owner:
            raise AttributeError("__signature__")  # a subclass says itself what it takes
        from inspect import Signature

        return Signature()
