"""Whether an exception that came is like the one a test has made: exceptions know no equality of their own.

>>> difference_between(OSError(2, "no such file", "a.txt"), OSError(2, "no such file", "a.txt"))
>>> difference_between(OSError(2, "no such file", "a.txt"), OSError(2, "no such file", "b.txt"))
"it says [Errno 2] no such file: 'a.txt', not [Errno 2] no such file: 'b.txt'"
>>> difference_between(KeyError(), ValueError())
'it is KeyError, not ValueError'
"""

from __future__ import annotations

__all__ = ["difference_between"]


def difference_between(actual: BaseException | None, expected: BaseException | None) -> str | None:
    """What tells an exception (or None) from the wanted one, in words; None if they are alike.

    Alike are those that are equal by an `__eq__` of their own, and those of one type, with equal arguments, attributes
    and text. Where they were raised, what was noted on them and what caused them is of no account.
    """
    if type(actual) is not type(expected):
        return f"it is {_kind_of(actual)}, not {_kind_of(expected)}"
    if (
        actual is None or expected is None or actual == expected
    ):  # the same, or a dataclass, whose `args` depend on how it was made
        return None
    if not _equal(actual.args, expected.args):
        return f"its arguments are {actual.args!r}, not {expected.args!r}"
    return _other_attribute(_attributes(actual), _attributes(expected)) or _other_text(str(actual), str(expected))


def _kind_of(exc: BaseException | None) -> str:
    return "no exception" if exc is None else type(exc).__name__


def _attributes(exc: BaseException) -> dict[str, object]:
    """What is in it besides its arguments. Names such as `__notes__` are Python's own."""
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
    # Some built-in exceptions have more to say than their arguments: a file's name, say.
    return None if actual == expected else f"it says {actual}, not {expected}"


def _equal(one: object, other: object) -> bool:
    """Whether two values are equal or, for exceptions in them, alike: a group has others among its arguments."""
    if isinstance(one, list | tuple) and isinstance(other, list | tuple) and type(one) is type(other):
        return len(one) == len(other) and all(map(_equal, one, other))
    if isinstance(one, BaseException) and isinstance(other, BaseException):
        return difference_between(one, other) is None
    return one is other or bool(one == other)
