"""File descriptors that an actor wants to hear of.

They are watched by a selector of our own, and asyncio waits only for that one's own descriptor: a descriptor closed
behind our back then drops out quietly, where uvloop would abort the process.
"""

from __future__ import annotations

import asyncio
import os
import selectors
from collections.abc import Callable
from contextlib import suppress

from greenroom.errors import TooManyWatches, WatchError

READ = selectors.EVENT_READ
WRITE = selectors.EVENT_WRITE


class Entry:
    """A watched descriptor: what for, who is told, and which file it stood for when that began."""

    __slots__ = ("events", "file", "paused", "ready")

    def __init__(self, events: int, ready: Callable[[int], object], file: tuple[int, int]) -> None:
        self.events = events
        self.ready = ready
        self.file = file
        self.paused = False


class FdWatches:
    """The watched descriptors of one poller."""

    def __init__(self, aio: asyncio.AbstractEventLoop, limit: int) -> None:
        self._aio = aio
        self._limit = limit
        self._selector: selectors.DefaultSelector | None = None
        # Invariant: the selector has those of them that are not paused
        self._watched: dict[int, Entry] = {}

    def add(self, fd: int, events: int, ready: Callable[[int], object]) -> None:
        """Call `ready(events)` when `fd` can be read or written, again and again while it can."""
        try:
            file = _file_of(fd)  # before our own selector can get the number of a closed one
            known = self._watched.get(fd)
            if known is not None and known.file == file:
                raise WatchError(fd, "it is watched already; unwatch it first")
            if known is not None:
                self.remove(fd)  # it was closed, and its number is another file's now
            if len(self._watched) >= self._limit:
                raise TooManyWatches(self._limit)
            (self._selector or self._open()).register(fd, events)
        except (OSError, OverflowError, ValueError) as exc:
            raise WatchError(fd, f"{exc}: is it open, and something the system can wait for?") from exc
        self._watched[fd] = Entry(events, ready, file)

    def pause(self, fd: int) -> None:
        """Say nothing of a watched `fd` until `resume`."""
        entry = self._watched[fd]
        if not entry.paused and self._selector is not None:
            entry.paused = True
            with suppress(KeyError, ValueError, OSError):
                self._selector.unregister(fd)

    def resume(self, fd: int, ready: Callable[[int], object] | None = None) -> bool:
        """Go on with a paused `fd`; False when it has been closed meanwhile, and is not watched any more."""
        entry = self._watched.get(fd)
        if entry is None or self._selector is None or (ready is not None and entry.ready != ready):
            return False
        if entry.paused:
            try:
                if _file_of(fd) != entry.file:
                    raise ValueError(fd)
                self._selector.register(fd, entry.events)
            except (OSError, ValueError, KeyError):
                del self._watched[fd]
                return False
            entry.paused = False
        return True

    def remove(self, fd: int, ready: Callable[[int], object] | None = None) -> bool:
        """Watch `fd` no more; False when it was not watched, or is another's who is told by another than `ready`."""
        entry = self._watched.get(fd)
        if entry is None or self._selector is None or (ready is not None and entry.ready != ready):
            return False
        del self._watched[fd]
        if not entry.paused:
            with suppress(KeyError, ValueError, OSError):
                self._selector.unregister(fd)
        return True

    def close(self) -> None:
        self._watched.clear()
        if self._selector is not None:
            if not self._aio.is_closed():
                self._aio.remove_reader(self._selector.fileno())
            self._selector.close()
            self._selector = None

    def _open(self) -> selectors.DefaultSelector:
        self._selector = selectors.DefaultSelector()
        self._aio.add_reader(self._selector.fileno(), self._look)
        return self._selector

    def _look(self) -> None:
        if self._selector is None:
            return
        found = [(self._watched.get(key.fd), key.fd, events) for key, events in self._selector.select(0)]
        for entry, fd, events in found:
            if entry is not None and self._watched.get(fd) is entry:  # else unwatched by another's callback
                entry.ready(events & entry.events)


def _file_of(fd: int) -> tuple[int, int]:
    status = os.fstat(fd)
    return status.st_dev, status.st_ino
