"""A program in a simulation: the same from the same seed, and another from another (B1)."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from greenroom import Actor, ActorRef, ActorSystem, Directive, MailboxConfig, Supervision, SystemConfig
from greenroom.testing import Simulation, faults

every_schedule = pytest.mark.parametrize("schedule", ["random", "pct", "fifo"])


class Walker(Actor[int, None]):
    """Takes so many steps, and writes each of them down."""

    def __init__(self, log: list[tuple[str, int]]) -> None:
        self.log = log

    def receive(self, left: int) -> None:
        self.log.append((self.ctx.name, left))
        if left:
            self.ctx.self.tell(left - 1)


async def walk(system: ActorSystem) -> list[tuple[str, int]]:
    """Four walkers at once; the order of their steps."""
    log: list[tuple[str, int]] = []
    for name in "abcd":
        system.spawn(Walker, log, name=name).tell(5)
    await system.settle()
    return log


def digest(program: Callable[[ActorSystem], Coroutine[Any, Any, Any]], seed: int = 0, **settings: Any) -> str:
    simulation = Simulation(seed, **settings)
    simulation.run(program)
    return simulation.trace.digest


# -- the same again


@every_schedule
def test_the_same_seed_gives_the_same_digest(schedule: str) -> None:
    for seed in range(20):
        assert digest(walk, seed, schedule=schedule) == digest(walk, seed, schedule=schedule)


@every_schedule
def test_the_same_seed_gives_the_same_text(schedule: str) -> None:
    first, again = Simulation(3, schedule=schedule), Simulation(3, schedule=schedule)
    first.run(walk)
    again.run(walk)
    assert str(first.trace) == str(again.trace)
    assert first.trace.mermaid() == again.trace.mermaid()
    assert str(first.trace) != ""


@every_schedule
def test_one_simulation_can_run_again(schedule: str) -> None:
    simulation = Simulation(5, schedule=schedule, faults=[faults.crash("b", at=(1, 6)), faults.delay(by=(0.0, 1.0))])
    first = simulation.run(walk), simulation.trace.digest, simulation.trace.seconds
    assert (simulation.run(walk), simulation.trace.digest, simulation.trace.seconds) == first


@pytest.mark.parametrize("schedule", ["random", "pct"])
def test_other_seeds_give_other_orders(schedule: str) -> None:
    orders = {tuple(Simulation(seed, schedule=schedule).run(walk)) for seed in range(30)}
    assert len(orders) >= 15


def test_first_come_first_served_is_the_same_at_every_seed() -> None:
    assert len({digest(walk, seed, schedule="fifo") for seed in range(10)}) == 1


def test_an_order_that_differs_shows_in_the_digest() -> None:
    by_order: dict[tuple[tuple[str, int], ...], set[str]] = {}
    for seed in range(40):
        simulation = Simulation(seed)
        by_order.setdefault(tuple(simulation.run(walk)), set()).add(simulation.trace.digest)
    digests = [one for found in by_order.values() for one in found]
    assert len(digests) == len(set(digests))


def test_a_message_that_differs_shows_in_the_digest() -> None:
    def sending(message: Any) -> Callable[[ActorSystem], Coroutine[Any, Any, None]]:
        async def program(system: ActorSystem) -> None:
            system.spawn(lambda ctx, message: None, name="a").tell(message)
            await system.settle()

        return program

    messages = [0, 1, -7, 0.5, "a", "b", ("a", 1), ("a", 2), None, b"x", True]
    assert len({digest(sending(message)) for message in messages}) >= len(messages) - 1  # True is 1


@pytest.mark.parametrize(
    "message",
    [math.nan, math.inf, -math.inf, (math.nan, 1), "nan", 10**40, object(), {"a": object()}, [1], {"x", "y"}, None],
    ids=lambda message: type(message).__name__,
)
def test_any_message_leaves_the_digest_repeatable(message: object) -> None:
    made = type(message)

    async def program(system: ActorSystem) -> None:
        # Made afresh, as a program does: nothing may depend on where it lies in memory.
        fresh = float(str(message)) if isinstance(message, float) else message
        fresh = (float("nan"), 1) if made is tuple else object() if made is object else fresh
        keep.append(fresh)
        system.spawn(lambda ctx, message: message, name="a").tell(fresh)
        await system.settle()

    keep: list[object] = []
    assert len({digest(program) for _ in range(4)}) == 1


def test_the_seeds_of_everything_random_come_from_the_seed() -> None:
    async def program(system: ActorSystem) -> tuple[float, ...]:
        return system.random.random(), random.random(), random.Random().random(), random.SystemRandom().random()

    first = Simulation(1).run(program)
    assert Simulation(1).run(program) == first
    assert not set(Simulation(2).run(program)) & set(first)
    assert len(set(first)) == 4


def test_a_system_with_a_seed_of_its_own_keeps_it() -> None:
    async def program(system: ActorSystem) -> float:
        return system.random.random()

    config = SystemConfig(seed=42)
    assert Simulation(1, config=config).run(program) == random.Random(42).random()


def test_any_whole_number_is_a_seed_and_each_another() -> None:
    seeds = [0, 1, -1, 2**63, -(2**63), 2**64 - 1, 2**64, 2**64 + 1, -(2**64), 10**40, -(10**40)]

    async def program(system: ActorSystem) -> float:
        return system.random.random()

    assert len({Simulation(seed).run(program) for seed in seeds}) == len(seeds)


def test_a_script_is_a_schedule_too() -> None:
    simulation = Simulation(4)
    simulation.write_choices()
    order = simulation.run(walk)
    again = Simulation(0, schedule=simulation.choices)
    assert again.run(walk) == order
    assert Simulation(0, schedule={}).run(walk) == Simulation(0, schedule="fifo").run(walk)


# -- order


class Sink(Actor[Any, Any]):
    """Writes down what it gets."""

    def __init__(self, log: list[Any]) -> None:
        self.log = log

    def receive(self, message: Any) -> Any:
        self.log.append(message)
        return message


class Source(Actor[int, None]):
    """Sends numbers, by every way there is."""

    def __init__(self, target: ActorRef[Any, Any]) -> None:
        self.target = target
        self.number = 0

    async def receive(self, left: int) -> None:
        for way in (0, 1, 2):
            self.number += 1
            message = (self.ctx.name, self.number)
            if way == 0:
                self.target.tell(message)
            elif way == 1:
                await self.target.send(message)
            else:
                await self.target.ask(message)
        if left:
            self.ctx.self.tell(left - 1)


async def pour(system: ActorSystem) -> list[tuple[str, int]]:
    log: list[tuple[str, int]] = []
    sink = system.spawn(Sink, log, name="sink", mailbox=MailboxConfig(capacity=2))
    for name in "abc":
        system.spawn(Source, sink, name=name, supervision=Supervision(Directive.RESUME)).tell(3)
    await system.settle()
    return log


@every_schedule
def test_messages_of_a_pair_come_in_order_at_every_seed(schedule: str) -> None:
    orders = set()
    for seed in range(40):
        log = Simulation(seed, schedule=schedule, keep=0).run(pour)
        for name in "abc":
            mine = [number for sender, number in log if sender == name]
            assert mine == sorted(mine), seed
        orders.add(tuple(log))
    assert len(orders) > 1 or schedule == "fifo"


# -- the trace


def test_keep_bounds_the_trace_but_not_the_digest() -> None:
    whole, some, none = Simulation(1), Simulation(1, keep=10), Simulation(1, keep=0)
    for simulation in (whole, some, none):
        simulation.run(walk)
    assert len(whole.trace) > 20
    assert 10 <= len(some.trace) <= 20
    assert list(map(str, some.trace)) == list(map(str, whole.trace))[-len(some.trace) :]
    assert list(none.trace) == []
    assert whole.trace.digest == some.trace.digest == none.trace.digest
    assert whole.trace.steps == none.trace.steps
