"""Shrinks a failure: finds a simpler run that fails in the same way.

A schedule is recorded as its deviations from first come, first served. Most deviations have nothing to do with the
failure. So we leave some out and check whether the run still fails: first the faults, then the end of the schedule,
then chunks of it, from large ones down to single steps. Last, we make the remaining choices smaller. That takes
hundreds of runs. Any of them may hang or end its process, so they run in a forked process where that is possible.
"""

from __future__ import annotations

import multiprocessing
import signal
import time
from contextlib import closing
from dataclasses import dataclass, field
from math import inf
from multiprocessing.connection import Connection
from typing import TextIO

from greenroom._core.simulation.director import BROUGHT
from greenroom.testing.faults import Fault
from greenroom.testing.simulatedprogram import SimulatedProgram, is_same_failure
from greenroom.testing.trace import Trace
from greenroom.testing.workerpool import ForkedProcesses, StatusLine, can_fork

_KEEP = 100_000

Choices = dict[int, tuple[int, int, int]]
_AS_LONG = 20
_AT_LEAST = 1.0
"""Seconds of computing. A run hangs if it computes longer than this and `_AS_LONG` times as long as the failing run."""
_BLOCKED = 10
"""Times that. A run that takes so long without computing waits for something that does not happen."""
_LONGER = 4
_A_FEW = 1000
_MOST_RUNS = 1000


@dataclass(frozen=True, slots=True)
class Shrunk:
    """The simplest run found: `Simulation(seed, schedule=script, faults=faults)` fails as `error` says."""

    seed: int
    script: Choices
    faults: tuple[Fault, ...]
    error: BaseException
    trace: Trace
    runs: int
    actors: dict[int, str] = field(default_factory=dict)
    """The actor that was chosen at each step of the script."""
    simplified: bool = True
    """False if this is the run of the seed itself, with its own schedule, and no script."""

    def explain(self) -> str:
        """The schedule in words."""
        if not self.simplified:
            return f"the schedule of seed {self.seed}, not simplified"
        if not self.script:
            return "first come, first served"
        chosen = self.actors
        return "\n".join(_in_words(step, *choice, chosen.get(step)) for step, choice in sorted(self.script.items()))


def _in_words(step: int, position: int, budget: int, pause: int, actor: str | None) -> str:
    if actor == BROUGHT:
        return f"step {step}: what came from other loops waits, and is taken in later"
    who = actor or "an actor"
    parts = []
    if position:
        parts.append(f"{who} runs, before {position} other{'s' if position > 1 else ''} that waited longer")
    if budget:
        parts.append(f"{'' if position else who + ' '}handles at most {budget} message{'s' if budget > 1 else ''}")
    if pause:
        parts.append("code outside the actors has its turn next")
    return f"step {step}: {', and '.join(parts)}"


def shrink(
    simulated: SimulatedProgram,
    seed: int,
    error: BaseException,
    *,
    seconds: float,
    apart: bool,
    patience: float,
    output: TextIO | None,
) -> Shrunk:
    """Find the simplest run of `simulated` that fails like `seed` with `error`, within `seconds`.

    The runs are made in a forked process, so that one that hangs can be killed, unless `apart` is False or this process
    cannot fork. If `output` is a terminal, it shows the progress.
    """
    status = StatusLine(output)
    kind = ForkedReproducer if apart and can_fork() else Reproducer
    with closing(kind(simulated, seed, error, patience)) as reproducer:
        try:
            return _Shrinker(reproducer, status, seconds).run()
        finally:
            status.clear()


class _Shrinker:
    """Shrinks one failure; holds the simplest choices and faults found so far."""

    def __init__(self, reproducer: Reproducer, status: StatusLine, seconds: float) -> None:
        self._reproducer = reproducer
        self._status = status
        self._until = time.monotonic() + seconds
        self._runs = 0
        self._choices = reproducer.choices
        self._faults = reproducer.faults

    def run(self) -> Shrunk:
        """Shrink until nothing more can be left out, or the runs or the time are used up."""
        simplified = self._fails(self._choices, self._faults)
        if simplified:
            self._drop_faults()
            self._cut_end()
            self._drop_chunks()
            self._make_smaller()
            self._drop_chunks()
            script: Choices = self._choices
        else:  # it does not fail from its recorded choices: show its own schedule
            script = {}
        seed, simulated = self._reproducer.seed, self._reproducer.simulated
        simulation = simulated.simulation(seed, _KEEP, schedule=self._choices, faults=self._faults)
        simulation.write_choices()
        error = simulated.run_in(simulation)
        if error is None:
            simulation = simulated.simulation(seed, _KEEP)
            error = simulated.run_in(simulation) or self._reproducer.wanted
        actors = simulation.actors_chosen
        return Shrunk(seed, script, self._faults, error, simulation.trace, self._runs, actors, simplified)

    def _fails(self, choices: Choices, faults: tuple[Fault, ...]) -> bool:
        seconds = self._until - time.monotonic()
        if self._runs >= _MOST_RUNS or seconds <= 0.0:
            return False
        self._runs += 1
        found = f"run {self._runs}: {len(self._choices)} deviations left"
        self._status.show(f"seed {self._reproducer.seed} fails; simplifying it, {found}")
        return self._reproducer.reproduces(choices, faults, seconds)

    def _try(self, choices: Choices) -> bool:
        """Keep `choices` if the run still fails with them."""
        if not self._fails(choices, self._faults):
            return False
        self._choices = choices
        return True

    def _drop_faults(self) -> None:
        for fault in self._faults:
            fewer = tuple(other for other in self._faults if other is not fault)
            if self._fails(self._choices, fewer):
                self._faults = fewer

    def _cut_end(self) -> None:
        """Cut the schedule to a short prefix that fails, by bisection: quick, but not always the shortest."""
        if self._try({}):
            return
        steps = sorted(self._choices)
        low, high = 0, len(steps)
        while low < high:
            middle = (low + high) // 2
            if self._try({step: self._choices[step] for step in steps[:middle]}):
                high = middle
                steps = steps[:middle]
            else:
                low = middle + 1

    def _drop_chunks(self) -> None:
        size = max(1, len(self._choices) // 2)
        while True:
            dropped = self._drop_chunks_of(size)
            if size == 1 and not dropped:
                return
            size = max(1, size // 2)

    def _drop_chunks_of(self, size: int) -> bool:
        dropped = False
        steps = sorted(self._choices)
        for first in range(0, len(steps), size):
            chunk = set(steps[first : first + size])
            fewer = {step: choice for step, choice in self._choices.items() if step not in chunk}
            if len(fewer) < len(self._choices) and self._try(fewer):
                dropped = True
        return dropped

    def _make_smaller(self) -> None:
        """Leave out parts of choices, and move positions nearer to the front."""
        for step in sorted(self._choices):
            for part in range(3):
                choice = [*self._choices[step]]
                if choice[part] and sum(map(bool, choice)) > 1:
                    choice[part] = 0
                    self._try_at(step, *choice)
            position, budget, pause = self._choices[step]
            while position > 1 and (
                self._try_at(step, position // 2, budget, pause) or self._try_at(step, position - 1, budget, pause)
            ):
                position = self._choices[step][0]

    def _try_at(self, step: int, position: int, budget: int, pause: int) -> bool:
        return self._try({**self._choices, step: (position, budget, pause)})


class Reproducer:
    """Runs the failing seed with other choices and fewer faults, in this process."""

    def __init__(self, simulated: SimulatedProgram, seed: int, wanted: BaseException, patience: float) -> None:
        self.simulated = simulated
        self.seed = seed
        self.wanted = wanted
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

    def reproduces(self, choices: Choices, faults: tuple[Fault, ...], seconds: float) -> bool:
        """Whether the seed fails in the same way with these `choices` and these of its `faults`, within `seconds`."""
        simulation = self.simulated.simulation(self.seed, 0, schedule=choices, faults=faults, max_steps=self._max_steps)
        return is_same_failure(self.simulated.run_in(simulation), self.wanted)

    def close(self) -> None:
        pass


class ForkedReproducer(Reproducer):
    """Runs the seed in a forked process. A run that hangs or exits reproduces nothing; the next has a new process."""

    def __init__(self, simulated: SimulatedProgram, seed: int, wanted: BaseException, patience: float) -> None:
        super().__init__(simulated, seed, wanted, patience)
        self._processes: ForkedProcesses | None = None
        self._connection: Connection | None = None

    def reproduces(self, choices: Choices, faults: tuple[Fault, ...], seconds: float) -> bool:
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
        if self._connection is not None and self._processes is not None:
            self._processes.close()
            self._connection.close()
            self._processes = self._connection = None

    def _start_process(self) -> Connection:
        ours, theirs = multiprocessing.Pipe()
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
