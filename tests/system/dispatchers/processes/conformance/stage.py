"""The conformance cases, with actors in worker processes: the same promises, kept by other means.

Left out, by their numbers, for what they are about has no counterpart in another process:

- 5: the rounds of a run queue cannot be counted from home, which sees only that a third actor is served; that is here.
- 25: who of a circle of asks finds it is certain on one loop only; that one does is here.
- 26: a `Reply` belongs to its process, and cannot be sent to another actor; who has it can give it later. That is here.
- 42: jitter is drawn at home, wherever the actor runs. The series and its reset are here.
- 52: there is no state machine yet.
- 61 to 68: pods and metas are no actors of a dispatcher.

Some hold at home alone, whatever the dispatcher, and are held there: priorities that raise, observers that raise.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import pairwise
from typing import Any

from greenroom import (
    Actor,
    ActorSystem,
    Context,
    Directive,
    Lane,
    ManualClock,
    Reply,
    State,
    Supervision,
    SystemConfig,
)
from greenroom.testing import assert_ledger_balanced
from tests.conformance.lives import TRANSITIONS
from tests.system.dispatchers.processes.cast import (
    Puppet,
    Ref,
    Watcher,
    call,
)
from tests.system.dispatchers.processes.test_messages import ONE

__all__ = [
    "AT_ONCE",
    "BAD",
    "CREATED",
    "ESCALATE",
    "FAILED",
    "RESTART",
    "RESTARTING",
    "RESUME",
    "RUNNING",
    "STARTING",
    "STOP",
    "STOPPED",
    "STOPPING",
    "STOPS",
    "TERMINATED",
    "Ear",
    "Eye",
    "Gate",
    "assert_legal",
    "away",
    "held",
    "pass_time",
    "stage",
]

STOP, RESUME, ESCALATE, RESTART = Directive.STOP, Directive.RESUME, Directive.ESCALATE, Directive.RESTART
AT_ONCE = Supervision(backoff=None, max_restarts=None)
STOPS = Supervision(STOP)
BAD = ValueError("on purpose")
CREATED, STARTING, RUNNING, FAILED = State.CREATED, State.STARTING, State.RUNNING, State.FAILED
RESTARTING, STOPPING, STOPPED, TERMINATED = State.RESTARTING, State.STOPPING, State.STOPPED, State.TERMINATED


@asynccontextmanager
async def stage(**options: Any) -> AsyncIterator[ActorSystem]:
    """A system with one worker, whose books are in order at the end."""
    given: dict[str, Any] = {"dispatchers": ONE.dispatchers, "supervision": ONE.supervision, "history": True}
    async with ActorSystem(config=SystemConfig(**{**given, **options})) as system:
        # A fresh interpreter takes seconds to start on a busy machine: no ask of the test is to wait for that.
        first = away(system, Puppet)
        await first.started()
        first.kill()
        await first.terminated()
        yield system
        await system.settle()
        assert_ledger_balanced(system)
    assert_ledger_balanced(system)


def away(system: ActorSystem, factory: Any, *args: Any, **options: Any) -> Ref:
    """An actor in another process."""
    ref: Ref = system.spawn(factory, *args, dispatcher="process", **options)
    return ref


class Ear(Actor[Any, Any]):
    """Keeps what it is told, at home."""

    def __init__(self, heard: list[Any]) -> None:
        self.heard = heard

    def receive(self, message: Any) -> None:
        self.heard.append(message)


class Gate:
    """Where actors elsewhere wait until the test lets them go on: what they do for that is `hold`."""

    def __init__(self, system: ActorSystem) -> None:
        self.entered = asyncio.Event()
        self._waiting: list[Reply] = []
        self._is_open = False
        self.ref: Ref = system.spawn(self._keep)
        self.hold = call(self.ref, "ask", "hold", timeout=None)

    def _keep(self, ctx: Context, message: Any) -> None:
        reply = ctx.defer_reply()
        self.entered.set()
        if self._is_open:
            reply.send(None)
        else:
            self._waiting.append(reply)

    def open(self) -> None:
        """Let them go on."""
        self._is_open = True
        for reply in self._waiting:
            reply.send(None)
        self._waiting.clear()


class Eye:
    """Sees what observers are told."""

    def __init__(self) -> None:
        self.dropped: list[Any] = []
        self.full: list[Any] = []
        self.stopped: list[Ref] = []

    def message_dropped(self, ref: Ref, message: Any, lane: Lane) -> None:
        self.dropped.append((ref, message, lane))

    def mailbox_full(self, ref: Ref, message: Any, lane: Lane) -> None:
        self.full.append((ref, message, lane))

    def actor_stopped(self, ref: Ref, reason: Any) -> None:
        self.stopped.append(ref)


def assert_legal(history: tuple[State, ...]) -> None:
    """Only transitions that there are."""
    assert history[0] is CREATED
    for one, next_one in pairwise(history):
        assert next_one in TRANSITIONS[one], history


async def pass_time(system: ActorSystem, clock: ManualClock, seconds: float) -> None:
    """Let time pass, and everybody do what comes of it."""
    await system.settle()
    await clock.advance(seconds)
    await system.settle()


async def held(system: ActorSystem, **options: Any) -> tuple[Ref, Gate, list[Any]]:
    """An actor elsewhere with a message in hand, its gate, and what it tells at home."""
    heard: list[Any] = []
    gate = Gate(system)
    ref = away(system, Watcher, system.spawn(Ear, heard), **options)
    ref.tell(gate.hold)
    await gate.entered.wait()
    return ref, gate, heard
