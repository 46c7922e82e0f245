"""The loop: orders before messages, failures that stay where they happen, and whose thread it is."""

import logging
import threading
from collections.abc import Callable
from typing import Any

import pytest

from greenroom._core.limits import Limits
from greenroom._core.mailbox.cell import Cell
from greenroom._core.observerhooks import ObserverHooks
from greenroom._core.scheduler.accounting import count_cell, count_loop
from greenroom._core.scheduler.host import Host
from greenroom._core.scheduler.loop import Loop
from greenroom.clock import ManualClock
from greenroom.errors import LoopStopped, TooManyActors, WaitsForItself, WrongThread
from greenroom.lanes import Lane
from greenroom.ledger import Ledger
from tests.core.kit import Recorder

DEADLINE = 120.0


def elsewhere(what: Callable[[], object]) -> object:
    """What `what()` returns or raises on another thread."""
    result: list[object] = []

    def run() -> None:
        try:
            result.append(what())
        except BaseException as exc:
            result.append(exc)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(DEADLINE)
    return result[0]


# Lanes through the loop


# Failures


@pytest.mark.parametrize("cause", [ValueError("bad"), GeneratorExit(), BaseException("odd")])
def test_a_failure_stays_in_its_cell_and_the_host_is_told(
    loop: Loop, host: Recorder, heard: list[Any], cause: BaseException
) -> None:
    def handle(_: object, message: object) -> None:
        if message == "bad":
            raise cause
        heard.append(message)

    failing, other = loop.spawn(handle), loop.spawn(list.append, heard)
    for cell, message in ((failing, "bad"), (failing, "after"), (other, "other")):
        cell.tell(message)
    loop.run_until_idle()
    assert sorted(heard) == ["after", "other"]
    assert host.failures == [(failing, "bad", cause)]
    assert count_cell(failing) == Ledger(sent=2, handled=1, failed=1)


@pytest.mark.parametrize("lane", list(Lane))
def test_a_failure_counts_once_in_every_lane(loop: Loop, host: Recorder, lane: Lane) -> None:
    cell = loop.spawn(lambda _, message: 1 // 0)
    for number in range(5):
        cell.tell(number, lane=lane)
    loop.run_until_idle()
    assert [message for _, message, _ in host.failures] == list(range(5))
    assert count_loop(loop) == Ledger(sent=5, failed=5)


def test_a_failing_order_or_notice_is_told_but_is_no_message(loop: Loop, host: Recorder, heard: list[Any]) -> None:
    def handle(_: object, message: object) -> None:
        if message == "notice":
            raise ValueError("notice")
        heard.append(message)

    def fail(cell: Cell) -> None:
        raise ValueError("order")

    cell = loop.spawn(handle)
    cell.order(fail)
    cell.notify("notice")
    cell.tell("message")
    loop.run_until_idle()
    assert [str(cause) for _, _, cause in host.failures] == ["order", "notice"]
    assert heard == ["message"]
    assert count_loop(loop) == Ledger(sent=1, handled=1)


def test_a_bare_cell_that_fails_is_logged_and_ends(clock: ManualClock, caplog: pytest.LogCaptureFixture) -> None:
    loop = Loop(None, clock)
    cell = loop.spawn(lambda _, message: 1 // 0)
    cell.tell("bad")
    cell.tell("waiting")
    with caplog.at_level(logging.ERROR, "greenroom"):
        loop.run_until_idle()
    assert len(caplog.records) == 1
    assert "'bad'" in caplog.text
    assert "ZeroDivisionError" in caplog.text
    assert len(loop.table) == 0
    assert count_loop(loop) == Ledger(sent=2, failed=1, dead_lettered=1)


@pytest.mark.parametrize("cause", [KeyboardInterrupt(), SystemExit(3)])
@pytest.mark.parametrize("how", ["tell", "order", "notify"])
def test_ctrl_c_and_exit_leave_the_tick_and_the_loop_can_go_on(
    clock: ManualClock, heard: list[Any], cause: BaseException, how: str
) -> None:
    def stop(*_: object) -> None:
        raise cause

    loop = Loop(None, clock)
    before, stopping, after = loop.spawn(list.append, heard), loop.spawn(stop), loop.spawn(list.append, heard)
    before.tell("before")
    getattr(stopping, how)(stop)
    after.tell("after")
    stopping.order(lambda cell: heard.append("its next order")) if how == "order" else None
    with pytest.raises(type(cause)) as caught:
        loop.tick()
    assert caught.value is cause
    assert heard == ["before"]
    assert count_loop(loop).balanced
    assert count_loop(loop).in_hand == 0
    loop.run_until_idle()
    assert sorted(heard) == sorted(["before", "after"] + (["its next order"] if how == "order" else []))
    counts = count_loop(loop)
    assert counts.balanced
    assert counts.failed == (1 if how == "tell" else 0)


def test_what_a_host_raises_leaves_the_tick_with_the_loop_consistent(clock: ManualClock, heard: list[Any]) -> None:
    class Strict(Host):
        def failed(self, cell: Cell, message: object, cause: BaseException) -> None:
            raise cause

    loop = Loop(None, clock, Strict())

    def handle(_: object, message: int) -> None:
        if message == 0:
            raise ValueError("bad")
        heard.append(message)

    cell = loop.spawn(handle)
    for number in range(3):
        cell.tell(number)
    with pytest.raises(ValueError, match="bad"):
        loop.run_until_idle()
    loop.run_until_idle()
    assert heard == [1, 2]
    assert count_loop(loop) == Ledger(sent=3, handled=2, failed=1)


def test_an_observer_of_slow_handlers_may_leave_during_one(clock: ManualClock, host: Recorder) -> None:
    class Observer:
        def slow_handler(self, ref: object, message: object, seconds: float) -> None:
            told.append((message, seconds))

    def handle(_: object, message: object) -> None:
        clock.step(clock.now() + 1.0)
        if message == "leave":
            hooks.remove(observer)

    told: list[tuple[object, float]] = []
    observer = Observer()
    hooks = ObserverHooks()
    hooks.add(observer)
    loop = Loop(None, clock, host, hooks)
    cell = loop.spawn(handle)
    for message in ("stay", "leave", "gone"):
        cell.tell(message)
    loop.run_until_idle()
    assert told[0] == ("stay", 1.0)
    assert host.failures == []
    assert count_loop(loop) == Ledger(sent=3, handled=3)


# Limits and closing


def test_one_cell_more_than_the_limit_is_an_error_and_a_retired_one_makes_room(clock: ManualClock) -> None:
    loop = Loop(Limits(max_actors=2), clock)
    cells = [loop.spawn(print) for _ in range(2)]
    with pytest.raises(TooManyActors):
        loop.spawn(print)
    loop.spawn(print, exempt=True)
    loop.retire(cells[0])
    loop.spawn(print)
    with pytest.raises(TooManyActors):
        loop.spawn(print)


def test_a_closed_loop_ends_everything_and_takes_nothing_more(loop: Loop, host: Recorder, heard: list[Any]) -> None:
    cells = [loop.spawn(list.append, heard) for _ in range(3)]
    for number, cell in enumerate(cells):
        cell.tell(number)
    loop.close()
    loop.close()
    assert host.dead == [0, 1, 2]
    assert len(loop.table) == 0
    with pytest.raises(LoopStopped):
        loop.spawn(print)
    cells[0].tell("late")
    loop.run_until_idle()
    assert (heard, host.dead) == ([], [0, 1, 2, "late"])
    assert count_loop(loop) == Ledger(sent=4, dead_lettered=4)


def test_a_loop_may_be_closed_from_inside_a_handler(loop: Loop, host: Recorder, heard: list[Any]) -> None:
    closing = loop.spawn(lambda _, message: loop.close())
    other = loop.spawn(list.append, heard)
    for cell in (closing, other):
        cell.tell("message")
    loop.run_until_idle()
    assert (heard, host.dead) == ([], ["message"])
    assert count_loop(loop) == Ledger(sent=2, handled=1, dead_lettered=1)


# Never inside one another


@pytest.mark.parametrize("run", ["tick", "run_until_idle"])
def test_a_tick_inside_a_tick_is_an_error_and_harms_nobody(
    loop: Loop, host: Recorder, heard: list[Any], run: str
) -> None:
    cell, other = loop.spawn(lambda _, message: getattr(loop, run)()), loop.spawn(list.append, heard)
    cell.tell("nest")
    other.tell("other")
    loop.run_until_idle()
    assert [type(cause) for _, _, cause in host.failures] == [WaitsForItself]
    assert heard == ["other"]
    loop.tick()


# Whose thread it is


@pytest.mark.parametrize(
    "act",
    [
        lambda loop, cell: loop.spawn(print),
        lambda loop, cell: loop.retire(cell),
        lambda loop, cell: loop.tick(),
        lambda loop, cell: loop.run_until_idle(),
        lambda loop, cell: loop.start_timer(1.0, cell, "ring"),
        lambda loop, cell: loop.close(),
    ],
    ids=["spawn", "retire", "tick", "run_until_idle", "start_timer", "close"],
)
def test_what_belongs_to_the_loops_thread_is_refused_to_others(
    loop: Loop, heard: list[Any], act: Callable[[Loop, Cell], object]
) -> None:
    cell = loop.spawn(list.append, heard)
    cell.tell("mine")
    assert isinstance(elsewhere(lambda: act(loop, cell)), WrongThread)
    assert (len(loop.table), loop.timers.count, loop.closed, heard) == (1, 0, False, [])
    loop.run_until_idle()
    assert heard == ["mine"]


def test_a_thread_that_adopts_the_loop_makes_the_old_one_a_stranger(loop: Loop, heard: list[Any]) -> None:
    cell = loop.spawn(list.append, heard)
    cell.tell("before")

    def take_over() -> None:
        loop.adopt()
        cell.tell("from its new thread")
        loop.run_until_idle()

    assert elsewhere(take_over) is None
    assert heard == ["before", "from its new thread"]
    with pytest.raises(WrongThread):
        loop.tick()
    cell.tell("through inbound")
    assert elsewhere(take_over) is None
    assert heard[2:] == ["from its new thread", "through inbound"]


def test_a_loop_in_the_middle_of_a_tick_cannot_be_adopted(loop: Loop, heard: list[Any]) -> None:
    cell = loop.spawn(lambda _, message: heard.append(elsewhere(loop.adopt)))
    cell.tell("try")
    loop.run_until_idle()
    assert [type(result) for result in heard] == [WrongThread]


# What another thread sees of it


def test_another_thread_can_look_at_the_cell_in_hand_and_its_message(loop: Loop) -> None:
    seen: list[object] = []
    cell = loop.spawn(lambda _, message: seen.append(elsewhere(loop.visits.peek_hand)))
    message = ["anything"]
    cell.tell(message)
    loop.run_until_idle()
    assert seen == [(cell, message)]


def test_another_thread_sees_nothing_in_hand_between_ticks(loop: Loop) -> None:
    loop.spawn(lambda _, message: None).tell("gone")
    loop.run_until_idle()
    assert elsewhere(loop.visits.peek_hand) == (None, None)


def test_another_thread_can_look_while_messages_come_and_go(loop: Loop) -> None:
    looking, is_over = threading.Event(), threading.Event()

    def look() -> set[type]:
        kinds: set[type] = set()
        while not is_over.is_set():
            kinds.update(map(type, loop.visits.peek_hand()))
            looking.set()
        return kinds

    kinds: list[set[type]] = []
    thread = threading.Thread(target=lambda: kinds.append(look()), daemon=True)
    thread.start()
    assert looking.wait(DEADLINE)
    cells = [loop.spawn(lambda _, message: None) for _ in range(2)]
    for number in range(20_000):
        cells[number % 2].tell([number])
        loop.run_until_idle()
    is_over.set()
    thread.join(DEADLINE)
    assert kinds
    assert kinds[0] <= {Cell, list, type(None)}
