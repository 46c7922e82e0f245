"""Runs the `start` of a meta-process on a thread of its own, or as a task of the event loop, and ends it.

Python cannot interrupt a thread that is blocked in a system call. So a thread that waits for a descriptor polls a pipe
too, which is made for that wait alone: no other descriptor is ever written to, replaced or closed.
"""

from __future__ import annotations

import asyncio
import math
import os
import select
import socket
import stat
import sys
import threading
import traceback
from contextlib import suppress
from contextvars import copy_context
from typing import TYPE_CHECKING, cast

from greenroom._core.current import current_reader

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterator

    from _typeshed import FileDescriptorLike

    from greenroom.meta.process.metaprocess import Incarnation

BETWEEN_ATTEMPTS = 0.03
_lock = threading.Lock()


class ReaderStopped(BaseException):
    """Raised where `start()` waits for a descriptor, or for room, when its meta-process is to end. Do not catch it."""


class Waits:
    """Where the threads of one meta-process wait. Any thread may call any of this."""

    __slots__ = ("_event", "_wakers", "is_over", "is_used")

    def __init__(self) -> None:
        # Invariant: all of these are written under _lock
        self._event: threading.Event | None = None
        # The writing ends of the pipes that wake those who wait for descriptors.
        self._wakers: tuple[int, ...] = ()
        self.is_over = False
        # Whether a thread has ever waited here. Such a thread leaves by itself.
        self.is_used = False

    def end(self) -> None:
        """Wake all that wait, now and from now on."""
        with _lock:
            self.is_over = True
            if self._event is not None:
                self._event.set()
            for waker in self._wakers:
                os.write(waker, b"\0")

    def wait_for_end(self, seconds: float | None) -> bool:
        """Block until the end, for at most `seconds`; True if it has come."""
        with _lock:
            self.is_used = True
            if self._event is None:
                self._event = threading.Event()
                if self.is_over:
                    self._event.set()
        return self._event.wait(seconds)

    def wait_for_fd(self, fd: FileDescriptorLike, events: int, seconds: float | None) -> bool:
        """Block until one of the `events` of a poll has come, for at most `seconds`; True if one has."""
        timeout = None if seconds is None else math.ceil(1000 * max(seconds, 0.0))
        number = fd if isinstance(fd, int) else fd.fileno()
        os.fstat(number)  # raises if it is closed; else the pipe could become what it waits for
        woken, waker = os.pipe()
        try:
            poll = select.poll()
            poll.register(number, events)
            poll.register(woken, select.POLLIN)
            with _lock:
                self.is_used = True
                if self.is_over:
                    raise ReaderStopped
                self._wakers += (waker,)
            try:
                ready = poll.poll(timeout)
            finally:
                with _lock:
                    self._wakers = tuple(one for one in self._wakers if one != waker)
        finally:
            os.close(woken)
            os.close(waker)
        if self.is_over:
            raise ReaderStopped
        return bool(ready)


class Reader:
    """Runs one `start`, until it is `over`. All its methods are for the loop's own thread."""

    __slots__ = ("_incarnation", "_waiter", "has_returned", "over")

    def __init__(self, incarnation: Incarnation) -> None:
        self._incarnation = incarnation
        self._waiter: asyncio.Future[None] | None = None
        # Invariant: written by the thread that runs `start`; `over` by the loop's own, which knows of it a moment later
        self.has_returned = False
        self.over = False

    def break_off(self) -> bool:
        """End what `start` waits for; False if there was nothing to end."""
        raise NotImplementedError

    async def wait_until_over(self, until: float) -> bool:
        """Return when `start` is over, or at `until`; False if the waiting itself was cancelled meanwhile.

        `start` is broken off again and again, for it may wait for something else by now.
        """
        aio = asyncio.get_running_loop()
        try:
            while not self.over and (left := until - aio.time()) > 0:
                self._waiter = aio.create_future()
                await asyncio.wait([self._waiter], timeout=min(left, BETWEEN_ATTEMPTS))
                if not self.over:
                    self.break_off()
        except asyncio.CancelledError:
            return False
        finally:
            self._waiter = None
        return True

    def _returned(self) -> None:
        self.has_returned = True
        self._incarnation.close_what_is_left()

    def _ended(self, error: BaseException | None) -> None:
        self.over = True
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
        self._incarnation.reader_ended(error)


class ThreadReader(Reader):
    """Runs `start` on a thread: it may block."""

    __slots__ = ("_thread",)

    def begin(self) -> None:
        name = f"{self._incarnation.ctx.system.name} reads {self._incarnation.alias.path}"
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        current_reader.set(self._incarnation.alias)
        error: BaseException | None = None
        try:
            self._incarnation.meta.start()
        except ReaderStopped:
            pass
        except BaseException as exc:
            error = exc
        self._returned()
        self._incarnation.ctx.cell.loop.inbound.post(None, lambda: self._join(error))

    def _join(self, error: BaseException | None) -> None:
        self._thread.join()  # it has nothing left to do
        self._ended(error)

    def break_off(self) -> bool:
        # What waits in `wait_readable()` and its like ends by itself.
        return shut_down(self._incarnation.meta)

    def stack(self) -> str:
        frame = sys._current_frames().get(self._thread.ident or 0)
        return "" if frame is None else "".join(traceback.format_stack(frame))


class TaskReader(Reader):
    """Runs `start` as a task of the system's event loop: it awaits, and never blocks."""

    __slots__ = ("_task",)

    def begin(self) -> None:
        aio = self._incarnation.ctx.cell.loop.visits.stepper.aio
        context = copy_context()
        if self._incarnation.callbacks.own_code:
            context.run(current_reader.set, self._incarnation.alias)
        start = cast("Coroutine[object, object, object]", self._incarnation.meta.start())
        self._task = aio.create_task(start, context=context)
        self._task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[object]) -> None:
        self._returned()
        if not task.cancelled():
            self._ended(task.exception())
            return
        try:
            task.exception()
        except asyncio.CancelledError as exc:
            # The error holds its frames, and through them the whole meta-process. On CPython 3.11 such an error was
            # seen to be left when nothing referred to it any more.
            traceback.clear_frames(exc.__traceback__)
        self._ended(None if self._incarnation.is_stopping else asyncio.CancelledError())

    def break_off(self) -> bool:
        return bool(self._task.cancel())

    def stack(self) -> str:
        return "".join("".join(traceback.format_stack(frame)) for frame in self._task.get_stack()[-1:])


def shut_down(meta: object) -> bool:
    """Shut down the sockets among the attributes of `meta`, also those in lists; False if there are none.

    That wakes all threads that read, write, accept or poll there.
    """
    found = False
    for thing in _parts(meta):
        if isinstance(thing, socket.socket) and thing.fileno() >= 0:
            found = True
            with suppress(OSError):  # one that is not connected says so, and wakes its readers all the same
                thing.shutdown(socket.SHUT_RDWR)
    return found


def _parts(meta: object) -> Iterator[object]:
    for thing in list(vars(meta).values()):
        yield thing
        if isinstance(thing, list | tuple | set | frozenset):
            yield from list(thing)
        elif isinstance(thing, dict):
            yield from list(thing.values())


def close_held(meta: object) -> None:
    """Close the sockets and files among the attributes of `meta` that `terminate()` has left open."""
    for thing in list(vars(meta).values()):
        with suppress(Exception):
            if isinstance(thing, socket.socket) or (hasattr(thing, "close") and _is_pipe(thing.fileno())):
                thing.close()


def _is_pipe(fd: int) -> bool:
    # Not this program's own input or output.
    kind = os.fstat(fd).st_mode
    return fd > 2 and (stat.S_ISFIFO(kind) or stat.S_ISCHR(kind))
