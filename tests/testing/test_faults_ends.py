"""Stops, kills and shutdowns at any step, and everything at once: no message is ever unaccounted for (B1)."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

from greenroom import Actor, ActorRef, ActorSystem, Directive, MailboxConfig, Overflow, Supervision
from greenroom.errors import GreenroomError, SystemFailed
from greenroom.testing import Simulation, assert_ledger_balanced, faults


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
    met: Counter[str] = Counter()
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
