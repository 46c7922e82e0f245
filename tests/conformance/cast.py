"""Actors that listen, an actor that can be held up, and threads that are not the system's own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from greenroom import Actor, ActorRef, ActorSystem, Context
from tests.gates import Event

__all__ = [
    "FOREIGN",
    "HOLD",
    "LISTENERS",
    "AsyncListener",
    "Holding",
    "Listener",
    "run_threads",
    "run_threads_while_blocked",
]

FOREIGN = [False, pytest.param(True, marks=pytest.mark.real)]
"""Whether something comes from a thread that is not the system's."""
HOLD = "hold"
"""What a held actor waits on."""
PATIENCE = 120.0
"""Seconds that threads have to end; never needed unless something is wrong."""


class Listener(Actor[Any, Any]):
    """Writes down what it hears, and answers with it."""

    def __init__(self, heard: list[Any]) -> None:
        self.heard = heard

    def receive(self, message: Any) -> Any:
        self.heard.append(message)
        return message


class AsyncListener(Actor[Any, Any]):
    """The same, suspending at each message."""

    def __init__(self, heard: list[Any]) -> None:
        self.heard = heard

    async def receive(self, message: Any) -> Any:
        await asyncio.sleep(0)
        self.heard.append(message)
        return message


LISTENERS = [Listener, AsyncListener]


class Held(Actor[Any, Any]):
    """Keeps `HOLD` in hand until it is let go, so that its mailbox can be filled."""

    def __init__(self, holding: Holding) -> None:
        self.holding = holding

    async def receive(self, message: Any) -> Any:
        if message is HOLD:
            self.holding.act(self.ctx)
            self.holding.entered.set()
            await self.holding.released.wait()
        else:
            self.holding.heard.append(message)
            self.holding.senders.append(self.ctx.sender)
        return message

    def on_terminated(self, ref: ActorRef[Any, Any], cause: BaseException | None) -> None:
        self.holding.heard.append(("terminated", ref))


class Holding:
    """A `Held` actor: `await holding.begin()`, fill its mailbox, `await holding.end()`."""

    def __init__(self, system: ActorSystem, **options: Any) -> None:
        self.system = system
        self.heard: list[Any] = []
        self.senders: list[Any] = []
        self.entered = Event()
        self.released = Event()
        self.act: Callable[[Context], object] = id
        self.ref: ActorRef[Any, Any] = system.spawn(Held, self, **options)

    async def begin(self, act: Callable[[Context], object] = id) -> ActorRef[Any, Any]:
        """Let it take `HOLD` in hand, and first of all do `act(ctx)`; its ref."""
        self.act = act
        self.ref.tell(HOLD)
        await self.entered.wait()
        return self.ref

    async def end(self) -> list[Any]:
        """Let it go on, until everything is handled; what it heard."""
        self.released.set()
        await self.system.settle()
        return self.heard


class Crowd:
    """Threads that begin at the same moment, and what they raised."""

    def __init__(self, works: tuple[Callable[[], object], ...]) -> None:
        self.errors: list[BaseException] = []
        self._gate = threading.Barrier(len(works))
        self._threads = [threading.Thread(target=self._run, args=(work,), daemon=True) for work in works]

    def _run(self, work: Callable[[], object]) -> None:
        try:
            self._gate.wait(PATIENCE)
            work()
        except BaseException as exc:
            self.errors.append(exc)

    def start_and_join(self) -> None:
        """Return when all have ended; raise what one of them raised."""
        for thread in self._threads:
            thread.start()
        for thread in self._threads:
            thread.join(PATIENCE)
        assert not any(thread.is_alive() for thread in self._threads)
        if self.errors:
            raise self.errors[0]


async def run_threads(*works: Callable[[], object]) -> None:
    """Run each on a thread of its own; the loop goes on meanwhile."""
    await asyncio.to_thread(Crowd(works).start_and_join)


def run_threads_while_blocked(*works: Callable[[], object]) -> None:
    """Run each on a thread of its own while this one, the loop's, waits: what they send is not taken in yet."""
    Crowd(works).start_and_join()
