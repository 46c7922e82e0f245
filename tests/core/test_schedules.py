"""Schedules: who runs next in a simulation, always the same from the same seed, and nobody left out for ever (B1)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from itertools import pairwise
from threading import get_ident

import pytest
from hypothesis import given
from hypothesis import strategies as st

from greenroom._core.runqueue import RunQueue
from greenroom._core.scheduler.loop import Loop
from greenroom._core.simulation.schedules import PATIENCE_STEPS, Pct, Schedule, Scripted, Shuffled, SplitMix

STEPS = 400

SCHEDULES: dict[str, Callable[[int], Schedule]] = {
    "fifo": lambda seed: Schedule(),
    "random": Shuffled,
    "pct": lambda seed: Pct(seed, 3),
}


def queue_of(count: int) -> RunQueue:
    loop = Loop()
    queue = RunQueue(get_ident())
    for _ in range(count):
        queue.push(loop.spawn(id))
    return queue


def answers(schedule: Schedule, queue: RunQueue, steps: int = STEPS) -> Iterator[tuple[int, int, bool]]:
    """What a schedule says at each step, while whoever runs goes to the end of the queue."""
    for step in range(1, steps + 1):
        position = schedule.choose(step, queue)
        yield position, schedule.budget(step), schedule.pauses(step)
        queue.bring_forward(position)
        queue.push(queue.take())


@pytest.mark.parametrize("name", SCHEDULES)
@given(seed=st.integers(0, 2**64 - 1), count=st.integers(1, 100))
def test_the_same_seed_gives_the_same_schedule(name: str, seed: int, count: int) -> None:
    make = SCHEDULES[name]
    first = list(answers(make(seed), queue_of(count), 50))
    assert list(answers(make(seed), queue_of(count), 50)) == first
    assert all(0 <= position < count for position, _, _ in first)


def test_first_come_first_served_is_all_zeros() -> None:
    assert set(answers(Schedule(), queue_of(5))) == {(0, 0, False)}


@pytest.mark.parametrize("name", ["random", "pct"])
def test_seeds_differ(name: str) -> None:
    assert len({tuple(answers(SCHEDULES[name](seed), queue_of(5), 20)) for seed in range(20)}) > 10


def test_a_random_schedule_chooses_everybody_and_every_length() -> None:
    said = list(answers(Shuffled(7), queue_of(5), 2000))
    positions = Counter(position for position, _, _ in said)
    assert set(positions) == set(range(5))
    assert min(positions.values()) > 300
    assert {budget for _, budget, _ in said} == set(range(8))
    assert {pause for _, _, pause in said} == {True, False}


def test_pct_lets_the_one_with_the_highest_priority_run_on() -> None:
    """And there are few changes: who runs at a step is nearly always who ran before, if it can."""
    for seed in range(50):
        queue = queue_of(5)
        schedule = Pct(seed, 3)
        ran = []
        for step in range(1, 101):
            position = schedule.choose(step, queue)
            ran.append(queue.at(position))
        assert sum(one is not other for one, other in pairwise(ran)) <= 2


def test_nobody_runs_on_for_ever_while_others_wait() -> None:
    queue = queue_of(100)  # more than are looked at
    schedule = Pct(1, 1)
    ran: Counter[int] = Counter()
    for step in range(1, 100 * (PATIENCE_STEPS + 2)):
        queue.bring_forward(schedule.choose(step, queue))
        cell = queue.take()
        ran[cell.id] += 1
        queue.push(cell)
    assert len(ran) == 100


def test_no_thread_goes_on_for_ever_while_others_are_ready() -> None:
    threads = list(range(5))
    schedule = Pct(1, 1)
    went_on = set()
    for step in range(1, 5 * (PATIENCE_STEPS + 2)):
        thread = threads.pop(schedule.choose_thread(step, threads))
        went_on.add(thread)
        threads.append(thread)
    assert went_on == set(range(5))


def test_pct_takes_nobody_for_another_that_lay_at_the_same_place_in_memory() -> None:
    def choices(kept: list[object]) -> list[int]:
        loop, schedule = Loop(), Pct(7, 3)
        chosen = []
        for step in range(1, 200):
            queue = RunQueue(get_ident())
            cells = [loop.spawn(id) for _ in range(3)]
            for cell in cells:
                queue.push(cell)
                kept.append(cell)
            chosen.append(schedule.choose(step, queue))
            for cell in cells:
                loop.retire(cell)
        return chosen

    class Forgetful(list[object]):
        def append(self, one: object, /) -> None:
            addresses.add(id(one))

    addresses: set[int] = set()
    assert choices(Forgetful()) == choices([])
    assert len(addresses) < 300, "no two of them lay at the same place"


def test_a_script_says_what_was_written_and_nothing_else() -> None:
    script = Scripted({2: (3, 0, 1), 4: (99, 2, 0)})
    said = [(script.choose(step, queue_of(5)), script.budget(step), script.pauses(step)) for step in range(1, 6)]
    assert said == [(0, 0, False), (3, 0, True), (0, 0, False), (4, 2, False), (0, 0, False)]


@given(st.integers(), st.integers(1, 1000))
def test_dice_stay_within_their_bounds_and_repeat_themselves(seed: int, bound: int) -> None:
    one, other = SplitMix(seed), SplitMix(seed)
    for _ in range(20):
        drawn = one.below(bound)
        assert 0 <= drawn < bound
        assert drawn == other.below(bound)
    assert 0.0 <= one.fraction() < 1.0


def test_dice_are_the_same_in_every_build() -> None:
    """The first numbers of SplitMix64 from the seed 1234567, as its authors publish them."""
    dice = SplitMix(1234567)
    assert [dice.draw() for _ in range(3)] == [6457827717110365317, 3203168211198807973, 9817491932198370423]


def test_every_bit_of_a_seed_counts() -> None:
    seeds = [0, 1, -1, -2, 1 << 64, 1 << 200, (1 << 64) - 1]
    assert len({SplitMix(seed).draw() for seed in seeds}) == len(seeds)
