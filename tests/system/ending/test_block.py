# ruff: noqa: PT012 - what is tested is the end of a block
"""The body of an `async with` block ends with its system: a failure cancels it, and is raised from the block."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from greenroom import ActorSystem, Context, Directive, Supervision, SystemConfig, SystemFailed
from greenroom.errors import ActorTerminated
from tests.conformance.lives import report_of

DEADLINE = 120.0
UP = Supervision(Directive.ESCALATE)


class Boom(Exception):
    pass


def explode(ctx: Context, message: str) -> None:
    raise Boom(message)


async def test_a_failed_system_cancels_the_body_and_raises_from_the_block() -> None:
    seen: list[str] = []
    system = ActorSystem("demo")
    with pytest.raises(SystemFailed) as caught:
        async with system:
            system.spawn(explode, supervision=UP).tell("now")
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                seen.append("cancelled")
                raise
    assert isinstance(caught.value.__cause__, Boom)
    assert system.phase == "stopped"
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0
    await asyncio.sleep(0)  # and nothing is left that would be cancelled
    assert seen == ["cancelled"]


async def test_the_shutdown_is_not_hurried_by_it() -> None:
    """Others may finish what they have in hand, and clean up, as in any shutdown."""
    finished: list[str] = []
    waits, goes_on = asyncio.Event(), asyncio.Event()

    async def takes_its_time(ctx: Context, message: str) -> None:
        waits.set()
        await goes_on.wait()
        finished.append(message)

    system = ActorSystem(config=SystemConfig(stop_timeout=DEADLINE))
    with pytest.raises(SystemFailed):
        async with system:
            system.spawn(takes_its_time).tell("work")
            await waits.wait()
            system.spawn(explode, supervision=UP).tell("now")
            try:
                await asyncio.Event().wait()
            finally:
                goes_on.set()
    assert finished == ["work"]
    assert report_of(system).forced == ()


async def test_a_body_that_goes_on_in_spite_of_it_ends_with_the_failure() -> None:
    with pytest.raises(SystemFailed):
        async with ActorSystem() as system:
            system.spawn(explode, supervision=UP).tell("now")
            try:
                await system.stopped()
            except asyncio.CancelledError:
                await asyncio.sleep(0)


async def test_a_body_that_fails_its_own_system_leaves_at_its_next_await() -> None:
    seen: list[str] = []
    with pytest.raises(SystemFailed) as caught:
        async with ActorSystem() as system:
            system.fail(Boom("enough"))
            seen.append("went on")
            await asyncio.Event().wait()
    assert isinstance(caught.value.__cause__, Boom)
    assert seen == ["went on"]


async def test_a_body_that_fails_its_own_system_and_ends_is_not_cancelled_later() -> None:
    with pytest.raises(SystemFailed):
        async with ActorSystem() as system:
            system.fail(Boom("enough"))
    await asyncio.sleep(0)
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0


async def ask_the_one_that_fails(system: ActorSystem) -> None:
    await system.spawn(explode, supervision=UP).ask("now")


async def ask_another(system: ActorSystem) -> None:
    never = asyncio.Event()

    async def wait(ctx: Context, message: str) -> None:
        await never.wait()

    asked = system.spawn(wait).ask("for ever")
    system.spawn(explode, supervision=UP).tell("now")
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        await asked


@pytest.mark.parametrize("body", [ask_the_one_that_fails, ask_another])
async def test_an_ask_that_ends_with_the_system_does_not_hide_the_failure(
    body: Callable[[ActorSystem], Coroutine[Any, Any, None]],
) -> None:
    with pytest.raises(SystemFailed) as caught:
        async with ActorSystem(config=SystemConfig(stop_timeout=0.0)) as system:
            await body(system)
    assert isinstance(caught.value.__cause__, Boom)


async def test_an_error_of_the_bodys_own_is_what_the_block_raises() -> None:
    with pytest.raises(LookupError):
        async with ActorSystem() as system:
            system.spawn(explode, supervision=UP).tell("now")
            try:
                await asyncio.Event().wait()
            finally:
                raise LookupError("in the body")


async def test_a_cancellation_from_outside_stays_one() -> None:
    inside = asyncio.Event()

    async def block() -> None:
        async with ActorSystem() as system:
            ref = system.spawn(explode, supervision=UP)
            inside.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                ref.tell("now")
                await system.stopped()
                raise

    task = asyncio.create_task(block())
    await inside.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_task_group_in_the_body_is_cancelled_with_it() -> None:
    ended: list[str] = []

    async def waits(name: str) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(name)

    with pytest.raises(SystemFailed):
        async with ActorSystem() as system, asyncio.TaskGroup() as group:
            group.create_task(waits("a"))
            group.create_task(waits("b"))
            system.spawn(explode, supervision=UP).tell("now")
    assert sorted(ended) == ["a", "b"]


async def test_a_block_left_in_another_task_than_it_was_entered_in_raises_the_failure() -> None:
    system = ActorSystem()
    await asyncio.create_task(system.__aenter__())  # as fixtures do
    ref = system.spawn(explode, supervision=UP)
    ref.tell("now")
    await system.stopped()
    with pytest.raises(SystemFailed):
        await asyncio.create_task(system.__aexit__(None, None, None))


async def test_an_actor_that_merely_ends_does_not_end_the_body() -> None:
    async with ActorSystem() as system:
        ref = system.spawn(explode, supervision=Supervision(Directive.STOP))
        ref.tell("now")
        await ref.terminated()
        with pytest.raises(ActorTerminated):
            await ref.ask("there?")
