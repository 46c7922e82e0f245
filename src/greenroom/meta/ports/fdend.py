"""One end of a real pipe.

It is watched by a selector of our own, and not by asyncio's transports: those close a pipe a while after they are told
to, when its number may be another's, and of uvloop's nobody learns when that is.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from greenroom._core.scheduler.fdwatch import FdWatches

__all__ = ["FdEnd"]


class FdEnd:
    """A descriptor that tells when it is ready, again and again while it is; nothing here blocks."""

    __slots__ = ("_fd", "_pipe", "_watches")

    def __init__(self, watches: FdWatches, pipe: IO[bytes]) -> None:
        self._watches = watches
        self._pipe = pipe
        self._fd = pipe.fileno()
        os.set_blocking(self._fd, False)

    def watch(self, events: int, ready: Callable[[int], object]) -> None:
        """Call `ready(events)` when it can be read or written, instead of what was called before."""
        self._watches.remove(self._fd)
        self._watches.add(self._fd, events, ready)

    def pause(self) -> None:
        """Say nothing for now."""
        self._watches.pause(self._fd)

    def resume(self) -> None:
        """Go on."""
        self._watches.resume(self._fd)

    def unwatch(self) -> None:
        """Say nothing more."""
        self._watches.remove(self._fd)

    def read(self, most: int) -> bytes:
        """What is there; `BlockingIOError` if that is nothing yet, empty at the end."""
        return os.read(self._fd, most)

    def write(self, data: memoryview) -> int:
        """Write as much as there is room for: how many bytes; `BlockingIOError` if there is none."""
        return os.write(self._fd, data)

    def close(self) -> None:
        """Close it."""
        self._pipe.close()
