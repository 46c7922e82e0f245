"""What a test wants of a message, and how that is said."""

from __future__ import annotations

from functools import partial
from operator import eq
from typing import Any, Literal, NewType, Optional
from unittest import mock

import pytest

from greenroom.errors import BadArgument
from greenroom.testing.probing.matching import in_words, listed, match_all, matches, shown


class Picky:
    """Compares with its own kind only."""

    def __init__(self, value: int) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        theirs: Any = other
        return bool(self.value == theirs.value)

    __hash__ = None  # type: ignore[assignment]


def handler(message: Any) -> None:
    raise AssertionError("it is a message, not to be called")


@pytest.mark.parametrize(
    ("wanted", "message", "fits"),
    [
        (5, 5, True),
        (5, 6, False),
        (None, None, True),
        (None, 0, False),
        (mock.ANY, 6, True),
        (int, 5, True),
        (int, "5", False),
        (object, None, True),
        (int, int, True),
        (Picky, Picky(1), True),
        (str, Picky(1), False),
        (Picky(1), Picky(1), True),
        (handler, handler, True),
        (lambda message: message > 5, 6, True),
        (lambda message: message > 5, 5, False),
        (lambda message: [], 5, False),
        (partial(eq, 5), 5, True),
        ([1, 2].__contains__, 3, False),
        (int | str, 5, True),
        (int | str, 5.0, False),
        (Optional[int], None, True),  # noqa: UP045 - as older code has it
        (Optional[int], "5", False),  # noqa: UP045
    ],
)
def test_a_message_is_what_is_wanted_or_not(wanted: Any, message: Any, fits: bool) -> None:
    assert matches(wanted, message) is fits


UserId = NewType("UserId", int)


async def is_fine(message: Any) -> bool:
    return True


@pytest.mark.parametrize(
    ("wanted", "remedy"),
    [
        (list[int], "say its class alone"),
        (tuple[int, str], "say its class alone"),
        (list[int] | None, "say its class alone"),
        (Literal["tea"], "say its class alone"),
        (UserId, "say <class 'int'>"),
        (is_fine, "must not be async"),
        (lambda message: is_fine(message), "must not be async"),
    ],
)
@pytest.mark.filterwarnings("ignore:coroutine 'is_fine' was never awaited")
def test_what_would_be_true_of_nearly_anything_is_refused(wanted: Any, remedy: str) -> None:
    with pytest.raises(BadArgument, match=remedy):
        matches(wanted, "xy")


def test_a_function_that_raises_says_about_which_message() -> None:
    with pytest.raises(TypeError) as caught:
        matches(lambda message: message > 5, "tea")
    assert caught.value.__notes__ == [
        f"raised by <lambda> (test_matching.py:{matches_line()}), which the test asked about the message 'tea'"
    ]


def matches_line() -> int:
    return test_a_function_that_raises_says_about_which_message.__code__.co_firstlineno + 2


@pytest.mark.parametrize(
    ("wanted", "messages", "places"),
    [
        ((), [], []),
        (("a", "b"), ["b", "a"], [1, 0]),
        (("a", "b"), ["b"], [1]),
        (("a", "a"), ["a", "a"], [0, 1]),
        (("a", "b"), ["a", "a"], None),
        (("a",), ["x"], None),
        ((object, int, 5), [5, 6, "x"], [2, 1, 0]),
        ((object, int, 5), [5, 5, 5], [0, 1, 2]),
        ((object, int, 5), ["x", "y", 5], None),
    ],
)
def test_messages_find_their_places_if_there_is_any_way(wanted: Any, messages: Any, places: Any) -> None:
    assert match_all(wanted, messages) == places


class Mute:
    def __repr__(self) -> str:
        raise RuntimeError


def test_errors_show_messages_in_moderation() -> None:
    assert shown("tea") == "'tea'"
    assert shown("x" * 1000) == "'" + "x" * 299 + "..."
    assert shown(Mute()) == "<a Mute whose repr raises RuntimeError>"


def test_what_is_wanted_is_said_in_words() -> None:
    assert in_words((1, 2)) == "(1, 2)"
    assert in_words(int) == "<class 'int'>"
    assert in_words(handler).startswith("what handler (test_matching.py:")
    assert in_words([1].__contains__) == "what __contains__ is true of"
    assert listed(["a", int]) == "'a', <class 'int'>"
