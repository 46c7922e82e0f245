"""A stash that is full, an actor that fails or stops over it, and calls at the wrong moment: nothing is lost."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from greenroom import (
    Actor,
    ActorRef,
    ActorSystem,
    ActorTerminated,
    Behaviors,
    Context,
    Drain,
    ExitKind,
    MailboxConfig,
)
from greenroom.errors import ConfigError, MessageDropped, NoMessage, StashFull
from greenroom.testing import assert_ledger_balanced
from tests.conformance.cast import Listener
from tests.conformance.doors import Door
from tests.gates import standstill


@pytest.mark.parametrize("suspends", [False, True])
async def test_a_full_stash_is_an_error_and_nothing_is_lost(system: ActorSystem, suspends: bool) -> None:  # case 51
    heard: list[Any] = []
    full: list[Any] = []

    class Small(Actor[Any, Any]):
        def pre_start(self) -> None:
            self.ctx.stash_capacity = 2
            self.done = False

        async def receive(self, message: Any) -> Any:
            if suspends:
                await asyncio.sleep(0)
            if message == "open":
                self.done = True
                self.ctx.unstash_all()
            elif self.done:
                heard.append(message)
            else:
                try:
                    self.ctx.stash()
                except StashFull as error:
                    full.append((message, error.ref, error.capacity, error.code))
                    return "no room"
            return "well"

    ref = system.spawn(Small)
    assert await ref.ask("open") == "well"
    heard.clear()
    ref = system.spawn(Small)
    ref << 1 << 2
    assert await ref.ask(3) == "no room"  # still in hand: it could be answered
    assert full == [(3, ref, 2, "stash_full")]
    ledger = assert_ledger_balanced(system, ref)
    assert (ledger.queued, ledger.handled) == (2, 1)
    ref << "open" << 4
    await system.settle()
    assert heard == [1, 2, 4]
    assert assert_ledger_balanced(system, ref).handled == 5


async def test_a_full_stash_that_nobody_catches_fails_the_actor_and_loses_nothing(
    system: ActorSystem,
) -> None:  # case 51
    ref = system.spawn(Door, [], 2)
    asks = [ref.ask(n) for n in range(4)]
    reason = await ref.terminated()
    assert reason.kind is ExitKind.FAIL
    assert isinstance(reason.cause, StashFull)
    with pytest.raises(StashFull):
        await asks[2]
    for ask in (asks[0], asks[1], asks[3]):
        with pytest.raises(ActorTerminated) as caught:
            await ask
        assert caught.value.reason == reason
    ledger = assert_ledger_balanced(system, ref)
    assert (ledger.failed, ledger.dead_lettered, ledger.queued) == (1, 3, 0)
    assert [letter.message for letter in system.dead_letters.recent()] == [0, 1, 3]


@pytest.mark.parametrize("capacity", [0, -1, 1.5, True, "many"])
async def test_a_capacity_that_cannot_be_is_refused(system: ActorSystem, capacity: Any) -> None:  # J9
    ref = system.spawn(Door, [], capacity)
    with pytest.raises(ConfigError):
        await ref.started()
    made = system.spawn(Behaviors.with_stash(capacity, lambda stash: Behaviors.receive(lambda ctx, message: None)))
    with pytest.raises(ConfigError):
        await made.started()


@pytest.mark.parametrize("suspends", [False, True])
async def test_a_message_that_is_stashed_and_then_raises_is_in_one_column(
    system: ActorSystem, suspends: bool
) -> None:  # case 51, B4
    async def receive(ctx: Context, message: Any) -> None:
        ctx.stash()
        if suspends:
            await asyncio.sleep(0)
        raise ValueError("bad")

    ref: ActorRef[Any, Any] = system.spawn(receive)
    asked = ref.ask("message")
    ref.tell("another")
    reason = await ref.terminated()
    assert isinstance(reason.cause, ValueError)
    with pytest.raises((ActorTerminated, ValueError)):
        await asked
    ledger = assert_ledger_balanced(system, ref)
    assert (ledger.sent, ledger.handled, ledger.queued, ledger.in_hand) == (2, 0, 0, 0)
    assert ledger.failed + ledger.dead_lettered == 2


ENDS: dict[str, Callable[[Context], Any]] = {
    "stop": lambda ctx: ctx.stop(),
    "stop_from_outside": lambda ctx: ctx.self.stop(),
    "kill": lambda ctx: ctx.self.kill(),
    "stopped": lambda ctx: Behaviors.stopped,
    "failed": lambda ctx: Behaviors.failed(ValueError("bad")),
}


@pytest.mark.parametrize("way", ENDS.values(), ids=ENDS)
@pytest.mark.parametrize(
    ("drain", "column", "error"),
    [
        (Drain.DEAD_LETTER, "dead_lettered", ActorTerminated),
        (Drain.DROP, "dropped", MessageDropped),
        ("redirect", "redirected", None),
    ],
    ids=["dead_letter", "drop", "redirect"],
)
async def test_what_is_stashed_when_an_actor_stops_is_drained_first(
    system: ActorSystem, way: Callable[[Context], Any], drain: Any, column: str, error: Any
) -> None:  # case 51, M10, B4
    heard: list[Any] = []

    def receive(ctx: Context, message: Any) -> Any:
        ctx.stash()
        return way(ctx) if message == "last" else None

    heir = system.spawn(Listener, heard)
    ref = system.spawn(receive, drain=Drain.REDIRECT(heir) if drain == "redirect" else drain)
    with standstill(system):
        asks = [ref.ask(message) for message in (1, 2, "last", "queued")]
    await ref.terminated()
    for ask in asks:
        if error is None:
            await ask
        else:
            with pytest.raises(error):
                await ask
    await system.settle()
    everything = [1, 2, "last", "queued"]
    assert heard == (everything if drain == "redirect" else [])
    if drain is Drain.DEAD_LETTER:
        assert [letter.message for letter in system.dead_letters.recent()] == everything
    ledger = assert_ledger_balanced(system, ref)
    assert (ledger.sent, getattr(ledger, column), ledger.failed, ledger.handled) == (4, 4, 0, 0)


async def test_there_must_be_a_message_to_put_aside(system: ActorSystem) -> None:  # J9
    codes: list[str] = []

    def attempt(ctx: Context) -> None:
        try:
            ctx.stash()
        except NoMessage as error:
            codes.append(error.code)

    class Eager(Actor[Any, None]):
        def pre_start(self) -> None:
            attempt(self.ctx)
            assert self.ctx.unstash_all() == 0

        def receive(self, message: Any) -> None:
            self.ctx.stash()
            attempt(self.ctx)  # it is put aside already

        def pre_stop(self) -> None:
            attempt(self.ctx)

    ref = system.spawn(Eager)
    ref.tell("once")
    await system.settle()
    assert system.ledger(ref).queued == 1
    ref.stop()
    await ref.terminated()
    assert codes == ["no_message"] * 3
    assert assert_ledger_balanced(system, ref).dead_lettered == 1


async def test_a_priority_that_cannot_be_told_any_more_loses_nothing_put_aside(
    system: ActorSystem,
) -> None:  # cases 4, 51, B4
    broken = False

    def key(message: Any) -> int:
        if broken and message == 2:
            raise ValueError("no key any more")
        return 0

    broken = False
    ref = system.spawn(Door, [], mailbox=MailboxConfig(priority=key))
    ref << 1 << 2 << 3
    await system.settle()
    broken = True
    ref.tell("open")
    await system.settle()
    if ref.is_alive:
        ref.stop()
    await ref.terminated()
    ledger = assert_ledger_balanced(system, ref)
    assert (ledger.sent, ledger.queued) == (4, 0)
