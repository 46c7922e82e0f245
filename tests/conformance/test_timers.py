"""Timers: one-shot and periodic, by key, and ticks that nobody wants any more."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from greenroom import (
    Actor,
    ActorRef,
    ActorSystem,
    Behavior,
    Behaviors,
    Context,
    Drain,
    Lane,
    MailboxConfig,
    ManualClock,
    Overflow,
    ReceiveTimeout,
    SystemConfig,
    Timer,
    handles,
)
from greenroom.errors import InvalidDelay, NoMessage, TooManyTimers, WrongThread
from greenroom.testing import assert_ledger_balanced
from tests.conformance.lives import suspending
from tests.conformance.sending import FOREIGN, Listener, run_threads
from tests.gates import Event

Tick = tuple[float, Any]


class Timed(Actor[Any, Any]):
    """Does what it is sent, if that is a function of its context; writes down anything else, and the time."""

    def __init__(self, ticks: list[Tick], pause: Callable[[], Any] | None = None) -> None:
        self.ticks = ticks
        self.pause = pause

    def receive(self, message: Any) -> Any:
        if callable(message):
            return message(self.ctx)
        self.ticks.append((self.ctx.now(), message))
        if self.pause is not None:
            self.pause()
        return None


@suspending
class AsyncTimed(Timed):
    pass


TIMED = [Timed, AsyncTimed]


def after(delay: float, message: Any) -> Callable[[Context], Timer]:
    return lambda ctx: ctx.send_after(delay, ctx.self, message)


def every(interval: float, message: Any, fixed_rate: bool = False) -> Callable[[Context], Timer]:
    return lambda ctx: ctx.send_every(interval, ctx.self, message, fixed_rate=fixed_rate)


def cancel(timer: Timer) -> Callable[[Context], bool]:
    return lambda ctx: timer.cancel()


class Waiting(Timed):
    """At `("hold", gate, act)`, lets everything queue until the gate opens; then does `act(ctx)`."""

    async def receive(self, message: Any) -> Any:
        if isinstance(message, tuple) and message[0] == "hold":
            await message[1].wait()
            return message[2](self.ctx)
        return super().receive(message)


@pytest.mark.parametrize("timed", TIMED)
async def test_a_tick_comes_at_its_time_and_once(system: ActorSystem, clock: ManualClock, timed: type[Timed]) -> None:
    # J11
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


async def test_a_suspended_handler_holds_its_periodic_timer_up(system: ActorSystem, clock: ManualClock) -> None:
    # case 50
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


@pytest.mark.parametrize("timed", TIMED)
async def test_starting_a_key_again_ends_the_timer_that_had_it(
    system: ActorSystem, clock: ManualClock, timed: type[Timed]
) -> None:  # J11
    ticks: list[Tick] = []
    ref = system.spawn(timed, ticks)
    first: Timer = await ref.ask(lambda ctx: ctx.timers.start("key", 1.0, "first"))
    second: Timer = await ref.ask(lambda ctx: ctx.timers.start("key", 2.0, "second"))
    await ref.ask(lambda ctx: ctx.timers.start("other", 1.5, "other"))
    assert (first.active, second.active) == (False, True)
    assert system.snapshot().timers == 2
    await clock.advance(10.0)
    assert ticks == [(1.5, "other"), (2.0, "second")]
    assert assert_ledger_balanced(system, ref).dropped == 0


async def test_a_key_says_whether_it_is_active_and_can_be_cancelled_once(
    system: ActorSystem, clock: ManualClock
) -> None:  # J11
    ticks: list[Tick] = []

    def check(ctx: Context) -> None:
        keys = ctx.timers
        assert keys.cancel("never started") is False
        keys.start(("any", "hashable"), 1.0, "a")
        keys.start(7, 1.0, "b", every=1.0)
        keys.start("c", 1.0, "c")
        assert keys.active == [("any", "hashable"), 7, "c"]
        assert keys.is_active(7)
        assert keys.cancel("c") is True
        assert keys.cancel("c") is False
        assert not keys.is_active("c")

    def check_later(ctx: Context) -> None:
        keys = ctx.timers
        assert keys.active == [7]
        assert keys.cancel(("any", "hashable")) is False  # it has ticked
        keys.cancel_all()
        assert keys.active == []
        keys.cancel_all()

    ref = system.spawn(Timed, ticks)
    await ref.ask(check)
    await clock.advance(2.0)
    await ref.ask(check_later)
    await clock.advance(10.0)
    assert ticks == [(1.0, "a"), (1.0, "b"), (2.0, "b")]
    assert system.snapshot().timers == 0


@pytest.mark.parametrize(("fixed_rate", "expected"), [(False, [0.5, 2.5, 4.5]), (True, [0.5, 2.5, 4.5])])
async def test_a_key_may_tick_after_a_delay_and_then_periodically(
    system: ActorSystem, clock: ManualClock, fixed_rate: bool, expected: list[float]
) -> None:  # J11
    ticks: list[Tick] = []
    ref = system.spawn(Timed, ticks)
    await ref.ask(lambda ctx: ctx.timers.start("key", 0.5, "tick", every=2.0, fixed_rate=fixed_rate))
    await clock.advance(6.0)
    assert [now for now, _ in ticks] == expected
    ref.stop()


async def test_a_key_that_cannot_be_started_leaves_the_old_timer_alone(system: ActorSystem, clock: ManualClock) -> None:
    # J9, J11
    ticks: list[Tick] = []

    def fumble(ctx: Context) -> None:
        ctx.timers.start("key", 1.0, "tick")
        cases: list[tuple[float, Any, type[Exception]]] = [(-1.0, None, InvalidDelay), (1.0, "nobody", TypeError)]
        for delay, target, error in cases:
            with pytest.raises(error):
                ctx.timers.start("key", delay, "never", target=target)

    ref = system.spawn(Timed, ticks)
    await ref.ask(fumble)
    await clock.advance(5.0)
    assert ticks == [(1.0, "tick")]


async def test_keys_are_each_actors_own(system: ActorSystem, clock: ManualClock) -> None:  # J11
    ticks: list[Tick] = []
    for number in range(3):
        ref = system.spawn(Timed, ticks)
        await ref.ask(lambda ctx, n=number: ctx.timers.start("key", 1.0 + n, n))
    await clock.advance(3.0)
    assert ticks == [(1.0, 0), (2.0, 1), (3.0, 2)]


async def test_a_tick_may_start_its_own_key_again(system: ActorSystem, clock: ManualClock) -> None:  # J11
    ticks: list[Tick] = []

    class Chain(Timed):
        def receive(self, message: Any) -> Any:
            super().receive(message)
            if message < 4:
                self.ctx.timers.start("key", float(message), message + 1)

    ref = system.spawn(Chain, ticks)
    ref.tell(1)
    await clock.advance(20.0)
    assert ticks == [(0.0, 1), (1.0, 2), (3.0, 3), (6.0, 4)]
    assert assert_ledger_balanced(system, ref).handled == 4


async def test_a_behavior_can_be_given_its_timers(system: ActorSystem, clock: ManualClock) -> None:  # J11, M13
    heard: list[Any] = []

    def begin(timers: Any) -> Behavior:
        timers.start("key", 1.0, "tick", every=1.0)

        def hear(ctx: Context, message: Any) -> Behavior:
            heard.append(message)
            return Behaviors.stopped if len(heard) == 3 else Behaviors.same

        return Behaviors.receive(hear)

    ref = system.spawn(Behaviors.with_timers(begin))
    await clock.advance(10.0)
    await ref.terminated()
    assert heard == ["tick"] * 3
    assert system.snapshot().timers == 0


def quiet_for(seconds: float | None) -> Any:
    return lambda ctx: ctx.set_receive_timeout(seconds)


TIMEOUT = ReceiveTimeout()


@pytest.mark.parametrize("timed", TIMED)
async def test_a_quiet_actor_is_told_so_again_and_again(
    system: ActorSystem, clock: ManualClock, timed: type[Timed]
) -> None:  # J11
    ticks: list[Tick] = []
    ref = system.spawn(timed, ticks)
    await ref.ask(quiet_for(3.0))
    await clock.advance(2.9)
    assert ticks == []
    await clock.advance(7.0)
    assert ticks == [(3.0, TIMEOUT), (6.0, TIMEOUT), (9.0, TIMEOUT)]
    await ref.ask(quiet_for(None))
    await clock.advance(50.0)
    assert len(ticks) == 3
    ledger = assert_ledger_balanced(system, ref)
    assert (ledger.sent, ledger.handled) == (2, 2)  # notices are in no ledger
    assert system.snapshot().timers == 0


@pytest.mark.parametrize("lane", Lane, ids=str)
@pytest.mark.parametrize("foreign", FOREIGN)
async def test_every_message_puts_the_timeout_off(
    system: ActorSystem, clock: ManualClock, lane: Lane, foreign: bool
) -> None:  # J11
    ticks: list[Tick] = []
    ref = system.spawn(Timed, ticks)
    await ref.ask(quiet_for(3.0))
    for n in range(4):
        await clock.advance(2.0)
        if foreign:
            await run_threads(partial(ref.tell, n, lane=lane))
        else:
            ref.tell(n, lane=lane)
    await clock.advance(2.9)
    assert [message for _, message in ticks] == [0, 1, 2, 3]
    await clock.advance(0.1)
    assert ticks[-1] == (11.0, TIMEOUT)
    ref.stop()


async def test_setting_the_timeout_begins_it_anew(system: ActorSystem, clock: ManualClock) -> None:  # J11
    ticks: list[Tick] = []
    ref = system.spawn(Timed, ticks)
    await ref.ask(quiet_for(3.0))
    await clock.advance(2.0)
    await ref.ask(quiet_for(10.0))
    await clock.advance(9.9)
    assert ticks == []
    await clock.advance(0.1)
    assert ticks == [(12.0, TIMEOUT)]
    await ref.ask(quiet_for(1.0))
    await clock.advance(1.0)
    assert ticks[1:] == [(13.0, TIMEOUT)]
    assert system.snapshot().timers == 1
    ref.stop()


@pytest.mark.parametrize("how", ["a message came", "it was ended", "it was set again"])
async def test_a_timeout_that_is_queued_when_it_is_no_longer_true_is_not_delivered(
    system: ActorSystem, clock: ManualClock, how: str
) -> None:  # J11
    ticks: list[Tick] = []

    def act(ctx: Context) -> None:
        if how == "it was ended":
            ctx.set_receive_timeout(None)
        elif how == "it was set again":
            ctx.set_receive_timeout(60.0)

    gate = Event()
    ref = system.spawn(Waiting, ticks)
    await ref.ask(quiet_for(5.0))
    ref.tell(("hold", gate, act))
    await clock.advance(1.0)
    if how == "a message came":
        ref.tell("hello")  # it waits in the mailbox, before the notice
    await clock.advance(5.0)
    gate.set()
    await system.settle()
    assert TIMEOUT not in [message for _, message in ticks]
    ref.stop()


async def test_a_tick_that_is_not_delivered_does_not_put_the_timeout_off(
    system: ActorSystem, clock: ManualClock
) -> None:  # case 49, J11
    ticks: list[Tick] = []
    gate = Event()
    ref = system.spawn(Waiting, ticks)
    timer: Timer = await ref.ask(lambda ctx: ctx.send_after(2.0, ctx.self, "tick"))
    await ref.ask(quiet_for(3.0))
    ref.tell(("hold", gate, lambda ctx: timer.cancel()))
    await clock.advance(2.0)
    gate.set()
    await system.settle()
    await clock.advance(1.0)
    assert ticks == [(3.0, TIMEOUT)]
    ref.stop()


async def test_a_timeout_is_no_message_to_reply_to(system: ActorSystem, clock: ManualClock) -> None:  # J11
    raised: list[Any] = []

    class Bored(Actor[Any, None]):
        def pre_start(self) -> None:
            self.ctx.set_receive_timeout(1.0)

        @handles(ReceiveTimeout)
        def bored(self, timeout: ReceiveTimeout) -> None:
            assert self.ctx.sender is None
            for attempt in (lambda: self.ctx.reply(1), self.ctx.stash, lambda: self.ctx.forward(self.ctx.self)):
                try:
                    attempt()
                except NoMessage as error:
                    raised.append(error.code)
            self.ctx.stop()

    ref = system.spawn(Bored)
    await clock.advance(1.0)
    await ref.terminated()
    assert raised == ["no_message"] * 3


async def test_the_timeout_reaches_what_the_actor_has_become(system: ActorSystem, clock: ManualClock) -> None:
    # J11, M13
    heard: list[Any] = []
    ref = system.spawn(Listener, [])
    await ref.started()

    def begin(ctx: Context, message: Any) -> None:
        ctx.set_receive_timeout(1.0)
        ctx.become(lambda ctx, message: heard.append(("became", message)))

    other = system.spawn(begin)
    other.tell("go")
    await clock.advance(1.0)
    assert heard == [("became", TIMEOUT)]
    other.stop()


UNWANTED: dict[str, Callable[[Context, Timer], object]] = {
    "cancelled": lambda ctx, timer: timer.cancel(),
    "cancelled_twice": lambda ctx, timer: (timer.cancel(), timer.cancel()),
    "key_cancelled": lambda ctx, timer: ctx.timers.cancel("key"),
    "all_keys_cancelled": lambda ctx, timer: ctx.timers.cancel_all(),
    "rekeyed": lambda ctx, timer: ctx.timers.start("key", 100.0, "much later"),
}


@pytest.mark.parametrize("periodic", [False, True])
@pytest.mark.parametrize("unwanted", UNWANTED.values(), ids=UNWANTED)
async def test_a_queued_tick_of_a_timer_that_is_ended_is_not_delivered(
    system: ActorSystem, clock: ManualClock, unwanted: Callable[[Context, Timer], object], periodic: bool
) -> None:  # case 49
    ticks: list[Tick] = []
    gate = Event()
    ref = system.spawn(Waiting, ticks)
    timer: Timer = await ref.ask(lambda ctx: ctx.timers.start("key", 1.0, "tick", every=1.0 if periodic else None))
    ref.tell(("hold", gate, lambda ctx: unwanted(ctx, timer)))
    await clock.advance(1.0)
    assert system.ledger(ref).queued == 1  # the tick
    ref.tell("after it")
    assert timer.active
    gate.set()
    await system.settle()
    assert not timer.active
    await clock.advance(50.0)
    assert [message for _, message in ticks] == ["after it"]
    ledger = assert_ledger_balanced(system, ref)
    assert (ledger.dropped, ledger.dead_lettered) == (1, 0)
    assert system.dead_letters.count == 0
    ref.stop()


@pytest.mark.parametrize("periodic", [False, True])
async def test_a_timer_cancelled_in_the_handler_of_its_own_tick_ticks_no_more(
    system: ActorSystem, clock: ManualClock, periodic: bool
) -> None:  # case 49
    ticks: list[Tick] = []
    timers: list[Timer] = []
    said: list[bool] = []
    ref = system.spawn(Timed, ticks, lambda: said.append(timers[0].cancel()))
    timers.append(await ref.ask(every(1.0, "tick") if periodic else after(1.0, "tick")))
    await clock.advance(10.0)
    assert len(ticks) == 1
    assert not timers[0].active
    assert said == [True] or not periodic
    assert assert_ledger_balanced(system, ref).dropped == 0


@pytest.mark.parametrize("end", ["stop", "kill", "fail"])
async def test_the_timers_of_an_actor_end_with_it(system: ActorSystem, clock: ManualClock, end: str) -> None:
    # J11, case 49
    heard: list[Any] = []
    target = system.spawn(Listener, heard)
    await target.started()  # on a thread of its own, it has a deadline for that
    owner = system.spawn(Timed, [])
    timers: list[Timer] = [
        await owner.ask(after(1.0, "own")),
        await owner.ask(every(1.0, "own")),
        await owner.ask(lambda ctx: ctx.send_after(1.0, target, "other")),
        await owner.ask(lambda ctx: ctx.send_every(1.0, target, "other", fixed_rate=True)),
        await owner.ask(lambda ctx: ctx.timers.start("key", 1.0, "other", target=target)),
    ]
    await owner.ask(lambda ctx: ctx.set_receive_timeout(1.0))
    owner.fail(ValueError("bad")) if end == "fail" else getattr(owner, end)()
    await owner.terminated()
    assert not any(timer.active for timer in timers)
    assert system.snapshot().timers == 0
    await clock.advance(10.0)
    assert heard == []
    assert system.dead_letters.count == 0
    assert assert_ledger_balanced(system).dropped == 0


@pytest.mark.parametrize("hook", ["pre_stop", "post_stop"])
async def test_timers_started_on_the_way_out_are_freed_too(system: ActorSystem, clock: ManualClock, hook: str) -> None:
    # J11
    heard: list[Any] = []
    timers: list[Timer] = []
    target = system.spawn(Listener, heard)

    class Late(Listener):
        def start_some(self) -> None:
            timers.append(self.ctx.send_after(1.0, target, "after"))
            timers.append(self.ctx.send_every(1.0, target, "every"))
            timers.append(self.ctx.timers.start("key", 1.0, "key", target=target))
            self.ctx.set_receive_timeout(1.0)

    setattr(Late, hook, Late.start_some)
    ref = system.spawn(Late, [])
    await target.started()  # on a thread of its own, it has a deadline for that
    await ref.started()
    ref.stop()
    await ref.terminated()
    assert len(timers) == 3
    assert not any(timer.active for timer in timers)
    assert system.snapshot().timers == 0
    await clock.advance(10.0)
    assert heard == []


async def test_a_tick_queued_elsewhere_is_not_delivered_when_its_owner_has_ended(
    system: ActorSystem, clock: ManualClock
) -> None:  # case 49, J11
    ticks: list[Tick] = []
    gate = Event()
    target = system.spawn(Waiting, ticks)
    owner = system.spawn(Timed, [])
    await owner.ask(lambda ctx: ctx.send_after(1.0, target, "tick"))
    target.tell(("hold", gate, id))
    await clock.advance(1.0)
    owner.stop()
    await owner.terminated()
    gate.set()
    await system.settle()
    assert ticks == []
    ledger = assert_ledger_balanced(system, target)
    assert (ledger.dropped, ledger.dead_lettered) == (1, 0)


async def test_a_tick_for_an_actor_that_has_ended_is_a_dead_letter_from_its_owner(
    system: ActorSystem, clock: ManualClock
) -> None:  # J8, J11
    target = system.spawn(Listener, [])
    owner = system.spawn(Timed, [])
    timer: Timer = await owner.ask(lambda ctx: ctx.send_after(1.0, target, "tick"))
    target.stop()
    await target.terminated()
    await clock.advance(1.0)
    letter = system.dead_letters.recent()[-1]
    assert (letter.message, letter.recipient, letter.time) == ("tick", target, 1.0)
    assert not timer.active
    assert assert_ledger_balanced(system, target).dead_lettered == 1
    assert letter.sender == owner


@pytest.mark.parametrize("fixed_rate", [False, True])
@pytest.mark.parametrize(
    ("policy", "column"),
    [(Overflow.REJECT, "dead_lettered"), (Overflow.DROP_NEW, "dropped"), (Overflow.DROP_OLD, "dropped")],
)
async def test_a_periodic_timer_outlives_a_full_mailbox(
    system: ActorSystem, clock: ManualClock, policy: Overflow, column: str, fixed_rate: bool
) -> None:  # J11, B4
    ticks: list[Tick] = []
    gate = Event()
    ref = system.spawn(Waiting, ticks, mailbox=MailboxConfig(capacity=1, overflow=policy))
    timer: Timer = await ref.ask(every(1.0, "tick", fixed_rate))
    ref.tell(("hold", gate, id))
    await clock.advance(0.0)
    if policy is not Overflow.DROP_OLD:
        ref.tell("in the way")
    await clock.advance(1.0)
    if policy is Overflow.DROP_OLD:
        ref.tell("in the way")
    gate.set()
    await system.settle()
    assert [message for _, message in ticks] == ["in the way"]
    ledger = assert_ledger_balanced(system, ref)
    assert getattr(ledger, column) == 1
    assert ledger.rejected == 0  # nobody could be told
    await clock.advance(2.0)
    assert [now for now, message in ticks if message == "tick"] == [2.0, 3.0]
    await ref.ask(cancel(timer))


@pytest.mark.parametrize("fails", [False, True])
async def test_a_periodic_timer_outlives_a_tick_that_is_not_handled_well(
    system: ActorSystem, clock: ManualClock, fails: bool
) -> None:  # J11
    heard: list[float] = []

    class Deaf(Actor[Any, Any]):
        @handles(int)
        def count(self, message: int) -> None: ...

    def broken(ctx: Context, message: Any) -> None:
        heard.append(ctx.now())
        raise ValueError("bad")

    target: ActorRef[Any, Any] = system.spawn(broken) if fails else system.spawn(Deaf)
    owner = system.spawn(Timed, [])
    await owner.ask(lambda ctx: ctx.send_every(1.0, target, "tick"))
    await clock.advance(3.5)
    ledger = assert_ledger_balanced(system, target)
    if fails:
        assert (ledger.failed, heard) == (1, [1.0])  # it has ended, so later ones are dead letters
    else:
        assert ledger.unhandled == 3


@pytest.mark.parametrize("redirected", [False, True])
async def test_a_cancelled_tick_that_is_still_stashed_when_its_actor_stops_is_dropped(
    system: ActorSystem, clock: ManualClock, redirected: bool
) -> None:  # case 49, B4
    """ "A tick discarded after its timer was cancelled is `dropped`": neither a dead letter nor anybody else's."""
    heard: list[Any] = []

    class Hoarder(Timed):
        def receive(self, message: Any) -> Any:
            if message == "tick":
                self.ctx.stash()
                return None
            return super().receive(message)

    heir = system.spawn(Listener, heard)
    ref = system.spawn(Hoarder, [], drain=Drain.REDIRECT(heir) if redirected else None)
    timer: Timer = await ref.ask(after(1.0, "tick"))
    await clock.advance(1.0)
    assert system.ledger(ref).queued == 1
    assert await ref.ask(cancel(timer))
    ref.stop()
    await ref.terminated()
    await system.settle()
    assert heard == []
    ledger = assert_ledger_balanced(system, ref)
    assert (ledger.dropped, ledger.dead_lettered, ledger.redirected) == (1, 0, 0)
    assert system.dead_letters.count == 0
