"""Families of meta-processes, and what becomes of them after a failure: stopped, or made anew (E2, E6, M7)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from greenroom import Actor, ActorSystem, Directive, ExitKind, ExitReason, Scope, Supervision
from greenroom.errors import MetaSpawnedBefore
from greenroom.meta import MetaOptions, MetaProcess
from tests.gates import Event
from tests.meta.owners import BAD, KINDS, AsyncDiary, Diary, Ended, Owner, Quiet, Ref, Scene, kinds, noted

AT_ONCE = Supervision(backoff=None, max_restarts=None)


class Factory:
    """Makes diaries, and keeps them."""

    def __init__(self, kind: type[Diary]) -> None:
        self.kind = kind
        self.made: list[Diary] = []

    def __call__(self) -> Diary:
        self.made.append(self.kind())
        return self.made[-1]


@kinds
async def test_a_function_makes_a_fresh_one_for_each_restart(system: ActorSystem, kind: type[Diary]) -> None:  # M7
    scene, factory = Scene(system), Factory(kind)
    alias = await scene.spawn(factory, MetaOptions(name="line", supervision=AT_ONCE))
    for life in range(1, 4):
        alias.tell(f"in life {life}")
        alias.tell(ValueError("bad"))
        alias.tell(f"after life {life}")
        await system.settle()
        assert len(factory.made) == life + 1
        assert alias.is_alive
    assert await alias.ask("alive", timeout=None) == ("answer", "alive")
    first, second, third, fourth = factory.made
    assert [one for one in first.notes if one != noted(first)[0]] == ["init", "in life 1"]
    assert second.notes[:3] == ["init", "after life 1", "in life 2"]
    assert [reason.kind for one in (first, second, third) for reason in noted(one)] == [ExitKind.FAIL] * 3
    assert noted(fourth) == []
    assert len({id(one) for one in factory.made}) == 4
    assert fourth.id == first.id == alias
    assert scene.probe.messages == []  # nobody has ended
    assert await scene.do(lambda ctx: ctx.metas) == [alias]


@pytest.mark.parametrize("is_async", [False, True])
async def test_a_reader_that_raises_is_made_anew(system: ActorSystem, is_async: bool) -> None:  # M7, case 66
    lives: list[Any] = []

    class Plain(MetaProcess):
        def start(self) -> Any:
            lives.append(self)
            if len(lives) < 4:
                raise ValueError("bad")
            self.send(self.parent, "enough")
            self.wait()

    class Awaiting(MetaProcess):
        async def start(self) -> None:
            lives.append(self)
            await asyncio.sleep(0)
            if len(lives) < 4:
                raise ValueError("bad")
            self.send(self.parent, "enough")
            await asyncio.Event().wait()

    scene = Scene(system)
    alias = await scene.spawn(Awaiting if is_async else Plain, MetaOptions(supervision=AT_ONCE))
    assert await scene.heard() == "enough"
    assert len({id(one) for one in lives}) == 4
    assert alias.is_alive


async def test_more_restarts_than_allowed_end_it(system: ActorSystem) -> None:  # M7
    scene, factory = Scene(system), Factory(Diary)
    limited = Supervision(backoff=None, max_restarts=2, within=3600.0)
    alias = await scene.spawn(factory, MetaOptions(supervision=limited))
    for _ in range(3):
        alias.tell(BAD)
    await scene.probe.expect(lambda one: isinstance(one, Ended) and one.ref == alias)
    assert len(factory.made) == 3
    assert [len(noted(one)) for one in factory.made] == [1, 1, 1]


async def test_a_factory_that_fails_in_a_restart_fails_again(system: ActorSystem) -> None:  # M7
    made: list[Diary] = []

    def make() -> Diary:
        if len(made) == 1:
            made.append(Diary())
            raise ValueError("not now")
        made.append(Diary())
        return made[-1]

    scene = Scene(system)
    alias = await scene.spawn(make, MetaOptions(supervision=AT_ONCE))
    alias.tell(BAD)
    await system.settle()
    assert len(made) == 3
    assert await alias.ask("alive", timeout=None) == ("answer", "alive")


async def test_an_init_that_raises_in_a_restart_fails_again(system: ActorSystem) -> None:  # E6
    lives: list[Any] = []

    class Shaky(Diary):
        def init(self) -> None:
            lives.append(self)
            if len(lives) in (2, 3):
                raise ValueError("not now")

    scene = Scene(system)
    alias = await scene.spawn(Shaky, MetaOptions(supervision=AT_ONCE))
    alias.tell(BAD)
    await system.settle()
    assert len(lives) == 4
    assert await alias.ask("alive", timeout=None) == ("answer", "alive")
    assert scene.probe.messages == []


@kinds
@pytest.mark.config(supervision=AT_ONCE)
async def test_without_supervision_of_its_own_it_stops_whatever_its_parent_has(
    system: ActorSystem, kind: type[Diary]
) -> None:  # E6
    scene, factory = Scene(system, supervision=AT_ONCE), Factory(kind)
    alias = await scene.spawn(factory)
    alias.tell(BAD)
    await scene.probe.expect(Ended(alias, BAD))
    assert len(factory.made) == 1


@kinds
@pytest.mark.parametrize("on_request", [False, True])
async def test_an_object_has_only_one_life(system: ActorSystem, kind: type[Diary], on_request: bool) -> None:  # M7
    scene, meta = Scene(system), kind()
    alias = await scene.spawn(meta, MetaOptions(supervision=Supervision(backoff=None, max_restarts=1)))
    if on_request:
        alias.restart()
    else:
        alias.tell(BAD)
    reason = await alias.terminated()
    assert len(noted(meta)) == 1
    ended = await scene.probe.expect(Ended)
    assert ended.ref == alias
    causes = [reason.cause, getattr(reason.cause, "reason", None), getattr(reason.cause, "__cause__", None)]
    told = [getattr(one, "cause", one) for one in causes]
    assert any(isinstance(one, MetaSpawnedBefore) for one in told), reason
    assert meta.notes[0] == "init"
    assert meta.notes.count("init") == 1


@kinds
async def test_an_object_is_not_spawned_twice(system: ActorSystem, kind: type[Diary]) -> None:  # E6
    scene, other, meta = Scene(system), Scene(system), kind()
    alias = await scene.spawn(meta)
    for one in (scene, other):
        with pytest.raises(MetaSpawnedBefore, match=kind.__name__):
            await one.spawn(meta)
    alias.stop()
    await alias.terminated()
    with pytest.raises(MetaSpawnedBefore, match=kind.__name__):
        await scene.spawn(meta)
    assert meta.notes.count("init") == 1
    assert await scene.do(lambda ctx: ctx.metas) == []


class Sibling(Actor[Any, Any]):
    def __init__(self, lives: list[str]) -> None:
        lives.append("actor")

    def receive(self, message: Any) -> Any:
        raise message


@pytest.mark.parametrize("scope", [Scope.ONE_FOR_ALL, Scope.REST_FOR_ONE])
@pytest.mark.parametrize("kind", KINDS)
async def test_meta_processes_are_not_restarted_with_their_siblings(
    system: ActorSystem, kind: type[Diary], scope: Scope
) -> None:  # M7
    together = Supervision(scope=scope, backoff=None, max_restarts=None)
    lives: list[str] = []
    scene, single, factory = Scene(system), kind(), Factory(kind)
    child: Ref = await scene.do(lambda ctx: ctx.spawn(Sibling, lives, supervision=together))
    one = await scene.spawn(single)
    two = await scene.spawn(factory, MetaOptions(supervision=AT_ONCE))
    await scene.do(lambda ctx: ctx.spawn(Sibling, lives, supervision=together))
    await system.settle()
    child.tell(ValueError("bad"))
    await system.settle()
    assert len(lives) == 4
    assert (one.is_alive, two.is_alive, len(factory.made)) == (True, True, 1)
    assert noted(single) == []
    # Nor the other way round, when it is a meta-process that fails.
    two.tell(BAD)
    await system.settle()
    assert (len(lives), len(factory.made)) == (4, 2)
    assert noted(single) == []


async def test_a_failure_that_is_escalated_fails_the_parent(system: ActorSystem) -> None:  # M7
    scene, meta = Scene(system), Diary()
    alias = await scene.spawn(meta, MetaOptions(supervision=Supervision(Directive.ESCALATE)))
    alias.tell(BAD)
    reason = await scene.owner.terminated()
    assert reason.kind is ExitKind.FAIL
    assert len(noted(meta)) == 1
    assert not alias.is_alive


async def test_a_failure_that_is_resumed_loses_one_message(system: ActorSystem) -> None:  # M7
    scene, meta = Scene(system), Diary()
    alias = await scene.spawn(meta, MetaOptions(supervision=Supervision(Directive.RESUME)))
    for message in ("before", ValueError("bad"), "after"):
        alias.tell(message)
    await system.settle()
    assert meta.notes == ["init", "before", "after"]
    assert noted(meta) == []


# -- families


class Head(MetaProcess):
    """Spawns others, from wherever it is told."""

    def __init__(self, below: list[Any], where: str) -> None:
        self.below = below
        self.where = where
        self.aliases: list[Any] = []

    def begin(self, where: str) -> None:
        if where == self.where:
            self.aliases += [self.spawn(meta) for meta in self.below]
            self.send(self.parent, "spawned")

    def init(self) -> None:
        self.begin("init")

    def start(self) -> None:
        self.begin("start")
        self.wait()

    def handle_message(self, message: Any) -> None:
        self.begin("handle_message")


@pytest.mark.parametrize("where", ["init", "start", "handle_message"])
@pytest.mark.parametrize("how", ["stop", "kill", "fail", "its parent stops"])
async def test_what_a_meta_process_has_spawned_ends_with_it(
    system: ActorSystem, where: str, how: str
) -> None:  # E2, E5
    scene, below = Scene(system), [Diary(), AsyncDiary()]
    head = Head(below, where)
    alias = await scene.spawn(head)
    alias.tell("now")
    assert await scene.heard() == "spawned"
    for one in head.aliases:
        await one.started()
        assert one.parent == alias
    assert [one.parent for one in below] == [alias, alias]
    assert await scene.do(lambda ctx: ctx.metas) == [alias]
    head.aliases[0].tell("hello")
    await system.settle()
    assert below[0].notes[-1] == "hello"
    match how:
        case "stop":
            alias.stop()
        case "kill":
            alias.kill()
        case "fail":
            alias.fail(BAD)
        case _:
            scene.owner.stop()
    reason = await alias.terminated()
    assert [noted(one) for one in below] == [[reason], [reason]]
    assert not any(one.is_alive for one in head.aliases)


async def test_the_end_of_one_below_is_no_end_of_the_one_above(system: ActorSystem) -> None:  # E5
    scene, below = Scene(system), Diary()
    head = Head([below], "init")
    alias = await scene.spawn(head)
    head.aliases[0].tell(BAD)
    assert (await head.aliases[0].terminated()) == ExitReason(ExitKind.FAIL, BAD)
    await system.settle()
    assert alias.is_alive


async def test_they_nest_as_deep_as_one_likes(system: ActorSystem) -> None:  # E5
    scene, begun = Scene(system), Event()

    class Bottom(Diary):
        def start(self) -> None:
            begun.set()
            self.wait()

    bottom = Bottom()
    meta: Any = bottom
    for _ in range(20):
        meta = Head([meta], "start")
    alias = await scene.spawn(meta)
    await begun.wait()
    assert bottom.id.path.count("/") == 22
    alias.stop()
    await alias.terminated()
    assert len(noted(bottom)) == 1


async def test_a_restart_of_the_parent_begins_without_meta_processes(system: ActorSystem) -> None:  # E2
    made: list[Diary] = []

    def begin(ctx: Any) -> None:
        made.append(Diary())
        ctx.spawn_meta(made[-1], MetaOptions(name="line"))

    from greenroom.testing import TestProbe

    owner = system.spawn(Owner, TestProbe(system).ref, begin, name="owner", supervision=AT_ONCE)
    await owner.started()
    for life in range(1, 4):
        owner.fail(BAD)
        await system.settle()
        assert len(made) == life + 1
        assert [len(noted(one)) for one in made] == [1] * life + [0]
    assert noted(made[0]) == [ExitReason(ExitKind.FAIL, BAD)]
    assert system.actor("/owner/line") is not None


async def test_parents_on_many_threads_spawn_at_the_same_time(system: ActorSystem) -> None:  # E2
    scenes = [Scene(system, dispatcher=one) for one in ("parallel", "pinned", None) for _ in range(4)]
    aliases = await asyncio.gather(*(scene.spawn(Quiet()) for scene in scenes for _ in range(10)))
    assert len(set(aliases)) == 120
    for scene in scenes:
        assert len(await scene.do(lambda ctx: ctx.metas)) == 10
        scene.owner.stop()
    for scene in scenes:
        await scene.owner.terminated()
    assert not any(alias.is_alive for alias in aliases)
