"""`Simulations`: a program at one seed after the other, inside a test. It is what the `simulation` fixture gives."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import nullcontext
from typing import TypeVar

from greenroom.system.config import SystemConfig
from greenroom.testing.exploring.exploration import describe
from greenroom.testing.exploring.silencelogs import silence_logs
from greenroom.testing.exploring.simulatedprogram import Check, SimulatedProgram
from greenroom.testing.faults import Fault
from greenroom.testing.simulating.simulation import Fatal, Program, Script

__all__ = ["Simulations"]

T = TypeVar("T")


class Simulations:
    """Runs a program at as many seeds as the command line says."""

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
        """Run `program(system)` at each seed, as `explore` does; what it returned at the last.

        What it raises at one seed is raised here, and says at which, by what schedule, and what happened. What
        Greenroom logs is kept from the root's handlers at all seeds but the last.
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
