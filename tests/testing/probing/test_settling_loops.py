"""When a system of several loops counts as settled though some of its actors wait for the test."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from greenroom import Actor, ActorRef, ActorSystem, Context, SystemConfig
from greenroom.errors import SettleTimeout
from greenroom.testing import TestProbe
from greenroom.testing.probing.settling import settle
from tests.conftest import Play
from tests.gates import Event

PATIENCE = 120.0

Ref = ActorRef[Any, Any]


class Asks(Actor[Any, Any]):
    """Passes on every message, and answers what it is answered."""

    def __init__(self, *others: Ref) -> None:
        self.others = others

    async def receive(self, message: Any) -> Any:
        if len(self.others) == 1:
            return await self.others[0].ask(message, timeout=None)
        return await asyncio.gather(*(other.ask(message, timeout=None) for other in self.others))


def play(program: Any) -> None:
    Play("spread")(program)


def test_actors_of_other_loops_that_wait_for_a_probe_keep_no_silence_from_being_told() -> None:
    async def program(system: ActorSystem) -> None:
        server, other = TestProbe(system), TestProbe(system)
        chain: list[Ref] = [system.spawn(Asks, server.ref)]
        for _ in range(5):
            chain.append(system.spawn(Asks, chain[-1]))
        assert len({ref._cell.loop for ref in chain}) == 3
        asked = system.spawn(Asks, chain[-1], chain[-2]).ask("x", timeout=None)
        for _ in range(2):
            await server.expect("x")
            await other.expect_no()
            server.reply("y")
        assert await asked == ["y", "y"]

    play(program)


def test_one_that_is_busy_on_another_loop_is_waited_for() -> None:
    async def program(system: ActorSystem) -> None:
        server, other = TestProbe(system), TestProbe(system)
        gate, begun = Event(), Event()

        async def busy(ctx: Context, message: Any) -> None:
            begun.set()
            await gate.wait()
            other.ref.tell(message)

        askers: list[Ref] = [system.spawn(Asks, server.ref) for _ in range(3)]
        asks = [asker.ask("x", timeout=None) for asker in askers]
        ref: Ref = next(ref for ref in (system.spawn(busy) for _ in range(3)) if ref._cell.loop is not system._loop)
        ref.tell("noise")
        await begun.wait()
        with pytest.raises(SettleTimeout, match="busy"):
            await settle(system, 0.02)
        silence = asyncio.create_task(other.expect_no())
        done, _ = await asyncio.wait([silence], timeout=0.02)
        assert not done
        gate.set()
        with pytest.raises(AssertionError, match="noise"):
            await silence
        for _ in asks:
            await server.expect("x")
            server.reply("y")
        assert [await ask for ask in asks] == ["y"] * 3

    play(program)


def test_messages_that_hop_from_loop_to_loop_meanwhile_are_waited_for() -> None:
    async def program(system: ActorSystem) -> None:
        server, other = TestProbe(system), TestProbe(system)
        hops = 300

        def hop(ctx: Context, left: int) -> None:
            (ring[left % 3] if left else other.ref).tell(left - 1)

        waits: Ref = system.spawn(Asks, server.ref)
        asked = waits.ask("x", timeout=None)
        await server.expect("x")
        ring: list[Ref] = [system.spawn(hop) for _ in range(3)]
        ring[0].tell(hops)
        await settle(system, PATIENCE)
        await other.expect(-1)
        server.reply("y")
        assert await asked == "y"

    play(program)


def test_a_system_of_several_loops_on_another_thread_settles_too() -> None:
    async def main(system: ActorSystem) -> None:
        server = TestProbe(system)
        asks = [system.spawn(Asks, server.ref, dispatcher="spread").ask("x", timeout=None) for _ in range(3)]
        for _ in asks:
            await server.expect("x")
            await settle(system, PATIENCE)
            server.reply("y")
        assert [await ask for ask in asks] == ["y"] * 3
        await settle(system, PATIENCE)

    with ActorSystem(config=SystemConfig(loops=3)) as system:
        asyncio.run(main(system))
    asyncio.run(settle(system, PATIENCE))
