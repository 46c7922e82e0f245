"""Timers, on a clock moved by hand: when ticks come, and how often."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from greenroom import ActorRef, ActorSystem, Context, ManualClock, SystemConfig, Timer
from greenroom.errors import InvalidDelay, TooManyTimers, WrongThread
from greenroom.testing import assert_ledger_balanced
from tests.conformance.cast import run_threads
from tests.conformance.timekeepers import TIMED, Tick, Timed, Waiting, after, cancel, every
from tests.gates import Event


@pytest.mark.parametrize("timed", TIMED)
async def test_a_tick_comes_at_its_time_and_once(
    system: ActorSystem, clock: ManualClock, timed: type[Timed]
) -> None:  # J11
    ticks: list[Tick] = []
    ref = system.spawn(timed, ticks)
    timer: Timer = await ref.ask(after(2.0, "tick"))
    at_once: Timer = await ref.ask(after(0.0, "now"))
    await clock.advance(0.0)
    assert ticks == [(0.0, "now")]
    assert not at_once.active
    await clock.advance(1.999)
    assert len(ticks) == 1
    assert timer.active
    await clock.advance(0.001)
    assert ticks[1:] == [(2.0, "tick")]
    assert not timer.active
    assert not await ref.ask(cancel(timer))
    await clock.advance(100.0)
    assert len(ticks) == 2
    assert system.snapshot().timers == 0
    assert assert_ledger_balanced(system, ref).handled == 5


async def test_a_tick_is_sent_by_the_owner_of_its_timer(system: ActorSystem, clock: ManualClock) -> None:  # J8, J11
    senders: list[Any] = []
    owner = system.spawn(Timed, [])
    target: ActorRef[Any, Any] = system.spawn(lambda ctx, message: senders.append((message, ctx.sender)))
    await owner.ask(lambda ctx: ctx.send_after(1.0, target, "to another"))
    await owner.ask(lambda ctx: ctx.timers.start("key", 2.0, "by key", target=target))
    await clock.advance(2.0)
    assert senders == [("to another", owner), ("by key", owner)]


@given(st.lists(st.integers(0, 6), max_size=30))
@settings(max_examples=30, deadline=None)
def test_ticks_come_by_deadline_and_equal_deadlines_in_the_order_they_were_set(delays: list[int]) -> None:  # J11
    clock = ManualClock()
    ticks: list[Tick] = []

    async def main() -> None:
        async with asyncio.timeout(120.0), ActorSystem(config=SystemConfig(clock=clock)) as system:
            target = system.spawn(Timed, ticks)
            owners = [system.spawn(Timed, []) for _ in range(3)]
            for number, delay in enumerate(delays):
                await owners[number % 3].ask(lambda ctx, d=delay, n=number: ctx.send_after(d / 2, target, (d / 2, n)))
            await clock.advance(10.0)

    asyncio.run(main())
    assert [message for _, message in ticks] == sorted((delay / 2, number) for number, delay in enumerate(delays))
    assert all(now == message[0] for now, message in ticks)


@pytest.mark.parametrize("fixed_rate", [False, True])
@pytest.mark.parametrize("timed", TIMED)
async def test_a_periodic_timer_ticks_until_it_is_cancelled(
    system: ActorSystem, clock: ManualClock, timed: type[Timed], fixed_rate: bool
) -> None:  # J11
    ticks: list[Tick] = []
    ref = system.spawn(timed, ticks)
    timer: Timer = await ref.ask(every(1.5, "tick", fixed_rate))
    await clock.advance(1.0)
    assert ticks == []
    await clock.advance(5.0)
    assert ticks == [(1.5, "tick"), (3.0, "tick"), (4.5, "tick"), (6.0, "tick")]
    assert timer.active
    assert await ref.ask(cancel(timer))
    assert not timer.active
    assert not await ref.ask(cancel(timer))
    await clock.advance(50.0)
    assert len(ticks) == 4
    assert timer.skipped == 0
    assert system.snapshot().timers == 0


@pytest.mark.parametrize("timed", TIMED)
async def test_fixed_delay_and_a_slow_handler_make_no_backlog(
    system: ActorSystem, clock: ManualClock, timed: type[Timed]
) -> None:  # case 50
    ticks: list[Tick] = []

    def pause() -> None:
        clock.step(clock.now() + 2.5)  # the handler takes that long

    ref = system.spawn(timed, ticks, pause)
    timer: Timer = await ref.ask(every(1.0, "tick"))
    await clock.advance(11.0)
    # a second after the last was handled, each time
    assert [now for now, _ in ticks] == [1.0, 4.5, 8.0]
    assert system.ledger(ref).queued == 0
    await ref.ask(cancel(timer))


@pytest.mark.parametrize("timed", TIMED)
async def test_fixed_rate_skips_and_counts_what_a_slow_handler_misses(
    system: ActorSystem, clock: ManualClock, timed: type[Timed]
) -> None:  # J11
    ticks: list[Tick] = []

    def pause() -> None:
        clock.step(clock.now() + 2.5)

    ref = system.spawn(timed, ticks, pause)
    timer: Timer = await ref.ask(every(1.0, "tick", fixed_rate=True))
    await clock.advance(8.5)
    assert [now for now, _ in ticks] == [1.0, 4.0, 7.0]
    assert timer.skipped == 6  # at 2, 3; 5, 6; 8, 9: the last handler ended at 9.5
    assert system.ledger(ref).queued == 0
    await ref.ask(cancel(timer))


async def test_a_suspended_handler_holds_its_periodic_timer_up(
    system: ActorSystem, clock: ManualClock
) -> None:  # case 50
    began: list[float] = []

    class Slow(Timed):
        async def receive(self, message: Any) -> Any:
            if callable(message):
                return message(self.ctx)
            began.append(self.ctx.now())
            await gates[len(began) - 1].wait()
            return None

    gates = [Event() for _ in range(3)]
    ref = system.spawn(Slow, [])
    timer: Timer = await ref.ask(every(1.0, "tick"))
    await clock.advance(10.0)
    assert began == [1.0]
    gates[0].set()
    await system.settle()
    await clock.advance(0.5)
    assert began == [1.0]
    await clock.advance(0.5)
    assert began == [1.0, 11.0]
    gates[1].set()
    await system.settle()
    await ref.ask(cancel(timer))


async def test_fixed_rate_goes_on_in_its_rhythm_after_its_tick_had_to_wait(
    system: ActorSystem, clock: ManualClock
) -> None:  # J11
    ticks: list[Tick] = []
    gate = Event()
    ref = system.spawn(Waiting, ticks)
    steady: Timer = await ref.ask(every(1.0, "rate", fixed_rate=True))
    patient: Timer = await ref.ask(every(1.0, "delay"))
    ref.tell(("hold", gate, id))
    await clock.advance(4.25)
    assert system.ledger(ref).queued == 2  # one tick of each, and no more
    gate.set()
    await system.settle()
    await clock.advance(2.0)
    assert [now for now, what in ticks if what == "rate"] == [4.25, 5.0, 6.0]
    assert [now for now, what in ticks if what == "delay"] == [4.25, 5.25, 6.25]
    assert (steady.skipped, patient.skipped) == (3, 0)  # at 2, 3 and 4
    ref.stop()


BAD_DELAYS: dict[str, Callable[[Context, float], object]] = {
    "send_after": lambda ctx, delay: ctx.send_after(delay, ctx.self, "never"),
    "send_every": lambda ctx, delay: ctx.send_every(delay, ctx.self, "never"),
    "start": lambda ctx, delay: ctx.timers.start("key", delay, "never"),
    "start_every": lambda ctx, delay: ctx.timers.start("key", 1.0, "never", every=delay),
    "set_receive_timeout": lambda ctx, delay: ctx.set_receive_timeout(delay),
}


@pytest.mark.parametrize("start", BAD_DELAYS.values(), ids=BAD_DELAYS)
@pytest.mark.parametrize("delay", [-1.0, float("nan"), float("inf"), 1e13])
async def test_a_delay_that_cannot_be_is_refused(
    system: ActorSystem, clock: ManualClock, start: Callable[[Context, float], object], delay: float
) -> None:  # J9, J11
    with pytest.raises(InvalidDelay):
        await system.spawn(Timed, []).ask(lambda ctx: start(ctx, delay))
    assert system.snapshot().timers == 0


@pytest.mark.parametrize("interval", [0.0, 1e-7])
@pytest.mark.parametrize("start", ["send_every", "start_every"])
async def test_an_interval_of_nothing_is_refused(
    system: ActorSystem, clock: ManualClock, start: str, interval: float
) -> None:  # J9, J11
    """`InvalidDelay` says that an interval must be at least 1e-6."""
    with pytest.raises(InvalidDelay):
        await system.spawn(Timed, []).ask(lambda ctx: BAD_DELAYS[start](ctx, interval))
    assert system.snapshot().timers == 0


@pytest.mark.config(max_timers=3)
async def test_no_more_timers_than_the_limit_are_pending(system: ActorSystem, clock: ManualClock) -> None:  # J1, J11
    ticks: list[Tick] = []
    ref = system.spawn(Timed, ticks)
    timers = [await ref.ask(after(1.0, n), timeout=None) for n in range(3)]

    with pytest.raises(TooManyTimers) as caught:
        await system.spawn(Timed, []).ask(after(1.0, "one too many"), timeout=None)
    assert (caught.value.limit, caught.value.code) == (3, "too_many_timers")
    await ref.ask(cancel(timers[0]), timeout=None)
    await ref.ask(after(1.0, 3), timeout=None)
    await clock.advance(1.0)
    assert [message for _, message in ticks] == [1, 2, 3]


@pytest.mark.real
async def test_a_timer_belongs_to_its_systems_thread(system: ActorSystem, clock: ManualClock) -> None:  # J9, J11
    ticks: list[Tick] = []
    ref = system.spawn(Timed, ticks)
    timer: Timer = await ref.ask(after(1.0, "tick"))

    def elsewhere() -> None:
        with pytest.raises(WrongThread):
            timer.cancel()

    await run_threads(elsewhere)
    assert timer.active
    await clock.advance(1.0)
    assert ticks == [(1.0, "tick")]
