"""How an actor is stopped, from where, what becomes of what was queued, and who is told."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from greenroom import (
    Actor,
    ActorRef,
    ActorSystem,
    ActorTerminated,
    Context,
    Drain,
    ExitKind,
    Lane,
    MailboxConfig,
    Overflow,
    Reply,
    State,
)
from greenroom.errors import ConfigError, GreenroomError, MessageDropped
from greenroom.testing import TestProbe, assert_ledger_balanced
from tests.conformance.lives import Hooked, HookedAsync, Plain, PlainAsync, ended, every_hooked, every_kind
from tests.conformance.sending import FOREIGN, until
from tests.gates import Gate, standstill, turns

PATIENCE = 120.0
WAYS = ["stop", "kill", "fail", "itself"]
every_end = pytest.mark.parametrize("how", WAYS)


def end(ref: ActorRef[Any, Any], how: str) -> None:
    if how == "fail":
        ref.fail(ValueError("on purpose"))
    else:
        getattr(ref, how)()


class Hold(Actor[Any, Any]):
    """Keeps the first message in hand until it is let go, and stashes what it is told to; answers with its name."""

    def __init__(self, gate: asyncio.Future[None], heard: list[Any] | None = None) -> None:
        self.gate = gate
        self.heard = [] if heard is None else heard

    async def receive(self, message: Any) -> Any:
        if message == "hold":
            await self.gate
        elif message == "end":
            self.ctx.stop()
        elif isinstance(message, str) and message.startswith("stash"):
            self.ctx.stash()
            return None
        else:
            self.heard.append((message, self.ctx.sender))
        return self.ctx.name


class Fixture:
    """An actor that holds a message in hand, has some stashed and others queued in every lane, told and asked."""

    def __init__(self, system: ActorSystem, drain: Drain | None = None) -> None:
        self.system = system
        self.gate = Gate()
        self.sender = system.spawn(Plain, name="sender")
        self.ref = system.spawn(Hold, self.gate, name="ending", drain=drain)
        self.told = ["stash told", "control", "data", "log"]
        self.asks: list[Any] = []
        self.hold: Any = None

    async def fill(self, how: str) -> None:
        ref = self.ref
        ref.tell("stash told", sender=self.sender)
        self.asks.append(ref.ask("stash asked", timeout=None))
        await self.system.settle()
        self.hold = ref.ask("hold", timeout=None)
        while self.system.ledger(ref).in_hand == 0:  # noqa: ASYNC110 - nothing else tells
            await asyncio.sleep(0)
        if how == "itself":
            ref.tell("end", lane=Lane.CONTROL)
        ref.tell("control", lane=Lane.CONTROL, sender=self.sender)
        ref.tell("data", sender=self.sender)
        ref.tell("log", lane=Lane.LOG, sender=self.sender)
        self.asks.append(ref.ask("asked", timeout=None))
        self.asks.append(ref.ask("asked first", lane=Lane.MANAGEMENT, timeout=None))
        ref.stop(after_queued=True)  # a notice among them: it just goes

    async def end(self, how: str) -> None:
        if how != "itself":
            end(self.ref, how)
        if how != "kill":
            self.gate.set_result(None)
        await ended(self.system, self.ref)

    async def replies(self) -> list[Any]:
        async with asyncio.timeout(120.0):
            *replies, _ = await asyncio.gather(*self.asks, self.hold, return_exceptions=True)
            return replies


QUEUED = 7  # what the fixture leaves behind


@every_end
async def test_by_default_what_was_queued_becomes_dead_letters(system: ActorSystem, how: str) -> None:  # J5, M10
    fixture = Fixture(system)
    await fixture.fill(how)
    await fixture.end(how)
    ledger = assert_ledger_balanced(system, fixture.ref)
    in_hand = 0 if how == "kill" else 1
    assert (ledger.dead_lettered, ledger.dropped, ledger.redirected) == (QUEUED, 0, 0)
    assert (ledger.handled, ledger.failed) == (in_hand + (how == "itself"), 1 - in_hand)
    letters = system.dead_letters.recent()
    assert len(letters) == QUEUED
    # The stash first, for it is older.
    assert [letter.message for letter in letters[:2]] == ["stash told", "stash asked"]
    assert {letter.message for letter in letters} == {*fixture.told, "stash asked", "asked", "asked first"}
    assert all(letter.recipient == fixture.ref for letter in letters)
    assert all(letter.sender == fixture.sender for letter in letters if letter.message in fixture.told)
    replies = await fixture.replies()
    assert [type(reply) for reply in replies] == [ActorTerminated] * 3
    assert all(reply.ref == fixture.ref for reply in replies)


@every_end
async def test_drain_drop_counts_what_it_drops(system: ActorSystem, how: str) -> None:  # J5, M10
    fixture = Fixture(system, Drain.DROP)
    await fixture.fill(how)
    await fixture.end(how)
    ledger = assert_ledger_balanced(system, fixture.ref)
    assert (ledger.dropped, ledger.dead_lettered, ledger.redirected) == (QUEUED, 0, 0)
    assert system.dead_letters.count == 0
    assert [type(reply) for reply in await fixture.replies()] == [MessageDropped] * 3
    fixture.ref.tell("after its end")
    await system.settle()
    assert system.dead_letters.count == 1


@every_end
async def test_drain_redirect_hands_everything_on(system: ActorSystem, how: str) -> None:  # J5, M10
    heard: list[Any] = []
    target = system.spawn(lambda: Hearer(heard), name="target")
    fixture = Fixture(system, Drain.REDIRECT(target))
    await fixture.fill(how)
    await fixture.end(how)
    assert await fixture.replies() == ["target"] * 3
    await system.settle()
    ledger = assert_ledger_balanced(system, fixture.ref)
    assert (ledger.redirected, ledger.dead_lettered, ledger.dropped) == (QUEUED, 0, 0)
    theirs = assert_ledger_balanced(system, target)
    assert (theirs.sent, theirs.handled) == (QUEUED, QUEUED)
    assert system.dead_letters.count == 0
    assert target.is_alive
    told = {message: sender for message, sender in heard if sender is not None}
    assert told == dict.fromkeys(fixture.told, fixture.sender)
    assert [message for message, _ in heard][:2] == ["stash told", "stash asked"]
    await system.shutdown()
    assert len(heard) == QUEUED


class Hearer(Actor[Any, Any]):
    def __init__(self, heard: list[Any]) -> None:
        self.heard = heard

    def receive(self, message: Any) -> str:
        self.heard.append((message, self.ctx.sender))
        return self.ctx.name


@pytest.mark.parametrize("target_is", ["dead", "stopping", "full", "dropping", "redirecting too"])
async def test_a_redirect_that_finds_no_room_loses_nothing_silently(system: ActorSystem, target_is: str) -> None:
    # J5, M10
    gate = Gate()
    overflow = Overflow.DROP_NEW if target_is == "dropping" else Overflow.REJECT
    drain = Drain.REDIRECT(system.spawn(Plain)) if target_is == "redirecting too" else None
    target = system.spawn(
        HookedAsync, pre_stop=lambda _: gate, mailbox=MailboxConfig(capacity=1, overflow=overflow), drain=drain
    )
    fixture = Fixture(system, Drain.REDIRECT(target))
    await fixture.fill("stop")
    if target_is in ("full", "dropping"):
        target.tell(lambda _: gate)
        await turns()
        target.tell("the one there is room for")
    elif target_is == "dead":
        target.kill()
        await ended(system, target)
    else:
        target.stop()
        await turns()
        assert target.state is State.STOPPING
    before = system.ledger()
    await fixture.end("stop")
    replies = await fixture.replies()
    after = system.ledger()
    gate.set_result(None)
    assert after.redirected - before.redirected == QUEUED
    dropped, dead = after.dropped - before.dropped, after.dead_lettered - before.dead_lettered
    assert (dropped, dead) == ((QUEUED, 0) if target_is == "dropping" else (0, QUEUED))
    assert system.dead_letters.count == after.dead_lettered
    assert after.rejected == before.rejected  # there is no sender who could be told
    if target_is == "dropping":
        assert [type(reply) for reply in replies] == [MessageDropped] * 3
    else:
        assert all(isinstance(reply, GreenroomError) for reply in replies)


def test_a_redirect_reaches_an_actor_of_another_system() -> None:  # J5, M10: tell is for any thread, and so is this
    heard: list[Any] = []
    arrived = threading.Event()

    def hear(ctx: Context, message: Any) -> str:
        heard.append(message)
        if len(heard) == 2:
            arrived.set()
        return "from over there"

    with ActorSystem("other") as other:
        target = other.spawn(hear)
        target.ask_sync("hello")
        heard.clear()

        async def main() -> Any:
            async with asyncio.timeout(PATIENCE), ActorSystem("here") as system:
                ref = system.spawn(Plain, drain=Drain.REDIRECT(target))
                ref.tell(1)
                asked = ref.ask(2, timeout=None)
                ref.stop()
                await ref.terminated()
                assert await asyncio.to_thread(arrived.wait, PATIENCE), "the redirected messages did not arrive"
                async with asyncio.timeout(120.0):
                    assert await asked == "from over there"
            assert_ledger_balanced(system)

        asyncio.run(main())
    assert heard == [1, 2]
    assert_ledger_balanced(other)


async def test_a_redirect_to_an_actor_whose_order_cannot_be_told_loses_nothing_silently(system: ActorSystem) -> None:
    # J5, M10
    target = system.spawn(Plain, mailbox=MailboxConfig(priority=lambda message: 1 // message))
    ref = system.spawn(Plain, drain=Drain.REDIRECT(target))
    with standstill(system):
        for number in (1, 0, 2):
            ref.tell(number)
        asked = ref.ask(0, timeout=None)
        ref.stop()
    await ended(system, ref)
    with pytest.raises(GreenroomError):
        await asked
    await system.settle()
    ledger = system.ledger(target)
    assert (ledger.sent, ledger.handled, ledger.dead_lettered) == (4, 2, 2)


async def test_a_drain_is_one_of_three_things(system: ActorSystem) -> None:  # J5, M10
    for wrong in ("drop", Plain, 1):
        with pytest.raises(ConfigError) as caught:
            system.spawn(Plain, drain=wrong)  # type: ignore[call-overload]
        assert caught.value.field == "drain"
    with pytest.raises(TypeError):
        Drain.REDIRECT("somebody")  # type: ignore[arg-type]
    assert system.actors() == []


@pytest.mark.parametrize("drain", [None, Drain.DROP, Drain.DEAD_LETTER])
async def test_those_who_wait_for_room_are_told_when_there_will_be_none(
    system: ActorSystem, drain: Drain | None
) -> None:  # J5, M10
    gate = Gate()
    ref = system.spawn(Hold, gate, mailbox=MailboxConfig(capacity=1), drain=drain)
    ref.tell("hold")
    await until(lambda: system.ledger(ref).in_hand)
    ref.tell("queued")
    sending = [asyncio.ensure_future(ref.send(number)) for number in range(3)]
    await asyncio.sleep(0)
    ref.stop()
    gate.set_result(None)
    async with asyncio.timeout(120.0):
        await asyncio.gather(*sending)
        await ref.terminated()
    ledger = assert_ledger_balanced(system, ref)
    assert (ledger.sent, ledger.handled, ledger.dead_lettered + ledger.dropped) == (5, 1, 4)


@pytest.mark.parametrize("how", WAYS[:3])
async def test_replies_put_off_fail_when_their_actor_ends(system: ActorSystem, how: str) -> None:
    # M10, J5, M8: and all are told of it
    replies: list[Reply] = []
    probe = TestProbe(system)
    parent = system.spawn(Plain)
    ref = system.spawn(Plain, parent=parent)
    await probe.watch(ref)
    asks = [ref.ask(lambda ctx: replies.append(ctx.defer_reply()), timeout=None) for _ in range(3)]
    await system.settle()
    assert not any(asked.done() for asked in asks)
    replies.pop(0).send("in time")
    assert await asks[0] == "in time"
    waiting = asyncio.ensure_future(ref.terminated())
    await asyncio.sleep(0)
    end(ref, how)
    await probe.expect_terminated(ref)
    async with asyncio.timeout(120.0):
        reason = await waiting
    for asked in asks[1:]:
        with pytest.raises(ActorTerminated) as caught:
            await asked
        assert caught.value.reason == reason
    for reply in replies:
        reply.send("too late")
    parent.stop()
    await ended(system, parent)


async def test_what_is_sent_in_pre_stop_and_to_oneself_is_accounted_for(system: ActorSystem) -> None:  # J5, M10
    class Farewell(Actor[Any, Any]):
        def __init__(self, friend: ActorRef[Any, Any]) -> None:
            self.friend = friend

        def receive(self, message: Any) -> None: ...

        def pre_stop(self) -> None:
            self.friend.tell("goodbye")
            self.ctx.self.tell("never handled")

        def post_stop(self) -> None:
            self.friend.tell("gone")
            self.ctx.self.tell("never handled either")

    probe = TestProbe(system)
    ref = system.spawn(Farewell, probe.ref)
    await ref.started()
    ref.stop()
    assert await probe.receive() == "goodbye"
    assert await probe.receive() == "gone"
    await ended(system, ref)
    assert system.ledger(ref).dead_lettered == 2


ENDS = ["stop", "kill", "fail"]


@pytest.mark.real
@every_kind
@pytest.mark.parametrize("how", ENDS)
async def test_an_actor_is_ended_from_any_thread(system: ActorSystem, kind: Any, how: str) -> None:  # J5, M5
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
async def test_an_actor_that_everybody_ends_at_once_ends_once(system: ActorSystem, kind: Any) -> None:  # J5, M5
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
) -> None:  # J5, M5
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


async def test_an_actor_fails_with_exceptions_only(system: ActorSystem) -> None:  # J5, M5
    ref = system.spawn(Plain)
    for wrong in ("because", None, ValueError):
        with pytest.raises(TypeError):
            ref.fail(wrong)  # type: ignore[arg-type]
    assert await ref.ask("still there") == "still there"


async def test_stop_after_queued_acts_in_order(system: ActorSystem) -> None:
    # J5, M5: what is queued now, and nothing more
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


async def test_stop_overtakes_a_stop_that_waits_its_turn(system: ActorSystem) -> None:  # J5, M5
    ref = system.spawn(HookedAsync)
    for number in range(3):
        ref.tell(number)
    ref.stop(after_queued=True)
    ref.stop(after_queued=True)
    ref.stop()
    await ended(system, ref)
    assert system.ledger(ref).dead_lettered == 3


@pytest.mark.parametrize("kind", [Plain, Hooked, HookedAsync])
async def test_a_stop_acts_after_the_message_in_hand(system: ActorSystem, kind: Any) -> None:
    # J5, M5: and the reply is not lost
    ref = system.spawn(kind)

    def stop_itself(ctx: Context) -> str:
        ctx.stop()
        ctx.self.tell("never handled")
        return "the reply"

    assert await ref.ask(stop_itself) == "the reply"
    await ended(system, ref)
    ledger = system.ledger(ref)
    assert (ledger.handled, ledger.dead_lettered) == (1, 1)


async def test_an_actor_stops_its_own_children_and_nobody_elses(system: ActorSystem) -> None:  # J5, M5
    parent, stranger = system.spawn(Plain), system.spawn(Plain)
    child = await parent.ask(lambda ctx: ctx.spawn(Plain))
    with pytest.raises(ValueError, match="no child"):
        await system.spawn(Plain).ask(lambda ctx: ctx.stop(stranger))
    await parent.ask(lambda ctx: ctx.stop(child))
    assert (await ended(system, child)).kind is ExitKind.NORMAL
    assert stranger.is_alive
    assert parent.is_alive


@every_hooked
@pytest.mark.parametrize("how", ENDS)
async def test_everybody_is_told_of_an_end_after_it(system: ActorSystem, kind: Any, how: str) -> None:  # M5
    log: list[str] = []

    class Parent(Actor[Any, Any]):
        def pre_start(self) -> None:
            self.ctx.watch(self.ctx.spawn(kind, log))

        def receive(self, message: Any) -> None:
            end(self.ctx.children[0], how)

        def on_terminated(self, ref: ActorRef[Any, Any], cause: BaseException | None) -> None:
            log.append(f"on_terminated, {ref.state.value}")

        def on_child_terminated(self, ref: ActorRef[Any, Any], cause: BaseException | None) -> None:
            log.append(f"on_child_terminated, {ref.state.value}")

    ref = system.spawn(Parent)
    ref.tell("go")
    await system.settle()
    assert ref.is_alive
    await system.shutdown()
    assert log[-3] == "post_stop"
    assert sorted(log[-2:]) == ["on_child_terminated, terminated", "on_terminated, terminated"]


async def test_an_actor_may_wait_for_the_end_of_another_in_handlers_and_hooks(system: ActorSystem) -> None:  # M5
    seen: list[Any] = []

    class Patient(Actor[Any, Any]):
        async def end_child(self) -> None:
            child = self.ctx.spawn(HookedAsync)
            child.stop()
            seen.append((await child.terminated()).kind)

        async def pre_start(self) -> None:
            await self.end_child()

        async def receive(self, message: Any) -> None:
            await self.end_child()

        async def pre_stop(self) -> None:
            await self.end_child()

        async def post_stop(self) -> None:
            seen.append(await self.ctx.system.actor("friend").ask("hello"))

    system.spawn(PlainAsync, name="friend")
    ref = system.spawn(Patient)
    await ref.ask("go")
    ref.stop()
    await ended(system, ref)
    await system.shutdown()
    assert seen == [ExitKind.NORMAL] * 3 + ["hello"]


@pytest.mark.parametrize("foreign", FOREIGN)
@pytest.mark.parametrize("how", ENDS)
async def test_all_who_wait_for_an_end_are_told(system: ActorSystem, how: str, foreign: bool) -> None:  # M5, M8
    ref = system.spawn(Plain)
    waiting = [asyncio.ensure_future(ref.terminated()) for _ in range(3)]
    if foreign:
        waiting += [asyncio.ensure_future(asyncio.to_thread(lambda: asyncio.run(ref.terminated()))) for _ in range(3)]
    given_up = asyncio.ensure_future(ref.terminated())
    await asyncio.sleep(0)
    given_up.cancel()
    end(ref, how)
    reasons = [await one for one in waiting]
    assert all(reason == reasons[0] for reason in reasons)
    assert given_up.cancelled()


async def test_one_observer_hears_of_each_end_once(system: ActorSystem) -> None:  # M5
    heard: list[tuple[ActorRef[Any, Any], ExitKind]] = []

    class Observer:
        def actor_stopped(self, ref: ActorRef[Any, Any], reason: Any) -> None:
            heard.append((ref, reason.kind))
            assert not ref.is_alive

    system.observers.add(Observer())
    refs = [system.spawn(Plain) for _ in ENDS]
    for ref, how in zip(refs, ENDS, strict=True):
        end(ref, how)
        end(ref, how)
        await ended(system, ref)
    assert heard == list(zip(refs, [ExitKind.NORMAL, ExitKind.KILLED, ExitKind.FAIL], strict=True))
