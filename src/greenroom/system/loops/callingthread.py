"""A further loop of a system on the thread that calls `play()`: the main one, which a GUI or signals may need."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from greenroom.errors import NotStarted
from greenroom.system.loops.thread import LoopThread

__all__ = ["CallingThread"]


class CallingThread(LoopThread):
    """One further loop, on a thread that calls `begin`, and then `wait` in the asyncio loop it began in."""

    def start(self, factory: Callable[[], asyncio.AbstractEventLoop] | None) -> None:
        """Its system starts: it must have its thread by now."""
        if self._aio is None:
            raise NotStarted(self._system.name, "a pod of the calling thread")

    def begin(self) -> None:
        """Run here from now on, in the running asyncio loop."""
        self._aio = asyncio.get_running_loop()
        self._over = asyncio.Event()
        self.poller.attach()

    def undo(self) -> None:
        """The system could not start: be as before `begin`."""
        self.poller.detach()
        self._aio = self._over = None

    async def wait(self) -> None:
        """Return when its system does not need the thread any more."""
        assert self._over is not None
        await self._over.wait()

    def _is_alive(self) -> bool:
        return self._aio is not None and not self._aio.is_closed()
