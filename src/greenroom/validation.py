"""Checks of arguments: each raises an error that says what is wanted.

>>> require_seconds("stop_timeout", -1)
Traceback (most recent call last):
    ...
greenroom.errors.ConfigError: stop_timeout=-1: must be a number of seconds, zero or more

True and False are not numbers here, though Python counts them as integers.
"""

from __future__ import annotations

from enum import Enum
from math import inf
from sys import float_info
from typing import TYPE_CHECKING, TypeGuard

from greenroom.errors import ConfigError, InvalidDelay

if TYPE_CHECKING:
    from types import UnionType

LONGEST_DELAY: float = 1e12
"""Thirty thousand years, in seconds: beyond it, the bucket numbers of `Timers` would not fit."""
FINITE = float_info.max


def is_number(value: object, most: float = FINITE) -> TypeGuard[float]:
    """Whether `value` is a number from 0 to `most`, and finite unless `most` is not."""
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= most


def is_whole(value: object, least: float = -inf, most: float = inf) -> TypeGuard[int]:
    """Whether `value` is a whole number from `least` to `most`."""
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most


def require_instance(name: str, value: object, kind: type | UnionType | tuple[type, ...], wanted: str) -> None:
    """Raise unless `value` is a `kind`; `wanted` says what that is."""
    if not isinstance(value, kind):
        raise ConfigError(name, value, f"must be {wanted}")


def require_bool(name: str, value: object) -> None:
    """Raise unless `value` is True or False."""
    require_instance(name, value, bool, "True or False")


def require_one_of(name: str, value: object, choices: type[Enum]) -> None:
    """Raise unless `value` is a member of the enum `choices`."""
    require_instance(name, value, choices, f"one of {', '.join(f'{choices.__name__}.{one.name}' for one in choices)}")


def require_whole(
    name: str, value: object, wanted: str = "a whole number", least: float = -inf, most: float = inf
) -> None:
    """Raise unless `value` is a whole number from `least` to `most`; `wanted` says so."""
    if not is_whole(value, least, most):
        raise ConfigError(name, value, f"must be {wanted}")


def require_count(name: str, value: object, *, none: bool = False) -> None:
    """Raise unless `value` is a whole number from 1 on, or None if that is allowed."""
    if value is not None or not none:
        require_whole(name, value, f"a whole number, and at least 1{', or None' if none else ''}", 1)


def require_limit(name: str, value: object) -> None:
    """Raise unless `value` is a whole number from 0 on, or None."""
    if value is not None:
        require_whole(name, value, "a whole number, zero or more, or None for no limit", 0)


def require_processor(name: str, value: object) -> None:
    """Raise unless `value` is the number of a processor, or None."""
    if value is not None:
        require_whole(name, value, "the number of a processor, counted from 0, or None for any", 0)


def require_port(value: object) -> None:
    """Raise unless `value` is the number of a port."""
    require_whole("port", value, "a number from 0 to 65535", 0, 65_535)


def require_seconds(
    name: str, value: object, otherwise: str = "", *, none: bool = False, positive: bool = False
) -> None:
    """Raise unless `value` is a number of seconds, or None if that is allowed; `otherwise` says what else it may be."""
    if none and value is None:
        return
    if not is_number(value) or (positive and value == 0):
        least = "more than zero" if positive else "zero or more"
        raise ConfigError(name, value, f"must be a number of seconds, {least}{', or None' if none else otherwise}")


def require_delay(name: str, value: object, most: float = LONGEST_DELAY) -> None:
    """Raise `InvalidDelay` unless `value` is a number of seconds from 0 to `most`."""
    if not is_number(value, most):
        raise InvalidDelay(name, value)
