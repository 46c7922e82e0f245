"""How timers end: cancelled, with their owner, with their target, with the loop; and that nothing is left."""

import gc
import weakref

import pytest

from greenroom._core.scheduler.accounting import count_loop
from greenroom._core.timing.timers import Timer
from greenroom.errors import LoopStopped
from tests.core.clockwork import Stage


@pytest.fixture
def stage() -> Stage:
    return Stage()


# Cancelling


def test_a_cancelled_timer_never_comes_and_says_once_that_it_was_cancelled(stage: Stage) -> None:
    timer = stage.loop.start_timer(1.0, stage.cell, "ring", interval=1.0)
    assert timer.cancel() is True
    assert timer.cancel() is False
    assert timer.active is False
    stage.move_to(10.0)
    assert stage.log == []
    assert count_loop(stage.loop).sent == 0


def test_cancel_after_the_last_tick_says_false(stage: Stage) -> None:
    timer = stage.loop.start_timer(1.0, stage.cell, "ring")
    stage.move_to(1.0)
    assert timer.cancel() is False


@pytest.mark.parametrize("interval", [0.0, 1.0])
def test_a_tick_already_queued_is_not_delivered_once_cancelled_and_counts_as_dropped(
    stage: Stage, interval: float
) -> None:
    stage.cell.hold()
    timer = stage.loop.start_timer(1.0, stage.cell, "ring", interval=interval)
    stage.move_to(1.0)
    assert stage.cell.queued() == 1
    assert timer.cancel() is True
    stage.cell.tell("after it")
    stage.cell.release()
    stage.move_to(5.0)
    assert stage.messages == ["after it"]
    counts = count_loop(stage.loop)
    assert (counts.sent, counts.handled, counts.dropped, counts.balanced) == (2, 1, 1, True)


def test_a_cancelled_tick_that_is_still_queued_when_its_target_ends_is_dropped_not_a_dead_letter(stage: Stage) -> None:
    stage.cell.hold()
    timer = stage.loop.start_timer(1.0, stage.cell, "ring")
    stage.move_to(1.0)
    timer.cancel()
    stage.loop.retire(stage.cell)
    counts = count_loop(stage.loop)
    assert (counts.dropped, counts.dead_lettered, stage.letters.dead) == (1, 0, [])


def test_a_handler_may_cancel_the_timer_whose_tick_it_handles(stage: Stage) -> None:
    timer = stage.loop.start_timer(1.0, stage.cell, "ring", interval=1.0)
    stage.on_tick = lambda _: timer.cancel()
    stage.move_to(1.0)
    stage.move_to(10.0)
    assert (stage.messages, timer.active, stage.loop.timers.count) == (["ring"], False, 0)
    assert count_loop(stage.loop).handled == 1


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


# Owners


def test_all_timers_of_an_owner_end_with_it(stage: Stage) -> None:
    owner = stage.loop.spawn(Stage.handle, stage)
    timers = [
        stage.loop.start_timer(1.0 + number, stage.cell, number, number % 3, fixed_rate=number % 2 == 0, owner=owner)
        for number in range(20)
    ]
    for timer in timers[5:8]:
        timer.cancel()
    spared = stage.loop.start_timer(3.0, stage.cell, "spared", owner=stage.cell)
    stage.loop.retire(owner)
    assert [timer.active for timer in timers] == [False] * 20
    assert spared.active
    assert stage.loop.timers.count == 1
    stage.move_to(100.0)
    assert stage.messages == ["spared"]


def test_a_tick_queued_elsewhere_is_not_delivered_once_its_owner_ended(stage: Stage) -> None:
    owner = stage.loop.spawn(Stage.handle, stage)
    stage.cell.hold()
    stage.loop.start_timer(1.0, stage.cell, "ring", owner=owner)
    stage.move_to(1.0)
    stage.loop.retire(owner)
    stage.cell.release()
    stage.loop.run_until_idle()
    assert stage.log == []
    assert count_loop(stage.loop).dropped == 1


def test_a_timer_without_owner_whose_target_ended_becomes_one_dead_letter(stage: Stage) -> None:
    timer = stage.loop.start_timer(1.0, stage.cell, "ring", interval=1.0)
    stage.loop.retire(stage.cell)
    stage.move_to(5.0)
    stage.move_to(50.0)
    assert stage.letters.dead == ["ring"]
    assert (timer.active, stage.loop.timers.count, count_loop(stage.loop).balanced) == (False, 0, True)


def test_no_tick_reaches_the_next_tenant_of_a_slot(stage: Stage) -> None:
    heard: list[object] = []
    stage.loop.start_timer(1.0, stage.cell, "owned", owner=stage.cell)
    stage.loop.start_timer(1.0, stage.cell, "unowned")
    stage.loop.retire(stage.cell)
    stage.loop.spawn(lambda _, message: heard.append(message))
    stage.move_to(2.0)
    assert (heard, stage.log) == ([], [])


def test_closing_the_loop_ends_every_timer_and_starts_no_other(stage: Stage) -> None:
    timers = [stage.loop.start_timer(number / 100, stage.cell, number, interval=1.0) for number in range(300)]
    stage.cell.hold()
    stage.move_to(1.0)  # some are queued, some pending
    stage.loop.close()
    assert not any(timer.active for timer in timers)
    assert stage.loop.timers.count == 0
    with pytest.raises(LoopStopped):
        stage.loop.start_timer(1.0, stage.cell, "too late")
