"""Who asks, and from where; and actors that take their time to answer."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, TypeVar

import pytest

from greenroom import Actor, ActorRef, ActorSystem, Context, ManualClock, Reply
from tests.gates import Event

__all__ = [
    "ANYWHERE",
    "ON_A_LOOP",
    "Echo",
    "Gated",
    "Keeper",
    "Ref",
    "ask_from",
    "in_thread",
    "outcome",
    "pass_time",
    "until",
]

T = TypeVar("T")
Ref = ActorRef[Any, Any]

ON_A_LOOP = ["outside", "handler", pytest.param("other loop", marks=pytest.mark.real)]
ANYWHERE = [*ON_A_LOOP, pytest.param("plain thread", marks=pytest.mark.real)]
"""Where an ask may come from: code on the system's loop, a handler, another thread's loop, a thread without one."""


async def outcome(asked: Awaitable[Any]) -> Any:
    """What came of it: the value, or the exception."""
    try:
        return await asked
    except Exception as exc:
        return exc


async def ask_from(where: str, system: ActorSystem, ref: Ref, message: Any, **options: Any) -> Any:
    """What comes of `ref.ask(message, **options)`, done there; an actor that asks is called `asker`."""

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
    """What `work()` returns in a thread of its own."""
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
    """Let time pass until `waiting` is over, a second at a time: an ask of another thread is timed when it comes in."""
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
