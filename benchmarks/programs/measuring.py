"""What the programs share: the clocks, chance that every language draws alike, and the one that waits for all.

The figure is work per second of CPU time: how long the machine was busy elsewhere is no matter of ours.
The rate by the wall clock stands beside it, as a part.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Self

from benchmarks.program import Report, main, settle
from greenroom import Actor

BY_WALL_CLOCK = "per second by the wall clock"


class Stopwatch:
    """Runs inside its block, by both clocks; the garbage of the set-up is put aside before."""

    cpu = 0.0
    wall = 0.0

    def __enter__(self) -> Self:
        settle()
        self.wall -= time.perf_counter()
        self.cpu -= time.process_time()
        return self

    def __exit__(self, *_: object) -> None:
        self.cpu += time.process_time()
        self.wall += time.perf_counter()

    def report(self, count: int) -> Report:
        """The rate at which ``count`` messages (or lives) went through."""
        return Report(count / self.cpu, {BY_WALL_CLOCK: count / self.wall})


def draw(seed: int) -> int:
    """What chance gives after ``seed``, from 0 to 65,535: the same numbers in every language, at the same price."""
    return (seed * 1309 + 13849) & 65535


@dataclass(slots=True)
class Outcome:
    """What a program comes to: an actor writes it down at the end."""

    value: int = -1


class Tally(Actor[int, None]):
    """Waits for so many reports, and hands out their sum."""

    def __init__(self, reports: int, outcome: Outcome) -> None:
        self.left = reports
        self.total = 0
        self.outcome = outcome

    def receive(self, report: int) -> None:
        self.total += report
        self.left -= 1
        if not self.left:
            self.outcome.value = self.total


def choose(programs: Mapping[str, Callable[[int], Report]]) -> None:
    """Run the one that the first argument names, at the size of ``--n``."""
    main(programs[sys.argv.pop(1)])
