"""Frames over a stream socket: in both directions, in order, after both ends have authenticated.

**A frame** has a kind, a number of parts, their lengths, and the parts. Parts are written from where they are in memory
and each is read into a buffer of its own, so only the kernel copies a large array.

**The handshake.** Each end sends a random challenge, and answers the other's with a digest of the challenge and the
shared secret. The secret itself is never sent. An answer cannot be replayed. It cannot be reflected either, because the
digest includes the side that answers. Until the handshake is done, nothing is decoded, and frames must be small.

**Backpressure.** `is_congested` says that the other side does not keep up. A sender of batches then waits for
`on_drained`.
"""

from __future__ import annotations

import asyncio
import hmac
import os
import struct
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

from greenroom.errors import FrameTooLarge, HandshakeFailed, WireError
from greenroom.runtimelog import RuntimeLog

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

_HELLO = 0xFFF0
_PROOF = 0xFFF1


class Side:
    """Which end of a connection this is; part of the digest in the handshake."""

    LISTENING = b"listening"
    CONNECTING = b"connecting"


class _Transport(Protocol):
    """What a connection needs of its transport: `Stream` has it, and so have asyncio's own."""

    def write(self, data: Buffer, /) -> None: ...

    def writelines(self, pieces: Iterable[Buffer], /) -> None: ...

    def close(self) -> None: ...

    def abort(self) -> None: ...


class Connection(asyncio.BufferedProtocol):
    """One end of a connection. All methods run on the thread of its asyncio loop."""

    def __init__(
        self,
        side: bytes,
        secret: bytes,
        on_open: Callable[[Connection], object],
        on_frame: Callable[[int, list[bytearray]], object],
        on_lost: Callable[[BaseException | None], object],
        limit: int = DEFAULT_LIMIT,
        patience: float = HANDSHAKE_TIME,
    ) -> None:
        self._side = side
        self._secret = secret
        self._on_open = on_open
        self._on_frame = on_frame
        self._on_lost = on_lost
        self._limit = limit
        # Seconds that the handshake may take.
        self._patience = patience
        self._transport: Any = None  # a `_Transport`, once the socket is connected
        self._challenge = os.urandom(_CHALLENGE)
        self._timer: asyncio.TimerHandle | None = None
        # Whether the other end has authenticated; and whether it does not keep up with what we send.
        self.is_open = False
        self.is_congested = False
        self._drained: Callable[[], object] | None = None
        self._cause: BaseException | None = None
        # We read into a scratch buffer and look for frames there; a large part is read directly into its own buffer.
        self._scratch = bytearray(_FIRST_READ)
        self._filled = 0
        self._frame: _Incoming | None = None

    # -- sending

    def send(self, kind: int, parts: Sequence[Buffer]) -> None:
        """Send a frame. If it is too large, raise and send nothing of it."""
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
            self._transport.write(b"".join((head, *parts)))
        else:
            # From 3.12 on, asyncio's own never gets rid of an empty buffer at the end.
            self._transport.writelines((head, *(part for part, length in zip(parts, lengths, strict=True) if length)))

    def on_drained(self, callback: Callable[[], object]) -> None:
        """Call `callback` when the other side has caught up."""
        self._drained = callback

    def close(self, cause: BaseException | None = None) -> None:
        """Close the connection, after sending what is unsent."""
        if self._cause is None:
            self._cause = cause
        if self._transport is not None:
            self._transport.close()

    def abort(self, cause: BaseException) -> None:
        """Close the connection at once."""
        if self._cause is None:
            self._cause = cause
        if self._transport is not None:
            self._transport.abort()

    # -- called by the transport

    def connection_made(self, transport: asyncio.BaseTransport | _Transport) -> None:
        """The socket is connected; the other end has not authenticated yet."""
        self._transport = transport
        self._write(_HELLO, [_MAGIC, self._challenge])
        self._timer = asyncio.get_running_loop().call_later(self._patience, self._handshake_is_late)

    def connection_lost(self, exc: Exception | None) -> None:
        """The socket is closed, by either end."""
        if self._timer is not None:
            self._timer.cancel()
        self.is_open = self.is_congested = False
        cause = exc if self._cause is None else self._cause
        self._frame = None
        self._on_lost(cause)

    def pause_writing(self) -> None:
        """The other side does not keep up."""
        self.is_congested = True

    def resume_writing(self) -> None:
        """The other side has caught up."""
        self.is_congested = False
        if self._drained is not None:
            self._drained()

    def eof_received(self) -> bool:
        """The other side has closed the connection."""
        return False

    def get_buffer(self, sizehint: int) -> memoryview:
        """The buffer for the next read: the rest of the scratch buffer, or of a large part."""
        if self._frame is not None and self._frame.wants_directly():
            return self._frame.space()
        return memoryview(self._scratch)[self._filled :]

    def buffer_updated(self, nbytes: int) -> None:
        """`nbytes` bytes have been read into the buffer."""
        try:
            if self._frame is not None and self._frame.wants_directly():
                self._frame.advance(nbytes)
            else:
                self._filled += nbytes
            self._take_frames()
        except Exception as exc:
            if not isinstance(exc, WireError):
                _log.exception("a frame could not be taken, and the connection ends")
            self.abort(exc)

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
        self.abort(HandshakeFailed(f"the other end did not prove itself within {self._patience:g} s"))


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
        """`count` bytes have been read into `space()`."""
        self._at += count
        self._skip_full()
