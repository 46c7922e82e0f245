"""A further loop of a system, on a thread of its own with asyncio, or uvloop where that is installed."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future as ThreadFuture
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar, overload

from greenroom._core.scheduler.loop import Loop
from greenroom._core.scheduler.poller import Poller
from greenroom.actor.lifecycle import Lifecycle
from greenroom.errors import NoThread
from greenroom.system.ending.loopend import LoopEnd
from greenroom.system.loops.calls import LoopCalls
from greenroom.system.loops.cores import keep_on_core

if TYPE_CHECKING:
    from greenroom._core.scheduler.celltable import SlotBlocks
    from greenroom.system.config import SystemConfig
    from greenroom.system.loops.ports import OwningSystem

__all__ = ["LoopThread", "call_and_await"]

T = TypeVar("T")

_POLL_INTERVAL = 0.1
"""Seconds after which whoever waits for the thread checks that it is still alive."""
_START_TIME = 30.0
"""Seconds that a thread has to start."""


class LoopThread:
    """One further loop, from its making to its end."""

    def __init__(
        self,
        system: OwningSystem,
        number: int,
        blocks: SlotBlocks,
        core: int | None = None,
        label: str | None = None,
    ) -> None:
        self.number = number
        self._system = system
        # That of the dispatcher it was made for, if it was.
        self.is_dispatchers = label is not None
        self.label = f"loop {number}" if label is None else label
        self.name = f"{system.name} {self.label}"
        self.token = f"{system.token} loop {number}"
        self.core = core
        self.life = Lifecycle(system, system._life.top.names)
        home = system._loop
        self._loop = Loop(home.limits, home.clock, self.life, home.hooks, home.admission.propagation, blocks)
        self.life.serve(self._loop)
        self.poller: Poller = Poller(self._loop)
        self.poller.is_timeline = False
        self.life.poller = self.poller
        self.end: LoopEnd = LoopEnd(self.life, self.poller)
        self.calls: LoopCalls = LoopCalls(self._loop)
        self.thread: threading.Thread | None = None
        self._aio: asyncio.AbstractEventLoop | None = None
        # Set on its thread when nothing is left to do there.
        self._over: asyncio.Event | None = None

    @property
    def loop(self) -> Loop:
        """The loop."""
        return self._loop

    # -- what a pool of worker processes asks of its owner

    @property
    def config(self) -> SystemConfig:
        """The system's settings."""
        return self._system.config

    def _request_end(self, timeout: float, drain: bool | None) -> None:
        self._system._request_end(timeout, drain)

    def fail(self, cause: BaseException) -> None:
        """End the system, because of `cause`."""
        self._system.fail(cause)

    # -- its thread

    def start(self, factory: Callable[[], asyncio.AbstractEventLoop] | None) -> None:
        """Start the thread, and return when the loop runs on it."""
        ready: ThreadFuture[None] = ThreadFuture()
        self.thread = threading.Thread(target=self._run, args=(ready, factory), name=self.name, daemon=True)
        try:
            self.thread.start()
        except RuntimeError as exc:
            self.thread = None
            raise NoThread(self.name) from exc
        ready.result(_START_TIME)

    def _run(self, ready: ThreadFuture[None], factory: Callable[[], asyncio.AbstractEventLoop] | None) -> None:
        async def main() -> None:
            self._aio = asyncio.get_running_loop()
            self._over = asyncio.Event()
            self.poller.attach()
            ready.set_result(None)
            await self._over.wait()
            if not self._loop.closed:  # the system could not start, and may try again
                self.poller.detach()

        try:
            if self.core is not None:
                keep_on_core(self.name, self.core)
            with asyncio.Runner(loop_factory=factory) as runner:
                runner.run(main())
        except BaseException as error:
            if ready.done():
                raise
            ready.set_exception(error)  # asyncio could not start: it needs file descriptors

    def release(self) -> None:
        """Let the thread end, once its loop has stopped. From any thread."""
        aio, over = self._aio, self._over
        if aio is not None and over is not None:
            with suppress(RuntimeError):  # it has ended already
                aio.call_soon_threadsafe(over.set)

    def later(self, action: Callable[[], object]) -> None:
        """Have something done when the handler that holds the thread has returned."""
        if self._aio is not None:
            with suppress(RuntimeError):  # it has ended already
                self._aio.call_soon_threadsafe(action)

    async def end_tasks(self) -> None:
        """End what is left of asyncio's tasks, once its loop has stopped: its thread does that by itself."""

    # -- for others

    @overload
    async def do(self, action: Callable[[], Coroutine[Any, Any, T]]) -> T: ...
    @overload
    async def do(self, action: Callable[[], T]) -> T: ...
    async def do(self, action: Callable[[], Any]) -> Any:
        """Have something done on its thread, and wait for the result; on this one before the system has started."""
        aio = self._aio
        if aio is None:
            return await call_and_await(action)
        waiting = call_and_await(action)
        try:
            future = asyncio.run_coroutine_threadsafe(waiting, aio)
        except RuntimeError:
            if not aio.is_closed():
                raise
            waiting.close()
            return await call_and_await(action)
        result = asyncio.wrap_future(future)
        try:
            while not result.done() and self._is_alive():
                await asyncio.wait((result,), timeout=_POLL_INTERVAL)
        finally:
            if not result.done():
                future.cancel()
        if result.done() and not result.cancelled():
            return result.result()
        # A thread that ends cancels what is left there, or never gets to it: then nobody else touches the loop.
        if not self._is_alive():
            waiting.close()
        return await call_and_await(action)

    def _is_alive(self) -> bool:
        return self.thread is not None and self.thread.is_alive()

    def post(self, action: Callable[[], object]) -> None:
        """Have something done on its thread, and do not wait."""
        if self._aio is None or not self._loop.inbound.bring(None, action):
            action()


async def call_and_await(action: Callable[[], Any]) -> Any:
    """Call `action`, and await what it returns if that is a coroutine."""
    result = action()
    return await result if asyncio.iscoroutine(result) else result
