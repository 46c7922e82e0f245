"""Messages, replies and exceptions that are hard on the code that carries them between processes."""

from __future__ import annotations

import asyncio
import pickle
import threading
from collections.abc import Callable
from typing import Any

__all__ = ["LIMIT", "NotOrdinary", "Parcel", "odd_exception", "payload"]

LIMIT = 1 << 22
"""The frame limit of systems in which something larger is sent."""
MANY = 5_000


class NotOrdinary(BaseException):
    """What `except Exception` does not catch, and what ends no system."""


class Refuses:
    """Raises when it is pickled."""

    def __init__(self, kind: type[BaseException]) -> None:
        self.kind = kind

    def __reduce__(self) -> Any:
        raise self.kind("it does not want to be pickled")


class Unreadable:
    """Can be pickled, and raises when it is unpickled."""

    def __init__(self, kind: type[BaseException]) -> None:
        self.kind = kind

    def __reduce__(self) -> Any:
        return _explode, (self.kind,)


def _explode(kind: type[BaseException]) -> None:
    raise kind("it does not want to be unpickled")


class BadState:
    """Can be pickled, and raises when its state is set."""

    def __init__(self, kind: type[BaseException]) -> None:
        self.kind = kind

    def __getstate__(self) -> Any:
        return {"kind": self.kind}

    def __setstate__(self, state: Any) -> None:
        raise state["kind"]("it does not want its state")


class Parcel:
    """Bytes that are pickled out of band, as NumPy arrays are."""

    def __init__(self, data: Any) -> None:
        self.data = data

    def __reduce_ex__(self, protocol: Any) -> Any:
        return Parcel, (pickle.PickleBuffer(self.data),)


class HoldsLock(Exception):
    """Cannot be pickled."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.lock = threading.Lock()


class WantsMore(Exception):
    """Can be pickled and not unpickled: its constructor wants more than its text."""

    def __init__(self, text: str, more: object) -> None:
        super().__init__(text)
        self.more = more


class Speechless(Exception):
    """Cannot say what it is."""

    def __str__(self) -> str:
        raise RuntimeError("no words")


def _deep() -> Any:
    nested: list[Any] = []
    for _ in range(100_000):
        nested = [nested]
    return nested


_PAYLOADS: dict[str, Callable[[], Any]] = {
    "lambda": lambda: lambda: 1,
    "lock": threading.Lock,
    "oversize": lambda: bytes(LIMIT + 1),
    "oversize text": lambda: "x" * (LIMIT + 1),
    "refuses": lambda: Refuses(ValueError),
    "refuses badly": lambda: Refuses(NotOrdinary),
    "unreadable": lambda: Unreadable(ImportError),
    "bad state": lambda: BadState(KeyError),
    "unreadable, not ordinary": lambda: Unreadable(NotOrdinary),
    "unreadable, exit of a generator": lambda: Unreadable(GeneratorExit),
    "bad state, cancelled": lambda: BadState(asyncio.CancelledError),
    "buffers": lambda: [Parcel(bytearray(16)) for _ in range(MANY)],
    "deep": _deep,
    "large buffer": lambda: [Parcel(bytearray(1 << 20)), Parcel(bytearray(0))],
}


def payload(name: str) -> Any:
    """What a message or a reply of this kind carries."""
    return _PAYLOADS[name]()


def odd_exception(name: str) -> BaseException:
    """An exception of this kind."""
    if name == "holds a lock":
        return HoldsLock("odd")
    if name == "wants more":
        return WantsMore("odd", 1)
    if name == "speechless":
        return Speechless()
    if name == "huge":
        return ValueError("x" * (LIMIT + 1))
    if name == "not ordinary":
        return NotOrdinary("on purpose")
    return ValueError("on purpose")
