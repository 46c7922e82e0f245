"""Each limit of a `SystemConfig` is enforced, with an error of its own; each setting does what it says (J1)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from greenroom import (
    Actor,
    ActorRef,
    ActorSystem,
    Context,
    MailboxConfig,
    MailboxFull,
    ManualClock,
    Overflow,
    State,
    SystemConfig,
)
from greenroom.errors import TooManyActors, TooManyTimers
from greenroom.exits import ExitKind
from tests.conformance.lives import report_of
from tests.system.observing import HandClock

if TYPE_CHECKING:
    from tests.conftest import Play


class Quiet(Actor[Any, Any]):
    """Takes anything, does nothing."""

    def receive(self, message: Any) -> None:
        pass


class Held(Actor[Any, Any]):
    """Holds each message until its gate opens."""

    def __init__(self, gate: asyncio.Event) -> None:
        self.gate = gate

    async def receive(self, message: Any) -> None:
        await self.gate.wait()


@pytest.mark.config(max_actors=3)
async def test_one_actor_more_than_the_table_holds_is_refused(system: ActorSystem) -> None:  # J1
    first, _, third = (system.spawn(Quiet) for _ in range(3))
    with pytest.raises(TooManyActors) as caught:
        system.spawn(Quiet)
    assert (caught.value.limit, caught.value.code) == (3, "too_many_actors")
    assert len(system.actors()) == 3
    first.stop()
    await first.terminated()
    assert system.spawn(Quiet).is_alive
    with pytest.raises(TooManyActors):
        system.spawn(Quiet)
    assert third.is_alive


@pytest.mark.config(max_actors=2)
async def test_a_handler_is_told_that_the_table_is_full_and_may_go_on(system: ActorSystem) -> None:  # J1
    class Parent(Actor[str, Any]):
        def receive(self, message: str) -> object:
            self.ctx.spawn(Quiet)
            try:
                self.ctx.spawn(Quiet)
            except TooManyActors as error:
                return error.limit
            return "not refused"

    parent = system.spawn(Parent)
    assert await parent.ask("go") == 2
    assert parent.is_alive


@pytest.mark.config(mailbox=MailboxConfig(capacity=1))
async def test_the_mailbox_of_the_config_is_that_of_actors_spawned_without_one(system: ActorSystem) -> None:  # J1
    small = system.spawn(Quiet)
    large = system.spawn(Quiet, mailbox=MailboxConfig(capacity=3))
    for room, ref in ((1, small), (3, large)):
        for number in range(room):
            ref.tell(number)
        with pytest.raises(MailboxFull) as caught:
            ref.tell("too much")
        assert (caught.value.message, caught.value.ref, caught.value.capacity) == ("too much", ref, room)
        assert caught.value.code == "mailbox_full"


@pytest.mark.config(mailbox=MailboxConfig(capacity=2, overflow=Overflow.DROP_OLD))
async def test_children_have_the_mailbox_of_the_config_too(system: ActorSystem) -> None:
    class Parent(Actor[Any, Any]):
        def receive(self, message: Any) -> Any:
            child = self.ctx.spawn(Quiet)
            for number in range(5):
                child.tell(number)
            return child

    parent = system.spawn(Parent, mailbox=MailboxConfig(capacity=9))
    child = await parent.ask("go")
    await system.settle()
    assert system.ledger(child).dropped == 3
    assert system.ledger(child).handled == 2


@pytest.mark.parametrize("budget", [1, 3, 64])
def test_a_visit_handles_at_most_as_many_messages_as_the_budget_says(play: Play, budget: int) -> None:  # J1, J6
    async def program(system: ActorSystem) -> None:
        handled: list[str] = []

        def note(ctx: Any, message: str) -> None:
            handled.append(message)

        refs = [(name, system.spawn(note)) for name in "ab"]
        await system.settle()
        for name, ref in refs:
            for _ in range(2 * budget):
                ref.tell(name)
        await system.settle()
        assert "".join(handled) == 2 * ("a" * budget + "b" * budget)

    play(program, max_msgs_per_actor=budget, max_tick_time=1000.0)


async def turns_of_asyncio(seen: list[int], turns: int) -> list[int]:
    """How many messages were handled between one turn of asyncio and the next."""
    counts = []
    for _ in range(turns):
        before = len(seen)
        await asyncio.sleep(0)
        counts.append(len(seen) - before)
    return counts


def busy_bodies(system: ActorSystem, count: int, clock: HandClock | None = None) -> list[int]:
    """Actors that send themselves a message whenever they have handled one; what they handled."""
    seen: list[int] = []

    def spin(ctx: Any, message: int) -> None:
        seen.append(message)
        if clock is not None:
            clock.time += 1.0
        if len(seen) < 10_000:
            ctx.self.tell(message)

    for number in range(count):
        system.spawn(spin).tell(number)
    return seen


@pytest.mark.config(max_actors_per_tick=4, max_msgs_per_actor=1, max_tick_time=1000.0)
async def test_asyncio_has_its_turn_after_as_many_visits_as_the_config_says(system: ActorSystem) -> None:  # J1
    seen = busy_bodies(system, 10)
    counts = await turns_of_asyncio(seen, 50)
    assert max(counts) == 4
    await system.settle()


def test_asyncio_has_its_turn_when_the_tick_has_had_its_time(play: Play) -> None:  # J1
    clock = HandClock()

    async def program(system: ActorSystem) -> None:
        seen = busy_bodies(system, 10, clock)
        counts = await turns_of_asyncio(seen, 50)
        assert max(counts) == 3  # each message takes a second, and none begins when the time is up
        await system.settle()

    play(program, clock=clock, max_tick_time=2.5)


@pytest.mark.config(max_timers=2)
async def test_one_timer_more_than_the_limit_is_refused(system: ActorSystem) -> None:  # J1
    class Setter(Actor[Any, Any]):
        def receive(self, message: Any) -> Any:
            ctx = self.ctx
            timers = [ctx.send_after(10.0, ctx.self, "tick"), ctx.send_every(10.0, ctx.self, "tick")]
            for refused in (
                lambda: ctx.send_after(1.0, ctx.self, "x"),
                lambda: ctx.send_every(1.0, ctx.self, "x"),
                lambda: ctx.timers.start("key", 1.0, "x"),
            ):
                with pytest.raises(TooManyTimers) as caught:
                    refused()
                assert (caught.value.limit, caught.value.code) == (2, "too_many_timers")
            assert timers[0].cancel()
            ctx.timers.start("key", 1.0, "x").cancel()
            for timer in timers:
                timer.cancel()
            return "done"

    assert await system.spawn(Setter).ask("go", timeout=None) == "done"


@pytest.mark.parametrize("timeout", [0.0, 3.0, 5.0])
def test_an_actor_that_has_not_stopped_after_stop_timeout_is_forced(play: Play, timeout: float) -> None:  # J1, M5
    clock = ManualClock()

    async def program(system: ActorSystem) -> None:
        ref = system.spawn(Held, asyncio.Event(), name="held")
        ref.tell("never done")
        await clock.advance(0.0)
        ref.stop()
        if timeout:
            await clock.advance(timeout - 0.1)
            assert ref.is_alive
        await clock.advance(0.1)
        assert not ref.is_alive
        reason = await ref.terminated()
        assert (reason.cause, reason.kind is ExitKind.FAIL) == (None, False)  # the cancellation was asked for

    system = play(program, clock=clock, stop_timeout=timeout)
    assert report_of(system).forced == ("/held",)


@pytest.mark.parametrize("kept", [0, 3])
def test_as_many_dead_letters_are_kept_as_the_config_says_and_all_are_counted(play: Play, kept: int) -> None:  # J1, M10
    async def program(system: ActorSystem) -> None:
        ref = system.spawn(Quiet)
        ref.stop()
        await ref.terminated()
        for number in range(5):
            ref.tell(number)
        assert [letter.message for letter in system.dead_letters.recent()] == [2, 3, 4][3 - kept :]
        assert system.dead_letters.count == 5

    play(program, dead_letters=kept)


def test_a_history_is_kept_on_request(play: Play) -> None:  # M1
    async def program(system: ActorSystem) -> None:
        ref = system.spawn(Quiet)
        await ref.started()
        ref.stop()
        await ref.terminated()
        wanted = (State.CREATED, State.STARTING, State.RUNNING, State.STOPPING, State.STOPPED, State.TERMINATED)
        assert ref.history == (wanted if system.config.history else ())

    play(program, history=True)
    play(program, history=False)


def test_a_system_asks_the_clock_it_was_given(play: Play) -> None:
    clock = ManualClock(5.0)

    async def program(system: ActorSystem) -> None:
        assert system.clock is clock
        ref: ActorRef[str, float] = system.spawn(lambda ctx, message: ctx.now())
        assert await ref.ask("time?") == 5.0
        await clock.advance(1.5)
        assert await ref.ask("time?") == 6.5
        assert system.snapshot().time == 6.5

    play(program, clock=clock)


def test_a_seed_makes_the_systems_random_repeatable() -> None:
    drawn = [ActorSystem(config=SystemConfig(seed=seed)).random.random() for seed in (7, 7, 8, None, None)]
    assert drawn[0] == drawn[1]
    assert len(set(drawn)) == 4


@pytest.mark.config(env={"stage": "test"})
async def test_the_env_of_the_config_is_that_of_every_actor(system: ActorSystem) -> None:
    def look_up(ctx: Context, message: str) -> Any:
        return ctx.env[message]

    assert await system.spawn(look_up).ask("stage") == "test"
