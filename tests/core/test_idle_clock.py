"""A loop whose clock is moved by hand: every deadline is passed in order, and nothing is left undone on the way."""

from __future__ import annotations

import asyncio
import math
from typing import TYPE_CHECKING

import pytest

from greenroom._core.scheduler.loop import Loop
from greenroom._core.scheduler.poller import Poller
from greenroom.clock import ManualClock
from greenroom.errors import InvalidDelay
from tests.core.props import ONE_AT_A_TIME, bare_yield

if TYPE_CHECKING:
    from tests.core.conftest import Run, Stage


async def test_advancing_passes_every_deadline_in_order_and_at_its_time(stage: Stage, clock: ManualClock) -> None:
    said: list[tuple[float, str]] = []

    def actor(_: object, message: str) -> None:
        said.append((clock.now(), message))
        if message == "c":
            stage.loop.start_timer(0.5, cell, "after c")

    cell = stage.spawn(actor)
    for delay, message in ((30.0, "d"), (2.0, "c"), (1.0, "a"), (1.0, "b"), (30.5, "not yet"), (0.0, "now")):
        stage.loop.start_timer(delay, cell, message)
    await clock.advance(30)
    assert said == [(0.0, "now"), (1.0, "a"), (1.0, "b"), (2.0, "c"), (2.5, "after c"), (30.0, "d")]
    assert clock.now() == 30.0
    await clock.advance(0)
    assert len(said) == 6
    await clock.advance(0.5)
    assert said[6:] == [(30.5, "not yet")]


def test_advancing_passes_every_tick_of_a_periodic_timer(run: Run) -> None:
    clock = ManualClock(100.0)

    async def main(stage: Stage) -> None:
        said: list[float] = []
        cell = stage.spawn(lambda _, message: said.append(clock.now()))
        timer = stage.loop.start_timer(1.0, cell, "tick", interval=2.0)
        await clock.advance(7.5)
        assert said == [101.0, 103.0, 105.0, 107.0]
        timer.cancel()
        await clock.advance(100.0)
        assert len(said) == 4

    run(main, clock=clock)


@pytest.mark.config(limits=ONE_AT_A_TIME)
async def test_what_is_due_has_run_with_all_it_brings_about_before_time_goes_on(
    stage: Stage, clock: ManualClock
) -> None:
    said: list[tuple[float, str]] = []

    async def slowly(_: object, message: str) -> None:
        for _step in range(20):
            await bare_yield()
        said.append((clock.now(), message))
        if len(message) < 5:
            cell.tell(message + message[0])

    cell = stage.spawn(slowly)
    stage.loop.start_timer(1.0, cell, "a")
    stage.loop.start_timer(2.0, cell, "b")
    await clock.advance(3.0)
    assert said == [(time, "ab"[int(time) - 1] * n) for time in (1.0, 2.0) for n in range(1, 6)]


@pytest.mark.config(limits=ONE_AT_A_TIME)
async def test_several_loops_on_one_clock_let_each_other_finish_before_time_goes_on(
    stage: Stage, clock: ManualClock
) -> None:
    said: list[tuple[float, int]] = []
    other = Loop(limits=ONE_AT_A_TIME, clock=clock)
    poller = Poller(other)
    poller.attach()

    def down(_: object, n: int) -> None:
        said.append((clock.now(), n))
        if n % 10 == 5:
            elsewhere.tell(n - 1)
        elif n % 10 != 0:
            here.tell(n - 1)

    def up(_: object, n: int) -> None:
        said.append((clock.now(), n))
        if n % 10 == 9 or n % 10 in (4, 3, 2):
            elsewhere.tell(n - 1)
        elif n % 10 != 0:
            here.tell(n - 1)

    here, elsewhere = stage.spawn(down), other.spawn(up)
    other.start_timer(1.0, elsewhere, 19)
    stage.loop.start_timer(2.0, here, 27)
    other.start_timer(3.0, elsewhere, 39)
    await clock.advance(10.0)
    poller.detach()
    assert [n for _, n in said] == [*range(19, 9, -1), *range(27, 19, -1), *range(39, 29, -1)]
    assert all(moment == n // 10 for moment, n in said), said
    other.close()


async def test_a_manual_clock_stands_still_by_itself(stage: Stage, clock: ManualClock) -> None:
    said: list[object] = []
    cell = stage.spawn(lambda _, message: said.append(message))
    stage.loop.start_timer(0.001, cell, "tick")
    await asyncio.sleep(0.01)
    await stage.settled()
    assert said == []
    stage.poller.detach()
    await clock.advance(1.0)  # a detached loop is left behind
    assert said == []
    stage.poller.attach()
    await stage.poller.idle()
    assert said == ["tick"]


@pytest.mark.parametrize("seconds", [-1.0, math.inf, math.nan])
def test_the_clock_refuses_to_go_back_or_nowhere(run: Run, seconds: float) -> None:
    clock = ManualClock(1.0)

    async def main(stage: Stage) -> None:
        with pytest.raises(InvalidDelay):
            await clock.advance(seconds)
        assert clock.now() == 1.0

    run(main, clock=clock)
