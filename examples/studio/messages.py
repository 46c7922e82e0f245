"""What the pods of the studio send to one another.

>>> frame = Frame.of(7, ["ab", "cd"])
>>> frame.is_whole
True
>>> frame._replace(rows=("ab",)).is_whole
False
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple
from zlib import crc32


@dataclass(frozen=True)
class Settings:
    """What the command line says."""

    fps: float = 30.0
    frames: int | None = None
    """The number of the last frame; None for no last one."""
    seconds: float | None = None
    kill_every: int = 0
    """The engine is killed halfway through every frame of which this is a divisor; 0 for none."""


class Tick(NamedTuple):
    """Time for a frame."""

    number: int


class Kill:
    """Fail, and lose all that you have in memory."""


class Frame(NamedTuple):
    """A picture."""

    number: int
    rows: tuple[str, ...]
    height: int
    checksum: int

    @classmethod
    def of(cls, number: int, rows: Iterable[str]) -> Frame:
        """A frame of these rows."""
        kept = tuple(rows)
        return cls(number, kept, len(kept), crc32("\n".join(kept).encode()))

    @property
    def is_whole(self) -> bool:
        """Whether the frame has all its rows, as they were computed."""
        return self.height == len(self.rows) and self.checksum == crc32("\n".join(self.rows).encode())


class Made(NamedTuple):
    """A frame was computed."""

    number: int
    seconds: float


class Started:
    """An engine has started."""


class Report(NamedTuple):
    """What telemetry has counted."""

    frames: int
    starts: int
    milliseconds: float
    note: str
