"""Runs a failing seed again with a simpler schedule, and tells whether it still fails in the same way.

Shrinking tries hundreds of such runs. Any of them may hang or end its process, so they run in a forked process where
that is possible.
"""

from __future__ import annotations

import signal
import time
from math import inf
from multiprocessing.connection import Connection
from types import TracebackType
from typing import Self

from greenroom.testing.exploring.forkedprocesses import ForkedProcesses
from greenroom.testing.exploring.simulatedprogram import SimulatedProgram, is_same_failure
from greenroom.testing.faults import Fault

__all__ = ["Choices", "ForkedReproducer", "Reproducer"]

Choices = dict[int, tuple[int, int, int]]

_AS_LONG = 20
_AT_LEAST = 1.0
"""Seconds of computing. A run hangs if it computes longer than this and `_AS_LONG` times as long as the failing run."""
_BLOCKED = 10
"""Times that. A run that takes so long without computing waits for something that does not happen."""
_LONGER = 4
_A_FEW = 1000


class Reproducer:
    """Runs the failing seed with other choices and fewer faults, in this process."""

    def __init__(self, simulated: SimulatedProgram, seed: int, wanted: BaseException, patience: float) -> None:
        self._simulated = simulated
        self._seed = seed
        self._wanted = wanted
        began = time.process_time()
        simulation = simulated.simulation(seed, 0)
        simulation.write_choices()
        simulated.run_in(simulation)
        self.choices: Choices = simulation.choices
        self.faults = simulation.drawn_faults
        """The faults of the failing run, each with its own seed."""
        # A busy machine makes a run take longer, but not compute longer.
        self._most_computing = max(_AT_LEAST, _AS_LONG * (time.process_time() - began))
        self._patience = min(patience, _BLOCKED * self._most_computing)
        # A run with many more steps than the failing one does not fail in the same way.
        self._max_steps = min(simulated.max_steps, _LONGER * simulation.trace.steps + _A_FEW)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def reproduces(self, choices: Choices, faults: tuple[Fault, ...], seconds: float) -> bool:
        """Whether the seed fails in the same way with these `choices` and these of its `faults`, within `seconds`."""
        simulation = self._simulated.simulation(self._seed, 0, choices, faults, self._max_steps)
        return is_same_failure(self._simulated.run_in(simulation), self._wanted)

    def close(self) -> None:
        """Release what is held."""


class ForkedReproducer(Reproducer):
    """Runs the seed in a forked process. A run that hangs or exits reproduces nothing; the next has a new process."""

    def __init__(self, simulated: SimulatedProgram, seed: int, wanted: BaseException, patience: float) -> None:
        super().__init__(simulated, seed, wanted, patience)
        self._processes: ForkedProcesses | None = None
        self._connection: Connection | None = None

    def reproduces(self, choices: Choices, faults: tuple[Fault, ...], seconds: float) -> bool:
        """Whether the seed fails in the same way with these `choices` and these of its `faults`, within `seconds`."""
        connection = self._connection or self._start_process()
        wanted = {id(fault) for fault in faults}
        try:
            # Faults are sent as indexes: a fault may hold what cannot be pickled.
            connection.send((choices, [number for number, fault in enumerate(self.faults) if id(fault) in wanted]))
            if connection.poll(min(self._patience, seconds)):
                answer: bool = connection.recv()
                return answer
        except (EOFError, OSError):
            pass  # the process is gone
        self.close()
        return False

    def close(self) -> None:
        """End the process."""
        if self._connection is not None and self._processes is not None:
            self._processes.end()
            self._connection.close()
            self._processes = self._connection = None

    def _start_process(self) -> Connection:
        ours, theirs = ForkedProcesses.pipe()
        try:
            self._processes = ForkedProcesses(lambda number: self._serve(theirs), 1)
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()  # so that we read EOF when the process ends
        self._connection = ours
        return ours

    def _serve(self, connection: Connection) -> None:
        signal.signal(signal.SIGPROF, signal.SIG_DFL)  # it ends the process
        while True:
            choices, numbers = connection.recv()
            signal.setitimer(signal.ITIMER_PROF, self._most_computing)
            try:
                answer = super().reproduces(choices, tuple(self.faults[number] for number in numbers), inf)
            except BaseException:  # the program raised KeyboardInterrupt or SystemExit
                answer = False
            signal.setitimer(signal.ITIMER_PROF, 0.0)
            connection.send(answer)
