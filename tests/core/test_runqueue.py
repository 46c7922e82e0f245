"""The run queue: first come first served, one choice point, one wake-up per sleep, and nobody lost while it grows."""

import gc
import weakref
from collections.abc import Callable
from threading import get_ident
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from greenroom._core.mailbox.cell import Cell
from greenroom._core.runqueue import RunQueue
from greenroom._core.scheduler.loop import Loop
from tests.core.kit import Straggler, collects_while_allocating

FIRST_SIZE = 16


def queue_of(count: int, offset: int = 0) -> RunQueue:
    """A queue of the numbers below `count`, whose next stands `offset` places into the list."""
    queue = RunQueue(get_ident())
    for _ in range(offset):
        queue.push(None)
        queue.take()
    for number in range(count):
        queue.push(number)
    return queue


def drain(queue: RunQueue) -> list[Any]:
    return [queue.take() for _ in range(queue.count)]


def test_a_new_queue_is_empty_and_knows_its_thread() -> None:
    queue = RunQueue(get_ident())
    assert (queue.count, queue.thread, queue.asleep) == (0, get_ident(), False)


@pytest.mark.parametrize("offset", [0, 1, FIRST_SIZE - 1])
@pytest.mark.parametrize("count", [1, FIRST_SIZE, FIRST_SIZE + 1, 1000])
def test_first_come_first_served(count: int, offset: int) -> None:  # J6
    assert drain(queue_of(count, offset)) == list(range(count))


def test_a_queue_that_never_holds_many_never_grows() -> None:
    assert queue_of(FIRST_SIZE, 1000).mask + 1 == FIRST_SIZE


@pytest.mark.parametrize("position", [-1, 5, 16, -17, 1 << 40])
def test_nobody_stands_outside_the_queue(position: int) -> None:
    with pytest.raises(IndexError):
        queue_of(5).at(position)


def test_a_taken_cell_is_not_kept_alive() -> None:
    gone: list[str] = []

    class Watched:
        def __del__(self) -> None:
            gone.append("gone")

    queue = RunQueue(get_ident())
    queue.push(Watched())
    queue.take()
    assert gone == ["gone"]


@pytest.mark.parametrize("position", [5, -1, 1 << 40])
def test_a_choice_outside_the_queue_is_an_error_and_takes_nobody(position: int) -> None:
    queue = queue_of(5)
    with pytest.raises(IndexError):
        queue.bring_forward(position)
    assert drain(queue) == list(range(5))


def test_a_sleeping_loop_is_roused_by_the_first_to_come_alone() -> None:
    queue, roused = RunQueue(get_ident()), []
    queue.rouse = lambda: roused.append(queue.count)
    queue.push("before")
    assert roused == []
    queue.asleep = True
    queue.push("first")
    queue.push("second")
    assert roused == [2], "roused once, with the cell already in the queue"
    assert not queue.asleep
    queue.asleep = True
    queue.wake()
    assert roused == [2, 3]
    assert not queue.asleep


def test_a_queue_that_cannot_rouse_its_loop_tries_again_with_the_next_cell() -> None:
    roused: list[int] = []

    def rouse() -> None:
        roused.append(queue.count)
        if len(roused) == 1:
            raise MemoryError

    queue = RunQueue(get_ident())
    queue.rouse = rouse
    queue.asleep = True
    with pytest.raises(MemoryError):
        queue.push("first")
    assert queue.asleep
    queue.push("second")
    assert roused == [1, 2]
    assert not queue.asleep
    assert drain(queue) == ["first", "second"]


def push_while_collecting(push: Callable[[], object], last_words: Callable[[], object]) -> bool:
    """Call `push` so that the collector runs inside it as soon as a list is made; whether it did."""
    inside = caught = False

    def say() -> None:
        nonlocal caught
        caught = inside
        last_words()

    was = gc.get_threshold()
    gc.collect()
    gc.disable()
    Straggler(say)
    # Lists from the interpreter's freelist do not count as made: use those up.
    spare: list[list[object]] = [[] for _ in range(1000)]
    gc.set_threshold(1)
    gc.enable()
    try:
        inside = True
        push()
        inside = False
    finally:
        gc.set_threshold(*was)
        del spare
    return caught


@collects_while_allocating
@pytest.mark.parametrize("late", [1, 40])
@pytest.mark.parametrize(("count", "offset"), [(16, 0), (16, 5), (32, 0), (256, 9)])
def test_a_finalizer_that_makes_a_cell_runnable_while_the_queue_grows_loses_nobody(
    count: int, offset: int, late: int
) -> None:
    queue = queue_of(count, offset)

    def others_come() -> None:
        for number in range(late):
            queue.push(("late", number))

    assert push_while_collecting(lambda: queue.push("on time"), others_come), "this test shows nothing"
    assert drain(queue) == [*range(count), *(("late", number) for number in range(late)), "on time"]


@collects_while_allocating
def test_a_finalizer_that_tells_another_cell_while_the_queue_grows_leaves_no_cell_behind() -> None:
    handled: list[str] = []
    loop = Loop()

    def spawn() -> None:
        cells.append(loop.spawn(lambda name, _: handled.append(name), f"cell {len(cells)}"))

    cells: list[Cell] = []
    for _ in range(FIRST_SIZE - 1):
        spawn()
        cells[-1].tell("make the ring")
        loop.run_until_idle()
    handled.clear()
    *first, other = cells
    for cell in first:
        cell.tell("m")
    # It grows before there are more cells than it has room for, and never when a cell is told something.
    assert push_while_collecting(spawn, lambda: other.tell("m")), "this test shows nothing"
    cells[-1].tell("m")
    loop.run_until_idle()
    assert sorted(handled) == sorted(f"cell {number}" for number in range(FIRST_SIZE))


class RunQueueAgainstList(RuleBasedStateMachine):
    """A run queue and a list."""

    def __init__(self) -> None:
        super().__init__()
        self.queue = RunQueue(get_ident())
        self.model: list[int] = []
        self.made = 0

    @rule(count=st.sampled_from([1, 1, 2, 10, 40]))
    def push(self, count: int) -> None:
        for _ in range(count):
            self.made += 1
            self.queue.push(self.made)
            self.model.append(self.made)

    @precondition(lambda self: self.model)
    @rule(count=st.sampled_from([1, 1, 2, 10, 40]))
    def take(self, count: int) -> None:
        for _ in range(min(count, len(self.model))):
            assert self.queue.take() == self.model.pop(0)

    @precondition(lambda self: self.model)
    @rule(data=st.data())
    def take_another(self, data: st.DataObject) -> None:
        position = data.draw(st.integers(0, len(self.model) - 1))
        self.queue.bring_forward(position)
        assert self.queue.take() == self.model.pop(position)

    @rule(beyond=st.integers(0, 3))
    def look_outside(self, beyond: int) -> None:
        with pytest.raises(IndexError):
            self.queue.at(len(self.model) + beyond)

    @invariant()
    def they_hold_the_same(self) -> None:
        assert self.queue.count == len(self.model)
        assert [self.queue.at(position) for position in range(len(self.model))] == self.model

    @invariant()
    def the_list_is_a_power_of_two_with_room_for_all(self) -> None:
        size = self.queue.mask + 1
        assert size >= max(FIRST_SIZE, len(self.model))
        assert size & (size - 1) == 0


TestRunQueueAgainstList = RunQueueAgainstList.TestCase
TestRunQueueAgainstList.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)


class Thing:
    """Something that can be followed, and may hold something."""

    holds: object = None


@pytest.mark.parametrize("count", [1, FIRST_SIZE, 5 * FIRST_SIZE])
def test_a_queue_that_goes_lets_go_of_all_who_stand_in_it(count: int) -> None:
    queue = queue_of(0, 14)
    things = [Thing() for _ in range(count)]
    alive = [weakref.ref(thing) for thing in things]
    while things:
        queue.push(things.pop())
    del queue
    assert [one() for one in alive] == [None] * count


@pytest.mark.parametrize("count", [1, FIRST_SIZE, 5 * FIRST_SIZE])
def test_the_garbage_collector_sees_a_circle_that_leads_through_a_queue(count: int) -> None:
    queue, thing = queue_of(count - 1, 14), Thing()
    thing.holds = queue
    alive = weakref.ref(thing)
    queue.push(thing)
    del queue, thing
    gc.collect()
    assert alive() is None
