"""A bug of depth three: three events must happen in one particular order, among many that do not matter.

A reader looks four times. It breaks if the writer finishes all its work before the second look, and the cleaner
finishes between the third look and the fourth. Plain random choice would have to pass over the reader twenty times in a
row. The `pct` schedule has strict priorities and changes them at a few points, so it needs only two lucky draws.
"""

from __future__ import annotations

import sys
from typing import TextIO

from greenroom import Actor, ActorRef, ActorSystem, SystemConfig
from greenroom.testing import Report, explore

WORK = 20
LOOKS = 4
ONE_BY_ONE = SystemConfig(max_msgs_per_actor=1)
"""No actor does all its work at one go, in either schedule."""


class Worker(Actor[int, None]):
    """Works in many small steps, and says when it is done."""

    def __init__(self, done: list[str], name: str) -> None:
        self.done = done
        self.job = name

    def receive(self, left: int) -> None:
        if left:
            self.ctx.self.tell(left - 1)
        else:
            self.done.append(self.job)


class Reader(Actor[int, None]):
    """Looks four times."""

    def __init__(self, done: list[str]) -> None:
        self.done = done
        self.seen: list[tuple[str, ...]] = []

    def receive(self, look: int) -> None:
        self.seen.append(tuple(self.done))
        if look < LOOKS:
            self.ctx.self.tell(look + 1)
        elif self.seen[1:] == [("writer",), ("writer",), ("writer", "cleaner")]:
            raise ValueError("what was written is gone, in the middle of reading it")


async def program(system: ActorSystem) -> None:
    """Write, clean and read at once."""
    done: list[str] = []
    reader: ActorRef[int, None] = system.spawn(Reader, done, name="reader")
    for name in ("writer", "cleaner"):
        system.spawn(Worker, done, name, name=name).tell(WORK)
    reader.tell(1)
    await system.settle()
    assert system.ledger(reader).failed == 0, "the reader failed"


def find(output: TextIO | None = sys.stderr) -> Report:
    """Look for the order in which it goes wrong."""
    return explore(program, runs=5000, schedule="pct", config=ONE_BY_ONE, output=output)


if __name__ == "__main__":
    find()
