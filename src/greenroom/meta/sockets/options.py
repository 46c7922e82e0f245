"""What all streams have in common: framing, limits, and how they end."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import Any

from greenroom.errors import ConfigError
from greenroom.meta.sockets.framing import RAW, Framing, framing_of

__all__ = ["StreamOptions", "require_seconds"]


@dataclass(slots=True)
class StreamOptions:
    """How a stream is read, written and closed."""

    framing: Framing = RAW
    idle_timeout: float | None = None
    half_open: bool = False
    linger: float = 5.0
    high_water: int = 65_536

    @staticmethod
    def of(
        framing: object, idle_timeout: float | None, half_open: bool, linger: float, high_water: int
    ) -> StreamOptions:
        """These, if they make sense."""
        require_seconds("idle_timeout", idle_timeout, none=True)
        require_seconds("linger", linger)
        require_count("high_water", high_water)
        return StreamOptions(framing_of(framing), idle_timeout, bool(half_open), linger, high_water)


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
