"""Which exceptions are alike: a test has to make one to say what it expects (M19)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import pytest

from greenroom.testing.checks.exceptionequality import difference_between


class Refused(Exception):
    """What it is about is in its attributes alone."""

    def __init__(self, *, code: int) -> None:
        super().__init__()
        self.code = code


@dataclass
class Burnt(Exception):
    """Its arguments depend on how it was made."""

    dish: str
    cause: BaseException | None = None


class Cold(Exception):
    def __init__(self, dish: str, served: float) -> None:
        super().__init__(dish, served)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Cold) and self.args[0] == other.args[0]

    __hash__ = Exception.__hash__


def group(*excs: Exception) -> ExceptionGroup[Exception]:
    return ExceptionGroup("some", excs)


def noted(exc: BaseException, note: str) -> BaseException:
    exc.add_note(note)
    return exc


def caused(exc: BaseException, cause: BaseException) -> BaseException:
    exc.__cause__ = cause
    return exc


@pytest.mark.parametrize(
    ("came", "wanted"),
    [
        (Refused(code=5), Refused(code=5)),
        (Burnt("soup"), Burnt(dish="soup")),
        (Burnt("soup", ValueError("hot")), Burnt("soup", ValueError("hot"))),
        (Cold("soup", 1.0), Cold("soup", 2.0)),
        (FileNotFoundError(2, "not there", "a.txt"), FileNotFoundError(2, "not there", "a.txt")),
        (group(ValueError(1), Refused(code=5)), group(ValueError(1), Refused(code=5))),
        (noted(ValueError("bad"), "while it rained"), ValueError("bad")),
        (noted(ValueError("bad"), "while it rained"), noted(ValueError("bad"), "at night")),
        (caused(ValueError("bad"), KeyError(1)), ValueError("bad")),
        (None, None),
    ],
)
def test_exceptions_made_in_the_same_way_are_alike(came: Any, wanted: Any) -> None:
    assert difference_between(came, wanted) is None
    assert difference_between(wanted, came) is None


@pytest.mark.parametrize(
    ("came", "wanted", "told"),
    [
        (Refused(code=5), Refused(code=6), "its code is 5, not 6"),
        (Burnt(dish="soup"), Burnt(dish="cake"), "its dish is 'soup', not 'cake'"),
        (Burnt("soup", KeyError(1)), Burnt("soup", KeyError(2)), "its arguments are .*KeyError.1.*, not .*KeyError.2"),
        (Cold("soup", 1.0), Cold("cake", 1.0), "its arguments are .*'soup'.*, not .*'cake'"),
        (
            FileNotFoundError(2, "gone", "a"),
            FileNotFoundError(2, "gone", "b"),
            "it says .*: 'a', not .*: 'b'$",
        ),
        (group(ValueError(1)), group(ValueError(2)), r"its arguments are .*ValueError\(1\).*, not .*ValueError\(2\)"),
        (group(ValueError(1)), group(ValueError(1), ValueError(1)), "its arguments are"),
        (ValueError("bad"), UnicodeError("bad"), "it is ValueError, not UnicodeError"),
        (None, ValueError("bad"), "it is no exception, not ValueError"),
        (ValueError("bad"), None, "it is ValueError, not no exception"),
    ],
)
def test_exceptions_that_differ_in_anything_are_told_apart(came: Any, wanted: Any, told: str) -> None:
    assert re.match(told, difference_between(came, wanted) or "")
    assert difference_between(wanted, came) is not None


def test_an_attribute_that_only_one_has_tells_exceptions_apart() -> None:
    came, wanted = ValueError("bad"), ValueError("bad")
    came.code = 5  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]
    assert difference_between(came, wanted) == "it has a code, 5"
    assert difference_between(wanted, came) == "it has no code"
