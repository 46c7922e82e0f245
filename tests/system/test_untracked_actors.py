"""The garbage collector tracks only the first actors of a large system while they live, and all of them afterwards."""

from __future__ import annotations

import asyncio
import gc
import logging
import weakref
from contextlib import suppress
from typing import Any

import pytest

from greenroom import (
    COMPILED,
    Actor,
    ActorRef,
    ActorSystem,
    Behaviors,
    Context,
    Directive,
    MailboxConfig,
    Supervision,
    SystemConfig,
    SystemFailed,
    props,
)
from greenroom.meta import MetaProcess

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


async def test_the_collector_tracks_only_so_many_actors_while_they_live() -> None:
    async with ActorSystem() as system:
        refs = [system.spawn(Knotted, []) for _ in range(MANY)]
        await system.settle()
        for number, ref in enumerate(refs):
            parts = (ref, ref._cell, ref._cell.record, ref._cell.subject)
            is_tracked = not COMPILED or number < TRACKED
            assert [gc.is_tracked(part) for part in parts] == [is_tracked] * 4
        last = refs[-1]
        last.kill()
        await last.terminated()
        assert gc.is_tracked(last)


async def end_one_of_many(system: ActorSystem, **options: Any) -> ActorRef[Any, Any]:
    """The ref of one that was not tracked, and has stopped."""
    for _ in range(MANY):
        system.spawn(Hollow)
    ref = system.spawn(Hollow, **options)
    ref.stop()
    await ref.terminated()
    await asyncio.sleep(0)  # until then, asyncio has the future with its result
    return ref


async def test_a_ref_of_one_that_has_stopped_is_freed_with_the_garbage_that_holds_it() -> None:
    async with ActorSystem() as system:
        knot: list[Any] = [await end_one_of_many(system)]
        knot.append(knot)
        ref = weakref.ref(knot[0])
        del knot
        gc.collect()
        assert ref() is None


async def test_a_ref_whose_mailbox_leads_back_to_it_is_collected_while_its_system_works() -> None:
    async with ActorSystem() as system:
        known: dict[Any, Any] = {}
        mailbox = MailboxConfig(priority=known.get)
        known["ref"] = await end_one_of_many(system, mailbox=mailbox)
        ref = weakref.ref(known["ref"])
        system.spawn(Hollow)  # a loop remembers the mailbox that it made last
        del known, mailbox
        gc.collect()
        assert ref() is None


class Parent(Actor[Any, None]):
    """Knows its child, and fails when it is told to."""

    child: ActorRef[Any, Any]

    def receive(self, message: Any) -> None:
        if message == "fail":
            raise ValueError("on purpose")
        self.child = self.ctx.spawn(Hollow)


def instance_of(ref: ActorRef[Any, Any]) -> Any:
    return ref._cell.subject


async def fail_above_a_child_that_had_stopped(system: ActorSystem) -> weakref.ref[Any]:
    """The instance of a parent that has failed."""
    parent = system.spawn(Parent)
    await system.settle()
    for _ in range(MANY):
        system.spawn(Hollow)
    parent.tell("spawn")
    await system.settle()
    instance = instance_of(parent)
    instance.child.stop()
    await instance.child.terminated()
    parent.tell("fail")
    await parent.terminated()
    return weakref.ref(instance)


@pytest.mark.parametrize("others", [MANY, 0], ids=["untracked", "tracked"])
async def test_what_a_parent_failed_with_is_collected_though_it_knows_a_child_that_had_stopped(others: int) -> None:
    async with ActorSystem(config=STOP) as system:
        for _ in range(others):
            system.spawn(Hollow)
        instances = [await fail_above_a_child_that_had_stopped(system) for _ in range(3)]
        await asyncio.sleep(0)
        gc.collect()
        assert [instance() for instance in instances] == [None] * 3


async def test_a_parent_whose_mailbox_leads_back_to_a_child_that_had_stopped_is_collected() -> None:
    async with ActorSystem() as system:
        for _ in range(MANY):
            system.spawn(Hollow)
        known: dict[Any, Any] = {}
        parent = system.spawn(Parent, mailbox=MailboxConfig(priority=known.get))
        parent.tell("spawn")
        await system.settle()
        known["child"] = instance_of(parent).child
        ref = weakref.ref(known["child"])
        known["child"].stop()
        await known["child"].terminated()
        parent.stop()
        await parent.terminated()
        await asyncio.sleep(0)
        system.spawn(Hollow)  # a loop remembers the mailbox that it made last
        del known, parent
        gc.collect()
        assert ref() is None


class Changeling(Hollow):
    """Is a function from its first message on."""

    def receive(self, message: Any) -> None:
        self.ctx.become(lambda ctx, message: None)


def handle(ctx: Context, message: Any) -> None:
    pass


@pytest.mark.parametrize("factory", [Changeling, handle, Behaviors.receive(handle)], ids=["become", "handler", "maker"])
def test_one_whose_code_is_a_function_is_untracked_after_a_restart_and_tracked_after_its_end(factory: Any) -> None:
    async def main() -> ActorRef[Any, Any]:
        async with ActorSystem(config=SystemConfig(supervision=Supervision(backoff=None))) as system:
            for _ in range(MANY):
                system.spawn(Hollow)
            ref = system.spawn(factory)
            ref.tell("become")
            await system.settle()
            ref.restart()
            await system.settle()
            assert [gc.is_tracked(part) for part in (ref, ref._cell, ref._cell.record)] == [not COMPILED] * 3
            ref.stop()
            await ref.terminated()
        return ref

    ref = asyncio.run(main())
    assert gc.is_tracked(ref)
    assert gc.is_tracked(ref._cell)


class Unwilling(MetaProcess):
    """Cannot begin, and knows who wanted it."""

    def __init__(self, owner: Any) -> None:
        self.owner = owner

    def init(self, *args: Any, **kwargs: Any) -> None:
        raise ValueError("on purpose")

    def start(self) -> None:
        pass


class Owner(Hollow):
    def receive(self, message: Any) -> None:
        self.meta = Unwilling(self)
        with suppress(ValueError):
            self.ctx.spawn_meta(self.meta)


async def test_a_meta_process_that_could_not_begin_is_collected_with_its_owner() -> None:
    async with ActorSystem() as system:
        for _ in range(MANY):
            system.spawn(Hollow)
        ref = system.spawn(Owner)
        ref.tell("begin")
        await system.settle()
        assert isinstance(instance_of(ref).meta, Unwilling)
        owner = weakref.ref(instance_of(ref))
        ref.stop()
        await ref.terminated()
        await asyncio.sleep(0)
        system.spawn(Hollow)
        del ref
        gc.collect()
        assert owner() is None


class Box:
    """Has what an actor is made with, and is part of that."""

    def __init__(self) -> None:
        self.props = props(Boxed, self)


class Boxed(Hollow):
    def __init__(self, box: Box) -> None:
        self.box = box


async def test_arguments_that_are_kept_elsewhere_are_collected() -> None:
    async with ActorSystem() as system:
        for _ in range(MANY):
            system.spawn(Hollow)
        box = Box()
        kept = weakref.ref(box)
        ref = system.spawn(box.props)
        await system.settle()
        ref.stop()
        await ref.terminated()
        await asyncio.sleep(0)
        del ref, box
        gc.collect()
        assert kept() is None


class Impatient:
    """An observer that is interrupted by a dead letter."""

    def dead_letter(self, ref: Any, message: Any, sender: Any, why: str) -> None:
        if message == "interrupt":
            raise KeyboardInterrupt


def test_an_end_that_is_interrupted_leaves_nothing_that_is_never_collected() -> None:
    knot: list[Any] = []

    async def main() -> None:
        async with ActorSystem() as system:
            knot.append(weakref.ref(system))
            system.observers.add(Impatient())
            for _ in range(MANY):
                system.spawn(Hollow)
            ref = system.spawn(Hollow)
            await system.settle()
            ref.stop()
            ref.tell("interrupt")
            knot.append([ref])
            knot[1].append(knot[1])
            del ref
            await system.stopped()

    with pytest.raises((KeyboardInterrupt, SystemFailed)):
        asyncio.run(main())
    del knot[1]
    for _ in range(3):
        gc.collect()
    assert knot[0]() is None


def test_a_system_that_has_refs_of_actors_that_had_stopped_before_it_is_forgotten() -> None:
    async def main() -> weakref.ref[ActorSystem]:
        async with ActorSystem() as system:
            ref = await end_one_of_many(system)
            ref.tell("too late")
            assert [letter.recipient for letter in system.dead_letters.recent()] == [ref]
        return weakref.ref(system)

    system = asyncio.run(main())
    gc.collect()
    gc.collect()  # what a finalizer of the first round let go of
    assert system() is None


@pytest.mark.parametrize("how", ENDINGS)
async def test_one_that_was_not_tracked_is_collected_after_its_end(how: str) -> None:
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


async def test_an_instance_that_was_not_tracked_is_collected_after_a_restart() -> None:
    config = SystemConfig(supervision=Supervision(Directive.RESTART, backoff=None))
    async with ActorSystem(config=config) as system:
        ref, instance = await spawn_among_many(system)
        ref.tell("fail")
        await system.settle()
        ref._cell.record.args[0].clear()  # what it has put itself into
        gc.collect()
        assert instance() is None
        assert ref.is_alive


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
