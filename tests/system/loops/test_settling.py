"""`settle()` with several loops: to look at another loop takes a turn of its thread, and that is no sign of work."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from greenroom import Actor, ActorRef, ActorSystem, Context, SystemConfig
from greenroom.errors import SettleTimeout
from greenroom.testing import Simulation
from tests.conftest import Play
from tests.gates import Event
from tests.system.loops.conftest import LOOPS

PATIENCE = 120.0
ROUNDS = 50

Ref = ActorRef[Any, Any]


class Doer(Actor[Any, Any]):
    """Does what it is told: calls a function with its context."""

    async def receive(self, message: Any) -> Any:
        result = message(self.ctx)
        return await result if asyncio.iscoroutine(result) else result


def spread(system: ActorSystem) -> list[Ref]:
    """Actors of which each lives on another loop, the first on the home loop."""
    return [system.spawn(Doer, dispatcher="spread", name=f"doer-{number}") for number in range(LOOPS)]


async def settle_at_once(system: ActorSystem) -> None:
    def tell_all(ctx: Context) -> None:
        for ref in refs:
            ref.tell(lambda ctx: None)

    await system.settle()
    await system.settle(timeout=0.0)
    refs = spread(system)
    await system.settle()
    for _ in range(ROUNDS):
        await system.settle(timeout=0.0)
        await refs[-1].ask(tell_all)
        await system.settle()


def test_settle_returns_at_once_when_all_loops_are_at_rest(play: Play) -> None:
    play(settle_at_once)


@pytest.mark.parametrize("seed", range(10))
def test_settle_returns_at_once_when_all_simulated_loops_are_at_rest(seed: int) -> None:
    Simulation(seed, config=SystemConfig(loops=LOOPS)).run(settle_at_once)


@pytest.mark.parametrize("loops", [1, LOOPS])
def test_so_does_settle_sync(loops: int) -> None:
    with ActorSystem("plain", config=SystemConfig(loops=loops)) as system:
        spread(system)
        system.settle_sync()
        for _ in range(ROUNDS):
            system.settle_sync(0.0)


async def test_a_thread_that_is_late_is_waited_for_if_its_loop_is_at_rest(system: ActorSystem) -> None:
    released = threading.Event()
    *_, last = spread(system)
    there = await last.ask(lambda ctx: asyncio.get_running_loop())
    await system.settle()
    there.call_soon_threadsafe(released.wait, PATIENCE)
    asyncio.get_running_loop().call_later(0.2, released.set)
    await system.settle(timeout=0.01)
    assert released.is_set()


@pytest.mark.parametrize("timeout", [0.0, 0.02])
async def test_one_that_is_busy_on_another_loop_is_named(system: ActorSystem, timeout: float) -> None:
    gate, begun = Event(), Event()

    async def wait(ctx: Context) -> None:
        begun.set()
        await gate.wait()

    *_, last = spread(system)
    last.tell(wait)
    await begun.wait()
    with pytest.raises(SettleTimeout) as caught:
        await system.settle(timeout)
    assert caught.value.busy == "/doer-2"
    gate.set()
    await system.settle()
    await system.settle(0.0)


@pytest.mark.parametrize("timeout", [0.0, 0.02])
async def test_a_handler_that_holds_another_loop_is_not_waited_for(system: ActorSystem, timeout: float) -> None:
    released, begun = threading.Event(), Event()

    def hold(ctx: Context) -> None:
        begun.set()
        released.wait(PATIENCE)

    *_, last = spread(system)
    last.tell(hold)
    await begun.wait()
    with pytest.raises(SettleTimeout):
        await system.settle(timeout)
    assert not released.is_set()
    released.set()
    await system.settle()


async def test_actors_that_never_rest_are_not_waited_for(system: ActorSystem) -> None:
    going = [True]
    refs = spread(system)

    def spin(ctx: Context) -> None:
        if going:
            ctx.self.tell(spin)

    for ref in refs[1:]:
        ref.tell(spin)
    with pytest.raises(SettleTimeout):
        await system.settle(0.05)
    going.clear()
    await system.settle()
