"""The thread that calls `play()`, when a loop of the program's own runs there: a GUI's, for one.

It has to call `poll_once()` again and again, from a timer say, and to return when `is_over`.
docs/pods.md shows how.
"""

from __future__ import annotations

import asyncio
from _thread import get_ident
from typing import TYPE_CHECKING

from greenroom.errors import WaitsForItself, WrongThread
from greenroom.pods.kubelet.parking import Park

if TYPE_CHECKING:
    from collections.abc import Callable

    from greenroom._core.scheduler.loop import Loop

__all__ = ["MainLoop"]


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
