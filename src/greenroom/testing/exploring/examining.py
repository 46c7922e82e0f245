"""Does a simpler run fail as the first one did? Asked a thousand times, of runs that nobody has seen before.

One of them may never end, or end the process: where there can be another process, it is tried there.
"""

from __future__ import annotations

import time
from math import inf
from multiprocessing.connection import Connection
from types import TracebackType
from typing import Self

from greenroom.testing.exploring.forkedprocesses import ForkedProcesses
from greenroom.testing.exploring.trial import Trial, is_alike
from greenroom.testing.faults import Fault

__all__ = ["Choices", "Examiner", "ExaminerApart"]

Choices = dict[int, tuple[int, int, int]]

_AS_LONG = 20
_AT_LEAST = 2.0
"""Seconds. A run that takes so many times as long as the failing one, and longer than this, comes to no end."""
_LONGER = 4
_A_FEW = 1000


class Examiner:
    """Runs the failing seed with other choices and fewer faults."""

    def __init__(self, trial: Trial, seed: int, wanted: BaseException, patience: float) -> None:
        self._trial = trial
        self._seed = seed
        self._wanted = wanted
        began = time.monotonic()
        simulation = trial.simulation(seed, 0)
        simulation.write_choices()
        trial.error_of(simulation)
        self.choices: Choices = simulation.choices
        self.faults = simulation.drawn_faults
        """Those of the failing run, each with its own seed."""
        self._patience = min(patience, max(_AT_LEAST, _AS_LONG * (time.monotonic() - began)))
        # One that takes many more steps than the failing run does not fail as that did.
        self._max_steps = min(trial.max_steps, _LONGER * simulation.trace.steps + _A_FEW)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def fails(self, choices: Choices, faults: tuple[Fault, ...], seconds: float) -> bool:
        """Whether the seed fails in the same way with these `choices`, and `faults` of its own, in that time."""
        simulation = self._trial.simulation(self._seed, 0, choices, faults, self._max_steps)
        return is_alike(self._trial.error_of(simulation), self._wanted)

    def close(self) -> None:
        """Examine no more."""


class ExaminerApart(Examiner):
    """Does it in another process, and in a new one if that is lost: a run that comes to no end does not fail alike."""

    def __init__(self, trial: Trial, seed: int, wanted: BaseException, patience: float) -> None:
        super().__init__(trial, seed, wanted, patience)
        self._processes: ForkedProcesses | None = None
        self._line: Connection | None = None

    def fails(self, choices: Choices, faults: tuple[Fault, ...], seconds: float) -> bool:
        """Whether the seed fails in the same way with these `choices`, and `faults` of its own, in that time."""
        line = self._line or self._begin()
        wanted = {id(fault) for fault in faults}
        try:
            # The faults by their numbers: they may hold what cannot be sent.
            line.send((choices, [number for number, fault in enumerate(self.faults) if id(fault) in wanted]))
            if line.poll(min(self._patience, seconds)):
                answer: bool = line.recv()
                return answer
        except (EOFError, OSError):
            pass  # the process is gone
        self.close()
        return False

    def close(self) -> None:
        """End the process."""
        if self._line is not None and self._processes is not None:
            self._processes.end()
            self._line.close()
            self._processes = self._line = None

    def _begin(self) -> Connection:
        ours, theirs = ForkedProcesses.pipe()
        try:
            self._processes = ForkedProcesses(lambda number: self._answer(theirs), 1)
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()  # so that the end of the process is the end of the line
        self._line = ours
        return ours

    def _answer(self, line: Connection) -> None:
        while True:
            choices, numbers = line.recv()
            try:
                answer = super().fails(choices, tuple(self.faults[number] for number in numbers), inf)
            except BaseException:  # the program's own Ctrl-C, or its wish to exit
                answer = False
            line.send(answer)
