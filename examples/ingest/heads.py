"""The heads: actors that read files and sockets, and pass on what they read line by line.

A head waits while a merger has enough to do. Then its own mailbox fills, and its reader waits: nothing is read that
nobody has room for.
"""

from __future__ import annotations

from math import inf
from pathlib import Path
from typing import Any

from examples.ingest.messages import Begin, Join, Mark, Passed, Record, Resume, Stored
from greenroom import Actor, ActorRef, Lane, handles
from greenroom.meta import Alias, Closed, Line, LineReader, Received, Write

MARK_EVERY = 50
"""Lines between two marks."""


class Head(Actor[object]):
    """What all heads have: the mergers, and the marks for them."""

    source = ""
    position = 0

    def pre_start(self) -> None:
        """Find the others first."""
        self.ctx.self.tell(Begin(), lane=Lane.CONTROL)

    async def find_mergers(self, paths: list[str]) -> None:
        """At the start of each life: the mergers may be new ones too."""
        self.mergers: list[ActorRef[Any, Any]] = [self.ctx.system.actor(path) for path in paths]
        self.epochs = [await merger.ask(Join(), timeout=60.0, wait_for_room=True) for merger in self.mergers]
        self.passed = 0

    async def pass_on(self, record: Record) -> None:
        """Send a line where it belongs; wait if there is no room."""
        shard = record.shard(len(self.mergers))
        await self.mergers[shard].send(Passed(self.epochs[shard], record))
        self.passed += 1
        if self.passed % MARK_EVERY == 0:
            await self.mark(record.time)

    async def mark(self, time: float) -> None:
        """Tell all mergers how far this is."""
        for merger, epoch in zip(self.mergers, self.epochs, strict=True):
            await merger.send(Mark(epoch, self.source, self.position, time))


class FileHead(Head):
    """Reads a file. A new life goes on where all before is in the database."""

    reader: Alias | None = None

    def __init__(self, path: Path, mergers: list[str], indexers: list[str]) -> None:
        self.path, self.source = path, path.name
        self.merger_paths, self.indexer_paths = mergers, indexers
        self.is_done = False
        self.bad = 0

    @handles(Begin)
    async def begin(self, message: Begin) -> None:
        """Find out where to go on, and read."""
        await self.find_mergers(self.merger_paths)
        indexers = [self.ctx.system.actor(path) for path in self.indexer_paths]
        self.position = min(
            [await indexer.ask(Resume(self.source), timeout=60.0, wait_for_room=True) for indexer in indexers]
        )
        self.reader = self.ctx.spawn_meta(LineReader(self.path, start=self.position))
        self.ctx.watch(self.reader)

    @handles(Line)
    async def take(self, line: Line) -> None:
        """A line; one that makes no sense is counted, and left out. The last life may have left some behind."""
        if line.alias != self.reader:
            return
        number, self.position = self.position, line.position
        try:
            record = Record.parse(self.source, number, line.data)
        except ValueError:
            self.bad += 1
        else:
            await self.pass_on(record)

    @handles(Closed)
    async def end(self, message: Closed) -> None:
        """That is all of it: no window waits for this head any more."""
        if message.alias == self.reader:
            self.is_done = True
            await self.mark(inf)

    def on_terminated(self, ref: ActorRef[Any, Any], cause: BaseException | None) -> None:
        """The reader has ended (or that of the life before). Too early? Then a new life is to have a new one."""
        if ref == self.reader and not self.is_done:
            raise ConnectionError(f"the reader of {self.path.name} ended too early")


class ConnectionHead(Head):
    """One connection. Its first line is the name of the client, all others begin with a number, which is sent back
    when the line is in the database."""

    def __init__(self, alias: Alias, mergers: list[str]) -> None:
        self.alias, self.merger_paths = alias, mergers

    @handles(Begin)
    async def begin(self, message: Begin) -> None:
        """Find the mergers. The connection is watched, for it may be over before it has this owner."""
        self.ctx.watch(self.alias)
        await self.find_mergers(self.merger_paths)

    @handles(Received)
    async def take(self, message: Received) -> None:
        """A line."""
        if not self.source:
            self.source = f"client {message.data.decode()}"
            return
        number, line = message.data.split(b" ", 1)
        await self.pass_on(Record.parse(self.source, int(number), line, self.ctx.self))

    @handles(Stored)
    async def acknowledge(self, message: Stored) -> None:
        """Some of its lines are in the database."""
        await self.alias.send(Write(b"\n".join(b"%d" % number for number in message.numbers)))

    @handles(Closed)
    async def end(self, message: Closed) -> None:
        """The client is gone: no window waits for it any more."""
        if self.source:
            await self.mark(inf)

    def on_terminated(self, ref: ActorRef[Any, Any], cause: BaseException | None) -> None:
        """The connection is over, and all that came from it is passed on."""
        self.ctx.stop()
