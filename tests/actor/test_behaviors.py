"""Behaviors as values: what a handler returns to say what comes next, and actors written as functions (J3, M13)."""

from __future__ import annotations

import asyncio
import copy
import pickle
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from greenroom import (
    Actor,
    ActorSystem,
    Behavior,
    Behaviors,
    Context,
    ExitKind,
    State,
    Supervision,
)
from greenroom.errors import Unhandled

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
async def test_unhandled_is_a_dead_letter_and_fails_an_ask(system: ActorSystem, says: Callable[[Any], Any]) -> None:
    ref = system.spawn(says(Behaviors.unhandled))
    ref.tell("told")
    with pytest.raises(Unhandled):
        await ref.ask("asked")
    assert [letter.message for letter in system.dead_letters.recent()] == ["told", "asked"]
    assert system.ledger(ref).unhandled == 2
    assert ref.is_alive


@ways
async def test_a_new_behavior_takes_the_next_message(system: ActorSystem, says: Callable[[Any], Any]) -> None:  # M13
    ref = system.spawn(says(Behaviors.receive(sync_says("second"))))
    assert await ref.ask("x") is None  # a returned behavior answers None
    assert await ref.ask("x") == "second"


async def test_a_returned_behavior_is_no_reply_after_an_explicit_one(system: ActorSystem) -> None:
    def handler(ctx: Context, message: str) -> Behavior:
        ctx.reply("early")
        return Behaviors.stopped

    ref = system.spawn(handler)
    assert await ref.ask("x") == "early"
    await ref.terminated()


async def test_behaviors_can_go_round_for_ever(system: ActorSystem) -> None:  # M13
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


def test_a_class_that_returns_a_behavior_keeps_its_hooks(play: Play) -> None:
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


def test_every_behavior_is_a_behavior_and_shows_itself() -> None:
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
def test_a_word_is_still_itself_when_it_was_copied_or_pickled(word: str) -> None:
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
def test_a_behavior_made_of_functions_that_can_be_found_can_be_sent_to_another_process(behavior: Behavior) -> None:
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
) -> None:  # J9
    with pytest.raises(TypeError) as caught:
        make()
    for word in words:
        assert word in str(caught.value)
