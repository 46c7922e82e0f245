"""`ActorRef`: what it says of the actor, how messages are sent through it, and how an actor is awaited and ended."""

from __future__ import annotations

import asyncio
import gc
import pickle
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import pytest

from greenroom import (
    Actor,
    ActorRef,
    ActorSystem,
    ActorTerminated,
    Context,
    ExitKind,
    ExitReason,
    Lane,
    MailboxConfig,
    State,
    SystemFailed,
)
from greenroom.errors import RefGone
from greenroom.testing import TestProbe
from tests.actor.diaries import Diary, flavours

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.conftest import Play


class Held(Actor[Any, Any]):
    """Starts, handles and ends only when it is let."""

    def __init__(self, notes: list[str], gate: asyncio.Event, where: str) -> None:
        self.notes = notes
        self.gate = gate
        self.where = where

    async def pass_gate(self, where: str) -> None:
        self.notes.append(where)
        if where == self.where:
            await self.gate.wait()

    async def pre_start(self) -> None:
        await self.pass_gate("pre_start")

    async def receive(self, message: Any) -> Any:
        await self.pass_gate("receive")
        return message

    async def pre_stop(self) -> None:
        await self.pass_gate("pre_stop")

    async def post_stop(self) -> None:
        await self.pass_gate("post_stop")

    def inspect(self, *items: str) -> dict[str, Any]:
        return {"notes": len(self.notes)}


async def reach(notes: list[str], where: str) -> None:
    while where not in notes:  # noqa: ASYNC110 - an event would have to be set by each hook of `Held`
        await asyncio.sleep(0)


CONTRACT = [
    *("tell", "__lshift__", "send", "ask", "ask_sync", "stop", "kill", "fail", "started", "terminated", "inspect"),
    *("send_sync", "started_sync", "terminated_sync", "inspect_sync"),
    *("state", "id", "name", "path", "is_alive", "__hash__", "__eq__", "__reduce__"),
]


@pytest.mark.parametrize("name", CONTRACT)
def test_a_ref_has_what_the_contract_says(name: str) -> None:  # B7
    assert hasattr(ActorRef, name)
    assert name.startswith("__") or getattr(ActorRef, name).__doc__, f"ActorRef.{name} says nothing of itself"


class Mirror(Actor[Any, Any]):
    def receive(self, message: Any) -> Any:
        return message(self.ctx) if callable(message) else message


class Hearing(Actor[Any, Any]):
    """Hands everything on, with its sender."""

    def __init__(self, to: list[Any]) -> None:
        self.to = to

    def receive(self, message: Any) -> None:
        self.to.append((message, self.ctx.sender))


# What it says of the actor
async def test_a_ref_says_who_its_actor_is(system: ActorSystem) -> None:  # B7
    ref = system.spawn(Mirror, name="parent")
    child = await ref.ask(lambda ctx: ctx.spawn(Mirror, name="child"))
    nameless = await child.ask(lambda ctx: ctx.spawn(Mirror))
    assert (ref.name, ref.path, ref.parent) == ("parent", "/parent", None)
    assert (child.name, child.path, child.parent) == ("child", "/parent/child", ref)
    assert nameless.path == f"/parent/child/{nameless.name}"
    assert str(child) == "/parent/child"
    assert "/parent/child" in repr(child)
    assert "test" in repr(child)
    assert len({ref.id, child.id, nameless.id}) == 3
    assert system.actor(child.id) == child


async def test_an_unpickled_ref_does_not_make_up_how_its_actor_ended(system: ActorSystem) -> None:  # B7
    ref = system.spawn(Mirror)
    ref.fail(ValueError("really"))
    assert (await ref.terminated()).kind is ExitKind.FAIL
    back = pickle.loads(pickle.dumps(ref))
    assert (await back.terminated()).kind is not ExitKind.NORMAL


async def test_a_new_system_of_the_same_name_does_not_adopt_old_refs(play: Play) -> None:  # B7
    kept: list[bytes] = []
    async with ActorSystem("same") as system:
        kept.append(pickle.dumps(system.spawn(Mirror, name="me")))
    del system
    gc.collect()
    async with ActorSystem("same") as again:
        again.spawn(Mirror, name="me")
        with pytest.raises(RefGone):
            pickle.loads(kept[0])


async def test_a_ref_may_travel_inside_messages(system: ActorSystem) -> None:  # B7
    def introducer(ctx: Context, message: tuple[ActorRef[Any, Any], ActorRef[Any, Any]]) -> None:
        first, second = message
        first.tell(second)

    probe = TestProbe(system)
    other = system.spawn(Mirror)
    system.spawn(introducer).tell((probe.ref, other))
    assert await probe.receive() == other


# Sending
async def test_tell_and_shift_send_in_order_and_shift_can_be_chained(system: ActorSystem) -> None:  # B7
    heard: list[Any] = []
    ref = system.spawn(Hearing, heard)
    assert ref.tell(1) is None  # type: ignore[func-returns-value]
    assert (ref << 2 << 3) == ref
    await system.settle()
    assert heard == [(1, None), (2, None), (3, None)]


@pytest.mark.parametrize(
    "tell",
    [
        lambda ref: ref.tell("it"),
        lambda ref: ref.tell(message="it"),
        lambda ref: ref.tell(*["it"]),
        lambda ref: ref.tell("it", lane=Lane.DATA),
        lambda ref: ref.tell("it", sender=None),
        lambda ref: ref.tell("it", sender=None, lane=Lane.CONTROL),
        lambda ref: ActorRef.tell(ref, "it"),
        lambda ref: ActorRef.tell(ref, message="it", lane=Lane.LOG),
        lambda ref: list(map(ref.tell, ["it"])) == [None],
    ],
)
async def test_a_tell_may_be_written_in_any_way_that_its_signature_allows(
    tell: Callable[[Any], Any], system: ActorSystem
) -> None:  # B7
    heard: list[Any] = []
    assert tell(system.spawn(Hearing, heard)) in (None, True)
    await system.settle()
    assert heard == [("it", None)]


@pytest.mark.parametrize(
    "tell",
    [
        lambda ref: ref.tell(),
        lambda ref: ref.tell("it", Lane.DATA),
        lambda ref: ref.tell("it", message="it"),
        lambda ref: ref.tell("it", to="him"),
        lambda ref: ref.tell(lane=Lane.DATA),
        lambda ref: ActorRef.tell("it"),  # type: ignore[call-arg, arg-type]
    ],
)
async def test_a_tell_that_its_signature_does_not_allow_is_an_error_and_tells_nothing(
    tell: Callable[[Any], Any], system: ActorSystem
) -> None:  # B7
    heard: list[Any] = []
    ref = system.spawn(Hearing, heard)
    with pytest.raises(TypeError):
        tell(ref)
    await system.settle()
    assert heard == []


async def test_a_message_may_be_anything_at_all(system: ActorSystem) -> None:  # B7
    heard: list[Any] = []
    odd: list[Any] = [None, False, 0, "", (), NotImplemented, Ellipsis, ValueError("x"), int, heard, object()]
    ref = system.spawn(Hearing, heard)
    for message in odd:
        ref.tell(message)
    await system.settle()
    assert all(got is sent for (got, _), sent in zip(heard, odd, strict=True))  # by reference
    heard.clear()


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
async def test_started_returns_when_the_actor_runs(system: ActorSystem, place: Place) -> None:  # B7
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
async def test_started_raises_what_prevented_the_start(
    system: ActorSystem, place: Place, diary: type[Diary]
) -> None:  # B7
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
) -> None:  # B7
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
async def test_started_does_not_call_running_what_never_ran(system: ActorSystem) -> None:  # B7
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
) -> None:  # B7
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
async def test_those_who_wait_are_told_when_the_system_ends(play: Play, place: Place) -> None:  # B7
    waiting: list[asyncio.Future[Any]] = []
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


async def test_a_wait_that_is_cancelled_leaves_nothing_behind(system: ActorSystem) -> None:  # B7
    ref = system.spawn(Diary, [])
    await ref.started()
    for _ in range(3):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0):
                await ref.terminated()
    ref.stop()
    assert (await ref.terminated()).kind is ExitKind.NORMAL


async def test_a_waiter_whose_loop_is_gone_troubles_nobody(system: ActorSystem) -> None:  # B7
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
async def test_inspect_looks_between_two_messages_without_being_one(system: ActorSystem, place: Place) -> None:  # B7
    notes: list[str] = []
    ref = system.spawn(Held, notes, asyncio.Event(), "", mailbox=MailboxConfig(capacity=1))
    assert await place(ref.inspect) == {"notes": 1}  # not before it has started
    ref.tell("fills the mailbox")
    seen = await place(ref.inspect)
    assert seen["notes"] in (1, 2)
    assert system.ledger(ref).sent == 1


@places
async def test_inspect_of_an_actor_that_has_ended_says_so(system: ActorSystem, place: Place) -> None:  # B7
    ref = system.spawn(Diary, [], name="ended")
    ref.stop()
    await ref.terminated()
    with pytest.raises(ActorTerminated) as caught:
        await place(ref.inspect)
    assert caught.value.code == "actor_terminated"
    assert "/ended" in str(caught.value)


async def test_inspect_of_an_actor_that_ends_meanwhile_says_so(system: ActorSystem) -> None:  # B7
    notes: list[str] = []
    ref = system.spawn(Held, notes, asyncio.Event(), "receive")
    ref.tell("suspends it for ever")
    await reach(notes, "receive")
    ref.kill()  # which acts before the look
    with pytest.raises(ActorTerminated):
        await ref.inspect()


@pytest.mark.parametrize("cause", [KeyboardInterrupt(), SystemExit(3)])
async def test_a_fail_with_what_ends_a_program_ends_the_system(play: Play, cause: BaseException) -> None:  # J5
    async def block() -> None:
        async with asyncio.timeout(DEADLINE), ActorSystem("test") as system:
            system.spawn(Diary, []).fail(cause)
            await system.stopped()

    with pytest.raises(SystemFailed) as caught:
        await block()
    assert caught.value.__cause__ is cause


async def test_an_actor_may_end_itself_through_its_own_ref(system: ActorSystem) -> None:  # J5
    def handler(ctx: Context, message: str) -> str:
        getattr(ctx.self, message)()
        return "after the message in hand"

    for order, kind in (("stop", ExitKind.NORMAL), ("kill", ExitKind.KILLED)):
        ref: ActorRef[Any, Any] = system.spawn(handler)
        assert await ref.ask(order) == "after the message in hand"
        assert (await ref.terminated()).kind is kind
