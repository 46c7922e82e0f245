"""A program under test with its simulation settings: runs it at a seed, and compares failures."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import Any

from greenroom.errors import ConfigError
from greenroom.system.config import SystemConfig
from greenroom.testing.checks.ledgers import assert_ledger_balanced
from greenroom.testing.faults import Fault
from greenroom.testing.simulating.simulation import (
    Fatal,
    NotAProgram,
    Program,
    Script,
    Simulation,
    require_faults,
    require_program,
)

__all__ = ["Check", "CheckFailed", "SimulatedProgram"]

Check = Callable[[Any], object]
"""Checks what the program returned. The run fails if the check raises or returns False."""


class CheckFailed(AssertionError):
    """The check returned False."""


class SimulatedProgram:
    """A program with its check and all simulation settings but the seed."""

    def __init__(
        self,
        program: Program[object],
        check: Check | None = None,
        *,
        schedule: str | Script = "random",
        faults: Iterable[Fault] = (),
        config: SystemConfig | None = None,
        max_steps: int = 1_000_000,
        fatal: Fatal = AssertionError,
    ) -> None:
        require_program(program)
        _require_check(check)
        _require_config(config)
        self.program = program
        self.check = check
        self.schedule = schedule
        self.faults = require_faults(faults)
        self.config = config
        self.max_steps = max_steps
        self.fatal = fatal
        # What the program returned in its last run that passed.
        self.result: Any = None
        self.simulation(0, 0)  # so that a bad argument raises here, instead of failing every seed

    def simulation(
        self,
        seed: int,
        keep: int,
        schedule: str | Script | None = None,
        faults: tuple[Fault, ...] | None = None,
        max_steps: int | None = None,
    ) -> Simulation:
        """Make the simulation of one seed. Arguments that are not None replace the settings."""
        return Simulation(
            seed,
            schedule=self.schedule if schedule is None else schedule,
            faults=self.faults if faults is None else faults,
            config=self.config,
            keep=keep,
            max_steps=self.max_steps if max_steps is None else max_steps,
            fatal=self.fatal,
        )

    def run_in(self, simulation: Simulation) -> BaseException | None:
        """Run the program in `simulation`. Return what it or the check raised, or None if the run passed.

        Ctrl-C is raised, not returned, even if it interrupted an actor and so failed the system.
        """
        __tracebackhide__ = True
        try:
            result = simulation.run(self.program)
            if simulation.system is not None:
                assert_ledger_balanced(simulation.system)
            if self.check is not None and self.check(result) is False:
                raise CheckFailed(f"the check returned False for {result!r}")
            self.result = result
        except (KeyboardInterrupt, NotAProgram):
            raise
        except BaseException as error:
            if simulation.interrupt is not None:
                raise simulation.interrupt from None
            return error
        return None


def _require_check(check: object) -> None:
    if check is not None and (not callable(check) or inspect.iscoroutinefunction(check)):
        raise ConfigError("check", check, "must be a plain function of what the program returns")


def _require_config(config: object) -> None:
    if config is not None and not isinstance(config, SystemConfig):
        raise ConfigError("config", config, "must be a SystemConfig")


def is_same_failure(one: BaseException | None, other: BaseException | None) -> bool:
    """Whether two runs failed in the same way: with the same type of exception, raised at the same line."""
    return one is not None and other is not None and _signature_of(one) == _signature_of(other)


def _signature_of(error: BaseException) -> tuple[object, ...]:
    where: tuple[str, int] | None = None
    traceback = error.__traceback__
    while traceback is not None:
        where = (traceback.tb_frame.f_code.co_filename, traceback.tb_lineno)
        traceback = traceback.tb_next
    cause = error.__cause__
    return type(error), where, None if cause is None else type(cause)
