"""The processes that explore: programs that hang, die, remember or are interrupted, and what is left of it all.

(B1)
"""

from __future__ import annotations

import _thread
import multiprocessing
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from greenroom import ActorSystem
from greenroom.testing import Report, Simulation, explore
from tests.testing.exploring.programs import CLEARED, shown_on_a_terminal

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="one process does it all here")

PATIENCE = 3.0
DEADLINE = 60
"""Seconds for a process of ours: never reached unless something is wrong."""


def acts(system: ActorSystem) -> bool:
    """Whether the program does what it should not: at some seeds only, and at none of the first."""
    return system.random.random() < 0.05


def first_that_acts() -> int:
    async def program(system: ActorSystem) -> bool:
        return acts(system)

    found = next(seed for seed in range(100) if Simulation(seed, keep=0).run(program))
    assert found > 8  # not one of those that are tried before anybody is forked
    return found


def script(body: str, *, runs: int = 40, workers: int = 2, patience: float = PATIENCE) -> list[str]:
    """Explore a program in a process of its own, that may not come back; what it found, in lines."""
    text = f"""
import os, signal, sys
from greenroom.testing import explore

def acts(system):
    return system.random.random() < 0.05

async def program(system):
{body}

if __name__ == "__main__":
    report = explore(program, runs={runs}, workers={workers}, patience={patience}, output=None)
    failure = report.failure
    print("runs", report.runs)
    print("none" if failure is None else f"{{failure.seed}} {{type(failure.error).__name__}} {{failure.error}}")
"""
    root = Path(__file__).parents[3]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([*filter(None, sys.path), str(root)])}
    done = subprocess.run(
        [sys.executable, "-c", text],
        capture_output=True,
        text=True,
        timeout=DEADLINE,
        env=environment,
        check=False,
    )
    assert done.returncode == 0, done
    return done.stdout.splitlines()


def children() -> list[Any]:
    return multiprocessing.active_children()


async def well(system: ActorSystem) -> None:
    await system.settle()


def test_every_seed_is_run_once() -> None:
    for workers in (0, 1, 2, 3):
        counts = multiprocessing.Array("i", 1)

        async def program(system: ActorSystem, counts: Any = counts) -> None:
            with counts.get_lock():
                counts[0] += 1

        report = explore(program, runs=37, workers=workers, output=None)
        assert (report.runs, counts[0]) == (37, 37)


def test_no_process_is_left() -> None:
    explore(well, runs=40, workers=3, output=None)
    assert children() == []

    async def program(system: ActorSystem) -> None:
        assert not acts(system)

    assert explore(program, runs=100, workers=3, output=None).failure is not None
    assert children() == []


def test_it_runs_outside_the_main_thread() -> None:
    reports: list[Report] = []

    async def program(system: ActorSystem) -> None:
        assert not acts(system)

    thread = threading.Thread(target=lambda: reports.append(explore(program, runs=60, workers=2, output=None)))
    thread.start()
    thread.join()
    (report,) = reports
    assert report.failure is not None
    assert report.failure.seed == first_that_acts()


# -- programs that hang


def test_a_handler_that_holds_the_thread_is_ended_after_some_patience() -> None:
    def spin(ctx: Any, message: object) -> None:
        while True:
            pass

    async def program(system: ActorSystem) -> None:
        if acts(system):
            await system.spawn(spin).ask(1)

    report = explore(program, runs=60, workers=2, patience=PATIENCE, output=None)
    assert report.failure is not None
    assert report.failure.seed == first_that_acts()
    assert isinstance(report.failure.error, TimeoutError)
    assert "holds the thread" in str(report.failure.error)
    assert children() == []


@pytest.mark.parametrize("workers", [1, 2])
def test_so_is_one_that_does_so_at_the_very_first_seed(workers: int) -> None:
    lines = script("    while True: pass", workers=workers)
    assert lines[1].startswith("0 RunHung")


@pytest.mark.parametrize(
    ("hangs", "fails", "found"),
    [
        ("0.1 < drawn < 0.12", "drawn < 0.05", "14 ValueError"),
        ("drawn < 0.05", "0.1 < drawn < 0.12", "14 RunHung"),
    ],
)
def test_of_one_that_hangs_and_one_that_fails_the_lower_is_told(hangs: str, fails: str, found: str) -> None:
    lines = script(
        f"""
    drawn = system.random.random()  # 0.045 at seed 14, 0.112 at seed 17
    if {fails}: raise ValueError
    while {hangs}: pass
"""
    )
    assert " ".join(lines[1].split()[:2]) == found


def test_nobody_waits_for_one_that_hangs_at_a_higher_seed_than_the_failure() -> None:
    hangs = multiprocessing.RawValue("b", 0)

    async def draw(system: ActorSystem) -> float:
        return system.random.random()

    lower, higher = (Simulation(seed, keep=0).run(draw) for seed in (20, 21))

    async def program(system: ActorSystem) -> None:
        drawn = system.random.random()
        while drawn == higher:
            hangs.value = 1
        while drawn == lower and not hangs.value:
            pass
        assert drawn != lower

    report = explore(program, runs=40, workers=2, patience=10.0 * DEADLINE, output=None)
    assert report.failure is not None
    assert report.failure.seed == 20
    assert isinstance(report.failure.error, AssertionError)
    assert children() == []


# -- processes that die


@pytest.mark.parametrize("code", [0, 3])
def test_a_worker_that_dies_is_reported(code: int) -> None:
    lines = script(f"    if acts(system): os._exit({code})")
    assert lines[1].split()[:2] == [str(first_that_acts()), "WorkerLost"]


def test_a_worker_that_is_killed_is_reported() -> None:
    lines = script("    if acts(system): os.kill(os.getpid(), signal.SIGKILL)")
    assert lines[1].split()[:2] == [str(first_that_acts()), "WorkerLost"]


def test_so_is_one_that_dies_at_the_very_first_seed() -> None:
    assert script("    os._exit(3)")[1].split()[:2] == ["0", "WorkerLost"]


@pytest.mark.parametrize("code", ["", "0", "3"])
def test_a_program_that_exits_is_not_taken_for_one_that_ended_well(code: str) -> None:
    async def program(system: ActorSystem) -> None:
        if acts(system):
            sys.exit(int(code) if code else None)

    try:
        report = explore(program, runs=60, workers=2, output=None)
    except SystemExit:
        return
    assert report.failure is not None
    assert report.failure.seed == first_that_acts()


# -- programs that remember


def test_what_is_kept_between_runs_is_reported() -> None:
    made = []

    async def program(system: ActorSystem) -> None:
        made.append(1)
        assert len(made) != 12

    report = explore(program, runs=60, workers=2, output=None)
    assert report.failure is not None
    assert "between its runs" in str(report.failure.error)


# -- interrupts


def test_an_interrupt_ends_everything() -> None:
    reading, writing = os.pipe()

    def interrupt() -> None:
        # Both workers are there: while one is forked, the interpreter would ignore it.
        os.read(reading, 1)
        os.read(reading, 1)
        _thread.interrupt_main()

    def hold(ctx: Any, message: object) -> None:
        os.write(writing, b"x")
        while True:
            pass

    async def program(system: ActorSystem) -> None:
        if acts(system):
            await system.spawn(hold).ask(1)

    waiting = threading.Thread(target=interrupt)
    waiting.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            explore(program, runs=60, workers=2, patience=DEADLINE, output=None)
    finally:
        os.write(writing, b"xx")
        waiting.join()
        os.close(reading)
        os.close(writing)
    assert children() == []


@pytest.mark.parametrize("raised", [KeyboardInterrupt, SystemExit, GeneratorExit])
def test_a_program_that_asks_for_the_end_of_the_process_has_failed_at_its_seed(raised: type[BaseException]) -> None:
    async def program(system: ActorSystem) -> None:
        if acts(system):
            raise raised

    report = explore(program, runs=40, workers=2, output=None)
    assert report.failure is not None
    assert (report.failure.seed, type(report.failure.error)) == (first_that_acts(), raised)
    assert children() == []


@pytest.mark.parametrize("where", ["the program", "an actor"])
def test_without_workers_an_interrupt_is_somebodys_who_wants_to_end_it(where: str) -> None:
    def interrupted(ctx: Any, message: object) -> None:
        raise KeyboardInterrupt

    async def program(system: ActorSystem) -> None:
        if where == "an actor":
            await system.spawn(interrupted).ask(1)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        explore(program, runs=20, workers=0, output=None)


def test_workers_end_with_the_process_that_forked_them() -> None:
    text = """
import os, sys
from greenroom.testing import explore

async def program(system):
    if system.random.random() < 0.05:
        os.write(1, b"%d\\n" % os.getpid())  # in one piece: there are two of them
        while True: pass

explore(program, runs=1000, workers=2, patience=600.0, output=None)
"""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    with subprocess.Popen([sys.executable, "-c", text], stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout is not None
        try:
            workers = [int(process.stdout.readline()) for _ in range(2)]
        finally:
            process.kill()
        # The end of what they write: both have ended, or this would come to none.
        assert process.stdout.read() == ""
    assert len(set(workers)) == 2


# -- how far it is


def test_a_terminal_is_shown_how_far_it_is_and_is_left_clean() -> None:
    shown = shown_on_a_terminal(lambda output: explore(well, runs=200, workers=1, output=output))
    assert "/200 seeds" in shown
    assert shown.endswith(CLEARED)
    assert "\n" not in shown


def test_a_file_is_not(tmp_path: Path) -> None:
    file = tmp_path / "log"
    with file.open("w") as output:
        explore(well, runs=200, workers=1, output=output)
    assert file.read_text() == ""
