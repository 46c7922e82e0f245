"""Siblings below one parent, or at the top, for tests of scopes."""

from __future__ import annotations

import asyncio
from typing import Any

from greenroom import ActorSystem, Scope, State, Supervision
from tests.conformance.incarnations import BAD, Book, Ref, assert_legal, soon, turns
from tests.conformance.lives import Plain

__all__ = ["ALL", "ALONE", "BAD", "REST", "Troupe", "settled"]

ALL = Supervision(scope=Scope.ONE_FOR_ALL, max_restarts=None, backoff=None)
REST = Supervision(scope=Scope.REST_FOR_ONE, max_restarts=None, backoff=None)
ALONE = Supervision(max_restarts=None, backoff=None)


class Troupe:
    """Siblings named a, b, c..., below a parent or at the top, and one log of all their hooks."""

    def __init__(self, system: ActorSystem, kind: Any, *supervisions: Supervision, top: bool = False) -> None:
        self.system = system
        self.log: list[str] = []
        self.parent: Any = None if top else system.spawn(Plain)
        self.books: list[Book] = []
        self.refs: list[Ref] = []
        for number, supervision in enumerate(supervisions):
            name = "abcdefgh"[number]
            self.books.append(Book(f"{name} ", self.log))
            self.refs.append(system.spawn(kind, self.books[-1], name=name, parent=self.parent, supervision=supervision))

    async def begin(self) -> list[Ref]:
        for ref in self.refs:
            await ref.ask("hello")
        self.log.clear()
        for book in self.books:
            book.heard.clear()
        return self.refs

    @property
    def lives(self) -> list[int]:
        return [book.lives for book in self.books]

    def left(self) -> str:
        """Who left, in their order."""
        return "".join(line[0] for line in self.log if " post_stop " in line)

    def came(self) -> str:
        """Who came, in their order."""
        return "".join(line[0] for line in self.log if " init " in line)

    def assert_legal(self) -> None:
        for ref in self.refs:
            assert_legal(ref.history)


async def settled(troupe: Troupe) -> None:
    """Wait until all siblings that live run."""

    async def wait() -> None:
        await turns(20)
        while any(ref.is_alive and ref.state is not State.RUNNING for ref in troupe.refs):  # noqa: ASYNC110
            await asyncio.sleep(0)

    await soon(troupe.system, wait())
    await troupe.system.settle()
