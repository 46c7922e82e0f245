"""What a row is: a work, our program, its peers, and the target the comparison must reach.

Everything here is a frozen value; ``rows`` writes them down, ``harness`` carries them out,
``results`` judges what came back.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum


@dataclass(frozen=True, slots=True)
class Unit:
    """What a figure counts, how rounds become one figure, and how it is written."""

    name: str
    summarise: Callable[[Sequence[float]], float]
    write: Callable[[float], str]


def _write_rate(value: float) -> str:
    for size, letter in ((1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:.3g} {letter}/s"
    return f"{value:.3g} /s"


RATE = Unit("per second", max, _write_rate)
BYTES = Unit("bytes", min, lambda value: f"{value:,.0f} B")
MILLISECONDS = Unit("milliseconds", min, lambda value: f"{value:.1f} ms")
LATENCY = Unit("milliseconds", statistics.median, lambda value: f"{value:.2f} ms")
SHARE = Unit("of the time", min, lambda value: f"{value:.2f}x the time")
# The extremes of a quotient are noise of its divisor, so its best is its middle.
SLOWDOWN = Unit("times dearer", statistics.median, lambda value: f"{value:.2f}x dearer")


@dataclass(frozen=True, slots=True)
class Target:
    """A bound on a score: the ratio to a peer, or the figure itself where there is no peer."""

    bound: float
    is_ceiling: bool = False

    def is_met_by(self, score: float) -> bool:
        """Whether ``score`` stands on the right side of the bound."""
        return score <= self.bound if self.is_ceiling else score >= self.bound


def at_least(bound: float) -> Target:
    """A target that a score meets from above."""
    return Target(bound)


def at_most(bound: float) -> Target:
    """A target that a score meets from below."""
    return Target(bound, is_ceiling=True)


class Build(StrEnum):
    """The builds of Greenroom that a row's targets speak of."""

    COMPILED = "compiled"
    PURE = "pure"
    ANY = "any"


@dataclass(frozen=True, slots=True)
class Setting:
    """What programs are started with."""

    python: str
    compiled: bool
    pure_python: str | None = None
    gil_python: str | None = None
    quick: bool = False


# Builds the command line for a size of work, or raises Unavailable with the reason.
Launcher = Callable[[Setting, int], list[str]]


@dataclass(frozen=True, slots=True)
class Program:
    """One contender: who it is, how it is started, and how much work it gets."""

    name: str
    launch: Launcher
    size: int
    quick_size: int

    def command(self, setting: Setting) -> list[str]:
        """The command line under ``setting``; raises Unavailable when there is none."""
        return self.launch(setting, self.quick_size if setting.quick else self.size)


@dataclass(frozen=True, slots=True)
class Comparison:
    """One line of the table. Without a peer the target bounds our own figure;
    without a target the line is there for orientation."""

    peer: Program | None = None
    target: Target | None = None


@dataclass(frozen=True, slots=True)
class Row:
    """One work. ``ours`` is None while Greenroom has nothing yet that does it."""

    id: str
    work: str
    unit: Unit
    ours: Program | None
    comparisons: tuple[Comparison, ...]
    rounds: int = 7
    quick_rounds: int = 2
    build: Build = Build.COMPILED

    @property
    def peers(self) -> tuple[Program, ...]:
        """The peers in the order of their lines."""
        return tuple(line.peer for line in self.comparisons if line.peer is not None)

    def rounds_under(self, setting: Setting) -> int:
        """How often each contender is measured."""
        return self.quick_rounds if setting.quick else self.rounds
