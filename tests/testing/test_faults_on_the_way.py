"""Faults that happen to messages: they are late, they come in another order, there is no room for them (B1)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from greenroom import Actor, ActorRef, ActorSystem, Down, Lane, MailboxConfig, MailboxFull, Overflow
from greenroom.testing import Simulation, assert_ledger_balanced, faults


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


@pytest.mark.parametrize("capacity", [4, 5, 65_536])
def test_a_full_mailbox_refuses_and_has_room_afterwards(capacity: int) -> None:
    found = Simulation(faults=[faults.fill("sink", at=2)]).run(filling(Overflow.REJECT, capacity=capacity))
    assert found == ([1, 11, 12, 13, 14], [2, 3, 4])


def test_a_full_mailbox_drops_what_is_new() -> None:
    found = Simulation(faults=[faults.fill("sink", at=2)]).run(filling(Overflow.DROP_NEW))
    assert found == ([1, 11, 12, 13, 14], [])


def test_a_full_mailbox_drops_what_is_old() -> None:
    found = Simulation(faults=[faults.fill("sink", at=2)]).run(filling(Overflow.DROP_OLD))
    assert found == ([4, 11, 12, 13, 14], [])


def test_a_mailbox_is_full_as_long_as_it_is_said() -> None:
    found = Simulation(faults=[faults.fill("sink", at=4, lasting=2.5)]).run(filling(Overflow.REJECT))
    assert found == ([1, 2, 3], [4, 11, 12, 13, 14])


def test_when_a_mailbox_is_full_is_drawn_from_the_seed() -> None:
    refused = set()
    for seed in range(40):
        fill = faults.fill("sink", at=(2, 4), lasting=1.0)
        refused.add(tuple(Simulation(seed, faults=[fill]).run(filling(Overflow.REJECT))[1]))
    assert refused == {(2, 3, 4), (3, 4), (4,)}


def test_a_mailbox_can_be_full_by_class_before_its_actor_has_started() -> None:
    found = Simulation(faults=[faults.fill(Sink, at=1)]).run(filling(Overflow.REJECT))
    assert found == ([11, 12, 13, 14], [1, 2, 3, 4])


def waiting(first: bool) -> Callable[[ActorSystem], Any]:
    async def program(system: ActorSystem) -> list[Any]:
        log: list[Any] = []
        sink = system.spawn(Sink, log, name="sink")
        if first:
            with pytest.raises(MailboxFull):
                sink.tell("first")
        await asyncio.gather(*(sink.send(number) for number in range(3)))
        await system.settle()
        return log

    return program


def test_who_waits_for_room_is_let_in_when_there_is_some_again() -> None:
    found = Simulation(faults=[faults.fill("sink", at=1, lasting=3.0)]).run(waiting(first=True))
    assert found == [(3.0, 0), (3.0, 1), (3.0, 2)]


def test_a_send_that_finds_a_mailbox_full_waits_even_if_it_is_the_first() -> None:
    found = Simulation(faults=[faults.fill("sink", at=1, lasting=3.0)]).run(waiting(first=False))
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
