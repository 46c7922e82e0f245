"""Compares exceptions by type, arguments, attributes and text: by default, exceptions compare by identity.

>>> difference_between(OSError(2, "no such file", "a.txt"), OSError(2, "no such file", "a.txt"))
>>> difference_between(OSError(2, "no such file", "a.txt"), OSError(2, "no such file", "b.txt"))
"it says [Errno 2] no such file: 'a.txt', not [Errno 2] no such file: 'b.txt'"
>>> difference_between(KeyError(), ValueError())
'it is KeyError, not ValueError'
"""

from __future__ import annotations

__all__ = ["difference_between"]


def difference_between(actual: BaseException | None, expected: BaseException | None) -> str | None:
    """Describe how an exception (or None) differs from the expected one; None if it does not.

    Two exceptions are equal if their own `__eq__` says so, or if they have the same type and equal arguments,
    attributes and text. Tracebacks, notes and causes are not compared.
    """
    if type(actual) is not type(expected):
        return f"it is {_kind_of(actual)}, not {_kind_of(expected)}"
    if actual is None or expected is None or actual == expected:
        return None  # both None, the same, or equal dataclasses, whose `args` depend on how they were made
    if not _equal(actual.args, expected.args):
        return f"its arguments are {actual.args!r}, not {expected.args!r}"
    return _other_attribute(_attributes(actual), _attributes(expected)) or _other_text(str(actual), str(expected))


def _kind_of(exc: BaseException | None) -> str:
    return "no exception" if exc is None else type(exc).__name__


def _attributes(exc: BaseException) -> dict[str, object]:
    """The instance attributes, without Python's own, such as `__notes__`."""
    return {name: value for name, value in vars(exc).items() if not (name.startswith("__") and name.endswith("__"))}


def _other_attribute(actual: dict[str, object], expected: dict[str, object]) -> str | None:
    for name in sorted(actual.keys() | expected.keys()):
        if name not in actual:
            return f"it has no {name}"
        if name not in expected:
            return f"it has a {name}, {actual[name]!r}"
        if not _equal(actual[name], expected[name]):
            return f"its {name} is {actual[name]!r}, not {expected[name]!r}"
    return None


def _other_text(actual: str, expected: str) -> str | None:
    # The text of some built-in exceptions has more than their arguments: a file name, for example.
    return None if actual == expected else f"it says {actual}, not {expected}"


def _equal(one: object, other: object) -> bool:
    """Compare two values, and the exceptions inside lists and tuples: an exception group has some in its arguments."""
    if isinstance(one, list | tuple) and isinstance(other, list | tuple) and type(one) is type(other):
        return len(one) == len(other) and all(map(_equal, one, other))
    if isinstance(one, BaseException) and isinstance(other, BaseException):
        return difference_between(one, other) is None
    return one is other or bool(one == other)
