"""The ledger: each message ends in exactly one column, at every moment, whatever happens (B4)."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import FrozenInstanceError, fields
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from greenroom import (
    Actor,
    ActorRef,
    ActorSystem,
    Asked,
    AskTimeout,
    Behaviors,
    Context,
    Directive,
    Drain,
    GreenroomError,
    Lane,
    Ledger,
    MailboxConfig,
    MailboxFull,
    ManualClock,
    Overflow,
    Supervision,
    SystemConfig,
    handles,
)
from greenroom.testing import assert_ledger_balanced
from tests.system.observing import noted, noted_later

if TYPE_CHECKING:
    from tests.conftest import Play


def columns(ledger: Ledger) -> dict[str, int]:
    """What is not zero in it."""
    return {one.name: getattr(ledger, one.name) for one in fields(ledger) if getattr(ledger, one.name)}


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


async def test_a_message_is_in_hand_while_its_handler_is_suspended(system: ActorSystem) -> None:  # B4
    gate = asyncio.Event()
    entered = asyncio.Event()

    async def hold(ctx: Context, message: Any) -> None:
        entered.set()
        await gate.wait()

    ref = system.spawn(hold)
    tell_all(ref)
    await entered.wait()
    for ledger in (assert_ledger_balanced(system, ref), assert_ledger_balanced(system)):
        assert ledger == Ledger(sent=3, in_hand=1, queued=2)
    gate.set()
    await system.settle()
    assert system.ledger(ref) == Ledger(sent=3, handled=3)


async def test_a_handler_finds_its_own_message_in_hand(system: ActorSystem) -> None:
    def look(ctx: Context, message: Any) -> Ledger:
        ledger: Ledger = ctx.system.ledger(ctx.self)
        return ledger

    ref = system.spawn(look)
    assert await ref.ask("look") == Ledger(sent=1, in_hand=1)


@pytest.mark.parametrize("how", [ActorRef.stop, ActorRef.kill])
async def test_a_message_whose_handler_is_broken_off_is_in_one_column_too(
    system: ActorSystem, clock: ManualClock, how: Any
) -> None:  # B4
    async def hold(ctx: Context, message: Any) -> None:
        await asyncio.Event().wait()

    ref = system.spawn(hold)
    tell_all(ref)
    await clock.advance(0.0)
    how(ref)
    await clock.advance(10.0)
    assert not ref.is_alive
    ledger = assert_ledger_balanced(system, ref)
    assert (ledger.sent, ledger.in_hand, ledger.queued, ledger.lost) == (3, 0, 0, 0)
    assert ledger.dead_lettered >= 2
    assert_ledger_balanced(system)


async def test_a_tick_discarded_after_its_timer_was_cancelled_is_dropped(
    system: ActorSystem, clock: ManualClock
) -> None:  # B4, case 49
    gate = asyncio.Event()

    async def cancel(ctx: Context, message: Any) -> None:
        if message == "go":
            timer = ctx.send_after(1.0, ctx.self, "tick")
            await gate.wait()
            timer.cancel()

    ref = system.spawn(cancel)
    ref.tell("go")
    await clock.advance(2.0)
    assert system.ledger(ref) == Ledger(sent=2, in_hand=1, queued=1)
    gate.set()
    await system.settle()
    assert system.ledger(ref) == Ledger(sent=2, handled=1, dropped=1)


async def test_notices_are_not_in_the_ledger(system: ActorSystem) -> None:  # B4
    class Watcher(Actor[Any, Any]):
        ended = 0

        def receive(self, message: Any) -> int:
            if isinstance(message, ActorRef):
                self.ctx.watch(message)
                message.stop()
            return self.ended

        def on_terminated(self, ref: ActorRef[Any, Any], cause: BaseException | None) -> None:
            self.ended += 1

    ref = system.spawn(Watcher)
    ref.tell(system.spawn(noted))
    await system.settle()
    assert await ref.ask("how many?") == 1
    assert system.ledger() == Ledger(sent=2, handled=2)


async def test_the_count_of_dead_letters_is_everything_published_there(system: ActorSystem) -> None:  # M10
    gate = asyncio.Event()

    async def late(ctx: Context, message: Any) -> Any:
        await gate.wait()
        return message

    asked = system.spawn(late)
    with pytest.raises(AskTimeout):
        await asked.ask("x", timeout=0.0)
    gate.set()
    tell_all(system.spawn(lambda ctx, message: Behaviors.unhandled))
    ended = system.spawn(noted)
    tell_all(ended)
    ended.stop()
    await system.settle()
    ledger = system.ledger()
    assert (ledger.dead_lettered, ledger.unhandled, ledger.late_replies) == (3, 3, 1)
    assert system.dead_letters.count == 7
    assert sum(system.dead_letters.by_reason.values()) == 7


async def test_a_ledger_is_a_frozen_value_that_can_be_read(system: ActorSystem) -> None:
    ref = system.spawn(noted)
    tell_all(ref)
    await system.settle()
    ledger = system.ledger(ref)
    assert ledger == Ledger(sent=3, handled=3) == system.ledger()
    assert str(ledger) == "sent 3, handled 3"
    assert ledger.accounted == 3
    with pytest.raises(FrozenInstanceError):
        ledger.sent = 4  # type: ignore[misc]
    ref.tell("more")
    assert ledger.sent == 3


@pytest.mark.parametrize(
    ("ledger", "balanced"),
    [
        (Ledger(), True),
        (Ledger(sent=1), False),
        (Ledger(handled=1), False),
        (Ledger(sent=2, handled=3, queued=-1), False),
        (Ledger(sent=9, handled=1, failed=1, unhandled=1, dead_lettered=1, dropped=1, redirected=1, lost=1), False),
        (Ledger(9, 1, 1, 1, 1, 1, 1, 1, 1, 1), True),
        (Ledger(sent=1, handled=1, rejected=5, late_replies=7), True),
        (Ledger(rejected=1), True),
    ],
)
def test_a_ledger_balances_if_each_message_is_in_one_column(ledger: Ledger, balanced: bool) -> None:  # B4
    assert ledger.balanced is balanced


def test_a_ledger_of_a_foreign_ref_is_refused(play: Play) -> None:
    async def main() -> None:
        async with ActorSystem() as mine, ActorSystem() as theirs:
            with pytest.raises(GreenroomError):
                mine.ledger(theirs.spawn(noted))

    play.bare(main)


DEADLINE = 120.0

KINDS = ("sync", "async", "with hooks", "stashing")
WORDS = ("note", "fail", "unhandled", "stop", "forward", "again", "child", "timer", "slow", "defer", "answer", "pipe")
BURSTS = st.lists(st.sampled_from(WORDS), min_size=1, max_size=6)
STEPS = (
    st.tuples(st.just("tell"), st.integers(0, 5), BURSTS, st.sampled_from(list(Lane))),
    st.tuples(st.just("ask"), st.integers(0, 5), BURSTS, st.sampled_from([0.0, 1.0, None])),
    st.tuples(st.just("send"), st.integers(0, 5), BURSTS, st.sampled_from([0.0, 1.0])),
    st.tuples(st.just("from a thread"), st.integers(0, 5), BURSTS, st.none()),
    st.tuples(st.just("spawn"), st.sampled_from(KINDS), st.integers(0, 2), st.integers(0, 5)),
    st.tuples(
        st.just("end"),
        st.integers(0, 5),
        st.sampled_from(["stop", "after queued", "kill", "fail", "unstash"]),
        st.none(),
    ),
    st.tuples(st.just("settle"), st.none(), st.none(), st.none()),
    st.tuples(st.just("advance"), st.sampled_from([0.0, 0.5, 10.0]), st.none(), st.none()),
)
PROGRAMS = st.lists(st.one_of(*STEPS), max_size=40)


class World:
    """What the random program can reach, and its own count of what it sent."""

    def __init__(self, system: ActorSystem) -> None:
        self.system = system
        self.accepted = 0
        self.rejected = 0
        self.waited = 0
        self.perhaps = 0
        self.sink: ActorRef[Any, Any] = system.spawn(lambda ctx, message: message)
        self.refs = [self.sink]
        self.lock = threading.Lock()
        self.pending: list[asyncio.Future[Any]] = []

    def pick(self, number: int) -> ActorRef[Any, Any]:
        return self.refs[number % len(self.refs)]

    def send(self, act: Callable[[], Any]) -> Any:
        """Do something that sends one message, and count it."""
        try:
            result = act()
        except MailboxFull:
            with self.lock:
                self.rejected += 1
            return None
        with self.lock:
            self.accepted += 1
        return result

    def spawn(self, kind: str, policy: int, drain: int) -> None:
        overflow = list(Overflow)[policy]
        drains = [None, Drain.DROP, Drain.DEAD_LETTER, *map(Drain.REDIRECT, self.refs[:3])]
        factory: Any = {"sync": sync, "async": later, "with hooks": Hooked, "stashing": stashing}[kind]
        ref = self.system.spawn(
            factory,
            mailbox=MailboxConfig(
                capacity=3, overflow=overflow, lanes={lane: 2 for lane in Lane if lane is not Lane.DATA}
            ),
            drain=drains[drain % len(drains)],
            env={"world": self},
        )
        self.refs.append(ref)


def act(ctx: Context, message: str) -> Any:
    """What a word makes an actor do."""
    world: World = ctx.env["world"]
    if message == "fail":
        raise ValueError(message)
    if message == "unhandled":
        return Behaviors.unhandled
    if message == "stop":
        return Behaviors.stopped
    if message == "forward" and ctx.self != world.sink:
        world.send(lambda: ctx.forward(world.sink))
    if message == "again":
        world.send(lambda: ctx.self.tell("note"))
    if message == "child" and len(world.refs) < 30:
        world.refs.append(ctx.spawn(sync))
    if message == "timer":
        world.perhaps += 1
        ctx.timers.start("key", 0.3, "note")
    if message == "pipe":
        world.perhaps += 1
        ctx.pipe_to_self(asyncio.ensure_future(asyncio.sleep(0, "note")))
    if message == "defer":
        ctx.defer_reply().send("deferred")
    if message == "answer":
        ctx.reply("at once")
    return message


def sync(ctx: Context, message: str) -> Any:
    return act(ctx, message)


async def later(ctx: Context, message: str) -> Any:
    await asyncio.sleep(0)
    if message == "slow":
        await asyncio.sleep(0)
    return act(ctx, message)


def stashing(ctx: Context, message: str) -> Any:
    if message in ("note", "slow", "pipe"):
        ctx.stash()
        return None
    ctx.unstash_all()
    ctx.become(Behaviors.receive(sync))
    return act(ctx, message)


class Hooked(Actor[str, Any]):
    async def pre_start(self) -> None:
        await asyncio.sleep(0)

    def receive(self, message: str) -> Any:
        return act(self.ctx, message)

    async def pre_stop(self) -> None:
        await asyncio.sleep(0)

    def post_stop(self) -> None:
        raise ValueError("in post_stop")


def sum_of(ledgers: list[Ledger]) -> Ledger:
    return Ledger(**{one.name: sum(getattr(ledger, one.name) for ledger in ledgers) for one in fields(Ledger)})


def check(world: World) -> None:
    """At rest: every actor's ledger balances, and the system's is their sum."""
    whole = assert_ledger_balanced(world.system)
    assert sum_of([assert_ledger_balanced(world.system, ref) for ref in world.refs]) == whole
    assert whole.lost == 0
    # Ticks and pipes may or may not have come to send what they were to.
    assert world.accepted <= whole.sent - whole.redirected <= world.accepted + world.perhaps, whole
    # A `send` that waits in vain gives its message back, too; so does a pipe that finds its own mailbox full.
    assert world.rejected <= whole.rejected <= world.rejected + world.waited + world.perhaps, whole


async def rest(world: World) -> None:
    """Let what was begun begin, wait until nothing moves, let those who waited hear of it, and check."""
    await asyncio.sleep(0)
    await world.system.settle(DEADLINE)
    for _ in range(3):
        await asyncio.sleep(0)
    check(world)


async def step(world: World, clock: ManualClock, what: str, a: Any, b: Any, c: Any) -> None:
    if what == "spawn":
        world.spawn(a, b, c)
    elif what == "tell":
        tell_words(world, world.pick(a), b, c)
    elif what == "ask":
        ask_all(world, world.pick(a), b, c)
    elif what == "send":
        send_all(world, world.pick(a), b, c)
    elif what == "from a thread":
        thread = threading.Thread(target=tell_words, args=(world, world.pick(a), b, Lane.DATA))
        thread.start()
        thread.join(DEADLINE)
    elif what == "end":
        ref = world.pick(a)
        ends: dict[str, Callable[[], None]] = {
            "stop": ref.stop,
            "after queued": lambda: ref.stop(after_queued=True),
            "kill": ref.kill,
            "fail": lambda: ref.fail(ValueError("from outside")),
            "unstash": lambda: world.send(lambda: ref.tell("answer")),
        }
        ends[b]()
    elif what == "advance":
        await clock.advance(a)
    else:
        await rest(world)


def tell_words(world: World, ref: ActorRef[Any, Any], words: list[str], lane: Lane) -> None:
    for word in words:
        world.send(lambda word=word: ref.tell(word, lane=lane))  # type: ignore[misc]


def ask_all(world: World, ref: ActorRef[Any, Any], words: list[str], timeout: float | None) -> None:
    async def wait(asked: Asked[Any]) -> None:
        try:
            await asked
        except MailboxFull:
            world.rejected += 1
            world.accepted -= 1
        except (GreenroomError, ValueError):
            pass

    for word in words:
        world.accepted += 1
        world.pending.append(asyncio.ensure_future(wait(ref.ask(word, timeout=timeout))))


def send_all(world: World, ref: ActorRef[Any, Any], words: list[str], timeout: float) -> None:
    async def wait(word: str) -> None:
        try:
            await ref.send(word, timeout=timeout)
        except TimeoutError:
            world.accepted -= 1

    for word in words:
        world.accepted += 1
        world.waited += 1
        world.pending.append(asyncio.ensure_future(wait(word)))


@settings(max_examples=120, deadline=None)
@given(PROGRAMS)
def test_random_programs_balance_at_every_rest(program: list[tuple[Any, ...]]) -> None:  # B4
    async def main() -> None:
        clock = ManualClock()
        async with asyncio.timeout(DEADLINE):
            async with ActorSystem(
                config=SystemConfig(clock=clock, dead_letters=5, supervision=Supervision(Directive.STOP))
            ) as system:
                world = World(system)
                for kind in KINDS:
                    world.spawn(kind, 0, 0)
                for what, a, b, c in program:
                    await step(world, clock, what, a, b, c)
                await rest(world)
                await clock.advance(20.0)
                await rest(world)
            await asyncio.gather(*world.pending)  # every ask and every send has come to an end
            check(world)
            ledger = system.ledger()
            assert ledger.queued == ledger.in_hand == 0

    logging.disable(logging.CRITICAL)
    try:
        asyncio.run(main())
    finally:
        logging.disable(logging.NOTSET)
