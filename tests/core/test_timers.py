"""Timers: when ticks come, in which order, which delays are none, and how timers end."""

import gc
import weakref
from collections.abc import Callable

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, precondition, rule

from greenroom._core.limits import Limits
from greenroom._core.scheduler.accounting import count_loop
from greenroom._core.scheduler.loop import Loop
from greenroom._core.timing.timers import Timer
from greenroom.clock import ManualClock
from greenroom.errors import InvalidDelay, LoopStopped, TooManyTimers
from tests.core.kit import Letters


class Stage:
    """A loop on a clock moved by hand, and a cell that remembers each message with the time it was handled."""

    def __init__(self, limits: Limits | None = None) -> None:
        self.clock = ManualClock()
        self.letters = Letters()
        self.loop = Loop(limits, self.clock, self.letters)
        self.log: list[tuple[float, object]] = []
        self.on_tick: Callable[[object], object] | None = None
        self.cell = self.loop.spawn(Stage.handle, self)

    def handle(self, message: object) -> None:
        self.log.append((self.clock.now(), message))
        if self.on_tick is not None:
            self.on_tick(message)

    def move_to(self, moment: float) -> None:
        self.clock.step(moment)
        self.loop.run_until_idle()

    @property
    def messages(self) -> list[object]:
        return [message for _, message in self.log]


@pytest.fixture
def stage() -> Stage:
    return Stage()


def test_a_delay_of_zero_comes_with_the_next_tick_never_inside_start_timer(stage: Stage) -> None:
    stage.loop.start_timer(0.0, stage.cell, "now")
    assert stage.log == []
    stage.loop.run_until_idle()
    assert stage.messages == ["now"]


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


def test_a_periodic_timer_keeps_its_place_at_the_limit() -> None:
    stage = Stage(Limits(max_timers=1))
    stage.loop.start_timer(1.0, stage.cell, "tick", interval=1.0)
    for second in range(1, 6):
        stage.move_to(float(second))
        with pytest.raises(TooManyTimers):
            stage.loop.start_timer(1.0, stage.cell, "other")
    assert stage.messages == ["tick"] * 5


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


def test_a_cancelled_tick_that_is_still_queued_when_its_target_ends_is_dropped_not_a_dead_letter(stage: Stage) -> None:
    stage.cell.hold()
    timer = stage.loop.start_timer(1.0, stage.cell, "ring")
    stage.move_to(1.0)
    timer.cancel()
    stage.loop.retire(stage.cell)
    counts = count_loop(stage.loop)
    assert (counts.dropped, counts.dead_lettered, stage.letters.dead) == (1, 0, [])


def test_a_handler_may_cancel_a_tick_queued_right_behind_its_own(stage: Stage) -> None:
    timers = [stage.loop.start_timer(1.0, stage.cell, number) for number in range(3)]
    stage.on_tick = lambda message: timers[1].cancel()
    stage.move_to(1.0)
    assert stage.messages == [0, 2]


def test_mass_cancellation_leaves_nothing_behind(stage: Stage) -> None:
    class Message:
        pass

    gc.collect()
    alive_before = sum(type(thing) is Timer for thing in gc.get_objects())
    messages = [Message() for _ in range(5000)]
    timers = [
        stage.loop.start_timer(1.0 + number % 700 / 64, stage.cell, message) for number, message in enumerate(messages)
    ]
    ghosts = [weakref.ref(message) for message in messages]
    messages.clear()
    assert stage.loop.timers.count == 5000
    assert all(timer.cancel() for timer in timers[::2] + timers[1::2])
    gc.collect()
    assert [ghost for ghost in ghosts if ghost() is not None] == []  # though the timers are still held
    assert (stage.loop.timers.count, stage.loop.timers.next_deadline()) == (0, None)
    timers.clear()
    gc.collect()
    assert sum(type(thing) is Timer for thing in gc.get_objects()) == alive_before


def test_closing_the_loop_ends_every_timer_and_starts_no_other(stage: Stage) -> None:
    timers = [stage.loop.start_timer(number / 100, stage.cell, number, interval=1.0) for number in range(300)]
    stage.cell.hold()
    stage.move_to(1.0)  # some are queued, some pending
    stage.loop.close()
    assert not any(timer.active for timer in timers)
    assert stage.loop.timers.count == 0
    with pytest.raises(LoopStopped):
        stage.loop.start_timer(1.0, stage.cell, "too late")


class Pending:
    """What the model knows of one timer."""

    def __init__(self, name: int, deadline: float, interval: float, fixed_rate: bool, place: int, owner: int) -> None:
        self.name = name
        self.deadline = deadline
        self.interval = interval
        self.fixed_rate = fixed_rate
        self.place = place  # in the order of starting
        self.owner = owner
        self.queued = False
        self.skipped = 0
        self.over = False


class TimersAgainstASortedList(RuleBasedStateMachine):
    """All times are multiples of 1/512 s, except that fixed-rate ones are never due exactly when the clock stops."""

    running = Bundle("running")

    def __init__(self) -> None:
        super().__init__()
        self.clock = ManualClock()
        self.loop = Loop(None, self.clock)
        self.handled: list[object] = []
        self.cell = self.loop.spawn(list.append, self.handled)
        self.owners = [self.loop.spawn(list.append, self.handled) for _ in range(2)]
        self.model: list[Pending] = []
        self.queue: list[Pending] = []
        self.expected: list[object] = []
        self.dropped = 0
        self.held = False
        self.places = 0

    def place(self) -> int:
        self.places += 1
        return self.places

    @rule(
        target=running,
        delay=st.integers(0, 40),
        interval=st.sampled_from([0, 0, 0, 1, 3, 64]),
        fixed_rate=st.booleans(),
        owner=st.integers(0, 2),
    )
    def start(self, delay: int, interval: int, fixed_rate: bool, owner: int) -> tuple[Timer, Pending]:
        seconds = delay / 512 + (1 / 4096 if fixed_rate else 0.0)
        name = self.place()
        timer = self.loop.start_timer(
            seconds, self.cell, name, interval / 512, fixed_rate, self.owners[owner] if owner < 2 else None
        )
        pending = Pending(name, self.clock.now() + seconds, interval / 512, fixed_rate, name, owner)
        self.model.append(pending)
        return timer, pending

    @rule(handle=consumes(running))
    def cancel(self, handle: tuple[Timer, Pending]) -> None:
        timer, pending = handle
        assert timer.skipped == pending.skipped
        assert timer.cancel() is not pending.over
        pending.over = True

    @rule(owner=st.integers(0, 1))
    def end_owner(self, owner: int) -> None:
        self.loop.retire(self.owners[owner])
        self.owners[owner] = self.loop.spawn(list.append, self.handled)
        for pending in self.model:
            if pending.owner == owner:
                pending.over = True

    @precondition(lambda self: not self.held)
    @rule()
    def hold(self) -> None:
        self.cell.hold()
        self.held = True

    @precondition(lambda self: self.held)
    @rule()
    def release(self) -> None:
        self.cell.release()
        self.held = False
        self.loop.run_until_idle()
        self.settle()

    @rule(steps=st.integers(0, 60))
    def move(self, steps: int) -> None:
        self.clock.step(self.clock.now() + steps / 512)
        self.loop.run_until_idle()
        self.settle()

    def settle(self) -> None:
        """What the loop should do until nothing is due: queue by deadline and place, handle in that order."""
        now = self.clock.now()
        while True:
            self.model = [pending for pending in self.model if not pending.over]
            due = [pending for pending in self.model if not pending.queued and pending.deadline <= now]
            for pending in sorted(due, key=lambda pending: (pending.deadline, pending.place)):
                pending.queued = True
                self.queue.append(pending)
            if self.held or not self.queue:
                return
            queue, self.queue = self.queue, []
            for pending in queue:
                self.handle(pending, now)

    def handle(self, pending: Pending, now: float) -> None:
        if pending.over:
            self.dropped += 1
            return
        self.expected.append(pending.name)
        pending.queued = False
        pending.place = self.place()
        if pending.interval == 0:
            pending.over = True
        elif pending.fixed_rate:
            pending.deadline += pending.interval
            while pending.deadline < now:
                pending.deadline += pending.interval
                pending.skipped += 1
        else:
            pending.deadline = now + pending.interval

    @invariant()
    def the_same_ticks_in_the_same_order(self) -> None:
        assert self.handled == self.expected

    @invariant()
    def the_same_number_is_pending(self) -> None:
        waiting = [pending.deadline for pending in self.model if not pending.over and not pending.queued]
        assert self.loop.timers.count == len(waiting)
        earliest = self.loop.timers.next_deadline()
        if waiting:
            assert earliest is not None
            assert earliest <= min(waiting)
        else:
            assert earliest is None

    @invariant()
    def every_tick_is_accounted_for(self) -> None:
        counts = count_loop(self.loop)
        assert counts.balanced
        assert (counts.handled, counts.dropped) == (len(self.expected), self.dropped)


TimersAgainstASortedList.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestTimersAgainstASortedList = TimersAgainstASortedList.TestCase
