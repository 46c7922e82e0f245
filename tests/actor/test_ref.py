"""`ActorRef`: an actor's stable address (B7). What it says of the actor, and how messages are sent through it."""

from __future__ import annotations

import asyncio
import copy
import gc
import pickle
import threading
from typing import TYPE_CHECKING, Any

import pytest

from greenroom import (
    Actor,
    ActorRef,
    ActorSystem,
    Context,
    ExitKind,
    Lane,
    MailboxConfig,
    MailboxFull,
    Overflow,
    State,
)
from greenroom.errors import RefGone
from greenroom.testing import TestProbe

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.conftest import Play

CONTRACT = [
    *("tell", "__lshift__", "send", "ask", "ask_sync", "stop", "kill", "fail", "started", "terminated", "inspect"),
    *("send_sync", "started_sync", "terminated_sync", "inspect_sync"),
    *("state", "id", "name", "path", "is_alive", "__hash__", "__eq__", "__reduce__"),
]


@pytest.mark.parametrize("name", CONTRACT)
def test_a_ref_has_what_the_contract_says(name: str) -> None:
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


async def test_a_ref_says_who_its_actor_is(system: ActorSystem) -> None:
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


async def test_a_ref_outlives_its_actor_and_says_the_same(system: ActorSystem) -> None:
    parent = system.spawn(Mirror, name="parent")
    ref = await parent.ask(lambda ctx: ctx.spawn(Mirror, name="child"))
    before = (ref.name, ref.path, ref.parent, ref.id, str(ref), repr(ref), hash(ref))
    assert (ref.is_alive, ref.state) == (True, State.RUNNING)
    parent.stop()
    await parent.terminated()
    assert (ref.is_alive, ref.state) == (False, State.TERMINATED)
    assert (ref.name, ref.path, ref.parent, ref.id, str(ref), repr(ref), hash(ref)) == before
    assert system.actor(ref.id) is None


async def test_the_state_follows_the_life(system: ActorSystem) -> None:  # M1
    states: dict[str, State] = {}

    class Reporting(Actor[str, None]):
        def __init__(self) -> None:
            states["constructor"] = ref.state

        async def pre_start(self) -> None:
            await asyncio.sleep(0)
            states["pre_start"] = ref.state

        def post_start(self) -> None:
            states["post_start"] = ref.state

        def receive(self, message: str) -> None:
            states["receive"] = ref.state

        async def pre_stop(self) -> None:
            await asyncio.sleep(0)
            states["pre_stop"] = ref.state

        def post_stop(self) -> None:
            states["post_stop"] = ref.state
            assert ref.is_alive  # until it has ended

    ref = system.spawn(Reporting)
    await ref.ask("x")
    ref.stop()
    await ref.terminated()
    starting, stopping = State.STARTING, State.STOPPING
    assert states == {
        "constructor": starting,
        "pre_start": starting,
        "post_start": starting,
        "receive": State.RUNNING,
        "pre_stop": stopping,
        "post_stop": stopping,
    }


# Equality, hashing, pickling


async def test_refs_of_one_actor_are_equal_and_can_be_keys(system: ActorSystem) -> None:
    ref, other = system.spawn(Mirror, name="me"), system.spawn(Mirror)
    own = await ref.ask(lambda ctx: ctx.self)
    found = system.actor("me")
    assert found is not None
    for same in (own, found, system.actor(ref.id), *[one for one in system.actors() if one.id == ref.id]):
        assert same == ref
        assert hash(same) == hash(ref)
    assert ref != other
    assert ref != ref.id
    assert ref != "/me"
    assert len({ref, own, found, other}) == 2
    assert {ref: "value"}[found] == "value"


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
async def test_a_pickled_ref_comes_back_as_the_same_actors(system: ActorSystem, protocol: int) -> None:
    parent = system.spawn(Mirror, name="parent")
    ref = await parent.ask(lambda ctx: ctx.spawn(Mirror, name="child"))
    back = pickle.loads(pickle.dumps(ref, protocol))
    assert back == ref
    assert hash(back) == hash(ref)
    assert await back.ask("x") == "x"
    assert copy.deepcopy({"to": ref})["to"] == ref


@pytest.mark.parametrize("how", ["before", "after"])
async def test_a_ref_unpickled_after_its_actors_end_is_still_that_actors(system: ActorSystem, how: str) -> None:  # J14
    """Refs are equal if they are of the same actor; `terminated()` returns the exit reason."""
    parent = system.spawn(Mirror, name="parent")
    ref = await parent.ask(lambda ctx: ctx.spawn(Mirror, name="child"))
    data = pickle.dumps(ref)
    ref.kill()
    await ref.terminated()
    if how == "after":
        data = pickle.dumps(ref)
    replacement = await parent.ask(lambda ctx: ctx.spawn(Mirror, name="child"))
    back = pickle.loads(data)
    assert back.id == ref.id
    assert not back.is_alive
    assert back.state is State.TERMINATED
    back.tell("too late")
    await system.settle()
    assert [letter.message for letter in system.dead_letters.recent()] == ["too late"]
    assert back != replacement
    assert (back.name, back.path) == (ref.name, ref.path)
    assert hash(back) == hash(ref)
    assert back == ref


async def test_an_unpickled_ref_does_not_make_up_how_its_actor_ended(system: ActorSystem) -> None:
    ref = system.spawn(Mirror)
    ref.fail(ValueError("really"))
    assert (await ref.terminated()).kind is ExitKind.FAIL
    back = pickle.loads(pickle.dumps(ref))
    assert (await back.terminated()).kind is not ExitKind.NORMAL


def test_a_ref_whose_system_is_gone_says_so(play: Play) -> None:  # J9
    kept: list[bytes] = []

    async def main() -> None:
        async with ActorSystem("gone") as system:
            kept.append(pickle.dumps(system.spawn(Mirror, name="me")))

    play.bare(main)
    gc.collect()
    with pytest.raises(RefGone) as caught:
        pickle.loads(kept[0])
    assert caught.value.code == "ref_gone"
    assert (caught.value.system, caught.value.path) == ("gone", "/me")
    for word in ("/me", "'gone'", "this process"):
        assert word in str(caught.value)


def test_a_new_system_of_the_same_name_does_not_adopt_old_refs(play: Play) -> None:
    kept: list[bytes] = []

    async def main() -> None:
        async with ActorSystem("same") as system:
            kept.append(pickle.dumps(system.spawn(Mirror, name="me")))
        del system
        gc.collect()
        async with ActorSystem("same") as again:
            again.spawn(Mirror, name="me")
            with pytest.raises(RefGone):
                pickle.loads(kept[0])

    play.bare(main)


async def test_a_ref_may_travel_inside_messages(system: ActorSystem) -> None:
    def introducer(ctx: Context, message: tuple[ActorRef[Any, Any], ActorRef[Any, Any]]) -> None:
        first, second = message
        first.tell(second)

    probe = TestProbe(system)
    other = system.spawn(Mirror)
    system.spawn(introducer).tell((probe.ref, other))
    assert await probe.receive() == other


# Sending


async def test_tell_and_shift_send_in_order_and_shift_can_be_chained(system: ActorSystem) -> None:
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
) -> None:
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
) -> None:
    heard: list[Any] = []
    ref = system.spawn(Hearing, heard)
    with pytest.raises(TypeError):
        tell(ref)
    await system.settle()
    assert heard == []


async def test_a_message_may_be_anything_at_all(system: ActorSystem) -> None:
    heard: list[Any] = []
    odd: list[Any] = [None, False, 0, "", (), NotImplemented, Ellipsis, ValueError("x"), int, heard, object()]
    ref = system.spawn(Hearing, heard)
    for message in odd:
        ref.tell(message)
    await system.settle()
    assert all(got is sent for (got, _), sent in zip(heard, odd, strict=True))  # by reference
    heard.clear()


async def test_higher_lanes_are_served_first_and_each_in_its_order(system: ActorSystem) -> None:
    heard: list[Any] = []
    ref = system.spawn(Hearing, heard)
    for lane in Lane:
        ref.tell((lane, 1), lane=lane)
    for lane in Lane:
        ref.tell((lane, 2), lane=lane)
    await system.settle()
    assert [message for message, _ in heard] == [(lane, turn) for lane in sorted(Lane, reverse=True) for turn in (1, 2)]


async def test_a_full_mailbox_gives_the_message_back_and_says_whose_it_is(system: ActorSystem) -> None:  # case 8, J9
    held, gate = asyncio.Event(), asyncio.Event()

    async def hold(ctx: Context, message: Any) -> None:
        held.set()
        await gate.wait()

    ref = system.spawn(hold, name="small", mailbox=MailboxConfig(capacity=1))
    ref.tell("in hand")
    await held.wait()
    ref.tell("queued")
    message = object()
    for send in (ref.tell, ref.__lshift__):
        with pytest.raises(MailboxFull) as caught:
            send(message)
        error = caught.value
        assert (error.code, error.ref, error.message) == ("mailbox_full", ref, message)
        assert "/small" in str(error)
        assert "capacity" in str(error)
    gate.set()


async def test_a_tell_to_a_dead_actor_is_a_dead_letter_and_no_error(system: ActorSystem) -> None:
    dead, sender = system.spawn(Mirror), system.spawn(Mirror)
    dead.stop()
    await dead.terminated()
    dead.tell(1, sender=sender)
    dead << 2
    dead.tell(3, lane=Lane.CONTROL)
    await dead.send(4)
    await sender.ask(lambda ctx: dead.tell(5))
    letters = system.dead_letters.recent()
    assert [(letter.message, letter.sender) for letter in letters] == [
        (1, sender),
        (2, None),
        (3, None),
        (4, None),
        (5, sender),
    ]
    assert {letter.recipient for letter in letters} == {dead}


@pytest.mark.parametrize("overflow", list(Overflow))
async def test_tells_from_other_threads_arrive_in_order(system: ActorSystem, overflow: Overflow) -> None:  # J15
    heard: list[Any] = []
    ref = system.spawn(Hearing, heard, mailbox=MailboxConfig(capacity=1000, overflow=overflow))
    sender = system.spawn(Mirror)

    def send(name: str) -> None:
        for number in range(50):
            ref.tell((name, number), sender=sender)

    threads = [threading.Thread(target=send, args=(name,)) for name in "abc"]
    for thread in threads:
        thread.start()
    for thread in threads:
        await asyncio.to_thread(thread.join, 10.0)
    await system.settle()
    for name in "abc":
        assert [number for (thread, number), _ in heard if thread == name] == list(range(50))
    assert all(sender is not None for _, sender in heard)
