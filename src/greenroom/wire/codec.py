"""Encoding messages as bytes, and decoding them.

Between our own processes a batch is one pickle of protocol 5. Large objects that support it (NumPy arrays, byte arrays)
are sent out of band, and are not copied into the pickle. If all messages of a batch are of registered types, msgspec
encodes it, provided that it is installed and the other side knows the types too.

Unpickling can run arbitrary code. So we decode only what came over a connection whose other end has proved that it
knows the secret (`transport`).

>>> codec = Codec()
>>> codec.decode(codec.encode([("deposit", 5), None]))
[('deposit', 5), None]
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from greenroom._core.itemkinds import ATOMS
from greenroom.errors import BadArgument, FailedElsewhere, FrameTooLarge, NotSendable, WireError
from greenroom.errortext import in_words
from greenroom.wire.failures import assemble, is_portable, parts_of

if TYPE_CHECKING:
    from types import ModuleType

    import msgspec

    from greenroom.wire.transport import Buffer

T = TypeVar("T", bound=type)

Parts = list[Any]
"""An encoded batch: the encoding, the encoded messages, and then the out-of-band buffers; bytes or memoryviews."""
Batch = list[Any]
"""Decoded messages, of whatever types users send."""

_PICKLED = b"P"
_PACKED = b"M"
_PROTOCOL = 5
_MARGIN = 4096
"""Bytes of a frame that we reserve for everything but its messages."""

_SMALL = 4096
"""Buffers of fewer bytes are copied into the pickle."""
_MOST_BESIDE = 1024
"""So many buffers can be beside a pickle; fewer than the parts that a frame may have."""

_registered: dict[str, type] = {}


def register(message_type: T) -> T:
    """Have msgspec encode messages of a type: a `msgspec.Struct`, a dataclass or a NamedTuple. Use it as a decorator,
    in a module that both sides import. Without msgspec it has no effect.

    msgspec decodes by the annotations: in a field that is annotated `Any`, a tuple arrives as a list.
    """
    if not isinstance(message_type, type):
        raise BadArgument(f"register() takes a class, not {message_type!r}")
    _registered[_name_of(message_type)] = message_type
    return message_type


def registered_names() -> list[str]:
    msgspec = _msgspec()
    return [] if msgspec is None else [name for name, known in _registered.items() if _can_read(msgspec, known)]


def _can_read(msgspec: ModuleType, message_type: type) -> bool:
    """Whether msgspec understands the annotations of a type; some are only for type checkers."""
    try:
        msgspec.msgpack.Decoder(message_type)
    except Exception:
        return False
    return True


def _name_of(message_type: type) -> str:
    return f"{message_type.__module__}:{message_type.__qualname__}"


def _msgspec() -> ModuleType | None:
    try:
        import msgspec
    except ImportError:
        return None
    return msgspec


class Codec:
    def __init__(self) -> None:
        # Invariant: the types that the other side can decode, with the names it knows them by
        self._shared: dict[type, str] = {}
        self._packer: msgspec.msgpack.Encoder | None = None
        self._decoders: dict[str, msgspec.msgpack.Decoder[object]] = {}

    def peer_knows(self, names: Iterable[str]) -> None:
        """The other side can decode these types: from now on, msgspec encodes those that are registered here too."""
        if _msgspec() is not None:
            self._shared = {_registered[name]: name for name in names if name in _registered}

    def encode(self, batch: Sequence[object], lenient: bool = False) -> Parts:
        """Encode a list of messages, without copying large buffers; or raise `NotSendable`, which names the message.

        If `lenient`, as for the runtime's own values, exceptions that cannot be pickled become a `FailedElsewhere`.
        """
        if not lenient and self._shared and batch and all(type(message) in self._shared for message in batch):
            packed = self._pack(batch)
            if packed is not None:
                return [_PACKED, packed]
        written, beside = _pickled(batch, batch, lenient)
        return [_PICKLED, written, *beside]

    def decode(self, parts: Sequence[Buffer]) -> Batch:
        """The messages that were encoded. Only for data from an authenticated peer.

        Whatever goes wrong is an `Exception`, for messages are a user's code; only Ctrl-C comes through.
        """
        kind = bytes(parts[0])
        if kind == _PICKLED:
            batch: Batch = _unpickle(parts[1], parts[2:])
            return batch
        if kind == _PACKED:
            return self._unpack(parts[1])
        raise WireError(f"a frame is written in {kind!r}, which nobody here can read: do both sides have one version?")

    def _pack(self, batch: Sequence[object]) -> bytes | None:
        """The batch, encoded by msgspec; None if msgspec cannot encode something in it: a ref, for example."""
        if self._packer is None:
            import msgspec  # installed: without it, no type is shared

            self._packer = msgspec.msgpack.Encoder()
        try:
            return self._packer.encode([[self._shared[type(message)], message] for message in batch])
        except Exception:
            return None

    def _unpack(self, packed: Buffer) -> Batch:
        msgspec = _msgspec()
        if msgspec is None:
            raise WireError("a frame is written by msgspec, which is not installed here: pip install greenroom[wire]")
        undecoded: Any = msgspec.Raw
        pairs = msgspec.msgpack.decode(packed, type=list[tuple[str, undecoded]])
        return [self._decoder_of(msgspec, name).decode(raw) for name, raw in pairs]

    def _decoder_of(self, msgspec: ModuleType, name: str) -> msgspec.msgpack.Decoder[object]:
        decoder = self._decoders.get(name)
        if decoder is None:
            known = _registered.get(name)
            if known is None:
                raise WireError(f"a message is of the type {name}, which is not registered here")
            decoder = self._decoders[name] = msgspec.msgpack.Decoder(known)
        return decoder


class Packed:
    """A message that is pickled separately, so that one that cannot be unpickled does not affect the others."""

    __slots__ = ("_beside", "_written")

    def __init__(self, written: bytes, beside: Sequence[Buffer] = ()) -> None:
        self._written = written
        self._beside = beside

    def __reduce__(self) -> tuple[object, ...]:
        return Packed, (self._written, [pickle.PickleBuffer(part) for part in self._beside])

    def __len__(self) -> int:
        return len(self._written) + sum(len(memoryview(part)) for part in self._beside)

    def unpack(self) -> Any:
        return _unpickle(self._written, self._beside)


def _pickled(value: object, messages: Sequence[object], lenient: bool = False) -> tuple[bytes, list[memoryview]]:
    """A value as bytes, and the buffers beside them. If that cannot be, one of the messages in it is blamed."""
    beside = _Beside()
    try:
        if not lenient:
            return pickle.dumps(value, _PROTOCOL, buffer_callback=beside.take), beside.buffers
        written = io.BytesIO()
        _Lenient(written, _PROTOCOL, buffer_callback=beside.take).dump(value)
        return written.getvalue(), beside.buffers
    except KeyboardInterrupt:
        raise
    except BaseException:  # a user's `__reduce__` may raise anything
        raise _blame(messages) from None


def _unpickle(written: Buffer, beside: Sequence[Buffer]) -> Any:
    try:
        return pickle.loads(written, buffers=beside)
    except (Exception, KeyboardInterrupt):
        raise
    except BaseException as exc:  # a panic of an extension, for example
        raise WireError(f"what was sent cannot be read: {in_words(exc)}") from exc


class _Beside:
    """Collects the buffers of a pickle that are sent beside it. Small ones are cheaper inside, and so are very many."""

    __slots__ = ("buffers",)

    def __init__(self) -> None:
        self.buffers: list[memoryview] = []

    def take(self, buffer: pickle.PickleBuffer) -> bool:
        """Called by `pickle` for each buffer; True if it is to be written into the pickle."""
        try:
            raw = buffer.raw()
        except BufferError:  # it is not contiguous
            return True
        if raw.nbytes < _SMALL or len(self.buffers) >= _MOST_BESIDE:
            return True
        self.buffers.append(raw)
        return False


def unpacked(value: object) -> Any:
    """What `pack` was given."""
    return value.unpack() if type(value) is Packed else value


def pack(message: object, limit: int) -> object:
    """The form in which a message is sent with others: itself if it is an atom or a text, else `Packed`.

    Raises `NotSendable` or `FrameTooLarge` if it cannot be sent to a process that has the same modules.

    >>> pack("deposit", limit=1 << 20)
    'deposit'
    >>> pack(lambda: 5, limit=1 << 20)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    greenroom.errors.NotSendable: ...: define it at the top of a module, where another process can find it
    """
    if type(message) in ATOMS:
        return message
    if type(message) is str:
        _require_room(len(message) if len(message) * 4 <= limit else len(message.encode()), limit)
        return message
    if type(message) is bytes:
        _require_room(len(message), limit)
        return message
    written, beside = _pickled(message, [message])
    if b"__main__" in written:
        _require_importable(message)
    if isinstance(message, BaseException) and not is_portable(message):
        raise NotSendable(message, "it can be pickled, but not be made again: its `__init__` wants other arguments")
    _require_room(len(written) + sum(view.nbytes for view in beside), limit)
    return Packed(written, beside)


def _require_room(size: int, limit: int) -> None:
    if size + _MARGIN > limit:
        raise FrameTooLarge(size + _MARGIN, limit)


class _Lenient(pickle.Pickler):
    """Sends exceptions that cannot be pickled in parts, or replaces them by a `FailedElsewhere`."""

    def reducer_override(self, thing: object) -> Any:
        if isinstance(thing, BaseException) and not is_portable(thing):
            parts = parts_of(thing)
            if parts is not None:
                return assemble, parts
            return FailedElsewhere, (type(thing).__qualname__, in_words(thing))
        return NotImplemented


class _Inspector(pickle.Pickler):
    """Stops at a class or function of `__main__`, which is a different module in another process."""

    def reducer_override(self, thing: object) -> Any:
        """Called by `pickle` for each object. What is pickled by name must be in a module that can be imported."""
        if isinstance(thing, type) or callable(thing):
            _require_module(thing)
        else:
            _require_module(type(thing))
        return NotImplemented


class _IsInMain(Exception):
    """Holds the name of something that is defined in `__main__`."""


def _require_module(thing: object) -> None:
    if getattr(thing, "__module__", None) == "__main__":
        raise _IsInMain(getattr(thing, "__qualname__", repr(thing)))


def _require_importable(message: object) -> None:
    try:
        _Inspector(io.BytesIO(), _PROTOCOL, buffer_callback=lambda _: None).dump(message)
    except _IsInMain as found:
        (name,) = found.args
        raise NotSendable(
            message,
            f"{name} is defined in the program itself (`__main__`), where another process would not find it: move it "
            f"to a module of its own and import it, as in `from shop import {name.partition('.')[0]}`",
        ) from None


def _blame(batch: Sequence[object]) -> NotSendable:
    for message in batch:
        try:
            pickle.dumps(message, _PROTOCOL, buffer_callback=lambda _: None)
        except BaseException as exc:
            error = NotSendable(message, _advice(exc))
            error.__cause__ = exc
            return error
    return NotSendable(batch, "its parts can be pickled, but not all of it")


def _advice(cause: BaseException) -> str:
    text = in_words(cause)
    if "local object" in text or "<locals>" in text or "<lambda>" in text:
        return f"{text}: define it at the top of a module, where another process can find it"
    return f"{text}: send what can be pickled, or what it takes to make it there"
