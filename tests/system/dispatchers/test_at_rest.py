"""A manual clock, with actors on other threads and in worker processes: time passes when they report that they wait.

Nothing here depends on how fast a thread or a process is: what is at work is at work until it says otherwise.
"""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from greenroom import Actor, ActorSystem, ManualClock, Process, SystemConfig
from greenroom.errors import ClockHeldUp
from tests.system.dispatchers.processes.guests import Sleeper

DEADLINE = 120.0
ON_THREADS = ["parallel", "pinned"]


class Worker(Actor[Any, Any]):
    """Blocks until the test lets it go on, and says when it began and ended by the system's clock."""

    def __init__(self, entered: threading.Event, go_on: threading.Event, times: list[float], says_so: bool) -> None:
        self.entered = entered
        self.go_on = go_on
        self.times = times
        self.says_so = says_so

    def receive(self, message: Any) -> None:
        self.times.append(self.ctx.now())
        if self.says_so:
            with self.ctx.blocking():
                self.entered.set()
                assert self.go_on.wait(DEADLINE)
        else:
            self.entered.set()
            assert self.go_on.wait(DEADLINE)
        self.times.append(self.ctx.now())


class Scene:
    """A system with a manual clock and one worker in the middle of a message."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.entered, self.go_on = threading.Event(), threading.Event()
        self.times: list[float] = []

    async def begin(self, system: ActorSystem, dispatcher: str, says_so: bool) -> Any:
        ref = system.spawn(Worker, self.entered, self.go_on, self.times, says_so, name="worker", dispatcher=dispatcher)
        ref.tell("work")
        assert await asyncio.to_thread(self.entered.wait, DEADLINE)
        return ref


def system_with(clock: ManualClock, **options: Any) -> ActorSystem:
    return ActorSystem("test", config=SystemConfig(clock=clock, **options))


@pytest.mark.parametrize("dispatcher", ON_THREADS)
def test_time_stands_still_while_a_handler_is_at_work(dispatcher: str) -> None:  # M19
    scene = Scene()

    async def main() -> None:
        async with asyncio.timeout(DEADLINE), system_with(scene.clock) as system:
            await scene.begin(system, dispatcher, says_so=False)
            moving = asyncio.create_task(scene.clock.advance(10.0, patience=DEADLINE))
            await asyncio.to_thread(lambda: None)  # which takes some real time
            assert not moving.done()
            assert scene.clock.now() == 0.0
            scene.go_on.set()
            await moving
            assert scene.times == [0.0, 0.0]
            assert scene.clock.now() == 10.0

    asyncio.run(main())


@pytest.mark.parametrize("dispatcher", ON_THREADS)
def test_time_passes_over_a_handler_that_says_that_it_blocks(dispatcher: str) -> None:  # M19
    scene = Scene()

    async def main() -> None:
        async with asyncio.timeout(DEADLINE), system_with(scene.clock) as system:
            await scene.begin(system, dispatcher, says_so=True)
            await scene.clock.advance(10.0, patience=DEADLINE)
            scene.go_on.set()
            await system.settle(DEADLINE)
            assert scene.times == [0.0, 10.0]

    asyncio.run(main())


@pytest.mark.parametrize("dispatcher", ON_THREADS)
def test_a_clock_that_is_held_up_names_the_actor_at_work(dispatcher: str) -> None:  # M19
    scene = Scene()

    async def main() -> None:
        async with asyncio.timeout(DEADLINE), system_with(scene.clock) as system:
            await scene.begin(system, dispatcher, says_so=False)
            with pytest.raises(ClockHeldUp, match="/worker"):
                await scene.clock.advance(10.0, patience=0.01)
            scene.go_on.set()

    asyncio.run(main())


def test_a_thread_that_says_that_it_blocks_is_no_help_so_the_pool_has_another() -> None:  # M9
    scene = Scene()

    async def main() -> None:
        from greenroom import Parallel

        config = SystemConfig(dispatchers={"one": Parallel(threads=1)})
        async with asyncio.timeout(DEADLINE), ActorSystem("test", config=config) as system:
            await scene.begin(system, "one", says_so=True)
            other = system.spawn(lambda ctx, message: message, dispatcher="one")
            assert await other.ask("still there?", timeout=DEADLINE) == "still there?"
            scene.go_on.set()

    asyncio.run(main())


def test_messages_to_a_worker_process_are_handled_before_time_passes() -> None:  # M19
    clock = ManualClock()

    async def main() -> None:
        one = {"process": Process(workers=1)}
        async with asyncio.timeout(DEADLINE), system_with(clock, dispatchers=one) as system:
            ref = system.spawn(Sleeper, dispatcher="process")
            await ref.started()
            for moment in range(20):
                ref.tell("note")
                await clock.advance(1.0, patience=DEADLINE)
                assert clock.now() == moment + 1.0
            assert await ref.ask("moments", timeout=None) == [float(moment) for moment in range(20)]

    asyncio.run(main())


def test_time_passes_over_a_handler_in_a_worker_process_that_awaits_something() -> None:  # M19
    clock = ManualClock()

    async def main() -> None:
        one = {"process": Process(workers=1)}
        async with asyncio.timeout(DEADLINE), system_with(clock, dispatchers=one, stop_timeout=3.0) as system:
            ref = system.spawn(Sleeper, dispatcher="process")
            await ref.started()
            ref.tell("wait for ever")
            await clock.advance(1.0, patience=DEADLINE)
            ref.stop()
            await clock.advance(10.0, patience=DEADLINE)
            await ref.terminated()
            assert system.ledger(ref).failed == 1

    asyncio.run(main())
