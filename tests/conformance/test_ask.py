"""Asking: each ask ends, once, in a reply or in an error that says why there is none (cases 23, 24)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from greenroom import (
    Actor,
    ActorSystem,
    ActorTerminated,
    AskTimeout,
    Behaviors,
    Context,
    DeathPact,
    ExitKind,
    Lane,
    ManualClock,
    Reply,
)
from greenroom.errors import InvalidDelay
from tests.conformance.askers import ANYWHERE, ON_A_LOOP, Echo, Gated, Keeper, Ref, ask_from, outcome, pass_time, until
from tests.gates import Event

if TYPE_CHECKING:
    from tests.conftest import Play

BAD = ValueError("bad")


async def echo_async(ctx: Context, message: Any) -> Any:
    await asyncio.sleep(0)
    return message


@pytest.mark.parametrize("kind", [Echo, echo_async, Behaviors.receive(lambda ctx, message: message)])
@pytest.mark.parametrize("where", ANYWHERE)
async def test_the_reply_comes_to_whoever_asked(system: ActorSystem, where: str, kind: Any) -> None:
    ref: Ref = system.spawn(kind)
    thing = object()
    assert await ask_from(where, system, ref, thing, timeout=None) is thing
    assert system.ledger(ref).handled == 1
    assert system.ledger().late_replies == system.dead_letters.count == 0


async def test_an_ask_is_sent_when_it_is_called(system: ActorSystem) -> None:
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
async def test_an_ask_goes_by_any_lane(system: ActorSystem, lane: Lane) -> None:
    assert await system.spawn(Echo).ask("hello", lane=lane) == "hello"


async def test_systems_that_share_a_loop_can_ask_each_other(system: ActorSystem) -> None:
    async with ActorSystem("other") as other:
        far = other.spawn(Echo)
        assert await ask_from("handler", system, far, "hello") == "hello"
        far.stop()
        error = await ask_from("outside", system, far, "hello")
        assert isinstance(error, ActorTerminated)


@pytest.mark.parametrize("timeout", [-1.0, -1e-9, float("nan"), float("inf")])
async def test_an_impossible_timeout_is_refused_before_anything_is_sent(system: ActorSystem, timeout: float) -> None:
    ref = system.spawn(Echo)
    with pytest.raises(InvalidDelay):
        ref.ask("hello", timeout=timeout)
    await system.settle()
    assert system.ledger(ref).sent == 0


# -- case 23


@pytest.mark.parametrize("where", ON_A_LOOP)
async def test_no_reply_in_time_is_an_ask_timeout_and_the_late_one_a_dead_letter(
    system: ActorSystem, clock: ManualClock, where: str
) -> None:  # case 23
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


async def test_a_timeout_is_neither_early_nor_late(system: ActorSystem, clock: ManualClock) -> None:  # case 23
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
) -> None:  # case 23
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
) -> None:  # case 24
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


async def test_a_system_that_stops_leaves_no_asker_waiting(system: ActorSystem) -> None:  # case 24
    ref = system.spawn(Deferring)
    asked = ref.ask("?", timeout=None)
    await system.settle()
    system.stop()
    error = await outcome(asked)
    assert isinstance(error, ActorTerminated)
    assert error.reason == await ref.terminated()
    assert (await ref.terminated()).kind is ExitKind.SHUTDOWN


@pytest.mark.parametrize("kind", [BadConstructor, BadStart])
async def test_an_actor_that_never_started_fails_what_it_was_asked(system: ActorSystem, kind: Any) -> None:  # case 24
    error = await outcome(system.spawn(kind).ask("?", timeout=None))
    assert isinstance(error, ActorTerminated)
    reason: Any = error.reason
    assert (reason.kind, reason.cause) == (ExitKind.FAIL, BAD)


async def test_a_death_pact_fails_what_was_asked(system: ActorSystem) -> None:  # case 24, M8
    error = await outcome(system.spawn(Watching).ask("?", timeout=None))
    assert isinstance(error, ActorTerminated)
    reason: Any = error.reason
    assert isinstance(reason.cause, DeathPact)


@pytest.mark.parametrize("in_hand", [True, False])
@pytest.mark.parametrize("where", ANYWHERE)
async def test_a_killed_actor_leaves_no_asker_waiting(
    system: ActorSystem, where: str, in_hand: bool
) -> None:  # case 24
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
async def test_a_dead_actor_answers_nobody(system: ActorSystem, where: str) -> None:  # case 24
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
def test_a_stopped_system_answers_nobody(play: Play, where: str) -> None:  # case 24
    async def main() -> None:
        async with asyncio.timeout(120.0), ActorSystem() as system:
            ref = system.spawn(Echo)
            assert await ref.ask(1) == 1
        error = await ask_from(where, system, ref, where, timeout=3.0)
        assert isinstance(error, ActorTerminated)
        assert system.ledger().balanced

    play.bare(main)
