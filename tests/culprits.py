"""Actors that fail in a line of their own, in modules that a worker process can import."""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Iterator
from typing import Any

from greenroom import Actor

__all__ = [
    "AsyncCulprit",
    "Culprit",
    "Picky",
    "Stuck",
    "StuckInHook",
    "Unmakeable",
    "frames_of",
    "go_wrong",
    "is_runtime",
]


def go_wrong(message: object) -> None:
    """The line that all of them fail in."""
    raise ValueError(message)


class Culprit(Actor[Any, Any]):
    def receive(self, message: Any) -> Any:
        go_wrong(message)


class AsyncCulprit(Actor[Any, Any]):
    async def receive(self, message: Any) -> Any:
        await asyncio.sleep(0)
        go_wrong(message)


class Unmakeable(Actor[Any, Any]):
    """Its constructor raises."""

    def __init__(self) -> None:
        go_wrong("not today")

    def receive(self, message: Any) -> Any:
        """Never called."""


class Picky(Actor[Any, Any]):
    """Wants to know how many."""

    def __init__(self, count: int, *, label: str = "") -> None:
        self.count = count
        self.label = label

    def receive(self, message: Any) -> Any:
        return self.count


def frames_of(exc: BaseException) -> list[str]:
    """The names of the functions in its traceback, from the outside in."""
    return [frame.f_code.co_name for frame, _ in traceback.walk_tb(exc.__traceback__)]


def is_runtime(text: str) -> bool:
    """Whether a traceback, as text, shows code of the runtime."""
    return any("greenroom/" in line and "/tests/" not in line for line in _files(text))


def _files(text: str) -> Iterator[str]:
    return (line for line in text.splitlines() if line.startswith('  File "'))


class Stuck(Actor[Any, Any]):
    """Tells the ref that it is given, and waits for ever; or as long as it takes to be cancelled."""

    async def receive(self, message: Any) -> Any:
        message.tell("begun")
        await asyncio.get_running_loop().create_future()


class StuckInHook(Actor[Any, Any]):
    """The same, when it stops."""

    def receive(self, message: Any) -> Any:
        self.told = message

    async def pre_stop(self) -> None:
        self.told.tell("begun")
        await asyncio.get_running_loop().create_future()
