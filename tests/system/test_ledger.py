"""The ledger: every message ends in exactly one column, for its actor and for the whole system (B4)."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import fields
from typing import Any

import pytest

from greenroom import (
    Actor,
    ActorRef,
    ActorSystem,
    AskTimeout,
    Behaviors,
    Context,
    Drain,
    Lane,
    Ledger,
    MailboxConfig,
    MailboxFull,
    Overflow,
    handles,
)
from greenroom.testing import assert_ledger_balanced


def columns(ledger: Ledger) -> dict[str, int]:
    """What is not zero in it."""
    return {one.name: getattr(ledger, one.name) for one in fields(ledger) if getattr(ledger, one.name)}


def noted(ctx: Context, message: Any) -> Any:
    return message


async def noted_later(ctx: Context, message: Any) -> Any:
    await asyncio.sleep(0)
    return message


def fails(ctx: Context, message: Any) -> None:
    raise ValueError(message)


async def fails_later(ctx: Context, message: Any) -> None:
    await asyncio.sleep(0)
    raise ValueError(message)


class OnlyText(Actor[Any, Any]):
    @handles(str)
    def on_text(self, message: str) -> str:
        return message


SMALL = MailboxConfig(capacity=2)
SMALL_DROP_NEW = MailboxConfig(capacity=2, overflow=Overflow.DROP_NEW)
SMALL_DROP_OLD = MailboxConfig(capacity=2, overflow=Overflow.DROP_OLD)


def tell_all(ref: ActorRef[Any, Any], count: int = 3) -> None:
    for number in range(count):
        with suppress(MailboxFull):
            ref.tell(number)


async def handled(system: ActorSystem) -> ActorRef[Any, Any]:
    ref = system.spawn(noted)
    tell_all(ref)
    return ref


async def handled_async(system: ActorSystem) -> ActorRef[Any, Any]:
    ref = system.spawn(noted_later)
    tell_all(ref)
    return ref


async def asked(system: ActorSystem) -> ActorRef[Any, Any]:
    ref = system.spawn(noted)
    assert await asyncio.gather(*(ref.ask(number) for number in range(3))) == [0, 1, 2]
    return ref


async def sent_with_backpressure(system: ActorSystem) -> ActorRef[Any, Any]:
    ref = system.spawn(noted, mailbox=SMALL)
    await asyncio.gather(*(ref.send(number) for number in range(5)))
    return ref


async def sent_where_the_new_is_dropped(system: ActorSystem) -> ActorRef[Any, Any]:
    ref = system.spawn(noted, mailbox=SMALL_DROP_NEW)
    await asyncio.gather(*(ref.send(number) for number in range(5)))
    return ref


async def sent_where_the_old_is_dropped(system: ActorSystem) -> ActorRef[Any, Any]:
    ref = system.spawn(noted, mailbox=SMALL_DROP_OLD)
    await asyncio.gather(*(ref.send(number) for number in range(5)))
    return ref


async def on_every_lane(system: ActorSystem) -> ActorRef[Any, Any]:
    ref = system.spawn(noted)
    for lane in Lane:
        ref.tell("x", lane=lane)
    return ref


async def failed_reply(system: ActorSystem) -> ActorRef[Any, Any]:
    ref: ActorRef[Any, Any] = system.spawn(lambda ctx, message: ctx.fail_reply(ValueError(message)))
    with pytest.raises(ValueError):
        await ref.ask("bad")
    return ref


async def failed(system: ActorSystem) -> ActorRef[Any, Any]:
    ref = system.spawn(fails)
    tell_all(ref)
    return ref


async def failed_async(system: ActorSystem) -> ActorRef[Any, Any]:
    ref = system.spawn(fails_later)
    tell_all(ref)
    return ref


async def failed_by_behavior(system: ActorSystem) -> ActorRef[Any, Any]:
    ref: ActorRef[Any, Any] = system.spawn(lambda ctx, message: Behaviors.failed(ValueError(message)))
    tell_all(ref)
    return ref


async def unhandled(system: ActorSystem) -> ActorRef[Any, Any]:
    ref = system.spawn(OnlyText)
    for message in ("text", 1, b"bytes"):
        ref.tell(message)
    return ref


async def unhandled_by_behavior(system: ActorSystem) -> ActorRef[Any, Any]:
    ref: ActorRef[Any, Any] = system.spawn(lambda ctx, message: Behaviors.unhandled)
    tell_all(ref)
    return ref


async def told_when_dead(system: ActorSystem) -> ActorRef[Any, Any]:
    ref = system.spawn(noted)
    ref.stop()
    await ref.terminated()
    tell_all(ref)
    return ref


async def queued_at_the_stop(system: ActorSystem) -> ActorRef[Any, Any]:
    ref = system.spawn(noted)
    tell_all(ref)
    ref.stop()  # an order overtakes what is queued
    return ref


async def queued_at_the_kill(system: ActorSystem) -> ActorRef[Any, Any]:
    ref = system.spawn(noted)
    tell_all(ref)
    ref.kill()
    return ref


async def stopped_after_queued(system: ActorSystem) -> ActorRef[Any, Any]:
    ref = system.spawn(noted)
    tell_all(ref)
    ref.stop(after_queued=True)
    tell_all(ref, 2)
    return ref


async def stopped_by_behavior(system: ActorSystem) -> ActorRef[Any, Any]:
    ref: ActorRef[Any, Any] = system.spawn(lambda ctx, message: Behaviors.stopped)
    tell_all(ref)
    return ref


async def dropped_at_the_stop(system: ActorSystem) -> ActorRef[Any, Any]:
    ref = system.spawn(noted, drain=Drain.DROP)
    tell_all(ref)
    ref.stop()
    return ref


async def redirected_at_the_stop(system: ActorSystem) -> ActorRef[Any, Any]:
    ref = system.spawn(noted, drain=Drain.REDIRECT(system.spawn(noted)))
    tell_all(ref)
    ref.stop()
    return ref


async def dropped_new(system: ActorSystem) -> ActorRef[Any, Any]:
    ref = system.spawn(noted, mailbox=SMALL_DROP_NEW)
    tell_all(ref)
    return ref


async def dropped_old(system: ActorSystem) -> ActorRef[Any, Any]:
    ref = system.spawn(noted, mailbox=SMALL_DROP_OLD)
    tell_all(ref)
    return ref


async def rejected(system: ActorSystem) -> ActorRef[Any, Any]:
    ref = system.spawn(noted, mailbox=SMALL)
    tell_all(ref)
    with pytest.raises(MailboxFull):
        await ref.ask("no room")
    return ref


async def rejected_from_a_thread(system: ActorSystem) -> ActorRef[Any, Any]:
    ref = system.spawn(noted, mailbox=SMALL)
    thread = threading.Thread(target=tell_all, args=(ref,))
    thread.start()
    thread.join()  # while this waits, the loop cannot take anything in
    return ref


async def dropped_from_a_thread(system: ActorSystem) -> ActorRef[Any, Any]:
    ref = system.spawn(noted, mailbox=SMALL_DROP_OLD)
    thread = threading.Thread(target=tell_all, args=(ref,))
    thread.start()
    thread.join()
    return ref


async def stashed(system: ActorSystem) -> ActorRef[Any, Any]:
    ref: ActorRef[Any, Any] = system.spawn(lambda ctx, message: ctx.stash())
    tell_all(ref)
    return ref


async def unstashed(system: ActorSystem) -> ActorRef[Any, Any]:
    def keep(ctx: Context, message: Any) -> None:
        if message < 2:
            ctx.stash()
        else:
            ctx.unstash_all()
            ctx.become(Behaviors.receive(noted))

    ref = system.spawn(keep)
    tell_all(ref)
    return ref


async def stopped_with_a_stash(system: ActorSystem) -> ActorRef[Any, Any]:
    ref = await stashed(system)
    await system.settle()
    ref.stop()
    return ref


async def late_reply(system: ActorSystem) -> ActorRef[Any, Any]:
    gate = asyncio.Event()

    async def late(ctx: Context, message: Any) -> Any:
        await gate.wait()
        return message

    ref = system.spawn(late)
    with pytest.raises(AskTimeout):
        await ref.ask("x", timeout=0.01)
    gate.set()
    return ref


async def forwarded(system: ActorSystem) -> ActorRef[Any, Any]:
    target = system.spawn(noted)
    ref: ActorRef[Any, Any] = system.spawn(lambda ctx, message: ctx.forward(target))
    tell_all(ref)
    return ref


TABLE: list[tuple[Callable[[ActorSystem], Awaitable[ActorRef[Any, Any]]], dict[str, int], dict[str, int]]] = [
    # what happened, the actor's ledger, and what the whole system's has besides
    (handled, {"sent": 3, "handled": 3}, {}),
    (handled_async, {"sent": 3, "handled": 3}, {}),
    (asked, {"sent": 3, "handled": 3}, {}),
    (sent_with_backpressure, {"sent": 5, "handled": 5}, {}),
    (sent_where_the_new_is_dropped, {"sent": 5, "handled": 5}, {}),
    (sent_where_the_old_is_dropped, {"sent": 5, "handled": 5}, {}),
    (on_every_lane, {"sent": 4, "handled": 4}, {}),
    (failed_reply, {"sent": 1, "handled": 1}, {}),
    (failed, {"sent": 3, "failed": 1, "dead_lettered": 2}, {}),
    (failed_async, {"sent": 3, "failed": 1, "dead_lettered": 2}, {}),
    (failed_by_behavior, {"sent": 3, "failed": 1, "dead_lettered": 2}, {}),
    (unhandled, {"sent": 3, "handled": 1, "unhandled": 2}, {}),
    (unhandled_by_behavior, {"sent": 3, "unhandled": 3}, {}),
    (told_when_dead, {"sent": 3, "dead_lettered": 3}, {}),
    (queued_at_the_stop, {"sent": 3, "dead_lettered": 3}, {}),
    (queued_at_the_kill, {"sent": 3, "dead_lettered": 3}, {}),
    (stopped_after_queued, {"sent": 5, "handled": 3, "dead_lettered": 2}, {}),
    (stopped_by_behavior, {"sent": 3, "handled": 1, "dead_lettered": 2}, {}),
    (dropped_at_the_stop, {"sent": 3, "dropped": 3}, {}),
    (redirected_at_the_stop, {"sent": 3, "redirected": 3}, {"sent": 3, "handled": 3}),
    (dropped_new, {"sent": 3, "handled": 2, "dropped": 1}, {}),
    (dropped_old, {"sent": 3, "handled": 2, "dropped": 1}, {}),
    (rejected, {"sent": 2, "handled": 2, "rejected": 2}, {}),
    (rejected_from_a_thread, {"sent": 2, "handled": 2, "rejected": 1}, {}),
    (dropped_from_a_thread, {"sent": 3, "handled": 2, "dropped": 1}, {}),
    (stashed, {"sent": 3, "queued": 3}, {}),
    (unstashed, {"sent": 3, "handled": 3}, {}),
    (stopped_with_a_stash, {"sent": 3, "dead_lettered": 3}, {}),
    (late_reply, {"sent": 1, "handled": 1, "late_replies": 1}, {}),
    (forwarded, {"sent": 3, "handled": 3}, {"sent": 3, "handled": 3}),
]


@pytest.mark.parametrize(("act", "own", "more"), TABLE, ids=[row[0].__name__ for row in TABLE])  # B4
async def test_each_message_ends_in_one_column(
    system: ActorSystem, act: Any, own: dict[str, int], more: dict[str, int]
) -> None:
    refs: list[ActorRef[Any, Any]] = []
    total = {name: own.get(name, 0) + more.get(name, 0) for name in own | more}

    def at_the_end(before: dict[str, int]) -> dict[str, int]:
        """What was queued when the system stopped is a dead letter."""
        after = dict(before)
        left = after.pop("queued", 0)
        if left:
            after["dead_lettered"] = after.get("dead_lettered", 0) + left
        return after

    ref = await act(system)
    refs.append(ref)
    await system.settle()
    assert columns(assert_ledger_balanced(system, ref)) == own
    assert columns(assert_ledger_balanced(system)) == total
    assert system.snapshot().ledger == system.ledger()
    # The same, seen from another thread.
    assert columns(await asyncio.to_thread(system.ledger, ref)) == own
    assert columns(await asyncio.to_thread(system.ledger)) == total
    await system.shutdown()
    assert columns(assert_ledger_balanced(system, refs[0])) == at_the_end(own)
    assert columns(system.ledger()) == at_the_end(total)
