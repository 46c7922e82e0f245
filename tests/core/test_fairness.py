"""Budgets: by exact counts, nobody gets more than a turn, and no tick goes on past its time (J6, M17)."""

import types
from collections.abc import Callable, Generator
from itertools import groupby
from time import monotonic
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from greenroom._core.limits import Limits
from greenroom._core.mailbox.cell import Cell
from greenroom._core.scheduler.host import Host
from greenroom._core.scheduler.loop import Loop
from greenroom.clock import ManualClock
from greenroom.lanes import Lane

AGES = 1e9
"""More time than any test takes by its manual clock."""


class TimedLoop:
    """A loop on a clock moved by hand; each message is written down with the cell that handled it."""

    def __init__(self, per_visit: int = 64, per_tick: int = 1024, seconds: float = AGES, cost: float = 0.0) -> None:
        self.clock = ManualClock()
        limits = Limits(max_msgs_per_actor=per_visit, max_actors_per_tick=per_tick, max_tick_time=seconds)
        self.loop = Loop(limits, self.clock, Lenient())
        self.log: list[tuple[str, Any]] = []
        self.cost = cost

    def spawn(self, name: str, then: Callable[[str, Any], object] | None = None) -> Cell:
        def handle(_: object, message: Any) -> object:
            self.log.append((name, message))
            self.clock.step(self.clock.now() + self.cost)
            return None if then is None else then(name, message)

        return self.loop.spawn(handle)

    def fill(self, names: str, messages: int) -> list[Cell]:
        cells = [self.spawn(name) for name in names]
        for cell in cells:
            for number in range(messages):
                cell.tell(number)
        return cells

    def visits(self) -> list[tuple[str, int]]:
        """Who was visited, and for how many messages in a row."""
        return [(name, len(list(group))) for name, group in groupby(name for name, _ in self.log)]

    def tick(self) -> list[str]:
        """The names of those who handled a message in one tick, in order."""
        before = len(self.log)
        self.loop.tick()
        return [name for name, _ in self.log[before:]]


class Lenient(Host):
    def failed(self, cell: Cell, message: object, cause: BaseException) -> None:
        pass


# J6


def test_three_cells_with_a_hundred_messages_each_and_a_budget_of_ten_take_turns_of_ten() -> None:
    timed = TimedLoop(per_visit=10)
    timed.fill("abc", 100)
    timed.loop.run_until_idle()
    assert timed.visits() == [("a", 10), ("b", 10), ("c", 10)] * 10


@pytest.mark.parametrize("budget", [1, 2, 3])
def test_orders_before_between_and_after_messages_take_nothing_of_a_budget(budget: int) -> None:
    timed = TimedLoop(per_visit=budget)

    def then(name: str, message: Any) -> None:
        if name == "a":
            for _ in range(2):
                ordering.order(lambda _: timed.log.append(("a", "order")))

    ordering = timed.spawn("a", then)
    for number in range(2 * budget):
        ordering.tell(number)
    ordering.order(lambda _: timed.log.append(("a", "first")))
    timed.fill("b", 2 * budget)
    timed.loop.run_until_idle()
    of_one = [kind for number in range(budget) for kind in (number, "order", "order")]
    of_other = [kind for number in range(budget, 2 * budget) for kind in (number, "order", "order")]
    assert [said for name, said in timed.log if name == "a"] == ["first", *of_one, *of_other]
    assert timed.visits() == [("a", 1 + 3 * budget), ("b", budget), ("a", 3 * budget), ("b", budget)]


def test_an_actor_that_orders_itself_about_without_end_does_not_outlast_a_tick() -> None:
    timed = TimedLoop(seconds=0.5)

    def again(cell: Cell) -> None:
        timed.clock.step(timed.clock.now() + 0.1)
        timed.log.append(("a", "order"))
        cell.order(again)

    timed.spawn("a").order(again)
    timed.spawn("b").tell(1)
    assert timed.tick() == ["a"] * 5
    assert timed.tick()[0] == "b"


@settings(max_examples=60, deadline=None)
@given(budget=st.integers(1, 12), depths=st.lists(st.integers(0, 40), min_size=1, max_size=6))
def test_with_budget_n_a_visit_handles_at_most_n_and_all_take_turns(budget: int, depths: list[int]) -> None:
    timed = TimedLoop(per_visit=budget)
    for name, depth in enumerate(depths):
        cell = timed.spawn(str(name))
        for number in range(depth):
            cell.tell(number)
    expected: list[str] = []
    left = dict(enumerate(depths))
    while any(left.values()):
        for name, depth in left.items():
            expected += [str(name)] * min(budget, depth)
            left[name] = max(0, depth - budget)
    timed.loop.run_until_idle()
    assert [name for name, _ in timed.log] == expected


def test_a_budget_holds_in_all_lanes_together_and_for_notices_and_leaves_orders_out() -> None:
    timed = TimedLoop(per_visit=10)
    mixed, other = timed.spawn("mixed"), timed.spawn("other")
    for number in range(10):
        mixed.tell(number, lane=Lane(number % 4))
        mixed.notify(number)
        mixed.order(lambda cell: timed.log.append(("mixed", "order")))
        other.tell(number)
        other.tell(number)
    timed.loop.run_until_idle()
    assert timed.visits() == [("mixed", 20), ("other", 10), ("mixed", 10), ("other", 10)]


def test_a_tick_makes_exactly_as_many_visits_as_it_may() -> None:
    timed = TimedLoop(per_visit=2, per_tick=3)
    timed.fill("abcde", 4)
    assert timed.tick() == list("aabbcc")
    assert timed.tick() == list("ddeeaa")
    assert timed.tick() == list("bbccdd")
    assert timed.tick() == list("ee")
    assert not timed.loop.has_work()


def test_a_cell_stands_in_the_run_queue_once_however_much_it_is_sent() -> None:
    timed = TimedLoop()
    cell = timed.fill("a", 50)[0]
    cell.order(lambda cell: None)
    cell.notify("notice")
    cell.tell("control", lane=Lane.CONTROL)
    cell.release()
    assert timed.loop.runq.count == 1


def test_a_cell_that_sends_to_itself_without_end_leaves_others_their_turn() -> None:
    timed = TimedLoop(per_visit=10, per_tick=4)
    greedy = timed.spawn("greedy", lambda name, message: greedy.tell(message))
    greedy.tell("again")
    for number in range(3):
        timed.spawn(str(number)).tell("once")
    assert timed.tick() == ["greedy"] * 10 + ["0", "1", "2"]


# The time of a tick


@pytest.mark.parametrize(("cost", "begun"), [(0.0625, 16), (0.25, 4), (0.375, 3), (1.0, 1), (100.0, 1)])
def test_a_tick_begins_no_message_once_its_time_is_up(cost: float, begun: int) -> None:
    timed = TimedLoop(seconds=1.0, cost=cost)
    timed.fill("abc", 40)
    for _ in range(5):
        assert len(timed.tick()) == begun


def test_one_slow_message_after_many_fast_ones_ends_the_tick() -> None:
    timed = TimedLoop(seconds=1.0)

    def dawdle(name: str, message: object) -> None:
        if message == 30:
            timed.clock.step(timed.clock.now() + 1.0)

    cell, other = timed.spawn("a", dawdle), timed.spawn("b")
    for number in range(60):
        cell.tell(number)
        other.tell(number)
    timed.tick()
    assert timed.log[-1] == ("a", 30)


def spin(seconds: float) -> None:
    """Be busy by the machine's clock."""
    until = monotonic() + seconds
    while monotonic() < until:
        pass


@pytest.mark.parametrize("cells", [1, 5])
@pytest.mark.parametrize("quick", [0, 1, 4, 21])
def test_by_the_machines_clock_a_tick_ends_three_messages_after_its_time_at_the_latest(quick: int, cells: int) -> None:
    loop = Loop(Limits(max_msgs_per_actor=1000, max_tick_time=0.002))
    slow: list[object] = []

    def handle(_: object, message: object) -> None:
        if message == "slow":
            slow.append(message)
            spin(0.003)

    receivers = [loop.spawn(handle) for _ in range(cells)]
    receivers[0].tell("slow")
    loop.tick()
    slow.clear()  # from now on, the loop knows how fast the counter goes
    for message in ["quick"] * quick + ["slow"] * 20:
        for receiver in receivers:
            receiver.tell(message)
    while not slow:  # on a busy machine, the quick ones may take several ticks
        loop.tick()
    assert len(slow) <= 4
    for _ in range(3):
        before = len(slow)
        loop.tick()
        assert before < len(slow) <= before + 4
    loop.close()


@pytest.mark.parametrize("lane", list(Lane))
def test_time_is_kept_in_every_lane(lane: Lane) -> None:
    timed = TimedLoop(seconds=1.0, cost=0.5)
    cells = [timed.spawn(name) for name in "ab"]
    for cell in cells:
        for number in range(10):
            cell.tell(number, lane=lane)
    for _ in range(10):
        assert len(timed.tick()) == 2


def fail(name: str, message: object) -> None:
    raise ValueError(message)


@types.coroutine
def pause() -> Generator[None, None, None]:
    yield


async def give_way(name: str, message: object) -> None:
    await pause()


async def return_at_once(name: str, message: object) -> None:
    pass


@pytest.mark.parametrize(
    "then",
    [
        None,
        fail,
        give_way,
        return_at_once,
        lambda name, message: "a result",
    ],
    ids=["returns", "raises", "suspends", "async", "answers"],
)
@pytest.mark.parametrize("lane", list(Lane))
def test_time_is_kept_however_the_handler_ends(then: Callable[[str, Any], object] | None, lane: Lane) -> None:
    timed = TimedLoop(seconds=1.0, cost=1.0)
    for number in range(20):
        timed.spawn(str(number), then).tell("message", lane=lane)
    assert timed.tick() == ["0"]


@pytest.mark.parametrize("how", ["order", "notify"])
def test_time_is_kept_after_an_order_or_a_notice(how: str) -> None:
    timed = TimedLoop(seconds=1.0, cost=1.0)
    for number in range(20):
        cell = timed.spawn(str(number))
        if how == "order":
            cell.order(lambda cell: cell.handler(None, "order"))
        else:
            cell.notify("notice")
    assert timed.tick() == ["0"]


def test_time_is_kept_when_a_handler_retires_its_own_cell() -> None:
    timed = TimedLoop(seconds=1.0, cost=1.0)
    cells = [
        timed.spawn(str(number), lambda name, message: timed.loop.retire(cells[int(name)])) for number in range(20)
    ]
    for cell in cells:
        cell.tell("message")
    assert timed.tick() == ["0"]


def test_a_cell_that_was_cut_short_goes_to_the_back_of_the_queue() -> None:
    timed = TimedLoop(seconds=1.0, cost=0.5)
    timed.fill("abc", 4)
    assert [timed.tick() for _ in range(6)] == [list("aa"), list("bb"), list("cc")] * 2


def test_every_tick_makes_progress_even_with_no_time_left_to_speak_of() -> None:
    timed = TimedLoop(seconds=1e-9, cost=1.0)
    timed.fill("ab", 3)
    assert [timed.tick() for _ in range(6)] == [["a"], ["b"], ["a"], ["b"], ["a"], ["b"]]


# Visits that follow the load (M17)


def strained_loop() -> TimedLoop:
    """Thirty cells that always have six messages; a tick has time for sixteen messages, so few cells get a turn."""
    timed = TimedLoop(per_visit=64, seconds=1.0, cost=1 / 16)
    cells: dict[str, Cell] = {}

    def again(name: str, message: object) -> None:
        if message == "for ever":
            cells[name].tell(message)

    for number in range(30):
        name = str(number)
        cells[name] = timed.spawn(name, again)
        for _ in range(6):
            cells[name].tell("for ever")
    return timed


def served_in(timed: TimedLoop) -> int:
    """How many cells got a turn in one tick."""
    return len(set(timed.tick()))


def test_visits_get_shorter_while_ticks_leave_cells_without_a_turn() -> None:
    timed = strained_loop()
    calm = served_in(timed)
    assert calm == 1  # with whole visits the first cell, always busy, takes all the time there is
    served = [served_in(timed) for _ in range(12)]
    assert served == sorted(served)
    assert served[-1] == 16  # one message each


def test_a_deep_queue_keeps_longer_visits_under_strain() -> None:
    timed = strained_loop()
    deep = timed.spawn("deep")
    for number in range(1000):
        deep.tell(number)
    for _ in range(40):
        timed.tick()
    deep_visits = [count for name, count in timed.visits()[-100:] if name == "deep"]
    assert deep_visits
    assert max(deep_visits) > 1


def test_visits_get_long_again_when_the_strain_is_over() -> None:
    timed = strained_loop()
    for _ in range(12):
        timed.tick()
    timed.cost = 0.0
    for cell in list(timed.loop.table):
        timed.loop.retire(cell)
    for _ in range(12):
        timed.loop.tick()
    timed.log.clear()
    timed.fill("ab", 64)
    timed.loop.tick()
    assert timed.visits() == [("a", 64), ("b", 64)]


def test_a_single_tick_that_ran_out_of_time_shortens_nothing() -> None:
    timed = TimedLoop(per_visit=8, seconds=1.0, cost=1.0)
    timed.fill("ab", 1)
    assert timed.tick() == ["a"]
    timed.cost = 0.0
    timed.log.clear()
    timed.fill("cd", 7)
    timed.tick()
    assert timed.visits() == [("b", 1), ("c", 7), ("d", 7)]
