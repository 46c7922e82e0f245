"""Calls at the wrong moment, or with what only looks right: refused with a word of what to do, or just understood."""

from __future__ import annotations

import asyncio
import gc
import pickle
import weakref
from enum import Enum, StrEnum
from typing import Any

import pytest

from greenroom import Actor, ActorSystem, Behaviors, Context, ExitKind, Lane, MailboxConfig
from greenroom.errors import BadArgument, GreenroomError, NoMessage, RefGone
from greenroom.testing import ManualClock


class Echo(Actor[Any, Any]):
    def receive(self, message: Any) -> Any:
        return message


# -- stash


async def test_a_message_is_put_aside_once(system: ActorSystem) -> None:  # case 51, B4
    got: list[Any] = []
    refused: list[Any] = []

    def make(stash: Any) -> Any:
        def handle(ctx: Context, message: Any) -> None:
            if message == "go":
                stash.unstash_all()
                return
            got.append(message)
            if len(got) == 1:
                stash.put()
                try:
                    stash.put()
                except NoMessage as exc:
                    refused.append(exc)

        return Behaviors.receive(handle)

    ref = system.spawn(Behaviors.with_stash(10, make))
    ref.tell(1)
    await system.settle()
    ref.tell("go")
    await system.settle()
    assert got == [1, 1]
    assert len(refused) == 1
    assert system.ledger(ref).handled == system.ledger(ref).sent == 2


@pytest.mark.parametrize("where", ["in setup", "in another actor", "outside"])
async def test_nothing_can_be_put_aside_where_there_is_no_message_of_one_s_own(
    system: ActorSystem, where: str
) -> None:  # J9
    stashes: list[Any] = []
    refused: list[BaseException] = []

    def attempt() -> None:
        try:
            stashes[0].put()
        except NoMessage as exc:
            refused.append(exc)

    def make(stash: Any) -> Any:
        stashes.append(stash)
        if where == "in setup":
            attempt()
        return Behaviors.receive(lambda ctx, message: message)

    owner = system.spawn(Behaviors.with_stash(10, make))
    assert await owner.ask(1) == 1
    if where == "in another actor":
        await system.spawn(lambda ctx, message: attempt()).ask(2)
    elif where == "outside":
        attempt()
    assert len(refused) == 1


async def test_a_later_stash_has_the_capacity_it_was_given(system: ActorSystem) -> None:
    seen: list[int] = []

    def note(stash: Any) -> Any:
        seen.append(stash.capacity)
        return Behaviors.receive(lambda ctx, message: Behaviors.with_stash(3, note))

    ref = system.spawn(Behaviors.with_stash(50, note))
    ref.tell("again")
    await system.settle()
    assert seen == [50, 3]


# -- behaviors


async def test_a_behavior_is_returned_from_its_setup_and_not_become(system: ActorSystem) -> None:  # M13
    def make(ctx: Context) -> Any:
        ctx.become(lambda ctx, message: "other")
        return Behaviors.receive(lambda ctx, message: "returned")

    with pytest.raises(BadArgument, match="return it from the setup"):
        await system.spawn(Behaviors.setup(make)).started()


@pytest.mark.parametrize(
    ("behavior", "kind"), [(Behaviors.stopped, ExitKind.NORMAL), (Behaviors.failed(ValueError("no")), ExitKind.FAIL)]
)
async def test_a_setup_may_end_what_it_sets_up(system: ActorSystem, behavior: Any, kind: ExitKind) -> None:  # M13
    ref = system.spawn(Behaviors.setup(lambda ctx: behavior))
    ref.tell("never handled")
    assert (await ref.terminated()).kind is kind
    assert system.ledger(ref).dead_lettered == 1


async def test_an_actor_that_looks_for_its_context_too_early_is_told_when_it_comes(system: ActorSystem) -> None:  # J9
    class Hasty(Echo):
        def __init__(self) -> None:
            self.me = self.ctx.self

    with pytest.raises(AttributeError) as caught:
        await system.spawn(Hasty).started()
    assert any("pre_start" in note for note in caught.value.__notes__)


# -- names


class Role(StrEnum):
    WORKER = "worker"


class OldRole(str, Enum):  # noqa: UP042 - as many programs still have it
    WORKER = "worker"


@pytest.mark.parametrize("role", [Role.WORKER, OldRole.WORKER])
async def test_a_name_may_be_a_member_of_an_enum(system: ActorSystem, role: Any) -> None:  # case 60
    for _ in range(2):
        ref = system.spawn(Echo, name=role)
        assert (ref.name, ref.path) == ("worker", "/worker")
        assert system.actor("worker") == ref
        ref.stop()
        await ref.terminated()
        assert system.actor("worker") is None


async def test_an_unpickled_ref_of_one_that_is_gone_knows_its_living_parent(system: ActorSystem) -> None:  # J14
    parent = system.spawn(Echo, name="parent")
    child = system.spawn(Echo, name="child", parent=parent)
    text = pickle.dumps(child)
    child.stop()
    await child.terminated()
    del child
    await system.settle()
    gc.collect()
    ghost = pickle.loads(text)
    assert (ghost.path, ghost.parent, ghost.is_alive) == ("/parent/child", parent, False)
    reason = await ghost.terminated()
    assert isinstance(reason.cause, RefGone)
    assert "has ended" in str(reason.cause)


# -- lanes


@pytest.mark.parametrize("room", [1, 2])
@pytest.mark.parametrize("lane", [1, Lane.DATA])
async def test_send_takes_a_lane_as_tell_does(system: ActorSystem, lane: Any, room: int) -> None:
    ref = system.spawn(Echo, mailbox=MailboxConfig(capacity=room))
    await ref.send(1, lane=lane)
    await ref.send(2, lane=lane)
    await system.settle()
    assert system.ledger(ref).handled == 2


@pytest.mark.parametrize("lane", [99, "control", None])
@pytest.mark.parametrize("waiting", [False, True])
async def test_what_is_no_lane_is_refused_by_tell_and_send_alike(system: ActorSystem, waiting: bool, lane: Any) -> None:
    ref = system.spawn(Echo)

    async def send() -> None:
        if waiting:
            await ref.send(1, lane=lane)
        else:
            ref.tell(1, lane=lane)

    with pytest.raises(GreenroomError, match="lane"):
        await send()
    assert system.ledger(ref).sent == 0


# -- timers and observers


async def test_keys_of_timers_that_are_over_are_forgotten(system: ActorSystem, clock: ManualClock) -> None:  # J11

    class Key:
        pass

    weak: list[weakref.ref[Key]] = []

    def start(ctx: Context) -> None:
        key = Key()
        weak.append(weakref.ref(key))
        ctx.timers.start(key, 1.0, "tick")

    ref = system.spawn(lambda ctx, message: None if message == "tick" else start(ctx))
    for number in range(500):
        ref.tell(number)
        await clock.advance(2.0)
    gc.collect()
    assert sum(key() is not None for key in weak) < 100


async def blocks_at_once(ctx: Context, clock: ManualClock) -> None:
    clock.step(2.0)


async def blocks_later(ctx: Context, clock: ManualClock) -> None:
    await asyncio.sleep(0)
    clock.step(2.0)


def blocks_and_raises(ctx: Context, clock: ManualClock) -> None:
    clock.step(2.0)
    raise ValueError("after a while")


@pytest.mark.parametrize("handler", [blocks_at_once, blocks_later, blocks_and_raises])
@pytest.mark.config(slow_after=1.0)
async def test_a_slow_handler_is_told_of_however_it_is_slow(
    system: ActorSystem, clock: ManualClock, handler: Any
) -> None:  # J16
    told: list[tuple[Any, ...]] = []

    class Observer:
        def slow_handler(self, ref: Any, message: Any, seconds: float) -> None:
            told.append((ref, message, seconds))

    system.observers.add(Observer())
    ref = system.spawn(handler)
    ref.tell(clock)
    await system.settle()
    assert told == [(ref, clock, 2.0)]
