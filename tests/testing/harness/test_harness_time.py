"""`ActorHarness`: timers and timeouts; becoming, stashing, stepping (M19)."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from greenroom import (
    Actor,
    Behavior,
    Behaviors,
    Context,
    Directive,
    Lane,
    ReceiveTimeout,
    Supervision,
)
from greenroom.errors import InvalidDelay
from greenroom.testing import ActorHarness
from tests.testing.harness.counters import COUNTERS, Counter

# -- time


class Ticking(Actor[Any]):
    def __init__(self) -> None:
        self.seen: list[Any] = []

    def receive(self, message: Any) -> None:
        match message:
            case ("once", delay):
                self.ctx.send_after(delay, self.ctx.self, "once")
            case ("every", interval):
                self.timer = self.ctx.send_every(interval, self.ctx.self, "again", fixed_rate=True)
            case ("key", key, delay):
                self.ctx.timers.start(key, delay, key)
            case ("cancel", key):
                self.ctx.timers.cancel(key)
            case "cancel":
                self.timer.cancel()
            case _:
                self.seen.append((self.ctx.now(), message))


def test_its_timers_are_seen_and_ring_when_time_passes() -> None:
    with ActorHarness(Ticking, name="t") as harness:
        harness.tell(("once", 5))
        harness.tell(("every", 2.0))
        harness.tell(("key", "k", 3.0))
        assert [(timer.key, timer.message, timer.to, timer.due, timer.interval) for timer in harness.timers] == [
            (None, "once", harness.ref, 5.0, None),
            (None, "again", harness.ref, 2.0, 2.0),
            ("k", "k", harness.ref, 3.0, None),
        ]
        assert [timer.fixed_rate for timer in harness.timers] == [False, True, False]
        assert repr(harness.timers[1]) == "<Timer: 'again' to /t, due in 2 s, every 2 s>"
        harness.advance(4.5)
        assert harness.actor.seen == [(2.0, "again"), (3.0, "k"), (4.0, "again")]
        assert [(timer.message, timer.due) for timer in harness.timers] == [("once", 0.5), ("again", 1.5)]
        assert harness.now == 4.5
        harness.tell("cancel")
        harness.advance(10.0)
        assert harness.actor.seen[3:] == [(5.0, "once")]
        assert harness.timers == []
        assert [repr(timer) for timer in harness.effects] == [
            "<Timer: 'once' to /t, over>",
            "<Timer: 'again' to /t, over, every 2 s>",
            "<Timer 'k': 'k' to /t, over>",
        ]


def test_a_timer_that_takes_the_place_of_another_or_is_cancelled_is_not_active() -> None:
    with ActorHarness(Ticking) as harness:
        harness.tell(("key", "k", 3.0))
        harness.tell(("key", "k", 4.0))
        harness.tell(("key", "other", 5.0))
        assert [(timer.key, timer.due) for timer in harness.timers] == [("k", 4.0), ("other", 5.0)]
        harness.tell(("cancel", "k"))
        harness.clear()
        assert [timer.key for timer in harness.timers] == ["other"]  # what there is, and not what has happened
        harness.restart()
        assert harness.timers == []


def test_timers_of_a_behavior_are_seen_too() -> None:
    def begin(timers: Any) -> Behavior:
        timers.start("beat", 1.0, "beat", every=1.0)
        return Behaviors.receive(lambda ctx, message: timers.cancel("beat") and None)

    with ActorHarness(Behaviors.with_timers(begin)) as harness:
        assert [(timer.key, timer.interval) for timer in harness.timers] == [("beat", 1.0)]
        harness.advance(1.0)
        assert harness.timers == []


def test_a_handler_that_sleeps_goes_on_when_time_passes() -> None:
    async def nap(ctx: Context, message: float) -> float:
        await asyncio.sleep(message)
        return ctx.now()

    began = time.monotonic()
    with ActorHarness(nap) as harness:
        asked = harness.begin_ask(3600.0)
        harness.advance(3599.0)
        assert not asked.done
        assert harness.is_suspended
        harness.advance(1.0)
        assert asked.result() == 3600.0
    assert time.monotonic() - began < 3600.0  # the hour did not pass for real


def test_a_receive_timeout_rings_when_time_passes_without_a_message() -> None:
    class Patient(Actor[Any]):
        timeouts = 0

        def pre_start(self) -> None:
            self.ctx.set_receive_timeout(10.0)

        def receive(self, message: Any) -> None:
            if isinstance(message, ReceiveTimeout):
                self.timeouts += 1
            elif message == "no more":
                self.ctx.set_receive_timeout(None)

    with ActorHarness(Patient) as harness:
        assert harness.receive_timeout == 10.0
        harness.advance(9.0)
        harness.tell("still here")
        harness.advance(9.0)
        assert harness.actor.timeouts == 0
        harness.advance(1.0)
        assert harness.actor.timeouts == 1
        harness.tell("no more")
        assert harness.receive_timeout is None
        harness.advance(100.0)
        assert harness.actor.timeouts == 1


@pytest.mark.parametrize(("step", "steps", "delay"), [(0.1, 10, 1.0), (0.1, 3, 0.3), (0.7, 3, 2.1), (1e-3, 1000, 1.0)])
def test_seconds_that_pass_in_parts_are_as_many(step: float, steps: int, delay: float) -> None:
    class Patient(Actor[str]):
        def __init__(self) -> None:
            self.ticks = 0
            self.slept = False

        async def receive(self, message: str) -> None:
            if message == "tick":
                self.ticks += 1
                return
            self.ctx.send_every(delay, self.ctx.self, "tick", fixed_rate=True)
            await asyncio.sleep(delay)
            self.slept = True

    with ActorHarness(Patient) as harness:
        harness.tell("begin")
        for number in range(1, 4):
            for _ in range(steps - 1):
                harness.advance(step)
            assert harness.actor.ticks == number - 1
            harness.advance(step)
            assert (harness.actor.ticks, harness.actor.slept) == (number, True)


def test_what_is_a_moment_later_stays_so() -> None:
    class Punctual(Actor[str]):
        def receive(self, message: str) -> None:
            self.ctx.send_after(1.0 + 1e-6, self.ctx.self, "late")

    with ActorHarness(Punctual) as harness:
        harness.tell("begin")
        harness.advance(1.0)
        assert harness.now == 1.0
        assert harness.timers[0].due == pytest.approx(1e-6)


def test_time_is_a_number_of_seconds() -> None:
    with ActorHarness(Counter) as harness:
        for seconds in (-1.0, float("inf"), float("nan"), "1", True):
            with pytest.raises(InvalidDelay):
                harness.advance(seconds)  # type: ignore[arg-type]
        assert harness.now == 0.0


# -- becoming, stashing, stepping


def test_what_it_becomes_handles_the_next_message() -> None:
    class Door(Actor[str, str]):
        def receive(self, message: str) -> Any:
            if message == "open":
                self.ctx.become(self.opened)
                return "opened"
            return "closed"

        async def opened(self, message: str) -> str:
            if message == "close":
                self.ctx.unbecome()
            return "open"

    with ActorHarness(Door) as harness:
        assert [harness.ask(word) for word in ("?", "open", "?", "close", "?")] == [
            "closed",
            "opened",
            "open",
            "open",
            "closed",
        ]
        assert isinstance(harness.actor, Door)


def test_what_it_stashes_is_counted_and_comes_back() -> None:
    def begin(stash: Any) -> Behavior:
        def waiting(ctx: Context, message: str) -> Any:
            if message == "ready":
                stash.unstash_all()
                return Behaviors.receive(ready)
            stash.put()
            return Behaviors.same

        def ready(ctx: Context, message: str) -> None:
            seen.append(message)

        return Behaviors.receive(waiting)

    seen: list[str] = []
    with ActorHarness(Behaviors.with_stash(10, begin)) as harness:
        for word in ("a", "b"):
            harness.tell(word)
        assert harness.stashed == 2
        harness.tell("ready")
        assert harness.stashed == 0
        assert seen == ["a", "b"]


@COUNTERS
def test_messages_are_taken_one_by_one(counter: type[Counter]) -> None:
    with ActorHarness(counter) as harness:
        for number in (1, 2, 3):
            harness.ref.tell(number)
        assert harness.step()
        assert (harness.actor.total, harness.queued) == (1, 2)
        harness.ref.tell(100, lane=Lane.CONTROL)
        assert harness.step()
        assert (harness.actor.total, harness.queued) == (101, 2)
        harness.settle()
        assert (harness.actor.total, harness.queued) == (106, 0)
        assert not harness.step()


def test_a_step_that_fails_ends_before_the_next_message() -> None:
    for supervision in (Supervision(), Supervision(backoff=None), Supervision(Directive.RESUME)):
        with ActorHarness(Counter, 10, supervision=supervision) as harness:
            for number in (1, -1, 2):
                harness.ref.tell(number)
            harness.step()
            harness.step()
            assert (len(harness.failures), harness.queued) == (1, 1)
            harness.advance(1.0)
            assert harness.actor.total == (13 if supervision.strategy is Directive.RESUME else 12)
