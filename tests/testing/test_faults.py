"""Faults of actors and of messages happen as declared and as drawn, and every message is accounted for (B1)."""

from __future__ import annotations

import asyncio
import collections
import logging
import math
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import fields
from typing import Any

import pytest

from greenroom import (
    Actor,
    ActorRef,
    ActorSystem,
    Directive,
    Down,
    Lane,
    MailboxConfig,
    MailboxFull,
    Overflow,
    Supervision,
    SystemConfig,
)
from greenroom.errors import ConfigError, GreenroomError, InjectedFault, SystemFailed
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
    names = [field.name for field in fields(fault) if field.name != "seed"]
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


@pytest.fixture(autouse=True)
def silence() -> Iterator[None]:
    """Have nothing logged: hundreds of tracebacks take longer than all the rest."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


class Worker(Actor[int, int]):
    """Works a little, in steps."""

    def receive(self, left: int) -> int:
        if left:
            self.ctx.self.tell(left - 1)
        return left


async def work(system: ActorSystem) -> list[Any]:
    """Three workers; how each ended that has."""
    refs = [system.spawn(Worker, name=name) for name in ("a1", "a2", "b")]
    for ref in refs:
        ref.tell(8)
    await system.settle()
    return [ref.name for ref in refs if ref.is_alive]


@pytest.mark.parametrize("kill", [False, True])
def test_an_actor_is_stopped_at_its_step(kill: bool) -> None:
    simulation = Simulation(1, faults=[faults.stop("b", at=5, kill=kill)])
    assert simulation.run(work) == ["a1", "a2"]
    (event,) = [event for event in simulation.trace if event.kind == "injected"]
    assert (event.step, event.actor) == (5, "/b")
    ended = {event.actor: str(event.what) for event in simulation.trace if event.kind == "stopped"}
    assert ended["/b"] == ("killed" if kill else "normal")


def test_of_several_that_fit_any_is_stopped() -> None:
    living = {str(Simulation(seed, faults=[faults.stop("a?", at=3)]).run(work)) for seed in range(20)}
    assert living == {"['a1', 'b']", "['a2', 'b']"}


def test_the_step_is_drawn_from_the_pair() -> None:
    steps = set()
    for seed in range(60):
        simulation = Simulation(seed, faults=[faults.stop("b", at=(2, 5))])
        simulation.run(work)
        steps |= {event.step for event in simulation.trace if event.kind == "injected"}
    assert steps == {2, 3, 4, 5}


def test_nobody_is_stopped_when_nobody_fits() -> None:
    assert Simulation(faults=[faults.stop("c", at=2)]).run(work) == ["a1", "a2", "b"]


def test_a_stop_that_is_not_drawn_does_not_happen() -> None:
    ended = [len(Simulation(seed, faults=[faults.stop(at=2, chance=0.5)]).run(work)) for seed in range(40)]
    assert 8 < ended.count(2) < 32
    assert ended.count(2) + ended.count(3) == 40


@pytest.mark.parametrize("step", [1, 2, 7])
def test_the_system_is_shut_down_at_its_step(step: int) -> None:
    async def program(system: ActorSystem) -> None:
        for name in "ab":
            system.spawn(Worker, name=name).tell(50)
        await system.stopped()

    simulation = Simulation(faults=[faults.shutdown(at=step)])
    simulation.run(program)
    assert [event.step for event in simulation.trace if event.kind == "injected"] == [step]
    assert simulation.system is not None
    assert simulation.system.phase == "stopped"
    assert_ledger_balanced(simulation.system)


# -- at any step, with everything else


class Store(Actor[Any, Any]):
    """Answers what it is sent, sometimes later."""

    async def pre_start(self) -> None:
        await asyncio.sleep(0.01)

    async def receive(self, message: tuple[str, int]) -> int:
        if message[1] % 4 == 0:
            await asyncio.sleep(0.05)
        return message[1]


class Client(Actor[Any, None]):
    """Sends by every way there is, on a timer."""

    def __init__(self, stores: list[ActorRef[Any, Any]]) -> None:
        self.stores = stores
        self.number = 0

    def pre_start(self) -> None:
        self.ctx.send_every(0.2, self.ctx.self, "tick")
        for store in self.stores:
            self.ctx.watch(store)

    def on_terminated(self, ref: ActorRef[Any, Any], cause: BaseException | None) -> None:
        self.stores = [store for store in self.stores if store != ref]

    async def receive(self, message: str) -> None:
        for store in self.stores:
            self.number += 1
            with suppress(GreenroomError, TimeoutError):
                sent = (self.ctx.name, self.number)
                if self.number % 3 == 0:
                    await store.ask(sent, timeout=0.3)
                elif self.number % 3 == 1:
                    await store.send(sent, timeout=0.3)
                else:
                    store.tell(sent)
        if self.number > 24:
            self.ctx.stop()


def trading(overflow: Overflow) -> Any:
    async def program(system: ActorSystem) -> None:
        mailbox = MailboxConfig(capacity=3, overflow=overflow)
        stores = [system.spawn(Store, name=f"store-{number}", mailbox=mailbox) for number in (1, 2)]
        clients = [system.spawn(Client, stores, name=f"client-{number}") for number in (1, 2, 3)]
        await asyncio.sleep(8)
        for client in clients:
            client.stop()
        await system.settle(timeout=1000)
        ledger = assert_ledger_balanced(system)
        assert ledger.queued == ledger.in_hand == 0
        for ref in (*stores, *clients):
            assert_ledger_balanced(system, ref)

    return program


ALL = [
    faults.crash("store-*", at=(1, 10)),
    faults.crash("client-*", at=(1, 10), chance=0.3),
    faults.delay(by=(0.0, 1.0), chance=0.5),
    faults.reorder(),
    faults.fill("store-*", at=(1, 10), lasting=(0.0, 2.0)),
    faults.slow(),
    faults.stop("client-*", chance=0.3),
    faults.stop("store-*", kill=True, chance=0.3),
    faults.shutdown(at=(1, 300), chance=0.3),
]


@pytest.mark.parametrize("schedule", ["random", "pct", "fifo"])
@pytest.mark.parametrize("overflow", list(Overflow))
def test_no_message_is_lost_whatever_happens(overflow: Overflow, schedule: str) -> None:
    met: collections.Counter[str] = collections.Counter()
    for seed in range(25):
        simulation = Simulation(seed, schedule=schedule, faults=ALL)
        simulation.run(trading(overflow))
        assert simulation.system is not None
        ledger = assert_ledger_balanced(simulation.system)
        assert ledger.queued == ledger.in_hand == 0
        met.update(event.what.split()[1] for event in simulation.trace if event.kind == "injected")
    assert {"crashes", "has", "takes", "is", "system"} <= set(met)  # each of the faults has happened


@pytest.mark.parametrize("fault", [faults.stop, faults.shutdown], ids=["stop", "shutdown"])
def test_an_end_at_any_step_leaves_nothing_behind(fault: Any) -> None:
    for step in range(1, 60, 3):
        simulation = Simulation(step, faults=[fault(at=step), faults.delay(by=(0.0, 0.5))], keep=0)
        simulation.run(trading(Overflow.REJECT))
        assert simulation.system is not None
        assert_ledger_balanced(simulation.system)


def test_a_shutdown_while_messages_are_on_their_way_makes_dead_letters_of_them() -> None:
    async def program(system: ActorSystem) -> None:
        ref = system.spawn(Worker, name="a")
        await ref.started()
        for _ in range(5):
            ref.tell(0)

    simulation = Simulation(faults=[faults.delay(to="a", by=1000.0)])
    simulation.run(program)
    assert simulation.system is not None
    ledger = assert_ledger_balanced(simulation.system)
    assert (ledger.sent, ledger.dead_lettered, ledger.queued) == (5, 5, 0)
    assert simulation.trace.seconds < 1000


def test_asks_that_are_on_their_way_fail_when_their_target_ends() -> None:
    async def program(system: ActorSystem) -> float:
        ref = system.spawn(Worker, name="a")
        await ref.started()
        asked = ref.ask(0, timeout=None)
        ref.stop()
        with pytest.raises(GreenroomError):
            await asked
        return asyncio.get_running_loop().time()

    assert Simulation(faults=[faults.delay(to="a", by=50.0)]).run(program) <= 50.0


def test_a_failure_that_goes_up_to_the_top_ends_the_simulation() -> None:
    async def program(system: ActorSystem) -> None:
        system.spawn(Worker, name="a", supervision=Supervision(Directive.ESCALATE)).tell(5)
        await system.stopped()

    with pytest.raises(SystemFailed):
        Simulation(faults=[faults.crash("a", at=3)]).run(program)


class Sink(Actor[Any, Any]):
    """Writes down what it gets, and when."""

    def __init__(self, log: list[Any]) -> None:
        self.log = log

    def receive(self, message: Any) -> Any:
        self.log.append((self.ctx.now(), message))
        return message


class Source(Actor[int, None]):
    """Sends so many numbers, by every way there is, and stops."""

    def __init__(self, target: ActorRef[Any, Any]) -> None:
        self.target = target

    async def receive(self, many: int) -> None:
        for number in range(many):
            message = (self.ctx.name, number)
            if number % 3 == 0:
                self.target.tell(message)
            elif number % 3 == 1:
                await self.target.send(message)
            else:
                self.target.ask(message, timeout=1000)
        self.ctx.stop()


def pouring(capacity: int = 1000) -> Callable[[ActorSystem], Any]:
    """Three sources, one sink; what that got, and when."""

    async def program(system: ActorSystem) -> list[tuple[float, tuple[str, int]]]:
        log: list[Any] = []
        sink = system.spawn(Sink, log, name="sink", mailbox=MailboxConfig(capacity=capacity))
        await sink.started()
        for name in "abc":
            system.spawn(Source, sink, name=name).tell(8)
        await system.settle(timeout=10_000)
        return log

    return program


def arrivals(*given: faults.Fault, seed: int = 0, capacity: int = 1000, schedule: str = "random") -> list[Any]:
    log: list[Any] = Simulation(seed, schedule=schedule, faults=given).run(pouring(capacity))
    return log


def numbers_of(log: list[Any], name: str) -> list[Any]:
    return [message[1] for _, message in log if message[0] == name]


def turns(log: list[Any]) -> str:
    return "".join(message[0] for _, message in log)


# -- delay


def test_a_message_takes_exactly_as_long_as_it_is_delayed() -> None:
    log = arrivals(faults.delay(to="sink", by=2.5))
    assert {moment for moment, _ in log} == {2.5}
    assert len(log) == 24


def test_a_delay_is_drawn_for_each_message() -> None:
    log = arrivals(faults.delay("a", by=(1.0, 2.0)), seed=3)
    moments = [moment for moment, message in log if message[0] == "a"]
    assert all(1.0 <= moment <= 2.0 for moment in moments)
    assert len(set(moments)) > 1
    assert {moment for moment, message in log if message[0] != "a"} == {0.0}


def test_several_delays_add_up() -> None:
    log = arrivals(faults.delay(by=1.0), faults.delay(to="sink", by=2.0))
    assert {moment for moment, _ in log} == {4.0}  # a second to the source, and three to the sink


def test_only_messages_of_the_named_sender_are_delayed() -> None:
    for who in ("b", "/b", "[b]"):
        log = arrivals(faults.delay(who, "sink", by=3.0))
        assert {message[0] for moment, message in log if moment == 3.0} == {"b"}
        assert {message[0] for moment, message in log if moment == 0.0} == {"a", "c"}


def test_senders_and_targets_can_be_named_by_class() -> None:
    log = arrivals(faults.delay(Source, Sink, by=3.0))
    assert {moment for moment, _ in log} == {3.0}
    assert {moment for moment, _ in arrivals(faults.delay(Sink, by=3.0))} == {0.0}


@pytest.mark.parametrize("fault", [faults.delay(to=Sink, by=3.0), faults.delay(to="sink", by=3.0)], ids=repr)
def test_a_message_to_an_actor_that_has_not_started_is_delayed_as_well(fault: faults.Fault) -> None:
    async def program(system: ActorSystem) -> list[Any]:
        log: list[Any] = []
        system.spawn(Sink, log, name="sink").tell(1)
        await system.settle()
        return log

    assert Simulation(faults=[fault]).run(program) == [(3.0, 1)]


def test_what_the_program_sends_is_from_outside() -> None:
    async def program(system: ActorSystem) -> tuple[list[Any], float]:
        log: list[Any] = []
        sink = system.spawn(Sink, log, name="sink")
        sink.tell(1)
        await sink.ask(2, timeout=None)
        return log, asyncio.get_running_loop().time()

    assert Simulation(faults=[faults.delay("(outside)", by=2.0)]).run(program) == ([(2.0, 1), (2.0, 2)], 2.0)


def test_replies_and_ticks_are_not_delayed() -> None:
    class Ticks(Sink):
        def pre_start(self) -> None:
            self.ctx.send_after(1.0, self.ctx.self, "tick")

    async def program(system: ActorSystem) -> list[Any]:
        log: list[Any] = []
        system.spawn(Ticks, log, name="ticks")
        await asyncio.sleep(1.5)
        return log

    assert Simulation(faults=[faults.delay(by=1.0)]).run(program) == [(1.0, "tick")]


def test_settling_waits_for_what_is_on_its_way() -> None:
    async def program(system: ActorSystem) -> tuple[float, int]:
        log: list[Any] = []
        sink = system.spawn(Sink, log, name="sink")
        await sink.started()
        sink.tell(1)
        await system.settle()
        assert_ledger_balanced(system)
        return asyncio.get_running_loop().time(), len(log)

    assert Simulation(faults=[faults.delay(to="sink", by=7.0)]).run(program) == (7.0, 1)


# -- order


LATE = (faults.delay(to="sink", by=(0.0, 2.0), chance=0.7),)
MIXED = (faults.reorder("sink"),)
BOTH = (*LATE, *MIXED, faults.slow("sink"), faults.fill("sink", at=(1, 10), lasting=(0.0, 1.0)))


@pytest.mark.parametrize("capacity", [1, 3, 1000])
@pytest.mark.parametrize("given", [LATE, MIXED], ids=["delay", "reorder"])
def test_messages_of_a_pair_keep_their_order(given: tuple[faults.Fault, ...], capacity: int) -> None:
    class Patient(Source):
        async def receive(self, many: int) -> None:
            for number in range(many):
                await self.target.send((self.ctx.name, number))

    async def program(system: ActorSystem) -> list[Any]:
        log: list[Any] = []
        sink = system.spawn(Sink, log, name="sink", mailbox=MailboxConfig(capacity=capacity))
        for name in "abc":
            system.spawn(Patient, sink, name=name).tell(8)
        await system.settle(timeout=10_000)
        return log

    for seed in range(15):
        log = Simulation(seed, faults=given, keep=0).run(program)
        assert [numbers_of(log, name) for name in "abc"] == [list(range(8))] * 3


@pytest.mark.parametrize("schedule", ["random", "pct", "fifo"])
def test_tells_sends_and_asks_of_a_pair_keep_their_order(schedule: str) -> None:
    for seed in range(20):
        log = arrivals(*LATE, *MIXED, seed=seed, schedule=schedule)
        assert [numbers_of(log, name) for name in "abc"] == [list(range(8))] * 3


@pytest.mark.parametrize("given", [LATE, MIXED], ids=["delay", "reorder"])
def test_messages_of_different_senders_change_places(given: tuple[faults.Fault, ...]) -> None:
    in_turn = turns(arrivals(schedule="fifo"))
    others = {turns(arrivals(*given, seed=seed, schedule="fifo")) for seed in range(20)}
    assert len(others - {in_turn}) > 10


def test_what_is_reordered_is_hardly_later() -> None:
    for seed in range(10):
        assert max(moment for moment, _ in arrivals(faults.reorder(), seed=seed)) < 0.001


def test_lanes_are_delayed_apart() -> None:
    async def program(system: ActorSystem) -> list[Any]:
        log: list[Any] = []
        sink = system.spawn(Sink, log, name="sink")
        await sink.started()
        for number in range(6):
            sink.tell(("data", number))
            sink.tell(("control", number), lane=Lane.CONTROL)
        await system.settle()
        return log

    for seed in range(10):
        log = Simulation(seed, faults=[faults.delay(by=(0.0, 1.0))]).run(program)
        assert numbers_of(log, "data") == numbers_of(log, "control") == list(range(6))


class Watcher(Sink):
    """Monitors, watches, and has children; writes down every end."""

    def receive(self, message: Any) -> Any:
        if isinstance(message, list):
            for ref in message:
                self.ctx.monitor(ref)
                self.ctx.watch(ref)
        elif isinstance(message, Down):
            self.log.append((self.ctx.now(), (message.ref.name, "down")))
        elif message == "child":
            self.ctx.spawn(Source, self.ctx.self, name="child").tell(3)
        else:
            super().receive(message)

    def on_terminated(self, ref: ActorRef[Any, Any], cause: BaseException | None) -> None:
        self.log.append((self.ctx.now(), (ref.name, "terminated")))

    def on_child_terminated(self, ref: ActorRef[Any, Any], cause: BaseException | None) -> None:
        self.log.append((self.ctx.now(), (ref.name, "gone")))


def test_no_notice_overtakes_a_message_of_the_one_that_died() -> None:
    async def program(system: ActorSystem) -> list[Any]:
        log: list[Any] = []
        watcher = system.spawn(Watcher, log, name="watcher")
        refs = [system.spawn(Source, watcher, name=name) for name in "ab"]
        await watcher.ask(refs)
        for ref in refs:
            ref.tell(3)
        watcher.tell("child")
        await system.settle(timeout=1000)
        return log

    for seed in range(40):
        log = Simulation(seed, faults=[faults.delay(to="watcher", by=(0.0, 3.0), chance=0.6)], keep=0).run(program)
        for name in ("a", "b", "child"):
            heard = numbers_of(log, name)
            assert heard[:3] == [0, 1, 2], (seed, log)
            assert set(heard[3:]) == ({"gone"} if name == "child" else {"down", "terminated"}), (seed, log)


def test_a_stop_after_what_is_queued_waits_for_what_is_on_its_way() -> None:
    async def program(system: ActorSystem) -> list[Any]:
        log: list[Any] = []
        sink = system.spawn(Sink, log, name="sink")
        await sink.started()
        sink.tell(1)
        sink.stop(after_queued=True)
        await sink.terminated()
        return log

    assert Simulation(faults=[faults.delay(to="sink", by=4.0)]).run(program) == [(4.0, 1)]


# -- fill


def filling(overflow: Overflow, *, capacity: int = 5) -> Callable[[ActorSystem], Any]:
    """Four messages at once and four two seconds later; what was handled and what was refused."""

    async def program(system: ActorSystem) -> tuple[list[int], list[Any]]:
        log: list[Any] = []
        refused: list[Any] = []
        mailbox = MailboxConfig(capacity=capacity, overflow=overflow)
        sink = system.spawn(Sink, log, name="sink", mailbox=mailbox)
        for start in (1, 11):
            for number in range(start, start + 4):
                try:
                    sink.tell(number)
                except MailboxFull as full:
                    refused.append(full.message)
            await asyncio.sleep(2)
        assert_ledger_balanced(system)
        return [message for _, message in log], refused

    return program


@pytest.mark.parametrize(
    ("fill", "overflow", "capacity", "handled", "refused"),
    [
        *[
            (faults.fill("sink", at=2), Overflow.REJECT, room, [1, 11, 12, 13, 14], [2, 3, 4])
            for room in (4, 5, 65_536)
        ],
        (faults.fill("sink", at=2), Overflow.DROP_NEW, 5, [1, 11, 12, 13, 14], []),
        (faults.fill("sink", at=2), Overflow.DROP_OLD, 5, [4, 11, 12, 13, 14], []),
        (faults.fill("sink", at=4, lasting=2.5), Overflow.REJECT, 5, [1, 2, 3], [4, 11, 12, 13, 14]),
        # By class, it is full before its actor has started.
        (faults.fill(Sink, at=1), Overflow.REJECT, 5, [11, 12, 13, 14], [1, 2, 3, 4]),
    ],
)
def test_a_full_mailbox_does_what_its_policy_says_and_has_room_afterwards(
    fill: faults.Fault, overflow: Overflow, capacity: int, handled: list[int], refused: list[int]
) -> None:
    assert Simulation(faults=[fill]).run(filling(overflow, capacity=capacity)) == (handled, refused)


def test_when_a_mailbox_is_full_is_drawn_from_the_seed() -> None:
    refused = set()
    for seed in range(40):
        fill = faults.fill("sink", at=(2, 4), lasting=1.0)
        refused.add(tuple(Simulation(seed, faults=[fill]).run(filling(Overflow.REJECT))[1]))
    assert refused == {(2, 3, 4), (3, 4), (4,)}


@pytest.mark.parametrize("tells_first", [True, False])
def test_who_waits_for_room_is_let_in_when_there_is_some_again(tells_first: bool) -> None:
    async def program(system: ActorSystem) -> list[Any]:
        log: list[Any] = []
        sink = system.spawn(Sink, log, name="sink")
        if tells_first:
            with pytest.raises(MailboxFull):
                sink.tell("first")
        await asyncio.gather(*(sink.send(number) for number in range(3)))
        await system.settle()
        return log

    found = Simulation(faults=[faults.fill("sink", at=1, lasting=3.0)]).run(program)
    assert found == [(3.0, 0), (3.0, 1), (3.0, 2)]


def test_an_ask_of_a_full_mailbox_fails_at_once() -> None:
    async def program(system: ActorSystem) -> float:
        with pytest.raises(MailboxFull):
            await system.spawn(Sink, [], name="sink").ask(1)
        return asyncio.get_running_loop().time()

    assert Simulation(faults=[faults.fill("sink", at=1)]).run(program) == 0.0


def test_other_lanes_have_room_while_the_data_lane_is_full() -> None:
    async def program(system: ActorSystem) -> list[Any]:
        log: list[Any] = []
        sink = system.spawn(Sink, log, name="sink")
        with pytest.raises(MailboxFull):
            sink.tell(1)
        sink.tell(2, lane=Lane.CONTROL)
        await system.settle()
        return [message for _, message in log]

    assert Simulation(faults=[faults.fill("sink", at=1)]).run(program) == [2]


def test_what_is_full_and_what_is_late_go_together() -> None:
    for seed in range(20):
        simulation = Simulation(seed, faults=BOTH)
        try:
            log = simulation.run(pouring(4))
        finally:
            assert simulation.system is not None
            assert_ledger_balanced(simulation.system)
        for name in "abc":
            assert numbers_of(log, name) == sorted(numbers_of(log, name))
