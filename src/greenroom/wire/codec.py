"""How messages become bytes, and messages again.

Between our own processes a whole batch is one pickle, of protocol 5: what is large and knows how (NumPy arrays, byte
arrays) travels beside it as it lies in memory, and is not copied into it. A batch whose messages are all of registered
types is written by msgspec, if that is installed and the other side knows the types too.

Unpickling runs whatever the bytes say. So nothing is decoded that did not come over a connection whose other end has
shown that it knows the secret of this one (`transport`).

>>> codec = Codec()
>>> codec.decode(codec.encode([("deposit", 5), None]))
[('deposit', 5), None]
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

from greenroom._core.itemkinds import ATOMS
from greenroom.errors import BadArgument, FailedElsewhere, FrameTooLarge, NotSendable, WireError, in_words
from greenroom.wire.failures import is_portable

__all__ = ["Codec", "Packed", "Parts", "pack", "register", "registered_names", "require_sendable", "unpacked"]

T = TypeVar("T", bound=type)

Parts = list[Any]
"""An encoded value: what it is written in, and after that what lies beside it. Each can be looked at as bytes."""

_PICKLED = b"P"
_PACKED = b"M"
_PROTOCOL = 5
_MARGIN = 4096
"""Bytes of a frame that are not its messages."""

_registered: dict[str, type] = {}


def register(message_type: T) -> T:
    """Let messages of a type be written by msgspec: a `msgspec.Struct`, a dataclass, a NamedTuple. For use as a
    decorator, in a module that both sides import. Without msgspec it changes nothing.

    What is read is what the annotations say: of a field that is `Any`, a tuple arrives as a list.
    """
    if not isinstance(message_type, type):
        raise BadArgument(f"register() takes a class, not {message_type!r}")
    _registered[_name_of(message_type)] = message_type
    return message_type


def registered_names() -> list[str]:
    """The types that this process can read, by name; to be told to the other side. None without msgspec."""
    return [name for name, known in _registered.items() if _can_read(known)] if _msgspec() is not None else []


def _can_read(message_type: type) -> bool:
    """Whether msgspec knows what to make of its annotations: some are there for type checkers alone."""
    try:
        _msgspec().msgpack.Decoder(message_type)
    except Exception:
        return False
    return True


def _name_of(message_type: type) -> str:
    return f"{message_type.__module__}:{message_type.__qualname__}"


def _msgspec() -> Any:
    try:
        import msgspec
    except ImportError:
        return None
    return msgspec


class Codec:
    """Encodes and decodes for one connection."""

    __slots__ = ("_decoders", "_packer", "_shared")

    def __init__(self) -> None:
        # Invariant: types that the other side has said it can read, with the names it knows them by
        self._shared: dict[type, str] = {}
        self._packer: Any = None
        self._decoders: dict[str, Any] = {}

    def peer_knows(self, names: Iterable[str]) -> None:
        """The other side can read these types: those that are registered here too are written by msgspec now."""
        if _msgspec() is not None:
            self._shared = {_registered[name]: name for name in names if name in _registered}

    def encode(self, batch: list[Any]) -> Parts:
        """The parts of a list of messages, none of them copied that need not be; `NotSendable` names the culprit."""
        if self._shared and batch and all(type(message) in self._shared for message in batch):
            packed = self._pack(batch)
            if packed is not None:
                return [_PACKED, packed]
        beside: list[pickle.PickleBuffer] = []
        try:
            first = pickle.dumps(batch, _PROTOCOL, buffer_callback=beside.append)
        except Exception:  # whatever a user's `__reduce__` raises, too
            raise _blame(batch) from None
        return [_PICKLED, first, *(buffer.raw() for buffer in beside)]

    def encode_leniently(self, batch: list[Any]) -> Parts:
        """The same for what we send ourselves: an exception in it that cannot travel does so as what it says."""
        written = io.BytesIO()
        beside: list[pickle.PickleBuffer] = []
        try:
            _Lenient(written, _PROTOCOL, buffer_callback=beside.append).dump(batch)
        except Exception:
            raise _blame(batch) from None
        return [_PICKLED, written.getvalue(), *(buffer.raw() for buffer in beside)]

    def decode(self, parts: Sequence[Any]) -> list[Any]:
        """The messages that were encoded. Only for what a peer sent that has proved who it is."""
        kind = bytes(parts[0])
        if kind == _PICKLED:
            batch: list[Any] = pickle.loads(parts[1], buffers=parts[2:])
            return batch
        if kind == _PACKED:
            return self._unpack(parts[1])
        raise WireError(f"a frame is written in {kind!r}, which nobody here can read: do both sides have one version?")

    def _pack(self, batch: list[Any]) -> bytes | None:
        """The batch as msgspec writes it; None if something in it is nothing for msgspec: a ref, say."""
        if self._packer is None:
            self._packer = _msgspec().msgpack.Encoder()
        try:
            packed: bytes = self._packer.encode([[self._shared[type(message)], message] for message in batch])
        except Exception:
            return None
        return packed

    def _unpack(self, packed: Any) -> list[Any]:
        msgspec = _msgspec()
        if msgspec is None:
            raise WireError("a frame is written by msgspec, which is not installed here: pip install greenroom[wire]")
        undecoded: Any = msgspec.Raw
        pairs = msgspec.msgpack.decode(packed, type=list[tuple[str, undecoded]])
        return [self._decoder_of(name).decode(raw) for name, raw in pairs]

    def _decoder_of(self, name: str) -> Any:
        decoder = self._decoders.get(name)
        if decoder is None:
            known = _registered.get(name)
            if known is None:
                raise WireError(f"a message is of the type {name}, which is not registered here")
            decoder = self._decoders[name] = _msgspec().msgpack.Decoder(known)
        return decoder


class Packed:
    """A message that is pickled by itself, so that one that cannot be read costs no other."""

    __slots__ = ("_beside", "_written")

    def __init__(self, written: bytes, beside: Sequence[Any] = ()) -> None:
        self._written = written
        self._beside = beside

    def __reduce__(self) -> tuple[Any, ...]:
        return Packed, (self._written, [pickle.PickleBuffer(part) for part in self._beside])

    def __len__(self) -> int:
        return len(self._written) + sum(len(memoryview(part)) for part in self._beside)

    def unpack(self) -> Any:
        """The message. Only for what a peer sent that has proved who it is."""
        return pickle.loads(self._written, buffers=self._beside)


def unpacked(value: Any) -> Any:
    """What `pack` was given."""
    return value.unpack() if type(value) is Packed else value


def require_sendable(message: Any, limit: int) -> None:
    """Raise unless `message` can be sent to a process that has the same modules: `NotSendable`, `FrameTooLarge`.

    >>> require_sendable(("deposit", 5), limit=1 << 20)
    >>> require_sendable(lambda: 5, limit=1 << 20)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    greenroom.errors.NotSendable: ...: define it at the top of a module, where another process can find it
    """
    pack(message, limit)


def pack(message: Any, limit: int) -> Any:
    """The message as it is sent with others: by itself if it is plain, else pickled. Refuses what cannot be sent."""
    kind = type(message)
    if kind in ATOMS:
        return message
    if kind is str or kind is bytes:
        size = len(message) if kind is bytes or len(message) * 4 <= limit else len(message.encode())
        _require_room(size, limit)
        return message
    beside: list[pickle.PickleBuffer] = []
    try:
        written = pickle.dumps(message, _PROTOCOL, buffer_callback=beside.append)
    except Exception:
        raise _blame([message]) from None
    if b"__main__" in written:
        _require_importable(message)
    if isinstance(message, BaseException) and not is_portable(message):
        raise NotSendable(message, "it can be pickled, but not be made again: its `__init__` wants other arguments")
    views = [buffer.raw() for buffer in beside]
    _require_room(len(written) + sum(view.nbytes for view in views), limit)
    return Packed(written, views)


def _require_room(size: int, limit: int) -> None:
    if size > limit - _MARGIN:
        raise FrameTooLarge(size, limit - _MARGIN)


class _Lenient(pickle.Pickler):
    """Pickles exceptions that cannot be as what is known of them."""

    def reducer_override(self, thing: Any) -> Any:
        """An exception is tried by itself first."""
        if isinstance(thing, BaseException) and not is_portable(thing):
            return FailedElsewhere, (type(thing).__qualname__, in_words(thing))
        return NotImplemented


class _Inspector(pickle.Pickler):
    """Pickles, and stops at a class or function of the main program, which is another one in another process."""

    def reducer_override(self, thing: Any) -> Any:
        """What is found by its name must be found in a module that can be imported."""
        if isinstance(thing, type) or callable(thing):
            _require_module(thing)
        else:
            _require_module(type(thing))
        return NotImplemented


class _IsInMain(Exception):
    """The name of something that is defined in the main program."""


def _require_module(thing: Any) -> None:
    if getattr(thing, "__module__", None) == "__main__":
        raise _IsInMain(getattr(thing, "__qualname__", repr(thing)))


def _require_importable(message: Any) -> None:
    try:
        _Inspector(io.BytesIO(), _PROTOCOL, buffer_callback=lambda _: None).dump(message)
    except _IsInMain as found:
        (name,) = found.args
        raise NotSendable(
            message,
            f"{name} is defined in the program itself (`__main__`), where another process would not find it: move it "
            f"to a module of its own and import it, as in `from shop import {name.partition('.')[0]}`",
        ) from None


def _blame(batch: list[Any]) -> NotSendable:
    """Which message of a batch cannot be pickled, and why, in words that say what to do."""
    for message in batch:
        try:
            pickle.dumps(message, _PROTOCOL, buffer_callback=lambda _: None)
        except Exception as exc:
            error = NotSendable(message, _advice(exc))
            error.__cause__ = exc
            return error
    return NotSendable(batch, "its parts can be pickled, but not all of it")


def _advice(cause: Exception) -> str:
    text = in_words(cause)
    if "local object" in text or "<locals>" in text or "<lambda>" in text:
        return f"{text}: define it at the top of a module, where another process can find it"
    return f"{text}: send what can be pickled, or what it takes to make it there"
