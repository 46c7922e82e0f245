"""What came back, and what it is worth: figures, ratios and marks. Pure functions of values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from benchmarks.model import Build, Comparison, Row, Unit
from benchmarks.program import Report


@dataclass(frozen=True, slots=True)
class Figure:
    """One contender's rounds: the figure they come to, or the reason there is none."""

    value: float | None
    samples: tuple[float, ...] = ()
    parts: Mapping[str, float] = field(default_factory=dict)
    reason: str = ""
    # True when the program broke, False when it declined or could not be started.
    broke: bool = False


def figure_of(unit: Unit, reports: Sequence[Report]) -> Figure:
    """The figure that ``reports`` come to in ``unit``; parts are those of the round nearest to it."""
    samples = tuple(report.value for report in reports)
    value = unit.summarise(samples)
    nearest = min(reports, key=lambda report: abs(report.value - value))
    return Figure(value, samples, nearest.parts)


class Mark(StrEnum):
    """What a line says at its end."""

    MEETS = "meets"
    BELOW = "below"
    ABOVE = "above"
    ORIENTATION = "-"
    OTHER_BUILD = "other build"
    PENDING = "not built yet"
    SKIPPED = "skipped"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Line:
    """One comparison with its figures: the peer's (if any), the score, and the mark with its reason."""

    comparison: Comparison
    theirs: Figure | None
    score: float | None
    mark: Mark
    reason: str = ""


@dataclass(frozen=True, slots=True)
class RowResult:
    """A row with our figure (None while not built) and its judged lines."""

    row: Row
    ours: Figure | None
    lines: tuple[Line, ...]


def judge(row: Row, ours: Figure | None, theirs: Mapping[str, Figure], build: Build) -> RowResult:
    """Compare our figure with every peer's by name; ``build`` is the one that ran."""
    lines = tuple(
        _judge_line(row, line, ours, theirs.get(line.peer.name) if line.peer else None, build)
        for line in row.comparisons
    )
    return RowResult(row, ours, lines)


def _judge_line(row: Row, line: Comparison, ours: Figure | None, theirs: Figure | None, build: Build) -> Line:
    if ours is None:
        if theirs is not None and theirs.value is None:
            return Line(line, theirs, None, Mark.SKIPPED, theirs.reason)
        return Line(line, theirs, None, Mark.PENDING)
    if ours.value is None:
        return Line(line, theirs, None, Mark.FAILED if ours.broke else Mark.SKIPPED, ours.reason)
    if line.peer is None:
        return Line(line, None, ours.value, _mark(row, line, ours.value, build))
    if theirs is None or theirs.value is None:
        return Line(line, theirs, None, Mark.SKIPPED, theirs.reason if theirs else "not measured")
    score = ours.value / theirs.value
    return Line(line, theirs, score, _mark(row, line, score, build))


def _mark(row: Row, line: Comparison, score: float, build: Build) -> Mark:
    if line.target is None:
        return Mark.ORIENTATION
    if row.build not in (Build.ANY, build):
        return Mark.OTHER_BUILD
    if line.target.is_met_by(score):
        return Mark.MEETS
    return Mark.ABOVE if line.target.is_ceiling else Mark.BELOW
