"""File descriptors that an actor wants to hear of.

They are watched by a selector of our own, and asyncio waits only for that one's own descriptor: a descriptor closed
behind our back then drops out quietly, where uvloop would abort the process.
"""

from __future__ import annotations

import asyncio
import os
import selectors
from collections.abc import Callable

from greenroom.errors import TooManyWatches, WatchError

__all__ = ["FdWatches"]

_READ = selectors.EVENT_READ
_WRITE = selectors.EVENT_WRITE


class FdWatches:
    """The watched descriptors of one poller."""

    def __init__(self, aio: asyncio.AbstractEventLoop, limit: int) -> None:
        self._aio = aio
        self._limit = limit
        self._selector: selectors.DefaultSelector | None = None

    def add(self, fd: int, on_readable: Callable[[], object] | None, on_writable: Callable[[], object] | None) -> None:
        """Call back when `fd` can be read or written, again and again while it can."""
        try:
            os.fstat(fd)  # before our own selector can get the number of a closed one
            selector = self._selector or self._open()
            if fd in selector.get_map():
                raise WatchError(fd, "it is watched already; unwatch it first")
            if len(selector.get_map()) >= self._limit:
                raise TooManyWatches(self._limit)
            interest = (_READ if on_readable else 0) | (_WRITE if on_writable else 0)
            selector.register(fd, interest, (on_readable, on_writable))
        except (OSError, OverflowError, ValueError) as exc:
            raise WatchError(fd, f"{exc}: is it open, and something the system can wait for?") from exc

    def remove(self, fd: int) -> bool:
        """Watch `fd` no more; False when it was not watched."""
        if self._selector is None:
            return False
        try:
            self._selector.unregister(fd)
        except (KeyError, ValueError):
            return False
        return True

    def close(self) -> None:
        """Watch nothing more."""
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
        watched = self._selector.get_map()
        for key, events in self._selector.select(0):
            if watched.get(key.fd) is not key:
                continue  # unwatched by another's callback
            on_readable, on_writable = key.data
            if events & _READ and on_readable is not None:
                on_readable()
            if events & _WRITE and on_writable is not None:
                on_writable()
