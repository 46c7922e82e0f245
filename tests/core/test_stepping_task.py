"""The task of an async handler, as others see it: cancelled, awaited, kept, left behind."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Awaitable
from typing import TYPE_CHECKING, Any

import pytest

from greenroom._core.scheduler.accounting import count_loop
from greenroom._core.scheduler.loop import Loop
from greenroom._core.scheduler.poller import Poller
from tests.core.hosts import Returned
from tests.core.props import LONG, me, never, var

if TYPE_CHECKING:
    from tests.core.conftest import Run, Stage, Threads

# Cancellation


async def test_a_handler_cancelled_from_outside_sees_the_message(stage: Stage) -> None:
    async def act() -> Any:
        try:
            await never()
        except asyncio.CancelledError as exc:
            return exc.args

    cell, outcome = stage.perform(act)
    await stage.settled()
    assert cell.task.cancel("bye") is True
    assert await outcome == ("bye",)


async def test_a_handler_that_lets_its_cancellation_out_fails(stage: Stage) -> None:
    async def stubborn(_: object, message: object) -> None:
        await never()

    cell = stage.spawn(stubborn)
    cell.tell("m")
    cell.tell("never handled")
    await stage.settled()
    task = cell.task
    task.cancel("killed")
    await stage.settled()
    assert [(f.message, type(f.cause), f.cause.args) for f in stage.script.failures] == [
        ("m", asyncio.CancelledError, ("killed",))
    ]
    assert (task.done(), task.cancelled(), task.cancel()) == (True, True, False)
    counts = stage.counts()
    assert (counts.failed, counts.dead_lettered, counts.in_hand) == (1, 1, 0)


@pytest.mark.parametrize("suspends", [False, True], ids=["before a suspension", "after a suspension"])
@pytest.mark.parametrize(
    "cause",
    [ValueError("x"), asyncio.CancelledError(), GeneratorExit(), StopAsyncIteration()],
    ids=lambda e: type(e).__name__,
)
async def test_what_a_handler_raises_is_the_failure_of_that_cell_alone(
    stage: Stage, suspends: bool, cause: BaseException
) -> None:
    async def faulty(_: object, message: object) -> None:
        if suspends:
            await asyncio.sleep(0)
        raise cause

    async def fine(done: list[object], message: object) -> None:
        await asyncio.sleep(0)
        done.append(message)

    done: list[object] = []
    bad, good = stage.spawn(faulty), stage.spawn(fine, done)
    for cell in (bad, good, bad, good):
        cell.tell("m")
    await stage.settled()
    assert [(f.cell, f.cause) for f in stage.script.failures] == [(bad, cause)]
    assert done == ["m", "m"]
    counts = stage.counts()
    assert (counts.handled, counts.failed, counts.dead_lettered) == (2, 1, 1)


@pytest.mark.parametrize("suspends", [False, True], ids=["before a suspension", "after a suspension"])
@pytest.mark.parametrize("cause", [SystemExit(3), KeyboardInterrupt()], ids=lambda e: type(e).__name__)
def test_a_request_to_exit_leaves_asyncio(run: Run, suspends: bool, cause: BaseException) -> None:
    async def quitter(_: object, message: object) -> None:
        if suspends:
            await asyncio.sleep(0)
        raise cause

    loop = Loop()

    async def main() -> None:
        poller = Poller(loop)
        poller.attach()
        loop.spawn(quitter).tell("m")
        try:
            await never()
        finally:
            poller.detach()

    with pytest.raises(type(cause)) as caught:
        run.bare(main)
    assert caught.value is cause
    counts = count_loop(loop)
    assert (counts.failed, counts.balanced) == (1, True)


async def test_a_handler_that_cancels_itself_and_returns_does_not_cancel_the_next(stage: Stage) -> None:
    kept: list[asyncio.Task[Any]] = []

    async def handle(_: object, message: str) -> Returned:
        if message == "cancel":
            me().cancel()
            kept.append(me())
            return Returned(message)
        await asyncio.sleep(0)
        return Returned(f"{message} {me().cancelling()} {me() is kept[0]}")

    cells = [stage.spawn(handle), stage.spawn(handle)]
    cells[0].tell("cancel")
    cells[0].tell("a")
    cells[1].tell("b")
    await stage.settled()
    assert set(stage.script.results) >= {"a 0 False", "b 0 False"}
    assert kept[0].done()
    counts = stage.counts()
    assert (counts.handled + counts.failed, counts.in_hand) == (3, 0)


async def test_a_task_cancelled_right_before_its_end_looks_as_asyncios_does(stage: Stage) -> None:
    async def cancel_and_return() -> str:
        me().cancel()
        return "returned"

    kept: list[asyncio.Task[Any]] = []

    async def act() -> object:
        kept.append(me())
        return await cancel_and_return()

    real = asyncio.create_task(cancel_and_return())
    await asyncio.wait([real])
    stage.perform(act)
    await stage.settled()
    assert (kept[0].done(), kept[0].cancelled()) == (real.done(), real.cancelled()) == (True, True)


async def test_what_a_sync_handler_does_to_the_current_task_hits_nobody_elses_handler(stage: Stage) -> None:
    async def prompt(_: object, message: object) -> None: ...

    def meddler(_: object, message: object) -> None:
        task = asyncio.current_task()
        if task is not None:
            task.cancel()

    async def innocent(_: object, message: object) -> Returned:
        await asyncio.sleep(0)
        return Returned("undisturbed")

    for handler in (prompt, meddler, innocent):
        stage.spawn(handler).tell("m")
    await stage.settled()
    assert stage.script.failures == []
    assert stage.script.results == ["undisturbed"]


# The task, seen from elsewhere


async def test_a_real_task_can_await_a_handlers_task(stage: Stage) -> None:
    gate = never()

    async def act() -> object:
        return await gate

    cell, outcome = stage.perform(act)
    await stage.settled()
    task = cell.task
    waiters = [
        asyncio.ensure_future(asyncio.wait_for(task, LONG)),
        asyncio.gather(task),
        asyncio.shield(task),
        asyncio.create_task(_await(task)),
    ]
    await stage.settled()
    with pytest.raises(asyncio.InvalidStateError):
        task.result()
    with pytest.raises(asyncio.InvalidStateError):
        task.exception()
    gate.set_result("open")
    assert await asyncio.gather(*waiters) == ["open", ["open"], "open", "open"]
    assert (task.result(), task.exception(), task.cancelled(), await outcome) == ("open", None, False, "open")


async def test_who_awaits_a_failing_handlers_task_gets_its_exception(stage: Stage) -> None:
    gate = never()

    async def faulty(_: object, message: object) -> None:
        await gate

    cell = stage.spawn(faulty)
    cell.tell("m")
    await stage.settled()
    waiter = asyncio.create_task(_await(cell.task))
    await stage.settled()
    gate.set_exception(ValueError("x"))
    with pytest.raises(ValueError, match="x"):
        await waiter
    assert [repr(f.cause) for f in stage.script.failures] == ["ValueError('x')"]


async def test_one_handler_can_await_anothers_task(stage: Stage) -> None:
    gate = never()

    async def wait_at_the_gate() -> object:
        return await gate

    first, outcome = stage.perform(wait_at_the_gate)
    await stage.settled()
    _, second = stage.perform(lambda: _await(first.task))
    await stage.settled()
    assert not second.done()
    gate.set_result("open")
    assert (await outcome, await second) == ("open", "open")


async def _await(task: Awaitable[object]) -> object:
    return await task


def test_a_future_that_wakes_a_handler_on_one_thread_hinders_none_on_another(run: Run, threads: Threads) -> None:
    waking, go_on = threading.Event(), threading.Event()

    class Slow(asyncio.Future[str]):
        def result(self) -> str:
            waking.set()
            assert go_on.wait(120)
            return super().result()

    async def wait_for(future: asyncio.Future[str]) -> None:
        aio = asyncio.get_running_loop()
        aio.set_exception_handler(lambda _, context: run.raised.append(context))
        loop = Loop()
        poller = Poller(loop)
        poller.attach()
        woken = asyncio.Event()

        async def actor(_: object, message: object) -> None:
            assert await future == "open"
            woken.set()

        loop.spawn(actor).tell("m")
        await poller.idle()
        future.set_result("open")
        async with asyncio.timeout(120.0):
            await woken.wait()
        poller.detach()
        assert count_loop(loop).handled == 1

    async def slowly() -> None:
        await wait_for(Slow())

    async def quickly() -> None:
        await wait_for(never())

    threads.start(lambda: run.bare(slowly))
    assert waking.wait(120)
    try:
        run.bare(quickly)
    finally:
        go_on.set()
    threads.join()


@pytest.mark.parametrize("suspends", [False, True], ids=["ends at once", "suspends"])
async def test_done_callbacks_are_called_once_in_their_context_and_can_be_taken_back(
    stage: Stage, suspends: bool
) -> None:
    called: list[tuple[str, bool]] = []
    kept: list[asyncio.Task[Any]] = []

    def note(task: asyncio.Task[Any]) -> None:
        called.append((var.get(), task.done()))

    def unwanted(task: asyncio.Task[Any]) -> None:
        called.append(("unwanted", True))

    async def act() -> object:
        task = me()
        kept.append(task)
        elsewhere = contextvars.Context()
        elsewhere.run(var.set, "elsewhere")
        var.set("here")
        task.add_done_callback(note)
        task.add_done_callback(note, context=elsewhere)
        task.add_done_callback(unwanted)
        task.add_done_callback(unwanted)
        assert task.remove_done_callback(unwanted) == 2
        if suspends:
            await asyncio.sleep(0)
        return "done"

    assert await stage.outcome(act) == "done"
    await stage.settled()
    assert called == [("here", True), ("elsewhere", True)]
    kept[0].add_done_callback(note)  # too late to wait: called all the same
    await stage.settled()
    assert called[2:] == [("unset", True)]


async def test_a_task_that_a_handler_kept_is_never_used_again(stage: Stage) -> None:
    kept: list[asyncio.Task[Any]] = []

    async def keep(_: object, message: int) -> int:
        kept.append(me())
        return message

    cells = [stage.spawn(keep) for _ in range(3)]
    for message in range(12):
        cells[message % 3].tell(message)
    await stage.settled()
    assert len({id(task) for task in kept}) == 12
    assert all(task.done() for task in kept)
    assert sorted(task.result() for task in kept) == list(range(12))


async def test_the_task_is_named_after_its_actor_from_the_first_step_on(stage: Stage) -> None:
    async def act() -> object:
        first = me().get_name()
        await asyncio.sleep(0)
        return first, me().get_name()

    cell, outcome = stage.perform(act)
    cell.ref = "/user/juliet"
    names = await outcome
    assert isinstance(names, tuple)
    assert all("/user/juliet" in name for name in names), names


async def test_the_task_tells_its_loop_coroutine_context_and_stack(stage: Stage) -> None:
    gate = never()

    async def act() -> object:
        assert me().get_coro() is not None
        var.set("mine")
        return await gate

    cell, outcome = stage.perform(act)
    await stage.settled()
    task = cell.task
    assert task.get_loop() is asyncio.get_running_loop()
    assert task.get_context()[var] == "mine"
    assert task.get_coro().__name__ == task.get_stack()[0].f_code.co_name == "_perform"
    gate.set_result(1)
    await outcome
    assert task.get_stack() == []
