"""How a stream of bytes is cut into frames.

>>> lines = Lines().decoder()
>>> list(lines.feed(b"one\\ntw")), list(lines.feed(b"o\\n"))
([b'one'], [b'two'])
>>> LengthPrefixed(2).encode(b"abc")
b'\\x00\\x03abc'
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Literal

from greenroom.errors import ConfigError, FrameError, FrameTooLarge
from greenroom.validation import require_whole

MIB = 1 << 20


class Decoder:
    """Cuts one stream into frames. This one takes each piece for a frame."""

    __slots__ = ()

    def feed(self, data: bytes) -> Iterable[Any]:
        """The frames that `data` completes, at once or one by one; after them, `FrameTooLarge` or `FrameError`."""
        return (data,)

    def finish(self) -> Iterable[Any]:
        """The stream has ended: the frame that this completes, if there is one. Raises `FrameError` within a frame."""
        return ()


class _Cutter(Decoder):
    """Keeps what is no frame yet. `cut` takes frames from the front of that."""

    __slots__ = ("_cut", "_kept", "_unit")

    def __init__(self, cut: Callable[[bytearray], Iterable[Any]], unit: str = "bytes of it") -> None:
        self._cut = cut
        self._kept = bytearray()
        self._unit = unit

    def feed(self, data: bytes) -> Iterable[Any]:
        self._kept += data
        return self._cut(self._kept)

    def finish(self) -> Iterable[Any]:
        if self._kept:
            raise FrameError(f"the stream ended within a frame, after {len(self._kept)} {self._unit}")
        return ()


class Framing:
    """The base of all framings: makes a decoder for each connection, and encodes what is written."""

    __slots__ = ()

    def decoder(self) -> Decoder:
        """A decoder for one connection."""
        raise NotImplementedError

    def encode(self, data: Any) -> bytes:
        """A frame as it goes over the wire."""
        raise NotImplementedError


def _require_bytes(data: object) -> bytes:
    if isinstance(data, bytes):
        return data
    if isinstance(data, bytearray | memoryview):
        return bytes(data)
    raise TypeError(f"a connection writes bytes, not {type(data).__name__}: encode it, or give it another framing")


def _require_size(name: str, size: int) -> int:
    require_whole(name, size, "a number of bytes, and at least 1", 1)
    return size


def require_encoding(encoding: str | None) -> str | None:
    if encoding is not None:
        try:
            "".encode(encoding)
        except (LookupError, TypeError) as exc:
            raise ConfigError("encoding", encoding, f'must be the name of an encoding, as in "utf-8": {exc}') from exc
    return encoding


class Raw(Framing):
    """No frames: what the network brings, in the pieces in which it comes."""

    __slots__ = ()

    def decoder(self) -> Decoder:
        return Decoder()

    def encode(self, data: Any) -> bytes:
        return data if type(data) is bytes else _require_bytes(data)


RAW = Raw()


class Lines(Framing):
    """Frames that end in `delimiter`, which is taken off. With an `encoding`, they are text.

    What comes after the last delimiter when the stream ends is a line too.
    """

    __slots__ = ("delimiter", "encoding", "max_size")

    def __init__(self, delimiter: bytes = b"\n", *, max_size: int = MIB, encoding: str | None = None) -> None:
        given: object = delimiter
        if not isinstance(given, bytes) or not given:
            raise ConfigError("delimiter", delimiter, "must be bytes, and not empty")
        self.delimiter = delimiter
        self.max_size = _require_size("max_size", max_size)
        self.encoding = require_encoding(encoding)

    def decoder(self) -> Decoder:
        return _LineDecoder(self)

    def encode(self, data: Any) -> bytes:
        if isinstance(data, str) and self.encoding is not None:
            return data.encode(self.encoding) + self.delimiter
        return _require_bytes(data) + self.delimiter


class _LineDecoder(_Cutter):
    __slots__ = ("_framing", "_searched")

    def __init__(self, framing: Lines) -> None:
        super().__init__(self._cut_lines)
        self._framing = framing
        # How far there is no delimiter: a long line that comes byte by byte is not searched from its start each time.
        self._searched = 0

    def feed(self, data: bytes) -> Iterable[Any]:
        delimiter = self._framing.delimiter
        if not self._kept and 0 <= data.find(delimiter) == len(data) - len(delimiter):  # as most come
            return (self._shown(data[: -len(delimiter)]),)
        return super().feed(data)

    def _cut_lines(self, kept: bytearray) -> Iterator[Any]:
        framing = self._framing
        delimiter = framing.delimiter
        start = 0
        try:
            while (end := kept.find(delimiter, max(start, self._searched))) >= 0:
                frame = bytes(kept[start:end])
                self._searched = start = end + len(delimiter)
                yield self._shown(frame)
        finally:
            del kept[:start]
            self._searched = max(0, len(kept) - len(delimiter) + 1)
        if len(kept) > framing.max_size + len(delimiter) - 1:
            raise FrameTooLarge(len(kept), framing.max_size)

    def finish(self) -> Iterable[Any]:
        kept, self._kept = bytes(self._kept), bytearray()
        return (self._shown(kept),) if kept else ()

    def _shown(self, line: bytes) -> Any:
        framing = self._framing
        if len(line) > framing.max_size:
            raise FrameTooLarge(len(line), framing.max_size)
        if framing.encoding is None:
            return line
        try:
            return line.decode(framing.encoding)
        except UnicodeDecodeError as exc:
            raise FrameError(f"a line is no {framing.encoding}: {exc}") from exc


class LengthPrefixed(Framing):
    """Frames that begin with their length, a number of `size` bytes."""

    __slots__ = ("byteorder", "max_size", "size")

    def __init__(self, size: int = 4, *, byteorder: Literal["big", "little"] = "big", max_size: int = MIB) -> None:
        if size not in (1, 2, 4, 8):
            raise ConfigError("size", size, "must be 1, 2, 4 or 8 bytes")
        if byteorder not in ("big", "little"):
            raise ConfigError("byteorder", byteorder, "must be 'big' or 'little'")
        self.size = size
        self.byteorder: Literal["big", "little"] = byteorder
        self.max_size = min(_require_size("max_size", max_size), (1 << 8 * size) - 1)

    def decoder(self) -> Decoder:
        return _Cutter(self._cut)

    def encode(self, data: Any) -> bytes:
        frame = _require_bytes(data)
        if len(frame) > self.max_size:
            raise FrameTooLarge(len(frame), self.max_size)
        return len(frame).to_bytes(self.size, self.byteorder) + frame

    def _cut(self, kept: bytearray) -> Iterator[bytes]:
        start, size = 0, self.size
        try:
            while len(kept) - start >= size:
                length = int.from_bytes(kept[start : start + size], self.byteorder)
                if length > self.max_size:
                    raise FrameTooLarge(length, self.max_size)
                if len(kept) - start - size < length:
                    break
                start += size + length
                yield bytes(kept[start - length : start])
        finally:
            del kept[:start]


class Fixed(Framing):
    """Frames of `size` bytes each."""

    __slots__ = ("size",)

    def __init__(self, size: int) -> None:
        self.size = _require_size("size", size)

    def decoder(self) -> Decoder:
        return _Cutter(self._cut, f"of {self.size} bytes")

    def encode(self, data: Any) -> bytes:
        frame = _require_bytes(data)
        if len(frame) != self.size:
            raise FrameError(f"a frame has {self.size} bytes here, and not {len(frame)}")
        return frame

    def _cut(self, kept: bytearray) -> list[bytes]:
        size = self.size
        whole = len(kept) - len(kept) % size
        frames = [bytes(kept[start : start + size]) for start in range(0, whole, size)]
        del kept[:whole]
        return frames


class Custom(Framing):
    """Frames of your own: `decode` is called with the bytes that are left over, and takes frames from their front.

    It returns the frames it finds, and deletes from the `bytearray` what they are made of. What it raises closes the
    connection. `encode` turns what is written into bytes.

    >>> def decode(data: bytearray) -> list[int]:
    ...     numbers = list(data)
    ...     data.clear()
    ...     return numbers
    >>> list(Custom(decode, lambda number: bytes([number])).decoder().feed(b"ab"))
    [97, 98]
    """

    __slots__ = ("_decode", "_encode", "max_size")

    def __init__(
        self,
        decode: Callable[[bytearray], Iterable[Any]],
        encode: Callable[[Any], bytes] | None = None,
        *,
        max_size: int = MIB,
    ) -> None:
        for name, function in (("decode", decode), ("encode", encode)):
            if not callable(function) and not (name == "encode" and function is None):
                raise ConfigError(name, function, "must be a function")
        self._decode = decode
        self._encode = encode
        self.max_size = _require_size("max_size", max_size)

    def decoder(self) -> Decoder:
        return _Cutter(self._cut)

    def encode(self, data: Any) -> bytes:
        return _require_bytes(data if self._encode is None else self._encode(data))

    def _cut(self, kept: bytearray) -> Iterator[Any]:
        yield from self._decode(kept)
        if len(kept) > self.max_size:
            raise FrameTooLarge(len(kept), self.max_size)


def framing_of(given: Any) -> Framing:
    if given is None or given == "raw":
        return RAW
    if given == "lines":
        return Lines()
    if given == "length":
        return LengthPrefixed()
    if isinstance(given, Framing):
        return given
    if callable(given) and not isinstance(given, type):
        return Custom(given)  # pyright: ignore[reportArgumentType]
    raise ConfigError("framing", given, "must be Raw(), Lines(), LengthPrefixed(), Fixed(size), or a function")
