"""Async handlers are stepped inside the tick: in order, each actor in its own context, each with a task of its own."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from contextlib import aclosing, suppress
from typing import TYPE_CHECKING, Any

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest

from greenroom._core.receipt import Receipt
from greenroom._core.scheduler.accounting import count_cell, count_loop
from greenroom._core.scheduler.host import Host
from greenroom._core.scheduler.loop import Loop
from greenroom._core.scheduler.poller import Poller
from greenroom.errors import WaitsForItself
from tests.core.kit import LONG, Returned, bare_yield, me, never, var

if TYPE_CHECKING:
    from tests.core.conftest import Run, Stage, Threads


# A context for each actor
async def test_context_variables_are_kept_per_actor_over_messages_and_suspensions(stage: Stage) -> None:
    seen: dict[str, list[str]] = {"a": [], "b": []}

    async def actor(name: str, message: str) -> None:
        seen[name].append(var.get())
        var.set(f"{name}{message}")
        await asyncio.sleep(0)
        seen[name].append(var.get())

    cells = [stage.spawn(actor, "a"), stage.spawn(actor, "b")]
    for message in "12":
        for cell in cells:
            cell.tell(message)
    await stage.settled()
    assert seen == {"a": ["unset", "a1", "a1", "a2"], "b": ["unset", "b1", "b1", "b2"]}
    assert var.get() == "unset"


async def test_what_a_sync_handler_sets_is_not_seen_by_another_actor(stage: Stage) -> None:
    def setter(_: object, message: object) -> None:
        var.set("leaked")

    async def reader(_: object, message: object) -> Returned:
        return Returned(var.get())

    stage.spawn(setter).tell("m")
    await stage.settled()
    stage.spawn(reader).tell("m")
    await stage.settled()
    assert stage.script.results == ["unset"]


# Order
async def test_a_suspended_actor_handles_nothing_else_while_others_go_on(stage: Stage) -> None:
    gates = [never() for _ in range(2)]
    said: list[str] = []

    def actor(name: str, message: str) -> Any:
        if message.startswith("gate"):
            return passing(name, int(message[-1]))
        said.append(f"{name} {message}")
        return None

    async def passing(name: str, gate: int) -> None:
        said.append(f"{name} waits at {gate}")
        await gates[gate]
        said.append(f"{name} passes {gate}")

    a, b = stage.spawn(actor, "a"), stage.spawn(actor, "b")
    for message in ("one", "gate 0", "two", "gate 1", "three"):
        a.tell(message)
    b.tell("one")
    await stage.settled()
    b.tell("two")
    a.order(lambda cell: said.append("order"))
    await stage.settled()
    assert [one for one in said if one[0] == "a"] == ["a one", "a waits at 0"]
    assert [one for one in said if one[0] == "b"] == ["b one", "b two"]
    counts = stage.counts()
    assert (counts.sent, counts.handled, counts.queued, counts.in_hand) == (7, 3, 3, 1)
    assert (count_cell(a).in_hand, count_cell(b).in_hand) == (1, 0)
    assert counts.balanced
    gates[0].set_result(None)
    await stage.settled()
    assert said[4:] == ["a passes 0", "order", "a two", "a waits at 1"]
    gates[1].set_result(None)
    await stage.settled()
    assert said[8:] == ["a passes 1", "a three"]
    counts = stage.counts()
    assert (counts.handled, counts.queued, counts.in_hand) == (7, 0, 0)


async def test_notices_and_orders_may_suspend_too_and_are_in_no_column(stage: Stage) -> None:
    gate = never()
    said: list[object] = []

    async def actor(_: object, message: object) -> None:
        await gate
        said.append(message)

    async def ordered() -> None:
        await gate
        said.append("order")

    cell = stage.spawn(actor)
    cell.notify("notice")
    cell.tell("message")
    cell.order(lambda cell: ordered())
    await stage.settled()
    counts = stage.counts()
    assert (said, counts.sent, counts.in_hand, counts.queued) == ([], 1, 0, 1)
    gate.set_result(None)
    await stage.settled()
    assert said == ["order", "notice", "message"]
    assert stage.counts().handled == 1


async def test_a_bare_yield_goes_to_the_back_of_the_run_queue(stage: Stage) -> None:
    said: list[str] = []

    async def actor(name: str, message: object) -> None:
        for step in range(3):
            said.append(f"{name}{step}")
            await bare_yield()

    for name in "abc":
        stage.spawn(actor, name).tell("go")
    await stage.settled()
    assert said == ["a0", "b0", "c0", "a1", "b1", "c1", "a2", "b2", "c2"]


async def test_a_handler_that_yields_for_ever_starves_neither_others_nor_asyncio(stage: Stage) -> None:
    stop = False

    async def restless() -> object:
        while not stop:
            await bare_yield()
        return "stopped"

    _, outcome = stage.perform(restless)
    _, other = stage.perform(lambda: asyncio.sleep(0.001, "slept"))
    assert await other == "slept"
    stop = True
    assert await outcome == "stopped"


async def test_a_receipt_learns_what_its_suspended_message_came_to(stage: Stage) -> None:
    class Letter(Receipt):
        def __init__(self) -> None:
            super().__init__()
            self.fate: list[object] = []

        def settle(self, result: object) -> None:
            self.fate.append(("settled", result))

        def fail(self, cause: BaseException) -> None:
            self.fate.append(("failed", repr(cause)))

        def discard(self, why: str) -> None:
            self.fate.append(("discarded", why))

    async def actor(_: object, message: str) -> str:
        await asyncio.sleep(0)
        if message == "bad":
            raise ValueError(message)
        return message

    cell, letters = stage.spawn(actor), [Letter(), Letter(), Letter()]
    for message, letter in zip(("good", "bad", "late"), letters, strict=True):
        cell.post(message, letter)
    await stage.settled()
    assert [letter.fate for letter in letters] == [
        [("settled", "good")],
        [("failed", "ValueError('bad')")],
        [("discarded", "stopped")],
    ]


# Ticks that somebody else runs
async def test_a_tick_run_by_a_task_gives_that_task_back_its_place(stage: Stage) -> None:
    seen: list[object] = []

    async def actor(_: object, message: object) -> None:
        seen.append(me())
        await asyncio.sleep(0)
        seen.append(me())

    outer = me()
    stage.spawn(actor).tell("m")
    for _ in range(3):
        stage.loop.tick()
        assert me() is outer
    async with asyncio.timeout(LONG):
        await asyncio.sleep(0)
    assert len(seen) == 2
    assert seen[0] is seen[1] is not outer


async def test_a_handler_cannot_begin_a_tick(stage: Stage) -> None:
    async def act() -> object:
        with pytest.raises(WaitsForItself):
            stage.loop.tick()
        return "refused"

    assert await stage.outcome(act) == "refused"


# Without asyncio
async def _echo(said: list[object], message: object) -> None:
    said.append(message)


async def _yielding(said: list[object], message: object) -> None:
    await bare_yield()
    said.append(message)


@pytest.mark.parametrize("handler", [_echo, _yielding])
def test_an_async_handler_that_awaits_no_future_needs_no_asyncio(handler: Any) -> None:
    loop, said = Loop(), list[object]()
    for _ in range(2):
        loop.spawn(handler, said).tell("m")
    loop.run_until_idle()
    assert said == ["m", "m"]
    assert count_loop(loop).handled == 2


def test_a_handler_that_awaits_a_future_on_a_bare_loop_is_told_what_to_do() -> None:
    class Keeper(Host):
        def failed(self, cell: Any, message: object, cause: BaseException) -> None:
            failures.append(cause)

    failures: list[BaseException] = []
    aio = asyncio.new_event_loop()
    try:
        future = aio.create_future()

        async def actor(_: object, message: object) -> None:
            if message == "wait":
                await future

        loop = Loop(host=Keeper())
        cell = loop.spawn(actor)
        cell.tell("wait")
        cell.tell("go on")
        loop.run_until_idle()
    finally:
        aio.close()
    assert [type(cause) for cause in failures] == [RuntimeError]
    assert "attach a poller" in str(failures[0])
    counts = count_loop(loop)
    assert (counts.failed, counts.handled, counts.in_hand) == (1, 1, 0)


async def test_a_thing_that_cannot_even_be_shown_fails_its_handler_and_no_more(stage: Stage) -> None:
    class Unspeakable:
        def __repr__(self) -> str:
            raise ValueError("no repr")

    async def actor(_: object, message: object) -> None:
        await bare_yield(Unspeakable())

    cell = stage.spawn(actor)
    cell.tell("m")
    await stage.settled()
    assert len(stage.script.failures) == 1
    counts = stage.counts()
    assert (counts.failed, counts.in_hand, counts.balanced) == (1, 0, True)


async def asyncio_timeout() -> Any:
    try:
        async with asyncio.timeout(0.001):
            await never()
    except TimeoutError:
        return "timed out", me().cancelling()


async def nested_timeouts() -> Any:
    async with asyncio.timeout(LONG) as outer:
        try:
            async with asyncio.timeout(0):
                await never()
        except TimeoutError:
            return outer.expired(), me().cancelling()


async def wait_for() -> Any:
    try:
        await asyncio.wait_for(never(), 0.001)
    except TimeoutError:
        return "timed out"


async def current_task() -> Any:
    before = me()
    await asyncio.sleep(0)
    between = me()
    await asyncio.sleep(0.001)
    return before is between is me()


async def cancel_oneself() -> Any:
    task = me()
    task.cancel("enough")
    try:
        await asyncio.sleep(LONG)
    except asyncio.CancelledError as exc:
        return exc.args, task.cancelling(), task.uncancel(), task.cancelling()


async def cancel_oneself_at_a_bare_yield() -> Any:
    me().cancel()
    try:
        await bare_yield()
    except asyncio.CancelledError:
        return me().uncancel()


async def survive_a_cancellation_and_go_on() -> Any:
    me().cancel()
    with suppress(asyncio.CancelledError):
        await asyncio.sleep(0)
    await asyncio.sleep(0)
    return await asyncio.sleep(0, "went on"), me().cancelling()


async def cancel_twice() -> Any:
    me().cancel()
    me().cancel()
    try:
        await never()
    except asyncio.CancelledError:
        return me().cancelling(), me().uncancel(), me().uncancel(), me().uncancel()


async def task_group() -> Any:
    async def kid(n: int) -> int:
        await asyncio.sleep(0)
        return n

    async with asyncio.TaskGroup() as group:
        kids = [group.create_task(kid(n)) for n in range(3)]
    return [kid.result() for kid in kids]


async def task_group_aborts() -> Any:
    async def bad() -> None:
        await asyncio.sleep(0)
        raise ValueError("x")

    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(bad())
            await never()
    except ExceptionGroup as exc:
        return repr(exc.exceptions), me().cancelling()


async def task_group_inside_a_timeout() -> Any:
    kids = []
    try:
        async with asyncio.timeout(0.001), asyncio.TaskGroup() as group:
            kids.append(group.create_task(asyncio.sleep(LONG)))
    except TimeoutError:
        return kids[0].cancelled()


async def gather() -> Any:
    return await asyncio.gather(asyncio.sleep(0, 1), asyncio.sleep(0.001, 2))


async def lock_and_queue() -> Any:
    lock, queue = asyncio.Lock(), asyncio.Queue[int](maxsize=1)

    async def producer() -> None:
        async with lock:
            for n in range(5):
                await queue.put(n)

    async with asyncio.TaskGroup() as group:
        group.create_task(producer())
        got = [await queue.get() for _ in range(5)]
    async with lock:
        return got


async def to_thread() -> Any:
    var.set("mine")
    return await asyncio.to_thread(var.get)


async def shield() -> Any:
    inner = asyncio.ensure_future(asyncio.sleep(0.001, "survived"))
    me().cancel()
    try:
        await asyncio.shield(inner)
    except asyncio.CancelledError:
        me().uncancel()
        return inner.cancelled(), await inner


async def future_with_an_exception() -> Any:
    future = never()
    asyncio.get_running_loop().call_soon(future.set_exception, ValueError("late"))
    try:
        await future
    except ValueError as exc:
        return repr(exc)


async def yields_garbage() -> Any:
    try:
        await bare_yield("garbage")
    except RuntimeError as exc:
        return "garbage" in str(exc)


async def yields_a_future_bare() -> Any:
    try:
        await bare_yield(never())
    except RuntimeError as exc:
        return "yield" in str(exc)


async def awaits_itself() -> Any:
    try:
        await me()
    except RuntimeError as exc:
        return type(exc)


async def awaits_a_future_of_another_loop() -> Any:
    other = asyncio.new_event_loop()
    try:
        await other.create_future()
    except RuntimeError as exc:
        return "loop" in str(exc)
    finally:
        other.close()


async def async_generator() -> Any:
    async def count() -> AsyncGenerator[int, None]:
        for n in range(5):
            await asyncio.sleep(0)
            yield n

    return [n async for n in count()]


async def async_generator_left_early() -> Any:
    left = []

    async def count() -> AsyncGenerator[int, None]:
        try:
            while True:
                yield 1
                await asyncio.sleep(0)
        finally:
            await asyncio.sleep(0)
            left.append("cleaned up")

    async with aclosing(count()) as numbers:
        async for _ in numbers:
            break
    return left


async def async_generator_forgotten() -> Any:
    cleaned_up = asyncio.Event()

    async def count() -> AsyncGenerator[int, None]:
        try:
            while True:
                yield 1
        finally:
            await asyncio.sleep(0)
            cleaned_up.set()

    async for _ in count():
        break
    gc.collect()
    return await cleaned_up.wait()


async def anyio_move_on_after() -> Any:
    with anyio.move_on_after(0.001) as scope:
        await anyio.sleep_forever()
    return scope.cancelled_caught


async def anyio_fail_after() -> Any:
    try:
        with anyio.fail_after(0.001):
            await anyio.sleep_forever()
    except TimeoutError:
        return "timed out"


async def anyio_task_group() -> Any:
    event, lock, done = anyio.Event(), anyio.Lock(), []

    async def kid(n: int) -> None:
        async with lock:
            await anyio.lowlevel.checkpoint()
            done.append(n)
        event.set()

    async with anyio.create_task_group() as group:
        for n in range(3):
            group.start_soon(kid, n)
        await event.wait()
    async with lock:
        return done


async def anyio_task_group_cancelled() -> Any:
    async with anyio.create_task_group() as group:
        group.start_soon(anyio.lowlevel.checkpoint)

        async def cancel() -> None:
            group.cancel_scope.cancel()

        group.start_soon(cancel)
        await anyio.sleep_forever()
    return group.cancel_scope.cancelled_caught, me().cancelling()


async def anyio_task_group_aborts() -> Any:
    async def bad() -> None:
        raise ValueError("x")

    try:
        async with anyio.create_task_group() as group:
            group.start_soon(bad)
            await anyio.sleep_forever()
    except ExceptionGroup as exc:
        return repr(exc.exceptions)


async def anyio_scope_cancelled_by_oneself() -> Any:
    with anyio.CancelScope() as scope:
        scope.cancel()
        await anyio.sleep_forever()
    await anyio.lowlevel.checkpoint()
    return scope.cancelled_caught


async def anyio_shielded_scope() -> Any:
    with anyio.move_on_after(0) as outer:
        with anyio.CancelScope(shield=True):
            await anyio.sleep(0.001)
        await anyio.sleep_forever()
    return outer.cancelled_caught


async def anyio_memory_stream() -> Any:
    send, receive = anyio.create_memory_object_stream[int](0)
    async with anyio.create_task_group() as group, send, receive:
        group.start_soon(send.send, 7)
        return await receive.receive()


async def anyio_to_thread() -> Any:
    return await anyio.to_thread.run_sync(lambda: 42)


ACTS: list[tuple[Callable[[], Coroutine[Any, Any, Any]], object]] = [
    (asyncio_timeout, ("timed out", 0)),
    (nested_timeouts, (False, 0)),
    (wait_for, "timed out"),
    (current_task, True),
    (cancel_oneself, (("enough",), 1, 0, 0)),
    (cancel_oneself_at_a_bare_yield, 0),
    (cancel_twice, (2, 1, 0, 0)),
    (survive_a_cancellation_and_go_on, ("went on", 1)),
    (task_group, [0, 1, 2]),
    (task_group_aborts, ("(ValueError('x'),)", 0)),
    (task_group_inside_a_timeout, True),
    (gather, [1, 2]),
    (lock_and_queue, [0, 1, 2, 3, 4]),
    (to_thread, "mine"),
    (shield, (False, "survived")),
    (future_with_an_exception, "ValueError('late')"),
    (yields_garbage, True),
    (yields_a_future_bare, True),
    (awaits_itself, RuntimeError),
    (awaits_a_future_of_another_loop, True),
    (async_generator, [0, 1, 2, 3, 4]),
    (async_generator_left_early, ["cleaned up"]),
    (async_generator_forgotten, True),
    (anyio_move_on_after, True),
    (anyio_fail_after, "timed out"),
    (anyio_task_group, [0, 1, 2]),
    (anyio_task_group_cancelled, (True, 0)),
    (anyio_task_group_aborts, "(ValueError('x'),)"),
    (anyio_scope_cancelled_by_oneself, True),
    (anyio_shielded_scope, True),
    (anyio_memory_stream, 7),
    (anyio_to_thread, 42),
]


@pytest.mark.parametrize(("act", "expected"), ACTS, ids=[act.__name__ for act, _ in ACTS])
async def test_a_handler_can_do_what_a_task_can_do(
    stage: Stage, act: Callable[[], Coroutine[Any, Any, Any]], expected: object
) -> None:
    assert await asyncio.create_task(act()) == expected
    cell, outcome = stage.perform(act)
    await asyncio.wait([outcome], timeout=120.0)
    assert outcome.done(), "the handler hangs"
    assert await outcome == expected
    assert count_cell(cell).handled == 1


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
        aio.call_later(120.0, aio.stop)
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
