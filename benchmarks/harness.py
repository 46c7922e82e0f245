"""Measure rows: all contenders of a row take turns, round after round, in one run.

Taking turns is what makes a ratio trustworthy on a noisy machine: a slow minute hits every
contender alike. A contender that declines or breaks is out for the rest of its row.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from benchmarks.launch import Broken, run_program
from benchmarks.model import Build, Program, Row, Setting
from benchmarks.program import Report, Unavailable
from benchmarks.progress import Progress
from benchmarks.results import Figure, RowResult, figure_of, judge

Runner = Callable[[Program, Setting], Report]


def measure_all(
    rows: Sequence[Row], setting: Setting, progress: Progress, run: Runner = run_program
) -> list[RowResult]:
    """Every row in order; ``run`` makes one measurement."""
    progress.begin(sum(_turns(row, setting) for row in rows))
    try:
        return [measure(row, setting, progress, run) for row in rows]
    finally:
        progress.end()


def measure(row: Row, setting: Setting, progress: Progress, run: Runner) -> RowResult:
    """All rounds of one row, judged."""
    contenders = _contenders(row)
    reports: dict[Program, list[Report]] = {program: [] for program in contenders}
    out: dict[Program, Figure] = {}
    progress.row(row)
    for turn in range(row.rounds_under(setting)):
        for program in contenders:
            progress.turn(row, program, turn + 1)
            # A row without our figure has no ratio, so its peers need not run.
            if program in out or (row.ours is not None and row.ours in out):
                continue
            try:
                reports[program].append(run(program, setting))
            except Unavailable as reason:
                out[program] = Figure(None, reason=str(reason))
            except Broken as reason:
                out[program] = Figure(None, reason=str(reason), broke=True)

    def figure(program: Program) -> Figure | None:
        if program in out:
            return out[program]
        return figure_of(row.unit, reports[program]) if reports[program] else None

    theirs = {peer.name: found for peer in row.peers if (found := figure(peer)) is not None}
    build = Build.COMPILED if setting.compiled else Build.PURE
    return judge(row, figure(row.ours) if row.ours else None, theirs, _build_of(row, build))


def _build_of(row: Row, build: Build) -> Build:
    # A row for the plain-Python build runs in that build or declines, whatever ran the others.
    return Build.PURE if row.build is Build.PURE else build


def _contenders(row: Row) -> tuple[Program, ...]:
    return (row.ours, *row.peers) if row.ours else row.peers


def _turns(row: Row, setting: Setting) -> int:
    return len(_contenders(row)) * row.rounds_under(setting)
