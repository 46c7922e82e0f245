"""How `play()` runs a troupe: its system on a thread of its own, the MAIN pod on this one, until it has ended.

A handler that holds the kubelet's thread when the time is up cannot be waited for: it is left behind.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from greenroom.system.ending.report import Phase
from greenroom.system.eventloop import loop_factory
from greenroom.system.running import CALL_TIMEOUT

if TYPE_CHECKING:
    from greenroom.system.loops.callingthread import CallingThread
    from greenroom.system.system import ActorSystem

__all__ = ["play"]

_GLANCE = 0.25
"""Seconds after which this thread looks again whether the time is up."""
_ANSWER = 1.0
"""Seconds that the kubelet's thread then has to answer."""


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


async def _begin(system: ActorSystem, caller: CallingThread | None) -> None:
    if caller is not None:
        caller.begin()
    try:
        system.__enter__()
    except BaseException:
        if caller is not None:
            caller.undo()
        raise


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
            if time.monotonic() >= system._end_due and system._shutdown.phase != Phase.STOPPED:
                answers = threading.Event()
                system._loop.inbound.call(None, answers.set)
                await asyncio.wait((over,), timeout=_ANSWER)
                if not answers.is_set() and not over.done():
                    system._shutdown.leave_behind()
                    return False
    finally:
        over.cancel()
