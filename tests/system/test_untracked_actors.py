"""The garbage collector tracks only the first actors of a large system while they live, and all of them afterwards."""

from __future__ import annotations

import asyncio
import gc
import logging
import weakref
from typing import Any

import pytest

from greenroom import COMPILED, Actor, ActorRef, ActorSystem, Directive, Supervision, SystemConfig

TRACKED = 1000
MANY = TRACKED + 20


class Hollow(Actor[Any, None]):
    def receive(self, message: Any) -> None:
        pass


class Knotted(Actor[Any, None]):
    """Is part of a circle of its own, as one with a callback is; and of one through what it was given."""

    def __init__(self, given: list[Any]) -> None:
        self.me = self.receive
        given.append(self)

    def receive(self, message: Any) -> None:
        self.ctx.log.debug("a log is part of a circle, too")
        if message == "fail":
            raise ValueError("on purpose")
        if message == "spawn":
            self.ctx.spawn(Knotted, [])
        if message == "become":
            self.ctx.become(lambda ctx, message: None)


ENDINGS = {"stop": (), "kill": (), "failure": ("fail",), "a child": ("spawn",), "another behavior": ("become",)}
STOP = SystemConfig(supervision=Supervision(Directive.STOP))


@pytest.fixture(autouse=True)
def unlogged(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is logged is kept for the report, with the exception in it, and that has the actor."""
    monkeypatch.setattr(logging.getLogger("greenroom"), "disabled", True)


async def spawn_among_many(system: ActorSystem) -> tuple[ActorRef[Any, Any], weakref.ref[Any]]:
    """One that is not tracked, and its instance."""
    for _ in range(MANY):
        system.spawn(Hollow)
    ref = system.spawn(Knotted, [])
    await system.settle()
    return ref, weakref.ref(ref._cell.subject)


def test_the_collector_tracks_only_so_many_actors_while_they_live() -> None:
    async def main() -> None:
        async with ActorSystem() as system:
            refs = [system.spawn(Knotted, []) for _ in range(MANY)]
            await system.settle()
            for number, ref in enumerate(refs):
                parts = (ref, ref._cell, ref._cell.record, ref._cell.subject)
                is_tracked = not COMPILED or number < TRACKED
                assert [gc.is_tracked(part) for part in parts] == [is_tracked] * 4
            last = refs[-1]
            last.stop()
            await last.terminated()
            assert gc.is_tracked(last)

    asyncio.run(main())


@pytest.mark.parametrize("how", ENDINGS)
def test_one_that_was_not_tracked_is_collected_after_its_end(how: str) -> None:
    async def main() -> None:
        async with ActorSystem(config=STOP) as system:
            ref, instance = await spawn_among_many(system)
            for message in ENDINGS[how]:
                ref.tell(message)
            if how == "kill":
                ref.kill()
            else:
                ref.stop(after_queued=True)
            await ref.terminated()
            await asyncio.sleep(0)  # until then, asyncio has the future with its result
            del ref
            gc.collect()
            assert instance() is None

    asyncio.run(main())


def test_an_instance_that_was_not_tracked_is_collected_after_a_restart() -> None:
    async def main() -> None:
        config = SystemConfig(supervision=Supervision(Directive.RESTART, backoff=None))
        async with ActorSystem(config=config) as system:
            ref, instance = await spawn_among_many(system)
            ref.tell("fail")
            await system.settle()
            ref._cell.record.args[0].clear()  # what it has put itself into
            gc.collect()
            assert instance() is None
            assert ref.is_alive

    asyncio.run(main())


def test_a_system_of_more_actors_than_are_tracked_is_forgotten_when_it_has_stopped() -> None:
    async def main() -> weakref.ref[ActorSystem]:
        async with ActorSystem() as system:
            refs = [system.spawn(Knotted, []) for _ in range(MANY)]
            for ref in refs:
                ref.tell("spawn")
            await system.settle()
        return weakref.ref(system)

    system = asyncio.run(main())
    gc.collect()
    gc.collect()  # what a finalizer of the first round let go of
    assert system() is None
