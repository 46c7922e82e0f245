"""Timers that have a key, and the timeout between messages."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from greenroom import (
    Actor,
    ActorSystem,
    Behavior,
    Behaviors,
    Context,
    Lane,
    ManualClock,
    ReceiveTimeout,
    Timer,
    handles,
)
from greenroom.errors import InvalidDelay, NoMessage
from greenroom.testing import assert_ledger_balanced
from tests.conformance.cast import FOREIGN, Listener, run_threads
from tests.conformance.timekeepers import TIMED, Tick, Timed, Waiting
from tests.gates import Event


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


async def test_a_key_that_cannot_be_started_leaves_the_old_timer_alone(
    system: ActorSystem, clock: ManualClock
) -> None:  # J9, J11
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


async def test_the_timeout_reaches_what_the_actor_has_become(
    system: ActorSystem, clock: ManualClock
) -> None:  # J11, M13
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
