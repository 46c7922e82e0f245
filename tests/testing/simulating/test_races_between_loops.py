"""Races between the loops of one system: `explore` finds them, and the seed repeats them, in both builds (B1)."""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

from greenroom import Actor, ActorRef, ActorSystem, Backoff, MailboxConfig, Overflow, Supervision, SystemConfig
from greenroom.errors import GreenroomError
from greenroom.testing import Simulation, assert_ledger_balanced, explore, faults
from tests.testing.simulating.test_identical_traces import FAULTS, Shop, Stock

THREE = SystemConfig(loops=3)
SEEDS = 60

EXPECTED = "148b9a44363f90a0446792bdd9336457a8b3c977ce843b0ae677b2e507f58d5d"
"""What the traces of these seeds come to. To be written anew when what actors do in a simulation changes."""


@pytest.fixture(autouse=True)
def silence() -> Iterator[None]:
    """Have nothing logged: most of what fails here is meant to."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


# A race that needs two loops


class Worker(Actor[int, None]):
    """Believes that nothing is handled once `kill()` has returned."""

    def __init__(self, killed: list[Any]) -> None:
        self.killed = killed

    def receive(self, message: int) -> None:
        assert not self.killed, "handled a message after it was killed"


class Killer(Actor[ActorRef, None]):
    def __init__(self, killed: list[Any]) -> None:
        self.killed = killed

    def receive(self, message: ActorRef) -> None:
        message.kill()
        self.killed.append(message)


async def kill_a_worker(system: ActorSystem) -> None:
    """On one loop, an order acts before any further message. On another, it has to get there first."""
    killed: list[Any] = []
    killer = system.spawn(Killer, killed, dispatcher="spread")
    worker = system.spawn(Worker, killed, dispatcher="spread", name="worker")
    for number in range(3):
        worker.tell(number)
    killer.tell(worker)
    await worker.terminated()


def test_a_race_between_two_loops_is_found_and_its_seed_repeats_it() -> None:
    report = explore(kill_a_worker, runs=300, config=THREE, workers=0, output=None)
    assert report.failure is not None
    assert "handled a message after it was killed" in str(report.failure.error)
    again = Simulation(report.failure.seed, config=THREE)
    with pytest.raises(AssertionError, match="after it was killed"):
        again.run(kill_a_worker)
    assert again.trace.digest == report.failure.trace.digest


def test_the_schedule_of_a_race_is_shrunk_to_few_steps_that_name_the_loops() -> None:
    report = explore(kill_a_worker, runs=300, config=THREE, workers=0, output=None)
    assert report.failure is not None
    shortest = report.failure.shortest
    assert shortest.simplified
    assert 0 < len(shortest.script) <= 8
    assert "what came from other loops waits, and is taken in later" in shortest.explain()
    assert "loop" in shortest.explain()
    replayed = Simulation(report.failure.seed, schedule=shortest.script, config=THREE)
    with pytest.raises(AssertionError, match="after it was killed"):
        replayed.run(kill_a_worker)


def test_the_same_race_never_shows_on_one_loop_nor_when_each_loop_runs_in_its_turn() -> None:
    for schedule in ("random", "pct", "fifo"):
        one_loop = explore(kill_a_worker, runs=200, schedule=schedule, workers=0, output=None)
        assert one_loop.failure is None
    in_turn = explore(kill_a_worker, runs=20, schedule="fifo", config=THREE, workers=0, output=None)
    assert in_turn.failure is None


# A race that one loop has as well


class Account(Actor[Any, int]):
    def __init__(self) -> None:
        self.balance = 0

    def receive(self, message: int | None) -> int:
        if message is not None:
            self.balance = message
        return self.balance


class Payer(Actor[ActorRef, None]):
    """Reads the balance, and writes it back with one more: another may do the same between the two."""

    async def receive(self, message: ActorRef) -> None:
        balance = await message.ask(None)
        message.tell(balance + 1)


async def pay_twice(system: ActorSystem) -> int:
    account = system.spawn(Account, dispatcher="spread")
    first, second = (system.spawn(Payer, dispatcher="spread") for _ in range(2))
    first.tell(account)
    await asyncio.sleep(0)
    second.tell(account)
    await system.settle()
    result: int = await account.ask(None)
    return result


@pytest.mark.parametrize("schedule", ["random", "pct"])
def test_an_update_that_is_lost_between_three_loops_is_found(schedule: str) -> None:
    report = explore(
        pay_twice, runs=200, check=lambda left: left == 2, schedule=schedule, config=THREE, workers=0, output=None
    )
    assert report.failure is not None
    assert Simulation(report.failure.seed, schedule=schedule, config=THREE).run(pay_twice) == 1


# The same trace everywhere


async def program(system: ActorSystem) -> int:
    """Four shops and two stocks for five seconds, on three loops."""
    supervision = Supervision(max_restarts=None, backoff=Backoff(min=0.0625, max=0.5, jitter=0.25))
    small = MailboxConfig(capacity=1, overflow=Overflow.DROP_OLD)
    stocks = [
        system.spawn(Stock, name="stock-1", supervision=supervision, dispatcher="spread"),
        system.spawn(Stock, name="stock-2", supervision=supervision, mailbox=small, dispatcher="spread"),
    ]
    for number in range(4):
        system.spawn(Shop, stocks[number % 2], name=f"shop-{number}", dispatcher="spread")
    await asyncio.sleep(5)
    return len(system.actors())


def of_all_seeds() -> str:
    """One digest of all traces: what happened, the texts that say so, and when it ended."""
    whole = hashlib.sha256()
    for seed in range(SEEDS):
        schedule = ("random", "pct", "fifo")[seed % 3]
        simulation = Simulation(seed, schedule=schedule, faults=FAULTS, config=THREE)
        left = simulation.run(program)
        assert simulation.system is not None
        assert_ledger_balanced(simulation.system)
        trace = simulation.trace
        whole.update(f"{seed} {left} {trace.digest} {trace.steps} {trace.seconds!r}\n".encode())
        whole.update(str(trace).encode())
    return whole.hexdigest()


def test_all_seeds_come_to_the_same_everywhere() -> None:
    assert of_all_seeds() == EXPECTED


def test_a_recorded_schedule_is_the_same_run_again() -> None:
    for seed in range(12):
        simulation = Simulation(seed, faults=FAULTS, config=THREE)
        simulation.write_choices()
        simulation.run(program)
        again = Simulation(seed, schedule=simulation.choices, faults=FAULTS, config=THREE)
        again.run(program)
        assert again.trace.digest == simulation.trace.digest


# Faults between loops


class Echo(Actor[Any, Any]):
    def __init__(self, log: list[Any]) -> None:
        self.log = log

    def receive(self, message: Any) -> Any:
        self.log.append((message, self.ctx.now()))
        return message


class Sender(Actor[ActorRef, None]):
    async def receive(self, message: ActorRef) -> None:
        for number in range(6):
            with suppress(GreenroomError):
                message.tell(number)
            await asyncio.sleep(0.5)


def run_with(*declared: Any, seeds: int = 20) -> list[list[Any]]:
    """What an actor heard from one on another loop, and when, for each of some seeds."""
    heard = []
    for seed in range(seeds):
        log: list[Any] = []

        async def main(system: ActorSystem, log: list[Any] = log) -> None:
            system.spawn(Sender, dispatcher="spread", name="sender").tell(
                system.spawn(Echo, log, dispatcher="spread", name="echo")
            )
            await asyncio.sleep(60)

        simulation = Simulation(seed, faults=declared, config=THREE)
        simulation.run(main)
        assert simulation.system is not None
        assert_ledger_balanced(simulation.system)
        heard.append(log)
    return heard


def test_what_goes_between_loops_can_be_delayed_and_stays_in_order() -> None:
    plain = [(number, number * 0.5) for number in range(6)]
    for log in run_with(faults.delay("sender", "echo", by=(0.1, 2.0), chance=1.0)):
        assert [number for number, _ in log] == list(range(6))
        assert all(late > moment for (_, late), (_, moment) in zip(log, plain, strict=True))


class Patient(Actor[ActorRef, None]):
    async def receive(self, message: ActorRef) -> None:
        for number in range(8):
            await message.send((self.ctx.name, number))


def test_settle_waits_for_what_another_loop_sent_and_is_still_on_its_way() -> None:
    for seed in range(20):
        log: list[Any] = []

        async def main(system: ActorSystem, log: list[Any] = log) -> None:
            echo = system.spawn(Echo, log, dispatcher="spread", name="echo", mailbox=MailboxConfig(capacity=1))
            for name in "abc":
                system.spawn(Patient, name=name, dispatcher="spread").tell(echo)
            await system.settle(timeout=10_000)
            assert len(log) == 24

        Simulation(seed, faults=[faults.delay(to="echo", by=(0.0, 2.0), chance=0.7)], config=THREE).run(main)
        for name in "abc":
            assert [number for (sender, number), _ in log if sender == name] == list(range(8))


def test_a_fault_takes_place_at_its_step_whatever_that_decides() -> None:
    steps = set()
    for seed in range(40):
        simulation = Simulation(seed, faults=[faults.stop("worker", at=(2, 8))], config=THREE)
        simulation.run(have_one_work)
        steps |= {event.step for event in simulation.trace if event.kind == "injected"}
    assert steps == set(range(2, 9))


async def have_one_work(system: ActorSystem) -> None:
    for number in range(3):
        system.spawn(Patient, name=f"other-{number}", dispatcher="spread")
    worker = system.spawn(Worker, [], dispatcher="spread", name="worker")
    for number in range(8):
        worker.tell(number)
        await asyncio.sleep(0)
    await asyncio.sleep(1)


def test_an_actor_of_another_loop_can_be_crashed_stopped_and_killed() -> None:
    for log in run_with(faults.crash("echo", at=3)):
        assert [number for number, _ in log] == [0, 1, 3, 4, 5]
    for kill in (False, True):
        logs = run_with(faults.stop("echo", at=(1, 40), kill=kill))
        assert any(len(log) < 6 for log in logs)


def test_a_mailbox_of_another_loop_can_be_filled() -> None:
    for log in run_with(faults.fill("echo", at=2, lasting=1.2)):
        assert [number for number, _ in log] == [0, 4, 5]


def test_a_system_of_several_loops_can_be_shut_down_by_a_fault() -> None:
    assert any(len(log) < 6 for log in run_with(faults.shutdown(at=(5, 60))))
