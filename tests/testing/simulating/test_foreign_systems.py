"""A simulation has its own systems, and no others: what a real one does is not the same next time (B1)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest

from greenroom import Actor, ActorRef, ActorSystem, Context
from greenroom.errors import SimulationRefused
from greenroom.testing import ActorHarness, Simulation, assert_ledger_balanced

Ref = ActorRef[Any, Any]


class Echo(Actor[Any, Any]):
    def receive(self, message: Any) -> Any:
        return message


async def tell(ref: Ref) -> None:
    ref.tell("hello")


async def tell_by_operator(ref: Ref) -> None:
    ref << "hello"


async def send(ref: Ref) -> None:
    await ref.send("hello")


async def ask(ref: Ref) -> None:
    await ref.ask("hello", timeout=1.0)


async def ask_without_waiting(ref: Ref) -> None:
    ref.ask("hello")


async def stop(ref: Ref) -> None:
    ref.stop()


async def kill(ref: Ref) -> None:
    ref.kill()


async def fail(ref: Ref) -> None:
    ref.fail(ValueError("bad"))


async def await_start(ref: Ref) -> None:
    await ref.started()


async def await_end(ref: Ref) -> None:
    await ref.terminated()


async def inspect(ref: Ref) -> None:
    await ref.inspect()


WAYS = [tell, tell_by_operator, send, ask, ask_without_waiting, stop, kill, fail, await_start, await_end, inspect]
every_way = pytest.mark.parametrize("reach", WAYS)
Reach = Callable[[Ref], Awaitable[None]]


@pytest.fixture
def other() -> Iterator[ActorSystem]:
    """A system on a thread of its own, which must not notice anything."""
    with ActorSystem("other") as system:
        yield system
    assert_ledger_balanced(system)


def reaching(reach: Reach, ref: Ref) -> Callable[[ActorSystem], Any]:
    async def by_an_actor(ctx: Context, message: Any) -> None:
        with pytest.raises(SimulationRefused, match="of other"):
            await reach(ref)

    async def program(system: ActorSystem) -> None:
        with pytest.raises(SimulationRefused, match=r"/echo of other.*is real.*harness\.inbox\(\)"):
            await reach(ref)
        await system.spawn(by_an_actor).ask("go")

    return program


@every_way
def test_whoever_reaches_for_a_real_system_is_refused(
    other: ActorSystem, reach: Reach, caplog: pytest.LogCaptureFixture
) -> None:
    echo = other.spawn(Echo, name="echo")
    with caplog.at_level(logging.WARNING):
        Simulation().run(reaching(reach, echo))
        assert echo.ask_sync("still there?") == "still there?"
    assert caplog.records == []
    assert other.ledger().sent == 1


@every_way
def test_so_is_who_reaches_for_one_on_the_same_thread(reach: Reach) -> None:
    async def main() -> None:
        async with ActorSystem("other") as other:
            echo = other.spawn(Echo, name="echo")
            Simulation().run(reaching(reach, echo))
            assert await echo.ask("still there?") == "still there?"
            assert other.ledger().sent == 1

    asyncio.run(main())


def test_nothing_is_spawned_in_a_real_system_either(other: ActorSystem) -> None:
    async def program(system: ActorSystem) -> None:
        with pytest.raises(SimulationRefused, match="another system"):
            other.spawn(Echo)
        with pytest.raises(SimulationRefused, match="another system"):
            other.snapshot()

    Simulation().run(program)
    assert other.snapshot().actors == ()


def test_a_message_is_not_forwarded_to_a_real_system(other: ActorSystem) -> None:
    echo = other.spawn(Echo, name="echo")

    def forward(ctx: Context, message: Any) -> None:
        with pytest.raises(SimulationRefused):
            ctx.forward(echo)
        seen.append(message)

    async def program(system: ActorSystem) -> None:
        system.spawn(forward).tell("told")
        await system.settle()

    seen: list[Any] = []
    Simulation().run(program)
    assert seen == ["told"]
    assert other.ledger().sent == 0


@pytest.mark.parametrize("reach", [tell, ask])
def test_an_actor_under_test_is_refused_too(other: ActorSystem, reach: Reach, caplog: pytest.LogCaptureFixture) -> None:
    echo = other.spawn(Echo, name="echo")

    async def reacher(ctx: Context, message: Any) -> None:
        await reach(echo)

    with ActorHarness(reacher) as harness, pytest.raises(SimulationRefused, match=r"harness\.inbox\(\)"):
        harness.ask("go")
    assert harness.sent == []
    assert [record.name for record in caplog.records if record.name != "greenroom"] == []
    assert echo.ask_sync("still there?") == "still there?"


def test_between_two_calls_of_a_harness_a_test_talks_to_whom_it_likes(other: ActorSystem) -> None:
    echo = other.spawn(Echo)
    with ActorHarness(Echo) as harness:
        harness.tell(1)
        assert echo.ask_sync(2) == 2
        assert harness.ask(3) == 3


def test_two_simulations_of_one_thread_may_talk() -> None:
    with Simulation().open() as here, Simulation().open() as there:
        echo = there.system.spawn(Echo)

        async def tell_there() -> None:
            echo.tell("hello")

        here.run(tell_there)
        there.settle()
        assert there.system.ledger(echo).handled == 1
