"""What heads, mergers and indexers send to one another."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count
from typing import Any
from zlib import crc32

from greenroom import ActorRef, Request

EPOCHS = count(1)
"""Numbers for the lives of mergers and indexers."""


@dataclass(frozen=True, slots=True)
class Record:
    """One line. `source` and `number` tell it from all others, also when it is read twice.

    `number` is where it begins in its file, or what the client that sent it calls it. `origin` is told when it is safe.
    """

    source: str
    number: int
    time: float
    host: str
    text: str
    origin: ActorRef[Any, Any] | None = None

    @classmethod
    def parse(cls, source: str, number: int, line: bytes, origin: ActorRef[Any, Any] | None = None) -> Record:
        """A line as in `12.250 web-3 GET /index.html`; ValueError if it is not like that."""
        time, host, text = line.decode().split(" ", 2)
        return cls(source, number, float(time), host, text, origin)

    def shard(self, shards: int) -> int:
        """Which merger and indexer it belongs to: always the same for a host."""
        return crc32(self.host.encode()) % shards


@dataclass(frozen=True, slots=True)
class Begin:
    """From an actor to itself, before all others: find those it needs.

    Not in its `pre_start`, for its supervisor waits for that; and if one that it asks were to die meanwhile, it would
    wait for its supervisor to restart that one.
    """


@dataclass(frozen=True, slots=True)
class Join(Request[int]):
    """Ask a merger or an indexer for its epoch: the number of its life.

    What is sent to it says for which life it is meant. A new life ignores what was meant for the one before: something
    between the two may be missing.
    """


@dataclass(frozen=True, slots=True)
class Passed:
    """From a head to a merger."""

    epoch: int
    record: Record


@dataclass(frozen=True, slots=True)
class Mark:
    """From a head to all mergers: `source` is read up to `position`, and its lines are about as late as `time`."""

    epoch: int
    source: str
    position: int
    time: float


@dataclass(frozen=True, slots=True)
class Batch:
    """A window, sorted. When it is stored, all that is before `positions` in a file is."""

    epoch: int
    window: int
    records: list[Record]
    positions: dict[str, int]


@dataclass(frozen=True, slots=True)
class Resume(Request[int]):
    """Ask an indexer where to go on in a file."""

    source: str


@dataclass(frozen=True, slots=True)
class Stored:
    """From an indexer to the origin of lines: these are in the database, and will stay there."""

    numbers: list[int]


@dataclass(frozen=True, slots=True)
class Tick:
    """Time to look whether a window has waited for long enough."""
