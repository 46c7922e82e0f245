"""Asking: each ask ends, once and in time, in a reply or in an error that says why there is none."""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from greenroom import (
    Actor,
    ActorRef,
    ActorSystem,
    ActorTerminated,
    AskDeadlock,
    AskTimeout,
    Behaviors,
    Context,
    DeathPact,
    Drain,
    ExitKind,
    Lane,
    MailboxConfig,
    MailboxFull,
    ManualClock,
    MonotonicClock,
    Overflow,
    Reply,
)
from greenroom.errors import BadArgument, GreenroomError, InvalidDelay, NotStarted, WaitsForItself
from greenroom.testing import assert_ledger_balanced
from tests.conformance.sending import (
    ANYWHERE,
    ON_A_LOOP,
    Echo,
    Gated,
    Holding,
    Keeper,
    Ref,
    ask_from,
    outcome,
    pass_time,
    run_threads,
    until,
)
from tests.conftest import Play
from tests.gates import Event, Gate, standstill, turns

BAD = ValueError("bad")


async def echo_async(ctx: Context, message: Any) -> Any:
    await asyncio.sleep(0)
    return message


@pytest.mark.parametrize("kind", [Echo, echo_async, Behaviors.receive(lambda ctx, message: message)])
@pytest.mark.parametrize("where", ANYWHERE)
async def test_the_reply_comes_to_whoever_asked(system: ActorSystem, where: str, kind: Any) -> None:  # cases 23 and 24
    ref: Ref = system.spawn(kind)
    thing = object()
    assert await ask_from(where, system, ref, thing, timeout=None) is thing
    assert system.ledger(ref).handled == 1
    assert system.ledger().late_replies == system.dead_letters.count == 0


async def test_an_ask_is_sent_when_it_is_called(system: ActorSystem) -> None:  # cases 23 and 24
    heard: list[Any] = []
    ref: Ref = system.spawn(lambda ctx, message: heard.append(message))
    ref.tell(1)
    asked = ref.ask(2)
    ref.tell(3)
    ref.ask(4)  # awaited by nobody: it is handled all the same
    assert not asked.done()
    await system.settle()
    assert heard == [1, 2, 3, 4]
    assert asked.done()


@pytest.mark.parametrize("lane", Lane)
async def test_an_ask_goes_by_any_lane(system: ActorSystem, lane: Lane) -> None:  # cases 23 and 24
    assert await system.spawn(Echo).ask("hello", lane=lane) == "hello"


async def test_systems_that_share_a_loop_can_ask_each_other(system: ActorSystem) -> None:  # cases 23 and 24
    async with ActorSystem("other") as other:
        far = other.spawn(Echo)
        assert await ask_from("handler", system, far, "hello") == "hello"
        far.stop()
        error = await ask_from("outside", system, far, "hello")
        assert isinstance(error, ActorTerminated)


@pytest.mark.parametrize("timeout", [-1.0, -1e-9, float("nan"), float("inf")])
async def test_an_impossible_timeout_is_refused_before_anything_is_sent(system: ActorSystem, timeout: float) -> None:
    # cases 23 and 24
    ref = system.spawn(Echo)
    with pytest.raises(InvalidDelay):
        ref.ask("hello", timeout=timeout)
    await system.settle()
    assert system.ledger(ref).sent == 0


# -- case 23


@pytest.mark.parametrize("where", ON_A_LOOP)
async def test_no_reply_in_time_is_an_ask_timeout_and_the_late_one_a_dead_letter(
    system: ActorSystem, clock: ManualClock, where: str
) -> None:  # cases 23 and 24
    kept: list[Reply] = []
    keeper = system.spawn(Keeper, kept)
    error = await pass_time(clock, asyncio.create_task(ask_from(where, system, keeper, "?", timeout=3.0)))
    assert isinstance(error, AskTimeout)
    assert isinstance(error, TimeoutError)
    assert (error.ref, error.timeout, error.code) == (keeper, 3.0, "ask_timeout")
    assert system.ledger().late_replies == system.dead_letters.count == 0
    kept[0].send("late")
    await system.settle()
    [letter] = system.dead_letters.recent()
    assert (letter.message, letter.sender) == ("late", keeper)
    assert letter.recipient == system.actor("asker")  # or None, if no actor asked
    assert system.ledger().late_replies == 1
    assert keeper.is_alive


async def test_a_timeout_is_neither_early_nor_late(system: ActorSystem, clock: ManualClock) -> None:  # cases 23 and 24
    kept: list[Reply] = []
    keeper = system.spawn(Keeper, kept)
    just, default, never = keeper.ask(1, timeout=2.0), keeper.ask(2), keeper.ask(3, timeout=None)
    await clock.advance(1.999)
    assert not just.done()
    await clock.advance(0.001)
    assert isinstance(await outcome(just), AskTimeout)
    await clock.advance(2.999)
    assert not default.done()
    await clock.advance(0.001)
    assert isinstance(await outcome(default), AskTimeout)
    await clock.advance(1e6)
    assert not never.done()
    kept[2].send("at last")
    assert await never == "at last"


@pytest.mark.parametrize("in_hand", [True, False])
async def test_a_handler_that_returns_late_has_answered_late(
    system: ActorSystem, clock: ManualClock, in_hand: bool
) -> None:  # cases 23 and 24
    gate, arrived = Event(), Event()
    ref = system.spawn(Gated, gate, arrived)
    if not in_hand:
        ref.tell("first")
    asked = ref.ask("second", timeout=1.0)
    await arrived.wait()
    await clock.advance(1.0)
    assert isinstance(await outcome(asked), AskTimeout)
    gate.set()
    await system.settle()
    assert [letter.message for letter in system.dead_letters.recent()] == ["second"]
    ledger = system.ledger()
    assert (ledger.handled, ledger.late_replies) == (1 if in_hand else 2, 1)


# -- case 24


class Hooked(Echo):
    def post_stop(self) -> None:
        pass


class BadConstructor(Echo):
    def __init__(self) -> None:
        raise BAD.with_traceback(None)


class BadStart(Echo):
    async def pre_start(self) -> None:
        await asyncio.sleep(0)
        raise BAD.with_traceback(None)


class Deferring(Echo):
    def receive(self, message: Any) -> None:
        self.ctx.defer_reply()


class Watching(Echo):
    """Watches its child, and has no hook for its end."""

    def pre_start(self) -> None:
        child: Ref = self.ctx.spawn(Echo)
        self.ctx.watch(child)
        child.stop()

    def receive(self, message: Any) -> None:
        self.ctx.defer_reply()


ENDS: dict[str, tuple[Callable[[Ref], object], ExitKind, BaseException | None]] = {
    "stop": (lambda ref: ref.stop(), ExitKind.NORMAL, None),
    "kill": (lambda ref: ref.kill(), ExitKind.KILLED, None),
    "fail": (lambda ref: ref.fail(BAD), ExitKind.FAIL, BAD),
}


@pytest.mark.parametrize("how", ENDS)
@pytest.mark.parametrize("begun", [True, False])
@pytest.mark.parametrize("kind", [Echo, Hooked, Deferring])
async def test_an_actor_that_ends_before_it_answers_says_so_at_once(
    system: ActorSystem, clock: ManualClock, kind: type[Actor[Any, Any]], begun: bool, how: str
) -> None:  # cases 23 and 24
    end, exit_kind, cause = ENDS[how]
    ref = system.spawn(kind)
    if begun:
        await system.settle()
    asked = ref.ask("?")
    if begun and kind is Deferring:
        await system.settle()
    end(ref)
    error = await outcome(asked)
    assert isinstance(error, ActorTerminated), error
    assert error.ref == ref
    reason: Any = error.reason
    assert (reason.kind, reason.cause) == (exit_kind, cause)
    assert reason == await ref.terminated()
    assert clock.now() == 0.0


async def test_a_system_that_stops_leaves_no_asker_waiting(system: ActorSystem) -> None:  # cases 23 and 24
    ref = system.spawn(Deferring)
    asked = ref.ask("?", timeout=None)
    await system.settle()
    system.stop()
    error = await outcome(asked)
    assert isinstance(error, ActorTerminated)
    assert error.reason == await ref.terminated()
    assert (await ref.terminated()).kind is ExitKind.SHUTDOWN


@pytest.mark.parametrize("kind", [BadConstructor, BadStart])
async def test_an_actor_that_never_started_fails_what_it_was_asked(system: ActorSystem, kind: Any) -> None:
    # cases 23 and 24
    error = await outcome(system.spawn(kind).ask("?", timeout=None))
    assert isinstance(error, ActorTerminated)
    reason: Any = error.reason
    assert (reason.kind, reason.cause) == (ExitKind.FAIL, BAD)


async def test_a_death_pact_fails_what_was_asked(system: ActorSystem) -> None:  # cases 23 and 24, M8
    error = await outcome(system.spawn(Watching).ask("?", timeout=None))
    assert isinstance(error, ActorTerminated)
    reason: Any = error.reason
    assert isinstance(reason.cause, DeathPact)


@pytest.mark.parametrize("in_hand", [True, False])
@pytest.mark.parametrize("where", ANYWHERE)
async def test_a_killed_actor_leaves_no_asker_waiting(system: ActorSystem, where: str, in_hand: bool) -> None:
    # cases 23 and 24
    arrived = Event()
    ref = system.spawn(Gated, Event(), arrived)
    if not in_hand:
        ref.tell("first")
    asking = asyncio.create_task(ask_from(where, system, ref, "?", timeout=None))
    await arrived.wait()
    await until(lambda: system.ledger(ref).sent == (1 if in_hand else 2))
    ref.kill()
    error = await asking
    assert isinstance(error, ActorTerminated)
    assert error.reason == await ref.terminated()


@pytest.mark.parametrize("where", ANYWHERE)
async def test_a_dead_actor_answers_nobody(system: ActorSystem, where: str) -> None:  # cases 23 and 24
    ref = system.spawn(Echo)
    ref.fail(BAD)
    await ref.terminated()
    error = await ask_from(where, system, ref, "?", timeout=None)
    assert isinstance(error, ActorTerminated)
    assert error.ref == ref
    assert error.reason == await ref.terminated()
    assert [letter.message for letter in system.dead_letters.recent()] == ["?"]
    assert system.ledger(ref).dead_lettered == 1


@pytest.mark.parametrize("where", [where for where in ANYWHERE if where != "handler"])
def test_a_stopped_system_answers_nobody(play: Play, where: str) -> None:  # cases 23 and 24
    async def main() -> None:
        async with asyncio.timeout(120.0), ActorSystem() as system:
            ref = system.spawn(Echo)
            assert await ref.ask(1) == 1
        error = await ask_from(where, system, ref, where, timeout=3.0)
        assert isinstance(error, ActorTerminated)
        assert system.ledger().balanced

    play.bare(main)


@pytest.mark.parametrize("result", ["reply", "exception"])
async def test_an_ask_can_be_awaited_late_twice_and_by_several(system: ActorSystem, result: str) -> None:
    kept: list[Reply] = []
    keeper = system.spawn(Keeper, kept)

    def answer() -> None:
        if result == "reply":
            kept[-1].send(1)
        else:
            kept[-1].fail(BAD)

    expected = 1 if result == "reply" else BAD
    asked = keeper.ask("late")
    await system.settle()
    answer()
    assert asked.done()
    assert [await outcome(asked), await outcome(asked)] == [expected] * 2

    asked = keeper.ask("several")
    tasks = [asyncio.create_task(outcome(asked)) for _ in range(3)]
    await system.settle()
    answer()
    assert await asyncio.gather(*tasks) == [expected] * 3


async def test_an_ask_that_a_handler_awaits_directly_and_in_a_task_ends_for_both(system: ActorSystem) -> None:
    kept: list[Reply] = []
    keeper = system.spawn(Keeper, kept)

    async def both(ctx: Context, _: Any) -> Any:
        asked = keeper.ask("both", timeout=None)
        task = asyncio.create_task(outcome(asked))
        direct = await outcome(asked)
        async with asyncio.timeout(120.0):
            return direct, await task

    asking = asyncio.create_task(outcome(system.spawn(both).ask(None, timeout=None)))
    await until(lambda: kept)
    await asyncio.sleep(0)
    kept[0].send(1)
    assert await asking == (1, 1)


@pytest.mark.skipif(not hasattr(asyncio, "eager_task_factory"), reason="tasks start at once from Python 3.12 on")
async def test_a_handler_may_ask_in_tasks_that_start_at_once(play: Play, system: ActorSystem) -> None:
    if play.backend == "uvloop":
        pytest.skip("uvloop gives its task factory an argument that the eager one does not take")
    asyncio.get_running_loop().set_task_factory(getattr(asyncio, "eager_task_factory", None))
    a, b = system.spawn(Echo), system.spawn(Echo)

    async def receive(ctx: Context, _: Any) -> Any:
        return await asyncio.gather(a.ask(1), b.ask(2))

    assert await outcome(system.spawn(receive).ask(None)) == [1, 2]


async def test_hooks_may_ask(system: ActorSystem) -> None:
    class Curious(Actor[Any, Any]):
        def __init__(self, other: Ref, child: Any) -> None:
            self.other = other
            self.child = child

        async def pre_start(self) -> None:
            heard.append(await self.other.ask("pre_start"))
            self.ctx.watch(self.ctx.spawn(self.child))

        async def post_start(self) -> None:
            heard.append(await self.other.ask("post_start"))

        async def on_terminated(self, ref: Ref, cause: BaseException | None) -> None:
            heard.append(await self.other.ask("on_terminated"))

        async def on_child_terminated(self, ref: Ref, cause: BaseException | None) -> None:
            heard.append(await self.other.ask("on_child_terminated"))

        async def pre_stop(self) -> None:
            heard.append(await self.other.ask("pre_stop"))

        async def post_stop(self) -> None:
            heard.append(await self.other.ask("post_stop"))

        def receive(self, message: Any) -> Any:
            return self.ctx.children

    heard: list[str] = []
    heard.clear()
    ref = system.spawn(Curious, system.spawn(Echo), Echo)
    [child] = await ref.ask("children")
    child.stop()
    await until(lambda: len(heard) == 4)
    ref.stop()
    assert (await ref.terminated()).kind is ExitKind.NORMAL
    assert sorted(heard[2:4]) == ["on_child_terminated", "on_terminated"]
    assert heard[:2] + heard[4:] == ["pre_start", "post_start", "pre_stop", "post_stop"]


ONE = MailboxConfig(capacity=1)


def asks(ref: ActorRef[Any, Any], *messages: Any, **options: Any) -> list[Any]:
    """Asks that wait for room, in this order."""
    return [ref.ask(message, timeout=None, wait_for_room=True, **options) for message in messages]


@pytest.mark.parametrize("lane", Lane, ids=str)
async def test_asks_wait_for_room_in_order_of_arrival_with_sends(system: ActorSystem, lane: Lane) -> None:
    # case 10, M17
    config = ONE if lane is Lane.DATA else MailboxConfig(lanes={lane: 1})
    held = Holding(system, mailbox=config)
    ref = await held.begin()
    asked = asks(ref, 0, 1, lane=lane)
    send = asyncio.ensure_future(ref.send(2, lane=lane))
    await asyncio.sleep(0)
    asked += asks(ref, 3, 4, lane=lane)
    assert system.ledger(ref).queued == 1
    heard = await held.end()
    await send
    await asyncio.gather(*asked)
    assert heard == [0, 1, 2, 3, 4]
    ledger = assert_ledger_balanced(system, ref)
    assert (ledger.sent, ledger.handled, ledger.rejected) == (6, 6, 0)


async def test_with_room_it_is_an_ask_as_any(system: ActorSystem) -> None:  # M17
    class Doubler(Actor[Any, Any]):
        def receive(self, message: Any) -> Any:
            return 2 * message

    ref = system.spawn(Doubler)
    assert await ref.ask(1, wait_for_room=True) == 2
    assert await asyncio.gather(*asks(ref, *range(20))) == [2 * n for n in range(20)]
    with pytest.raises(TypeError):
        await ref.ask(None, wait_for_room=True)
    with pytest.raises(BadArgument):
        ref.ask(1, lane="data", wait_for_room=True)  # type: ignore[call-overload]


async def test_without_the_flag_a_full_mailbox_refuses_also_while_others_wait(system: ActorSystem) -> None:  # M17
    held = Holding(system, mailbox=ONE)
    ref = await held.begin()
    asked = asks(ref, 1, 2)
    with pytest.raises(MailboxFull):
        await ref.ask(3)
    assert await held.end() == [1, 2]
    await asyncio.gather(*asked)


@pytest.mark.parametrize("way", ["cancel", "task", "timeout", "asyncio"])
async def test_one_who_gives_up_before_there_is_room_sends_nothing(system: ActorSystem, way: str) -> None:
    # case 10, M17
    held = Holding(system, mailbox=ONE)
    ref = await held.begin()
    ref.tell("first")
    if way == "timeout":
        gone = ref.ask("gone", timeout=0.0, wait_for_room=True)
        kept = asks(ref, "kept")[0]
        with pytest.raises(AskTimeout):
            await gone
    else:
        gone, kept = asks(ref, "gone", "kept")
        if way == "cancel":
            assert gone.cancel()
            assert gone.done()
        elif way == "task":
            task = asyncio.ensure_future(gone)
            await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        else:
            with suppress(TimeoutError):
                async with asyncio.timeout(0.0):
                    await gone
    assert await held.end() == ["first", "kept"]
    await kept
    ledger = assert_ledger_balanced(system, ref)
    assert (ledger.sent, ledger.late_replies) == (3, 0)


@pytest.mark.parametrize("drain", [None, Drain.DROP])
async def test_an_ask_that_waits_when_the_actor_ends_is_told_at_once(system: ActorSystem, drain: Drain | None) -> None:
    # M10, M17
    held = Holding(system, mailbox=ONE, drain=drain)
    ref = await held.begin()
    ref.tell("first")
    asked = asks(ref, 1, 2)
    ref.stop()
    held.released.set()
    for one in asked:
        with pytest.raises(ActorTerminated):
            await one
    await ref.terminated()
    assert_ledger_balanced(system, ref)


async def test_a_mailbox_that_drops_is_waited_for_as_well(system: ActorSystem) -> None:  # M17
    for overflow in (Overflow.DROP_NEW, Overflow.DROP_OLD):
        held = Holding(system, mailbox=MailboxConfig(capacity=1, overflow=overflow))
        ref = await held.begin()
        asked = asks(ref, 1, 2, 3)
        assert await held.end() == [1, 2, 3]
        await asyncio.gather(*asked)
        assert assert_ledger_balanced(system, ref).dropped == 0


async def test_actors_that_wait_for_each_others_answers_are_told_even_when_the_ask_waits_for_room(
    system: ActorSystem,
) -> None:  # case 25, B5, M17
    class Peer(Actor[Any, Any]):
        async def receive(self, message: Any) -> Any:
            match message:
                case ("ask", other, entered):
                    entered.set()
                    await are_full.wait()
                    return await other.ask("hello", timeout=None, wait_for_room=True)
            return message

    are_full = Event()
    one, two = (system.spawn(Peer, mailbox=ONE) for _ in range(2))
    asked = []
    for ref, other in ((one, two), (two, one)):
        entered = Event()
        asked.append(ref.ask(("ask", other, entered), timeout=None))
        await entered.wait()
        ref.tell("fill")
    are_full.set()
    answers = await asyncio.gather(*asked, return_exceptions=True)
    assert any(isinstance(answer, AskDeadlock) for answer in answers), answers


async def test_an_actor_that_asks_itself_is_told_so_though_its_mailbox_is_full(system: ActorSystem) -> None:
    # case 25, M17
    class Selfish(Actor[Any, Any]):
        async def receive(self, message: Any) -> Any:
            if message == "ask":
                self.ctx.self.tell("fill")
                with pytest.raises(AskDeadlock):
                    await self.ctx.self.ask("me", timeout=None, wait_for_room=True)
            heard.append(message)

    heard: list[Any] = []
    ref = system.spawn(Selfish, mailbox=ONE)
    await ref.ask("ask", timeout=None)
    await system.settle()
    assert heard == ["ask", "fill"]
    assert assert_ledger_balanced(system, ref).sent == 2


async def test_a_handler_can_ask_and_wait_for_room(system: ActorSystem) -> None:  # M17
    held = Holding(system, mailbox=ONE)
    ref = await held.begin()
    ref.tell("first")

    async def ask(ctx: Context, message: Any) -> Any:
        return await ref.ask(message, timeout=None, wait_for_room=True)

    asked = system.spawn(ask).ask("by a handler", timeout=None)
    await turns()
    assert not asked.done()
    held.released.set()
    await asked
    assert held.heard == ["first", "by a handler"]


@pytest.mark.real
async def test_another_threads_loop_asks_in_order_and_may_give_up(system: ActorSystem) -> None:  # case 10, J15, M17
    held = Holding(system, mailbox=ONE)
    ref = await held.begin()
    aio = asyncio.get_running_loop()

    async def ask_all() -> None:
        asked = asks(ref, *range(10))
        cancelled = ref.ask("cancelled", timeout=None, wait_for_room=True)
        assert cancelled.cancel()
        with pytest.raises(AskTimeout):
            await ref.ask("late", timeout=0.0, wait_for_room=True)
        aio.call_soon_threadsafe(held.released.set)
        async with asyncio.timeout(120.0):
            await asyncio.gather(*asked)

    await run_threads(lambda: asyncio.run(ask_all()))
    await system.settle()
    assert held.heard == list(range(10))
    ledger = assert_ledger_balanced(system, ref)
    assert (ledger.sent, ledger.rejected, ledger.late_replies) == (11, 0, 0)


@pytest.mark.real
async def test_another_thread_asks_and_then_tells_in_this_order_when_there_is_room(system: ActorSystem) -> None:
    # J15, M17
    heard: list[Any] = []
    ref = system.spawn(lambda ctx, message: heard.append(message))

    async def use() -> None:
        for number in range(0, 200, 2):
            asked = ref.ask(number, timeout=None, wait_for_room=True)
            ref.tell(number + 1)
            if number % 20 == 0:
                await asked

    await run_threads(lambda: asyncio.run(use()))
    await system.settle()
    assert heard == list(range(200))


async def test_those_who_wait_for_room_wait_through_a_restart(system: ActorSystem) -> None:  # M17
    held = Holding(system, mailbox=ONE)
    ref = await held.begin()
    asked = asks(ref, 1, 2)
    ref.restart()
    held.released.set()
    await asyncio.gather(*asked)
    assert held.heard == [1, 2]


PATIENCE = 120.0


@pytest.mark.config(clock=MonotonicClock())
async def test_a_timeout_ends_the_ask_though_the_actor_is_suspended_and_the_loop_asleep(system: ActorSystem) -> None:
    # case 23
    gate = Gate()

    async def busy(ctx: Context, message: object) -> None:
        await gate

    ref = system.spawn(busy)
    ref.tell("in hand")
    while not system._loop.runq.asleep:  # noqa: ASYNC110 - nothing tells when it has fallen asleep
        await asyncio.sleep(0)
    async with asyncio.timeout(PATIENCE):
        with pytest.raises(AskTimeout):
            await ref.ask("queued", timeout=0.01)
    gate.set_result(None)


@pytest.mark.parametrize("fate", ["unhandled", "dead_letter", "drop"])
async def test_an_ask_ends_after_all_have_been_told_what_became_of_its_message(system: ActorSystem, fate: str) -> None:
    # cases 25, 26
    asks: list[Any] = []
    heard: list[bool] = []

    class Observer:
        def dead_letter(self, recipient: Any, message: Any, sender: Any, why: str) -> None:
            heard.append(asks[0].done())

        def message_dropped(self, ref: Any, message: Any, lane: Any) -> None:
            heard.append(asks[0].done())

    system.observers.add(Observer())
    ref = system.spawn(
        lambda ctx, message: Behaviors.unhandled, drain=Drain.DROP if fate == "drop" else Drain.DEAD_LETTER
    )
    await ref.started()
    with standstill(system):
        asks.append(ref.ask("message", timeout=None))
        if fate != "unhandled":
            ref.stop()
    with pytest.raises(GreenroomError):
        await asks[0]
    assert heard == [False]


@pytest.mark.real
@pytest.mark.parametrize("way", ["forward", "redirect"])
@pytest.mark.parametrize("asker", ["coroutine", "actor"])
def test_an_ask_that_was_handed_to_a_system_on_another_thread_is_answered(play: Play, way: str, asker: str) -> None:
    with ActorSystem("other") as other:
        echo = other.spawn(Echo)

        async def program(system: ActorSystem) -> None:
            def forward(ctx: Context, message: object) -> None:
                ctx.forward(echo)

            async def ask(ctx: Context, message: object) -> object:
                return await ref.ask("hi", timeout=None)

            if way == "forward":
                ref = system.spawn(forward)
                first = ref if asker == "coroutine" else system.spawn(ask)
                asked = first.ask("hi", timeout=None)
            else:
                ref = system.spawn(Echo, drain=Drain.REDIRECT(echo))
                await ref.started()
                first = ref if asker == "coroutine" else system.spawn(ask)
                asked = first.ask("hi", timeout=None)
                if asker == "coroutine":
                    ref.stop()
                else:
                    first.tell("nothing")
            async with asyncio.timeout(PATIENCE):
                assert await asked == "hi"

        play(program)
        assert_ledger_balanced(other)


@pytest.mark.real
def test_a_failure_on_another_thread_comes_back_too(play: Play) -> None:
    class Broken(Actor[Any, Any]):
        def receive(self, message: Any) -> Any:
            raise ValueError(message)

    with ActorSystem("other") as other:
        broken = other.spawn(Broken)

        async def program(system: ActorSystem) -> None:
            ref = system.spawn(lambda ctx, message: ctx.forward(broken))
            async with asyncio.timeout(PATIENCE):
                with pytest.raises(ValueError, match="bad"):
                    await ref.ask("bad", timeout=None)

        play(program)


async def test_when_one_who_awaits_an_ask_is_cancelled_so_are_the_others(system: ActorSystem) -> None:  # case 28
    gate = Gate()

    async def slow(ctx: Context, message: object) -> None:
        await gate

    async def asks(ctx: Context, message: object) -> str:
        asked = target.ask("x", timeout=None)

        async def awaits() -> object:
            return await asked

        task = asyncio.create_task(awaits())
        aio = asyncio.get_running_loop()
        aio.call_soon(lambda: aio.call_soon(task.cancel))
        try:
            await asked
        except asyncio.CancelledError:
            return "cancelled"
        return "answered"

    target = system.spawn(slow)
    async with asyncio.timeout(PATIENCE):
        assert await system.spawn(asks).ask("go", timeout=None) == "cancelled"
    gate.set_result(None)


def test_answers_that_race_with_the_asker_s_patience_are_given_or_late() -> None:  # case 23
    def spin(ctx: Context, seconds: float) -> str:
        end = time.perf_counter() + seconds
        while time.perf_counter() < end:
            pass
        return "done"

    counts = {"answered": 0, "too late": 0}
    lock = threading.Lock()

    def asks() -> None:
        for number in range(150):
            try:
                answer = ref.ask_sync(0.0002, timeout=0.0002 + number * 1e-5)
            except AskTimeout:
                outcome = "too late"
            else:
                assert answer == "done"
                outcome = "answered"
            with lock:
                counts[outcome] += 1

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        with ActorSystem() as system:
            ref = system.spawn(spin)
            threads = [threading.Thread(target=asks) for _ in range(3)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(120.0)
            assert ref.ask_sync(0.0, timeout=PATIENCE) == "done"
    finally:
        sys.setswitchinterval(interval)
    assert sum(counts.values()) == 450
    ledger = assert_ledger_balanced(system)
    assert ledger.handled == ledger.sent == 451
    assert ledger.late_replies <= counts["too late"]


def test_after_the_end_of_its_system_an_ask_says_so_on_every_thread() -> None:  # J9
    with ActorSystem() as system:
        ref = system.spawn(Echo)
    heard: list[BaseException] = []

    def ask() -> None:
        try:
            ref.ask_sync(1, timeout=1.0)
        except BaseException as exc:
            heard.append(exc)

    for _ in range(3):  # one of them is likely to get the number of the system's own thread
        thread = threading.Thread(target=ask)
        thread.start()
        thread.join(PATIENCE)
    assert [type(exc) for exc in heard] == [ActorTerminated] * 3
    system.close()


def test_asking_a_system_that_does_not_run_yet_says_so() -> None:  # J9
    system = ActorSystem()
    ref = system.spawn(Echo)
    with pytest.raises(NotStarted):
        ref.ask_sync(1, timeout=1.0)


@pytest.mark.parametrize("what", ["inspect", "terminated"])
async def test_an_actor_that_waits_for_itself_is_told_so(system: ActorSystem, what: str) -> None:  # J9
    async def waits(ctx: Context, message: object) -> None:
        await getattr(ctx.self, what)()

    with pytest.raises(WaitsForItself, match="its own"):
        await system.spawn(waits).ask("go")
