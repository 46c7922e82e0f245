"""Waiting for an actor's start and end through its ref, and looking into it, from any thread (B7)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import pytest

from greenroom import (
    ActorSystem,
    ActorTerminated,
    ExitKind,
    ExitReason,
    MailboxConfig,
    State,
)
from tests.actor.diaries import Diary, flavours
from tests.actor.held import Held, reach

if TYPE_CHECKING:
    from tests.conftest import Play

DEADLINE = 120.0


async def here(wait: Callable[[], Awaitable[Any]]) -> Any:
    return await wait()


async def elsewhere(wait: Callable[[], Awaitable[Any]]) -> Any:
    """Await it on another thread's asyncio loop."""

    async def main() -> Any:
        async with asyncio.timeout(DEADLINE):
            return await wait()

    return await asyncio.to_thread(asyncio.run, main())


places = pytest.mark.parametrize("place", [here, elsewhere])
Place = Callable[[Callable[[], Awaitable[Any]]], Awaitable[Any]]


# Waiting


@places
async def test_started_returns_when_the_actor_runs(system: ActorSystem, place: Place) -> None:
    notes: list[str] = []
    gate = asyncio.Event()
    ref = system.spawn(Held, notes, gate, "pre_start")
    waiting = asyncio.ensure_future(place(ref.started))
    await reach(notes, "pre_start")
    assert ref.state is State.STARTING
    assert not waiting.done()
    gate.set()
    assert await waiting is None
    assert ref.is_alive
    assert await place(ref.started) is None  # at once, now


@places
@flavours
async def test_started_raises_what_prevented_the_start(system: ActorSystem, place: Place, diary: type[Diary]) -> None:
    error = LookupError("no start")
    ref = system.spawn(diary, [], "pre_start", error)
    waiting = asyncio.ensure_future(place(ref.started))
    with pytest.raises(LookupError, match="no start"):
        await waiting
    await ref.terminated()
    with pytest.raises(LookupError, match="no start"):
        await place(ref.started)


@places
@pytest.mark.parametrize("ending", ["stop", "kill"])
async def test_started_of_an_actor_that_was_ended_before_says_so(
    system: ActorSystem, place: Place, ending: str
) -> None:
    notes: list[str] = []
    gate = asyncio.Event()
    ref = system.spawn(Held, notes, gate, "pre_start", name="held")
    waiting = asyncio.ensure_future(place(ref.started))
    await reach(notes, "pre_start")
    if ending == "kill":
        ref.kill()
        with pytest.raises(ActorTerminated) as caught:
            await waiting
        error = caught.value
        assert (error.code, error.ref) == ("actor_terminated", ref)
        assert "/held" in str(error)
        assert (await ref.terminated()).kind is ExitKind.KILLED
    else:
        ref.stop()  # an order waits for what is in hand: the start
        gate.set()
        await asyncio.wait([waiting])
        waiting.exception()
        assert (await ref.terminated()).kind is ExitKind.NORMAL
    with pytest.raises(ActorTerminated):
        await place(ref.started)


@pytest.mark.config(history=True)
async def test_started_does_not_call_running_what_never_ran(system: ActorSystem) -> None:
    """Its start failed, and its end takes its time: it is STOPPING when somebody comes to wait for its start."""
    notes: list[str] = []
    gate = asyncio.Event()

    class Stillborn(Held):
        async def pre_start(self) -> None:
            raise LookupError("no start")

    ref = system.spawn(Stillborn, notes, gate, "post_stop")
    await reach(notes, "post_stop")
    waiting = asyncio.ensure_future(ref.started())
    await asyncio.sleep(0)
    gate.set()
    with pytest.raises(LookupError, match="no start"):
        await waiting
    assert State.RUNNING not in ref.history


@places
@pytest.mark.parametrize(
    ("ending", "kind"), [("stop", ExitKind.NORMAL), ("kill", ExitKind.KILLED), ("fail", ExitKind.FAIL)]
)
async def test_terminated_returns_how_it_ended_and_never_raises(
    system: ActorSystem, place: Place, ending: str, kind: ExitKind
) -> None:
    cause = ValueError("the cause")
    ref = system.spawn(Diary, [])
    waiting = [asyncio.ensure_future(place(ref.terminated)) for _ in range(3)]
    await ref.started()
    if ending == "stop":
        ref.stop()
    elif ending == "kill":
        ref.kill()
    else:
        ref.fail(cause)
    reasons = [await one for one in waiting]
    reasons.append(await place(ref.terminated))  # also when it is over
    for reason in reasons:
        assert isinstance(reason, ExitReason)
        assert reason.kind is kind
        assert reason.cause is (cause if ending == "fail" else None)


@places
def test_those_who_wait_are_told_when_the_system_ends(play: Play, place: Place) -> None:
    waiting: list[asyncio.Future[Any]] = []

    async def main() -> None:
        async with asyncio.timeout(DEADLINE), ActorSystem("test") as system:
            ref = system.spawn(Diary, [])
            await ref.started()
            waiting.append(asyncio.ensure_future(place(ref.terminated)))
            await asyncio.sleep(0)
        assert (await waiting[0]).kind is ExitKind.SHUTDOWN
        assert (await place(ref.terminated)).kind is ExitKind.SHUTDOWN  # and afterwards
        with pytest.raises(ActorTerminated):
            await place(ref.started)
        with pytest.raises(ActorTerminated):
            await place(ref.inspect)

    play.bare(main)


async def test_a_wait_that_is_cancelled_leaves_nothing_behind(system: ActorSystem) -> None:
    ref = system.spawn(Diary, [])
    await ref.started()
    for _ in range(3):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0):
                await ref.terminated()
    ref.stop()
    assert (await ref.terminated()).kind is ExitKind.NORMAL


async def test_a_waiter_whose_loop_is_gone_troubles_nobody(system: ActorSystem) -> None:
    ref = system.spawn(Diary, [])
    await ref.started()

    async def give_up() -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.0):
                await ref.terminated()

    await asyncio.to_thread(asyncio.run, give_up())
    ref.stop()
    await ref.terminated()


# Inspecting


@places
async def test_inspect_looks_between_two_messages_without_being_one(system: ActorSystem, place: Place) -> None:
    notes: list[str] = []
    ref = system.spawn(Held, notes, asyncio.Event(), "", mailbox=MailboxConfig(capacity=1))
    assert await place(ref.inspect) == {"notes": 1}  # not before it has started
    ref.tell("fills the mailbox")
    seen = await place(ref.inspect)
    assert seen["notes"] in (1, 2)
    assert system.ledger(ref).sent == 1


@places
async def test_inspect_of_an_actor_that_has_ended_says_so(system: ActorSystem, place: Place) -> None:
    ref = system.spawn(Diary, [], name="ended")
    ref.stop()
    await ref.terminated()
    with pytest.raises(ActorTerminated) as caught:
        await place(ref.inspect)
    assert caught.value.code == "actor_terminated"
    assert "/ended" in str(caught.value)


async def test_inspect_of_an_actor_that_ends_meanwhile_says_so(system: ActorSystem) -> None:
    notes: list[str] = []
    ref = system.spawn(Held, notes, asyncio.Event(), "receive")
    ref.tell("suspends it for ever")
    await reach(notes, "receive")
    ref.kill()  # which acts before the look
    with pytest.raises(ActorTerminated):
        await ref.inspect()
