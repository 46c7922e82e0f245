"""A loop with nothing to do sleeps, wakes for whatever comes, knows when it is idle, and passes every deadline."""

from __future__ import annotations

import asyncio
import gc
import math
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from greenroom._core.mailbox.cell import Cell
from greenroom._core.scheduler.loop import Loop
from greenroom._core.scheduler.poller import Poller
from greenroom.clock import ManualClock
from greenroom.errors import InvalidDelay, MailboxFull
from greenroom.lanes import Lane, MailboxConfig, Overflow
from tests.core.kit import ONE_AT_A_TIME, bare_yield

if TYPE_CHECKING:
    from tests.core.conftest import Run, Stage, Threads


def when_asleep(loop: Loop, then: Callable[[], object]) -> Callable[[], None]:
    """What a foreign thread does: wait until the loop has gone to sleep, and then act."""

    def act() -> None:
        while not loop.inbound.sleeping:
            time.sleep(0)
        then()

    return act


def count_rousings(aio: asyncio.AbstractEventLoop) -> list[int]:
    """Count every `call_soon_threadsafe` of `aio` from now on."""
    calls = [0]
    real = aio.call_soon_threadsafe

    def counted(*args: Any, **kwargs: Any) -> asyncio.Handle:
        calls[0] += 1
        return real(*args, **kwargs)

    aio.call_soon_threadsafe = counted  # type: ignore[method-assign,assignment]
    return calls


def tell_all(cell: Cell, count: int) -> None:
    for n in range(count):
        cell.tell(n)


# Waking
@pytest.mark.parametrize(
    "bring",
    [
        lambda cell, wake: cell.tell("m"),
        lambda cell, wake: cell.tell("m", lane=Lane.CONTROL),
        lambda cell, wake: cell.notify("notice"),
        lambda cell, wake: cell.order(lambda cell: wake()),
    ],
    ids=["message", "control message", "notice", "order"],
)
async def test_a_sleeping_loop_is_woken_by_a_foreign_thread(stage: Stage, threads: Threads, bring: Any) -> None:  # J15
    for _ in range(20):
        woken = asyncio.Event()
        cell = stage.spawn(lambda _, message, woken=woken: woken.set())
        await stage.poller.idle()
        threads.start(when_asleep(stage.loop, partial(bring, cell, woken.set)))
        await woken.wait()


async def test_a_sleep_is_ended_by_one_write_however_many_messages_come(stage: Stage, threads: Threads) -> None:  # J15
    said: list[int] = []
    cell = stage.spawn(lambda _, message: said.append(message))
    await stage.poller.idle()
    rousings = count_rousings(asyncio.get_running_loop())
    for sleep in range(1, 4):
        for _ in range(4):
            threads.start(partial(tell_all, cell, 250))
        threads.join()  # holds the thread: the loop sleeps until all have sent
        assert rousings == [sleep]
        assert len(said) == (sleep - 1) * 1000
        await stage.poller.idle()
        assert len(said) == sleep * 1000
    assert rousings == [3]


async def test_a_loop_that_is_awake_is_not_written_to(stage: Stage, threads: Threads) -> None:
    said: list[int] = []
    target = stage.spawn(lambda _, message: said.append(message))

    def busy(_: object, message: object) -> None:
        threads.start(partial(tell_all, target, 100))
        threads.join()

    await stage.poller.idle()
    rousings = count_rousings(asyncio.get_running_loop())
    stage.spawn(busy).tell("m")
    await stage.poller.idle()
    assert said == list(range(100))
    assert rousings == [0]


def test_two_loops_on_two_threads_keep_waking_each_other(run: Run, threads: Threads) -> None:
    rounds = 200
    cells: dict[str, Cell] = {}
    ready = threading.Barrier(2)

    def player(name: str, other: str) -> None:
        async def main() -> None:
            asyncio.get_running_loop().set_exception_handler(lambda _, context: run.raised.append(context))
            loop = Loop()
            poller, done = Poller(loop), asyncio.Event()

            def hit(_: object, ball: int) -> None:
                if ball >= rounds:
                    done.set()
                if ball <= rounds:
                    cells[other].tell(ball + 1)

            cells[name] = loop.spawn(hit)
            poller.attach()
            ready.wait(120)
            if name == "a":
                cells["a"].tell(0)
            async with asyncio.timeout(120.0):
                await done.wait()
            await poller.idle()
            poller.detach()

        run.bare(main)

    threads.start(lambda: player("a", "b"))
    threads.start(lambda: player("b", "a"))
    threads.join()
    assert run.raised == []


async def test_a_message_from_its_own_thread_wakes_a_sleeping_loop(stage: Stage) -> None:
    for _ in range(3):
        await stage.poller.idle()
        woken = asyncio.Event()
        cell = stage.spawn(lambda _, message, woken=woken: woken.set())
        asyncio.get_running_loop().call_soon(cell.tell, "from a callback")
        await woken.wait()


async def test_timers_wake_a_sleeping_loop_even_those_started_in_its_sleep(stage: Stage) -> None:  # J11
    ticks: asyncio.Queue[str] = asyncio.Queue()
    cell = stage.spawn(lambda _, message: ticks.put_nowait(message))
    far = stage.loop.start_timer(3600.0, cell, "far")
    await stage.poller.idle()
    due = {"near": stage.loop.now() + 0.1}
    stage.loop.start_timer(0.1, cell, "near")
    await stage.poller.idle()
    due["nearer"] = stage.loop.now() + 0.001  # or not, if the machine was busy elsewhere meanwhile
    stage.loop.start_timer(0.001, cell, "nearer")
    assert [await ticks.get(), await ticks.get()] == sorted(due, key=due.__getitem__)
    assert far.cancel() is True
    stage.loop.start_timer(0.0, cell, "now")
    await stage.poller.idle()
    assert ticks.get_nowait() == "now"
    periodic = stage.loop.start_timer(0.001, cell, "again", interval=0.001)
    assert [await ticks.get() for _ in range(3)] == ["again"] * 3
    periodic.cancel()


@pytest.mark.parametrize("delay", [1e6, 1e9, 1e12])
async def test_a_deadline_beyond_what_the_system_can_wait_for_is_waited_for(stage: Stage, delay: float) -> None:
    woken = asyncio.Event()
    cell = stage.spawn(lambda _, message: woken.set())
    stage.loop.start_timer(delay, cell, "far")
    await stage.poller.idle()
    await asyncio.to_thread(int)  # the loop waits for that, and for the deadline
    assert not woken.is_set()
    cell.tell("now")
    await woken.wait()


async def test_an_idle_loop_uses_less_than_one_percent_of_the_processor(stage: Stage) -> None:
    cells = [stage.spawn(lambda _, message: None) for _ in range(100)]
    stage.loop.start_timer(3600.0, cells[0], "far")
    for cell in cells:
        for _ in range(200):
            cell.tell("a burst, so that there are rings to trim")
    await stage.poller.idle()
    before = time.thread_time()
    await asyncio.sleep(1.5)
    assert time.thread_time() - before < 0.015


# Knowing when
@pytest.mark.config(limits=ONE_AT_A_TIME)
async def test_idle_returns_when_nothing_is_left(stage: Stage) -> None:
    counted: list[int] = []

    def down(_: object, n: int) -> None:
        counted.append(n)
        if n > 0:
            cells[n % 2].tell(n - 1)

    async def slowly(_: object, n: int) -> None:
        for _step in range(n):
            await bare_yield()
        counted.append(-1)

    cells = [stage.spawn(down), stage.spawn(down)]
    cells[0].tell(100)
    stage.spawn(slowly).tell(300)
    await asyncio.gather(*(stage.poller.idle() for _ in range(3)))
    assert counted[-1] == -1
    assert counted[:-1] == list(range(100, -1, -1))


async def test_idle_sees_what_a_thread_has_just_brought(stage: Stage, threads: Threads) -> None:
    said: list[int] = []
    cell = stage.spawn(lambda _, message: said.append(message))
    for n in range(50):
        await stage.poller.idle()
        threads.start(partial(cell.tell, n))
        threads.join()
        await stage.poller.idle()
        assert said[-1] == n


@pytest.mark.parametrize("overflow", list(Overflow))
async def test_idle_returns_after_a_thread_was_refused(stage: Stage, threads: Threads, overflow: Overflow) -> None:
    gate: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def actor(_: object, message: object) -> None:
        await gate

    cell = stage.spawn(actor, mailbox=MailboxConfig(capacity=1, overflow=overflow))
    cell.tell("in hand")
    await stage.poller.idle()
    cell.tell("queued")
    await stage.poller.idle()

    def refused() -> None:
        if overflow is Overflow.REJECT:
            with pytest.raises(MailboxFull):
                cell.tell("too many")
        else:
            cell.tell("too many")

    threads.start(refused)
    threads.join()
    async with asyncio.timeout(120.0):
        await stage.poller.idle()
    gate.set_result(None)
    await stage.settled()
    counts = stage.counts()
    assert (counts.handled, counts.rejected + counts.dropped) == (2, 1)


async def test_a_loop_whose_handlers_all_wait_is_idle(stage: Stage) -> None:
    gate: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    said: list[object] = []

    async def actor(_: object, message: object) -> None:
        await gate
        said.append(message)

    cell = stage.spawn(actor)
    cell.tell("one")
    cell.tell("two")
    await stage.poller.idle()
    assert said == []
    gate.set_result(None)
    await asyncio.sleep(0)  # asyncio calls the future's callbacks
    await stage.poller.idle()
    assert said == ["one", "two"]


async def test_a_cancelled_wait_for_idleness_leaves_nothing_behind(stage: Stage) -> None:
    cell: Cell = stage.spawn(lambda _, message: cell.tell(message))
    cell.tell("again")
    waits = [asyncio.create_task(stage.poller.idle()) for _ in range(3)]
    await asyncio.sleep(0)
    waits[1].cancel()
    await asyncio.sleep(0)
    assert [wait.done() for wait in waits] == [False, True, False]
    stage.loop.retire(cell)
    await asyncio.gather(waits[0], waits[2])


async def test_waits_for_suspended_handlers_that_are_given_up_leave_no_futures_behind(stage: Stage) -> None:
    def futures() -> int:
        gc.collect()
        return sum(isinstance(one, asyncio.Future) for one in gc.get_objects())

    gate: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def actor(_: object, message: object) -> None:
        await gate

    stage.spawn(actor).tell("in hand")
    await stage.poller.idle()
    before = futures()
    for _ in range(50):
        wait = asyncio.create_task(stage.poller.settled())
        await asyncio.sleep(0)
        assert not wait.done()
        wait.cancel()
        with suppress(asyncio.CancelledError):
            await wait
    assert futures() < before + 10
    gate.set_result(None)


async def test_detaching_ends_every_wait_for_idleness(stage: Stage) -> None:
    cell: Cell = stage.spawn(lambda _, message: cell.tell(message))
    cell.tell("again")
    wait = asyncio.create_task(stage.poller.idle())
    await asyncio.sleep(0)
    assert not wait.done()
    stage.poller.detach()
    await wait


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
