"""The transport of a `Connection` between two processes of one machine: a stream socket.

asyncio's own transports copy what the kernel does not take at once, and they cannot block. This one sends buffers from
where they are, without copying them. It can also be *pumped*: code that needs an answer at once can send and receive
frames without returning to asyncio.
"""

from __future__ import annotations

import asyncio
import select
import socket
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from time import monotonic

from greenroom.wire.forks import close_in_child
from greenroom.wire.transport import Buffer, Connection

__all__ = ["Stream"]

_BUFFER = 1 << 20
"""The size of the kernel's buffer that we ask for, per direction; it may give less."""
_MOST_AT_ONCE = 64
"""Buffers that we pass to the kernel in one call, at most."""
_MOST_READS = 1024
"""Reads of what a process has left behind, at most: it is no more than the kernel's buffer holds."""
_LONGEST_POLL = 3600.0
"""Seconds that we wait for the socket in one call, at most: the system's own limit is some weeks."""
_CONGESTED = 1 << 24
"""Unsent bytes from which on the connection counts as congested."""


class Stream:
    """Moves bytes between `connection` and a socket. Everything happens on the thread of its asyncio loop."""

    def __init__(self, aio: asyncio.AbstractEventLoop, sock: socket.socket, connection: Connection) -> None:
        self._aio = aio
        self._sock = sock
        self._connection = connection
        # Invariant: unsent buffers, and their size; asyncio has a writer iff there are some and the socket is open
        self._waiting: deque[memoryview] = deque()
        self._bytes = 0
        self._received = 0
        self._is_closed = False
        self._is_closing = False

    def begin(self) -> None:
        """Open the connection, and start reading."""
        self._sock.setblocking(False)
        for option in (socket.SO_SNDBUF, socket.SO_RCVBUF):
            with suppress(OSError):
                self._sock.setsockopt(socket.SOL_SOCKET, option, _BUFFER)
        self._aio.add_reader(self._sock, self._can_read)
        self._connection.connection_made(self)

    # -- the transport of the connection

    def write(self, data: Buffer) -> None:
        """Send bytes, in order. The buffer must not change until it is sent."""
        self.writelines((data,))

    def writelines(self, pieces: Iterable[Buffer]) -> None:
        """Send several buffers."""
        if self._is_closed or self._is_closing:
            return
        was_waiting = bool(self._waiting)
        for piece in pieces:
            view = memoryview(piece)
            if view.format != "B":
                view = view.cast("B")
            if view.nbytes:
                self._waiting.append(view)
                self._bytes += view.nbytes
        if not was_waiting:
            self._send()
            if self._waiting and not self._is_closed:
                self._aio.add_writer(self._sock, self._can_write)
        if self._bytes >= _CONGESTED and not self._connection.is_congested:
            self._connection.pause_writing()

    def close(self) -> None:
        """Send what is unsent, then close the socket."""
        if self._is_closed or self._is_closing:
            return
        self._is_closing = True
        if not self._waiting:
            self._end(None)

    def abort(self) -> None:
        """Close the socket at once."""
        self._end(None)

    def after_fork(self) -> None:
        """In a forked child: close our copy of the socket, and leave the parent's alone."""
        self._is_closed = True
        close_in_child(self._sock)

    # -- the socket

    def _send(self) -> None:
        while self._waiting:
            pieces = [self._waiting[i] for i in range(min(len(self._waiting), _MOST_AT_ONCE))]
            try:
                sent = self._sock.sendmsg(pieces)
            except (BlockingIOError, InterruptedError):
                return
            except OSError as exc:
                # Not at once: the sender does not expect the connection to be lost during `write`.
                self._waiting.clear()
                self._is_closing = True
                self._aio.call_soon(self._end, exc)
                return
            self._bytes -= sent
            while sent:
                first = self._waiting[0]
                if sent < first.nbytes:
                    self._waiting[0] = first[sent:]
                    break
                sent -= first.nbytes
                self._waiting.popleft()

    def _can_write(self) -> None:
        self._send()
        if not self._waiting:
            self._aio.remove_writer(self._sock)
            if self._is_closing:
                self._end(None)
                return
        self._look_at_congestion()

    def _look_at_congestion(self) -> None:
        if self._connection.is_congested and self._bytes < _CONGESTED // 4:
            self._connection.resume_writing()

    def _can_read(self) -> None:
        try:
            count = self._sock.recv_into(self._connection.get_buffer(-1))
        except (BlockingIOError, InterruptedError):
            return
        except OSError as exc:
            self._end(exc)
            return
        if count == 0:
            self._end(None)
        else:
            self._received += count
            self._connection.buffer_updated(count)

    def read_rest(self) -> None:
        """The process at the other end is gone: read what it has sent, and close the socket.

        A child of it may hold its socket, so that there is no end of file; and may even write to it.
        """
        before = -1
        for _ in range(_MOST_READS):
            if self._is_closed or before == self._received:
                break
            before = self._received
            self._can_read()
        self._end(None)

    def pump(self, is_done: Callable[[], bool], deadline: float) -> bool:
        """Send and receive until `is_done()`. False if the deadline passes first, or the socket closes."""
        poll = select.poll()
        while not is_done():
            if self._is_closed or monotonic() >= deadline:
                return False
            poll.register(self._sock, select.POLLIN | (select.POLLOUT if self._waiting else 0))
            for _, events in poll.poll(min(max(0.0, deadline - monotonic()), _LONGEST_POLL) * 1000.0):
                if events & select.POLLOUT:
                    self._send_on()
                if events & ~select.POLLOUT and not self._is_closed:
                    self._can_read()
        return True

    def _send_on(self) -> None:
        was_waiting = bool(self._waiting)
        self._send()
        if was_waiting and not self._waiting and not self._is_closed:
            self._aio.remove_writer(self._sock)
        self._look_at_congestion()

    def _end(self, error: Exception | None) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        if not self._aio.is_closed():
            self._aio.remove_reader(self._sock)
            self._aio.remove_writer(self._sock)
        self._sock.close()
        self._waiting.clear()
        self._connection.connection_lost(error)
