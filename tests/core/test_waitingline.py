"""The line of those who wait for room: first come, first let in, and nobody is forgotten in it."""

from __future__ import annotations

from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from greenroom._core.delivery.admission import Waiter
from greenroom._core.flags import ROOM
from greenroom._core.mailbox.cell import Cell
from greenroom._core.scheduler.loop import Loop
from greenroom.clock import ManualClock
from greenroom.lanes import Lane
from tests.core.kit import LANES, bounded


@pytest.fixture
def loop() -> Loop:
    return Loop(None, ManualClock())


def waiter(message: object, lane: Lane = Lane.DATA) -> Waiter:
    return Waiter(message, None, lane, lambda refused: None)


def note(finished: list[object], number: int, refused: BaseException | None) -> None:
    finished.append(number)


STEPS = st.lists(
    st.tuples(st.sampled_from(["wait", "give up", "make room", "clear"]), st.sampled_from(LANES)), max_size=40
)


@given(steps=STEPS)
def test_a_line_is_a_queue_for_each_lane_and_the_cell_knows_of_it(steps: list[tuple[str, Lane]]) -> None:
    loop = Loop(None, ManualClock())
    admission, cell = loop.admission, full_in_all_lanes(loop)
    finished: list[object] = []
    model: dict[Lane, list[Waiter]] = {lane: [] for lane in LANES}
    gone = waiter("gone")
    for number, (step, lane) in enumerate(steps):
        if step == "wait":
            one = Waiter(number, None, lane, partial(note, finished, number))
            model[lane].append(one)
            admission.wait_for_room(cell, one)
        elif step == "give up":
            admission.give_up(cell, model[lane].pop(len(model[lane]) // 2) if model[lane] else gone)
        elif step == "make room":
            let_in = [model[lane].pop(0).message] if model[lane] else []
            cell.take_from(lane)
            admission.fill_up(cell)
            assert finished == let_in
            if not let_in:
                admission.admit(cell, "another", None, lane)
        else:
            admission.clear(cell, "cleared")
            assert finished == [one.message for each in Lane for one in model[each]]
            model = {each: [] for each in LANES}
            for each in LANES:
                admission.admit(cell, "another", None, each)
        finished.clear()
        assert bool(cell.flags & ROOM) == any(model.values())
        assert [cell.depth(each) for each in LANES] == [1] * len(LANES)


def test_lines_before_two_mailboxes_have_nothing_to_do_with_each_other(loop: Loop) -> None:
    here, there = (full_in_all_lanes(loop) for _ in range(2))
    loop.admission.wait_for_room(here, waiter(1))
    loop.admission.clear(there, "cleared")
    assert loop.admission.has_room(there, Lane.DATA)
    assert here.flags & ROOM


def full_in_all_lanes(loop: Loop) -> Cell:
    cell = loop.spawn(lambda state, message: None, None, bounded(1))
    cell.hold()
    for lane in LANES:
        cell.tell("first", lane=lane)
    return cell


def full_cell(loop: Loop) -> tuple[Cell, list[object]]:
    handled: list[object] = []
    cell = loop.spawn(list.append, handled, bounded(1))
    cell.hold()
    cell.tell("first")
    return cell, handled


def test_those_who_wait_are_let_in_one_by_one_in_their_order(loop: Loop) -> None:
    cell, handled = full_cell(loop)
    for number in range(3):
        loop.admission.wait_for_room(cell, waiter(number))
    assert not loop.admission.has_room(cell, Lane.DATA)
    cell.release()
    loop.run_until_idle()
    assert handled == ["first", 0, 1, 2]
    assert loop.admission.has_room(cell, Lane.DATA)


def test_a_waiter_that_fails_when_it_is_told_leaves_no_line_behind(loop: Loop) -> None:
    cell, _ = full_cell(loop)

    def fail(refused: BaseException | None) -> None:
        raise ZeroDivisionError

    loop.admission.wait_for_room(cell, Waiter("second", None, Lane.DATA, fail))
    assert cell.take_from(Lane.DATA) == "first"
    with pytest.raises(ZeroDivisionError):
        loop.admission.fill_up(cell)
    assert cell.take_from(Lane.DATA) == "second"
    assert loop.admission.has_room(cell, Lane.DATA)
