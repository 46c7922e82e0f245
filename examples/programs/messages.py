"""What the stages send one another."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Line:
    """A line, for the next stage."""

    data: bytes


@dataclass(frozen=True)
class End:
    """There are no more."""


class Crashed(Exception):
    """The program of a stage has died."""
