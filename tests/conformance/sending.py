"""Senders and askers on any thread, and actors that note, hold up or put off what they get."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, TypeVar

import pytest

from greenroom import Actor, ActorRef, ActorSystem, Context, ManualClock, Reply
from tests.conformance.lives import suspending
from tests.gates import Event

T = TypeVar("T")
Ref = ActorRef[Any, Any]

ON_A_LOOP = ["outside", "handler", pytest.param("other loop", marks=pytest.mark.real)]
ANYWHERE = [*ON_A_LOOP, pytest.param("plain thread", marks=pytest.mark.real)]
"""Where an ask may come from: code on the system's loop, a handler, another thread's loop, a thread without one."""


async def outcome(asked: Awaitable[Any]) -> Any:
    """The value, or the exception."""
    try:
        return await asked
    except Exception as exc:
        return exc


async def ask_from(where: str, system: ActorSystem, ref: Ref, message: Any, **options: Any) -> Any:
    """The outcome of `ref.ask(message, **options)`, called there; an actor that asks is called `asker`."""

    async def ask(*_: Context) -> Any:
        return await outcome(ref.ask(message, **options))

    def ask_sync() -> Any:
        try:
            return ref.ask_sync(message, **options)
        except Exception as exc:
            return exc

    async def receive(ctx: Context, _: Any) -> Any:
        return [await ask()]

    if where == "outside":
        return await ask()
    if where == "handler":
        return (await system.spawn(receive, name="asker").ask(None, timeout=None))[0]
    return await in_thread((lambda: asyncio.run(ask())) if where == "other loop" else ask_sync)


async def in_thread(work: Callable[[], T]) -> T:
    """The result of `work()`, called in a thread of its own."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()

    def tell(finish: Callable[[Any], None], result: Any) -> None:
        if not done.done():
            finish(result)

    def run() -> None:
        with suppress(RuntimeError):  # a test that failed has closed its loop
            try:
                result = work()
            except BaseException as exc:
                loop.call_soon_threadsafe(tell, done.set_exception, exc)
            else:
                loop.call_soon_threadsafe(tell, done.set_result, result)

    threading.Thread(target=run, daemon=True).start()
    return await done


async def pass_time(clock: ManualClock, waiting: asyncio.Task[Any]) -> Any:
    """Turn the clock until `waiting` is done, a second at a time: asks of other threads are timed when they arrive."""
    while not waiting.done():
        await clock.advance(1.0)
        await asyncio.sleep(0)
    return waiting.result()


async def until(condition: Callable[[], object]) -> None:
    """Return when something is so that tells nobody; the test's own deadline ends it."""
    while not condition():  # noqa: ASYNC110 - there is no event to wait for
        await asyncio.sleep(0)


class Echo(Actor[Any, Any]):
    """Answers with what it was asked."""

    def receive(self, message: Any) -> Any:
        return message


class Keeper(Actor[Any, Any]):
    """Puts every reply off, and keeps it."""

    def __init__(self, kept: list[Reply]) -> None:
        self.kept = kept

    def receive(self, message: Any) -> None:
        self.kept.append(self.ctx.defer_reply())


class Gated(Actor[Any, Any]):
    """Suspends until its gate is open, and answers then; `arrived` tells that a message is in hand."""

    def __init__(self, gate: Event, arrived: Event) -> None:
        self.gate = gate
        self.arrived = arrived

    async def receive(self, message: Any) -> Any:
        self.arrived.set()
        await self.gate.wait()
        return message


FOREIGN = [False, pytest.param(True, marks=pytest.mark.real)]
"""Messages come from the system's thread, or from another one."""
HOLD = "hold"
"""The message that a held actor waits on."""
PATIENCE = 120.0
"""Seconds that threads have to end; never needed unless something is wrong."""


class Listener(Actor[Any, Any]):
    """Writes down what it hears, and answers with it."""

    def __init__(self, heard: list[Any]) -> None:
        self.heard = heard

    def receive(self, message: Any) -> Any:
        self.heard.append(message)
        return message


@suspending
class AsyncListener(Listener):
    pass


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
        """Make the actor take `HOLD` in hand, and do `act(ctx)` first; its ref."""
        self.act = act
        self.ref.tell(HOLD)
        await self.entered.wait()
        return self.ref

    async def end(self) -> list[Any]:
        """Release the actor, and wait until everything is handled; what it heard."""
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
