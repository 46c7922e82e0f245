"""Frozen values whose classes are cheap to make.

A dataclass adds a millisecond to the import (`make bench`, P17), and there are many small ones.

>>> class Point(Frozen):
...     __slots__ = ("x", "y")
...     def __init__(self, x: int, y: int) -> None:
...         self._set(x, y)
>>> Point(1, 2)
Point(x=1, y=2)
>>> Point(1, 2) == Point(1, 2), Point(1, 2) == Point(2, 1)
(True, False)
>>> Point(1, 2).x = 3
Traceback (most recent call last):
    ...
dataclasses.FrozenInstanceError: a Point cannot be changed
"""

from __future__ import annotations

from dataclasses import FrozenInstanceError, fields
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

_put = object.__setattr__


class ByFields:
    """Shows and compares a dataclass by its fields, for `@dataclass(frozen=True, eq=False, repr=False)`.

    `dataclass` would write and compile the same three functions anew for each class, which takes a third of a class's
    import time.
    """

    __slots__ = ()

    def _names(self) -> Iterable[str]:
        return [one.name for one in fields(self)]  # type: ignore[arg-type]

    def _values(self) -> tuple[object, ...]:
        return tuple(getattr(self, name) for name in self._names())

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={getattr(self, name)!r}" for name in self._names())
        return f"{type(self).__qualname__}({shown})"

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return self._values() == other._values()

    def __hash__(self) -> int:
        return hash(self._values())


class Frozen(ByFields):
    """A value whose fields are its slots; a subclass has an `__init__` that takes them in their order.

    Where import time matters less, `@dataclass(eq=False, repr=False, slots=True)` writes that `__init__`.
    """

    __slots__: tuple[str, ...] = ()

    def _set(self, *values: object) -> None:
        """Set the fields, once."""
        for name, value in zip(type(self).__slots__, values, strict=True):
            _put(self, name, value)

    def _names(self) -> Iterable[str]:
        return type(self).__slots__

    def __setattr__(self, name: str, value: object) -> None:
        if name in type(self).__slots__ and not hasattr(self, name):
            _put(self, name, value)  # in the `__init__` of a dataclass
            return
        raise FrozenInstanceError(f"a {type(self).__name__} cannot be changed")

    def __delattr__(self, name: str) -> None:
        raise FrozenInstanceError(f"a {type(self).__name__} cannot be changed")

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), self._values()
