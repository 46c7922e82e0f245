"""`ActorMachine`: rules that Hypothesis plays against actors, in a simulation. Needs `hypothesis`."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any, ClassVar, TypeVar

from hypothesis import currently_in_test_context, note
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule
from hypothesis.strategies import SearchStrategy

from greenroom._core.simulation.director import Director
from greenroom._core.simulation.prng import SplitMix
from greenroom._core.simulation.schedules import Scripted
from greenroom._core.timing.virtualclock import VirtualClock
from greenroom.system.config import SystemConfig
from greenroom.system.system import ActorSystem
from greenroom.testing.checks.ledgers import assert_ledger_balanced
from greenroom.testing.exploring.silencelogs import silence_logs
from greenroom.testing.faults import Fault, Shutdown, Stop
from greenroom.testing.simulating.injection import Injector
from greenroom.testing.simulating.runner import SimulationRunner
from greenroom.testing.simulating.session import Session
from greenroom.testing.simulating.simulation import Fatal, Script, require_fatal
from greenroom.testing.strategies import TraceNote, fault_lists, quiet_until_shown, schedules
from greenroom.testing.tracing.trace import Trace

__all__ = ["ActorMachine"]

T = TypeVar("T")

_AHEAD = 64
"""Steps that one `deviate` reaches: a rule or two, usually."""
_AT_ONCE = 16


def _declared(machine: ActorMachine) -> SearchStrategy[list[Fault]]:
    return fault_lists(*machine.faults)


class ActorMachine(RuleBasedStateMachine):
    """A rule-based state machine with a simulated system in it: subclass it, and add rules.

    >>> from greenroom import Actor
    >>> from hypothesis import settings
    >>> from hypothesis.stateful import run_state_machine_as_test
    >>> class Adder(Actor[int, int]):
    ...     total = 0
    ...     def receive(self, message: int) -> int:
    ...         self.total += message
    ...         return self.total
    >>> class Adding(ActorMachine):
    ...     def __init__(self) -> None:
    ...         super().__init__()
    ...         self.adder = self.system.spawn(Adder)
    ...         self.expected = 0
    ...     @rule(number=st.integers())
    ...     def add(self, number: int) -> None:
    ...         self.adder.tell(number)
    ...         self.expected += number
    ...     @rule()
    ...     def look(self) -> None:
    ...         assert self.run(lambda: self.adder.ask(0)) == self.expected
    >>> run_state_machine_as_test(Adding, settings=settings(max_examples=5, database=None))

    Nothing happens between two rules: actors run inside `run`, `settle` and `advance` alone, and what a rule has sent
    waits until then. So rules that only send leave the order to the schedule. Two rules are there already: `deviate`
    changes that order, and `inject` brings about some of `faults`; both are steps of the falsifying example like any
    other, and are left out of it when it fails without them. What happened is shown below it.

    `config` is the system's. After `settle`, and after the shutdown at the end, every message must be accounted for.
    A subclass that needs a `teardown` of its own calls this one too.
    """

    config: ClassVar[SystemConfig | None] = None
    faults: ClassVar[Sequence[Fault]] = ()
    seed: ClassVar[int] = 0
    """Of everything that is left to chance and no rule draws: `system.random`, `random`, `uuid`."""
    keep: ClassVar[int] = 1000
    """Events that are kept, for the one run that is shown."""
    max_steps: ClassVar[int] = 100_000
    fatal: ClassVar[Fatal] = AssertionError
    """What fails a rule when an actor lets it out and no asker is told."""

    def __init__(self) -> None:
        super().__init__()
        # Steps from the first on, and what is done at them; `deviate` adds to it while it is being followed.
        self._script: dict[int, tuple[int, int, int]] = {}
        self._runner = _make_runner(self._script, self.seed, self.keep, self.max_steps, self.fatal)
        self._injected = False
        # What was being handled already when the machine was made is no failure of its rules.
        self._outer = sys.exc_info()[1]
        with quiet_until_shown():
            self.session = Session(self._runner, self.config)

    @property
    def system(self) -> ActorSystem:
        """The system under test; it runs already."""
        return self.session.system

    @property
    def now(self) -> float:
        """Virtual seconds since the beginning."""
        return self.session.now

    @property
    def trace(self) -> Trace:
        """What has happened so far."""
        return self.session.trace

    @property
    def failing(self) -> bool:
        """In `teardown`: whether a rule has failed, so that there is nothing to look for any more."""
        error = sys.exc_info()[1]
        return error is not None and error is not self._outer

    def run(self, action: Callable[[], Awaitable[T]]) -> T:
        """Call `action()` in the simulation, and wait for what it returns: `self.run(lambda: ref.ask("how much"))`."""
        __tracebackhide__ = True
        with quiet_until_shown():
            return self.session.run(action)

    def settle(self) -> None:
        """Go on until nothing is queued or in hand; every message must be accounted for then."""
        __tracebackhide__ = True
        with quiet_until_shown():
            self.session.settle()
        assert_ledger_balanced(self.system)

    def advance(self, seconds: float) -> None:
        """Let so many seconds pass, and everything happen that they bring."""
        __tracebackhide__ = True
        with quiet_until_shown():
            self.session.advance(seconds)

    @rule(schedule=schedules(steps=_AHEAD, deviations=_AT_ONCE))
    def deviate(self, schedule: Script) -> None:
        """Do the next steps in another order. In `schedule`, the next step is number 1."""
        now = self._runner.director.step
        for step, choice in schedule.items():
            self._script[now + step] = choice

    @precondition(lambda self: bool(self.faults) and not self._injected)
    @rule(faults=st.runner().flatmap(_declared))
    def inject(self, faults: Sequence[Fault]) -> None:
        """Bring these faults about. Their messages and steps are counted from here."""
        if faults:
            director = self._runner.director
            from_here = tuple(_from(fault, director.step) for fault in faults)
            director.faults = Injector(from_here, SplitMix(self.seed), director)
            self._injected = True

    def teardown(self) -> None:
        """Shut the system down, and look that no failure has ended it, and that every message is accounted for."""
        __tracebackhide__ = True
        if self.failing:
            # What the shutdown does is no part of what went wrong, and what else it finds would hide that.
            self._note()
            with suppress(Exception), silence_logs():
                self.session.close()
            return
        try:
            with quiet_until_shown():
                try:
                    # As by leaving its `async with`: if a failure has ended the system, that is raised.
                    self.run(lambda: self.system.__aexit__(None, None, None))
                finally:
                    self.session.close()
        finally:
            # If no rule has failed and this run is shown, then the shutdown fails, or what a subclass looks for after.
            self._note()

    def _note(self) -> None:
        if currently_in_test_context():
            note(TraceNote(self.trace))


def _make_runner(
    script: dict[int, tuple[int, int, int]], seed: int, keep: int, max_steps: int, fatal: Fatal
) -> SimulationRunner:
    """As `Simulation` has one, but for the script, which goes on being written."""
    prng = SplitMix(seed)
    prng.draw()
    director = Director(Scripted(script), VirtualClock(), prng.draw(), keep, max_steps)
    director.fatal = require_fatal(fatal)
    return SimulationRunner(director, seed)


def _from(fault: Fault, step: int) -> Fault:
    """`fault`, with its step counted from `step`."""
    if not isinstance(fault, Stop | Shutdown) or not isinstance(fault.at, int):
        return fault
    values: dict[str, Any] = {name: getattr(fault, name) for name in type(fault).__slots__}
    return type(fault)(**{**values, "at": fault.at + step})
