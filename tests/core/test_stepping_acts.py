"""What a task can do, an async handler can do: each act below has the same outcome in both."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import aclosing, suppress
from typing import TYPE_CHECKING, Any

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest

from greenroom._core.scheduler.accounting import count_cell
from tests.core.props import LONG, bare_yield, me, never, var

if TYPE_CHECKING:
    from tests.core.conftest import Stage


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
