"""How `play()` runs a troupe: its system on a thread of its own, the MAIN pod on this one, until it has ended.

A handler that holds the kubelet's thread when the time is up cannot be waited for: it is left behind.

A loop of the program's own, a GUI's for one, may run on the calling thread. It has to call `poll_once()` again and
again, from a timer say, and to return when `is_over`. docs/pods.md shows how.
"""

from __future__ import annotations

import asyncio
import time
from _thread import get_ident
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from greenroom.errors import WaitsForItself, WrongThread
from greenroom.pods.kubelet.parking import Park
from greenroom.system.ending.report import Phase
from greenroom.system.eventloop import loop_factory
from greenroom.system.system import CALL_TIMEOUT

if TYPE_CHECKING:
    from greenroom._core.scheduler.loop import Loop
    from greenroom.system.loops.thread import CallingThread
    from greenroom.system.system import ActorSystem

__all__ = ["MainLoop", "play", "taking_part"]

_GLANCE = 0.25
"""Seconds after which this thread looks again whether the time is up."""


class MainLoop:
    """What a program's own main loop has to call, so that the MAIN pod gets its turns."""

    def __init__(self, aio: asyncio.AbstractEventLoop, loop: Loop | None, is_over: Callable[[], bool]) -> None:
        self._aio = aio
        self._loop = loop
        self._is_over = is_over
        self._thread = get_ident()

    def poll_once(self) -> Park:
        """Handle what has come for the MAIN pod, for two milliseconds or so at most, and do not wait for more.

        It is one cycle: control, management, control again, data; then what asyncio has ready, and `park()`. Returns
        `Park.BUSY` if there is more to do.
        """
        if get_ident() != self._thread:
            raise WrongThread("poll_once()", "call it on the thread that has called play()")
        if asyncio._get_running_loop() is not None:
            raise WaitsForItself("poll_once() was called by the MAIN pod itself, or in a coroutine")
        if self._aio.is_closed():
            return Park.IDLE  # a late timer of a GUI
        self._aio.call_soon(self._aio.stop)
        self._aio.run_forever()
        return Park.BUSY if self._loop is not None and self._loop.has_work() else Park.IDLE

    @property
    def is_over(self) -> bool:
        """Whether the troupe ends, or has ended: the main loop is to return."""
        return self._is_over()


def play(
    system: ActorSystem,
    caller: CallingThread | None,
    mainloop: Callable[[asyncio.AbstractEventLoop], object] | None,
    on_signal: Callable[[], object],
) -> None:
    """Run a system on a thread of its own; this one runs the loop of `caller`, or waits, and handles signals.

    `mainloop` is called here in between, and has to run asyncio's loop now and then. `on_signal` is called for the
    first signal.
    """
    system._require_signals()
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        if system._handles_signals is not False:
            system._take_signals(on_signal, aio=runner.get_loop())
        try:
            runner.run(_begin(system, caller))
            if mainloop is not None:
                mainloop(runner.get_loop())
            runner.run(_end(system, caller))
        except KeyboardInterrupt:
            if system._signals is None or not system._signals.forced:
                raise
        finally:
            system._release_signals()
    if system._thread is not None and system._shutdown.over.is_set():
        system._thread.join(CALL_TIMEOUT)
    system._raise_failure()


@contextmanager
def taking_part(caller: CallingThread | None) -> Iterator[None]:
    """Lend this thread to a system that starts here; not if that fails."""
    if caller is not None:
        caller.begin()
    try:
        yield
    except BaseException:
        if caller is not None:
            caller.undo()
        raise


async def _begin(system: ActorSystem, caller: CallingThread | None) -> None:
    with taking_part(caller):
        system.__enter__()


async def _end(system: ActorSystem, caller: CallingThread | None) -> None:
    try:
        if await _has_ended(system) and caller is not None:
            await caller.wait()
    except asyncio.CancelledError:
        await system.shutdown()
        raise


async def _has_ended(system: ActorSystem) -> bool:
    """Return True when the system has stopped; False when a handler holds its thread after the time is up."""
    over = asyncio.ensure_future(system._shutdown.wait())
    try:
        while True:
            await asyncio.wait((over,), timeout=_GLANCE)
            if over.done():
                return True
            is_late = time.monotonic() >= system._end_due and system._shutdown.phase != Phase.STOPPED
            if is_late and not await asyncio.to_thread(system._loop_answers):
                system._shutdown.leave_behind()
                return False
    finally:
        over.cancel()
