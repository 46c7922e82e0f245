"""The indexers: each writes the windows of one merger to a database of its own."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

from examples.ingest.messages import EPOCHS, Batch, Join, Resume, Stored
from examples.ingest.store import Store
from greenroom import Actor, ActorRef, Lane, handles


class Indexer(Actor[object]):
    """Writes windows, and tells where lines came from that they are safe. It has its own thread, for SQLite blocks."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.epoch = next(EPOCHS)
        self.windows = self.lines = self.again = 0

    def pre_start(self) -> None:
        """Open the database."""
        self.store = Store(self.path)

    def post_stop(self) -> None:
        """Close it."""
        self.store.close()

    @handles(Batch)
    def write(self, batch: Batch) -> None:
        """Store a window; only then are its lines acknowledged."""
        if batch.epoch != self.epoch:
            return
        new = self.store.write(batch)
        self.windows += 1
        self.lines += new
        self.again += len(batch.records) - new
        stored: dict[ActorRef, list[int]] = defaultdict(list)
        for record in batch.records:
            if record.origin is not None:
                stored[record.origin].append(record.number)
        for origin, numbers in stored.items():
            origin.tell(Stored(numbers), lane=Lane.MANAGEMENT)  # its mailbox may be full of lines

    @handles(Join)
    def tell_epoch(self, message: Join) -> int:
        """For the merger."""
        return self.epoch

    @handles(Resume)
    def find_position(self, message: Resume) -> int:
        """Where a head is to go on."""
        return self.store.position(message.source)

    def inspect(self, *items: str) -> dict[str, object]:
        """What this life of it has written."""
        return {"windows": self.windows, "lines": self.lines, "again": self.again}
