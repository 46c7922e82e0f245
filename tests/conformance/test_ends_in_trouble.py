"""Ends that somebody hinders: by stashing, by not letting go, by raising where nobody should (M3, M5, M11, B4)."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from typing import Any

import pytest

from greenroom import Actor, ActorSystem, ActorTerminated, Context, Drain, ExitKind, MailboxConfig, MailboxFull
from greenroom.testing import ManualClock, TestProbe

PATIENCE = 120.0
STOP_TIMEOUT = 1.0


async def ignore_cancellation() -> None:
    while True:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.get_running_loop().create_future()


async def pass_deadlines(clock: ManualClock) -> None:
    for _ in range(5):
        await clock.advance(STOP_TIMEOUT + 1.0)


@pytest.mark.config(stop_timeout=STOP_TIMEOUT)
async def test_what_a_forced_actor_had_stashed_is_accounted_for(
    system: ActorSystem, clock: ManualClock
) -> None:  # case 57
    seen: list[str] = []

    class Stubborn(Actor[Any, Any]):
        async def receive(self, message: Any) -> None:
            self.ctx.stash()
            await ignore_cancellation()

        def post_stop(self) -> None:
            seen.append("post_stop")

    ref = system.spawn(Stubborn)
    asked = ref.ask("x", timeout=None)
    await clock.advance(0.0)
    ref.stop()
    await pass_deadlines(clock)
    async with asyncio.timeout(PATIENCE):
        assert (await ref.terminated()).kind is ExitKind.KILLED
        with pytest.raises(ActorTerminated):
            await asked
    ledger = system.ledger(ref)
    assert (ledger.sent, ledger.dead_lettered, ledger.queued) == (1, 1, 0)
    await system.shutdown()
    assert seen == ["post_stop"]


@pytest.mark.parametrize("hook", ["pre_stop", "on_terminated"])
@pytest.mark.config(stop_timeout=STOP_TIMEOUT)
async def test_a_hook_that_hangs_does_not_keep_what_is_queued_from_its_drain(
    system: ActorSystem, clock: ManualClock, hook: str
) -> None:  # M10
    other: Any = None

    class Hanging(Actor[Any, Any]):
        async def receive(self, message: Any) -> None:
            if message == "watch":
                self.ctx.watch(other)
                other.stop()
            else:
                self.ctx.stash()

    async def hang(self: Any, *arguments: Any) -> None:
        await ignore_cancellation()

    setattr(Hanging, hook, hang)
    probe = TestProbe(system)
    other = system.spawn(lambda ctx, message: None)
    ref = system.spawn(Hanging, drain=Drain.REDIRECT(probe.ref))
    ref.tell("stashed")
    if hook == "on_terminated":
        ref.tell("watch")
    await clock.advance(0.0)
    ref.stop()
    await pass_deadlines(clock)
    assert (await ref.terminated()).kind is ExitKind.KILLED
    await probe.expect("stashed")


@pytest.mark.parametrize("error", [asyncio.CancelledError, GeneratorExit, ValueError])
@pytest.mark.parametrize("hooked", [True, False])
async def test_a_dead_letter_subscriber_that_raises_hinders_no_end(
    system: ActorSystem, error: Any, hooked: bool
) -> None:  # M8
    seen: list[str] = []

    class Plain(Actor[Any, Any]):
        def receive(self, message: Any) -> None:
            pass

    class Hooked(Plain):
        def post_stop(self) -> None:
            seen.append("post_stop")

    def raises(letter: object) -> None:
        raise error

    system.dead_letters.subscribe(raises)
    probe = TestProbe(system)
    ref = system.spawn(Hooked if hooked else Plain)
    await probe.watch(ref)
    ref.tell(1)
    ref.stop()
    await probe.expect_terminated(ref)
    assert seen == (["post_stop"] if hooked else [])


async def test_an_observer_that_raises_a_cancellation_is_taken_off_and_harms_nobody(system: ActorSystem) -> None:  # J16
    class Observer:
        def actor_started(self, ref: object) -> None:
            raise asyncio.CancelledError

    system.observers.add(Observer())
    assert await system.spawn(lambda ctx, message: message).ask(1) == 1


async def test_a_dead_subscriber_is_told_of_no_more_dead_letters(system: ActorSystem) -> None:  # M10
    subscriber, target = system.spawn(lambda ctx, message: None), system.spawn(lambda ctx, message: None)
    system.dead_letters.subscribe(subscriber)
    for ref in (subscriber, target):
        ref.stop()
        await ref.terminated()
    for number in range(5):
        target.tell(number)
    assert system.ledger().dead_lettered == system.dead_letters.count == 5


@pytest.mark.config(stop_timeout=STOP_TIMEOUT)
async def test_a_cancellation_as_the_cause_of_a_failure_is_a_failure(
    system: ActorSystem, clock: ManualClock
) -> None:  # J5
    async def waits(ctx: Context, message: object) -> None:
        await asyncio.get_running_loop().create_future()

    ref = system.spawn(waits)
    ref.tell("in hand")
    await clock.advance(0.0)
    cause = asyncio.CancelledError()
    ref.fail(cause)
    await pass_deadlines(clock)
    async with asyncio.timeout(PATIENCE):
        assert (await ref.terminated()).cause is cause


async def test_whom_the_shutdown_cancels_did_not_fail(system: ActorSystem) -> None:  # case 57
    async def waits(ctx: Context, message: object) -> None:
        await asyncio.get_running_loop().create_future()

    ref = system.spawn(waits, name="one")
    ref.tell("in hand")
    await asyncio.sleep(0)
    ended = asyncio.ensure_future(ref.terminated())
    await asyncio.sleep(0)
    await system.shutdown(timeout=0.0)
    assert (await ended).kind in (ExitKind.SHUTDOWN, ExitKind.KILLED)
    assert system.report is not None
    assert system.report.forced == ("/one",)


@pytest.mark.real
@pytest.mark.parametrize("dead", ["the actor", "the system"])
async def test_threads_that_do_not_see_the_end_hold_nobody_up(system: ActorSystem, dead: str) -> None:  # J15
    goal = 5_000 if dead == "the actor" else 100  # a full mailbox makes them wait for one another
    over, far_enough = threading.Event(), threading.Barrier(3)
    told: list[int] = []
    ref = system.spawn(lambda ctx, message: None, mailbox=MailboxConfig(capacity=10))
    if dead == "the actor":
        ref.stop()
        await ref.terminated()

    def flood() -> None:
        count = 0
        while not over.is_set():
            with contextlib.suppress(MailboxFull):
                ref.tell(count)
                count += 1
                if count == goal:
                    far_enough.wait(PATIENCE)
        told.append(count)

    floods = [asyncio.create_task(asyncio.to_thread(flood)) for _ in range(2)]
    enough = asyncio.create_task(asyncio.to_thread(far_enough.wait, PATIENCE))
    try:
        async with asyncio.timeout(PATIENCE):
            while not enough.done():
                await asyncio.sleep(0)
                assert system.ledger(ref).queued <= 64  # what waits to be taken in counts as queued
            if dead == "the system":
                await system.shutdown(timeout=5.0)
    finally:
        over.set()
        await asyncio.gather(enough, *floods)
    if dead == "the actor":
        await system.settle()
        assert system.ledger(ref).dead_lettered == sum(told) == system.dead_letters.count
    assert system.ledger().sent == sum(told) >= 2 * goal
