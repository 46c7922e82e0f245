"""The whole programs, at sizes too small to mean anything: each does all its work, and its result is checked."""

from __future__ import annotations

import gc
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import replace
from functools import partial

import pytest

from benchmarks.erlang import launch_program, launch_program_on_all_schedulers
from benchmarks.launch import run_program
from benchmarks.model import Program, Setting, at_least
from benchmarks.ours import lives as other_lives
from benchmarks.ours.stage import perform
from benchmarks.peers import bare_programs, pykka_lives, pykka_messages, pykka_services
from benchmarks.peers.pykka_stage import Finish, play
from benchmarks.program import Report, Unavailable
from benchmarks.programs import (
    bank,
    buffer,
    chameneos,
    dictionary,
    lives,
    loops,
    measuring,
    passing,
    philosophers,
    pouring,
    tree,
)
from benchmarks.programs.rows import LOOPS, PROGRAMS
from greenroom import ActorRef, ActorSystem, Behavior, Behaviors

SETTING = Setting("python", compiled=False)

OURS: dict[str, Callable[[int], Report]] = {
    "ring": passing.ring,
    "big": passing.big,
    "chameneos": chameneos.run,
    "philosophers": philosophers.run,
    "counting": pouring.counting,
    "throughput": pouring.throughput,
    "create": lives.create,
    "fibonacci": lives.fibonacci,
    "bank": bank.run,
    "dictionary": dictionary.run,
    "buffer": buffer.run,
    "tree": tree.run,
}
PYKKA = pykka_messages.PROGRAMS | pykka_services.PROGRAMS | pykka_lives.PROGRAMS


@pytest.fixture(autouse=True, scope="module")
def _thaw() -> Iterator[None]:
    # A program freezes what it finds, its own garbage too. What is left then is pytest's: no test needs to look at it.
    yield
    gc.unfreeze()
    gc.collect()
    gc.freeze()


@pytest.mark.parametrize("name", OURS)
def test_a_program_does_all_its_work_and_reports_both_clocks(name: str) -> None:
    report = OURS[name](3000)
    assert report.value > 0.0
    assert report.parts[measuring.BY_WALL_CLOCK] > 0.0


@pytest.mark.parametrize("name", bare_programs.PROGRAMS)
def test_bare_python_does_the_same_work(name: str) -> None:
    assert bare_programs.PROGRAMS[name](3000).value > 0.0


@pytest.mark.parametrize("program", ["pairs", "rings"])
@pytest.mark.parametrize("number", [1, 2])
def test_little_worlds_go_round_on_one_loop_or_two(program: str, number: int) -> None:
    circles, nodes = (loops.PAIRS, 2) if program == "pairs" else (loops.RINGS, 5)
    assert loops.circles(circles, nodes, number, 3000).value > 0.0


@pytest.mark.parametrize("number", [1, 2])
def test_messages_go_to_and_fro_between_two_loops(number: int) -> None:
    assert loops.crossing(number, 3000).value > 0.0


def test_two_processes_do_the_work_of_two_loops() -> None:
    assert loops.run("pairs", 0, 2000).value > 0.0


def test_several_loops_are_measured_only_where_they_run_at_once() -> None:
    has_gil: bool = getattr(sys, "_is_gil_enabled", lambda: True)()
    with pytest.raises(Unavailable, match="GIL") if has_gil else nullcontext():
        loops.run("busy", 2, 1000)


@pytest.mark.parametrize("name", ["pairs", "rings"])
def test_little_worlds_go_round_in_erlang(name: str) -> None:
    assert _in_erlang(launch_program_on_all_schedulers, name).value > 0.0


def test_one_loop_with_the_gil_is_measured_by_the_interpreter_that_is_named() -> None:
    [row, *_] = LOOPS
    [program] = [peer for peer in row.peers if peer.name == "one loop, GIL"]
    with pytest.raises(Unavailable, match="--gil-python"):
        program.command(SETTING)
    assert program.command(replace(SETTING, gil_python="other"))[0] == "other"


@pytest.mark.parametrize("kind", other_lives.KINDS)
def test_lives_that_are_not_plain_are_measured_beside_plain_ones(kind: str) -> None:
    assert other_lives.run(kind, 5000).value > 0.0


@pytest.mark.parametrize("name", PYKKA)
def test_a_program_in_pykka_does_all_its_work(name: str) -> None:
    pytest.importorskip("pykka")
    assert PYKKA[name](40 if name in pykka_lives.PROGRAMS else 300).value > 0.0


@pytest.mark.parametrize("name", OURS)
def test_a_program_in_erlang_does_all_its_work(name: str) -> None:
    assert _in_erlang(launch_program, name).parts[measuring.BY_WALL_CLOCK] > 0.0


def test_a_program_in_erlang_runs_on_all_schedulers() -> None:
    assert _in_erlang(launch_program_on_all_schedulers, "bank").value > 0.0


def _in_erlang(launch: Callable[[str, Setting, int], list[str]], name: str) -> Report:
    if not shutil.which("erlc"):
        pytest.skip("Erlang is not on PATH")
    return run_program(Program("Erlang", partial(launch, name), 3000, 3000), SETTING)


def test_every_program_has_a_row_with_one_target_and_runs_under_its_name_everywhere() -> None:
    names = []
    for row in PROGRAMS:
        assert row.ours is not None
        name = row.ours.command(SETTING)[3]
        names.append(name)
        assert name in PYKKA
        bare = ["bare Python"] if name in bare_programs.PROGRAMS else []
        assert [line.target for line in row.comparisons] == [at_least(0.8), None, None] + [None for _ in bare]
        assert [peer.name for peer in row.peers] == ["Erlang", "Erlang, all schedulers", "Pykka", *bare]
        assert all(peer.command(SETTING)[3] == name for peer in row.peers[2:])
    assert names == list(OURS)


@pytest.mark.parametrize("actors", [1, 3, 5, 9, 15, 25, 41, 67])
def test_the_largest_call_takes_no_more_actors_than_there_are(actors: int) -> None:
    number, result, needed = lives.largest_call(actors + 1)
    assert needed == actors
    assert lives.largest_call(actors)[2] == actors
    fibonacci = [0, 1]
    while len(fibonacci) <= number:
        fibonacci.append(fibonacci[-1] + fibonacci[-2])
    assert result == fibonacci[number]


def test_chance_comes_round_to_every_number() -> None:
    seed, seen = 0, set()
    for _ in range(65_536):
        seed = measuring.draw(seed)
        seen.add(seed)
    assert len(seen) == 65_536


# -- programs that did not do their work


def test_a_token_that_is_lost_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    class Leaky(passing.Node):
        def receive(self, hops: int) -> None:
            if hops != 5:
                super().receive(hops)

    monkeypatch.setattr(passing, "Node", Leaky)
    with pytest.raises(RuntimeError, match="place where the token ended: -1 instead of 10"):
        passing.ring(110)


def test_a_message_too_many_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    class Chatty(philosophers.Philosopher):
        def receive(self, message: str) -> None:
            super().receive(message)
            if message is philosophers.START and self.hungry[1] == 0:
                self.arbiter.tell(self.hungry)

    monkeypatch.setattr(philosophers, "Philosopher", Chatty)
    with pytest.raises(RuntimeError, match="instead of"):
        philosophers.run(600)


def test_money_that_vanishes_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    class Embezzler(bank.Account):
        def receive(self, message: bank.Transfer | str) -> int | None:
            if isinstance(message, tuple):
                self.balance -= 1
            return super().receive(message)

    monkeypatch.setattr(bank, "Account", Embezzler)
    with pytest.raises(RuntimeError, match="money in the bank"):
        bank.run(400)


def test_an_entry_that_is_not_written_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    class Forgetful(dictionary.Dictionary):
        def receive(self, message: dictionary.Access | str) -> int | None:
            answer = super().receive(message)
            self.entries.clear()
            return answer

    monkeypatch.setattr(dictionary, "Dictionary", Forgetful)
    with pytest.raises(RuntimeError, match="entries: 0 instead of"):
        dictionary.run(4000)


def test_an_actor_that_does_not_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    class Immortal(lives.Worker):
        def receive(self, number: int) -> Behavior:
            super().receive(number)
            return Behaviors.same

    monkeypatch.setattr(lives, "Worker", Immortal)
    with pytest.raises(RuntimeError, match="actors ended: 0 instead of 20"):
        lives.create(20)


def test_a_tally_waits_for_all_reports() -> None:
    outcome = measuring.Outcome()

    async def play(system: ActorSystem) -> Report:
        tally: ActorRef[int, None] = system.spawn(measuring.Tally, 2, outcome)
        tally.tell(3)
        await system.settle()
        assert outcome.value == -1
        tally.tell(4)
        await system.settle()
        return Report(1.0)

    perform(play)
    assert outcome.value == 7


def test_a_wrong_result_in_pykka_is_refused() -> None:
    pytest.importorskip("pykka")
    finish = Finish()
    with pytest.raises(RuntimeError, match="meals: 2 instead of 3"):
        play(lambda: finish.report(2), finish, "meals", 3, 1)
