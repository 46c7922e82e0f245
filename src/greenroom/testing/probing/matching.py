"""Matches messages with what a test expects: a value, a type (or several, as in `int | str`), or a function.

>>> matches("tea", "tea"), matches(str, "tea"), matches(lambda message: len(message) > 5, "tea")
(True, True, False)
>>> in_words("tea"), listed((str, 5))
("'tea'", "<class 'str'>, 5")
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Sequence
from pathlib import PurePath
from types import UnionType
from typing import NewType, Union, get_args, get_origin

from greenroom.errors import BadArgument

_SHOWN = 300
"""How many characters of a message an error shows at most."""


def matches(wanted: object, message: object) -> bool:
    """Whether `message` equals the value `wanted`, is of that type, or makes that function return true."""
    if message is wanted:
        return True
    if get_origin(wanted) in (Union, UnionType):
        return any(matches(one, message) for one in get_args(wanted))
    _require_clear(wanted)
    if isinstance(wanted, type):
        return isinstance(message, wanted)
    if not callable(wanted):
        return bool(message == wanted)
    try:
        answer = wanted(message)
    except Exception as exc:
        exc.add_note(f"raised by {_name_of(wanted)}, which the test asked about the message {shown(message)}")
        raise
    if inspect.isawaitable(answer):
        raise BadArgument(f"{_name_of(wanted)} is asked about messages, and returned {answer!r}: it must not be async")
    return bool(answer)


def _require_clear(wanted: object) -> None:
    """Raise for a `wanted` that looks like a type but would be called as a function, and match nearly any message."""
    if get_origin(wanted) is not None:
        raise BadArgument(
            f"a message cannot be told to be {wanted}: say its class alone, or give a function that looks"
        )
    if isinstance(wanted, NewType):
        raise BadArgument(f"{wanted!r} is a type for checkers alone: say {wanted.__supertype__!r}, or give a function")
    if inspect.iscoroutinefunction(wanted):
        raise BadArgument(f"{_name_of(wanted)} is asked about messages: it must not be async")


def match_all(wanted: Sequence[object], messages: Sequence[object]) -> list[int] | None:
    """Assign to each message a different entry of `wanted` that it matches: their positions, or None if impossible.

    >>> match_all((int, 5), [5, 7])
    [1, 0]
    >>> match_all((int, 5), [6, 7]) is None
    True
    """
    fits = [[place for place, one in enumerate(wanted) if matches(one, message)] for message in messages]
    holders: dict[int, int] = {}
    if not all(_find_place(number, fits, holders, set()) for number in range(len(messages))):
        return None
    places = {number: place for place, number in holders.items()}
    return [places[number] for number in range(len(messages))]


def _find_place(number: int, fits: list[list[int]], holders: dict[int, int], tried: set[int]) -> bool:
    """Assign a position to message `number`; if need be, move another message to a position that it matches too."""
    for place in sorted(fits[number], key=holders.__contains__):  # the free ones first
        if place not in tried:
            tried.add(place)
            if place not in holders or _find_place(holders[place], fits, holders, tried):
                holders[place] = number
                return True
    return False


def in_words(wanted: object) -> str:
    if isinstance(wanted, type) or not callable(wanted) or get_origin(wanted) is not None:
        return shown(wanted)
    return f"what {_name_of(wanted)} is true of"


def listed(wanted: Iterable[object]) -> str:
    return ", ".join(map(in_words, wanted))


def _name_of(function: object) -> str:
    code = getattr(function, "__code__", None)
    name = getattr(function, "__name__", None) or shown(function)
    return str(name) if code is None else f"{name} ({PurePath(code.co_filename).name}:{code.co_firstlineno})"


def shown(message: object) -> str:
    """The repr of a message for an error: shortened, and without raising if the repr raises.

    >>> shown("tea")
    "'tea'"
    """
    try:
        text = repr(message)
    except Exception as exc:
        return f"<a {type(message).__name__} whose repr raises {type(exc).__name__}>"
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
