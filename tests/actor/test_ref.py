"""`ActorRef`: what it says of the actor, how messages are sent through it, and how an actor is awaited and ended."""

from __future__ import annotations

import asyncio
import copy
import gc
import pickle
import threading
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
    MailboxFull,
    Overflow,
    State,
    SystemFailed,
)
from greenroom.errors import RefGone
from greenroom.testing import TestProbe
from tests.actor.diaries import AsyncDiary, Diary, flavours

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


async def test_a_ref_outlives_its_actor_and_says_the_same(system: ActorSystem) -> None:  # B7
    parent = system.spawn(Mirror, name="parent")
    ref = await parent.ask(lambda ctx: ctx.spawn(Mirror, name="child"))
    before = (ref.name, ref.path, ref.parent, ref.id, str(ref), repr(ref), hash(ref))
    assert (ref.is_alive, ref.state) == (True, State.RUNNING)
    parent.stop()
    await parent.terminated()
    assert (ref.is_alive, ref.state) == (False, State.TERMINATED)
    assert (ref.name, ref.path, ref.parent, ref.id, str(ref), repr(ref), hash(ref)) == before
    assert system.actor(ref.id) is None


async def test_the_state_follows_the_life(system: ActorSystem) -> None:  # B7, M1
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
async def test_refs_of_one_actor_are_equal_and_can_be_keys(system: ActorSystem) -> None:  # B7
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
async def test_a_pickled_ref_comes_back_as_the_same_actors(system: ActorSystem, protocol: int) -> None:  # B7
    parent = system.spawn(Mirror, name="parent")
    ref = await parent.ask(lambda ctx: ctx.spawn(Mirror, name="child"))
    back = pickle.loads(pickle.dumps(ref, protocol))
    assert back == ref
    assert hash(back) == hash(ref)
    assert await back.ask("x") == "x"
    assert copy.deepcopy({"to": ref})["to"] == ref


@pytest.mark.parametrize("how", ["before", "after"])
async def test_a_ref_unpickled_after_its_actors_end_is_still_that_actors(
    system: ActorSystem, how: str
) -> None:  # B7, J14
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


async def test_an_unpickled_ref_does_not_make_up_how_its_actor_ended(system: ActorSystem) -> None:  # B7
    ref = system.spawn(Mirror)
    ref.fail(ValueError("really"))
    assert (await ref.terminated()).kind is ExitKind.FAIL
    back = pickle.loads(pickle.dumps(ref))
    assert (await back.terminated()).kind is not ExitKind.NORMAL


def test_a_ref_whose_system_is_gone_says_so(play: Play) -> None:  # B7, J9
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


def test_a_new_system_of_the_same_name_does_not_adopt_old_refs(play: Play) -> None:  # B7
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


async def test_higher_lanes_are_served_first_and_each_in_its_order(system: ActorSystem) -> None:  # B7
    heard: list[Any] = []
    ref = system.spawn(Hearing, heard)
    for lane in Lane:
        ref.tell((lane, 1), lane=lane)
    for lane in Lane:
        ref.tell((lane, 2), lane=lane)
    await system.settle()
    assert [message for message, _ in heard] == [(lane, turn) for lane in sorted(Lane, reverse=True) for turn in (1, 2)]


async def test_a_full_mailbox_gives_the_message_back_and_says_whose_it_is(
    system: ActorSystem,
) -> None:  # B7, case 8, J9
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


async def test_a_tell_to_a_dead_actor_is_a_dead_letter_and_no_error(system: ActorSystem) -> None:  # B7
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
async def test_tells_from_other_threads_arrive_in_order(system: ActorSystem, overflow: Overflow) -> None:  # B7, J15
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
def test_those_who_wait_are_told_when_the_system_ends(play: Play, place: Place) -> None:  # B7
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


@flavours
@pytest.mark.parametrize("thread", [False, True])
@pytest.mark.parametrize(
    ("ending", "hooks", "kind"),
    [
        ("stop", ["pre_stop", "post_stop"], ExitKind.NORMAL),
        ("after_queued", [1, 2, "pre_stop", "post_stop"], ExitKind.NORMAL),
        ("kill", ["post_stop"], ExitKind.KILLED),
        ("fail", ["post_stop"], ExitKind.FAIL),
    ],
)
async def test_an_end_runs_the_hooks_that_belong_to_it(  # J5
    system: ActorSystem, diary: type[Diary], thread: bool, ending: str, hooks: list[Any], kind: ExitKind
) -> None:
    notes: list[Any] = []
    ref = system.spawn(diary, notes)
    await ref.started()
    notes.clear()
    act: dict[str, Callable[[], None]] = {
        "stop": ref.stop,
        "after_queued": lambda: ref.stop(after_queued=True),
        "kill": ref.kill,
        "fail": lambda: ref.fail(ValueError("x")),
    }
    if thread:

        def send_and_end() -> None:
            ref << 1 << 2
            act[ending]()

        other = threading.Thread(target=send_and_end)
        other.start()
        await asyncio.to_thread(other.join, DEADLINE)
    else:
        ref << 1 << 2
        act[ending]()
    assert (await ref.terminated()).kind is kind
    if ending == "after_queued" or not thread:
        assert notes == hooks
    else:  # the loop may have been quick enough to handle what came before the order
        assert notes[-len(hooks) :] == hooks


async def test_a_stop_after_what_is_queued_does_not_wait_for_what_comes_later(system: ActorSystem) -> None:  # J5
    notes: list[Any] = []
    ref = system.spawn(Diary, notes)
    ref << 1
    ref.stop(after_queued=True)
    ref << 2
    await ref.terminated()
    assert [letter.message for letter in system.dead_letters.recent()] == [2]
    assert notes == ["pre_start", "post_start", 1, "pre_stop", "post_stop"]


@pytest.mark.parametrize("ending", ["stop", "after_queued", "kill", "fail"])
async def test_ending_what_has_ended_does_nothing(system: ActorSystem, ending: str) -> None:  # J5
    probe = TestProbe(system)
    ref = system.spawn(Diary, [])
    await probe.watch(ref)
    ref.stop()
    ref.stop()
    first = await ref.terminated()
    act: dict[str, Callable[[], None]] = {
        "stop": ref.stop,
        "after_queued": lambda: ref.stop(after_queued=True),
        "kill": ref.kill,
        "fail": lambda: ref.fail(ValueError("x")),
    }
    act[ending]()
    await asyncio.to_thread(act[ending])
    await system.settle()
    assert await ref.terminated() == first
    await probe.expect_terminated(ref)
    await probe.expect_no()
    assert system.dead_letters.count == 0


async def test_a_kill_breaks_off_a_suspended_handler(system: ActorSystem) -> None:  # J5
    notes: list[str] = []
    ref = system.spawn(Held, notes, asyncio.Event(), "receive")
    asked = ref.ask("x", timeout=None)
    await reach(notes, "receive")
    ref.kill()
    with pytest.raises(ActorTerminated) as caught:
        await asked
    assert (await ref.terminated()).kind is ExitKind.KILLED
    assert caught.value.reason.kind is ExitKind.KILLED  # type: ignore[attr-defined]
    assert "pre_stop" not in notes
    assert "post_stop" in notes


async def test_a_kill_overtakes_a_stop_that_takes_its_time(system: ActorSystem) -> None:  # J5
    notes: list[str] = []
    ref = system.spawn(Held, notes, asyncio.Event(), "pre_stop")
    await ref.started()
    ref.stop()
    await reach(notes, "pre_stop")
    ref.kill()
    assert (await ref.terminated()).kind is ExitKind.KILLED
    assert "post_stop" in notes


@flavours
async def test_a_fail_from_outside_is_as_if_the_handler_had_raised(
    system: ActorSystem, diary: type[Diary]
) -> None:  # J5
    cause = ValueError("from outside")
    probe = TestProbe(system)
    ref = system.spawn(diary, [])
    await probe.watch(ref)
    await ref.started()
    ref.fail(cause)
    ref.fail(ValueError("a second one"))
    notice = await probe.expect_terminated(ref)
    assert notice.cause is cause
    assert notice.reason.kind is ExitKind.FAIL


async def test_a_fail_waits_for_the_message_in_hand(system: ActorSystem) -> None:  # J5
    notes: list[str] = []
    gate = asyncio.Event()
    ref = system.spawn(Held, notes, gate, "receive")
    asked = ref.ask("answer")
    await reach(notes, "receive")
    ref.fail(ValueError("x"))
    gate.set()
    assert await asked == "answer"
    assert (await ref.terminated()).kind is ExitKind.FAIL


@pytest.mark.parametrize("cause", ["text", None, ValueError, 3])
async def test_a_fail_needs_an_exception(system: ActorSystem, cause: Any) -> None:  # J5, J9
    ref = system.spawn(AsyncDiary, [])
    with pytest.raises(TypeError, match="exception"):
        ref.fail(cause)
    assert await ref.ask("x") == "x"


@pytest.mark.parametrize("cause", [KeyboardInterrupt(), SystemExit(3)])
def test_a_fail_with_what_ends_a_program_ends_the_system(play: Play, cause: BaseException) -> None:  # J5
    async def main() -> None:
        async def block() -> None:
            async with asyncio.timeout(DEADLINE), ActorSystem("test") as system:
                system.spawn(Diary, []).fail(cause)
                await system.stopped()

        with pytest.raises(SystemFailed) as caught:
            await block()
        assert caught.value.__cause__ is cause

    play.bare(main)


async def test_an_actor_may_end_itself_through_its_own_ref(system: ActorSystem) -> None:  # J5
    def handler(ctx: Context, message: str) -> str:
        getattr(ctx.self, message)()
        return "after the message in hand"

    for order, kind in (("stop", ExitKind.NORMAL), ("kill", ExitKind.KILLED)):
        ref: ActorRef[Any, Any] = system.spawn(handler)
        assert await ref.ask(order) == "after the message in hand"
        assert (await ref.terminated()).kind is kind
