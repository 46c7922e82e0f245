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

__all__ = ["DEFAULT_LIMIT", "Buffer", "Connection", "Side"]

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
        # We read into a scratch buffer and look for frames there; a large part is read directly into its own buffer.
        self._scratch = bytearray(_FIRST_READ)
        self._filled = 0
        self._frame: _Incoming | None = None

    def begin(self) -> None:
        """Start reading, and the handshake."""
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
        frame = self._frame
        is_direct = frame is not None and frame.wants_directly()
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
        try:
            if frame is not None and is_direct:
                frame.advance(count)
            else:
                self._filled += count
            self._take_frames()
        except Exception as exc:
            if not isinstance(exc, WireError):
                _log.exception("a frame could not be taken, and the connection ends")
            self._end(exc)

    def _take_frames(self) -> None:
        """Pass on all frames that are complete."""
        position = 0
        held = memoryview(self._scratch)
        while True:
            if self._frame is None:
                self._frame = _Incoming.at(held[position : self._filled], self._limit if self.is_open else _SMALL)
                if self._frame is None:
                    break
                position += self._frame.head
            position += self._frame.fill(held[position : self._filled])
            if not self._frame.is_complete():
                break
            frame, self._frame = self._frame, None
            self._take(frame.kind, frame.parts)
        left = self._filled - position
        if position:
            self._scratch[:left] = self._scratch[position : self._filled]
            self._filled = left

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
        """Close the connection at once."""
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

    __slots__ = ("_at", "_part", "head", "kind", "parts")

    def __init__(self, kind: int, lengths: Sequence[int], head: int) -> None:
        self.kind = kind
        self.head = head
        self.parts = [bytearray(length) for length in lengths]
        # The index of the part that is being filled, and how many bytes of it we have.
        self._part = 0
        self._at = 0
        self._skip_full()

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

    def _skip_full(self) -> None:
        while self._part < len(self.parts) and self._at == len(self.parts[self._part]):
            self._part += 1
            self._at = 0

    def is_complete(self) -> bool:
        return self._part == len(self.parts)

    def fill(self, data: memoryview) -> int:
        """Copy the bytes of `data` that belong to this frame; return their number."""
        taken = 0
        while not self.is_complete() and taken < len(data):
            part = self.parts[self._part]
            count = min(len(part) - self._at, len(data) - taken)
            part[self._at : self._at + count] = data[taken : taken + count]
            taken += count
            self._at += count
            self._skip_full()
        return taken

    def wants_directly(self) -> bool:
        """Whether the rest of the current part is large enough to be read directly into its buffer."""
        return not self.is_complete() and len(self.parts[self._part]) - self._at >= _FIRST_READ

    def space(self) -> memoryview:
        """The unfilled rest of the current part."""
        return memoryview(self.parts[self._part])[self._at :]

    def advance(self, count: int) -> None:
        self._at += count
        self._skip_full()
