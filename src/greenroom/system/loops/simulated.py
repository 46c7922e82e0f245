"""A further loop of a system in a simulation: on a virtual thread, with no real one.

What loops send one another goes the same way as between real threads, and is taken in at the next tick. Only a call
that would block until another thread has done something does not wait: the virtual thread does it at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from greenroom.system.loops.calls import LoopCalls
from greenroom.system.loops.thread import LoopThread, call_and_await

if TYPE_CHECKING:
    from greenroom._core.scheduler.loop import Loop
    from greenroom._core.simulation.stage import Stage

__all__ = ["SimulatedCalls", "SimulatedThread"]

T = TypeVar("T")

_LAST_TASKS = 1.0
"""Virtual seconds that cancelled tasks have to end."""


class SimulatedCalls(LoopCalls):
    """Calls from other loops to the virtual thread of one loop."""

    __slots__ = ()

    def call(self, action: Callable[[], T], own: LoopCalls | None, timeout: float) -> T:
        """Call `action` there at once."""
        return _stage_of(self.loop).call(self.loop, action)


class SimulatedThread(LoopThread):
    """One further loop of a simulation, from its making to its end."""

    def start(self, factory: object) -> None:
        """Begin its virtual thread, and let the loop run there."""
        self.calls = SimulatedCalls(self.loop)
        stage = _stage_of(self.loop)
        self._aio = stage.open(self.loop, self.name)
        stage.call(self.loop, self.poller.attach)

    async def end_tasks(self) -> None:
        """Cancel what is left of its tasks, as asyncio does when a thread ends."""
        await self.do(_end_tasks)

    def release(self) -> None:
        """Let the virtual thread end, once its loop has stopped."""
        if self._aio is not None and not self._aio.is_closed():
            _stage_of(self.loop).end(self._aio)

    async def do(self, action: Callable[[], Any]) -> Any:
        """Have something done on its virtual thread, when that goes on, and wait for the result."""
        aio = self._aio
        if aio is None or aio.is_closed():
            return await call_and_await(action)
        future = asyncio.run_coroutine_threadsafe(call_and_await(action), aio)
        result = asyncio.wrap_future(future)
        try:
            await asyncio.wait((result,))
        finally:
            if not result.done():
                future.cancel()
        # A virtual thread that ends cancels what is left there, as a thread does.
        return await call_and_await(action) if result.cancelled() else result.result()


async def _end_tasks() -> None:
    aio = asyncio.get_running_loop()
    tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks, timeout=_LAST_TASKS)
    await aio.shutdown_asyncgens()


def _stage_of(loop: Loop) -> Stage:
    """Where the loops of a simulation find virtual threads: there is one, or the system would have one loop."""
    stage: Stage | None = None if loop.director is None else loop.director.stage
    assert stage is not None
    return stage
