"""Whether an exception that came is like the one a test has made: exceptions know no equality of their own.

>>> what_differs(OSError(2, "no such file", "a.txt"), OSError(2, "no such file", "a.txt"))
>>> what_differs(OSError(2, "no such file", "a.txt"), OSError(2, "no such file", "b.txt"))
"it says [Errno 2] no such file: 'a.txt', not [Errno 2] no such file: 'b.txt'"
>>> what_differs(KeyError(), ValueError())
'it is KeyError, not ValueError'
"""

from __future__ import annotations

from typing import Any

__all__ = ["what_differs"]


def what_differs(came: Any, wanted: Any) -> str | None:
    """What tells an exception (or None) from the wanted one, in words; None if they are alike.

    Alike are those that are equal by an `__eq__` of their own, and those of one type, with equal arguments, attributes
    and text. Where they were raised, what was noted on them and what caused them is of no account.
    """
    if type(came) is not type(wanted):
        return f"it is {_kind_of(came)}, not {_kind_of(wanted)}"
    if came == wanted:  # the same, or a dataclass, whose `args` depend on how it was made
        return None
    if not _equal(came.args, wanted.args):
        return f"its arguments are {came.args!r}, not {wanted.args!r}"
    return _other_attribute(_attributes(came), _attributes(wanted)) or _other_text(str(came), str(wanted))


def _kind_of(exc: BaseException | None) -> str:
    return "no exception" if exc is None else type(exc).__name__


def _attributes(exc: BaseException) -> dict[str, Any]:
    """What is in it besides its arguments. Names such as `__notes__` are Python's own."""
    return {name: value for name, value in vars(exc).items() if not (name.startswith("__") and name.endswith("__"))}


def _other_attribute(came: dict[str, Any], wanted: dict[str, Any]) -> str | None:
    for name in sorted(came.keys() | wanted.keys()):
        if name not in came:
            return f"it has no {name}"
        if name not in wanted:
            return f"it has a {name}, {came[name]!r}"
        if not _equal(came[name], wanted[name]):
            return f"its {name} is {came[name]!r}, not {wanted[name]!r}"
    return None


def _other_text(came: str, wanted: str) -> str | None:
    # Some built-in exceptions have more to say than their arguments: a file's name, say.
    return None if came == wanted else f"it says {came}, not {wanted}"


def _equal(one: Any, other: Any) -> bool:
    """Whether two values are equal or, for exceptions in them, alike: a group has others among its arguments."""
    if isinstance(one, list | tuple) and type(one) is type(other):
        return len(one) == len(other) and all(map(_equal, one, other))
    if isinstance(one, BaseException) and isinstance(other, BaseException):
        return what_differs(one, other) is None
    return one is other or bool(one == other)
