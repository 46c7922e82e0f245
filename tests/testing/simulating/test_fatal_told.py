"""A failed `assert` of an actor fails the run unless somebody was told, who has to deal with it then (B1)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from greenroom import Actor, ActorRef, ActorSystem, ActorTerminated, AskTimeout, Directive, Supervision
from greenroom.errors import SystemFailed
from greenroom.testing import Simulation, assert_ended

SEED = 7
BROKEN = "it is broken"
STOPS = Supervision(Directive.STOP)


class Breaks(Actor[str, None]):
    """Breaks, in several ways."""

    shared: AssertionError | None = None

    def receive(self, message: str) -> Any:
        return getattr(self, message)()

    def at_once(self) -> None:
        raise AssertionError(BROKEN)

    async def late(self) -> None:
        await asyncio.sleep(1)
        raise AssertionError(BROKEN)

    def twice(self) -> None:
        error = AssertionError(BROKEN)
        self.ctx.fail_reply(error)
        raise error

    def deferred(self) -> None:
        self.ctx.defer_reply()
        raise AssertionError(BROKEN)

    def again(self) -> None:
        """Lets the same out each time, as one does who awaits what has failed."""
        Breaks.shared = Breaks.shared or AssertionError(BROKEN)
        raise Breaks.shared


class BreaksAtStart(Breaks):
    def pre_start(self) -> None:
        raise AssertionError(BROKEN)


class Asks(Actor[str, str]):
    """Asks another, and lets out what comes of it, or not."""

    def __init__(self, other: ActorRef[str, None], *, minds: bool) -> None:
        self.other = other
        self.minds = minds

    async def receive(self, message: str) -> str:
        try:
            await self.other.ask(message)
        except AssertionError:
            if self.minds:
                raise
        return "dealt with"


def passes(program: Any, **settings: Any) -> bool:
    """Whether the run passes, or is said to be broken."""
    try:
        Simulation(SEED, **settings).run(program)
    except AssertionError as exc:
        if str(exc) != BROKEN:
            raise
        return False
    return True


# -- told


@pytest.mark.parametrize("how", ["at_once", "late", "twice"])
def test_an_asker_is_told(how: str) -> None:
    async def program(system: ActorSystem) -> None:
        with pytest.raises(AssertionError, match=BROKEN):
            await system.spawn(Breaks).ask(how)

    assert passes(program)


def test_an_asker_that_awaits_it_later_is_told() -> None:
    async def program(system: ActorSystem) -> None:
        asked = system.spawn(Breaks).ask("at_once")
        await system.settle()
        with pytest.raises(AssertionError, match=BROKEN):
            await asked

    assert passes(program)


def test_of_many_askers_each_is_told() -> None:
    async def program(system: ActorSystem) -> None:
        asks = [system.spawn(Breaks).ask("at_once") for _ in range(100)]
        assert len(await asyncio.gather(*asks, return_exceptions=True)) == 100

    assert passes(program)


def test_an_asker_is_told_by_an_exception_that_comes_of_it() -> None:
    async def program(system: ActorSystem) -> None:
        with pytest.raises(ActorTerminated) as caught:
            await system.spawn(Breaks, supervision=STOPS).ask("deferred")
        assert isinstance(caught.value.__cause__, AssertionError)

    assert passes(program)


def test_who_awaits_the_start_is_told() -> None:
    async def program(system: ActorSystem) -> None:
        with pytest.raises(AssertionError, match=BROKEN):
            await system.spawn(BreaksAtStart, supervision=STOPS).started()

    assert passes(program)


def test_who_expects_such_an_end_is_told() -> None:
    async def program(system: ActorSystem) -> None:
        ref = system.spawn(Breaks, supervision=STOPS)
        ref.tell("at_once")
        await assert_ended(ref, AssertionError)

    assert passes(program)


def test_who_ran_the_system_that_it_ended_is_told() -> None:
    async def fail() -> None:
        async with ActorSystem() as system:
            system.spawn(Breaks, supervision=Supervision(Directive.ESCALATE)).tell("at_once")
            await asyncio.sleep(1)

    async def main() -> None:
        with pytest.raises(SystemFailed):
            await fail()

    Simulation(SEED).run_main(main)


@pytest.mark.parametrize("minds", [False, True])
def test_an_actor_that_is_told_deals_with_it_or_lets_it_out_in_its_turn(minds: bool) -> None:
    async def program(system: ActorSystem) -> None:
        system.spawn(Asks, system.spawn(Breaks), minds=minds).tell("at_once")
        await asyncio.sleep(1)

    assert passes(program) is not minds


# -- not told


def test_an_asker_that_has_given_up_is_not() -> None:
    async def program(system: ActorSystem) -> None:
        with pytest.raises(AskTimeout):
            await system.spawn(Breaks).ask("late", timeout=0.5)
        await asyncio.sleep(2)

    assert not passes(program)


def test_an_asker_that_never_awaits_it_is_not() -> None:
    async def program(system: ActorSystem) -> None:
        system.spawn(Breaks).ask("at_once")
        await asyncio.sleep(1)

    assert not passes(program)


def test_an_asker_that_is_cancelled_before_it_can_hear_of_it_is_not() -> None:
    async def program(system: ActorSystem) -> None:
        asked = system.spawn(Breaks).ask("at_once")

        async def ask() -> None:
            await asked

        asking = asyncio.create_task(ask())
        while not asked.done():  # noqa: ASYNC110 - to the very turn
            await asyncio.sleep(0)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking

    assert not passes(program, schedule="fifo")


def test_who_awaits_the_end_is_not_for_that_is_what_one_awaits() -> None:
    async def program(system: ActorSystem) -> None:
        ref = system.spawn(Breaks, supervision=STOPS)
        ref.tell("at_once")
        await ref.terminated()

    assert not passes(program)


@pytest.mark.parametrize("then", ["tell", "ask"])
def test_telling_of_one_is_not_telling_of_another_though_it_is_the_same_exception(then: str) -> None:
    Breaks.shared = None

    async def program(system: ActorSystem) -> None:
        ref = system.spawn(Breaks, supervision=Supervision(Directive.RESUME))
        if then == "ask":
            ref.tell("again")
        with pytest.raises(AssertionError, match=BROKEN):
            await ref.ask("again")
        if then == "tell":
            ref.tell("again")
        await system.settle()

    assert not passes(program)
