"""Checks of options."""

from __future__ import annotations

from math import inf
from typing import Any

from greenroom.errors import ConfigError

__all__ = ["require_count", "require_port", "require_seconds"]


def require_seconds(name: str, value: Any, *, none: bool = False) -> None:
    """Raise unless it is a number of seconds, or None if that is allowed."""
    if none and value is None:
        return
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < inf:
        raise ConfigError(name, value, f"must be a number of seconds, zero or more{', or None' if none else ''}")


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
