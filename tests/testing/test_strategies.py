"""Schedules and faults that Hypothesis draws, and a machine of rules with a simulated system in it (B1)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import Phase, find, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import rule, run_state_machine_as_test

from greenroom import Actor, ActorRef, ActorSystem
from greenroom.errors import ConfigError
from greenroom.testing import Simulation, faults
from greenroom.testing.exploring.quiet import quiet
from greenroom.testing.machine import ActorMachine
from greenroom.testing.strategies import fault_lists, schedules, simulations

QUIET = settings(database=None, deadline=None)


class Listener(Actor[str, None]):
    def __init__(self, heard: list[str]) -> None:
        self.heard = heard

    def receive(self, message: str) -> None:
        self.heard.append(message)


async def two_speak(system: ActorSystem) -> list[str]:
    """In the order in which they come by themselves, the first is heard first."""
    heard: list[str] = []
    for name in ("first", "second"):
        system.spawn(Listener, heard, name=name).tell(name)
    await system.settle()
    return heard


def swaps(simulation: Simulation) -> bool:
    return simulation.run(two_speak) == ["second", "first"]


def test_an_order_bug_is_reduced_to_one_deviation() -> None:
    found = find(simulations(), swaps, settings=QUIET)
    assert found.schedule == {1: (1, 0, 0)}
    assert (found.seed, found.faults) == (0, ())
    assert repr(found) == "Simulation(seed=0, schedule={1: (1, 0, 0)})"


def test_a_fault_that_is_not_needed_is_left_out() -> None:
    declared = [faults.slow(by=(0.0, 1.0)), faults.crash("second", at=(1, 5)), faults.delay(by=(0.0, 1.0))]

    def loses_one(simulation: Simulation) -> bool:
        return "second" not in simulation.run(two_speak)

    with quiet():
        found = find(simulations(faults=declared), loses_one, settings=QUIET)
    assert repr(found.faults) == "(crash('second', at=1),)"
    assert found.schedule == {}


def test_no_deviation_is_the_simplest_schedule() -> None:
    assert find(schedules(), lambda _: True, settings=QUIET) == {}


@settings(QUIET, max_examples=50)
@given(schedules(steps=20, deviations=5))
def test_schedules_are_scripts_within_their_bounds(schedule: dict[int, tuple[int, int, int]]) -> None:
    assert len(schedule) <= 5
    assert all(1 <= step <= 20 for step in schedule)
    Simulation(schedule=schedule).run(two_speak)


@settings(QUIET, max_examples=50)
@given(fault_lists(faults.crash("a"), faults.fill("b", at=(2, 4), lasting=(0.5, 1.0)), faults.stop("c", at=7)))
def test_faults_are_drawn_to_the_last_number(drawn: list[faults.Fault]) -> None:
    for fault in drawn:
        assert isinstance(getattr(fault, "at", 1), int)
        assert not isinstance(getattr(fault, "lasting", 1.0), tuple)


@pytest.mark.parametrize("make", [lambda: schedules(steps=0), lambda: fault_lists("crash")])  # type: ignore[arg-type]
def test_a_bad_argument_is_a_config_error(make: Callable[[], Any]) -> None:
    with pytest.raises(ConfigError):
        make()


class Lock(Actor[str, bool]):
    """Held by one at a time; the planted bug: whoever asks for it twice frees it."""

    def __init__(self, broken: bool) -> None:
        self.broken = broken
        self.holder: ActorRef[Any, Any] | None = None

    def receive(self, message: str) -> bool:
        if message == "free":
            self.holder = None
            return True
        if self.holder is None:
            self.holder = self.ctx.self
            return True
        if self.broken:
            self.holder = None
        return False


class Locking(ActorMachine):
    """Against the simplest model of a lock there is."""

    broken = False

    def __init__(self) -> None:
        super().__init__()
        self.lock = self.system.spawn(Lock, self.broken, name="lock")
        self.held = False

    @rule()
    def take(self) -> None:
        assert self.run(lambda: self.lock.ask("take")) is not self.held
        self.held = True

    @rule()
    def free(self) -> None:
        self.run(lambda: self.lock.ask("free"))
        self.held = False

    @rule(seconds=st.integers(0, 10))
    def wait(self, seconds: int) -> None:
        before = self.now
        self.advance(seconds)
        assert self.now == before + seconds
        self.settle()


class BrokenLocking(Locking):
    broken = True


def test_a_protocol_that_holds_passes() -> None:
    run_state_machine_as_test(Locking, settings=settings(QUIET, max_examples=20, stateful_step_count=15))


def test_a_protocol_that_does_not_is_found_out() -> None:
    phases = [Phase.generate, Phase.shrink]
    with pytest.raises(AssertionError) as raised:
        run_state_machine_as_test(BrokenLocking, settings=settings(QUIET, max_examples=100, phases=phases))
    notes = "\n".join(raised.value.__notes__)
    assert notes.count("state.take()") == 3  # once, again, and a third time that succeeds
    assert "/lock handles 'take'" in notes
