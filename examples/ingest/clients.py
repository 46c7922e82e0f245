"""The world outside: log files, and programs that send lines over the network. Nothing here knows Greenroom."""

from __future__ import annotations

import asyncio
import random
from contextlib import suppress
from itertools import islice
from pathlib import Path

IN_FLIGHT = 500
"""Lines that a client has sent and not seen acknowledged, at most."""
SPAN = 600.0
"""Seconds that the logs are about."""


def make_lines(count: int, chance: random.Random) -> list[str]:
    """Lines of a log, nearly in order."""
    times = sorted(chance.uniform(0.0, SPAN) for _ in range(count))
    return [
        f"{max(0.0, time - chance.expovariate(2.0)):.3f} web-{chance.randrange(8)} GET /page/{chance.randrange(1000)}"
        for time in times
    ]


def make_files(folder: Path, files: int, lines: int, chance: random.Random) -> None:
    """Log files, unless they are there."""
    for number in range(files):
        path = folder / f"server-{number}.log"
        if not path.exists():
            path.write_text("".join(f"{line}\n" for line in make_lines(lines, chance)))


class Client:
    """Sends lines, and sends again what is not acknowledged when the connection breaks."""

    def __init__(self, name: str, lines: list[str]) -> None:
        self.name = name
        self.waiting = dict(enumerate(lines))
        self.acknowledged: set[int] = set()
        self.connections = 0

    async def run(self, host: str, port: int) -> None:
        """Until the last line is acknowledged."""
        while self.waiting:
            with suppress(OSError, asyncio.IncompleteReadError):
                reader, writer = await asyncio.open_connection(host, port)
                self.connections += 1
                try:
                    await self.talk(reader, writer)
                finally:
                    writer.close()
            await asyncio.sleep(0.005 if self.waiting else 0.0)

    async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """On one connection."""
        writer.write(f"{self.name}\n".encode())
        unsent = iter(list(self.waiting.items()))
        in_flight = 0
        while self.waiting:
            more = list(islice(unsent, IN_FLIGHT - in_flight))
            in_flight += len(more)
            writer.write("".join(f"{number} {line}\n" for number, line in more).encode())
            await writer.drain()
            number = int(await reader.readuntil(b"\n"))
            if self.waiting.pop(number, None) is not None:
                self.acknowledged.add(number)
                in_flight -= 1
