"""Behaviors as values, and actors written as functions: how they begin, and what a handler returns (M13)."""

from __future__ import annotations

import asyncio
import copy
import gc
import pickle
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from greenroom import (
    Actor,
    ActorSystem,
    Behavior,
    Behaviors,
    ChildTerminated,
    Context,
    DeathPact,
    ExitKind,
    PostStart,
    PostStop,
    PreStart,
    PreStop,
    Signal,
    State,
    Supervision,
    Terminated,
)
from greenroom.errors import NotAnActor, Unhandled
from greenroom.testing import TestProbe

if TYPE_CHECKING:
    from tests.conftest import Play

Handler = Callable[[Context, Any], Any]


def sync_says(result: Any) -> Handler:
    def handler(ctx: Context, message: Any) -> Any:
        return result

    return handler


def async_says(result: Any) -> Handler:
    async def handler(ctx: Context, message: Any) -> Any:
        await asyncio.sleep(0)
        return result

    return handler


def class_says(result: Any) -> Any:
    class Saying(Actor[Any, Any]):
        def receive(self, message: Any) -> Any:
            return result

    return Saying


ways = pytest.mark.parametrize("says", [sync_says, async_says, class_says])


# What a handler may return
@ways
async def test_same_goes_on_and_answers_none(system: ActorSystem, says: Callable[[Any], Any]) -> None:  # J3
    ref = system.spawn(says(Behaviors.same))
    assert await ref.ask("x") is None
    assert await ref.ask("x") is None
    assert ref.state is State.RUNNING
    assert system.ledger(ref).handled == 2


@ways
async def test_stopped_stops_after_this_message_and_answers_none(
    system: ActorSystem, says: Callable[[Any], Any]
) -> None:  # J3
    ref = system.spawn(says(Behaviors.stopped))
    asked = ref.ask("x")
    ref.tell("too late")
    assert await asked is None
    assert (await ref.terminated()).kind is ExitKind.NORMAL
    assert [letter.message for letter in system.dead_letters.recent()] == ["too late"]
    assert system.ledger(ref).handled == 1


@ways
async def test_failed_is_as_if_the_handler_had_raised(system: ActorSystem, says: Callable[[Any], Any]) -> None:  # J3
    cause = ValueError("bad luck")
    ref = system.spawn(says(Behaviors.failed(cause)))
    with pytest.raises(ValueError, match="bad luck") as caught:
        await ref.ask("x")
    assert caught.value is cause
    reason = await ref.terminated()
    assert (reason.kind, reason.cause) == (ExitKind.FAIL, cause)
    assert system.ledger(ref).failed == 1


@ways
async def test_unhandled_is_a_dead_letter_and_fails_an_ask(
    system: ActorSystem, says: Callable[[Any], Any]
) -> None:  # J3
    ref = system.spawn(says(Behaviors.unhandled))
    ref.tell("told")
    with pytest.raises(Unhandled):
        await ref.ask("asked")
    assert [letter.message for letter in system.dead_letters.recent()] == ["told", "asked"]
    assert system.ledger(ref).unhandled == 2
    assert ref.is_alive


@ways
async def test_a_new_behavior_takes_the_next_message(
    system: ActorSystem, says: Callable[[Any], Any]
) -> None:  # J3, M13
    ref = system.spawn(says(Behaviors.receive(sync_says("second"))))
    assert await ref.ask("x") is None  # a returned behavior answers None
    assert await ref.ask("x") == "second"


async def test_a_returned_behavior_is_no_reply_after_an_explicit_one(system: ActorSystem) -> None:  # J3
    def handler(ctx: Context, message: str) -> Behavior:
        ctx.reply("early")
        return Behaviors.stopped

    ref = system.spawn(handler)
    assert await ref.ask("x") == "early"
    await ref.terminated()


async def test_behaviors_can_go_round_for_ever(system: ActorSystem) -> None:  # J3, M13
    """A traffic light, each state returning the next; nothing piles up on the way."""

    def green(ctx: Context, message: str) -> Any:
        ctx.reply("green")
        return Behaviors.receive(red)

    def red(ctx: Context, message: str) -> Any:
        ctx.reply("red")
        return Behaviors.receive(green)

    light = system.spawn(Behaviors.receive(green))
    answers = [await light.ask("next") for _ in range(100)]
    assert answers == ["green", "red"] * 50


def test_a_class_that_returns_a_behavior_keeps_its_hooks(play: Play) -> None:  # J3
    ended: list[str] = []

    class Shell(Actor[str, Any]):
        def receive(self, message: str) -> Any:
            return Behaviors.receive(sync_says("changed"))

        def post_stop(self) -> None:
            ended.append(self.ctx.name)

    async def program(system: ActorSystem) -> None:
        ref = system.spawn(Shell, name="shell")
        await ref.ask("change")
        assert await ref.ask("x") == "changed"

    play(program)
    assert ended == ["shell"]


def test_every_behavior_is_a_behavior_and_shows_itself() -> None:  # J3
    cause = ValueError("x")
    made = {
        "Behaviors.same": Behaviors.same,
        "Behaviors.stopped": Behaviors.stopped,
        "Behaviors.unhandled": Behaviors.unhandled,
        "Behaviors.failed(ValueError('x'))": Behaviors.failed(cause),
        "Behaviors.receive(print)": Behaviors.receive(print),
        "Behaviors.setup(print)": Behaviors.setup(print),  # type: ignore[arg-type]
        "Behaviors.with_timers(print)": Behaviors.with_timers(print),  # type: ignore[arg-type]
        "Behaviors.with_stash(print)": Behaviors.with_stash(3, print),  # type: ignore[arg-type]
    }
    for shown, behavior in made.items():
        assert isinstance(behavior, Behavior), shown
        assert repr(behavior) == shown


@pytest.mark.parametrize("word", ["same", "stopped", "unhandled"])
def test_a_word_is_still_itself_when_it_was_copied_or_pickled(word: str) -> None:  # J3
    behavior = getattr(Behaviors, word)
    assert copy.copy(behavior) is behavior
    assert copy.deepcopy(behavior) is behavior
    assert pickle.loads(pickle.dumps(behavior)) is behavior


@pytest.mark.parametrize(
    "behavior",
    [
        Behaviors.failed(ValueError("oops")),
        Behaviors.receive(print, on_signal=print),
        Behaviors.setup(Behaviors.receive),  # type: ignore[arg-type]
        Behaviors.with_stash(5, Behaviors.receive),  # type: ignore[arg-type]
        Behaviors.with_timers(Behaviors.receive),  # type: ignore[arg-type]
        Behaviors.supervise(Behaviors.receive(print), Supervision(max_restarts=7)),
    ],
    ids=repr,
)
def test_a_behavior_made_of_functions_that_can_be_found_can_be_sent_to_another_process(
    behavior: Behavior,
) -> None:  # J3
    again = pickle.loads(pickle.dumps(behavior))
    assert type(again) is type(behavior)
    assert repr(again) == repr(behavior)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Behaviors.failed("oops"), ["Behaviors.failed()", "exception", "'oops'"]),  # type: ignore[arg-type]
        (lambda: Behaviors.failed(ValueError), ["Behaviors.failed()", "exception"]),  # type: ignore[arg-type]
        (lambda: Behaviors.receive(3), ["function", "3"]),  # type: ignore[arg-type]
        (lambda: Behaviors.receive(print, on_signal=3), ["function", "3"]),  # type: ignore[arg-type]
        (lambda: Behaviors.setup(3), ["Behaviors.setup()", "function", "3"]),  # type: ignore[arg-type]
        (lambda: Behaviors.with_timers(None), ["Behaviors.with_timers()", "function"]),  # type: ignore[arg-type]
        (lambda: Behaviors.with_stash(3, "x"), ["Behaviors.with_stash()", "function"]),  # type: ignore[arg-type]
    ],
)
def test_a_behavior_made_of_the_wrong_thing_is_refused_where_it_is_made(
    make: Callable[[], Behavior], words: list[str]
) -> None:  # J3, J9
    with pytest.raises(TypeError) as caught:
        make()
    for word in words:
        assert word in str(caught.value)


async def test_setup_begins_with_what_it_returns_and_runs_when_the_actor_starts(
    system: ActorSystem,
) -> None:  # M4: deferred setup
    made: list[str] = []

    def begin(ctx: Context) -> Behavior:
        made.append(ctx.name)
        return Behaviors.receive(sync_says(ctx.self))

    ref = system.spawn(Behaviors.setup(begin), name="late")
    assert made == []
    assert await ref.ask("who") == ref
    assert made == ["late"]
    again = system.spawn(Behaviors.setup(begin), name="again")  # one value, many actors
    assert await again.ask("who") == again


async def test_setup_may_be_nested(system: ActorSystem) -> None:  # M4
    ref = system.spawn(
        Behaviors.setup(
            lambda ctx: Behaviors.with_timers(
                lambda timers: Behaviors.with_stash(2, lambda stash: Behaviors.receive(sync_says((timers, stash))))
            )
        )
    )
    timers, stash = await ref.ask("x")
    assert stash.capacity == 2
    assert timers.active == []


async def test_a_setup_that_raises_fails_the_start(system: ActorSystem) -> None:  # M4
    def begin(ctx: Context) -> Behavior:
        raise LookupError("no such thing")

    ref = system.spawn(Behaviors.setup(begin))
    with pytest.raises(LookupError, match="no such thing"):
        await ref.started()
    assert (await ref.terminated()).kind is ExitKind.FAIL


@pytest.mark.parametrize("returned", [None, 3, "text", Behaviors.same])
async def test_a_setup_that_returns_no_behavior_says_what_to_return(
    system: ActorSystem, returned: Any
) -> None:  # M4, J9
    ref = system.spawn(Behaviors.setup(lambda ctx: returned))
    with pytest.raises(NotAnActor) as caught:
        await ref.started()
    assert caught.value.code == "not_an_actor"
    assert "Behaviors.receive" in str(caught.value)


async def test_a_setup_that_would_have_to_be_awaited_is_refused(  # M4, J9
    system: ActorSystem, caplog: pytest.LogCaptureFixture
) -> None:
    async def begin(ctx: Context) -> Behavior:
        return Behaviors.receive(sync_says(1))

    ref = system.spawn(Behaviors.setup(begin))  # type: ignore[arg-type]
    with pytest.raises(NotAnActor) as caught:
        await ref.started()
    assert "async" in str(caught.value)
    caplog.clear()  # of the last traceback that knows the coroutine
    gc.collect()  # it was closed, or would complain now


# Signals of functional actors
@pytest.mark.parametrize("suspends", [False, True])
async def test_on_signal_of_a_functional_actor_gets_the_signals_of_its_life(
    system: ActorSystem, suspends: bool
) -> None:  # M4
    heard: list[Any] = []

    async def hear_later(ctx: Context, signal: Signal) -> None:
        await asyncio.sleep(0)
        heard.append(type(signal))

    def hear(ctx: Context, signal: Signal) -> None:
        heard.append(type(signal))

    def handler(ctx: Context, message: Any) -> Any:
        heard.append(message)
        if message == "bear":
            return ctx.spawn(sync_says(Behaviors.stopped))
        return None

    ref = system.spawn(Behaviors.receive(handler, on_signal=hear_later if suspends else hear))
    child = await ref.ask("bear")
    child.tell("end")
    await child.terminated()
    await system.settle()
    ref.stop()
    await ref.terminated()
    assert heard == [PreStart, PostStart, "bear", ChildTerminated, PreStop, PostStop]


@pytest.mark.parametrize("answer", ["same", "stopped", None])
async def test_a_functional_actor_says_by_on_signal_what_a_watched_ones_end_means(
    system: ActorSystem, answer: str | None
) -> None:  # M4
    """Without anything to say it is a death pact (M8)."""

    def on_signal(ctx: Context, signal: Signal) -> Any:
        return getattr(Behaviors, answer or "") if isinstance(signal, Terminated) else None

    target = system.spawn(sync_says(1))

    def begin(ctx: Context) -> Behavior:
        ctx.watch(target)
        return Behaviors.receive(sync_says(1), on_signal=None if answer is None else on_signal)

    ref = system.spawn(Behaviors.setup(begin))
    await ref.started()
    target.stop()
    await target.terminated()
    await system.settle()
    if answer == "same":
        assert await ref.ask("x") == 1
    else:
        reason = await ref.terminated()
        assert reason.kind is (ExitKind.NORMAL if answer == "stopped" else ExitKind.FAIL)
        if answer is None:
            assert isinstance(reason.cause, DeathPact)


@pytest.mark.parametrize("suspends", [False, True])
async def test_an_on_signal_that_raises_at_the_start_fails_it(system: ActorSystem, suspends: bool) -> None:  # M4
    def on_signal(ctx: Context, signal: Signal) -> Any:
        if isinstance(signal, PreStart):
            return later() if suspends else now()
        return None

    def now() -> None:
        raise LookupError("at start")

    async def later() -> None:
        await asyncio.sleep(0)
        now()

    probe = TestProbe(system)
    ref = system.spawn(Behaviors.receive(sync_says(1), on_signal=on_signal))
    await probe.watch(ref)
    with pytest.raises(LookupError, match="at start"):
        await ref.started()
    await probe.expect_terminated(ref)


async def test_a_new_behavior_brings_its_own_on_signal(system: ActorSystem) -> None:  # M4
    heard: list[str] = []

    def hear(name: str) -> Callable[[Context, Signal], None]:
        return lambda ctx, signal: heard.append(f"{name} {type(signal).__name__}")

    second = Behaviors.receive(sync_says(2), on_signal=hear("second"))
    ref = system.spawn(Behaviors.receive(sync_says(second), on_signal=hear("first")))
    await ref.ask("change")
    ref.stop()
    await ref.terminated()
    assert heard == ["first PreStart", "first PostStart", "second PreStop", "second PostStop"]
