"""How schedules, faults and machines shrink: to the minimum, quickly, and without much noise (B1)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import Phase, find, given, settings
from hypothesis import seed as with_seed
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, rule, run_state_machine_as_test

from greenroom import Actor, ActorRef, ActorSystem
from greenroom.testing import Simulation, faults
from greenroom.testing.machine import ActorMachine
from greenroom.testing.strategies import fault_lists, schedules, simulations

QUIET = settings(database=None, deadline=None)
FINDING = settings(QUIET, max_examples=5000)  # it ends with the first that is found


class Listener(Actor[str, None]):
    def __init__(self, heard: list[str]) -> None:
        self.heard = heard

    def receive(self, message: str) -> None:
        self.heard.append(message)


def test_what_one_late_deviation_does_is_reduced_to_it() -> None:
    assert find(schedules(), lambda drawn: any(step >= 300 for step in drawn), settings=FINDING) == {300: (1, 0, 0)}


@pytest.mark.parametrize(
    "wanted",
    [
        lambda drawn: len(drawn) >= 20,
        lambda drawn: max(drawn, default=0) > 400,
        lambda drawn: len(drawn.keys() & range(1, 9)) >= 5,
    ],
    ids=["many", "late", "close together"],
)
def test_schedules_of_every_kind_are_drawn(wanted: Callable[[dict[int, Any]], bool]) -> None:
    find(schedules(), wanted, settings=settings(FINDING, phases=[Phase.generate]))


@settings(QUIET, max_examples=50)
@given(fault_lists(faults.delay(by=(0.0, 1.0)), faults.crash("a", chance=0.5), faults.crash("b", at=(1, 3))))
def test_only_faults_that_draw_for_themselves_have_a_seed(drawn: list[faults.Fault]) -> None:
    for fault in drawn:
        draws = fault.chance < 1.0 or isinstance(getattr(fault, "by", None), tuple)
        assert (fault.seed is not None) == draws


class Opening(ActorMachine):
    """Fails at the end if two were opened; nothing else matters."""

    opened = Bundle("opened")
    count = 0

    @rule(target=opened, number=st.integers(0, 5))
    def open(self, number: int) -> ActorRef[str, None]:
        self.count += 1
        return self.system.spawn(Listener, [], name=f"{self.count}-{number}")

    @rule(listener=opened, word=st.sampled_from("ab"))
    def speak(self, listener: ActorRef[str, None], word: str) -> None:
        listener.tell(word)

    def teardown(self) -> None:
        super().teardown()
        assert self.count < 2


def test_steps_that_do_not_matter_are_left_out_of_the_falsifying_example() -> None:
    shown = []
    for seed in range(3):
        lines = falsified(with_seed(seed)(type("Opening", (Opening,), {}))).splitlines()
        shown.append([line for line in lines if "state." in line])
    least = ["opened_0 = state.open(number=0)", "opened_1 = state.open(number=0)", "state.teardown()"]
    # Hypothesis has local minima of its own: of a hundred such machines, two or three keep one step too many.
    assert shown.count(least) >= 2, shown
    assert max(map(len, shown)) <= len(least) + 1, shown


def test_only_machines_with_faults_have_the_rule_that_injects_them() -> None:
    assert {each.function.__name__ for each in Opening.setup_state().rules} == {"deviate", "open", "speak"}

    class Faulty(Opening):
        faults = (faults.crash("1-*"),)

    assert {each.function.__name__ for each in Faulty.setup_state().rules} == {"deviate", "inject", "open", "speak"}


def test_what_a_machine_finds_wrong_after_the_shutdown_is_shown_with_what_happened() -> None:
    assert "/2-0 has started" in falsified(Opening)


def falsified(machine: type[ActorMachine]) -> str:
    """What Hypothesis says of the simplest failure of `machine`."""
    short = settings(QUIET, phases=[Phase.generate, Phase.shrink], stateful_step_count=20)
    with pytest.raises(AssertionError) as raised:
        run_state_machine_as_test(machine, settings=short)
    return "\n".join(raised.value.__notes__)


class Divider(Actor[int, int]):
    def receive(self, message: int) -> int:
        return 1 // message


class Dividing(ActorMachine):
    """Its actor fails whenever it is told something."""

    def __init__(self) -> None:
        super().__init__()
        self.divider = self.system.spawn(Divider, name="divider")
        self.count = 0

    @rule()
    def divide(self) -> None:
        self.divider.tell(0)
        self.settle()
        self.count += 1
        assert self.count < 3


def test_only_the_run_that_is_shown_of_a_machine_logs(caplog: pytest.LogCaptureFixture) -> None:
    falsified(Dividing)
    assert sum("/divider failed on" in record.message for record in caplog.records) == 3


def test_only_the_run_that_is_shown_of_a_simulation_logs(caplog: pytest.LogCaptureFixture) -> None:
    @settings(QUIET, phases=[Phase.generate, Phase.shrink], derandomize=True)
    @given(simulations())
    def divides(simulation: Simulation) -> None:
        async def program(system: ActorSystem) -> None:
            await system.spawn(Divider).ask(0)

        simulation.run(program)

    with pytest.raises(ZeroDivisionError):
        divides()
    assert sum("failed on" in record.message for record in caplog.records) == 1
