"""`explore` finds the seed at which a program fails, and shows the simplest run that fails in the same way (B1)."""

from __future__ import annotations

import _thread
import asyncio
import contextlib
import io
import multiprocessing
import os
import re
import sys
import threading
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from greenroom import Actor, ActorSystem, AskTimeout, MailboxConfig, Supervision, SystemConfig
from greenroom.errors import BadArgument, ConfigError, InjectedFault, SimulationEndless, SimulationStuck
from greenroom.testing import Report, Simulation, explore, faults
from greenroom.testing.simulatedprogram import CheckFailed
from tests.testing.exploring.programs import CLEARED, Note, b_after_a, find, in_order, shown_on_a_terminal


def test_a_program_that_never_fails_has_no_failure() -> None:
    report = explore(in_order, runs=30, workers=2, output=None)
    assert report.failure is None
    assert report.runs == 30
    report.raise_failure()
    assert str(report).startswith("30 runs, none failed")


def test_it_finds_the_lowest_seed_that_fails() -> None:
    def fails(seed: int) -> bool:
        try:
            Simulation(seed).run(rarely)
        except AssertionError:
            return True
        return False

    async def rarely(system: ActorSystem) -> None:
        assert await in_order(system) != ["c", "b", "a"]
        assert system.random.random() > 0.1

    first = next(seed for seed in range(100) if fails(seed))
    for workers in (0, 1, 2, 3):
        assert find(rarely, workers=workers).seed == first
    later = next(seed for seed in range(first + 1, 200) if fails(seed))
    assert find(rarely, workers=2, first_seed=first + 1).seed == later


def test_a_failure_far_out_is_found_by_the_workers() -> None:
    async def program(system: ActorSystem) -> None:
        assert system.random.random() > 0.02

    first = next(seed for seed in range(500) if _first_random(seed) <= 0.02)
    assert first > 20
    for workers in (1, 2):
        assert find(program, runs=500, workers=workers).seed == first


def _first_random(seed: int) -> float:
    async def program(system: ActorSystem) -> float:
        return system.random.random()

    return Simulation(seed, keep=0).run(program)


def test_it_stops_at_the_first_failure() -> None:
    report = explore(b_after_a, runs=10_000, workers=1, output=None)
    assert report.failure is not None
    assert report.runs == report.failure.seed + 1


def test_a_failure_has_its_error_and_its_trace() -> None:
    failure = find(b_after_a)
    assert isinstance(failure.error, AssertionError)
    assert "b was first" in str(failure.error)
    assert [event.actor for event in failure.trace if event.kind == "taken"][:3].index("/b") < 2
    with pytest.raises(AssertionError, match="b was first"):
        Report(1, 0.0, failure).raise_failure()


@pytest.mark.parametrize("schedule", ["random", "pct"])
def test_the_seed_alone_fails_again_with_the_same_digest(schedule: str) -> None:
    given = [faults.delay(by=(0.0, 1.0)), faults.slow("c")]
    failure = find(b_after_a, schedule=schedule, faults=given)
    again = Simulation(failure.seed, schedule=schedule, faults=given)
    with pytest.raises(AssertionError, match="b was first"):
        again.run(b_after_a)
    assert again.trace.digest == failure.trace.digest


def test_the_report_is_the_same_however_many_work_on_it() -> None:
    def told(workers: int) -> str:
        report = explore(b_after_a, runs=100, workers=workers, output=None)
        return re.sub(r"\(\d+ runs, .* s\)", "", str(report))

    assert told(0) == told(1) == told(1) == told(2)


def test_what_is_printed_is_the_report() -> None:
    output = io.StringIO()
    report = explore(b_after_a, runs=100, workers=1, output=output)
    assert report.failure is not None
    text = output.getvalue()
    assert text.strip() == str(report)
    assert f"seed {report.failure.seed}" in text
    assert f"Simulation(seed={report.failure.seed})" in text
    assert "/b handles 'b'" in text
    assert "sequenceDiagram" in text
    assert "\r" not in text


def test_nothing_is_printed_when_nothing_fails() -> None:
    output = io.StringIO()
    explore(in_order, runs=20, workers=1, output=output)
    assert output.getvalue() == ""


def test_how_to_run_it_again_can_be_pasted() -> None:
    given = [faults.crash("c", at=1, chance=0.5), faults.delay(by=(0.0, 1.0))]
    report = explore(b_after_a, runs=100, workers=1, schedule="pct", faults=given, output=None)
    line = next(line for line in str(report).splitlines() if line.startswith("Run it again:"))
    names = {"Simulation": Simulation, "program": b_after_a, "crash": faults.crash, "delay": faults.delay}
    with pytest.raises(AssertionError, match="b was first"):
        eval(line.removeprefix("Run it again:").strip(), names)


# -- what counts as a failure
def test_classes_and_settings_can_be_pasted_too() -> None:
    async def program(system: ActorSystem) -> None:
        await system.spawn(Note, [], name="note").ask("tea")

    crashes = [faults.crash(Note, at=1, error=ZeroDivisionError)]
    config = SystemConfig(history=True)
    report = explore(
        program, runs=1, workers=0, shrinks=False, faults=crashes, config=config, max_steps=5000, output=None
    )
    line = re.search(r"Run it again:  (.*)", str(report))
    assert line is not None
    named = {"Simulation": Simulation, "crash": faults.crash, "Note": Note, "config": config, "program": program}
    with pytest.raises(ZeroDivisionError):
        eval(line[1], named)
    assert "max_steps=5000" in line[1]


def test_the_explanation_names_the_actor_that_ran_and_not_the_one_that_it_sent_to() -> None:
    class Early(Actor[str, None]):
        def __init__(self, log: Any) -> None:
            self.log = log

        def pre_start(self) -> None:
            self.log.tell(self.ctx.self.name)

        def receive(self, message: str) -> None: ...

    async def program(system: ActorSystem) -> None:
        seen: list[str] = []
        log = system.spawn(Note, seen, name="log")
        for name in "abc":
            system.spawn(Early, log, name=name)
        await system.settle()
        if seen != ["a", "b", "c"]:
            raise AssertionError("in another order")

    shortest = find(program).shortest
    ran = {event.step: event.actor for event in shortest.trace if event.kind == "started"}
    (step,) = shortest.script
    assert ran[step] in ("/b", "/c")
    assert shortest.explain().startswith(f"step {step}: {ran[step]} runs, before")


def test_a_program_that_never_ends_is_reported_without_many_more_runs_of_it() -> None:
    runs = 0

    def again(ctx: Any, message: int) -> None:
        ctx.self.tell(message + 1)

    async def program(system: ActorSystem) -> None:
        nonlocal runs
        runs += 1
        system.spawn(again).tell(0)
        await system.settle()

    failure = find(program, workers=0, max_steps=3000)
    assert isinstance(failure.error, SimulationEndless)
    assert len(failure.trace) > 1000
    assert runs == 2


def test_an_exception_that_cannot_show_itself_is_reported_with_its_seed() -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no")

    async def program(system: ActorSystem) -> None:
        raise Mute

    assert "Failed at seed 0: Mute" in str(find(program))


def test_it_prints_to_where_standard_error_goes_at_that_time() -> None:
    async def program(system: ActorSystem) -> None:
        raise ValueError("tea")

    output = io.StringIO()
    with contextlib.redirect_stderr(output):
        explore(program, runs=1, workers=0)
    assert "Failed at seed 0: ValueError: tea" in output.getvalue()


def test_a_check_that_returns_false_fails() -> None:
    failure = find(in_order, check=lambda log: log[0] == "a")
    assert isinstance(failure.error, CheckFailed)
    assert Simulation(failure.seed).run(in_order)[0] != "a"


@pytest.mark.parametrize("answer", [None, True, 0, ""])
def test_a_check_that_returns_anything_else_is_content(answer: Any) -> None:
    assert explore(in_order, runs=5, check=lambda log: answer, workers=1, output=None).failure is None


def test_a_check_that_raises_fails_with_that() -> None:
    def check(log: list[str]) -> None:
        if log[0] != "a":
            raise LookupError(log[0])

    assert isinstance(find(in_order, check=check).error, LookupError)


def test_a_program_that_is_stuck_fails() -> None:
    async def program(system: ActorSystem) -> None:
        await asyncio.Event().wait()

    assert isinstance(find(program, runs=3).error, SimulationStuck)


async def asks_too_briefly(system: ActorSystem) -> None:
    async def slow(ctx: Any, message: object) -> None:
        await asyncio.sleep(10)

    await system.spawn(slow, name="slow").ask(1, timeout=1)


async def runs_out_of_time(system: ActorSystem) -> None:
    system.spawn(Note, [], name="slow").tell("x")
    async with asyncio.timeout(1):
        await asyncio.sleep(2)


@pytest.mark.parametrize(("program", "error"), [(asks_too_briefly, AskTimeout), (runs_out_of_time, TimeoutError)])
def test_a_timeout_of_the_program_is_told_like_any_other_failure(program: Any, error: type[Exception]) -> None:
    failure = find(program, runs=3)
    assert type(failure.error) is error
    assert any(event.actor == "/slow" for event in failure.trace)
    assert failure.shortest.simplified


def test_what_the_program_made_of_its_own_config_is_simulated() -> None:
    async def program(system: ActorSystem) -> None:
        ref = system.spawn(Note, [])
        for _ in range(3):
            ref.tell("x")

    failure = find(program, config=SystemConfig(mailbox=MailboxConfig(capacity=2)))
    assert failure.seed == 0
    assert explore(program, runs=3, workers=1, output=None).failure is None


# -- schedules
class Walker(Actor[int, None]):
    """Takes so many steps, and then says its name."""

    def __init__(self, log: list[str]) -> None:
        self.log = log

    def receive(self, left: int) -> None:
        if left:
            self.ctx.self.tell(left - 1)
        else:
            self.log.append(self.ctx.name)


async def overtaken(system: ActorSystem) -> None:
    """Fails when one that takes a single step is passed over until another has taken thirty."""
    log: list[str] = []
    system.spawn(Walker, log, name="short").tell(0)
    system.spawn(Walker, log, name="long").tell(30)
    await system.settle()
    assert log[0] == "short"


def test_strict_priorities_find_what_chance_does_not() -> None:
    one_by_one = SystemConfig(max_msgs_per_actor=1)
    assert find(overtaken, schedule="pct", runs=50, config=one_by_one).seed < 20
    assert explore(overtaken, runs=300, config=one_by_one, workers=1, output=None).failure is None


# -- arguments
@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("runs", 0),
        ("runs", 1.0),
        ("first_seed", -1),
        ("workers", -1),
        ("workers", 1.0),
        ("max_steps", 0),
        ("schedule", "fast"),
        ("faults", ["x"]),
        ("patience", 0),
        ("patience", -1.0),
        ("patience", "long"),
        ("shrink_seconds", 0),
        ("check", 3),
        ("check", b_after_a),
        ("faults", None),
        ("faults", faults.crash()),
        ("config", 5),
        ("output", "x"),
    ],
)
def test_a_bad_argument_is_a_config_error_that_names_it(field: str, value: Any) -> None:
    with pytest.raises(ConfigError, match=f"^{field}="):
        explore(in_order, **{"runs": 2, "output": None, field: value})


def not_async(system: ActorSystem) -> int:
    return 1


async def without_a_system() -> None: ...


@pytest.mark.parametrize("program", [None, 3, "in_order", not_async, without_a_system])
def test_what_cannot_be_called_is_refused_and_not_reported(program: Any) -> None:
    with pytest.raises(BadArgument, match="async def"):
        explore(program, runs=2, output=None)


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


@pytest.mark.anyio
async def test_it_works_while_a_loop_runs_in_this_thread() -> None:
    async with ActorSystem("real") as system:
        log: list[str] = []
        real = system.spawn(Note, log)
        shortest = find(b_after_a).shortest
        assert len(shortest.script) == 1
        await real.ask("goes on")
        assert log == ["goes on"]


def test_a_terminal_is_shown_how_far_it_is_and_is_left_clean() -> None:
    shown = shown_on_a_terminal(lambda output: find(b_after_a, output=output))
    progress, _, report = shown.rpartition(CLEARED)
    assert "fails; simplifying it, run 1: " in progress
    assert report.startswith("Failed at seed")
