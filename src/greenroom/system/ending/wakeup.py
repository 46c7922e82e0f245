"""A signal is not overheard, whatever the main thread waits for.

Python calls a signal's handler on the main thread, between two steps. A signal that comes just before that thread goes
to sleep, in a lock or in a selector, or that another thread takes in, does not wake it: the handler is called when the
thread wakes by itself, which may be never. Here the signal is also written to a socket, which the asyncio loop reads.
A loop on the main thread is then awake, and one elsewhere sends the main thread another signal, which does wake it.
"""

from __future__ import annotations

import asyncio
import signal
import socket
from collections.abc import Callable
from contextlib import suppress

from greenroom.wire.forks import close_in_child, no_forks

__all__ = ["Wakeup"]

_BYTES = 4096


class Wakeup:
    """Has `on_signal(numbers)` called on the loop `aio` when signals have come, with the number of each."""

    __slots__ = ("_aio", "_is_deaf", "_is_elsewhere", "_is_over", "_on_signal", "_reader", "_writer")

    def __init__(
        self, aio: asyncio.AbstractEventLoop, on_signal: Callable[[bytes], object], *, is_elsewhere: bool
    ) -> None:
        self._aio = aio
        # Whether the loop runs on another thread than the main one.
        self._is_elsewhere = is_elsewhere
        self._on_signal = on_signal
        self._is_over = False
        self._is_deaf = False
        self._reader: socket.socket | None = None
        self._writer: socket.socket | None = None

    def hears(self) -> bool:
        """Whether signals are written to this socket, and not to one of the program. On the main thread."""
        writer = self._writer
        if writer is None or self._is_deaf:
            return False
        before = signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)
        if before not in (-1, writer.fileno()):
            signal.set_wakeup_fd(before, warn_on_full_buffer=False)
        return before == writer.fileno()  # if there was none, the next one is

    def open(self) -> None:
        """Begin, unless signals are written to another descriptor already: there can be only one."""
        if self._is_elsewhere:
            self._take()
        # uvloop takes them in itself when it runs, and is not to find ours when it stops.
        with suppress(RuntimeError):  # it is closed: the system has ended
            self._aio.call_soon_threadsafe(self._listen if self._is_elsewhere else self._take_and_listen)

    def close(self) -> None:
        """End. Has an effect once."""
        if self._give_back():
            try:
                if self._is_elsewhere:
                    self._aio.call_soon_threadsafe(self._leave)
                else:
                    self._leave()
            except RuntimeError:  # the loop is closed
                self._close_reader()

    def after_fork(self) -> None:
        """End in a forked child: what it writes would be read by its parent."""
        reader, self._reader = self._reader, None
        if self._give_back() and reader is not None:
            close_in_child(reader)  # the loop is the parent's, and so is what it waits with

    def _give_back(self) -> bool:
        self._is_over = True
        writer, self._writer = self._writer, None
        if writer is None:
            return False
        before = signal.set_wakeup_fd(-1)
        if before != writer.fileno():  # the program has replaced ours since
            signal.set_wakeup_fd(before, warn_on_full_buffer=False)
        writer.close()
        return True

    def _take_and_listen(self) -> None:
        if not self._is_over:
            self._take()
            self._listen()

    def _take(self) -> None:
        with no_forks:
            reader, writer = socket.socketpair()
        reader.setblocking(False)
        writer.setblocking(False)
        before = signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)
        if before == -1:
            self._reader, self._writer = reader, writer
        else:
            signal.set_wakeup_fd(before, warn_on_full_buffer=False)
            reader.close()
            writer.close()

    def _listen(self) -> None:
        if self._reader is not None and self._writer is not None:
            try:
                self._aio.add_reader(self._reader, self._read)
            except NotImplementedError:  # a loop that cannot wait for sockets this way, as Windows has one
                self._is_deaf = True

    def _read(self) -> None:
        reader = self._reader
        if reader is None:
            return
        try:
            numbers = reader.recv(_BYTES)
        except BlockingIOError:
            return
        if not numbers:  # the other end is closed
            self._leave()
            return
        self._on_signal(numbers)

    def _leave(self) -> None:
        if self._reader is not None:
            with suppress(NotImplementedError):
                self._aio.remove_reader(self._reader)
        self._close_reader()

    def _close_reader(self) -> None:
        reader, self._reader = self._reader, None
        if reader is not None:
            reader.close()
