"""When a system, of one loop or of several, counts as settled though some of its actors wait for the test."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from greenroom import Actor, ActorRef, ActorSystem, Context, OnExit, SystemConfig
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


async def test_an_actor_that_waits_for_a_probe_keeps_no_silence_from_being_told(system: ActorSystem) -> None:
    server, other = TestProbe(system), TestProbe(system)
    client = system.spawn(Asks, server.ref)
    asked = client.ask("x")
    await other.expect_no()  # though the client's handler is in hand
    await server.expect("x")
    await server.expect_no()
    server.reply("y")
    assert await asked == "y"


async def test_so_does_one_that_waits_for_such_an_actor(system: ActorSystem) -> None:
    server, other = TestProbe(system), TestProbe(system)
    near = system.spawn(Asks, server.ref)
    far = system.spawn(Asks, near)
    asked = system.spawn(Asks, far).ask("x")
    await server.expect("x")
    await other.expect_no()
    server.reply("y")
    assert await asked == "y"


async def test_so_does_one_that_asked_several_at_once(system: ActorSystem) -> None:
    servers = [TestProbe(system) for _ in range(3)]
    asked = system.spawn(Asks, *(server.ref for server in servers)).ask("x")
    for number, server in enumerate(servers):
        await server.expect("x")
        await server.expect_no()
        server.reply(number)
    assert await asked == [0, 1, 2]


async def in_time(question: Any) -> Any:
    return await asyncio.wait_for(question, 120.0)


async def as_a_task(question: Any) -> Any:
    async def wait() -> Any:
        return await question

    return await asyncio.create_task(wait())


async def among_others(question: Any) -> Any:
    done, _ = await asyncio.wait([asyncio.ensure_future(question)])
    return done.pop().result()


async def in_a_group(question: Any) -> Any:
    async with asyncio.TaskGroup() as group:
        task = group.create_task(in_time(question))
    return task.result()


@pytest.mark.parametrize("waits", [in_time, as_a_task, among_others, in_a_group])
async def test_so_does_one_that_waits_by_way_of_asyncio(system: ActorSystem, waits: Any) -> None:
    server, other = TestProbe(system), TestProbe(system)

    async def ask(ctx: Context, message: Any) -> Any:
        return await waits(server.ref.ask(message))

    asked = system.spawn(Asks, system.spawn(ask)).ask("x")
    await server.expect("x")
    await other.expect_no()
    server.reply("y")
    assert await asked == "y"


@pytest.mark.config(on_exit=OnExit.DISCARD)
async def test_so_do_messages_behind_the_one_that_waits(system: ActorSystem) -> None:
    server, other = TestProbe(system), TestProbe(system)
    client = system.spawn(Asks, server.ref)
    for message in ("x", "y"):
        client.tell(message)
    await server.expect("x")
    await other.expect_no()
    server.reply(1)
    await server.expect("y")


@pytest.mark.parametrize("forgets", [False, True])
async def test_who_has_asked_a_probe_and_goes_on_with_something_else_is_waited_for(
    system: ActorSystem, forgets: bool
) -> None:
    server, other = TestProbe(system), TestProbe(system)
    gate = asyncio.Event()

    async def ask(ctx: Context, message: Any) -> None:
        question = server.ref.ask(message)
        await gate.wait()
        other.ref.tell("late")
        if not forgets:
            await question

    system.spawn(ask).tell("x")
    await server.expect("x")
    silence = asyncio.create_task(other.expect_no())
    done, _ = await asyncio.wait([silence], timeout=0.02)
    assert not done
    gate.set()
    with pytest.raises(AssertionError, match="late"):
        await silence
    server.reply("y")


async def test_others_that_are_busy_are_waited_for(system: ActorSystem) -> None:
    server, other = TestProbe(system), TestProbe(system)
    gate = asyncio.Event()

    async def busy(ctx: Context, message: Any) -> None:
        await gate.wait()
        other.ref.tell(message)

    asked = system.spawn(Asks, server.ref).ask("x")
    system.spawn(busy).tell("noise")
    silence = asyncio.create_task(other.expect_no())
    done, _ = await asyncio.wait([silence], timeout=0.02)
    assert not done
    gate.set()
    with pytest.raises(AssertionError, match="noise"):
        await silence
    await server.expect("x")
    server.reply("y")
    await asked


async def test_who_waits_for_a_busy_actor_is_waited_for_too(system: ActorSystem) -> None:
    gate = asyncio.Event()

    async def busy(ctx: Context, message: Any) -> str:
        await gate.wait()
        return "done"

    asked = system.spawn(Asks, system.spawn(busy, name="busy")).ask("x")
    with pytest.raises(SettleTimeout, match=r"still busy after 0\.02 s: .*/busy"):
        await settle(system, 0.02)
    gate.set()
    await settle(system, PATIENCE)
    assert await asked == "done"


def test_a_system_on_another_thread_settles_too() -> None:
    async def main(system: ActorSystem) -> None:
        server = TestProbe(system)
        asked = system.spawn(Asks, server.ref).ask("x")
        await server.expect("x")
        await settle(system, PATIENCE)
        server.reply("y")
        assert await asked == "y"
        await settle(system, PATIENCE)

    with ActorSystem() as system:
        asyncio.run(main(system))
    asyncio.run(settle(system, PATIENCE))


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
