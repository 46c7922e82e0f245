"""What is urgent to a meta-process comes first (E4)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from greenroom import ActorSystem, ExitKind, ExitReason, Lane
from tests.meta.owners import AsyncDiary, AsyncOwner, Diary, Held, Quiet, Scene, kinds, noted

# -- urgent things first


@kinds
@pytest.mark.parametrize("inside", [False, True])
async def test_an_inspection_overtakes_what_is_queued(
    system: ActorSystem, kind: type[Diary], inside: bool
) -> None:  # E4
    held = Held()

    class Blocking(Diary):
        def handle_message(self, message: Any) -> None:
            if message == "hold":
                held.enter()
            super().handle_message(message)

    class AsyncBlocking(AsyncDiary):
        async def handle_message(self, message: Any) -> None:
            if message == "hold":
                await held.enter_async()
            await super().handle_message(message)

    scene = Scene(system, AsyncOwner)
    meta = Blocking() if kind is Diary else AsyncBlocking()
    alias = await scene.spawn(meta)
    alias.tell("hold")
    await held.entered.wait()
    for number in range(3):
        alias.tell(number)
    look: Any = scene.do(lambda ctx: alias.inspect("a", "b", timeout=None)) if inside else alias.inspect("a", "b")
    looking = asyncio.ensure_future(look)
    for _ in range(50):
        await asyncio.sleep(0)
    held.let_go()
    shown = await looking
    assert shown["items"] == ("a", "b")
    await system.settle()
    assert meta.notes == ["init", "hold", "inspect", 0, 1, 2]


@kinds
async def test_more_urgent_lanes_are_served_first(system: ActorSystem, kind: type[Diary]) -> None:  # E4
    scene, meta = Scene(system), kind()

    def all_at_once(ctx: Any) -> Any:
        alias = ctx.spawn_meta(meta)
        for lane in Lane:
            alias.tell(lane.name, lane=lane)
        return alias

    await scene.do(all_at_once)
    await system.settle()
    assert meta.notes == ["init", "CONTROL", "MANAGEMENT", "DATA", "LOG"]


@kinds
async def test_a_stop_overtakes_what_is_queued(system: ActorSystem, kind: type[Diary]) -> None:  # E4
    scene, meta = Scene(system), kind()

    def all_at_once(ctx: Any) -> Any:
        alias = ctx.spawn_meta(meta)
        for number in range(3):
            alias.tell(number)
        alias.stop()
        return alias

    alias = await scene.do(all_at_once)
    assert await alias.terminated() == ExitReason(ExitKind.NORMAL)
    assert meta.notes == ["init", ExitReason(ExitKind.NORMAL)]
    assert noted(meta) == [ExitReason(ExitKind.NORMAL)]
    assert [letter.message for letter in system.dead_letters.recent()] == [0, 1, 2]


async def test_what_is_inspected_from_another_thread_is_the_same(system: ActorSystem) -> None:  # E4
    scene = Scene(system)
    alias = await scene.spawn(Diary())
    shown = await asyncio.to_thread(alias.inspect_sync, "x", timeout=None)
    assert shown == {"items": ("x",), "notes": 2}
    assert await (await scene.spawn(Quiet())).inspect("x", timeout=None) == {}
