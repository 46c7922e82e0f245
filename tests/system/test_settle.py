"""`settle()`: returns when nothing is queued or in hand, and not before."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from greenroom import Actor, ActorRef, ActorSystem, Context, MailboxConfig, ManualClock
from greenroom.errors import InvalidDelay, SettleTimeout, WaitsForItself
from greenroom.testing import assert_ledger_balanced


def count_down(ctx: Context, message: int) -> None:
    if message:
        ctx.self.tell(message - 1)


async def count_down_slowly(ctx: Context, message: int) -> None:
    await asyncio.sleep(0)
    if message:
        ctx.self.tell(message - 1)


@pytest.mark.parametrize("handler", [count_down, count_down_slowly])
async def test_settle_waits_for_messages_that_bring_on_others(system: ActorSystem, handler: Any) -> None:
    ref = system.spawn(handler)
    ref.tell(500)
    await system.settle()
    ledger = system.ledger(ref)
    assert (ledger.handled, ledger.queued, ledger.in_hand) == (501, 0, 0)


async def test_settle_waits_for_a_message_that_wanders_from_actor_to_actor(system: ActorSystem) -> None:
    refs: list[ActorRef[Any, Any]] = []

    async def hand_on(ctx: Context, message: int) -> None:
        await asyncio.sleep(0)
        if message:
            refs[message % len(refs)].tell(message - 1)

    refs.extend(system.spawn(hand_on) for _ in range(7))
    refs[0].tell(300)
    await system.settle()
    assert system.ledger().handled == 301


async def test_settle_returns_at_once_when_there_is_nothing_to_do(system: ActorSystem) -> None:
    await system.settle()
    await system.settle(timeout=0.0)
    system.spawn(count_down)
    await system.settle()
    await system.settle(timeout=0.0)


async def test_settle_waits_for_suspended_handlers(system: ActorSystem) -> None:
    gate = asyncio.Event()
    done: list[str] = []

    async def held(ctx: Context, message: str) -> None:
        await gate.wait()
        done.append(message)

    refs = [system.spawn(held) for _ in range(3)]
    for ref in refs:
        ref.tell("a")
        ref.tell("b")
    settling = asyncio.create_task(system.settle())
    for _ in range(10):
        await asyncio.sleep(0)
    assert not settling.done()
    gate.set()
    await settling
    assert sorted(done) == ["a"] * 3 + ["b"] * 3


async def test_settle_that_takes_too_long_says_who_is_busy(system: ActorSystem) -> None:
    gate = asyncio.Event()

    async def held(ctx: Context, message: Any) -> None:
        await gate.wait()

    system.spawn(count_down, name="idle").tell(3)
    system.spawn(held, name="busy").tell("x")
    await asyncio.sleep(0)
    for timeout in (0.0, 0.02):
        with pytest.raises(SettleTimeout) as caught:
            await system.settle(timeout)
        assert caught.value.code == "settle_timeout"
        assert isinstance(caught.value, TimeoutError)
        assert "busy" in caught.value.busy
        assert "idle" not in caught.value.busy
    gate.set()
    await system.settle()


async def test_settle_gives_up_on_actors_that_never_rest(system: ActorSystem) -> None:
    def spin(ctx: Context, message: Any) -> None:
        ctx.self.tell(message)

    ref = system.spawn(spin)
    ref.tell("again")
    with pytest.raises(SettleTimeout):
        await system.settle(0.05)
    ref.stop()
    await ref.terminated()
    await system.settle()
    assert_ledger_balanced(system)


async def test_settle_does_not_wait_for_timers_that_are_not_due(system: ActorSystem, clock: ManualClock) -> None:
    def start(ctx: Context, message: str) -> None:
        if message == "start":
            ctx.send_after(1.0, ctx.self, "tick")

    ref = system.spawn(start)
    ref.tell("start")
    await system.settle()
    assert system.ledger(ref).handled == 1
    await clock.advance(1.0)
    await system.settle()
    assert system.ledger(ref).handled == 2


async def test_settle_does_not_wait_for_what_is_stashed(system: ActorSystem) -> None:
    ref: ActorRef[Any, Any] = system.spawn(lambda ctx, message: ctx.stash())
    for number in range(3):
        ref.tell(number)
    await system.settle()
    assert system.ledger(ref).queued == 3


async def test_settle_waits_for_what_other_threads_have_sent(system: ActorSystem) -> None:
    ref = system.spawn(count_down)
    await system.settle()

    def send() -> None:
        for _ in range(100):
            ref.tell(1)

    threads = [threading.Thread(target=send) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    await system.settle()
    assert system.ledger(ref).handled == 800


async def test_settle_waits_for_senders_that_wait_for_room(system: ActorSystem) -> None:
    ref = system.spawn(count_down, mailbox=MailboxConfig(capacity=1))
    sends = [asyncio.create_task(ref.send(0)) for _ in range(20)]
    await asyncio.sleep(0)
    await system.settle()
    assert system.ledger(ref).handled == 20
    await asyncio.gather(*sends)


async def test_settle_waits_for_starts_and_ends_that_are_under_way(system: ActorSystem) -> None:
    log: list[str] = []

    class Slow(Actor[Any, Any]):
        async def pre_start(self) -> None:
            for _ in range(5):
                await asyncio.sleep(0)
            log.append("pre_start")

        def receive(self, message: Any) -> None:
            log.append(message)

        async def pre_stop(self) -> None:
            for _ in range(5):
                await asyncio.sleep(0)
            log.append("pre_stop")

    ref = system.spawn(Slow)
    ref.tell("first")
    await system.settle()
    assert log == ["pre_start", "first"]
    ref.tell("queued")
    ref.stop()
    await system.settle()
    assert log == ["pre_start", "first", "pre_stop"]
    assert not ref.is_alive


async def test_many_can_wait_for_the_system_to_settle(system: ActorSystem) -> None:
    gate = asyncio.Event()

    async def held(ctx: Context, message: Any) -> None:
        await gate.wait()

    ref = system.spawn(held)
    ref.tell("x")
    waiting = [asyncio.create_task(system.settle()) for _ in range(10)]
    await asyncio.sleep(0)
    waiting[3].cancel()
    await asyncio.sleep(0)
    gate.set()
    results = await asyncio.gather(*waiting, return_exceptions=True)
    assert isinstance(results.pop(3), asyncio.CancelledError)
    assert results == [None] * 9
    assert system.ledger(ref).handled == 1


async def test_settle_ends_when_the_system_does(system: ActorSystem) -> None:
    async def held(ctx: Context, message: Any) -> None:
        await asyncio.Event().wait()

    ref = system.spawn(held)
    ref.tell("x")
    settling = asyncio.create_task(system.settle())
    await asyncio.sleep(0)
    await system.shutdown(timeout=0.0)
    await settling
    assert not ref.is_alive


async def test_an_actor_cannot_wait_for_its_system_to_settle(system: ActorSystem) -> None:
    async def wait(ctx: Context, message: Any) -> None:
        await asyncio.sleep(0)
        await ctx.system.settle()

    with pytest.raises(WaitsForItself):
        await system.spawn(wait).ask("wait")


@pytest.mark.parametrize("timeout", [-1.0, float("nan"), float("inf"), "soon", None, True])
async def test_settle_needs_a_timeout_that_is_one(system: ActorSystem, timeout: Any) -> None:
    with pytest.raises(InvalidDelay):
        await system.settle(timeout)
