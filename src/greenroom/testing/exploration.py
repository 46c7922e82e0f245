"""`explore`: runs a program at many seeds, on all cores, until one fails; then shrinks and describes the failure."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, TextIO

from greenroom.errors import ConfigError, SimulationEndless
from greenroom.errortext import in_words
from greenroom.system.config import SystemConfig
from greenroom.testing.faults import Fault
from greenroom.testing.shrinking import Shrunk, shrink
from greenroom.testing.simulatedprogram import Check, SimulatedProgram, silence_logs
from greenroom.testing.simulation import Fatal, Program, Script, require_fatal, shown_fatal
from greenroom.testing.trace import Trace
from greenroom.testing.workerpool import NotRepeated, RunHung, WorkerLost, WorkerPool
from greenroom.validation import is_number, require_whole

_KEEP = 100_000
_USUAL_STEPS = 1_000_000
_SHOWN = 60
"""How many events a report shows."""


@dataclass(eq=False, repr=False)
class Failure:
    """A seed at which the program failed.

    `Simulation(seed=failure.seed, ...)`, with the schedule and faults that were explored, fails with `error` again.
    `trace` is the trace of that run. `shortest` is the simplest run found that fails in the same way: that very run, if
    none was looked for or found, and then `shortest.simplified` is False.
    """

    seed: int
    error: BaseException
    trace: Trace
    shortest: Shrunk

    def __repr__(self) -> str:
        return f"<Failure at seed {self.seed}: {in_words(self.error)}>"

    def __str__(self) -> str:
        lines = [f"Failed at seed {self.seed}: {in_words(self.error)}"]
        if self.error.__cause__ is not None:
            lines += [f"because of {in_words(self.error.__cause__)}"]
        lines += [""]
        trace = self.trace
        if self.shortest.simplified:
            trace = self.shortest.trace
            lines += ["The simplest schedule found that fails like this:", _indented(self.shortest.explain())]
            if self.shortest.faults:
                lines += ["with", _indented("\n".join(map(repr, self.shortest.faults)))]
            lines += ["", f"What happens then ({trace.steps} steps, {trace.seconds:g} s of virtual time):"]
            if in_words(self.shortest.error) != in_words(self.error):
                lines += [_indented(f"(it fails with {in_words(self.shortest.error)})")]
        drawing = ["", "The same as a diagram, in Mermaid's language:", _indented(trace.mermaid(_SHOWN))]
        return "\n".join([*lines, trace.tail(_SHOWN), *(drawing if len(trace) else ())])


@dataclass(frozen=True, slots=True)
class Report:
    """The result of `explore`. `failure` is None if every run passed."""

    runs: int
    seconds: float
    failure: Failure | None
    call: str = ""

    def __str__(self) -> str:
        if self.failure is None:
            return f"{self.runs} runs, none failed, {self.seconds:.1f} s"
        replay = f"Run it again:  Simulation(seed={self.failure.seed}{self.call}).run(program)"
        return f"{self.failure}\n\n{replay}\n({self.runs} runs, {self.seconds:.1f} s)"

    def raise_failure(self) -> None:
        """Raise what the failing run raised, if a run failed."""
        if self.failure is not None:
            raise self.failure.error


def explore(
    program: Program[object],
    *,
    runs: int = 1000,
    check: Check | None = None,
    schedule: str | Script = "random",
    faults: Iterable[Fault] = (),
    config: SystemConfig | None = None,
    first_seed: int = 0,
    max_steps: int = 1_000_000,
    fatal: Fatal = AssertionError,
    workers: int | None = None,
    shrinks: bool = True,
    shrink_seconds: float = 20.0,
    patience: float = 60.0,
    output: TextIO | Literal["stderr"] | None = "stderr",
) -> Report:
    """Run `program(system)` at `runs` seeds, stop at the first failure, and return a report.

    A run fails when

    - the program raises,
    - an actor raises an exception that is `fatal`, and no asker gets to know,
    - the ledger does not balance, or
    - `check(result)` raises or returns False.

    The failing run with the lowest seed is then shrunk, for at most `shrink_seconds`, and described, also on `output`
    (a file, or None), which shows the progress too. `workers` processes share the seeds: one per core by default, 0 for
    this process alone. A run that takes longer than `patience` seconds is killed, and counts as failed.
    """
    require_whole("runs", runs, "a whole number, 1 or more", 1)
    require_whole("first_seed", first_seed, "a whole number, 0 or more", 0)
    if workers is not None:
        require_whole("workers", workers, "a whole number, 0 or more", 0)
    _require_seconds("patience", patience)
    _require_seconds("shrink_seconds", shrink_seconds)
    stream = sys.stderr if output == "stderr" else output
    if stream is not None and not hasattr(stream, "write"):
        raise ConfigError("output", output, "must be a file to write to, or None")
    simulated = SimulatedProgram(
        program, check, schedule=schedule, faults=faults, config=config, max_steps=max_steps, fatal=fatal
    )
    began = time.monotonic()
    pool = WorkerPool(simulated, range(first_seed, first_seed + runs), workers, patience, stream)
    failure = None
    with silence_logs():
        found = pool.run()
        if found is not None:
            seed, error = found
            seconds = shrink_seconds if shrinks else 0.0
            failure = describe(simulated, seed, error, seconds, apart=workers != 0, patience=patience, output=stream)
    report = Report(pool.done, time.monotonic() - began, failure, _call(simulated))
    if failure is not None and stream is not None:
        print(report, file=stream, flush=True)
    return report


def describe(
    simulated: SimulatedProgram,
    seed: int,
    reported: BaseException,
    shrink_seconds: float = 20.0,
    *,
    apart: bool = True,
    patience: float = 60.0,
    output: TextIO | None = None,
) -> Failure:
    """Run a failing seed again with a full trace, and shrink it unless `shrink_seconds` is 0.

    `reported` is the error of the first run.
    """

    def as_it_is(error: BaseException, trace: Trace) -> Failure:
        shortest = Shrunk(seed, {}, simulated.settings["faults"], error, trace, 0, simplified=False)
        return Failure(seed, error, trace, shortest)

    # The run would hang or exit here too; or the exception is not the program's: a test runner's timeout, for example.
    if isinstance(reported, RunHung | WorkerLost) or not isinstance(reported, Exception):
        return as_it_is(reported, Trace.empty())
    if isinstance(reported, SimulationEndless):  # its first steps show as much, and sooner
        simulation = simulated.simulation(seed, _KEEP, max_steps=min(simulated.max_steps, _KEEP))
        simulated.run_in(simulation)
        return as_it_is(reported, simulation.trace)
    simulation = simulated.simulation(seed, _KEEP)
    try:
        error = simulated.run_in(simulation)
    except KeyboardInterrupt as interrupt:
        if isinstance(reported, NotRepeated) and reported.by_interrupt:
            return as_it_is(interrupt, Trace.empty())  # raised by the program: workers ignore Ctrl-C
        raise
    if error is None:
        return as_it_is(reported, simulation.trace)
    if isinstance(error, SimulationEndless) or not isinstance(error, Exception) or not shrink_seconds:
        return as_it_is(error, simulation.trace)
    shortest = shrink(simulated, seed, error, seconds=shrink_seconds, apart=apart, patience=patience, output=output)
    return Failure(seed, error, simulation.trace, shortest)


def _call(simulated: SimulatedProgram) -> str:
    """The arguments, besides the seed, of a `Simulation` that repeats the run."""
    settings = simulated.settings
    said = "" if settings["schedule"] == "random" else f", schedule={settings['schedule']!r}"
    said += f", faults={list(settings['faults'])!r}" if settings["faults"] else ""
    said += "" if settings["config"] is None else ", config=config"
    kinds = require_fatal(settings["fatal"])
    said += "" if kinds == (AssertionError,) else f", fatal={shown_fatal(kinds)}"
    return said + ("" if simulated.max_steps == _USUAL_STEPS else f", max_steps={simulated.max_steps}")


def _indented(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.splitlines())


def _require_seconds(name: str, value: object) -> None:
    if not is_number(value, math.inf) or value == 0:
        raise ConfigError(name, value, "must be a number of seconds")
