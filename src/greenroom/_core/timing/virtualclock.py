"""The time of a simulation: it stands still until it is moved."""

from __future__ import annotations

__all__ = ["VirtualClock"]


class VirtualClock:
    """A clock that is moved by whoever runs the simulation; a loop reads it without a call."""

    __slots__ = ("time",)

    def __init__(self) -> None:
        self.time = 0.0

    def now(self) -> float:
        """Seconds since the simulation began."""
        return self.time

    def move_to(self, moment: float) -> None:
        """Let it be `moment`, unless it is later already."""
        self.time = max(self.time, moment)
