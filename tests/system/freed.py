"""Actors that are watched without being held, to see that they are freed."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections import Counter
from collections.abc import Callable
from typing import Any

from greenroom import Actor, ActorRef, ActorSystem
from greenroom._core.timing.timers import Bucket


class Book:
    """Notes every actor that was made, without holding it."""

    def __init__(self) -> None:
        self.actors: list[weakref.ref[Actor[Any, Any]]] = []

    def note(self, actor: Actor[Any, Any]) -> None:
        self.actors.append(weakref.ref(actor))


class Plain(Actor[Any, Any]):
    def __init__(self, book: Book) -> None:
        book.note(self)

    def receive(self, message: Any) -> Any:
        if message == "fail":
            raise ValueError(message)
        return message


class Later(Plain):
    async def receive(self, message: Any) -> Any:
        await asyncio.sleep(0)
        if message == "fail":
            raise ValueError(message)
        return message


class Hooked(Plain):
    async def pre_start(self) -> None:
        await asyncio.sleep(0)

    def pre_stop(self) -> None:
        pass

    async def post_stop(self) -> None:
        await asyncio.sleep(0)

    def on_signal(self, signal: Any) -> None:
        pass


class Parent(Plain):
    def __init__(self, book: Book) -> None:
        super().__init__(book)
        self.book = book

    def pre_start(self) -> None:
        child = self.ctx.spawn(Plain, self.book)
        self.ctx.watch(child)
        self.ctx.watch(self.ctx.spawn(Plain, self.book), "it ended")

    def on_terminated(self, ref: ActorRef[Any, Any], cause: BaseException | None) -> None:
        pass


KINDS = [Plain, Later, Hooked, Parent]
ENDS: dict[str, Callable[[ActorRef[Any, Any]], None]] = {
    "stop": ActorRef.stop,
    "kill": ActorRef.kill,
    "stop in order": lambda ref: ref.stop(after_queued=True),
}


def ours() -> Counter[str]:
    """How many objects of each of our types there are; but slices of time come and go with the time."""
    kinds = (type(found) for found in gc.get_objects() if not isinstance(found, Bucket))
    return Counter(kind.__qualname__ for kind in kinds if str(kind.__module__).startswith(("greenroom", "tests")))


async def live_and_die(system: ActorSystem, book: Book, kind: type[Plain], end: str, count: int) -> list[Any]:
    """Bring up `count` actors, let them work, end them; weak references to their refs."""
    refs = [system.spawn(kind, book) for _ in range(count)]
    for ref in refs:
        ref.tell("work")
    await system.settle()
    if count <= 100:
        await asyncio.gather(*(ref.ask("answer") for ref in refs))
    for ref in refs:
        ENDS[end](ref)
    await system.settle()
    assert not any(ref.is_alive for ref in refs)
    return [weakref.ref(ref) for ref in refs]


def alive(weak: list[Any]) -> int:
    return sum(1 for one in weak if one() is not None)
