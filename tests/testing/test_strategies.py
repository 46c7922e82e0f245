"""Simulations that Hypothesis draws: an order that breaks something is found, and told in the fewest words (B1)."""

from __future__ import annotations

import io
import logging
import re
from collections.abc import Callable
from contextlib import redirect_stdout
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, find, given, settings
from hypothesis import strategies as st
from hypothesis.errors import NoSuchExample

from greenroom import Actor, ActorRef, ActorSystem, Directive, Supervision
from greenroom.errors import ConfigError
from greenroom.testing import Simulation, faults
from greenroom.testing.faults import Crash, Delay, Fault, Fill, Slow, Stop
from greenroom.testing.simulatedprogram import silence_logs
from greenroom.testing.strategies import fault_lists, schedules, simulations

# Derandomized, for how far an example is shrunk depends on which one is found. Of one bug only: which values Hypothesis
# tries depends on the modules that are loaded too, and a second bug among them would be told in a group with the first.
# Without its check of speed, which a busy machine may fail.
QUICK = settings(
    derandomize=True,
    deadline=None,
    phases=[Phase.generate, Phase.shrink],
    report_multiple_bugs=False,
    suppress_health_check=[HealthCheck.too_slow],
)
STOP = Supervision(Directive.STOP)


class Account(Actor[Any, int]):
    """Is closed with a check that holds only if the payment came first."""

    def __init__(self) -> None:
        self.money = 0

    def receive(self, message: Any) -> int:
        if message == "close":
            assert self.money == 10
        else:
            self.money += message
        return self.money


async def pay_and_close(system: ActorSystem) -> None:
    account: ActorRef[Any, int] = system.spawn(Account, name="account", supervision=STOP)
    payer = system.spawn(lambda ctx, message: account.tell(message), name="payer")
    closer = system.spawn(lambda ctx, message: account.tell(message), name="closer")
    payer.tell(10)
    closer.tell("close")
    await system.settle()
    assert account.is_alive


async def work(system: ActorSystem) -> list[int]:
    """What a worker and its colleague have done, if nothing goes wrong."""
    workers = [system.spawn(Account, name=f"worker-{number}", supervision=STOP) for number in range(2)]
    for worker in workers:
        for _ in range(3):
            worker.tell(1)
    return [await worker.ask(0, timeout=None) for worker in workers]


def falsified(test: Callable[..., None], **strategies: Any) -> tuple[BaseException, str, list[Any]]:
    """What Hypothesis says of `test`, and the values it gave it last."""
    last: list[Any] = []

    @QUICK
    @given(**strategies)
    def run(**values: Any) -> None:
        last[:] = values.values()
        test(**values)

    said = io.StringIO()
    with silence_logs(), redirect_stdout(said), pytest.raises(Exception) as caught:
        run()
    notes = "\n".join(getattr(caught.value, "__notes__", []))
    return caught.value, f"{said.getvalue()}\n{notes}", last


# -- schedules


def test_an_order_bug_is_found_and_shrunk_to_one_deviation() -> None:  # B1
    error, said, (simulation,) = falsified(lambda simulation: simulation.run(pay_and_close), simulation=simulations())
    assert isinstance(error, AssertionError)
    assert len(simulation.schedule) == 1
    ((position, budget, pause),) = simulation.schedule.values()
    assert (position > 0) + (budget > 0) + (pause > 0) == 1
    assert f"simulation=Simulation(seed=0, schedule={simulation.schedule})" in said.replace("\n", "")
    assert "closer -> /account: 'close'" in said


def test_the_falsifying_example_runs_again_when_it_is_pasted() -> None:
    error, said, (simulation,) = falsified(
        lambda simulation: simulation.run(work),
        simulation=simulations(faults=[faults.crash("worker-*"), faults.delay(by=(0.0, 1.0))]),
    )
    pasted = eval(repr(simulation), {"Simulation": Simulation, **vars(faults)})
    assert repr(simulation) in said
    with silence_logs(), pytest.raises(type(error), match=re.escape(str(error))):
        pasted.run(work)


def test_first_come_first_served_is_the_simplest_schedule() -> None:
    assert find(schedules(), lambda _: True, settings=QUICK) == {}
    assert find(schedules(), lambda script: len(script) >= 2, settings=QUICK) == {1: (1, 0, 0), 2: (1, 0, 0)}
    assert find(schedules(), lambda script: any(map(any, script.values())), settings=QUICK) == {1: (1, 0, 0)}
    assert find(schedules(), lambda script: any(one[2] for one in script.values()), settings=QUICK) == {1: (0, 0, 1)}


@settings(QUICK, max_examples=50)
@given(st.data(), st.integers(1, 200), st.integers(1, 40))
def test_a_schedule_keeps_to_its_bounds_and_a_simulation_takes_it(data: st.DataObject, steps: int, most: int) -> None:
    script = data.draw(schedules(steps=steps, deviations=most))
    assert len(script) <= most
    assert all(1 <= step <= steps for step in script)
    assert list(script) == sorted(script)
    assert all(position >= 0 and budget >= 0 and pause in (0, 1) for position, budget, pause in script.values())
    assert (0, 0, 0) not in script.values()
    assert Simulation(schedule=script).schedule == script


def test_there_are_schedules_with_many_deviations_and_some_with_late_ones() -> None:
    found = settings(QUICK, phases=[Phase.generate], max_examples=5000)  # to shrink so many takes its time
    assert find(schedules(), lambda script: len(script) > 20, settings=found)
    assert find(schedules(), lambda script: bool(script) and max(script) > 300, settings=found)


# -- faults

DECLARED = [
    faults.crash("worker-*", at=(2, 9)),
    faults.stop("worker-*", chance=0.5),
    faults.delay(by=(0.5, 1.5)),
    faults.fill("box", lasting=(1.0, 3.0)),
    faults.slow("worker-*", by=0.25),
]


@settings(QUICK, max_examples=50)
@given(fault_lists(*DECLARED))
def test_faults_are_certain_in_their_order_and_any_may_be_left_out(drawn: list[Fault]) -> None:
    kinds = [type(fault) for fault in DECLARED]
    assert [kinds.index(type(fault)) for fault in drawn] == sorted({kinds.index(type(fault)) for fault in drawn})
    for fault in drawn:
        if isinstance(fault, Crash):
            assert isinstance(fault.at, int)
            assert 2 <= fault.at <= 9
            assert fault.seed is None  # it has nothing to draw
        elif isinstance(fault, Stop):
            assert isinstance(fault.at, int)
            assert 1 <= fault.at <= 100
            assert fault.chance == 0.5
            assert fault.seed is not None
        elif isinstance(fault, Delay):
            low, high = fault.by if isinstance(fault.by, tuple) else (fault.by, fault.by)
            assert 0.5 <= low <= high <= 1.5
            assert (fault.seed is not None) == isinstance(fault.by, tuple)
        elif isinstance(fault, Fill):
            assert isinstance(fault.lasting, float)
            assert 1.0 <= fault.lasting <= 3.0
        else:
            assert isinstance(fault, Slow)
            assert fault.by == 0.25


def test_no_fault_is_simplest_and_small_numbers_come_before_large_ones() -> None:
    assert find(fault_lists(*DECLARED), lambda _: True, settings=QUICK) == []
    assert find(fault_lists(faults.crash("a")), bool, settings=QUICK) == [faults.crash("a", at=1)]
    assert find(fault_lists(faults.delay(by=(0.0, 1.0))), bool, settings=QUICK) == [faults.delay(by=0.0)]
    (late,) = find(
        fault_lists(faults.crash("a")), lambda drawn: bool(drawn) and getattr(drawn[0], "at", 0) > 40, settings=QUICK
    )
    assert late == faults.crash("a", at=41)


def test_of_several_faults_those_that_matter_are_left() -> None:
    declared = [faults.slow(by=(0.0, 0.1)), faults.crash("worker-1", at=(1, 4)), faults.stop("nobody", at=(1, 4))]

    def fails(drawn: list[Fault]) -> bool:
        try:
            Simulation(faults=drawn).run(work)
        except Exception:
            return True
        return False

    with silence_logs():
        assert find(fault_lists(*declared), fails, settings=QUICK) == [faults.crash("worker-1", at=1)]


def test_a_fault_that_is_declared_with_a_seed_keeps_it() -> None:
    seeded = faults.delay(by=(0.0, 1.0)).with_seed(7)
    (drawn,) = find(fault_lists(seeded), lambda drawn: bool(drawn) and isinstance(drawn[0], Delay), settings=QUICK)
    assert drawn.seed == 7


def test_logs_stay_silent_after_an_inner_silence(caplog: pytest.LogCaptureFixture) -> None:
    log = logging.getLogger("greenroom.testing")
    with silence_logs():
        with silence_logs():
            log.error("inner")
        log.error("outer")
    log.error("after")
    assert caplog.messages == ["after"]


# -- what cannot be


@pytest.mark.parametrize("bad", [{"steps": 0}, {"deviations": 0}, {"steps": "many"}, {"deviations": True}])
def test_what_makes_no_sense_is_refused_where_it_is_said(bad: dict[str, Any]) -> None:  # J9
    for strategy in (schedules, simulations):
        with pytest.raises(ConfigError):
            strategy(**bad)


def test_only_faults_are_faults() -> None:  # J9
    with pytest.raises(ConfigError, match="must be faults"):
        fault_lists("crash")  # type: ignore[arg-type]


def test_a_program_that_holds_at_every_order_is_not_falsified() -> None:
    async def program(system: ActorSystem) -> None:
        account = system.spawn(Account)
        for _ in range(5):
            account.tell(2)
        assert await account.ask("close", timeout=None) == 10

    @settings(QUICK, max_examples=30)
    @given(simulations(faults=[faults.reorder(), faults.slow()]))
    def run(simulation: Simulation) -> None:
        simulation.run(program)

    run()
    with pytest.raises(NoSuchExample):
        find(schedules(), lambda script: (0, 0, 0) in script.values(), settings=settings(QUICK, max_examples=50))
