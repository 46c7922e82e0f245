"""Ending an actor from outside: from whichever thread, in whichever crowd, now or in its turn (J5, M5)."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from greenroom import ActorRef, ActorSystem, Context, ExitKind
from greenroom.errors import GreenroomError
from greenroom.testing import TestProbe
from tests.conformance.lives import Hooked, HookedAsync, Plain, PlainAsync, ended, every_kind

PATIENCE = 120.0
ENDS = ["stop", "kill", "fail"]


def end(ref: ActorRef[Any, Any], how: str) -> None:
    if how == "fail":
        ref.fail(ValueError("on purpose"))
    else:
        getattr(ref, how)()


@pytest.mark.real
@every_kind
@pytest.mark.parametrize("how", ENDS)
async def test_an_actor_is_ended_from_any_thread(system: ActorSystem, kind: Any, how: str) -> None:  # J5
    probe = TestProbe(system)
    ref = system.spawn(kind)
    await probe.watch(ref)
    await asyncio.to_thread(end, ref, how)
    notice = await probe.expect_terminated(ref)
    expected = {"stop": ExitKind.NORMAL, "kill": ExitKind.KILLED, "fail": ExitKind.FAIL}
    assert notice.reason.kind is expected[how]
    assert isinstance(notice.cause, ValueError if how == "fail" else type(None))


@pytest.mark.real
@every_kind
async def test_an_actor_that_everybody_ends_at_once_ends_once(system: ActorSystem, kind: Any) -> None:  # J5
    probe = TestProbe(system)
    refs = [system.spawn(kind) for _ in range(30)]
    for ref in refs:
        await probe.watch(ref)
    barrier = threading.Barrier(6)
    acts: list[Callable[[ActorRef[Any, Any]], None]] = [
        lambda ref: ref.stop(),
        lambda ref: ref.kill(),
        lambda ref: ref.fail(ValueError("on purpose")),
        lambda ref: ref.stop(after_queued=True),
        lambda ref: ref.tell("hello"),
    ]

    def work(act: Callable[[ActorRef[Any, Any]], None]) -> None:
        barrier.wait(PATIENCE)
        for ref in refs:
            act(ref)

    threads = [asyncio.create_task(asyncio.to_thread(work, act)) for act in acts]
    await asyncio.to_thread(barrier.wait, PATIENCE)
    await asyncio.gather(*threads)
    for ref in refs:
        await ended(system, ref)
    await system.settle()
    notices = [notice.ref for notice in probe.messages]
    assert sorted(notices, key=lambda ref: ref.id) == sorted(refs, key=lambda ref: ref.id)
    assert system.snapshot().terminated == len(refs)


@pytest.mark.real
@pytest.mark.parametrize("kind", [Plain, PlainAsync])
async def test_stop_after_queued_from_a_thread_is_in_order_with_what_that_thread_sent(
    system: ActorSystem, kind: Any
) -> None:  # J5
    ref = system.spawn(kind)

    def work() -> None:
        for number in range(5):
            ref.tell(number)
        ref.stop(after_queued=True)
        for number in range(3):
            ref.tell(number)

    await asyncio.to_thread(work)
    await ended(system, ref)
    await system.settle()
    ledger = system.ledger(ref)
    assert (ledger.handled, ledger.dead_lettered) == (5, 3)


async def test_an_actor_fails_with_exceptions_only(system: ActorSystem) -> None:  # J5
    ref = system.spawn(Plain)
    for wrong in ("because", None, ValueError):
        with pytest.raises(TypeError):
            ref.fail(wrong)  # type: ignore[arg-type]
    assert await ref.ask("still there") == "still there"


async def test_stop_after_queued_acts_in_order(system: ActorSystem) -> None:  # M5: what is queued now, and nothing more
    log: list[str] = []
    ref = system.spawn(Hooked, log)
    ref.tell(1)
    ref.tell(2)
    asked = ref.ask(3)
    ref.stop(after_queued=True)
    ref.tell(4)
    late = ref.ask(5, timeout=None)
    assert await asked == 3
    with pytest.raises(GreenroomError):
        await late
    assert (await ended(system, ref)).kind is ExitKind.NORMAL
    ledger = system.ledger(ref)
    assert (ledger.handled, ledger.dead_lettered) == (3, 2)
    await system.shutdown()
    assert log == ["pre_start", "post_start", "receive 1", "receive 2", "receive 3", "pre_stop", "post_stop"]


async def test_stop_overtakes_a_stop_that_waits_its_turn(system: ActorSystem) -> None:  # M5
    ref = system.spawn(HookedAsync)
    for number in range(3):
        ref.tell(number)
    ref.stop(after_queued=True)
    ref.stop(after_queued=True)
    ref.stop()
    await ended(system, ref)
    assert system.ledger(ref).dead_lettered == 3


@pytest.mark.parametrize("kind", [Plain, Hooked, HookedAsync])
async def test_a_stop_acts_after_the_message_in_hand(
    system: ActorSystem, kind: Any
) -> None:  # M5: and the reply is not lost
    ref = system.spawn(kind)

    def stop_itself(ctx: Context) -> str:
        ctx.stop()
        ctx.self.tell("never handled")
        return "the reply"

    assert await ref.ask(stop_itself) == "the reply"
    await ended(system, ref)
    ledger = system.ledger(ref)
    assert (ledger.handled, ledger.dead_lettered) == (1, 1)


async def test_an_actor_stops_its_own_children_and_nobody_elses(system: ActorSystem) -> None:  # M5
    parent, stranger = system.spawn(Plain), system.spawn(Plain)
    child = await parent.ask(lambda ctx: ctx.spawn(Plain))
    with pytest.raises(ValueError, match="no child"):
        await system.spawn(Plain).ask(lambda ctx: ctx.stop(stranger))
    await parent.ask(lambda ctx: ctx.stop(child))
    assert (await ended(system, child)).kind is ExitKind.NORMAL
    assert stranger.is_alive
    assert parent.is_alive
