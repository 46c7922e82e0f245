"""What all streams have in common: framing, limits, and how they end."""

from __future__ import annotations

from dataclasses import dataclass

from greenroom.meta.streams.checks import require_count, require_seconds
from greenroom.meta.streams.framing import RAW, Framing, framing_of

__all__ = ["StreamOptions"]


@dataclass(slots=True)
class StreamOptions:
    """How a stream is read, written and closed."""

    framing: Framing = RAW
    idle_timeout: float | None = None
    half_open: bool = False
    linger: float = 5.0
    high_water: int = 65_536
    write_timeout: float | None = 60.0

    @staticmethod
    def of(
        framing: object,
        idle_timeout: float | None,
        half_open: bool,
        linger: float,
        high_water: int,
        write_timeout: float | None,
    ) -> StreamOptions:
        """These, if they make sense."""
        require_seconds("idle_timeout", idle_timeout, none=True)
        require_seconds("linger", linger)
        require_count("high_water", high_water)
        require_seconds("write_timeout", write_timeout, none=True)
        return StreamOptions(framing_of(framing), idle_timeout, bool(half_open), linger, high_water, write_timeout)
