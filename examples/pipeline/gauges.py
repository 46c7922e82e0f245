"""What can be read off the running pipeline, several times a second."""

import random
import re
import time
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from examples.pipeline.aggregators import NoPower
from greenroom import ActorRef, ActorSystem, ExitKind, ExitReason, Ledger, MailboxConfig

LOOKED_AT = 32
"""Actors of a stage whose mailboxes are looked at for one reading; the others are taken to be like them."""
SHORTEST = 0.1
"""Seconds. What was handled in less time than that says little about how fast it goes."""


@dataclass(frozen=True, slots=True)
class Depth:
    """How full the mailboxes of one stage are."""

    stage: str
    actors: int
    queued: int
    share: float
    """Of the room that there is, how much is taken: 0 to 1."""


@dataclass(frozen=True, slots=True)
class Crash:
    """Many actors failed at once, and are being restarted."""

    time: float
    """Seconds from the beginning."""
    actors: int
    back: int
    seconds: float
    """From the crash until the last one was back, or until now."""

    @property
    def healed(self) -> bool:
        """Whether all are running again."""
        return self.back >= self.actors


@dataclass(frozen=True, slots=True)
class Reading:
    """What all the gauges say at one moment."""

    elapsed: float
    seconds: float
    """How long the pipeline is to run."""
    rate: float
    """Messages handled per second, since the last reading."""
    ledger: Ledger
    running: int
    ended: Counter[ExitKind]
    depths: list[Depth]
    restarts: int
    dead_letters: Mapping[str, int]
    crash: Crash | None

    @property
    def lives(self) -> dict[str, int]:
        """How the actors fare."""
        stopped = self.ended[ExitKind.NORMAL] + self.ended[ExitKind.SHUTDOWN]
        failed = self.ended[ExitKind.FAIL] + self.ended[ExitKind.PANIC]
        return {
            "running": self.running,
            "restarts": self.restarts,
            "stopped": stopped,
            "failed": failed,
            "killed": self.ended[ExitKind.KILLED],
        }


class Gauges:
    """Reads a system by cheap means.

    `system.snapshot()` has all of it, but for three thousand actors it takes 0.2 s. So the system's ledger is read,
    which takes 2 ms, and the ledgers of a few actors of each stage.
    """

    def __init__(self, system: ActorSystem, mailboxes: Mapping[str, MailboxConfig], seconds: float) -> None:
        self._system = system
        self._mailboxes = mailboxes
        self._seconds = seconds
        self._ended: Counter[ExitKind] = Counter()
        self._restarts = 0
        self._crash: Crash | None = None
        self._began = self._last = time.monotonic()
        self._handled = 0
        self._rate = 0.0
        system.observers.add(self)

    def actor_stopped(self, ref: ActorRef[Any, Any], reason: ExitReason) -> None:
        """An observer's hook: called for every actor that ends."""
        self._ended[reason.kind] += 1

    def actor_restarted(self, ref: ActorRef[Any, Any], cause: BaseException | None) -> None:
        """An observer's hook: called for every actor that was made afresh."""
        self._restarts += 1
        if self._crash is not None and isinstance(cause, NoPower):
            now = time.monotonic() - self._began
            self._crash = replace(self._crash, back=self._crash.back + 1, seconds=now - self._crash.time)

    def await_crash(self, actors: int) -> None:
        """From now on, count how many of those that crash are back."""
        self._crash = Crash(time.monotonic() - self._began, actors, 0, 0.0)

    def read(self) -> Reading:
        """What they say now."""
        ledger, now, refs = self._system.ledger(), time.monotonic(), self._system.actors()
        if now - self._last >= SHORTEST:
            self._rate = (ledger.handled - self._handled) / (now - self._last)
            self._handled, self._last = ledger.handled, now
        stages: defaultdict[str, list[ActorRef[Any, Any]]] = defaultdict(list)
        for ref in refs:
            stages[re.split("[$-]", ref.name)[0]].append(ref)  # nobody named them, so they are called Parser$17
        return Reading(
            elapsed=now - self._began,
            seconds=self._seconds,
            rate=self._rate,
            ledger=ledger,
            running=len(refs),
            ended=self._ended.copy(),
            depths=[self._read_depth(name, stages[name], box.capacity) for name, box in self._mailboxes.items()],
            restarts=self._restarts,
            dead_letters=self._system.dead_letters.by_reason,
            crash=self._crash,
        )

    def _read_depth(self, stage: str, refs: list[ActorRef[Any, Any]], capacity: int) -> Depth:
        seen = random.sample(refs, min(len(refs), LOOKED_AT))
        mean = sum(self._system.ledger(ref).queued for ref in seen) / max(len(seen), 1)
        return Depth(stage, len(refs), round(mean * len(refs)), min(mean / capacity, 1.0))
