"""Checks of options."""

from __future__ import annotations

from math import inf
from typing import Any

from greenroom.actor.life.spec import spec_of
from greenroom.errors import ConfigError, NotAnActor

__all__ = ["require_count", "require_handler", "require_port", "require_seconds", "require_type"]


def require_seconds(name: str, value: Any, *, none: bool = False, positive: bool = False) -> None:
    """Raise unless it is a number of seconds, or None if that is allowed."""
    if none and value is None:
        return
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not 0 <= value < inf or (positive and value == 0):
        least = "more than zero" if positive else "zero or more"
        raise ConfigError(name, value, f"must be a number of seconds, {least}{', or None' if none else ''}")


def require_type(name: str, value: Any, kind: type, shown: str, *, none: bool = True) -> None:
    """Raise unless it is a `kind`, or None if that is allowed."""
    if not isinstance(value, kind) and not (none and value is None):
        raise ConfigError(name, value, f"must be {shown}{', or None' if none else ''}")


def require_handler(handler: Any) -> None:
    """Raise unless actors can be made of it."""
    try:
        spec_of(handler, (), {})
    except NotAnActor as exc:
        raise ConfigError("handler", handler, f"must be what `spawn` takes: {exc}") from exc


def require_count(name: str, value: Any, *, none: bool = False) -> None:
    """Raise unless it is a whole number, at least 1, or None if that is allowed."""
    if none and value is None:
        return
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ConfigError(name, value, f"must be a whole number, and at least 1{', or None' if none else ''}")


def require_port(value: Any) -> None:
    """Raise unless it is the number of a port."""
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= 65_535:
        raise ConfigError("port", value, "must be a number from 0 to 65535")
