"""Actors that are restarted, and a book that outlives their incarnations."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from itertools import pairwise
from typing import Any

import pytest

from greenroom import Actor, ActorRef, ActorSystem, Backoff, OnRestart, State, Supervision
from tests.conformance.lives import TRANSITIONS
from tests.gates import Event, turns

__all__ = [
    "AT_ONCE",
    "BAD",
    "BORN_AGAIN",
    "CLEARING",
    "GONE",
    "PHOENIXES",
    "AsyncPhoenix",
    "Bird",
    "Book",
    "Gate",
    "Phoenix",
    "Ref",
    "assert_legal",
    "every_phoenix",
    "runs",
    "slow",
    "soon",
    "turns",
]

Ref = ActorRef[Any, Any]
AT_ONCE = Supervision(max_restarts=None, backoff=None)
"""Restarts without delay and without limit."""
CLEARING = Supervision(max_restarts=None, backoff=None, mailbox=OnRestart.CLEAR)
"""The same, without what was queued."""
BAD = ValueError("on purpose")


class Book:
    """What the incarnations of one actor have in common: what happened to them, and what their hooks do besides.

    `acts` are by the name of a hook, for every incarnation, or by a name and a number, as `"pre_start 2"`.
    """

    def __init__(self, name: str = "", log: list[str] | None = None, /, **acts: Callable[[Any], Any]) -> None:
        self.name = name
        self.log: list[str] = [] if log is None else log
        self.heard: list[Any] = []
        self.acts: dict[str, Callable[[Any], Any]] = dict(acts)
        self.lives = 0
        self.actors: list[Any] = []

    def write(self, what: str, number: int) -> None:
        self.log.append(f"{self.name}{what} {number}")

    def take(self) -> list[str]:
        """What was written since the last look."""
        written = list(self.log)
        self.log.clear()
        return written


class Bird(Actor[Any, Any]):
    """Does what it is sent, if that is a function of itself; raises what is an exception; hears anything else."""

    def __init__(self, book: Book) -> None:
        book.lives += 1
        book.actors.append(self)
        self.book = book
        self.number = book.lives
        self.run("init")

    def run(self, hook: str) -> Any:
        self.book.write(hook, self.number)
        act = self.book.acts.get(f"{hook} {self.number}", self.book.acts.get(hook))
        return None if act is None else act(self)

    def obey(self, message: Any) -> Any:
        if isinstance(message, BaseException):
            raise message.with_traceback(None)  # or it would grow with every use
        if callable(message):
            return message(self)
        self.book.heard.append(message)
        return message

    def receive(self, message: Any) -> Any:
        return self.obey(message)


class Phoenix(Bird):
    """Writes down every hook of a restart."""

    def pre_start(self) -> Any:
        return self.run("pre_start")

    def post_start(self) -> Any:
        return self.run("post_start")

    def pre_stop(self) -> Any:
        return self.run("pre_stop")

    def post_stop(self) -> Any:
        return self.run("post_stop")

    def pre_restart(self, cause: BaseException | None) -> Any:
        self.cause = cause
        return self.run("pre_restart")

    def post_restart(self) -> Any:
        return self.run("post_restart")

    def snapshot(self) -> Any:
        result = self.run("snapshot")
        return f"state of {self.number}" if result is None else result

    def restore(self, state: Any) -> Any:
        self.state = state
        return self.run("restore")

    def on_terminated(self, ref: Ref, cause: BaseException | None) -> Any:
        self.book.heard.append(("terminated", ref))


class AsyncPhoenix(Phoenix):
    """The same with `async def`: every hook and handler really suspends, and awaits what an act returns."""

    async def finish(self, result: Any) -> Any:
        return await result if asyncio.isfuture(result) or asyncio.iscoroutine(result) else result

    async def receive(self, message: Any) -> Any:
        await asyncio.sleep(0)
        return await self.finish(super().receive(message))

    async def pre_start(self) -> None:
        await asyncio.sleep(0)
        await self.finish(super().pre_start())

    async def post_start(self) -> None:
        await asyncio.sleep(0)
        await self.finish(super().post_start())

    async def pre_stop(self) -> None:
        await asyncio.sleep(0)
        await self.finish(super().pre_stop())

    async def post_stop(self) -> None:
        await asyncio.sleep(0)
        await self.finish(super().post_stop())

    async def pre_restart(self, cause: BaseException | None) -> None:
        await asyncio.sleep(0)
        await self.finish(super().pre_restart(cause))

    async def post_restart(self) -> None:
        await asyncio.sleep(0)
        await self.finish(super().post_restart())

    async def snapshot(self) -> Any:
        await asyncio.sleep(0)
        result = await self.finish(self.run("snapshot"))
        return f"state of {self.number}" if result is None else result

    async def restore(self, state: Any) -> None:
        await asyncio.sleep(0)
        await self.finish(super().restore(state))


PHOENIXES = [Phoenix, AsyncPhoenix]
every_phoenix = pytest.mark.parametrize("kind", PHOENIXES, ids=["sync", "async"])

BORN_AGAIN = ["init 2", "pre_start 2", "restore 2", "post_restart 2", "post_start 2"]
GONE = ["pre_restart 1", "snapshot 1", "post_stop 1"]


class Gate:
    """Something to wait at, again and again; `entered` tells that somebody does."""

    def __init__(self, stubborn: bool = False) -> None:
        self.entered = Event()
        self.opened = Event()
        self.cancelled = 0
        self.stubborn = stubborn

    async def wait(self, *_: object) -> None:
        self.entered.set()
        while not self.opened.is_set():
            try:
                await self.opened.wait()
            except asyncio.CancelledError:
                self.cancelled += 1
                if not self.stubborn:
                    raise


def assert_legal(history: tuple[State, ...], *, killed: bool = False) -> None:
    """Only transitions of M1, whether the life is over or not."""
    assert history[0] is State.CREATED
    for here, there in pairwise(history):
        allowed = there in TRANSITIONS[here] or (killed and there is State.TERMINATED)
        assert allowed, f"{here.name} -> {there.name} in {[state.name for state in history]}"


def runs(ref: Ref) -> bool:
    """Whether it is RUNNING now."""
    return ref.state is State.RUNNING


async def soon(system: ActorSystem, awaited: Awaitable[Any], within: float = 120.0) -> Any:
    """What `awaited` returns; if it does not in time, the system is forced to end, so that the test ends at once."""
    try:
        async with asyncio.timeout(within):
            return await awaited
    except TimeoutError:
        stranded = f"somebody is stranded: {[(str(ref), ref.state, ref.history) for ref in system.actors()]}"
        await system.shutdown(timeout=0.1)
        raise AssertionError(stranded) from None


def slow(delay: float, **options: Any) -> Supervision:
    """Restarts after exactly `delay` seconds each time."""
    return Supervision(backoff=Backoff(min=delay, max=delay), **options)
