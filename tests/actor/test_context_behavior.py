"""`ctx.become`, `ctx.unbecome` and `ctx.set_receive_timeout`: what an actor is now, and what silence means to it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from greenroom import (
    Actor,
    ActorRef,
    ActorSystem,
    Behaviors,
    Context,
    Lane,
    ManualClock,
    ReceiveTimeout,
    Signal,
    handles,
)
from greenroom.actor.api.behavior import MOST_BEHAVIORS
from greenroom.errors import BadArgument, InvalidDelay, NotAnActor
from greenroom.testing import TestProbe


def mirror(ctx: Context, message: Any) -> Any:
    return message(ctx) if callable(message) else f"first {message}"


class Chameleon(Actor[Any, Any]):
    """An actor that does what a function of its context says, in each of its shapes."""

    def receive(self, message: Any) -> Any:
        return message(self.ctx) if callable(message) else f"first {message}"

    def second(self, message: Any) -> Any:
        return message(self.ctx) if callable(message) else f"second {message}"

    async def third(self, message: Any) -> Any:
        await asyncio.sleep(0)
        return message(self.ctx) if callable(message) else f"third {message}"

    def post_stop(self) -> None:
        self.ctx.log.info("gone")

    def inspect(self, *items: str) -> dict[str, Any]:
        return {"kind": "chameleon"}


def changed(ctx: Context, message: Any) -> Any:
    return message(ctx) if callable(message) else f"changed {message}"


async def async_changed(ctx: Context, message: Any) -> Any:
    await asyncio.sleep(0)
    return message(ctx) if callable(message) else f"changed {message}"


class Other:
    """Something else whose methods take messages."""

    def __init__(self, ctx: Context) -> None:
        self.ctx = ctx

    def handle(self, message: Any) -> Any:
        return changed(self.ctx, message)

    def handle_in_context(self, ctx: Context, message: Any) -> Any:
        return changed(ctx, message)


SHAPES: dict[str, Callable[[Context], Any]] = {
    "function": lambda ctx: changed,
    "async function": lambda ctx: async_changed,
    "lambda": lambda ctx: lambda ctx, message: changed(ctx, message),
    "lambda of the message": lambda ctx: lambda message: changed(ctx, message),
    "behavior": lambda ctx: Behaviors.receive(changed),
    "async behavior": lambda ctx: Behaviors.receive(async_changed),
    "setup": lambda ctx: Behaviors.setup(lambda ctx: Behaviors.receive(changed)),
    "with_stash": lambda ctx: Behaviors.with_stash(3, lambda stash: Behaviors.receive(changed)),
    "with_timers": lambda ctx: Behaviors.with_timers(lambda timers: Behaviors.receive(changed)),
    "method": lambda ctx: Other(ctx).handle,
    "method with context": lambda ctx: Other(ctx).handle_in_context,
}


@pytest.mark.parametrize("shape", list(SHAPES))
@pytest.mark.parametrize("start", [Chameleon, mirror, Behaviors.receive(mirror)])
async def test_an_actor_becomes_what_it_is_told_and_goes_back(
    system: ActorSystem, start: Any, shape: str
) -> None:  # M13
    ref = system.spawn(start)

    def change(ctx: Context) -> str:
        ctx.become(SHAPES[shape](ctx))
        return "from the next message on"

    assert await ref.ask("x") == "first x"
    assert await ref.ask(change) == "from the next message on"
    assert await ref.ask("x") == "changed x"
    await ref.ask(lambda ctx: ctx.unbecome())
    assert await ref.ask("x") == "first x"


class Layered(Chameleon):
    def pre_start(self) -> None:
        self.ctx.become(self.second)  # a hook may, too


async def test_become_replaces_and_unbecome_goes_back_to_the_first(system: ActorSystem) -> None:  # M13
    ref = system.spawn(Layered)
    for _ in range(3):
        await ref.ask(lambda ctx: ctx.become(changed))
        assert await ref.ask("x") == "changed x"
        await ref.ask(lambda ctx: ctx.become(mirror))
        assert await ref.ask("x") == "first x"
    await ref.ask(lambda ctx: ctx.become(changed))
    for _ in range(2):
        await ref.ask(lambda ctx: ctx.unbecome())
        assert await ref.ask("x") == "first x"
    await ref.ask(lambda ctx: ctx.become(changed, push=True))
    await ref.ask(lambda ctx: ctx.become(mirror))  # in the place of what was pushed
    await ref.ask(lambda ctx: ctx.unbecome())
    assert await ref.ask("x") == "first x"


async def test_behaviors_that_take_turns_do_not_pile_up(system: ActorSystem) -> None:  # M13
    def ping(ctx: Context, message: Any) -> str:
        ctx.become(pong)
        return "ping"

    def pong(ctx: Context, message: Any) -> str:
        if message == "back":
            ctx.unbecome()
        else:
            ctx.become(Behaviors.receive(ping))
        return "pong"

    ref = system.spawn(ping)
    for _ in range(MOST_BEHAVIORS):
        assert [await ref.ask("x"), await ref.ask("x")] == ["ping", "pong"]
    await ref.ask("x")
    assert [await ref.ask("back"), await ref.ask("x")] == ["pong", "ping"]


async def test_there_is_a_limit_to_what_is_pushed(system: ActorSystem) -> None:
    ref = system.spawn(Chameleon, name="deep")

    def push(ctx: Context) -> None:
        for _ in range(MOST_BEHAVIORS):
            ctx.become(mirror, push=True)

    await ref.ask(push)
    with pytest.raises(BadArgument, match=r"/deep has 1,000 behaviors .* `unbecome\(\)`"):
        await ref.ask(lambda ctx: ctx.become(changed, push=True))


async def test_a_pushed_behavior_piles_up_and_unbecome_takes_down(system: ActorSystem) -> None:
    ref = system.spawn(Layered)
    assert await ref.ask("x") == "second x"
    await ref.ask(lambda ctx: ctx.become(changed, push=True))
    assert await ref.ask("x") == "changed x"
    for expected in ("second x", "first x", "first x"):  # at the bottom, nothing happens
        await ref.ask(lambda ctx: ctx.unbecome())
        assert await ref.ask("x") == expected


async def test_a_class_becomes_one_of_its_own_methods_and_keeps_its_hooks(system: ActorSystem) -> None:
    ended: list[str] = []

    class Mortal(Chameleon):
        def turn(self, ctx: Context) -> None:
            ctx.become(self.third)

        def post_stop(self) -> None:
            ended.append(self.ctx.name)

    kept = Mortal()
    ref = system.spawn(lambda: kept, name="mortal")
    await ref.ask(kept.turn)
    assert await ref.ask("x") == "third x"
    assert await ref.inspect() == {"kind": "chameleon"}
    ref.stop()
    await ref.terminated()
    assert ended == ["mortal"]


def no_arguments() -> None: ...


def three_arguments(one: Any, two: Any, three: Any) -> None: ...


@pytest.mark.parametrize(
    "what",
    [None, 3, "text", no_arguments, three_arguments, Behaviors.same],
    ids=lambda what: getattr(what, "__name__", repr(what)),
)
async def test_what_cannot_handle_messages_is_refused_and_nothing_changes(system: ActorSystem, what: Any) -> None:  # J9
    def attempt(ctx: Context) -> Any:
        try:
            ctx.become(what)
        except Exception as exc:
            return exc
        return None

    ref = system.spawn(Chameleon)
    error = await ref.ask(attempt)
    assert isinstance(error, NotAnActor)
    assert error.code == "not_an_actor"
    assert "cannot handle messages" in str(error)
    assert "message)" in str(error) or "Behaviors.receive" in str(error)
    assert await ref.ask("x") == "first x"


# Silence


class Waiting(Actor[Any, Any]):
    def __init__(self, seconds: float | None, probe: ActorRef[Any, Any]) -> None:
        self.seconds = seconds
        self.probe = probe

    def pre_start(self) -> None:
        self.ctx.set_receive_timeout(self.seconds)

    def receive(self, message: Any) -> Any:
        if callable(message):
            return message(self.ctx)
        self.probe.tell((message, self.ctx.now()))
        return None


class AsyncWaiting(Waiting):
    async def receive(self, message: Any) -> Any:
        await asyncio.sleep(0)
        return super().receive(message)


class TypedWaiting(Waiting):
    receive = Actor.receive  # type: ignore[assignment]

    @handles(ReceiveTimeout)
    def silence(self, message: ReceiveTimeout) -> None:
        self.probe.tell((message, self.ctx.now()))

    @handles(object)
    def other(self, message: Any) -> Any:
        return Waiting.receive(self, message)


waiting_kinds = pytest.mark.parametrize("kind", [Waiting, AsyncWaiting, TypedWaiting])


def _times(probe: TestProbe) -> list[float]:
    assert {type(message) for message, _ in probe.messages} <= {ReceiveTimeout}
    return [moment for _, moment in probe.messages]


@waiting_kinds
async def test_silence_is_told_again_and_again(system: ActorSystem, clock: ManualClock, kind: type[Waiting]) -> None:
    probe = TestProbe(system)
    ref = system.spawn(kind, 2.0, probe.ref)
    await ref.started()
    await clock.advance(1.5)
    assert _times(probe) == []
    await clock.advance(5.0)
    assert _times(probe) == [2.0, 4.0, 6.0]
    assert system.ledger(ref).sent == 0  # notices are not in the ledger


@waiting_kinds
@pytest.mark.parametrize("lane", list(Lane))
async def test_a_message_of_any_lane_begins_the_wait_anew(
    system: ActorSystem, clock: ManualClock, kind: type[Waiting], lane: Lane
) -> None:
    probe = TestProbe(system)
    ref = system.spawn(kind, 2.0, probe.ref)
    await ref.started()
    for _ in range(3):
        await clock.advance(1.5)
        ref.tell(lambda ctx: None, lane=lane)
        await system.settle()
    assert _times(probe) == []
    await clock.advance(2.0)
    assert _times(probe) == [6.5]


@waiting_kinds
async def test_the_timeout_can_be_changed_and_ended(
    system: ActorSystem, clock: ManualClock, kind: type[Waiting]
) -> None:
    probe = TestProbe(system)
    ref = system.spawn(kind, None, probe.ref)
    await ref.started()
    await clock.advance(10.0)
    await ref.ask(lambda ctx: ctx.set_receive_timeout(5.0))
    await clock.advance(4.0)
    await ref.ask(lambda ctx: ctx.set_receive_timeout(3.0))
    await clock.advance(4.0)
    assert _times(probe) == [17.0]
    await ref.ask(lambda ctx: ctx.set_receive_timeout(None))
    await ref.ask(lambda ctx: ctx.set_receive_timeout(None))
    await clock.advance(100.0)
    assert _times(probe) == [17.0]


async def test_a_silence_already_queued_is_not_told_when_the_timeout_was_ended(
    system: ActorSystem, clock: ManualClock
) -> None:
    probe = TestProbe(system)
    held, gate = asyncio.Event(), asyncio.Event()

    async def hold(ctx: Context) -> None:
        held.set()
        await gate.wait()
        ctx.set_receive_timeout(None)

    ref = system.spawn(Waiting, 1.0, probe.ref)
    ref.tell(hold)
    await held.wait()
    clock.step(1.0)  # the notice queues behind the handler
    gate.set()
    await system.settle()
    await clock.advance(10.0)
    assert _times(probe) == []


async def test_an_ended_actor_waits_no_more(system: ActorSystem, clock: ManualClock) -> None:
    probe = TestProbe(system)
    ref = system.spawn(Waiting, 1.0, probe.ref)
    await ref.started()
    ref.stop()
    await ref.terminated()
    await clock.advance(10.0)
    assert _times(probe) == []
    assert system.dead_letters.count == 0


async def test_a_silence_nobody_handles_is_a_dead_letter(system: ActorSystem, clock: ManualClock) -> None:
    """`An unhandled type goes to dead letters as Unhandled, never silently`."""

    class Deaf(Actor[Any, Any]):
        def pre_start(self) -> None:
            self.ctx.set_receive_timeout(1.0)

        @handles(str)
        def text(self, message: str) -> str:
            return message

    ref = system.spawn(Deaf)
    await ref.started()
    await clock.advance(1.0)
    (letter,) = system.dead_letters.recent()
    assert isinstance(letter.message, ReceiveTimeout)
    assert (letter.recipient, letter.reason) == (ref, "unhandled")
    assert await ref.ask("alive") == "alive"


async def test_a_refused_timeout_leaves_the_one_there_was(system: ActorSystem, clock: ManualClock) -> None:
    probe = TestProbe(system)
    ref = system.spawn(Waiting, 1.0, probe.ref)

    def attempt(ctx: Context) -> None:
        with pytest.raises(InvalidDelay):
            ctx.set_receive_timeout(-1.0)

    await ref.ask(attempt)
    await clock.advance(1.0)
    assert _times(probe) == [1.0]


@pytest.mark.parametrize("seconds", [-1.0, float("nan"), float("inf"), "1", 0])
async def test_a_timeout_that_is_no_time_is_refused(system: ActorSystem, seconds: Any) -> None:  # J9
    def attempt(ctx: Context) -> Any:
        try:
            ctx.set_receive_timeout(seconds)
        except Exception as exc:
            return exc
        return None

    ref = system.spawn(Chameleon)
    error = await ref.ask(attempt)
    assert isinstance(error, InvalidDelay)
    assert error.code == "invalid_delay"
    assert repr(seconds) in str(error)
    if seconds == 0:
        assert "zero or more" not in str(error)  # that would be no remedy


async def test_a_receive_timeout_is_a_signal_that_on_signal_hears_of_too(
    system: ActorSystem, clock: ManualClock
) -> None:
    """`on_signal` gets every `Signal`."""
    heard: list[Any] = []

    class Listener(Waiting):
        def on_signal(self, signal: Signal) -> None:
            heard.append(type(signal))

    probe = TestProbe(system)
    await system.spawn(Listener, 1.0, probe.ref).started()
    await clock.advance(1.0)
    assert _times(probe) == [1.0]
    assert (ReceiveTimeout in heard) == issubclass(ReceiveTimeout, Signal)
