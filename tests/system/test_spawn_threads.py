"""Spawning from other threads than the system's own (J4)."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from greenroom import Actor, ActorRef, ActorSystem
from greenroom.errors import NameTaken

DEADLINE = 120.0


class Greeter(Actor[str, str]):
    def __init__(self, greeting: str = "hello") -> None:
        self.greeting = greeting

    def receive(self, message: str) -> str:
        return f"{self.greeting} {message}"


async def in_threads(function: Callable[[], Any], count: int = 8) -> list[Any]:
    """What `function` returns on each of `count` threads that begin at once."""
    barrier = threading.Barrier(count)

    def work() -> Any:
        barrier.wait(DEADLINE)
        return function()

    with ThreadPoolExecutor(count) as pool:
        loop = asyncio.get_running_loop()
        return await asyncio.gather(*(loop.run_in_executor(pool, work) for _ in range(count)))


async def test_an_actor_can_be_spawned_from_another_thread(system: ActorSystem) -> None:
    parent = system.spawn(Greeter, name="parent")

    def elsewhere() -> ActorRef[Any, Any]:
        with pytest.raises(NameTaken):
            system.spawn(Greeter, name="parent")
        return system.spawn(Greeter, "hi", name="child", parent=parent, env={"a": 1})

    child = await asyncio.to_thread(elsewhere)
    assert child.path == "/parent/child"
    assert await child.ask("thread") == "hi thread"


async def test_threads_that_spawn_at_once_get_an_actor_each(system: ActorSystem) -> None:
    batches = await in_threads(lambda: [system.spawn(Greeter) for _ in range(25)])
    refs = [ref for batch in batches for ref in batch]
    assert len({ref.id for ref in refs}) == 200
    assert sorted(ref.id for ref in system.actors()) == sorted(ref.id for ref in refs)
    assert system.snapshot().spawned == 200


async def test_of_many_threads_that_want_one_name_one_gets_it(system: ActorSystem) -> None:
    def claim() -> bool:
        try:
            system.spawn(Greeter, name="the one")
        except NameTaken:
            return False
        return True

    assert sorted(await in_threads(claim)) == [False] * 7 + [True]
    assert len(system.actors()) == 1
