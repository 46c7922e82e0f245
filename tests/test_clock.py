"""Clocks and chance: time moves only when told to, passes deadlines one by one, and a seed tells the whole story."""

import asyncio
import copy
import math
import pickle
import time
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from greenroom import Actor, ActorRef, ActorSystem, SystemConfig
from greenroom.clock import Clock, ManualClock, MonotonicClock
from greenroom.errors import BadArgument, ClockHeldUp, InvalidDelay
from greenroom.seededrandom import Random

# Who did what, and when.
Journal = list[tuple[str, object, float]]


class Line:
    """A timeline with planned deadlines and given work, which notes what it did and when."""

    def __init__(self, clock: ManualClock, name: str, journal: Journal) -> None:
        self.clock = clock
        self.name = name
        self.journal = journal
        self.plan: list[tuple[float, Callable[[], object]]] = []
        self.work: list[str] = []
        self.moved_to: list[float] = []
        clock.join(self)

    def at(self, moment: float, action: Callable[[], object] = lambda: None) -> None:
        self.plan.append((moment, action))
        self.plan.sort(key=lambda item: item[0])

    def home(self) -> asyncio.AbstractEventLoop | None:
        return None

    def busy(self) -> list[str]:
        return [self.name] if self.work else []

    def next_deadline(self) -> float | None:
        return self.plan[0][0] if self.plan else None

    def time_moved(self) -> None:
        self.moved_to.append(self.clock.now())

    def is_idle(self) -> bool:
        return not (self.work or (self.plan and self.plan[0][0] <= self.clock.now()))

    async def idle(self) -> None:
        while not self.is_idle():
            await asyncio.sleep(0)
            if self.work:
                self.journal.append((self.name, self.work.pop(0), self.clock.now()))
            else:
                deadline, action = self.plan.pop(0)
                self.journal.append((self.name, deadline, self.clock.now()))
                action()


def clock_and_journal(start: float = 0.0) -> tuple[ManualClock, Journal]:
    return ManualClock(start), []


def advance(clock: ManualClock, *steps: float) -> None:
    async def steps_in_turn() -> None:
        for step in steps:
            async with asyncio.timeout(120.0):
                await clock.advance(step)

    asyncio.run(steps_in_turn())


def test_the_monotonic_clock_is_the_machines_and_never_goes_back() -> None:
    clock: Clock = MonotonicClock()
    before = time.monotonic()
    readings = [clock.now() for _ in range(100)]
    assert before <= readings[0]
    assert readings == sorted(readings)
    assert readings[-1] <= time.monotonic()


def test_a_manual_clock_stands_still_until_moved() -> None:
    clock = ManualClock(5.0)
    assert clock.now() == clock.now() == 5.0


def test_a_manual_clock_without_timelines_just_moves() -> None:
    clock = ManualClock(1.0)
    advance(clock, 2.5, 0, 4)
    assert clock.now() == 7.5


def test_every_deadline_on_the_way_is_passed_in_order_and_at_its_time() -> None:
    clock, journal = clock_and_journal()
    left, right = Line(clock, "left", journal), Line(clock, "right", journal)
    for moment in (1.0, 4.0, 30.0, 30.5):
        left.at(moment)
    for moment in (2.0, 3.0, 4.0):
        right.at(moment)
    advance(clock, 30)
    assert journal == [
        ("left", 1.0, 1.0),
        ("right", 2.0, 2.0),
        ("right", 3.0, 3.0),
        ("left", 4.0, 4.0),
        ("right", 4.0, 4.0),
        ("left", 30.0, 30.0),
    ]
    assert clock.now() == 30.0


def test_a_deadline_set_while_time_passes_is_passed_too() -> None:
    clock, journal = clock_and_journal()
    line = Line(clock, "line", journal)

    def every_second() -> None:
        line.at(clock.now() + 1, every_second)

    line.at(1.0, every_second)
    advance(clock, 3.5)
    assert journal == [("line", 1.0, 1.0), ("line", 2.0, 2.0), ("line", 3.0, 3.0)]
    advance(clock, 0.5)
    assert journal[-1] == ("line", 4.0, 4.0)


def test_work_at_hand_is_done_before_time_moves() -> None:
    clock, journal = clock_and_journal()
    Line(clock, "line", journal).work.append("told before")
    advance(clock, 10)
    assert journal == [("line", "told before", 0.0)]


def test_advancing_by_nothing_lets_what_is_due_run() -> None:
    clock, journal = clock_and_journal(7.0)
    line = Line(clock, "line", journal)
    for moment in (3.0, 7.0, 7.5):
        line.at(moment)
    advance(clock, 0)
    assert journal == [("line", 3.0, 7.0), ("line", 7.0, 7.0)]
    assert clock.now() == 7.0


@pytest.mark.parametrize("joined_first", ["giver", "taker"])
def test_what_one_timeline_gives_another_is_done_before_time_goes_further(joined_first: str) -> None:
    clock, journal = clock_and_journal()
    lines = {name: Line(clock, name, journal) for name in sorted(["giver", "taker"], key=joined_first.__ne__)}
    lines["giver"].at(1.0, lambda: lines["taker"].work.append("given at 1"))
    lines["giver"].at(2.0)
    advance(clock, 5)
    assert journal == [("giver", 1.0, 1.0), ("taker", "given at 1", 1.0), ("giver", 2.0, 2.0)]


def test_every_timeline_hears_of_every_move_after_it_was_made() -> None:
    clock, journal = clock_and_journal()
    left, right = Line(clock, "left", journal), Line(clock, "right", journal)
    left.at(1.0)
    advance(clock, 2)
    assert left.moved_to == right.moved_to == [1.0, 2.0]


def test_a_timeline_that_has_left_is_neither_waited_for_nor_told() -> None:
    clock, journal = clock_and_journal()
    line = Line(clock, "line", journal)
    line.at(1.0)
    clock.leave(line)
    clock.leave(line)
    advance(clock, 2)
    assert (journal, line.moved_to) == ([], [])
    clock.join(line)
    advance(clock, 0)
    assert journal == [("line", 1.0, 2.0)]


def test_joining_twice_is_joining_once() -> None:
    clock, journal = clock_and_journal()
    line = Line(clock, "line", journal)
    clock.join(line)
    clock.step(1.0)
    assert line.moved_to == [1.0]
    clock.leave(line)
    clock.step(2.0)
    assert line.moved_to == [1.0]


def test_a_step_says_whether_a_deadline_was_due() -> None:
    clock, journal = clock_and_journal()
    line = Line(clock, "line", journal)
    line.at(1.0)
    assert (clock.step(0.5), clock.now()) == (False, 0.5)
    assert (clock.step(1.0), clock.now()) == (True, 1.0)
    assert (clock.step(9.0), clock.now()) == (True, 1.0), "the deadline is still pending"
    line.plan.clear()
    assert (clock.step(9.0), clock.now()) == (False, 9.0)


@pytest.mark.parametrize("start", [0.0, 1.0, 1e7, 1.7e9])
@pytest.mark.parametrize(("part", "times"), [(0.1, 10), (0.1, 3), (0.7, 10), (1 / 3, 3), (0.01, 100)])
def test_the_parts_of_a_time_add_up_to_it(start: float, part: float, times: int) -> None:
    clock, journal = clock_and_journal(start)
    Line(clock, "line", journal).at(whole := start + round(part * times, 9))
    advance(clock, *[part] * (times - 1))
    assert journal == []
    advance(clock, part)
    assert journal == [("line", whole, whole)]
    assert clock.now() == pytest.approx(whole, abs=1e-9, rel=1e-14)


def test_a_microsecond_short_of_a_deadline_is_short_of_it() -> None:
    clock, journal = clock_and_journal()
    Line(clock, "line", journal).at(1.0)
    advance(clock, 1.0 - 1e-6)
    assert journal == []


def test_a_manual_clock_never_goes_back() -> None:
    clock, journal = clock_and_journal(10.0)
    line = Line(clock, "line", journal)
    line.at(2.0)
    assert clock.step(3.0)
    assert clock.now() == 10.0
    line.plan.clear()
    assert not clock.step(5.0)
    assert clock.now() == 10.0


@pytest.mark.parametrize("seconds", [-1, -0.001, math.inf, -math.inf, math.nan, "1", None, [1]])
def test_time_cannot_be_advanced_by_what_is_no_duration(seconds: Any) -> None:
    clock = ManualClock(1.0)
    with pytest.raises(InvalidDelay) as caught:
        advance(clock, seconds)
    assert caught.value.value is seconds
    assert clock.now() == 1.0


@given(
    plans=st.lists(st.lists(st.integers(0, 40), max_size=8), min_size=1, max_size=3),
    steps=st.lists(st.integers(0, 15), max_size=4),
)
@settings(max_examples=60, deadline=None)
def test_however_time_is_advanced_each_deadline_runs_once_in_order_and_on_time(
    plans: list[list[int]], steps: list[int]
) -> None:
    clock, journal = clock_and_journal()
    for number, plan in enumerate(plans):
        line = Line(clock, str(number), journal)
        for moment in plan:
            line.at(float(moment))
    advance(clock, *steps)
    ends = sum(steps)
    due = sorted((float(moment), str(number)) for number, plan in enumerate(plans) for moment in plan)
    expected = [(name, moment, moment) for moment, name in due if moment <= ends and steps]
    assert journal == expected
    assert clock.now() == ends


def test_one_seed_gives_one_sequence() -> None:
    first, second = Random(7), Random(seed=7)
    assert [first.random() for _ in range(20)] == [second.random() for _ in range(20)]
    assert [first.randrange(100), first.gauss(), first.choice("abc")] == [
        second.randrange(100),
        second.gauss(),
        second.choice("abc"),
    ]


def test_different_seeds_give_different_sequences() -> None:
    assert len({Random(seed).random() for seed in range(50)}) == 50


def test_an_unseeded_run_can_be_told_how_to_repeat_itself() -> None:
    lucky = Random()
    drawn = [lucky.random() for _ in range(5)]
    again = Random(lucky.seed_used)
    assert [again.random() for _ in range(5)] == drawn
    assert Random().seed_used != Random().seed_used


@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, lambda made: pickle.loads(pickle.dumps(made))])
def test_a_copied_generator_goes_on_alike_and_knows_its_seed(again: Any) -> None:
    original = Random(7)
    original.random()
    copied = again(original)
    assert copied.seed_used == 7
    assert [copied.random() for _ in range(5)] == [original.random() for _ in range(5)]


def test_a_generator_that_is_seeded_anew_remembers_the_new_seed() -> None:
    generator = Random(7)
    generator.seed(9)
    assert generator.random() == Random(9).random()
    assert generator.seed_used == 9


# -- systems that go by it


def test_a_system_on_another_thread_is_moved_from_here() -> None:
    clock = ManualClock()
    ticks: list[float] = []

    class Ticks(Actor[str, None]):
        def post_start(self) -> None:
            self.ctx.send_every(1.0, self.ctx.self, "tick")

        def receive(self, message: str) -> None:
            ticks.append(self.ctx.now())

    async def main(ref: ActorRef[str, Any]) -> None:
        await ref.started()
        await clock.advance(3.5)

    with ActorSystem(config=SystemConfig(clock=clock)) as system:
        asyncio.run(main(system.spawn(Ticks)))
        assert ticks == [1.0, 2.0, 3.0]


def test_systems_on_two_threads_cannot_be_moved_at_once() -> None:
    clock = ManualClock()
    config = SystemConfig(clock=clock)
    with ActorSystem(config=config), ActorSystem(config=config), pytest.raises(BadArgument, match="clock of its own"):
        asyncio.run(clock.advance(1.0))


@pytest.mark.anyio
async def test_an_actor_that_is_always_busy_is_named_when_patience_ends() -> None:
    clock = ManualClock()
    async with ActorSystem(config=SystemConfig(clock=clock)) as system:
        ref = system.spawn(lambda ctx, message: ctx.self.tell(message), name="busy")
        ref.tell("on")
        with pytest.raises(ClockHeldUp, match=r"from 0 for 0\.05 s.*/busy is busy"):
            await clock.advance(1.0, patience=0.05)
        ref.kill()


@pytest.mark.anyio
async def test_so_are_timers_without_a_delay() -> None:
    clock = ManualClock()
    async with ActorSystem(config=SystemConfig(clock=clock)) as system:
        ref = system.spawn(lambda ctx, message: ctx.send_after(0.0, ctx.self, message), name="busy")
        ref.tell("on")
        with pytest.raises(ClockHeldUp, match=r"from 0 for 0\.05 s"):
            await clock.advance(1.0, patience=0.05)
        ref.kill()
