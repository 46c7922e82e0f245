"""Handlers that hold their system's thread are named."""

from __future__ import annotations

import asyncio
import logging
import threading
from typing import Any

import pytest

from greenroom import Actor, ActorSystem, ManualClock, SystemConfig
from greenroom.system.watchdog import Watch
from greenroom.testing import Simulation

PATIENCE = 120.0
STUCK_AFTER = 0.05


class Told:
    """An observer that hears of handlers that are stuck."""

    def __init__(self) -> None:
        self.heard: list[tuple[Any, Any, float, str]] = []
        self.hears = threading.Event()

    def stuck_handler(self, ref: Any, message: Any, seconds: float, stack: str) -> None:
        self.heard.append((ref, message, seconds, stack))
        self.hears.set()


def block_here(told: Told) -> bool:
    return told.hears.wait(PATIENCE)


class Blocking(Actor[Any, bool]):
    def __init__(self, told: Told) -> None:
        self.told = told

    def receive(self, message: Any) -> bool:
        return block_here(self.told)


class AsyncBlocking(Blocking):
    async def receive(self, message: Any) -> bool:  # type: ignore[override]
        await asyncio.sleep(0)
        return block_here(self.told)


@pytest.mark.parametrize("clock", [None, ManualClock()], ids=["machine", "manual"])
@pytest.mark.parametrize("kind", [Blocking, AsyncBlocking])
def test_a_handler_that_blocks_is_named_with_its_stack_and_advice(
    kind: type[Blocking], clock: Any, caplog: pytest.LogCaptureFixture
) -> None:  # B5
    told = Told()

    async def main() -> None:
        config = SystemConfig(stuck_after=STUCK_AFTER, clock=clock)
        async with ActorSystem("test", config=config) as system:
            system.observers.add(told)
            ref = system.spawn(kind, told, name="blocker")
            assert await ref.ask("a message", timeout=None)
            [(who, message, seconds, stack)] = told.heard
            assert (who, message) == (ref, "a message")
            assert STUCK_AFTER <= seconds < PATIENCE
            assert "in receive" in stack
            assert "in block_here" in stack
            assert "asyncio/base_events" not in stack

    with caplog.at_level(logging.WARNING):
        asyncio.run(main())
    [record] = [record for record in caplog.records if "has held its system's thread" in record.getMessage()]
    assert record.actor == "/blocker"  # type: ignore[attr-defined]
    text = record.getMessage()
    assert 'dispatcher="parallel"' in text
    assert "on str" in text
    assert "in block_here" in text


class Constructed(Blocking):
    """Its hook is a coroutine that blocks, and its handler is none."""

    async def pre_start(self) -> None:
        await asyncio.sleep(0)
        block_here(self.told)

    def receive(self, message: Any) -> bool:
        return True


@pytest.mark.parametrize("kind", [AsyncBlocking, Constructed])
def test_an_actor_on_parallel_whose_coroutine_blocks_is_not_told_to_go_there(
    kind: type[Blocking], caplog: pytest.LogCaptureFixture
) -> None:  # B5
    told = Told()

    async def main() -> None:
        async with ActorSystem("test", config=SystemConfig(stuck_after=STUCK_AFTER)) as system:
            system.observers.add(told)
            assert await system.spawn(kind, told, name="blocker", dispatcher="parallel").ask("it", timeout=None)

    with caplog.at_level(logging.WARNING):
        asyncio.run(main())
    [record] = [record for record in caplog.records if "has held its system's thread" in record.getMessage()]
    text = record.getMessage()
    assert 'dispatcher="parallel"' not in text
    assert "It is on the dispatcher 'parallel', but an `async def` runs on this thread" in text
    for advice in ("plain `def`", "asyncio.to_thread", 'dispatcher="pinned"'):
        assert advice in text


def test_a_coroutine_that_blocks_is_not_told_that_parallel_alone_would_do(caplog: pytest.LogCaptureFixture) -> None:
    told = Told()

    async def main() -> None:
        async with ActorSystem("test", config=SystemConfig(stuck_after=STUCK_AFTER)) as system:
            system.observers.add(told)
            assert await system.spawn(AsyncBlocking, told).ask("it", timeout=None)

    with caplog.at_level(logging.WARNING):
        asyncio.run(main())
    [record] = [record for record in caplog.records if "has held its system's thread" in record.getMessage()]
    assert 'make it a plain `def` and spawn it with `dispatcher="parallel"`' in record.getMessage()


def test_a_system_that_is_merely_busy_is_not_complained_of(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        config = SystemConfig(stuck_after=0, max_msgs_per_actor=1, max_actors_per_tick=1)
        async with ActorSystem("test", config=config) as system:
            watch = Watch(system._loops.home, STUCK_AFTER, "system's thread")

            def go_round(ctx: Any, now: float) -> None:
                # It looks while a handler runs, every time, and much later than the last time.
                watch.check(now)
                if now < 100 * STUCK_AFTER:
                    ctx.self.tell(now + 10 * STUCK_AFTER)

            for _ in range(3):
                system.spawn(go_round).tell(0.0)
            await system.settle()

    with caplog.at_level(logging.WARNING):
        asyncio.run(main())
    assert caplog.records == []


@pytest.mark.parametrize("dispatcher", ["parallel", "pinned"])
def test_a_handler_may_block_a_thread_that_is_not_the_system_s(
    dispatcher: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        async with ActorSystem("test", config=SystemConfig(stuck_after=0)) as system:
            watch = Watch(system._loops.home, STUCK_AFTER, "system's thread")
            entered, go_on = threading.Event(), threading.Event()

            def wait(ctx: Any, message: float) -> bool:
                entered.set()
                return go_on.wait(message)

            asked = system.spawn(wait, dispatcher=dispatcher).ask(PATIENCE, timeout=None)
            assert await asyncio.to_thread(entered.wait, PATIENCE)
            watch.check(0.0)
            watch.check(1000.0)
            go_on.set()
            assert await asked is True

    with caplog.at_level(logging.WARNING):
        asyncio.run(main())
    assert caplog.records == []


def test_the_thread_that_looks_ends_with_the_last_system() -> None:
    def looking() -> list[threading.Thread]:
        return [thread for thread in threading.enumerate() if thread.name == "greenroom watchdog"]

    async def main() -> None:
        async with ActorSystem("one"), ActorSystem("two", config=SystemConfig(stuck_after=0)):
            assert len(looking()) == 1
            async with ActorSystem("three"):
                assert len(looking()) == 1

    asyncio.run(main())
    for thread in looking():
        thread.join(PATIENCE)
    assert looking() == []


def test_nobody_looks_where_that_is_not_wanted() -> None:
    async def program(system: ActorSystem) -> int:
        return sum(thread.name == "greenroom watchdog" for thread in threading.enumerate())

    async def main() -> int:
        async with ActorSystem("test", config=SystemConfig(stuck_after=0)) as system:
            return await program(system)

    assert asyncio.run(main()) == Simulation().run(program) == 0
