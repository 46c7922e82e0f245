"""The mergers: each sorts the lines of its hosts into windows of time."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from examples.ingest.messages import EPOCHS, Batch, Begin, Join, Mark, Passed, Record, Tick
from greenroom import Actor, ActorRef, Lane, handles

PATIENCE = 0.1
"""Seconds that a window waits at most, for a head that has fallen behind."""
ROOM = 5_000
"""Lines that a merger holds at most. The earliest window goes first."""


@dataclass(slots=True)
class Window:
    """What has come of it so far, each line once from each head.

    When a client sends a line again, the head of its last connection may still be at work: both want to be told.
    """

    opened: float
    records: dict[tuple[str, int, ActorRef[Any, Any] | None], Record] = field(default_factory=dict)


class Merger(Actor[object]):
    """Collects lines, and passes a window on, sorted, when all heads are past it.

    A line that comes after that opens its window once more: late, but in.
    """

    def __init__(self, indexer: str, seconds: float) -> None:
        self.indexer_path, self.seconds = indexer, seconds
        self.epoch = next(EPOCHS)
        self.windows: dict[int, Window] = {}
        self.held = 0
        self.marks: dict[str, Mark] = {}

    def pre_start(self) -> None:
        """Find the indexer first."""
        self.ctx.self.tell(Begin(), lane=Lane.CONTROL)

    @handles(Begin)
    async def begin(self, message: Begin) -> None:
        """Find the indexer, and look at the windows now and then."""
        self.indexer = self.ctx.system.actor(self.indexer_path)
        self.indexer_epoch = await self.indexer.ask(Join(), timeout=60.0, wait_for_room=True)
        self.ctx.send_every(PATIENCE / 2, self.ctx.self, Tick())

    @handles(Join)
    def tell_epoch(self, message: Join) -> int:
        """For a head."""
        return self.epoch

    @handles(Passed)
    async def collect(self, message: Passed) -> None:
        """A line."""
        if message.epoch != self.epoch:
            return
        record = message.record
        number = int(record.time // self.seconds)
        window = self.windows.get(number)
        if window is None:
            window = self.windows[number] = Window(self.ctx.now())
        key = record.source, record.number, record.origin
        self.held += key not in window.records
        window.records[key] = record
        if self.held > ROOM:
            await self.pass_on(min(self.windows))

    @handles(Mark)
    async def note(self, mark: Mark) -> None:
        """How far a head is. What all of them are past is complete."""
        if mark.epoch != self.epoch:
            return
        self.marks[mark.source] = mark
        past = min(one.time for one in self.marks.values()) // self.seconds
        for number in sorted(number for number in self.windows if number < past):
            await self.pass_on(number)

    @handles(Tick)
    async def look(self, tick: Tick) -> None:
        """Pass on what has waited for too long; and how far the heads are, also if there was nothing for it."""
        now = self.ctx.now()
        for number in sorted(number for number, one in self.windows.items() if now - one.opened >= PATIENCE):
            await self.pass_on(number)
        if self.marks and not self.windows:
            await self.indexer.send(Batch(self.indexer_epoch, 0, [], self.safe_positions()))

    async def pass_on(self, number: int) -> None:
        """A window is complete: to the indexer with it, which may be busy, and then this waits."""
        records = list(self.windows.pop(number).records.values())
        self.held -= len(records)
        records.sort(key=lambda record: (record.time, record.source, record.number))
        await self.indexer.send(Batch(self.indexer_epoch, number, records, self.safe_positions()))

    def safe_positions(self) -> dict[str, int]:
        """For each file, where a head would have to go on if this actor died now: at the first line held here."""
        positions = {mark.source: mark.position for mark in self.marks.values()}
        for window in self.windows.values():
            for source, number, _ in window.records:
                if source in positions and number < positions[source]:
                    positions[source] = number
        return positions
