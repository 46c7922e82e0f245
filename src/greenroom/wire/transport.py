"""Frames over a stream socket: in both directions, in order, after both ends have authenticated.

**A frame** has a kind, a number of parts, their lengths, and the parts. Parts are written from where they are in memory
and each is read into a buffer of its own, so only the kernel copies a large array. asyncio's own transports would copy
what the kernel does not take at once.

**The handshake.** Each end sends a random challenge, and answers the other's with a digest of the challenge and the
shared secret. The secret itself is never sent. An answer cannot be replayed. It cannot be reflected either, because the
digest includes the side that answers. Until the handshake is done, nothing is decoded, and frames must be small.

**Pumping.** Code that needs an answer at once can send and receive frames without returning to asyncio, whose own
transports cannot block.

**Backpressure.** `is_congested` says that the other side does not keep up.
"""

from __future__ import annotations

import asyncio
import hmac
import os
import select
import socket
import struct
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from time import monotonic

from greenroom.errors import FrameTooLarge, HandshakeFailed, WireError
from greenroom.runtimelog import RuntimeLog
from greenroom.wire.forks import close_in_child

_log = RuntimeLog("greenroom.wire")

Buffer = bytes | bytearray | memoryview

DEFAULT_LIMIT = 1 << 28
"""The maximum size of a frame, in bytes: 256 MiB."""
HANDSHAKE_TIME = 10.0
"""Seconds that the handshake may take."""

_MAGIC = b"greenroom 1\n"
_CHALLENGE = 32
_HEAD = struct.Struct("<HH")
"""The head of a frame: its kind, and the number of its parts. The length of each part follows."""
_LENGTH = struct.Struct("<Q")
_MOST_PARTS = 4096
"""Few enough that the head of any frame fits into one read."""
_SMALL = 4096
_FIRST_READ = 65_536

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

_HELLO = 0xFFF0
_PROOF = 0xFFF1


class Side:
    """Which end of a connection this is; part of the digest in the handshake."""

    LISTENING = b"listening"
    CONNECTING = b"connecting"


class Connection:
    """One end of a connection. All methods run on the thread of its asyncio loop."""

    def __init__(
        self,
        aio: asyncio.AbstractEventLoop,
        sock: socket.socket,
        side: bytes,
        secret: bytes,
        on_open: Callable[[Connection], object],
        on_frame: Callable[[int, list[bytearray]], object],
        on_lost: Callable[[BaseException | None], object],
        limit: int = DEFAULT_LIMIT,
        patience: float = HANDSHAKE_TIME,
    ) -> None:
        self._aio = aio
        self._sock = sock
        self._side = side
        self._secret = secret
        self._on_open = on_open
        self._on_frame = on_frame
        self._on_lost = on_lost
        self._limit = limit
        # Seconds that the handshake may take.
        self._patience = patience
        self._challenge = os.urandom(_CHALLENGE)
        self._timer: asyncio.TimerHandle | None = None
        # Whether the other end has authenticated; and whether it does not keep up with what we send.
        self.is_open = False
        self.is_congested = False
        # Invariant: unsent buffers, and their size; asyncio has a writer iff there are some and the socket is open
        self._waiting: deque[memoryview] = deque()
        self._bytes = 0
        self._received = 0
        self._is_closed = False
        self._is_closing = False
        # What is read goes into a scratch buffer. Invariant: what is between _taken and _filled is yet to be looked at
        self._scratch = bytearray(_FIRST_READ)
        self._taken = self._filled = 0
        self._frame: _Incoming | None = None

    def begin(self) -> None:
        self._sock.setblocking(False)
        for option in (socket.SO_SNDBUF, socket.SO_RCVBUF):
            with suppress(OSError):
                self._sock.setsockopt(socket.SOL_SOCKET, option, _BUFFER)
        self._aio.add_reader(self._sock, self._can_read)
        self._timer = self._aio.call_later(self._patience, self._handshake_is_late)
        self._write(_HELLO, [_MAGIC, self._challenge])

    # -- sending

    def send(self, kind: int, parts: Sequence[Buffer]) -> None:
        """Send a frame; its buffers must not change until they are sent. If it is too large, raise and send nothing."""
        if not self.is_open:
            raise WireError("the connection is not open")
        self._write(kind, parts)

    def _write(self, kind: int, parts: Sequence[Buffer]) -> None:
        lengths = [part.nbytes if isinstance(part, memoryview) else len(part) for part in parts]
        if sum(lengths) > self._limit:
            raise FrameTooLarge(sum(lengths), self._limit)
        if len(parts) > _MOST_PARTS:
            raise WireError(f"a frame of {len(parts):,} parts: it may have {_MOST_PARTS:,} at most")
        head = _HEAD.pack(kind, len(parts)) + b"".join(map(_LENGTH.pack, lengths))
        if sum(lengths) < _SMALL:
            self._write_all((b"".join((head, *parts)),))
        else:
            self._write_all((head, *parts))

    def _write_all(self, pieces: Iterable[Buffer]) -> None:
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
            self._send_some()
            if self._waiting and not self._is_closed:
                self._aio.add_writer(self._sock, self._can_write)
        if self._bytes >= _CONGESTED:
            self.is_congested = True

    def _send_some(self) -> None:
        while self._waiting:
            pieces = [self._waiting[i] for i in range(min(len(self._waiting), _MOST_AT_ONCE))]
            try:
                sent = self._sock.sendmsg(pieces)
            except (BlockingIOError, InterruptedError):
                return
            except OSError as exc:
                # Not at once: the sender does not expect the connection to be lost while it sends.
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
        was_waiting = bool(self._waiting)
        self._send_some()
        if was_waiting and not self._waiting and not self._is_closed:
            self._aio.remove_writer(self._sock)
            if self._is_closing:
                self._end(None)
                return
        if self._bytes < _CONGESTED // 4:
            self.is_congested = False

    # -- receiving

    def _can_read(self) -> None:
        # A large part is read directly into its own buffer.
        frame = self._frame
        is_direct = frame is not None and frame.missing() >= _FIRST_READ
        space = frame.space() if frame is not None and is_direct else memoryview(self._scratch)[self._filled :]
        try:
            count = self._sock.recv_into(space)
        except (BlockingIOError, InterruptedError):
            return
        except OSError as exc:
            self._end(exc)
            return
        if count == 0:
            self._end(None)
            return
        self._received += count
        if frame is not None and is_direct:
            frame.advance(count)
        else:
            self._filled += count
        self._take_frames()

    def _take_frames(self) -> None:
        """Pass on all frames that are complete. What takes one may pump, and take the next."""
        try:
            while (frame := self._next_frame()) is not None:
                self._take(frame.kind, frame.parts)
        except Exception as exc:
            if not isinstance(exc, WireError):
                _log.exception("a frame could not be taken, and the connection ends")
            self._end(exc)

    def _next_frame(self) -> _Incoming | None:
        held = memoryview(self._scratch)[self._taken : self._filled]
        if self._frame is None and not self._is_closed:
            self._frame = _Incoming.at(held, self._limit if self.is_open else _SMALL)
            held = held[0 if self._frame is None else self._frame.head :]
        if self._frame is not None:
            held = held[self._frame.fill(held) :]
        self._taken = self._filled - len(held)
        if self._frame is None or self._frame.missing():
            # Only part of a frame is left: make room behind it.
            self._scratch[: len(held)] = bytes(held)
            self._taken, self._filled = 0, len(held)
            return None
        frame, self._frame = self._frame, None
        return frame

    def _take(self, kind: int, parts: list[bytearray]) -> None:
        if self.is_open:
            self._on_frame(kind, parts)
        elif kind == _HELLO and len(parts) == 2 and bytes(parts[0]) == _MAGIC and len(parts[1]) == _CHALLENGE:
            self._write(_PROOF, [self._digest(self._side, bytes(parts[1]))])
        elif kind == _PROOF and len(parts) == 1:
            self._check(bytes(parts[0]))
        else:
            raise HandshakeFailed("the other end does not speak as we do: is it of the same version?")

    def _digest(self, side: bytes, challenge: bytes) -> bytes:
        return hmac.digest(self._secret, side + challenge, "sha256")

    def _check(self, proof: bytes) -> None:
        other = Side.CONNECTING if self._side is Side.LISTENING else Side.LISTENING
        if not hmac.compare_digest(proof, self._digest(other, self._challenge)):
            raise HandshakeFailed("the other end does not know the secret")
        if self._timer is not None:
            self._timer.cancel()
        self.is_open = True
        self._on_open(self)

    def _handshake_is_late(self) -> None:
        self._end(HandshakeFailed(f"the other end did not prove itself within {self._patience:g} s"))

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
        self._take_frames()
        while not is_done():
            if self._is_closed or monotonic() >= deadline:
                return False
            poll.register(self._sock, select.POLLIN | (select.POLLOUT if self._waiting else 0))
            for _, events in poll.poll(min(max(0.0, deadline - monotonic()), _LONGEST_POLL) * 1000.0):
                if events & select.POLLOUT:
                    self._can_write()
                if events & ~select.POLLOUT and not self._is_closed:
                    self._can_read()
        return True

    # -- the end

    def close(self) -> None:
        """Close the connection, after sending what is unsent."""
        if self._is_closed or self._is_closing:
            return
        self._is_closing = True
        if not self._waiting:
            self._end(None)

    def abort(self) -> None:
        self._end(None)

    def after_fork(self) -> None:
        """In a forked child: close our copy of the socket, and leave the parent's alone."""
        self._is_closed = True
        self.is_open = self.is_congested = False
        close_in_child(self._sock)

    def _end(self, cause: BaseException | None) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()
        if not self._aio.is_closed():
            self._aio.remove_reader(self._sock)
            self._aio.remove_writer(self._sock)
        self._sock.close()
        self._waiting.clear()
        self._frame = None
        self.is_open = self.is_congested = False
        self._on_lost(cause)


class _Incoming:
    """A frame that is being received."""

    def __init__(self, kind: int, lengths: Sequence[int], head: int) -> None:
        self.kind = kind
        self.head = head
        self.parts = [bytearray(length) for length in lengths]
        # Invariant: the unfilled rest of each part that is not complete, but for empty ones
        self._rest = deque(memoryview(part) for part in self.parts if part)

    @classmethod
    def at(cls, data: memoryview, limit: int) -> _Incoming | None:
        """The frame whose head is at the beginning of `data`; None if the head is incomplete."""
        if len(data) < _HEAD.size:
            return None
        kind, count = _HEAD.unpack_from(data)
        head = _HEAD.size + count * _LENGTH.size
        if count > _MOST_PARTS or head > limit:
            raise FrameTooLarge(head, limit)
        if len(data) < head:
            return None
        lengths = struct.unpack_from(f"<{count}Q", data, _HEAD.size)
        if sum(lengths) > limit:
            raise FrameTooLarge(sum(lengths), limit)
        return cls(kind, lengths, head)

    def missing(self) -> int:
        """How many bytes of the current part are missing; 0 if the frame is complete."""
        return len(self._rest[0]) if self._rest else 0

    def space(self) -> memoryview:
        return self._rest[0]

    def fill(self, data: memoryview) -> int:
        """Copy the bytes of `data` that belong to this frame; return their number."""
        taken = 0
        while self._rest and taken < len(data):
            count = min(self.missing(), len(data) - taken)
            self._rest[0][:count] = data[taken : taken + count]
            self.advance(count)
            taken += count
        return taken

    def advance(self, count: int) -> None:
        """The next `count` bytes of the current part are there."""
        self._rest[0] = self._rest[0][count:]
        if not self._rest[0]:
            self._rest.popleft()
