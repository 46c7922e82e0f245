"""Replies that are given later, by somebody else, from other threads, too late or twice (case 26)."""

from __future__ import annotations

import asyncio
import pickle
import threading
from typing import Any

import pytest

from greenroom import (
    Actor,
    ActorSystem,
    ActorTerminated,
    AskTimeout,
    Context,
    ManualClock,
    Reply,
)
from greenroom.errors import AlreadyReplied, NoMessage, WaitsForItself, WrongThread
from greenroom.testing import TestProbe
from tests.conformance.askers import ANYWHERE, Echo, Keeper, Ref, ask_from, in_thread, outcome, pass_time, until
from tests.conformance.cast import FOREIGN

BAD = ValueError("bad")


class Delegate(Actor[Any, Any]):
    """Lets another actor answer."""

    def __init__(self, worker: Ref) -> None:
        self.worker = worker

    def receive(self, message: Any) -> str:
        self.worker.tell((self.ctx.defer_reply(), message))
        return "not the answer"


class Worker(Actor[Any, Any]):
    async def receive(self, message: tuple[Reply, Any]) -> None:
        reply, question = message
        await asyncio.sleep(0)
        if isinstance(question, Exception):
            reply.fail(question)
        else:
            reply.send(question)


@pytest.mark.parametrize("question", ["?", None, BAD])
@pytest.mark.parametrize("where", ANYWHERE)
async def test_another_actor_can_give_the_reply(system: ActorSystem, where: str, question: Any) -> None:  # case 26
    delegate = system.spawn(Delegate, system.spawn(Worker))
    assert await ask_from(where, system, delegate, question, timeout=None) is question
    assert delegate.is_alive
    assert system.ledger().late_replies == system.dead_letters.count == 0


@pytest.mark.real
@pytest.mark.parametrize("where", ANYWHERE)
async def test_another_thread_can_give_the_reply(system: ActorSystem, where: str) -> None:  # case 26
    kept: list[Reply] = []
    keeper = system.spawn(Keeper, kept)
    for act, expected in ((lambda reply: reply.send(1), 1), (lambda reply: reply.fail(BAD), BAD)):
        if where == "handler" and (old := system.actor("asker")) is not None:
            old.stop()
            await old.terminated()
        asking = asyncio.create_task(ask_from(where, system, keeper, "?", timeout=None))
        await until(lambda: kept)
        reply = kept.pop()
        await in_thread(lambda act=act, reply=reply: act(reply))  # type: ignore[misc]
        assert await asking == expected


@pytest.mark.parametrize("first", ["send", "fail"])
@pytest.mark.parametrize("second", ["send", "fail"])
async def test_a_second_reply_is_an_error(system: ActorSystem, first: str, second: str) -> None:  # case 26: once
    kept: list[Reply] = []
    keeper = system.spawn(Keeper, kept)
    values = {"send": 1, "fail": BAD}
    asked = keeper.ask("?")
    await system.settle()
    getattr(kept[0], first)(values[first])
    with pytest.raises(AlreadyReplied):
        getattr(kept[0], second)(values[second])
    assert await outcome(asked) == values[first]


@pytest.mark.real
async def test_of_many_threads_one_gives_the_reply(system: ActorSystem) -> None:  # case 26: once
    kept: list[Reply] = []
    asked = system.spawn(Keeper, kept).ask("?", timeout=None)
    await system.settle()
    start = threading.Barrier(8)

    def send(number: int) -> int | None:
        start.wait(10.0)
        try:
            kept[0].send(number)
        except AlreadyReplied:
            return None
        return number

    given = await asyncio.gather(*(in_thread(lambda number=number: send(number)) for number in range(8)))  # type: ignore[misc]
    [winner] = [number for number in given if number is not None]
    assert await asked == winner


def reply_twice(ctx: Context) -> None:
    ctx.reply(1)
    ctx.reply(2)


def fail_after_reply(ctx: Context) -> None:
    ctx.reply(1)
    ctx.fail_reply(BAD)


def defer_after_reply(ctx: Context) -> None:
    ctx.reply(1)
    ctx.defer_reply().send(2)


def reply_after_defer(ctx: Context) -> None:
    reply = ctx.defer_reply()
    reply.send(1)
    ctx.reply(2)


def defer_twice(ctx: Context) -> None:
    ctx.defer_reply().send(1)
    ctx.defer_reply().send(2)


@pytest.mark.parametrize("act", [reply_twice, fail_after_reply, defer_after_reply, reply_after_defer, defer_twice])
async def test_a_message_is_answered_once_by_whatever_means(system: ActorSystem, act: Any) -> None:  # case 26: once
    errors: list[AlreadyReplied] = []

    def receive(ctx: Context, message: Any) -> None:
        try:
            act(ctx)
        except AlreadyReplied as exc:
            errors.append(exc)

    ref: Ref = system.spawn(receive)
    assert await outcome(ref.ask("?")) == 1
    await system.settle()
    assert len(errors) == 1


async def test_a_reply_that_fails_needs_an_exception(system: ActorSystem) -> None:
    kept: list[Reply] = []
    asked = system.spawn(Keeper, kept).ask("?")
    await system.settle()
    with pytest.raises(TypeError):
        kept[0].fail("no exception")  # type: ignore[arg-type]
    kept[0].send("still open")
    assert await asked == "still open"


async def test_there_is_nothing_to_answer_outside_a_message(system: ActorSystem) -> None:
    class Eager(Echo):
        def __init__(self, errors: list[Any]) -> None:
            self.errors = errors

        def pre_start(self) -> None:
            target: Ref = self.ctx.self
            for act in (self.ctx.defer_reply, lambda: self.ctx.reply(1), lambda: self.ctx.fail_reply(BAD)):
                with pytest.raises(NoMessage):
                    act()
                self.errors.append(True)
            with pytest.raises(NoMessage):
                self.ctx.forward(target)

    errors: list[Any] = []
    ref = system.spawn(Eager, errors)
    await ref.started()
    assert errors == [True] * 3


@pytest.mark.parametrize("how", ["stop", "kill", "raise", "shutdown"])
async def test_an_actor_that_ends_owes_nothing_any_more(system: ActorSystem, how: str) -> None:  # case 24, 26
    kept: list[Reply] = []

    def defer(ctx: Context, message: Any) -> Any:
        kept.append(ctx.defer_reply())
        if message == "raise":
            raise BAD.with_traceback(None)

    ref: Ref = system.spawn(defer)
    asked = ref.ask(how, timeout=None)
    await until(lambda: kept)
    if how in ("stop", "kill"):
        getattr(ref, how)()
    elif how == "shutdown":
        await system.shutdown()
    error = await outcome(asked)
    assert isinstance(error, ActorTerminated)
    assert error.reason == await ref.terminated()
    if how == "raise":
        assert (await ref.terminated()).cause is BAD


async def test_a_deferred_reply_of_an_ended_actor_is_a_dead_letter(system: ActorSystem) -> None:  # late_replies
    kept: list[Reply] = []
    keeper = system.spawn(Keeper, kept)
    asked = keeper.ask("?")
    await system.settle()
    keeper.stop()
    assert isinstance(await outcome(asked), ActorTerminated)
    kept[0].send("nobody waits any more")
    await system.settle()
    assert [letter.message for letter in system.dead_letters.recent()] == ["nobody waits any more"]
    assert system.ledger().late_replies == 1


@pytest.mark.parametrize("foreign", FOREIGN)
async def test_a_deferred_reply_to_what_was_told_goes_to_its_sender(system: ActorSystem, foreign: bool) -> None:  # M12
    kept: list[Reply] = []
    probe = TestProbe(system)
    keeper = system.spawn(Keeper, kept)
    keeper.tell("?", sender=probe.ref)
    await system.settle()
    if foreign:
        await in_thread(lambda: kept[0].send("later"))
    else:
        kept[0].send("later")
    assert await probe.receive() == "later"
    assert probe.last_sender == keeper
    with pytest.raises(AlreadyReplied):
        kept[0].send("again")


async def test_late_replies_are_counted_one_by_one_and_told_to_subscribers(
    system: ActorSystem, clock: ManualClock
) -> None:  # case 23
    kept: list[Reply] = []
    letters: list[Any] = []
    system.dead_letters.subscribe(letters.append)
    probe = TestProbe(system)
    system.dead_letters.subscribe(probe.ref)
    keeper = system.spawn(Keeper, kept)
    asked = [keeper.ask(number, timeout=1.0) for number in range(10)]
    await clock.advance(0.5)
    for number in range(5):
        kept[number].send(number)
    await clock.advance(0.5)
    ends = [await outcome(one) for one in asked]
    assert ends[:5] == list(range(5))
    assert [type(end) for end in ends[5:]] == [AskTimeout] * 5
    for number in range(5, 10):
        kept[number].send(number)
    await system.settle()
    assert [letter.message for letter in letters] == list(range(5, 10))
    assert [letter.message for letter in probe.messages] == list(range(5, 10))
    assert {letter.time for letter in letters} == {1.0}
    ledger = system.ledger()
    assert (ledger.late_replies, ledger.dead_lettered, ledger.balanced) == (5, 0, True)  # outside the balance
    assert system.dead_letters.count == 5


async def test_neither_an_ask_nor_a_reply_can_be_pickled(system: ActorSystem) -> None:
    kept: list[Reply] = []
    asked = system.spawn(Keeper, kept).ask("?")
    await system.settle()
    for thing in (asked, kept[0]):
        with pytest.raises(TypeError):
            pickle.dumps(thing)
    asked.cancel()


# -- asking without a loop


def test_a_plain_program_asks_by_ask_sync() -> None:
    with ActorSystem() as system:
        ref = system.spawn(Echo)
        assert [ref.ask_sync(number) for number in range(100)] == list(range(100))
        kept: list[Reply] = []
        keeper = system.spawn(Keeper, kept)
        with pytest.raises(AskTimeout) as caught:
            keeper.ask_sync("?", timeout=0.0)
        assert (caught.value.ref, caught.value.timeout) == (keeper, 0.0)
        assert ref.ask_sync("goes on", timeout=None) == "goes on"
        kept[0].send("late")
        assert ref.ask_sync("taken in") == "taken in"
        assert [letter.message for letter in system.dead_letters.recent()] == ["late"]
        assert system.ledger().late_replies == 1
        ref.stop()
        with pytest.raises(ActorTerminated):
            ref.ask_sync("?", timeout=None)
    with pytest.raises(ActorTerminated):
        keeper.ask_sync("?", timeout=3.0)


@pytest.mark.real
async def test_ask_without_a_loop_says_to_use_ask_sync(system: ActorSystem) -> None:  # J9
    ref = system.spawn(Echo)
    with pytest.raises(WrongThread, match="ask_sync"):
        await in_thread(lambda: ref.ask("?"))
    assert system.ledger(ref).sent == 0


@pytest.mark.at_home
async def test_ask_sync_is_refused_on_the_systems_own_thread(system: ActorSystem) -> None:  # J9
    ref = system.spawn(Echo)
    with pytest.raises(WaitsForItself):
        ref.ask_sync("?")
    handler: Ref = system.spawn(lambda ctx, message: ref.ask_sync(message))
    assert isinstance(await outcome(handler.ask("?")), WaitsForItself)
    assert system.ledger(ref).sent == 0


@pytest.mark.real
async def test_ask_sync_is_refused_on_the_thread_of_any_loop(
    system: ActorSystem,
) -> None:  # the contract: a plain thread
    ref = system.spawn(Echo)

    async def elsewhere() -> Any:
        return ref.ask_sync("?", timeout=1.0)

    with pytest.raises((WaitsForItself, WrongThread)):
        await in_thread(lambda: asyncio.run(elsewhere()))
    assert system.ledger(ref).sent == 0


@pytest.mark.real
async def test_the_clock_of_the_system_times_ask_sync_too(
    system: ActorSystem, clock: ManualClock
) -> None:  # nothing reads the wall clock by itself
    keeper = system.spawn(Keeper, [])
    asking = asyncio.create_task(ask_from("plain thread", system, keeper, "?", timeout=1000.0))
    async with asyncio.timeout(120.0):
        error = await pass_time(clock, asking)
    assert isinstance(error, AskTimeout)
    assert error.timeout == 1000.0
