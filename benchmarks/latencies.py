"""How late control messages are: what the programs that measure it share."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.program import Report

PAUSE = 0.002
"""Seconds between two control messages."""
CAPACITY = 4096
"""Data messages that may wait."""


def work() -> int:
    """What is done with a data message: some microseconds' worth, so that data waits."""
    return sum(range(200))


def report(late: Sequence[float], share: float) -> Report:
    """The time within which that share of them came, in milliseconds."""
    ordered = sorted(late)
    return Report(1000.0 * ordered[min(len(ordered) - 1, int(share * len(ordered)))])
