"""`ActorMachine`: stateful tests of actors with Hypothesis, in a simulation. Needs `hypothesis`."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, ClassVar, TypeVar

from hypothesis import currently_in_test_context, note
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule
from hypothesis.strategies import SearchStrategy

from greenroom._core.simulation.schedules import SplitMix
from greenroom.system.config import SystemConfig
from greenroom.system.system import ActorSystem
from greenroom.testing.checks.ledgers import assert_ledger_balanced
from greenroom.testing.faults import Fault, Shutdown, Stop
from greenroom.testing.injection import Injector
from greenroom.testing.simulatedprogram import silence_logs
from greenroom.testing.simulation import Fatal, Script, Simulation
from greenroom.testing.strategies import TraceNote, fault_lists, quiet_until_shown, schedules
from greenroom.testing.trace import Trace

T = TypeVar("T")

_AHEAD = 64
"""How many steps one `deviate` covers: usually one or two rules."""
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

    Nothing happens between two rules: actors run only inside `run`, `settle` and `advance`, and messages that a rule
    sent wait until then. So rules that only send leave the order to the schedule. Two rules are built in: `deviate`
    changes the order, and `inject`, if the class has `faults`, injects some of them. Both are steps of the falsifying
    example, and shrink away if it fails without them. The trace is shown below it.

    `config` is the system's config. After `settle`, and after the shutdown at the end, every message must be accounted
    for. A subclass with its own `teardown` must call this one too.
    """

    config: ClassVar[SystemConfig | None] = None
    faults: ClassVar[Sequence[Fault]] = ()
    seed: ClassVar[int] = 0
    """The seed of random numbers that no rule draws: `system.random`, `random`, `uuid`."""
    keep: ClassVar[int] = 1000
    """How many events of a run are kept, to be shown."""
    max_steps: ClassVar[int] = 100_000
    fatal: ClassVar[Fatal] = AssertionError
    """Exceptions that fail a rule if an actor raises them and no asker gets to know."""

    def __init__(self) -> None:
        super().__init__()
        # The schedule, by step; `deviate` adds to it while the schedule is running.
        self._script: dict[int, tuple[int, int, int]] = {}
        simulation = Simulation(
            self.seed,
            schedule=self._script,
            config=self.config,
            keep=self.keep,
            max_steps=self.max_steps,
            fatal=self.fatal,
        )
        self._injected = False
        # An exception that was being handled when the machine was made is no failure of its rules.
        self._outer = sys.exc_info()[1]
        with quiet_until_shown():
            self.session = simulation.open()

    @property
    def system(self) -> ActorSystem:
        """The system under test, which is running."""
        return self.session.system

    @property
    def now(self) -> float:
        """Virtual seconds since the beginning."""
        return self.session.now

    @property
    def trace(self) -> Trace:
        """The trace so far."""
        return self.session.trace

    @property
    def failing(self) -> bool:
        """In `teardown`: whether a rule has failed, so that further checks are useless."""
        error = sys.exc_info()[1]
        return error is not None and error is not self._outer

    def run(self, action: Callable[[], Awaitable[T]]) -> T:
        """`self.run(lambda: ref.ask("how much"))`: call `action()` in the simulation, and return what it awaits."""
        __tracebackhide__ = True
        with quiet_until_shown():
            return self.session.run(action)

    def settle(self) -> None:
        """Run until no message is queued or being handled, and check that every message is accounted for."""
        __tracebackhide__ = True
        with quiet_until_shown():
            self.session.settle()
        assert_ledger_balanced(self.system)

    def advance(self, seconds: float) -> None:
        """Turn the clock by `seconds`, and do all that is due meanwhile."""
        __tracebackhide__ = True
        with quiet_until_shown():
            self.session.advance(seconds)

    @rule(schedule=schedules(steps=_AHEAD, deviations=_AT_ONCE))
    def deviate(self, schedule: Script) -> None:
        """Change the order of the next steps. In `schedule`, the next step is number 1."""
        now = self.session.director.step
        for step, choice in schedule.items():
            self._script[now + step] = choice

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        # Not a rule whose precondition never holds: beside one of those, Hypothesis leaves steps that do not matter.
        if cls.faults and cls.inject is ActorMachine.inject:
            once = precondition(lambda self: not self._injected)
            cls.inject = once(rule(faults=st.runner().flatmap(_declared))(cls.inject))  # type: ignore[method-assign]

    def inject(self, faults: Sequence[Fault]) -> None:
        """Inject these faults. Their messages and steps count from here."""
        if faults:
            director = self.session.director
            from_here = tuple(_from(fault, director.step) for fault in faults)
            director.faults = Injector(from_here, SplitMix(self.seed), director)
            self._injected = True

    def teardown(self) -> None:
        """Shut the system down. Check that no failure has ended it, and that every message is accounted for."""
        __tracebackhide__ = True
        if self.failing:
            # The trace ends before the shutdown, and errors of the shutdown must not hide the failure.
            self._note()
            with suppress(Exception), silence_logs():
                self.session.close()
            return
        try:
            with quiet_until_shown():
                try:
                    # As at the end of its `async with`: raise the failure that ended the system, if one did.
                    self.run(lambda: self.system.__aexit__(None, None, None))
                finally:
                    self.session.close()
        finally:
            # This run is shown if the shutdown fails, or a check of a subclass after it.
            self._note()

    def _note(self) -> None:
        if currently_in_test_context():
            note(TraceNote(self.trace))


def _from(fault: Fault, step: int) -> Fault:
    """`fault`, with its step counted from `step` on."""
    if not isinstance(fault, Stop | Shutdown) or not isinstance(fault.at, int):
        return fault
    return replace(fault, at=fault.at + step)
