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
from typing import Any

from greenroom import Actor, ActorSystem, Context, Directive, Lane, ManualClock, Reply, Supervision
from tests.system.dispatchers.processes.puppets import Ref, Watcher, call

STOP, RESUME, ESCALATE, RESTART = Directive.STOP, Directive.RESUME, Directive.ESCALATE, Directive.RESTART
STOPS = Supervision(STOP)


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


async def pass_time(system: ActorSystem, clock: ManualClock, seconds: float) -> None:
    """Advance the clock, and wait until all has been done that comes of it."""
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
