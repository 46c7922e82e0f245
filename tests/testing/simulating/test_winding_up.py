"""What a simulation does with tasks that are left at its end, and will not end (B1)."""

from __future__ import annotations

import asyncio
import gc
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import suppress
from typing import Any

import pytest

from greenroom import Actor, ActorSystem, Context
from greenroom.errors import SimulationEndless, SimulationStuck
from greenroom.testing import ActorHarness, Simulation
from greenroom.testing.simulating.patches import EPOCH

over = threading.Event()


@pytest.fixture(autouse=True)
def undone() -> Iterator[None]:
    """Let the stubborn be over when the test is, and nothing of the simulation be left."""
    over.clear()
    yield
    assert time.time() > EPOCH + 1e8
    assert gc.isenabled()
    over.set()
    gc.collect()  # which ends, too


async def sleeps_on() -> None:
    while not over.is_set():
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(1)


async def turns_round() -> None:
    while not over.is_set():
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(0)


async def waits_on() -> None:
    while not over.is_set():
        with suppress(asyncio.CancelledError):
            await asyncio.get_running_loop().create_future()


async def swallows_everything() -> None:
    while True:
        with suppress(BaseException):
            await asyncio.sleep(1)


Stubborn = Callable[[], Coroutine[Any, Any, None]]
every_kind = pytest.mark.parametrize("stubborn", [sleeps_on, turns_round, waits_on, swallows_everything])


@every_kind
def test_a_task_that_swallows_its_cancellation_is_named(stubborn: Stubborn) -> None:
    async def program(system: ActorSystem) -> None:
        tasks.append(asyncio.create_task(stubborn(), name="stubborn"))

    tasks: list[Any] = []
    with pytest.raises(SimulationStuck, match="cancelled") as raised:
        Simulation(max_steps=1000).run(program)
    (waiting,) = raised.value.waiting
    assert waiting.startswith(f"stubborn waits in {stubborn.__name__}")
    assert __file__ in waiting


@every_kind
def test_what_went_wrong_before_is_what_is_seen(stubborn: Stubborn) -> None:
    async def broken(system: ActorSystem) -> None:
        tasks.append(asyncio.create_task(stubborn()))
        raise ZeroDivisionError

    async def endless(system: ActorSystem) -> None:
        tasks.append(asyncio.create_task(stubborn()))
        while True:  # noqa: ASYNC110
            await asyncio.sleep(0)

    tasks: list[Any] = []
    with pytest.raises(ZeroDivisionError):
        Simulation(max_steps=1000).run(broken)
    with pytest.raises(SimulationEndless):
        Simulation(max_steps=1000).run(endless)


@every_kind
def test_a_session_ends_all_the_same(stubborn: Stubborn) -> None:
    async def begin() -> None:
        tasks.append(asyncio.create_task(stubborn()))

    def careless() -> None:
        with Simulation(max_steps=1000).open() as session:
            session.run(begin)
            raise ZeroDivisionError

    tasks: list[Any] = []
    session = Simulation(max_steps=1000).open()
    session.run(begin)
    with pytest.raises(SimulationStuck, match=stubborn.__name__):
        session.close()
    session.close()
    with pytest.raises(ZeroDivisionError):
        careless()


@every_kind
def test_so_does_a_harness(stubborn: Stubborn) -> None:
    class Careless(Actor[str]):
        def receive(self, message: str) -> None:
            self.task = asyncio.ensure_future(stubborn())

    def under_test(then: Callable[[], None]) -> None:
        with ActorHarness(Careless) as harness:
            harness.ref.tell("go")
            if stubborn is not turns_round:  # of which the harness tells at once
                harness.settle()
            actors.append(harness.actor)
            then()

    def fail() -> None:
        raise ZeroDivisionError

    actors: list[Any] = []
    with pytest.raises(SimulationStuck, match=stubborn.__name__):
        under_test(lambda: None)
    with pytest.raises(ZeroDivisionError):
        under_test(fail)


@pytest.mark.parametrize("stubborn", [sleeps_on, turns_round, waits_on])
def test_a_handler_that_swallows_its_cancellation_is_broken_off(stubborn: Stubborn) -> None:
    async def handler(ctx: Context, message: Any) -> None:
        await stubborn()

    async def program(system: ActorSystem) -> None:
        system.spawn(handler).tell("go")
        await asyncio.sleep(1)

    if stubborn is turns_round:
        with pytest.raises(SimulationEndless):
            Simulation(max_steps=1000).run(program)
    else:
        Simulation(max_steps=1000).run(program)


def test_a_task_may_take_its_time_to_end() -> None:
    async def tidy() -> None:
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            for _ in range(1000):
                await asyncio.sleep(3600)
            ended.append(asyncio.get_running_loop().time())

    async def program(system: ActorSystem) -> None:
        tasks.append(asyncio.create_task(tidy()))

    ended: list[float] = []
    tasks: list[Any] = []
    Simulation().run(program)
    assert ended == [3600.0 * 1000]
