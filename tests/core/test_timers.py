"""Timers: when ticks come, in which order, and which delays are none."""

import math
from typing import Any

import pytest

from greenroom._core.limits import Limits
from greenroom._core.mailbox.cell import Cell
from greenroom._core.scheduler.accounting import count_loop
from greenroom._core.scheduler.loop import Loop
from greenroom.clock import ManualClock
from greenroom.errors import InvalidDelay, TooManyTimers
from greenroom.lanes import MailboxConfig, Overflow
from tests.core.clockwork import Stage
from tests.core.hosts import Letters


def sender_in_hand(loop: Loop) -> object:
    sender: Any = loop.visits.sender
    return sender.shown_sender()


@pytest.fixture
def stage() -> Stage:
    return Stage()


# J11


def test_a_one_shot_comes_once_at_its_deadline_and_not_before(stage: Stage) -> None:
    timer = stage.loop.start_timer(2.0, stage.cell, "ring")
    stage.move_to(1.999)
    assert (stage.log, timer.active) == ([], True)
    stage.move_to(2.0)
    assert (stage.log, timer.active) == ([(2.0, "ring")], False)
    stage.move_to(100.0)
    assert stage.messages == ["ring"]
    assert stage.loop.timers.count == 0


def test_a_delay_of_zero_comes_with_the_next_tick_never_inside_start_timer(stage: Stage) -> None:
    stage.loop.start_timer(0.0, stage.cell, "now")
    assert stage.log == []
    stage.loop.run_until_idle()
    assert stage.messages == ["now"]


def test_a_tick_is_a_message_of_its_owner(stage: Stage) -> None:
    owner = stage.loop.spawn(Stage.handle, stage)
    owner.ref = "the owner"
    senders: list[Any] = []
    stage.on_tick = lambda _: senders.append(sender_in_hand(stage.loop))
    stage.loop.start_timer(1.0, stage.cell, "ring", owner=owner)
    stage.move_to(1.0)
    assert senders == ["the owner"]


@pytest.mark.parametrize("fixed_rate", [False, True])
def test_a_periodic_timer_comes_after_its_delay_and_then_every_interval(stage: Stage, fixed_rate: bool) -> None:
    timer = stage.loop.start_timer(0.5, stage.cell, "tick", interval=2.0, fixed_rate=fixed_rate)
    for quarter in range(1, 32):
        stage.move_to(quarter * 0.25)
    assert stage.log == [(0.5, "tick"), (2.5, "tick"), (4.5, "tick"), (6.5, "tick")]
    assert (timer.skipped, timer.active) == (0, True)


def test_a_fixed_delay_starts_when_the_tick_was_handled(stage: Stage) -> None:
    stage.on_tick = lambda _: stage.clock.step(stage.clock.now() + 3.0)
    stage.loop.start_timer(1.0, stage.cell, "tick", interval=1.0)
    stage.move_to(1.0)  # handled at 4.0
    stage.move_to(4.75)
    assert stage.log == [(1.0, "tick")]
    stage.move_to(5.0)
    assert stage.log == [(1.0, "tick"), (5.0, "tick")]


@pytest.mark.parametrize("fixed_rate", [False, True])
def test_a_slow_handler_builds_up_no_backlog(stage: Stage, fixed_rate: bool) -> None:
    depths: list[int] = []

    def dawdle(_: object) -> None:
        depths.append(stage.cell.queued())
        stage.clock.step(stage.clock.now() + 10.5)

    stage.on_tick = dawdle
    stage.loop.start_timer(1.0, stage.cell, "tick", interval=1.0, fixed_rate=fixed_rate)
    stage.clock.step(1.0)
    for _ in range(20):
        stage.loop.tick()
        stage.clock.step(stage.clock.now() + 0.5)
    assert len(depths) >= 5
    assert max(depths) == 0


@pytest.mark.parametrize(
    ("until", "ticks", "skipped", "following"),
    [
        (1.5, 1, 0, 2.0),
        (2.5, 1, 1, 3.0),
        (3.5, 1, 2, 4.0),
        (100.5, 1, 99, 101.0),
        # A tick that is due just now has not been missed.
        (2.0, 2, 0, 3.0),
        (3.0, 2, 1, 4.0),
        (10.0, 2, 8, 11.0),
    ],
)
def test_a_fixed_rate_keeps_its_beat_and_counts_the_ticks_it_missed(
    stage: Stage, until: float, ticks: int, skipped: int, following: float
) -> None:
    stage.on_tick = lambda _: stage.clock.step(until)
    timer = stage.loop.start_timer(1.0, stage.cell, "tick", interval=1.0, fixed_rate=True)
    stage.move_to(1.0)
    assert (len(stage.log), timer.skipped, timer.deadline) == (ticks, skipped, following)


def test_a_clock_that_jumps_brings_one_fixed_rate_tick_and_counts_the_others(stage: Stage) -> None:
    timer = stage.loop.start_timer(1.0, stage.cell, "tick", interval=1.0, fixed_rate=True)
    stage.move_to(7.5)
    assert (len(stage.log), timer.skipped) == (1, 6)
    stage.move_to(8.0)
    assert (stage.log[-1], timer.skipped) == ((8.0, "tick"), 6)


@pytest.mark.parametrize("fixed_rate", [False, True])
def test_a_periodic_timer_goes_on_after_a_tick_whose_handler_raised(fixed_rate: bool) -> None:
    class Lenient(Letters):
        def failed(self, cell: Cell, message: object, cause: BaseException) -> None:
            pass

    clock = ManualClock()
    loop = Loop(None, clock, Lenient())
    cell = loop.spawn(lambda _, message: 1 // 0)
    timer = loop.start_timer(1.0, cell, "tick", interval=1.0, fixed_rate=fixed_rate)
    for second in (1.0, 2.0, 3.0):
        clock.step(second)
        loop.run_until_idle()
    assert timer.active
    assert count_loop(loop).failed == 3


def test_a_tick_that_finds_the_mailbox_full_is_a_dead_letter_and_the_timer_goes_on(stage: Stage) -> None:
    cell = stage.loop.spawn(Stage.handle, stage, MailboxConfig(capacity=1))
    cell.hold()
    cell.tell("in the way")
    stage.loop.start_timer(1.0, cell, "tick", interval=1.0)
    stage.move_to(1.0)
    assert stage.letters.dead == ["tick"]
    counts = count_loop(stage.loop)
    assert (counts.dead_lettered, counts.rejected, counts.balanced) == (1, 0, True)
    cell.release()
    stage.loop.run_until_idle()
    stage.move_to(2.0)
    assert stage.messages == ["in the way", "tick"]


@pytest.mark.parametrize("policy", [Overflow.DROP_OLD, Overflow.DROP_NEW])
def test_a_periodic_timer_goes_on_after_a_tick_was_dropped(stage: Stage, policy: Overflow) -> None:
    cell = stage.loop.spawn(Stage.handle, stage, MailboxConfig(capacity=1, overflow=policy))
    cell.hold()
    if policy is Overflow.DROP_NEW:
        cell.tell("in the way")
    timer = stage.loop.start_timer(1.0, cell, "tick", interval=1.0)
    stage.move_to(1.0)
    if policy is Overflow.DROP_OLD:
        cell.tell("in the way")
    assert stage.letters.dropped_messages == ["tick"]
    cell.release()
    stage.loop.run_until_idle()
    assert stage.messages == ["in the way"]
    assert timer.active
    stage.move_to(2.0)
    assert stage.messages == ["in the way", "tick"]
    assert count_loop(stage.loop).balanced


# Order


def test_equal_deadlines_come_in_the_order_they_were_started(stage: Stage) -> None:
    stage.loop.start_timer(5.0, stage.cell, "late")
    for number in range(50):
        stage.loop.start_timer(1.0, stage.cell, number)
    stage.clock.step(0.5)
    for number in range(50, 100):
        stage.loop.start_timer(0.5, stage.cell, number)  # another delay, the same deadline
    stage.move_to(5.0)
    assert stage.messages == [*range(100), "late"]


def test_equal_deadlines_keep_their_order_when_some_are_cancelled(stage: Stage) -> None:
    timers = [stage.loop.start_timer(1.0, stage.cell, number) for number in range(500)]
    for number, timer in enumerate(timers):
        if number % 7:
            timer.cancel()
    stage.move_to(1.0)
    assert stage.messages == list(range(0, 500, 7))


def test_deadlines_a_hair_apart_come_in_order_of_time_not_of_starting(stage: Stage) -> None:
    for number in reversed(range(200)):
        stage.loop.start_timer(1.0 + number / 65536, stage.cell, number)
    stage.move_to(2.0)
    assert stage.messages == list(range(200))


def test_a_shorter_delay_started_later_comes_first(stage: Stage) -> None:
    def start_shorter(message: object) -> None:
        if message == "first":
            stage.loop.start_timer(1 / 1024, stage.cell, "between")
            stage.loop.start_timer(0.0, stage.cell, "at once")

    stage.on_tick = start_shorter
    stage.loop.start_timer(1.0, stage.cell, "first")
    stage.loop.start_timer(1.0 + 1 / 512, stage.cell, "last")  # in the same slice of time
    stage.move_to(1.0)
    stage.move_to(1.0 + 1 / 1024)
    stage.move_to(2.0)
    assert stage.messages == ["first", "at once", "between", "last"]


# Limits and errors


def test_one_timer_more_than_the_limit_is_an_error_and_a_cancelled_one_makes_room() -> None:
    stage = Stage(Limits(max_timers=3))
    timers = [stage.loop.start_timer(1.0, stage.cell, number) for number in range(3)]
    with pytest.raises(TooManyTimers) as caught:
        stage.loop.start_timer(1.0, stage.cell, "one too many", owner=stage.cell)
    assert caught.value.limit == 3
    timers[0].cancel()
    stage.loop.start_timer(1.0, stage.cell, 3)
    stage.move_to(1.0)
    assert stage.messages == [1, 2, 3]
    stage.loop.start_timer(1.0, stage.cell, 4)
    stage.move_to(2.0)
    assert stage.messages == [1, 2, 3, 4]


def test_a_periodic_timer_keeps_its_place_at_the_limit() -> None:
    stage = Stage(Limits(max_timers=1))
    stage.loop.start_timer(1.0, stage.cell, "tick", interval=1.0)
    for second in range(1, 6):
        stage.move_to(float(second))
        with pytest.raises(TooManyTimers):
            stage.loop.start_timer(1.0, stage.cell, "other")
    assert stage.messages == ["tick"] * 5


@pytest.mark.parametrize("bad", [-1.0, -1e-9, math.inf, -math.inf, math.nan])
@pytest.mark.parametrize("which", ["delay", "interval"])
def test_a_delay_that_is_none_is_an_error_and_starts_nothing(stage: Stage, bad: float, which: str) -> None:
    delay, interval = (bad, 1.0) if which == "delay" else (1.0, bad)
    with pytest.raises(InvalidDelay, match=which):
        stage.loop.start_timer(delay, stage.cell, "ring", interval=interval)
    assert (stage.loop.timers.count, stage.loop.timers.next_deadline()) == (0, None)


@pytest.mark.parametrize("delay", [1e18, 1e300, 1.7e308])
def test_a_delay_beyond_all_ages_is_refused_or_waits_but_breaks_nothing(stage: Stage, delay: float) -> None:
    try:
        timer = stage.loop.start_timer(delay, stage.cell, "never", owner=stage.cell)
    except InvalidDelay:
        assert stage.loop.timers.count == 0
    else:
        assert timer.active
        assert stage.loop.timers.count == 1
    stage.loop.start_timer(1.0, stage.cell, "soon")
    stage.move_to(1.0)
    assert stage.messages == ["soon"]
    stage.loop.retire(stage.cell)
    assert stage.loop.timers.count == 0


@pytest.mark.parametrize("interval", [1e-9, 1e-300, 5e-324])
def test_an_interval_too_short_to_keep_up_with_breaks_nothing(stage: Stage, interval: float) -> None:
    def stop_at_the_third(message: object) -> None:
        stage.clock.step(stage.clock.now() + 1000.0)
        if len(stage.log) == 3:
            timer.cancel()

    stage.on_tick = stop_at_the_third
    try:
        timer = stage.loop.start_timer(1.0, stage.cell, "tick", interval=interval, fixed_rate=True)
    except InvalidDelay:
        return
    stage.clock.step(1000.0)
    for _ in range(10):
        stage.loop.tick()
        stage.clock.step(stage.clock.now() + 1000.0)
    assert stage.messages == ["tick"] * 3
    assert timer.skipped >= 0


# -- calls of functions


def test_a_scheduled_call_comes_at_its_moment_unless_it_is_cancelled(stage: Stage) -> None:
    called: list[str] = []
    stage.loop.call_later(2.0, lambda: called.append("late"))
    stage.loop.call_at(1.0, lambda: called.append("early"))
    stage.loop.call_at(1.5, lambda: called.append("never")).cancel()
    stage.move_to(0.999)
    assert called == []
    stage.move_to(1.0)
    assert called == ["early"]
    stage.move_to(2.0)
    assert called == ["early", "late"]
    assert stage.loop.timers.count == 0


def test_a_call_that_has_come_can_be_cancelled_and_nothing_happens(stage: Stage) -> None:
    called: list[str] = []
    call = stage.loop.call_later(0.0, lambda: called.append("now"))
    stage.move_to(0.0)
    call.cancel()
    stage.move_to(1.0)
    assert called == ["now"]


def test_a_scheduled_call_wakes_a_loop_that_sleeps(stage: Stage) -> None:
    woken: list[bool] = []
    stage.loop.runq.rouse = lambda: woken.append(True)
    stage.loop.runq.asleep = True
    stage.loop.call_later(1.0, lambda: None)
    assert woken == [True]
