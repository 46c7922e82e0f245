"""A program under test with its simulation settings: runs it at a seed, and compares failures."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from traceback import walk_tb
from typing import Any

from greenroom.errors import ConfigError
from greenroom.system.config import SystemConfig
from greenroom.testing.checks.ledgers import assert_ledger_balanced
from greenroom.testing.checks.logs import ExcludeFilter
from greenroom.testing.simulation import NotAProgram, Program, Simulation, require_faults, require_program
from greenroom.validation import require_instance

Check = Callable[[Any], object]
"""Checks what the program returned. The run fails if the check raises or returns False."""


class CheckFailed(AssertionError):
    """The check returned False."""


class SimulatedProgram:
    """A program with its check and all simulation settings but the seed."""

    def __init__(self, program: Program[object], check: Check | None = None, **settings: Any) -> None:
        require_program(program)
        _require_check(check)
        require_instance("config", settings.get("config"), SystemConfig | None, "a SystemConfig")
        self.program = program
        self.check = check
        # Arguments of `Simulation`.
        self.settings = {**settings, "faults": require_faults(settings.get("faults", ()))}
        # What the program returned in its last run that passed.
        self.result: Any = None
        self.max_steps = self.simulation(0, 0).max_steps  # a bad argument raises here, instead of failing every seed

    def simulation(self, seed: int, keep: int, **changes: Any) -> Simulation:
        """Make the simulation of one seed. `changes` replace settings."""
        return Simulation(seed, keep=keep, **{**self.settings, **changes})

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


def is_same_failure(one: BaseException | None, other: BaseException | None) -> bool:
    """Whether two runs failed in the same way: with the same type of exception, raised at the same line."""
    return one is not None and other is not None and _signature_of(one) == _signature_of(other)


def _signature_of(error: BaseException) -> tuple[object, ...]:
    *_, where = (None, *((frame.f_code.co_filename, line) for frame, line in walk_tb(error.__traceback__)))
    return type(error), where, type(error.__cause__)


@contextmanager
def silence_logs() -> Iterator[None]:
    """Keep Greenroom's records from the handlers of the root logger, for many runs.

    Handlers that a program adds still get them.
    """
    handlers = [*logging.getLogger().handlers]
    if logging.lastResort is not None:
        handlers.append(logging.lastResort)
    exclude = ExcludeFilter("greenroom")
    for handler in handlers:
        handler.addFilter(exclude)
    try:
        yield
    finally:
        for handler in handlers:
            handler.removeFilter(exclude)
