"""`Simulations`: runs a program at several seeds inside a test. The `simulation` fixture returns one."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import nullcontext
from typing import TypeVar

from greenroom.system.config import SystemConfig
from greenroom.testing.exploration import describe
from greenroom.testing.faults import Fault
from greenroom.testing.simulatedprogram import Check, SimulatedProgram, silence_logs
from greenroom.testing.simulation import Fatal, Program, Script

T = TypeVar("T")


class Simulations:
    """Runs a program at the seeds that the command line selects."""

    def __init__(self, seeds: Iterable[int], replay: str) -> None:
        self.seeds = tuple(seeds)
        self._replay = replay

    def run(
        self,
        program: Program[T],
        *,
        check: Check | None = None,
        schedule: str | Script = "random",
        faults: Iterable[Fault] = (),
        config: SystemConfig | None = None,
        max_steps: int = 1_000_000,
        fatal: Fatal = AssertionError,
    ) -> T:
        """Run `program(system)` at each seed, as `explore` does. Return its result at the last seed.

        If it fails at a seed, raise its exception, with a note that has the seed, the schedule and the trace. The root
        logger's handlers get Greenroom's logs of the last seed only.
        """
        __tracebackhide__ = True
        simulated = SimulatedProgram(
            program, check, schedule=schedule, faults=faults, config=config, max_steps=max_steps, fatal=fatal
        )
        for seed in self.seeds:
            simulation = simulated.simulation(seed, 0)
            with nullcontext() if seed == self.seeds[-1] else silence_logs():
                error = simulated.run_in(simulation)
            if error is None:
                continue
            with silence_logs():
                failure = describe(simulated, seed, error)
            failure.error.add_note(f"{failure}\n\nRun it again:  {self._replay} --greenroom-seed={seed}")
            raise failure.error
        result: T = simulated.result
        return result
