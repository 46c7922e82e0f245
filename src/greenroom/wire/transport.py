"""How frames travel: over a stream socket, both ways, in order, after both ends have proved who they are.

**A frame** is a kind, a number of parts and their lengths, and the parts. Parts are written as they lie in memory, and
read into memory of their own, so a large array is copied by the kernel alone.

**The handshake.** Each end sends a random challenge, and answers the other's with a digest of it and of the secret that
both know: the secret itself is never sent, an answer cannot be used again, and an end's own challenge cannot be turned
against it, for the two sides answer in different words. Before the answer is right, nothing is decoded, and frames must
be small.

**Backpressure.** `is_congested` says that the other side does not keep up; whoever sends batches waits for `drained`.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import os
import struct
from collections.abc import Callable, Sequence
from typing import Any

from greenroom.errors import FrameTooLarge, HandshakeFailed, WireError

__all__ = ["DEFAULT_LIMIT", "Connection", "Side"]

_log = logging.getLogger("greenroom.wire")

DEFAULT_LIMIT = 1 << 28
"""Bytes of a frame at most: 256 MiB."""
HANDSHAKE_TIME = 10.0
"""Seconds that the other end has to prove who it is."""

_MAGIC = b"greenroom 1\n"
_CHALLENGE = 32
_HEAD = struct.Struct("<HH")
"""Of a frame: its kind, and how many parts it has; after that the length of each."""
_LENGTH = struct.Struct("<Q")
_MOST_PARTS = 4096
"""So that the head of any frame fits into one read."""
_SMALL = 4096
_FIRST_READ = 65_536

_HELLO = 0xFFF0
_PROOF = 0xFFF1


class Side:
    """Who began the connection; the two prove themselves in different words."""

    LISTENING = b"listening"
    CONNECTING = b"connecting"


class Connection(asyncio.BufferedProtocol):
    """One end of a connection. Everything happens on the thread of its asyncio loop."""

    def __init__(
        self,
        side: bytes,
        secret: bytes,
        on_open: Callable[[Connection], object],
        on_frame: Callable[[int, list[Any]], object],
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
        # Seconds that the other end has to prove who it is.
        self._patience = patience
        self._transport: Any = None
        self._challenge = os.urandom(_CHALLENGE)
        self._timer: asyncio.TimerHandle | None = None
        # Whether the other end has proved itself; and whether it does not keep up with what it is sent.
        self.is_open = False
        self.is_congested = False
        self._drained: Callable[[], object] | None = None
        self._cause: BaseException | None = None
        # What is being read: first into a scratch buffer, where frames are found; a large part goes where it belongs.
        self._scratch = bytearray(_FIRST_READ)
        self._filled = 0
        self._frame: _Incoming | None = None

    # -- sending

    def send(self, kind: int, parts: Sequence[Any]) -> None:
        """Send a frame. One that is too large is refused, and nothing of it is sent."""
        if not self.is_open:
            raise WireError("the connection is not open")
        self._write(kind, parts)

    def _write(self, kind: int, parts: Sequence[Any]) -> None:
        lengths = [part.nbytes if isinstance(part, memoryview) else len(part) for part in parts]
        if sum(lengths) > self._limit or len(parts) > _MOST_PARTS:
            raise FrameTooLarge(sum(lengths), self._limit)
        head = _HEAD.pack(kind, len(parts)) + b"".join(map(_LENGTH.pack, lengths))
        if sum(lengths) < _SMALL:
            self._transport.write(b"".join((head, *parts)))
        else:
            self._transport.writelines((head, *parts))

    def on_drained(self, callback: Callable[[], object]) -> None:
        """Have `callback` called when the other side has caught up."""
        self._drained = callback

    def close(self, cause: BaseException | None = None) -> None:
        """End the connection, with what has been sent already."""
        if self._cause is None:
            self._cause = cause
        if self._transport is not None:
            self._transport.close()

    def abort(self, cause: BaseException) -> None:
        """End the connection at once."""
        if self._cause is None:
            self._cause = cause
        if self._transport is not None:
            self._transport.abort()

    # -- what asyncio tells

    def connection_made(self, transport: Any) -> None:
        """The socket is connected: the other end may be anybody."""
        self._transport = transport
        self._write(_HELLO, [_MAGIC, self._challenge])
        self._timer = asyncio.get_running_loop().call_later(self._patience, self._handshake_is_late)

    def connection_lost(self, exc: Exception | None) -> None:
        """The socket is closed, by whomever."""
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
        """It has caught up."""
        self.is_congested = False
        if self._drained is not None:
            self._drained()

    def eof_received(self) -> bool:
        """The other side sends no more: it is gone."""
        return False

    def get_buffer(self, sizehint: int) -> memoryview:
        """Where to put what arrives: behind what is left of the last read, or where a large part belongs."""
        if self._frame is not None and self._frame.wants_directly():
            return self._frame.space()
        return memoryview(self._scratch)[self._filled :]

    def buffer_updated(self, nbytes: int) -> None:
        """So many bytes have arrived."""
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
        """Hand out all frames that are complete."""
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

    def _take(self, kind: int, parts: list[Any]) -> None:
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
    """A frame that is arriving."""

    __slots__ = ("_at", "_part", "head", "kind", "parts")

    def __init__(self, kind: int, lengths: Sequence[int], head: int) -> None:
        self.kind = kind
        self.head = head
        self.parts: list[Any] = [bytearray(length) for length in lengths]
        # The part that is being filled, and how far.
        self._part = 0
        self._at = 0
        self._skip_full()

    @classmethod
    def at(cls, data: memoryview, limit: int) -> _Incoming | None:
        """The frame whose head stands at the beginning of `data`, if all of the head is there."""
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
        """Take as much of `data` as belongs to it; how much that is."""
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
        """Whether the rest of the part in hand is worth being read to where it belongs."""
        return not self.is_complete() and len(self.parts[self._part]) - self._at >= _FIRST_READ

    def space(self) -> memoryview:
        """Where the rest of the part in hand belongs."""
        return memoryview(self.parts[self._part])[self._at :]

    def advance(self, count: int) -> None:
        """So much has been read there."""
        self._at += count
        self._skip_full()
