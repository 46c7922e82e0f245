"""The stash: what is put aside, and what becomes of it when its actor ends."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from greenroom import (
    Actor,
    ActorRef,
    ActorSystem,
    ActorTerminated,
    Behavior,
    Behaviors,
    Context,
    Drain,
    ExitKind,
    Lane,
    MailboxConfig,
    ManualClock,
    Timer,
)
from greenroom.errors import BadArgument, ConfigError, MessageDropped, NoMessage, StashFull
from greenroom.testing import assert_ledger_balanced
from tests.conformance.lives import suspending
from tests.conformance.sending import FOREIGN, Listener
from tests.gates import standstill


class Door(Actor[Any, Any]):
    """Puts everything aside until it is opened; answers and writes down what comes then."""

    def __init__(self, heard: list[Any], capacity: int | None = None) -> None:
        self.heard = heard
        self.capacity = capacity
        self.open = False

    def pre_start(self) -> None:
        if self.capacity is not None:
            self.ctx.stash_capacity = self.capacity

    def receive(self, message: Any) -> Any:
        if message == "open":
            self.open = True
            return self.ctx.unstash_all()
        if message == "close":
            self.open = False
            return None
        if not self.open:
            self.ctx.stash()
            return "not an answer"
        self.heard.append(message)
        return ("answer", message)


class AsyncDoor(Door):
    async def receive(self, message: Any) -> Any:
        await asyncio.sleep(0)
        result = super().receive(message)
        await asyncio.sleep(0)
        return result


DOORS = [Door, AsyncDoor]


@pytest.mark.parametrize("door", DOORS)
async def test_what_was_put_aside_comes_back_in_order_and_ahead_of_newer_messages(
    system: ActorSystem, door: type[Door]
) -> None:  # case 51
    heard: list[Any] = []
    ref = system.spawn(door, heard)
    for n in range(5):
        ref.tell(n)
    await system.settle()
    assert heard == []
    ledger = assert_ledger_balanced(system, ref)
    assert (ledger.sent, ledger.queued, ledger.handled) == (5, 5, 0)
    ref << "open" << "newer" << "newest"
    await system.settle()
    assert heard == [0, 1, 2, 3, 4, "newer", "newest"]
    ledger = assert_ledger_balanced(system, ref)
    assert (ledger.sent, ledger.queued, ledger.handled) == (8, 0, 8)


@pytest.mark.parametrize("door", DOORS)
async def test_unstashing_says_how_many_and_nothing_twice(system: ActorSystem, door: type[Door]) -> None:  # case 51
    heard: list[Any] = []
    ref = system.spawn(door, heard)
    ref << 1 << 2
    assert await ref.ask("open") == 2
    assert await ref.ask("open") == 0
    await system.settle()
    assert heard == [1, 2]


@pytest.mark.parametrize("door", DOORS)
async def test_what_is_put_aside_again_keeps_its_place(system: ActorSystem, door: type[Door]) -> None:  # case 51
    heard: list[Any] = []
    ref = system.spawn(door, heard)
    ref << 1 << 2
    await system.settle()
    # closed again before they have their turn: "close" is of a higher lane
    ref.tell("open", lane=Lane.CONTROL)
    ref.tell("close", lane=Lane.CONTROL)
    ref.tell(3)
    await system.settle()
    assert heard == []
    assert system.ledger(ref).queued == 3
    assert await ref.ask("open") == 3
    await system.settle()
    assert heard == [1, 2, 3]
    assert assert_ledger_balanced(system, ref).handled == 6


@pytest.mark.parametrize("foreign", FOREIGN)
@pytest.mark.parametrize("door", DOORS)
async def test_a_stashed_ask_is_answered_when_its_message_is_handled(
    system: ActorSystem, door: type[Door], foreign: bool
) -> None:  # case 51
    ref = system.spawn(door, [])
    asks = [ref.ask(n) for n in range(3)]
    other: list[Any] = []
    thread: asyncio.Future[None] | None = None
    if foreign:
        asking = asyncio.to_thread(lambda: other.append(ref.ask_sync("thread", timeout=120.0)))
        thread = asyncio.ensure_future(asking)
        while system.ledger(ref).sent < 4 and not thread.done():  # noqa: ASYNC110 - until the thread has asked
            await asyncio.sleep(0)
    await system.settle()
    assert not any(ask.done() for ask in asks)  # what the handler returned was no answer
    ref.tell("open")
    assert [await ask for ask in asks] == [("answer", n) for n in range(3)]
    if thread is not None:
        await thread
        assert other == [("answer", "thread")]
    await system.settle()
    assert assert_ledger_balanced(system, ref).late_replies == 0


async def test_a_stashed_message_keeps_its_sender(system: ActorSystem) -> None:  # case 51, J8
    senders: list[Any] = []

    def later(ctx: Context, message: Any) -> None:
        senders.append((message, ctx.sender))

    def now(ctx: Context, message: Any) -> None:
        if message == "open":
            ctx.become(later)
            ctx.unstash_all()
        else:
            ctx.stash()

    a = system.spawn(Listener, [])
    ref = system.spawn(now)
    ref.tell("from a", sender=a)
    ref.tell("from nobody")
    ref.tell("open")
    await system.settle()
    assert senders == [("from a", a), ("from nobody", None)]


async def test_become_and_unbecome_go_well_with_the_stash(system: ActorSystem) -> None:  # case 51, M13
    heard: list[Any] = []

    class Login(Actor[str, Any]):
        def receive(self, message: str) -> Any:
            if message == "login":
                self.ctx.become(self.inside)
                self.ctx.unstash_all()
            else:
                self.ctx.stash()

        def inside(self, message: str) -> Any:
            if message == "logout":
                self.ctx.unbecome()
            else:
                heard.append(message)
                return f"did {message}"
            return None

    ref = system.spawn(Login)
    a = ref.ask("a")
    ref << "b" << "logout" << "c" << "login"
    assert await a == "did a"
    await system.settle()
    # "logout" was put aside too, so "c" went back into the stash
    assert heard == ["a", "b"]
    assert system.ledger(ref).queued == 1
    ref << "d" << "login"
    await system.settle()
    assert heard == ["a", "b", "c", "d"]
    assert assert_ledger_balanced(system, ref).handled == 7


async def test_a_behavior_can_be_given_its_stash(system: ActorSystem) -> None:  # case 51, M13
    heard: list[Any] = []

    def begin(stash: Any) -> Behavior:
        def opened(ctx: Context, message: Any) -> Behavior:
            heard.append(message)
            return Behaviors.same

        def closed(ctx: Context, message: Any) -> Behavior:
            if message == "open":
                assert len(stash) == 2
                assert stash.full
                ctx.unstash_all()
                return Behaviors.receive(opened)
            ctx.stash()
            return Behaviors.same

        return Behaviors.receive(closed)

    ref = system.spawn(Behaviors.with_stash(2, begin))
    ref << 1 << 2 << "open" << 3
    await system.settle()
    assert heard == [1, 2, 3]


@pytest.mark.parametrize("door", DOORS)
async def test_the_stash_takes_no_room_and_comes_back_whether_there_is_room_or_not(
    system: ActorSystem, door: type[Door]
) -> None:  # cases 8, 51
    heard: list[Any] = []
    ref = system.spawn(door, heard, mailbox=MailboxConfig(capacity=1))
    for n in range(5):
        await ref.send(n)
    await system.settle()
    assert system.ledger(ref).queued == 5
    await ref.send("open")
    await ref.send("newer")
    await ref.send("newest")
    await system.settle()
    assert heard == [0, 1, 2, 3, 4, "newer", "newest"]
    ledger = assert_ledger_balanced(system, ref)
    assert (ledger.sent, ledger.handled, ledger.dropped) == (8, 8, 0)


@pytest.mark.parametrize("lane", Lane, ids=str)
async def test_what_comes_back_is_ahead_of_newer_messages_of_its_own_lane(system: ActorSystem, lane: Lane) -> None:
    # case 51
    heard: list[Any] = []
    ref = system.spawn(Door, heard)
    ref.tell("older", lane=lane)
    await system.settle()
    ref.tell("open", lane=lane)
    ref.tell("newer", lane=lane)
    await system.settle()
    assert heard == ["older", "newer"]
    assert assert_ledger_balanced(system, ref).handled == 3


async def test_equal_priorities_come_back_ahead_of_newer_ones(system: ActorSystem) -> None:  # cases 4, 51
    heard: list[Any] = []
    ref = system.spawn(Door, heard, mailbox=MailboxConfig(priority=lambda message: 0))
    ref << 1 << 2 << 3
    await system.settle()
    ref << "open" << "newer"
    await system.settle()
    assert heard == [1, 2, 3, "newer"]
    assert assert_ledger_balanced(system, ref).handled == 5


@pytest.mark.parametrize("cancelled", [False, True])
async def test_a_stashed_tick_is_handled_unless_its_timer_is_cancelled(
    system: ActorSystem, clock: ManualClock, cancelled: bool
) -> None:  # cases 49, 51
    heard: list[Any] = []

    class Clocked(Door):
        timer: Timer

        def receive(self, message: Any) -> Any:
            if message == "start":
                self.timer = self.ctx.send_every(1.0, self.ctx.self, "tick")
            elif message == "cancel":
                assert self.timer.active
                assert self.timer.cancel()
            else:
                super().receive(message)

    ref = system.spawn(Clocked, heard)
    ref.tell("start")
    await clock.advance(5.0)
    assert system.ledger(ref).queued == 1  # and no other comes before this one was handled
    if cancelled:
        ref.tell("cancel")
    ref.tell("open")
    await system.settle()
    await clock.advance(1.0)
    ledger = assert_ledger_balanced(system, ref)
    if cancelled:
        assert heard == []
        assert ledger.dropped == 1
    else:
        assert heard == ["tick", "tick"]
    ref.stop()


class Served(Actor[Any, Any]):
    """Handles one request at a time, and puts the others aside until it is told that one is done."""

    def __init__(self, log: list[Any]) -> None:
        self.log = log
        self.busy = False
        self.calls = 0

    def receive(self, message: Any) -> Any:
        self.calls += 1
        if message == "done":
            self.busy = False
            return self.ctx.unstash()
        if message == "calls":
            return self.calls
        if isinstance(message, tuple):
            return self.ctx.unstash(*message)
        if self.busy:
            self.ctx.stash()
            return None
        self.busy = True
        self.log.append(message)
        return message


@suspending
class AsyncServed(Served):
    pass


@pytest.mark.parametrize("kind", [Served, AsyncServed])
async def test_a_stash_is_served_one_at_a_time_with_as_much_work_as_there_are_messages(
    system: ActorSystem, kind: type[Served]
) -> None:  # case 51
    for count in (150, 600):
        log: list[Any] = []
        ref = system.spawn(kind, log)
        for number in range(count):
            ref.tell(number)
        for number in range(count):
            assert await ref.ask("done") == (1 if number < count - 1 else 0)
        await system.settle()
        assert log == list(range(count))
        # Each was handled twice, but the first, and each end of one once.
        assert await ref.ask("calls") == 3 * count
        assert system.ledger(ref).queued == 0


@pytest.mark.parametrize("suspends", [False, True])
async def test_the_first_of_those_put_aside_come_back_in_order_and_ahead_of_newer_ones(
    system: ActorSystem, suspends: bool
) -> None:  # case 51
    heard: list[Any] = []

    class Ajar(Actor[Any, Any]):
        is_open = False

        def receive(self, message: Any) -> Any:
            return self.later(message) if suspends else self.take(message)

        async def later(self, message: Any) -> Any:
            await asyncio.sleep(0)
            return self.take(message)

        def take(self, message: Any) -> Any:
            if message == "open":
                self.is_open = True
                return self.ctx.unstash(3)
            if self.is_open:
                heard.append(message)
            else:
                self.ctx.stash()
            return None

    ref = system.spawn(Ajar)
    for number in range(5):
        ref.tell(number)
    ref << "open" << "newer"
    await system.settle()
    assert heard == [0, 1, 2, "newer"]
    assert assert_ledger_balanced(system, ref).queued == 2
    assert await ref.ask("open") == 2
    await system.settle()
    assert heard == [0, 1, 2, "newer", 3, 4]


async def test_unstash_says_how_many_come_back(system: ActorSystem) -> None:  # case 51
    log: list[Any] = []
    ref = system.spawn(Served, log)
    for number in range(8):
        ref.tell(number)
    # Nobody is free, so what comes back is put aside again, behind the others.
    assert [await ref.ask((n,)) for n in (0, 1, 3, 100)] == [0, 1, 3, 7]
    assert await ref.ask(()) == 1
    await system.settle()
    ledger = assert_ledger_balanced(system, ref)
    assert ledger.queued == 7
    for wrong in (-1, 1.0, "1", True, None):
        with pytest.raises(BadArgument, match=r"unstash\(\) takes how many"):
            await system.spawn(Served, log).ask((wrong,))
    ref.stop()


async def test_a_behaviors_stash_gives_back_the_first_ones(system: ActorSystem) -> None:  # case 51, M13
    heard: list[Any] = []

    def gather(stash: Any) -> Behavior:
        def keep(ctx: Context, message: Any) -> Any:
            if message != "two":
                stash.put()
                return Behaviors.same
            assert stash.unstash(2) == 2
            assert len(stash) == 2
            return Behaviors.receive(hear)

        def hear(ctx: Context, message: Any) -> Any:
            heard.append(message)
            return stash.unstash()

        return Behaviors.receive(keep)

    ref = system.spawn(Behaviors.with_stash(10, gather))
    ref << 1 << 2 << 3 << 4 << "two" << "newer"
    await system.settle()
    # When 1 is handled, 3 goes ahead of 2, which is queued.
    assert heard == [1, 3, 4, 2, "newer"]


async def test_what_a_key_keeps_out_of_the_mailbox_stays_in_the_stash(system: ActorSystem) -> None:  # cases 4, 51
    broken: list[Any] = []

    def key(message: Any) -> int:
        if message in broken:
            raise ValueError("no key")
        return 0

    heard: list[Any] = []

    def door(ctx: Context, message: Any) -> Any:
        if message == "three":
            broken.append(2)
            try:
                ctx.unstash(3)
            except ValueError:
                broken.clear()
                return ctx.unstash_all()
        if message in heard or broken:
            return None
        if isinstance(message, int) and ("put", message) not in heard:
            heard.append(("put", message))
            ctx.stash()
        else:
            heard.append(message)
        return None

    ref = system.spawn(door, mailbox=MailboxConfig(priority=key))
    for number in (1, 2, 3, 4):
        ref.tell(number)
    assert await ref.ask("three") == 3  # the last of the three is in
    await system.settle()
    assert sorted(one for one in heard if isinstance(one, int)) == [1, 2, 3, 4]
    assert system.ledger(ref).queued == 0


@given(st.lists(st.sampled_from(["message", "open", "close"]), max_size=40), st.booleans())
@settings(max_examples=40, deadline=None)
def test_whatever_is_stashed_and_unstashed_comes_once_and_in_order(steps: list[str], asynchronous: bool) -> None:
    # case 51
    heard: list[int] = []

    async def main() -> None:
        async with asyncio.timeout(120.0), ActorSystem() as system:
            ref = system.spawn(AsyncDoor if asynchronous else Door, heard)
            for number, step in enumerate(steps):
                ref.tell(number if step == "message" else step)
                if number % 3 == 0:
                    await system.settle()
            ref.tell("open")
            await system.settle()
            assert heard == [number for number, step in enumerate(steps) if step == "message"]
            ledger = assert_ledger_balanced(system, ref)
            assert (ledger.handled, ledger.queued) == (len(steps) + 1, 0)

    asyncio.run(main())


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


async def test_a_full_stash_that_nobody_catches_fails_the_actor_and_loses_nothing(system: ActorSystem) -> None:
    # case 51
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
async def test_a_message_that_is_stashed_and_then_raises_is_in_one_column(system: ActorSystem, suspends: bool) -> None:
    # case 51, B4
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


async def test_a_priority_that_cannot_be_told_any_more_loses_nothing_put_aside(system: ActorSystem) -> None:
    # cases 4, 51, B4
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
