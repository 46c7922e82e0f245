"""Ways to await an ask: late, twice, by several, in tasks, and from hooks."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from greenroom import Actor, ActorSystem, Context, ExitKind, Reply
from tests.conformance.askers import Echo, Keeper, Ref, outcome, until

if TYPE_CHECKING:
    from tests.conftest import Play

BAD = ValueError("bad")


@pytest.mark.parametrize("result", ["reply", "exception"])
async def test_an_ask_can_be_awaited_late_twice_and_by_several(system: ActorSystem, result: str) -> None:
    kept: list[Reply] = []
    keeper = system.spawn(Keeper, kept)

    def answer() -> None:
        if result == "reply":
            kept[-1].send(1)
        else:
            kept[-1].fail(BAD)

    expected = 1 if result == "reply" else BAD
    asked = keeper.ask("late")
    await system.settle()
    answer()
    assert asked.done()
    assert [await outcome(asked), await outcome(asked)] == [expected] * 2

    asked = keeper.ask("several")
    tasks = [asyncio.create_task(outcome(asked)) for _ in range(3)]
    await system.settle()
    answer()
    assert await asyncio.gather(*tasks) == [expected] * 3


async def test_an_ask_that_a_handler_awaits_directly_and_in_a_task_ends_for_both(system: ActorSystem) -> None:
    kept: list[Reply] = []
    keeper = system.spawn(Keeper, kept)

    async def both(ctx: Context, _: Any) -> Any:
        asked = keeper.ask("both", timeout=None)
        task = asyncio.create_task(outcome(asked))
        direct = await outcome(asked)
        async with asyncio.timeout(120.0):
            return direct, await task

    asking = asyncio.create_task(outcome(system.spawn(both).ask(None, timeout=None)))
    await until(lambda: kept)
    await asyncio.sleep(0)
    kept[0].send(1)
    assert await asking == (1, 1)


@pytest.mark.skipif(not hasattr(asyncio, "eager_task_factory"), reason="tasks start at once from Python 3.12 on")
async def test_a_handler_may_ask_in_tasks_that_start_at_once(play: Play, system: ActorSystem) -> None:
    if play.backend == "uvloop":
        pytest.skip("uvloop gives its task factory an argument that the eager one does not take")
    asyncio.get_running_loop().set_task_factory(getattr(asyncio, "eager_task_factory", None))
    a, b = system.spawn(Echo), system.spawn(Echo)

    async def receive(ctx: Context, _: Any) -> Any:
        return await asyncio.gather(a.ask(1), b.ask(2))

    assert await outcome(system.spawn(receive).ask(None)) == [1, 2]


async def test_hooks_may_ask(system: ActorSystem) -> None:
    class Curious(Actor[Any, Any]):
        def __init__(self, other: Ref, child: Any) -> None:
            self.other = other
            self.child = child

        async def pre_start(self) -> None:
            heard.append(await self.other.ask("pre_start"))
            self.ctx.watch(self.ctx.spawn(self.child))

        async def post_start(self) -> None:
            heard.append(await self.other.ask("post_start"))

        async def on_terminated(self, ref: Ref, cause: BaseException | None) -> None:
            heard.append(await self.other.ask("on_terminated"))

        async def on_child_terminated(self, ref: Ref, cause: BaseException | None) -> None:
            heard.append(await self.other.ask("on_child_terminated"))

        async def pre_stop(self) -> None:
            heard.append(await self.other.ask("pre_stop"))

        async def post_stop(self) -> None:
            heard.append(await self.other.ask("post_stop"))

        def receive(self, message: Any) -> Any:
            return self.ctx.children

    heard: list[str] = []
    heard.clear()
    ref = system.spawn(Curious, system.spawn(Echo), Echo)
    [child] = await ref.ask("children")
    child.stop()
    await until(lambda: len(heard) == 4)
    ref.stop()
    assert (await ref.terminated()).kind is ExitKind.NORMAL
    assert sorted(heard[2:4]) == ["on_child_terminated", "on_terminated"]
    assert heard[:2] + heard[4:] == ["pre_start", "post_start", "pre_stop", "post_stop"]
