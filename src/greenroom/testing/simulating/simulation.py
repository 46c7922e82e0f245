"""`Simulation`: runs a program on a virtual clock and a seeded scheduler. The same seed gives the same run.

A schedule decides what a real run leaves to the machine: which actor runs next, how many messages it handles, and when
code outside the actors runs. It draws these choices from the seed. The clock stands still while anything can run, and
then jumps to the next deadline: hours pass in seconds.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import Any, TypeVar

from greenroom._core.simulation.director import Director
from greenroom._core.simulation.prng import SplitMix
from greenroom._core.simulation.schedules import Fifo, Pct, Schedule, Scripted, Shuffled
from greenroom._core.timing.virtualclock import VirtualClock
from greenroom.errors import BadArgument, ConfigError
from greenroom.system.config import SystemConfig
from greenroom.system.system import ActorSystem
from greenroom.testing.faults import Fault
from greenroom.testing.simulating.injection import Injector
from greenroom.testing.simulating.runner import Main, SimulationRunner
from greenroom.testing.simulating.session import Session
from greenroom.testing.tracing.trace import Trace

__all__ = ["Script", "Simulation"]

T = TypeVar("T")
Program = Callable[[ActorSystem], Coroutine[Any, Any, T]]
Script = Mapping[int, tuple[int, int, int]]
"""A schedule, as its deviations from first come, first served: {step: (position, messages, pause)}.

At a step that chooses between loops, the position is that of a loop. At one that decides whether a tick takes in what
other loops have brought, it is 1 if that is left for the next tick.
"""

Fatal = type[BaseException] | tuple[type[BaseException], ...]
"""One exception type or a tuple of them, as for `isinstance`."""

SCHEDULES = ("random", "pct", "fifo")
_DEPTH = 3
"""The bug depth for `pct`: how many events must happen in a certain order."""


class Simulation:
    """Runs a program of actors so that the run can be repeated exactly.

    >>> import asyncio
    >>> from greenroom import Actor, ActorSystem
    >>> class Sleeper(Actor[float, float]):
    ...     async def receive(self, message: float) -> float:
    ...         await asyncio.sleep(message)
    ...         return self.ctx.now()
    >>> async def program(system: ActorSystem) -> float:
    ...     return await system.spawn(Sleeper).ask(3600.0, timeout=None)
    >>> simulation = Simulation(seed=7)
    >>> simulation.run(program)         # an hour, at once
    3600.0
    >>> first = simulation.trace.digest
    >>> simulation.run(program)
    3600.0
    >>> simulation.trace.digest == first
    True

    - `schedule`: `"random"` (any runnable actor, for any number of messages), `"pct"` (priorities that change a few
      times; finds rare orders sooner), `"fifo"` (as the real loop), or a `Script`.
    - `faults`: made by `greenroom.testing.faults`.
    - `config`: the system's config. A clock and seed that it does not set are the simulation's.
    - `keep`: how many events the trace keeps, the last ones.
    - `fatal`: exceptions of these types fail the simulation. Supervision handles them as usual, but they are raised
      here at the end, unless somebody who asked, or awaited the start, got them. A failed `assert` is, by default.
    """

    def __init__(
        self,
        seed: int = 0,
        *,
        schedule: str | Script = "random",
        faults: Iterable[Fault] = (),
        config: SystemConfig | None = None,
        keep: int = 10_000,
        max_steps: int = 1_000_000,
        fatal: Fatal = AssertionError,
    ) -> None:
        if isinstance(seed, bool) or not isinstance(seed, int):
            raise ConfigError("seed", seed, "must be a whole number")
        _require_schedule(schedule)
        _require_number("keep", keep, 0)
        _require_number("max_steps", max_steps, 1)
        self.seed = seed
        self.schedule = schedule
        self.faults = require_faults(faults)
        self.config = SystemConfig() if config is None else config
        self.keep = keep
        self.max_steps = max_steps
        self.fatal = require_fatal(fatal)
        # Of the last run.
        self.system: ActorSystem | None = None
        self._director: Director | None = None
        self._trace: Trace | None = None
        self._records_choices = False

    def __repr__(self) -> str:
        parts = [f"seed={self.seed}"]
        if self.schedule != "random":
            parts.append(f"schedule={self.schedule!r}")
        if self.faults:
            parts.append(f"faults={list(self.faults)!r}")
        if self.fatal != (AssertionError,):
            parts.append(f"fatal={shown_fatal(self.fatal)}")
        return f"Simulation({', '.join(parts)})"

    def run(self, program: Program[T]) -> T:
        """Run `program(system)`, shut the system down, and return the program's result or raise what it raised."""
        __tracebackhide__ = True
        require_program(program)

        async def main() -> T:
            # Made inside the simulation, where a system finds its director.
            self.system = system = ActorSystem("simulation", config=self.config)
            async with system:
                return await _called(program, system)

        return self.run_main(main)

    def run_main(self, main: Main[T]) -> T:
        """Run `main()` as `asyncio.run` does. Every system that it makes is simulated."""
        __tracebackhide__ = True
        with SimulationRunner(self._direct(), self.seed) as runner:
            return runner.run(main)

    def open(self) -> Session:
        """Begin a run that the caller drives step by step."""
        return Session(SimulationRunner(self._direct(), self.seed), self.config)

    def _direct(self) -> Director:
        """Make the director of a new run."""
        prng = SplitMix(self.seed)
        schedule = _schedule_of(self.schedule, prng.draw())
        director = Director(schedule, VirtualClock(), prng.draw(), self.keep, self.max_steps)
        director.fatal = self.fatal
        if self.faults:
            director.faults = Injector(self.faults, prng.fork(), director)
        if self._records_choices:
            director.choices = {}
        self._director = director
        self._trace = None
        return director

    def write_choices(self) -> None:
        """Record the schedule of the next run, in `choices`."""
        self._records_choices = True

    @property
    def choices(self) -> dict[int, tuple[int, int, int]]:
        """The deviations of the last run from first come, first served, as a `Script`."""
        director = self._director
        return {} if director is None or director.choices is None else dict(director.choices)

    @property
    def drawn_faults(self) -> tuple[Fault, ...]:
        """The faults of the last run, each with its own seed."""
        director = self._director
        return director.faults.faults if director is not None and isinstance(director.faults, Injector) else ()

    @property
    def actors_chosen(self) -> dict[int, str]:
        """The actor that ran at each step of `choices`, by name; or the loop, where it was that which was chosen."""
        director = self._director
        visited = {} if director is None else director.visited
        return {step: who if isinstance(who, str) else who.name() for step, who in visited.items()}

    @property
    def interrupt(self) -> KeyboardInterrupt | None:
        """The Ctrl-C that interrupted an actor in the last run, if any."""
        return None if self._director is None else self._director.interrupt

    @property
    def has_run(self) -> bool:
        """Whether there has been a run, and so a trace."""
        return self._director is not None

    @property
    def trace(self) -> Trace:
        """The trace of the last run."""
        if self._trace is None:
            if self._director is None:
                raise BadArgument("the simulation has not run yet: its trace is there after `run`")
            self._trace = Trace(self._director)
        return self._trace


def _schedule_of(schedule: str | Script, seed: int) -> Schedule:
    if isinstance(schedule, Mapping):
        return Scripted(dict(schedule))
    if schedule == "fifo":
        return Fifo()
    return Pct(seed, _DEPTH) if schedule == "pct" else Shuffled(seed)


def _require_schedule(schedule: object) -> None:
    if isinstance(schedule, Mapping):
        for step, choice in schedule.items():
            numbers = (step, *choice) if isinstance(choice, tuple) and len(choice) == 3 else (None,)
            if any(type(one) is not int or one < 0 for one in numbers):
                raise ConfigError("schedule", {step: choice}, "must be {step: (position, messages, pause)}, in numbers")
    elif schedule not in SCHEDULES:
        raise ConfigError("schedule", schedule, f"must be one of {', '.join(SCHEDULES)}, or a script")


class NotAProgram(BadArgument):
    """What was given is no `async def program(system)`."""


def require_program(program: object) -> None:
    """Raise unless `program(system)` can be called."""
    if not callable(program):
        raise NotAProgram(f"a simulation runs an `async def program(system)`, not {program!r}")
    try:
        inspect.signature(program).bind(None)
    except TypeError as exc:
        raise NotAProgram(
            f"a simulation runs an `async def program(system)`; {program!r} does not fit: {exc}"
        ) from None
    except ValueError:
        pass  # it has no signature to check


def require_faults(declared: object) -> tuple[Fault, ...]:
    if isinstance(declared, Iterable) and not isinstance(declared, str):
        given = tuple(declared)
        if all(isinstance(fault, Fault) for fault in given):
            return given
    raise ConfigError("faults", declared, "must be a list of faults, such as `faults.crash(...)`")


def require_fatal(declared: object) -> tuple[type[BaseException], ...]:
    kinds: tuple[Any, ...] = declared if isinstance(declared, tuple) else (declared,)
    if all(isinstance(kind, type) and issubclass(kind, BaseException) for kind in kinds):
        return kinds
    raise ConfigError("fatal", declared, "must be a kind of exception, or a tuple of several")


def shown_fatal(kinds: tuple[type[BaseException], ...]) -> str:
    """The `fatal` argument as source text."""
    names = [kind.__qualname__ for kind in kinds]
    return names[0] if len(names) == 1 else f"({', '.join(names)})"


def _require_number(name: str, value: object, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ConfigError(name, value, f"must be a whole number, {least} or more")


async def _called(program: Program[T], system: ActorSystem) -> T:
    made = program(system)
    if not hasattr(made, "__await__"):
        raise NotAProgram(f"{program!r} must be `async def`, and returned {made!r}")
    return await made
