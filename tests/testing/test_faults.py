"""Faults that happen to actors: crashes, stops, shutdowns and slow handlers, as declared and as drawn (B1)."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from typing import Any

import pytest

from greenroom import Actor, ActorRef, ActorSystem, Directive, Supervision, SystemConfig
from greenroom.errors import ConfigError, InjectedFault
from greenroom.testing import Simulation, assert_ledger_balanced, faults

STOPS = SystemConfig(supervision=Supervision(Directive.STOP))
RESTARTS = SystemConfig(supervision=Supervision(max_restarts=None))


class Counter(Actor[int, int]):
    """Counts what it has handled in this life, and writes down everything."""

    def __init__(self, log: list[tuple[str, int]]) -> None:
        self.log = log
        self.count = 0

    def receive(self, message: int) -> int:
        self.log.append((self.ctx.name, message))
        self.count += 1
        return self.count


class Other(Counter):
    """The same, of another class."""


def counting(*names: str, messages: int = 10, of: type[Counter] = Counter) -> Callable[[ActorSystem], Any]:
    """Actors of these names, each sent the numbers from 1 on; what was handled."""

    async def program(system: ActorSystem) -> list[tuple[str, int]]:
        log: list[tuple[str, int]] = []
        refs = [system.spawn(of, log, name=name) for name in names]
        for number in range(1, messages + 1):
            for ref in refs:
                ref.tell(number)
        await system.settle()
        return log

    return program


def missing(log: list[tuple[str, int]], name: str, messages: int = 10) -> list[int]:
    """The messages that `name` has not handled."""
    return sorted(set(range(1, messages + 1)) - {number for who, number in log if who == name})


# -- crash


@pytest.mark.parametrize("number", [1, 2, 10])
def test_a_crash_takes_the_place_of_exactly_that_message(number: int) -> None:
    simulation = Simulation(config=RESTARTS, faults=[faults.crash("a", at=number)])
    log = simulation.run(counting("a", "b"))
    assert missing(log, "a") == [number]
    assert missing(log, "b") == []


def test_an_actor_that_never_has_so_many_messages_does_not_crash() -> None:
    log = Simulation(faults=[faults.crash("a", at=11)]).run(counting("a"))
    assert missing(log, "a") == []


def test_a_crash_is_an_injected_fault_that_says_who_and_when() -> None:
    async def program(system: ActorSystem) -> None:
        await system.spawn(Counter, [], name="a").ask(1)

    with pytest.raises(InjectedFault, match=r"/a .*number 1") as raised:
        Simulation(faults=[faults.crash("a", at=1)]).run(program)
    assert raised.value.number == 1


@pytest.mark.parametrize("error", [ValueError, lambda: ValueError("made")])
def test_a_crash_may_have_an_error_of_its_own(error: Any) -> None:
    async def program(system: ActorSystem) -> None:
        await system.spawn(Counter, [], name="a").ask(1)

    with pytest.raises(ValueError):
        Simulation(faults=[faults.crash("a", at=1, error=error)]).run(program)


def test_a_crash_counts_over_restarts_and_happens_once() -> None:
    crashes = [faults.crash("a", at=3), faults.crash("a", at=5)]
    log = Simulation(config=RESTARTS, faults=crashes).run(counting("a"))
    assert missing(log, "a") == [3, 5]


def test_a_crash_of_an_async_handler_is_one_too() -> None:
    async def handle(ctx: Any, message: int) -> int:
        await asyncio.sleep(1)
        return message

    async def program(system: ActorSystem) -> int:
        ref = system.spawn(handle, name="a", supervision=Supervision(Directive.RESUME))
        with pytest.raises(InjectedFault):
            await ref.ask(1)
        answer: int = await ref.ask(2)
        return answer

    assert Simulation(faults=[faults.crash("a", at=1)]).run(program) == 2


def test_a_crash_is_dealt_with_by_the_supervision() -> None:
    log = Simulation(config=STOPS, faults=[faults.crash("a", at=4)]).run(counting("a", "b"))
    assert missing(log, "a") == [4, 5, 6, 7, 8, 9, 10]
    assert missing(log, "b") == []


def test_a_crash_shows_in_the_trace() -> None:
    simulation = Simulation(config=RESTARTS, faults=[faults.crash("a", at=2)])
    simulation.run(counting("a"))
    kinds = [event.kind for event in simulation.trace]
    assert kinds.count("injected") == 1
    assert kinds.index("injected") < kinds.index("failed") < kinds.index("restarted")
    assert "crashes at its message number 2" in str(simulation.trace)


# -- who


@pytest.mark.parametrize(
    ("who", "hit"),
    [
        ("worker-1", {"worker-1"}),
        ("worker-*", {"worker-1", "worker-2"}),
        ("worker-?", {"worker-1", "worker-2"}),
        ("/worker-2", {"worker-2"}),
        ("/w*", {"worker-1", "worker-2"}),
        ("*", {"worker-1", "worker-2", "boss"}),
        ("nobody", set()),
        ("Worker-1", set()),
        (Counter, {"worker-1", "worker-2", "boss"}),
        (Other, set()),
        (Actor, {"worker-1", "worker-2", "boss"}),
    ],
    ids=lambda value: len(value) if isinstance(value, set) else str(value),
)
def test_a_fault_is_for_whom_it_names(who: Any, hit: set[str]) -> None:
    names = ("worker-1", "worker-2", "boss")
    log = Simulation(config=RESTARTS, faults=[faults.crash(who, at=1)]).run(counting(*names))
    assert {name for name in names if missing(log, name)} == hit


def test_a_child_is_named_by_its_path() -> None:
    class Parent(Actor[Any, Any]):
        def pre_start(self) -> None:
            self.child: ActorRef[int, int] = self.ctx.spawn(Counter, [], name="child")

        async def receive(self, message: int) -> int:
            return await self.child.ask(message)

    async def program(system: ActorSystem) -> list[Any]:
        parents = [system.spawn(Parent, name=name) for name in ("ann", "bob")]
        return await asyncio.gather(*(parent.ask(1) for parent in parents), return_exceptions=True)

    found = Simulation(faults=[faults.crash("/bob/child", at=1)]).run(program)
    assert found[0] == 1
    assert isinstance(found[1], InjectedFault)


# -- drawn from the seed


def test_numbers_in_a_pair_are_all_drawn_and_no_others() -> None:
    numbers = set()
    for seed in range(60):
        log = Simulation(seed, config=RESTARTS, faults=[faults.crash("a", at=(3, 6))], keep=0).run(counting("a"))
        (number,) = missing(log, "a")
        numbers.add(number)
    assert numbers == {3, 4, 5, 6}


def test_the_same_seed_draws_the_same_numbers() -> None:
    def drawn(seed: int) -> list[list[int]]:
        crash = faults.crash("*", at=(1, 10), chance=0.5)
        log = Simulation(seed, config=RESTARTS, faults=[crash], keep=0).run(counting(*"abcdef"))
        return [missing(log, name) for name in "abcdef"]

    for seed in range(5):
        assert drawn(seed) == drawn(seed)
    assert len({str(drawn(seed)) for seed in range(10)}) > 5


def test_of_several_actors_each_has_a_number_of_its_own() -> None:
    names = [f"n{number}" for number in range(12)]
    log = Simulation(1, config=RESTARTS, faults=[faults.crash("n*", at=(1, 10))]).run(counting(*names))
    numbers = [missing(log, name) for name in names]
    assert all(len(one) == 1 for one in numbers)
    assert len({one[0] for one in numbers}) > 3


@pytest.mark.parametrize(("chance", "least", "most"), [(0.0, 0, 0), (0.25, 20, 80), (0.75, 120, 180), (1.0, 200, 200)])
def test_chance_is_the_probability_of_each_occasion(chance: float, least: int, most: int) -> None:
    names = [f"n{number}" for number in range(200)]
    crash = faults.crash("n*", at=1, chance=chance)
    log = Simulation(3, config=RESTARTS, faults=[crash], keep=0).run(counting(*names, messages=1))
    assert least <= sum(missing(log, name, 1) == [1] for name in names) <= most


@pytest.mark.parametrize("other", [faults.slow("a"), faults.fill("nobody"), faults.delay(to="nobody")], ids=repr)
def test_one_fault_does_the_same_whether_or_not_another_is_there(other: faults.Fault) -> None:
    crash = faults.crash(at=(1, 10), chance=0.5)
    for seed in range(20):
        alone = Simulation(seed, config=RESTARTS, faults=[crash], keep=0).run(counting(*"abcd"))
        among = Simulation(seed, config=RESTARTS, faults=[crash, other], keep=0).run(counting(*"abcd"))
        assert [missing(alone, name) for name in "abcd"] == [missing(among, name) for name in "abcd"], seed


def test_who_crashes_when_does_not_depend_on_who_comes_first() -> None:
    crash = faults.crash(at=(1, 10), chance=0.5).with_seed(5)
    for seed in range(20):
        log = Simulation(seed, config=RESTARTS, faults=[crash], keep=0).run(counting(*"abcd"))
        in_turn = Simulation(seed, schedule="fifo", config=RESTARTS, faults=[crash], keep=0).run(counting(*"abcd"))
        assert [missing(log, name) for name in "abcd"] == [missing(in_turn, name) for name in "abcd"], seed


def test_a_crash_by_class_happens_beside_other_faults_too() -> None:
    both = [faults.crash(Counter, at=2), faults.fill("nobody")]
    log = Simulation(config=RESTARTS, faults=both).run(counting("a"))
    assert missing(log, "a") == [2]


def test_a_fault_may_bring_its_own_seed() -> None:
    crash = faults.crash("a", at=(1, 10)).with_seed(99)
    logs = {str(Simulation(seed, config=RESTARTS, faults=[crash]).run(counting("a"))) for seed in range(10)}
    assert len(logs) == 1


@pytest.mark.parametrize(
    "fault",
    [
        faults.crash("a", at=(1, 2), chance=0.5),
        faults.stop("a", at=3, kill=True),
        faults.shutdown(at=(1, 9)),
        faults.delay("a", "b", by=(0.0, 2.0)),
        faults.reorder("b"),
        faults.fill("a", at=2, lasting=4.0),
        faults.slow("a", by=2.0, chance=1.0),
        faults.slow(Counter),
        faults.crash(Counter),
    ],
    ids=repr,
)
def test_a_fault_keeps_what_it_was_told_when_it_is_given_a_seed(fault: faults.Fault) -> None:
    seeded = fault.with_seed(7)
    names = [name for name in type(fault).__slots__ if name != "seed"]
    assert [getattr(seeded, name) for name in names] == [getattr(fault, name) for name in names]
    assert (fault.seed, seeded.seed) == (None, 7)
    assert type(seeded) is type(fault)


def test_a_fault_is_shown_as_it_is_written() -> None:
    shown = [
        "crash('w-*', at=(1, 20), chance=0.5)",
        "stop('a', at=3, kill=True)",
        "shutdown(at=9)",
        "delay(to='/bank', by=(0.0, 0.5))",
        "fill('a', at=2, lasting=4.0)",
        "slow('a', by=(0.0, 0.1), chance=0.5)",
    ]
    for text in shown:
        assert repr(eval(f"faults.{text}", {"faults": faults})) == text


# -- arguments


@pytest.mark.parametrize(
    ("fault", "field"),
    [
        (lambda: faults.crash("a", at=0), "at"),
        (lambda: faults.crash("a", at=-1), "at"),
        (lambda: faults.crash("a", at=1.5), "at"),  # type: ignore[arg-type]
        (lambda: faults.crash("a", at=True), "at"),
        (lambda: faults.crash("a", at=(5, 2)), "at"),
        (lambda: faults.crash("a", at=(1, 2, 3)), "at"),  # type: ignore[arg-type]
        (lambda: faults.crash("a", error=3), "error"),  # type: ignore[arg-type]
        (lambda: faults.crash(""), "who"),
        (lambda: faults.crash(3), "who"),  # type: ignore[arg-type]
        (lambda: faults.crash("a", chance=1.1), "chance"),
        (lambda: faults.crash("a", chance=-0.1), "chance"),
        (lambda: faults.crash("a", chance=math.nan), "chance"),
        (lambda: faults.stop("a", at=0), "at"),
        (lambda: faults.shutdown(at=0), "at"),
        (lambda: faults.delay(by=-1.0), "by"),
        (lambda: faults.delay(by=math.inf), "by"),
        (lambda: faults.delay(by=math.nan), "by"),
        (lambda: faults.delay(by=(2.0, 1.0)), "by"),
        (lambda: faults.delay(by="1"), "by"),  # type: ignore[arg-type]
        (lambda: faults.fill("a", lasting=-1.0), "lasting"),
        (lambda: faults.slow("a", by=None), "by"),  # type: ignore[arg-type]
        (lambda: faults.reorder(chance=2), "chance"),
    ],
)
def test_a_bad_argument_is_a_config_error_that_names_it(fault: Callable[[], object], field: str) -> None:
    with pytest.raises(ConfigError) as raised:
        fault()
    assert str(raised.value).startswith(f"{field}=")


# -- slow


def test_a_slow_async_handler_holds_up_itself_alone() -> None:
    async def handle(ctx: Any, message: object) -> float:
        return float(ctx.now())

    async def program(system: ActorSystem) -> list[float]:
        refs = [system.spawn(handle, name=name) for name in ("slow", "quick")]
        answers: list[float] = await asyncio.gather(*(ref.ask(1, timeout=None) for ref in refs))
        return answers

    for seed in range(10):
        assert Simulation(seed, faults=[faults.slow("slow", by=3.0, chance=1.0)]).run(program) == [3.0, 0.0]


def test_a_slow_sync_handler_holds_up_everybody() -> None:
    async def program(system: ActorSystem) -> float:
        await system.spawn(Counter, [], name="slow").ask(1)
        return asyncio.get_running_loop().time()

    assert Simulation(faults=[faults.slow("slow", by=3.0, chance=1.0)]).run(program) == 3.0


def test_how_slow_is_drawn_for_every_message() -> None:
    async def handle(ctx: Any, message: object) -> float:
        return float(ctx.now())

    async def program(system: ActorSystem) -> list[float]:
        ref = system.spawn(handle, name="a")
        moments = [await ref.ask(1) for _ in range(20)]
        return [now - before for before, now in zip([0.0, *moments], moments, strict=False)]

    taken = Simulation(2, faults=[faults.slow("a", by=(1.0, 2.0), chance=1.0)]).run(program)
    assert all(1.0 <= seconds <= 2.0 for seconds in taken)
    assert len(set(taken)) == 20
    some = Simulation(2, faults=[faults.slow("a", by=(1.0, 2.0), chance=0.5)]).run(program)
    assert 3 < some.count(0.0) < 17


def test_an_ask_of_a_slow_actor_may_come_too_late() -> None:
    async def handle(ctx: Any, message: object) -> None:
        pass

    async def program(system: ActorSystem) -> None:
        with pytest.raises(TimeoutError):
            await system.spawn(handle, name="a").ask(1, timeout=2.0)
        await system.settle()

    simulation = Simulation(faults=[faults.slow("a", by=3.0, chance=1.0)])
    simulation.run(program)
    assert simulation.system is not None
    assert assert_ledger_balanced(simulation.system).late_replies == 1
