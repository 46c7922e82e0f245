"""Results as people read them (an aligned table) and as machines do (JSON)."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.model import Comparison, Row, Target
from benchmarks.results import Figure, Line, Mark, RowResult

HEAD = ("id", "work", "ours", "peer", "peer's", "ratio", "target", "mark")
RIGHT_ALIGNED = {2, 4, 5, 6}
NOTHING = "-"


def render(facts: Mapping[str, str], results: Sequence[RowResult]) -> str:
    """The whole report: facts, table, parts of the figures, one closing line."""
    sections = [_facts(facts), table(results)]
    if notes := _parts(results):
        sections.append(notes)
    sections.append(closing(results))
    return "\n\n".join(sections)


def table(results: Sequence[RowResult]) -> str:
    """One line per comparison; a row's id, work and figure stand on its first line only."""
    cells = [HEAD, *(line for result in results for line in _row_cells(result))]
    return _align(cells)


def listing(rows: Sequence[Row]) -> str:
    """What ``--list`` prints: ids, works, peers, targets."""
    cells: list[tuple[str, ...]] = [("id", "work", "peer", "target")]
    for row in rows:
        for place, line in enumerate(row.comparisons):
            head = (row.id, row.work) if place == 0 else ("", "")
            cells.append((*head, line.peer.name if line.peer else NOTHING, write_target(row, line)))
    return _align(cells, right_aligned={3})


def closing(results: Sequence[RowResult]) -> str:
    """How many targets are met, how many not, how many this run cannot tell."""
    marks = Counter(line.mark for result in results for line in result.lines if line.comparison.target)
    missed = marks[Mark.BELOW] + marks[Mark.ABOVE]
    untold = marks.total() - marks[Mark.MEETS] - missed
    return f"targets: {marks[Mark.MEETS]} met, {missed} missed, {untold} open"


def as_json(facts: Mapping[str, str], results: Sequence[RowResult], *, quick: bool) -> str:
    """The same content for machines; every sample is in it."""
    content = {"facts": dict(facts), "quick": quick, "rows": [_row_json(result) for result in results]}
    return json.dumps(content, indent=2)


def write_target(row: Row, line: Comparison) -> str:
    """A target as the table shows it: a factor against a peer, a figure where there is none."""
    if line.target is None:
        return NOTHING
    sign = "≤" if line.target.is_ceiling else "≥"
    return f"{sign} {f'{line.target.bound:g}x' if line.peer else row.unit.write(line.target.bound)}"


def write_score(row: Row, line: Line) -> str:
    """A measured score: a factor against a peer, a figure where there is none."""
    if line.score is None:
        return NOTHING
    return _factor(line.score) if line.comparison.peer else row.unit.write(line.score)


def write_mark(line: Line) -> str:
    """A mark, with its reason where it has one."""
    return f"{line.mark}: {line.reason}" if line.reason else str(line.mark)


def _row_cells(result: RowResult) -> list[tuple[str, ...]]:
    row = result.row
    cells: list[tuple[str, ...]] = []
    for place, line in enumerate(result.lines):
        peer = line.comparison.peer
        head = (row.id, row.work, _figure(row, result.ours)) if place == 0 else ("", "", "")
        ratio = write_score(row, line) if peer else NOTHING
        target = write_target(row, line.comparison)
        theirs = _figure(row, line.theirs)
        cells.append((*head, peer.name if peer else NOTHING, theirs, ratio, target, write_mark(line)))
    return cells


def _figure(row: Row, figure: Figure | None) -> str:
    return NOTHING if figure is None or figure.value is None else row.unit.write(figure.value)


def _factor(value: float) -> str:
    return f"{value:.0f}x" if value >= 100 else f"{value:.2f}x"


def _short(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _align(cells: Sequence[tuple[str, ...]], right_aligned: set[int] | None = None) -> str:
    right = RIGHT_ALIGNED if right_aligned is None else right_aligned
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    rule = tuple("-" * (len(cells[0][-1]) if place == len(widths) - 1 else width) for place, width in enumerate(widths))
    return "\n".join(
        "  ".join(
            text.rjust(width) if place in right else text.ljust(width)
            for place, (text, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in (cells[0], rule, *cells[1:])
    )


def _facts(facts: Mapping[str, str]) -> str:
    width = max(map(len, facts), default=0)
    return "\n".join(f"{name.ljust(width)}  {value}" for name, value in facts.items())


def _parts(results: Sequence[RowResult]) -> str:
    notes = []
    for result in results:
        figures = [("ours", result.ours)]
        figures += [(line.comparison.peer.name, line.theirs) for line in result.lines if line.comparison.peer]
        for name, figure in figures:
            if figure and figure.parts:
                parts = "; ".join(f"{part} {_short(value)}" for part, value in figure.parts.items())
                notes.append(f"{result.row.id} {name}: {parts}")
    return "\n".join(notes)


def _row_json(result: RowResult) -> dict[str, Any]:
    return {
        "id": result.row.id,
        "work": result.row.work,
        "unit": result.row.unit.name,
        "ours": _figure_json(result.ours),
        "comparisons": [
            {
                "peer": line.comparison.peer.name if line.comparison.peer else None,
                "theirs": _figure_json(line.theirs),
                "score": line.score,
                "target": _target_json(line.comparison.target),
                "mark": str(line.mark),
                "reason": line.reason,
            }
            for line in result.lines
        ],
    }


def _figure_json(figure: Figure | None) -> dict[str, Any] | None:
    if figure is None:
        return None
    return {"value": figure.value, "samples": list(figure.samples), "parts": dict(figure.parts)}


def _target_json(target: Target | None) -> dict[str, Any] | None:
    if target is None:
        return None
    return {"bound": target.bound, "kind": "at most" if target.is_ceiling else "at least"}
