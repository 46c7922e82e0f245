"""What tests let actors wait for: as asyncio's own, but for any number of threads, each with its own asyncio loop.

So a test need not know on which thread a handler that awaits one runs.
"""

from __future__ import annotations

import asyncio
import threading
from _thread import get_ident
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from greenroom.actor.records.systems import systems

__all__ = ["Event", "Gate", "idle_elsewhere", "loops_of", "standstill", "turns"]


_GLANCE = 1.0
"""Seconds after which one who waits for a turn of another loop looks whether a handler holds that."""
_PATIENCE = 120.0
"""Seconds that a thread has to do what it must."""
_STEPS = 10
"""Turns of asyncio that a loop has at most, for one of another thread's."""


def loops_of(system: Any) -> list[Any]:
    """The loops of a system; of those on other threads, numbers may be looked at."""
    return [system._loop, *(poller.loop for poller in _further(system))]


def _further(system: Any) -> list[Any]:
    """The pollers of the loops on other threads."""
    return [thread.poller for thread in system._loops.threads]


async def idle_elsewhere() -> None:
    """Return when no other thread has anything to do for a system, unless it waits for something."""
    for system in systems():
        loop = system._loop
        if loop.handoffs and not loop.ticking and get_ident() == loop.runq.thread:
            await system._poller.idle()


async def turns(count: int = 10) -> None:
    """Let asyncio, and the systems on it, have some turns, on each of their loops; for when nothing settles."""
    held: list[Any] = []
    for _ in range(count):
        await asyncio.sleep(0)
        await idle_elsewhere()
        for system in systems():
            for poller in (system._poller, *_further(system)) if system._loops.threads else ():
                if poller not in held and not await _turn_on(poller):
                    held.append(poller)


async def _turn_on(poller: Any) -> bool:
    """Let the loop of another thread do what it has; whether it could, for a handler may hold it."""
    aio = poller.home()
    if aio is None or aio is asyncio.get_running_loop():
        return True  # it has stopped, or has had its turn

    async def turn() -> None:
        for _ in range(_STEPS):
            await asyncio.sleep(0)
            if poller.is_idle():
                break

    turning = turn()
    try:
        future = asyncio.run_coroutine_threadsafe(turning, aio)
    except RuntimeError:  # it is closed: its thread has ended
        turning.close()
        return False
    turned = asyncio.wrap_future(future)
    while True:
        ticks = poller.loop.ticks
        if (await asyncio.wait((turned,), timeout=_GLANCE))[0]:
            return True
        if poller.loop.ticks == ticks:
            future.cancel()
            return False


@contextmanager
def standstill(system: Any) -> Iterator[None]:
    """Have the other loops of a system stand still, so that what is sent meanwhile reaches all of them in one tick.

    As it does on one loop, while nothing is awaited. Nothing can be spawned, nor looked at, that needs those loops.
    """
    go_on = threading.Event()
    try:
        for poller in _further(system):
            holds = threading.Event()

            def hold(holds: threading.Event = holds) -> None:
                holds.set()
                go_on.wait(_PATIENCE)

            poller.home().call_soon_threadsafe(hold)
            assert holds.wait(_PATIENCE)
        yield
    finally:
        go_on.set()


class Gate:
    """Awaited by anybody, on any thread, until it has a result; `set_result` may be called from any."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: list[asyncio.Future[None]] = []
        self._done = False
        self._result: Any = None

    def done(self) -> bool:
        return self._done

    def set_result(self, result: Any) -> None:
        with self._lock:
            assert not self._done
            self._result = result
            self._done = True
            waiting, self._waiting = self._waiting, []
        for future in waiting:
            _wake(future)

    def __await__(self) -> Generator[Any, None, Any]:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        with self._lock:
            if not self._done:
                self._waiting.append(future)
        if not self._done:
            yield from future
        return self._result


class Event:
    """As `asyncio.Event`."""

    def __init__(self) -> None:
        self._gate = Gate()

    def is_set(self) -> bool:
        return self._gate.done()

    def set(self) -> None:
        if not self._gate.done():
            self._gate.set_result(None)

    def clear(self) -> None:
        if self._gate.done():
            self._gate = Gate()

    async def wait(self) -> bool:
        await self._gate
        return True


def _wake(future: asyncio.Future[None]) -> None:
    def wake() -> None:
        if not future.done():
            future.set_result(None)

    aio = future.get_loop()
    if asyncio._get_running_loop() is aio:
        wake()
    else:
        # Whoever waited there has something to do again, which nobody else can know.
        for system in systems():
            if get_ident() == system._loop.runq.thread:
                for work in list(system._loop.handoffs):
                    work.touch()
        with suppress(RuntimeError):  # it is closed: the thread has ended, and nobody waits there
            aio.call_soon_threadsafe(wake)
