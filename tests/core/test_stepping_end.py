"""Handlers that are suspended when their cell, their poller or their loop ends."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from greenroom._core.scheduler.accounting import count_loop
from greenroom._core.scheduler.loop import Loop
from greenroom._core.scheduler.poller import Poller
from tests.core.hosts import Returned
from tests.core.props import bare_yield, never

if TYPE_CHECKING:
    from tests.core.conftest import Run, Stage


@pytest.mark.parametrize("way", ["lets it out", "swallows it", "waits once more"])
async def test_retiring_a_suspended_cell_cancels_its_handler_and_keeps_the_ledger(stage: Stage, way: str) -> None:
    said: list[str] = []

    async def actor(_: object, message: object) -> str:
        try:
            await never()
        except asyncio.CancelledError:
            said.append("cancelled")
            if way == "lets it out":
                raise
            if way == "waits once more":
                await asyncio.sleep(0)
        return "done"

    cell = stage.spawn(actor)
    cell.tell("in hand")
    cell.tell("queued")
    await stage.settled()
    stage.loop.retire(cell)
    counts = stage.counts()
    assert (counts.in_hand, counts.dead_lettered, counts.balanced) == (1, 1, True)
    cell.tell("too late")
    await stage.settled()
    assert said == ["cancelled"]
    counts = stage.counts()
    assert (counts.sent, counts.dead_lettered, counts.in_hand) == (3, 2, 0)
    assert (counts.failed, counts.handled) == ((1, 0) if way == "lets it out" else (0, 1))
    assert stage.script.failures == []  # a cell that has ended cannot fail any more


@pytest.mark.parametrize("suspended_before", [False, True])
async def test_a_handler_may_retire_its_own_cell_and_suspend(stage: Stage, suspended_before: bool) -> None:
    said: list[str] = []

    async def actor(_: object, message: str) -> None:
        if suspended_before:
            await asyncio.sleep(0)
        stage.loop.retire(cell)
        try:
            await asyncio.sleep(0)
        finally:
            said.append(message)

    cell = stage.spawn(actor)
    cell.tell("first")
    cell.tell("second")
    await stage.settled()
    counts = stage.counts()
    assert said == ["first"]
    assert (counts.handled + counts.failed, counts.dead_lettered, counts.in_hand) == (1, 1, 0)
    assert counts.balanced


@pytest.mark.parametrize("ending", ["detach", "detach and close", "close"])
async def test_a_loop_that_ends_with_a_handler_suspended_leaves_no_complaint(stage: Stage, ending: str) -> None:
    said: list[str] = []

    async def actor(_: object, message: object) -> None:
        try:
            await never()
        finally:
            said.append("cleaned up")

    cell = stage.spawn(actor)
    cell.tell("in hand")
    cell.tell("queued")
    await stage.settled()
    if ending.startswith("detach"):
        stage.poller.detach()
    if ending.endswith("close"):
        stage.loop.close()
    assert stage.counts().balanced
    assert stage.counts().in_hand == (0 if ending == "detach and close" else 1)
    await stage.settled()
    assert said == ([] if ending == "detach" else ["cleaned up"])


async def test_a_handler_suspended_when_its_poller_is_detached_goes_on_when_one_is_attached_again(stage: Stage) -> None:
    gate = never()

    async def act() -> object:
        return await gate

    _, outcome = stage.perform(act)
    await stage.settled()
    stage.poller.detach()
    gate.set_result("open")
    await asyncio.sleep(0)
    assert not outcome.done()
    stage.poller.attach()
    assert await outcome == "open"


def test_a_handler_that_detaches_its_poller_leaves_asyncio_as_it_was(run: Run) -> None:
    # With callbacks only: should this fail, no task could ever run on this event loop again.
    aio = run.loop_factory()
    aio.set_exception_handler(lambda _, context: run.raised.append(context))
    loop = Loop()
    poller = Poller(loop)

    async def actor(_: object, message: object) -> None:
        poller.detach()
        aio.call_soon(aio.stop)

    def begin() -> None:
        poller.attach(aio)
        loop.spawn(actor).tell("m")

    try:
        aio.call_soon(begin)
        aio.call_later(5.0, aio.stop)
        aio.run_forever()
        assert run.raised == []
        assert asyncio.current_task(aio) is None
        assert count_loop(loop).handled == 1
    finally:
        aio.close()


@pytest.mark.parametrize("ending", ["run_until_idle", "close"])
async def test_who_awaits_a_handler_that_ends_after_its_poller_was_detached_is_told(stage: Stage, ending: str) -> None:
    gate = never()

    async def actor(_: object, message: object) -> Returned:
        await gate
        return Returned("passed")

    cell = stage.spawn(actor)
    cell.tell("m")
    await stage.settled()
    waiter = asyncio.gather(cell.task, return_exceptions=True)
    stage.poller.detach()
    if ending == "close":
        stage.loop.close()
    else:
        gate.set_result(None)
        await asyncio.sleep(0)
        stage.loop.run_until_idle()
        assert stage.script.results == ["passed"]
    await asyncio.wait([waiter], timeout=120.0)
    assert waiter.done(), "whoever awaits the handler hangs"
    [told] = await waiter
    assert isinstance(told, asyncio.CancelledError) if ending == "close" else told == "passed"


@pytest.mark.parametrize("ending", ["retire", "close"])
def test_a_handler_that_ends_its_own_cell_on_a_bare_loop_is_counted_once(ending: str) -> None:
    loop, said = Loop(), list[object]()

    async def actor(_: object, message: object) -> None:
        await bare_yield()
        if ending == "retire":
            loop.retire(cell)
        else:
            loop.close()
        said.append(message)

    cell = loop.spawn(actor)
    cell.tell("first")
    cell.tell("second")
    loop.run_until_idle()
    counts = count_loop(loop)
    assert said == ["first"]
    assert (counts.handled, counts.failed, counts.dead_lettered, counts.in_hand) == (1, 0, 1, 0)
    assert counts.balanced
