"""Kills any part, at any moment."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from typing import Any

from greenroom import ActorRef, ActorSystem


class Trouble:
    """Kills, fails and restarts parts below `/ingest`, and looks how full their mailboxes are."""

    def __init__(self, system: ActorSystem, chance: random.Random) -> None:
        self.system, self.chance = system, chance
        self.struck: Counter[str] = Counter()
        self.deepest: Counter[str] = Counter()

    async def make(self, count: int, pause: float) -> None:
        """Strike so often, with about `pause` seconds in between."""
        for _ in range(count):
            await asyncio.sleep(self.chance.expovariate(1.0 / pause))
            self.look()
            if parts := self.parts():  # all of them may be starting anew
                self.strike(self.chance.choice(parts))

    def parts(self) -> list[ActorRef[Any, Any]]:
        """Every actor and meta-process of the pipeline, but for the supervisor at the top."""
        return [ref for ref in self.system.actors() if ref.path.startswith("/ingest/")]

    def strike(self, ref: ActorRef[Any, Any]) -> None:
        """End it, in one way or another."""
        how = self.chance.choice(["kill", "fail", "stop"])
        self.struck[ref.path.split("/")[2].split("-")[0]] += 1
        if how == "fail":
            ref.fail(RuntimeError("trouble"))
        else:
            getattr(ref, how)()

    def look(self) -> None:
        """How many messages wait in the mailboxes of each kind of actor."""
        for part in self.parts():
            kind = part.path.split("/")[2].split("-")[0]
            self.deepest[kind] = max(self.deepest[kind], self.system.ledger(part).queued)
