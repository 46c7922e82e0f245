"""Of a run that fails, `explore` shows the simplest that fails in the same way (B1)."""

from __future__ import annotations

import _thread
import asyncio
import multiprocessing
import os
import sys
import threading
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from greenroom import ActorSystem, Supervision
from greenroom.errors import InjectedFault
from greenroom.testing import Simulation, faults
from tests.testing.exploring.programs import CLEARED, Note, b_after_a, find, in_order, shown_on_a_terminal


def test_an_order_of_two_is_one_deviation() -> None:
    failure = find(b_after_a)
    shortest = failure.shortest
    ((position, budget, pause),) = shortest.script.values()
    assert (position, budget, pause) == (1, 0, 0)
    assert "/b runs, before 1 other that waited longer" in str(failure)


def test_a_visit_that_is_cut_short_is_one_deviation() -> None:
    async def program(system: ActorSystem) -> None:
        log: list[str] = []
        one, other = system.spawn(Note, log, name="one"), system.spawn(Note, log, name="other")
        await system.settle()
        for _ in range(4):
            one.tell("one")
        other.tell("other")
        await system.settle()
        assert log.index("other") in (0, 4)

    failure = find(program)
    ((position, budget, pause),) = failure.shortest.script.values()
    assert (position, pause) == (0, 0)
    assert 1 <= budget <= 3


def test_a_program_that_always_fails_needs_no_deviation() -> None:
    async def program(system: ActorSystem) -> None:
        raise ValueError((await in_order(system))[0])

    shortest = find(program).shortest
    assert (shortest.script, shortest.faults) == ({}, ())
    assert shortest.explain() == "first come, first served"


def test_the_simplest_run_can_be_run_again() -> None:
    failure = find(b_after_a, faults=[faults.slow("c"), faults.crash("c")])
    shortest = failure.shortest
    again = Simulation(shortest.seed, schedule=shortest.script, faults=shortest.faults)
    with pytest.raises(AssertionError, match="b was first"):
        again.run(b_after_a)
    assert again.trace.digest == shortest.trace.digest


def test_faults_that_have_nothing_to_do_with_it_are_left_out() -> None:
    given = [faults.slow(), faults.crash("c", at=1), faults.delay(to="c"), faults.stop("c"), faults.fill("c", at=9)]
    shortest = find(b_after_a, faults=given).shortest
    assert shortest.faults == ()
    assert len(shortest.script) == 1


def test_the_fault_that_does_it_stays_and_the_schedule_goes() -> None:
    async def program(system: ActorSystem) -> None:
        refs = [system.spawn(Note, [], name=name, supervision=Supervision()) for name in "abc"]
        for _ in range(5):
            for ref in refs:
                ref.tell("x")
        await system.settle()
        assert system.ledger(refs[1]).failed == 0

    given = [faults.reorder(), faults.slow("a"), faults.crash("b", at=(2, 5)), faults.crash("c", at=(2, 5))]
    shortest = find(program, faults=given).shortest
    assert [(type(fault).__name__, getattr(fault, "who", None)) for fault in shortest.faults] == [("Crash", "b")]
    assert shortest.script == {}


def test_the_simplest_run_fails_for_the_same_reason() -> None:
    async def program(system: ActorSystem) -> None:
        log = await in_order(system)
        if log[0] == "c":
            raise LookupError("c")
        if log != ["a", "b", "c"]:
            raise ValueError(log)

    for first_seed in range(0, 40, 10):
        failure = find(program, first_seed=first_seed)
        assert type(failure.shortest.error) is type(failure.error)


def test_a_crash_that_the_program_raises_is_the_error() -> None:
    async def program(system: ActorSystem) -> None:
        await system.spawn(Note, [], name="a").ask("x")

    failure = find(program, faults=[faults.crash("a", at=1)])
    assert isinstance(failure.error, InjectedFault)
    assert len(failure.shortest.faults) == 1


def test_shrinking_can_be_left_out() -> None:
    given = [faults.stop("nobody", at=1)]
    failure = find(b_after_a, shrinks=False, faults=given)
    shortest = failure.shortest
    assert not shortest.simplified
    assert shortest.explain() == f"the schedule of seed {failure.seed}, not simplified"
    assert (shortest.seed, shortest.error, shortest.trace) == (failure.seed, failure.error, failure.trace)
    assert shortest.faults == tuple(given)
    assert "/b handles 'b'" in str(failure)
    assert "simplest" not in str(failure)


# -- simplified runs that come to no end, or end it all


def spin() -> None:
    while True:
        pass


def interrupt() -> None:
    raise KeyboardInterrupt


MANY = tuple("abcdefgh")


def unless_in_order(act: Callable[[], None]) -> Callable[[ActorSystem], Coroutine[Any, Any, None]]:
    """A program that fails when b is before a, and acts when nobody overtakes anybody: no seed's own schedule does."""

    async def program(system: ActorSystem) -> None:
        log: list[str] = []
        for name in MANY:
            system.spawn(Note, log, name=name).tell(name)
        await system.settle()
        if tuple(log) == MANY:
            act()
        if log.index("a") > log.index("b"):
            raise AssertionError("b was first")

    return program


@pytest.mark.skipif(not hasattr(os, "fork"), reason="one process does it all here")
@pytest.mark.parametrize("act", [spin, lambda: os._exit(3), sys.exit, interrupt], ids=["spin", "_exit", "exit", "^C"])
def test_a_simplified_run_that_is_lost_is_left_out_and_the_others_go_on(act: Callable[[], None]) -> None:
    failure = find(unless_in_order(act), workers=2)
    assert len(failure.shortest.script) == 1
    assert str(failure.shortest.error) == "b was first"
    assert multiprocessing.active_children() == []


@pytest.mark.skipif(not hasattr(os, "fork"), reason="one process does it all here")
def test_an_interrupt_while_it_simplifies_is_somebodys_who_wants_to_end_it() -> None:
    reading, writing = os.pipe()

    def interrupt() -> None:
        os.read(reading, 1)
        _thread.interrupt_main()

    def hold() -> None:
        os.write(writing, b"x")
        spin()

    waiting = threading.Thread(target=interrupt)
    waiting.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            find(unless_in_order(hold), workers=2)
    finally:
        waiting.join()
        os.close(reading)
        os.close(writing)
    assert multiprocessing.active_children() == []


def test_it_is_as_simple_without_other_processes() -> None:
    alone, apart = (find(b_after_a, workers=workers, faults=[faults.slow("c")]).shortest for workers in (0, 2))
    assert alone is not None
    assert apart is not None
    assert (alone.script, alone.faults, alone.runs) == (apart.script, apart.faults, apart.runs)
    assert alone.trace.digest == apart.trace.digest


def test_it_works_while_a_loop_runs_in_this_thread() -> None:
    async def main() -> None:
        async with ActorSystem("real") as system:
            log: list[str] = []
            real = system.spawn(Note, log)
            shortest = find(b_after_a).shortest
            assert len(shortest.script) == 1
            await real.ask("goes on")
            assert log == ["goes on"]

    asyncio.run(main())


def test_a_terminal_is_shown_how_far_it_is_and_is_left_clean() -> None:
    shown = shown_on_a_terminal(lambda output: find(b_after_a, output=output))
    progress, _, report = shown.rpartition(CLEARED)
    assert "fails; simplifying it, run 1: " in progress
    assert report.startswith("Failed at seed")
