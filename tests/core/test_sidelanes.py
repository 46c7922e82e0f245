"""The lanes beside the data lane: three FIFOs, and places that tell which of two messages arrived first."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from greenroom._core.mailbox.sidelanes import SideLanes, data_place
from greenroom.lanes import Lane

SIDE = [Lane.CONTROL, Lane.MANAGEMENT, Lane.LOG]


@pytest.mark.parametrize("lane", SIDE)
def test_a_lane_that_was_never_used_has_no_slots(lane: Lane) -> None:
    side = SideLanes()
    assert side.slots(lane) == 0
    assert (side.depth(lane), side.total()) == (0, 0)


@pytest.mark.parametrize("lane", SIDE)
def test_each_lane_is_a_fifo_of_its_own(lane: Lane) -> None:
    side = SideLanes()
    for number in range(10):
        for other in SIDE:
            side.push(other, (other, number), -number, 0)
    taken = [(side.first_sender(lane), side.pop(lane)) for _ in range(10)]
    assert taken == [(-number, (lane, number)) for number in range(10)]
    assert [side.depth(other) for other in SIDE] == [0 if other is lane else 10 for other in SIDE]
    assert side.total() == 20


@pytest.mark.parametrize("lane", SIDE)
def test_only_the_lane_that_is_used_gets_slots(lane: Lane) -> None:
    side = SideLanes()
    side.push(lane, "m", None, 0)
    assert [other for other in SIDE if side.slots(other) > 0] == [lane]


@pytest.mark.parametrize("lane", SIDE)
def test_a_burst_gives_its_memory_back_once_it_is_drained(lane: Lane) -> None:
    side = SideLanes()
    for number in range(500):
        side.push(lane, number, None, 0)
    assert side.slots(lane) >= 1000
    assert [side.pop(lane) for _ in range(500)] == list(range(500))
    assert side.slots(lane) <= 2
    side.push(lane, "after", None, 0)
    assert side.pop(lane) == "after"


def test_none_is_a_message_and_a_sender_like_any_other() -> None:
    side = SideLanes()
    side.push(Lane.LOG, None, None, 0)
    assert side.depth(Lane.LOG) == 1
    assert (side.first_sender(Lane.LOG), side.pop(Lane.LOG)) == (None, None)


@given(st.lists(st.sampled_from(Lane), max_size=60), st.sampled_from([0, 1, (1 << 31) - 5, (1 << 32) - 5, 1 << 62]))
@settings(deadline=None)
def test_places_sort_messages_of_all_lanes_by_arrival(arrivals: list[Lane], data_before: int) -> None:
    side = SideLanes()
    seen = data_before
    places: list[tuple[Lane, int]] = []
    for lane in arrivals:
        if lane is Lane.DATA:
            places.append((lane, data_place(seen)))
            seen += 1
        else:
            side.push(lane, "m", None, seen)
    waiting = iter(places)
    in_order = []
    for lane in arrivals:
        if lane is Lane.DATA:
            in_order.append(next(waiting)[1])
        else:
            in_order.append(side.first_place(lane))
            side.pop(lane)
    assert in_order == sorted(in_order)
    assert len(set(in_order)) == len(in_order)


def test_places_stay_in_order_after_a_lane_was_drained() -> None:
    side = SideLanes()
    side.push(Lane.LOG, "first", None, 3)
    first = side.first_place(Lane.LOG)
    side.pop(Lane.LOG)
    side.push(Lane.CONTROL, "second", None, 3)
    side.push(Lane.LOG, "third", None, 3)
    assert first < side.first_place(Lane.CONTROL) < side.first_place(Lane.LOG) < data_place(3)
