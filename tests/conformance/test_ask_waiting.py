"""`ref.ask(..., wait_for_room=True)`: an ask into a full mailbox waits for room, and what becomes of it (M17)."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import pytest

from greenroom import Actor, ActorRef, ActorSystem, Context, Drain, Lane, MailboxConfig, MailboxFull, Overflow
from greenroom.errors import ActorTerminated, AskDeadlock, AskTimeout, BadArgument
from greenroom.testing import assert_ledger_balanced
from tests.conformance.cast import Holding, run_threads
from tests.gates import Event, turns

ONE = MailboxConfig(capacity=1)


def asks(ref: ActorRef[Any, Any], *messages: Any, **options: Any) -> list[Any]:
    """Asks that wait for room, in this order."""
    return [ref.ask(message, timeout=None, wait_for_room=True, **options) for message in messages]


@pytest.mark.parametrize("lane", Lane, ids=str)
async def test_asks_wait_for_room_in_order_of_arrival_with_sends(
    system: ActorSystem, lane: Lane
) -> None:  # case 10, M17
    config = ONE if lane is Lane.DATA else MailboxConfig(lanes={lane: 1})
    held = Holding(system, mailbox=config)
    ref = await held.begin()
    asked = asks(ref, 0, 1, lane=lane)
    send = asyncio.ensure_future(ref.send(2, lane=lane))
    await asyncio.sleep(0)
    asked += asks(ref, 3, 4, lane=lane)
    assert system.ledger(ref).queued == 1
    heard = await held.end()
    await send
    await asyncio.gather(*asked)
    assert heard == [0, 1, 2, 3, 4]
    ledger = assert_ledger_balanced(system, ref)
    assert (ledger.sent, ledger.handled, ledger.rejected) == (6, 6, 0)


async def test_with_room_it_is_an_ask_as_any(system: ActorSystem) -> None:
    class Doubler(Actor[Any, Any]):
        def receive(self, message: Any) -> Any:
            return 2 * message

    ref = system.spawn(Doubler)
    assert await ref.ask(1, wait_for_room=True) == 2
    assert await asyncio.gather(*asks(ref, *range(20))) == [2 * n for n in range(20)]
    with pytest.raises(TypeError):
        await ref.ask(None, wait_for_room=True)
    with pytest.raises(BadArgument):
        ref.ask(1, lane="data", wait_for_room=True)  # type: ignore[call-overload]


async def test_without_the_flag_a_full_mailbox_refuses_also_while_others_wait(system: ActorSystem) -> None:
    held = Holding(system, mailbox=ONE)
    ref = await held.begin()
    asked = asks(ref, 1, 2)
    with pytest.raises(MailboxFull):
        await ref.ask(3)
    assert await held.end() == [1, 2]
    await asyncio.gather(*asked)


@pytest.mark.parametrize("way", ["cancel", "task", "timeout", "asyncio"])
async def test_one_who_gives_up_before_there_is_room_sends_nothing(system: ActorSystem, way: str) -> None:  # case 10
    held = Holding(system, mailbox=ONE)
    ref = await held.begin()
    ref.tell("first")
    if way == "timeout":
        gone = ref.ask("gone", timeout=0.0, wait_for_room=True)
        kept = asks(ref, "kept")[0]
        with pytest.raises(AskTimeout):
            await gone
    else:
        gone, kept = asks(ref, "gone", "kept")
        if way == "cancel":
            assert gone.cancel()
            assert gone.done()
        elif way == "task":
            task = asyncio.ensure_future(gone)
            await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        else:
            with suppress(TimeoutError):
                async with asyncio.timeout(0.0):
                    await gone
    assert await held.end() == ["first", "kept"]
    await kept
    ledger = assert_ledger_balanced(system, ref)
    assert (ledger.sent, ledger.late_replies) == (3, 0)


@pytest.mark.parametrize("drain", [None, Drain.DROP])
async def test_an_ask_that_waits_when_the_actor_ends_is_told_at_once(
    system: ActorSystem, drain: Drain | None
) -> None:  # M10
    held = Holding(system, mailbox=ONE, drain=drain)
    ref = await held.begin()
    ref.tell("first")
    asked = asks(ref, 1, 2)
    ref.stop()
    held.released.set()
    for one in asked:
        with pytest.raises(ActorTerminated):
            await one
    await ref.terminated()
    assert_ledger_balanced(system, ref)


async def test_a_mailbox_that_drops_is_waited_for_as_well(system: ActorSystem) -> None:
    for overflow in (Overflow.DROP_NEW, Overflow.DROP_OLD):
        held = Holding(system, mailbox=MailboxConfig(capacity=1, overflow=overflow))
        ref = await held.begin()
        asked = asks(ref, 1, 2, 3)
        assert await held.end() == [1, 2, 3]
        await asyncio.gather(*asked)
        assert assert_ledger_balanced(system, ref).dropped == 0


async def test_actors_that_wait_for_each_others_answers_are_told_even_when_the_ask_waits_for_room(
    system: ActorSystem,
) -> None:  # case 25, B5
    class Peer(Actor[Any, Any]):
        async def receive(self, message: Any) -> Any:
            match message:
                case ("ask", other, entered):
                    entered.set()
                    await are_full.wait()
                    return await other.ask("hello", timeout=None, wait_for_room=True)
            return message

    are_full = Event()
    one, two = (system.spawn(Peer, mailbox=ONE) for _ in range(2))
    asked = []
    for ref, other in ((one, two), (two, one)):
        entered = Event()
        asked.append(ref.ask(("ask", other, entered), timeout=None))
        await entered.wait()
        ref.tell("fill")
    are_full.set()
    answers = await asyncio.gather(*asked, return_exceptions=True)
    assert any(isinstance(answer, AskDeadlock) for answer in answers), answers


async def test_an_actor_that_asks_itself_is_told_so_though_its_mailbox_is_full(system: ActorSystem) -> None:  # case 25
    class Selfish(Actor[Any, Any]):
        async def receive(self, message: Any) -> Any:
            if message == "ask":
                self.ctx.self.tell("fill")
                with pytest.raises(AskDeadlock):
                    await self.ctx.self.ask("me", timeout=None, wait_for_room=True)
            heard.append(message)

    heard: list[Any] = []
    ref = system.spawn(Selfish, mailbox=ONE)
    await ref.ask("ask", timeout=None)
    await system.settle()
    assert heard == ["ask", "fill"]
    assert assert_ledger_balanced(system, ref).sent == 2


async def test_a_handler_can_ask_and_wait_for_room(system: ActorSystem) -> None:
    held = Holding(system, mailbox=ONE)
    ref = await held.begin()
    ref.tell("first")

    async def ask(ctx: Context, message: Any) -> Any:
        return await ref.ask(message, timeout=None, wait_for_room=True)

    asked = system.spawn(ask).ask("by a handler", timeout=None)
    await turns()
    assert not asked.done()
    held.released.set()
    await asked
    assert held.heard == ["first", "by a handler"]


@pytest.mark.real
async def test_another_threads_loop_asks_in_order_and_may_give_up(system: ActorSystem) -> None:  # case 10, J15
    held = Holding(system, mailbox=ONE)
    ref = await held.begin()
    aio = asyncio.get_running_loop()

    async def ask_all() -> None:
        asked = asks(ref, *range(10))
        cancelled = ref.ask("cancelled", timeout=None, wait_for_room=True)
        assert cancelled.cancel()
        with pytest.raises(AskTimeout):
            await ref.ask("late", timeout=0.0, wait_for_room=True)
        aio.call_soon_threadsafe(held.released.set)
        async with asyncio.timeout(120.0):
            await asyncio.gather(*asked)

    await run_threads(lambda: asyncio.run(ask_all()))
    await system.settle()
    assert held.heard == list(range(10))
    ledger = assert_ledger_balanced(system, ref)
    assert (ledger.sent, ledger.rejected, ledger.late_replies) == (11, 0, 0)


@pytest.mark.real
async def test_another_thread_asks_and_then_tells_in_this_order_when_there_is_room(system: ActorSystem) -> None:  # J15
    heard: list[Any] = []
    ref = system.spawn(lambda ctx, message: heard.append(message))

    async def use() -> None:
        for number in range(0, 200, 2):
            asked = ref.ask(number, timeout=None, wait_for_room=True)
            ref.tell(number + 1)
            if number % 20 == 0:
                await asked

    await run_threads(lambda: asyncio.run(use()))
    await system.settle()
    assert heard == list(range(200))


async def test_those_who_wait_for_room_wait_through_a_restart(system: ActorSystem) -> None:
    held = Holding(system, mailbox=ONE)
    ref = await held.begin()
    asked = asks(ref, 1, 2)
    ref.restart()
    held.released.set()
    await asyncio.gather(*asked)
    assert held.heard == [1, 2]
