"""The end of a tree of actors: children first, the parent last, nobody forgotten (M5; case 56)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from greenroom import (
    Actor,
    ActorRef,
    ActorSystem,
    Context,
    Directive,
    ExitKind,
    ManualClock,
    State,
    Supervision,
    SystemConfig,
)
from greenroom.errors import GreenroomError
from greenroom.testing import TestProbe, assert_ledger_balanced
from tests.conformance.lives import Hooked, HookedAsync, Plain, ended, report_of
from tests.conftest import Play
from tests.gates import Gate

ENDS = ["stop", "kill", "fail", "stop(after_queued=True)"]


def end(ref: ActorRef[Any, Any], how: str) -> None:
    if how == "fail":
        ref.fail(ValueError("on purpose"))
    elif how == "stop(after_queued=True)":
        ref.stop(after_queued=True)
    else:
        getattr(ref, how)()


class Node(Actor[Any, Any]):
    """Has the children its tree says, and writes down when it ends: a tree is a list of trees."""

    def __init__(self, tree: list[Any], log: list[str]) -> None:
        self.tree = tree
        self.log = log

    def pre_start(self) -> None:
        for subtree in self.tree:
            self.ctx.spawn(type(self), subtree, self.log)

    def receive(self, message: Any) -> Any:
        return message

    def post_stop(self) -> None:
        assert self.ctx.children == []
        self.log.append(self.ctx.self.path)


class AsyncNode(Node):
    async def pre_stop(self) -> None:
        await asyncio.sleep(0)

    async def post_stop(self) -> None:  # type: ignore[override]
        super().post_stop()
        await asyncio.sleep(0)
        assert self.log.count(self.ctx.self.path) == 1


def assert_children_went_first(log: list[str]) -> None:
    gone: set[str] = set()
    for path in log:
        parents = path.split("/")
        for length in range(2, len(parents)):
            assert "/".join(parents[:length]) not in gone, log
        gone.add(path)
    assert len(gone) == len(log)


def size(tree: list[Any]) -> int:
    return 1 + sum(map(size, tree))


def chain(depth: int) -> list[Any]:
    tree: list[Any] = []
    for _ in range(depth - 1):
        tree = [tree]
    return tree


WIDE: list[Any] = [[] for _ in range(500)]
BUSHY: list[Any] = [[[[], []], []], [], [[[[]]], [[], [], []]]]
TREES = [[], [[]], BUSHY, WIDE, chain(60)]


@pytest.mark.parametrize("tree", TREES, ids=["alone", "one child", "bushy", "wide", "deep"])
@pytest.mark.parametrize("how", ENDS)
@pytest.mark.parametrize("node", [Node, AsyncNode], ids=["sync", "async"])
async def test_a_parent_ends_after_every_descendant(
    play: Play, system: ActorSystem, node: Any, how: str, tree: list[Any]
) -> None:  # case 56, M5
    log: list[str] = []
    tree = tree[:150] if play.backend == "pinned" else tree  # each has a thread of its own
    probe = TestProbe(system)
    ref = system.spawn(node, tree, log, name="top")
    await probe.watch(ref)
    await system.settle()
    assert len(system.actors()) == size(tree) + 1
    end(ref, how)
    await ended(system, ref)
    await probe.expect_terminated(ref)
    assert system.actors() == [probe.ref]
    assert len(log) == size(tree)
    assert log[-1] == "/top"
    await system.shutdown()
    assert_children_went_first(log)
    assert report_of(system).forced == ()


trees = st.recursive(st.just([]), lambda below: st.lists(below, max_size=4), max_leaves=12)  # type: ignore[var-annotated]


@settings(max_examples=30, deadline=None)
@given(tree=trees, node=st.sampled_from([Node, AsyncNode]), how=st.sampled_from(ENDS))
def test_any_tree_ends_from_its_leaves_up(tree: list[Any], node: Any, how: str) -> None:  # case 56
    log: list[str] = []

    async def main() -> None:
        async with asyncio.timeout(120.0), ActorSystem() as system:
            ref = system.spawn(node, tree, log, supervision=Supervision(Directive.STOP))
            end(ref, how)  # its descendants may not even exist yet
            await ended(system, ref)
            assert system.actors() == []
        assert_ledger_balanced(system)

    asyncio.run(main())
    assert_children_went_first(log)


async def test_a_long_chain_of_actors_does_not_exhaust_the_stack(play: Play, system: ActorSystem) -> None:  # M5
    refs: list[ActorRef[Any, Any]] = []
    ref = system.spawn(Plain)
    for _ in range(500 if play.is_elsewhere else play.many(5_000)):
        refs.append(ref)
        ref = system.spawn(Plain, parent=ref)
    refs[0].stop()
    assert (await ended(system, refs[0])).kind is ExitKind.NORMAL
    assert system.actors() == []
    await system.shutdown()
    del refs[1:]


@pytest.mark.parametrize(
    ("how", "kind"),
    [("stop", ExitKind.SHUTDOWN), ("fail", ExitKind.SHUTDOWN), ("kill", ExitKind.KILLED)],
)
async def test_children_end_for_the_sake_of_their_parent(system: ActorSystem, how: str, kind: ExitKind) -> None:  # M5
    log: list[str] = []
    parent = system.spawn(Hooked)
    child = await parent.ask(lambda ctx: ctx.spawn(Hooked, log))
    grandchild = await child.ask(lambda ctx: ctx.spawn(Hooked, log))
    end(parent, how)
    reasons = [await child.terminated(), await grandchild.terminated()]
    assert [reason.kind for reason in reasons] == [kind, kind]
    assert [reason.cause for reason in reasons] == [None, None]
    await parent.terminated()
    await system.shutdown()
    assert ("pre_stop" in log) == (how != "kill")
    assert log.count("post_stop") == 2


@pytest.mark.parametrize("how", ["stop", "kill", "fail"])
async def test_a_child_that_ends_takes_nobody_with_it(system: ActorSystem, how: str) -> None:  # M5
    parent = system.spawn(Hooked)
    first = await parent.ask(lambda ctx: ctx.spawn(Plain))
    second = await parent.ask(lambda ctx: ctx.spawn(Plain))
    end(first, how)
    await first.terminated()
    assert await second.ask("still there") == "still there"
    assert await parent.ask(lambda ctx: ctx.children) == [second]


async def test_the_children_are_alive_in_pre_stop_and_gone_in_post_stop(system: ActorSystem) -> None:  # M3, M5
    seen: dict[str, Any] = {}

    class Parent(Actor[Any, Any]):
        def pre_start(self) -> None:
            self.child = self.ctx.spawn(Plain)

        def receive(self, message: Any) -> None: ...

        async def pre_stop(self) -> None:
            seen["reply in pre_stop"] = await self.child.ask("hello")

        def post_stop(self) -> None:
            seen["children in post_stop"] = self.ctx.children
            seen["state of the child"] = self.child.state

    ref = system.spawn(Parent)
    await ref.started()
    ref.stop()
    await ended(system, ref)
    await system.shutdown()
    assert seen == {
        "reply in pre_stop": "hello",
        "children in post_stop": [],
        "state of the child": State.TERMINATED,
    }


@pytest.mark.at_home("pinned")
def test_plain_children_are_stopped_all_at_once(play: Play) -> None:  # M5: not one after the other
    async def program(system: ActorSystem) -> None:
        barrier = asyncio.Barrier(5)
        parent = system.spawn(Hooked)
        for _ in range(5):
            child = await parent.ask(lambda ctx: ctx.spawn(HookedAsync, None, pre_stop=lambda _: barrier.wait()))
            await child.started()
        parent.stop()
        await ended(system, parent)

    assert play(program).report.forced == ()  # type: ignore[union-attr]


async def test_a_parent_that_waits_for_its_children_stays_responsive(system: ActorSystem, clock: ManualClock) -> None:
    # M5

    class Parent(Hooked):
        def inspect(self, *items: str) -> dict[str, Any]:
            return {"children": len(self.ctx.children)}

    gate = Gate()
    parent = system.spawn(Parent)
    child = await parent.ask(lambda ctx: ctx.spawn(HookedAsync, None, pre_stop=lambda _: gate))
    await child.started()
    parent.stop()
    await clock.advance(1.0)
    assert parent.state is State.STOPPING
    assert await parent.inspect() == {"children": 1}
    parent.tell("a dead letter")
    parent.fail(ValueError("too late to matter"))
    await clock.advance(1.0)
    assert parent.is_alive
    assert system.dead_letters.count == 1
    gate.set_result(None)
    assert (await ended(system, parent)).kind is ExitKind.NORMAL


async def test_a_kill_reaches_those_that_a_stop_waits_for(system: ActorSystem, clock: ManualClock) -> None:  # M5
    log: list[str] = []
    gate = Gate()
    parent = system.spawn(Hooked, log)
    child = await parent.ask(lambda ctx: ctx.spawn(HookedAsync, None, pre_stop=lambda _: gate))
    await child.started()
    parent.stop()
    await clock.advance(1.0)
    parent.kill()
    assert (await ended(system, child)).kind is ExitKind.KILLED
    assert (await ended(system, parent)).kind is ExitKind.KILLED
    await system.shutdown()
    assert log[-1] == "post_stop"


@pytest.mark.parametrize("when", ["pre_stop", "waiting", "post_stop"])
async def test_a_child_spawned_under_a_stopping_parent_is_no_orphan(
    system: ActorSystem, clock: ManualClock, when: str
) -> None:  # M5, M4
    spawned: list[ActorRef[Any, Any]] = []
    refused: list[Exception] = []

    def spawn(ctx: Context) -> None:
        try:
            spawned.append(ctx.spawn(Plain, name="late"))
        except GreenroomError as exc:
            refused.append(exc)

    gate = Gate()
    parent = system.spawn(Hooked, None, name="parent", **({} if when == "waiting" else {when: spawn}))
    child = await parent.ask(lambda ctx: ctx.spawn(HookedAsync, None, pre_stop=lambda _: gate))
    await child.started()
    parent.stop()
    await clock.advance(0.1)
    if when == "waiting":
        try:
            spawned.append(system.spawn(Plain, parent=parent, name="late"))
        except GreenroomError as exc:
            refused.append(exc)
    await clock.advance(0.1)
    gate.set_result(None)
    assert (await ended(system, parent)).kind is ExitKind.NORMAL  # without any time passing: nobody was forced
    assert len(spawned) + len(refused) == 1
    assert not any(ref.is_alive for ref in spawned)
    await system.shutdown()
    assert report_of(system).forced == ()


@pytest.mark.parametrize("kind", [Hooked, HookedAsync], ids=["sync", "async"])
async def test_children_of_an_actor_that_fails_to_start_end_before_it(system: ActorSystem, kind: Any) -> None:  # M3, M4
    log: list[str] = []

    def spawn_and_raise(ctx: Context) -> None:
        ctx.spawn(Hooked, None, post_stop=lambda _: log.append("child"))
        ctx.spawn(HookedAsync, None, post_stop=lambda _: log.append("child"))
        raise ValueError("on purpose")

    ref = system.spawn(kind, None, pre_start=spawn_and_raise, post_stop=lambda _: log.append("parent"))
    assert (await ended(system, ref)).kind is ExitKind.FAIL
    assert system.actors() == []
    await system.shutdown()
    assert log in (["child", "child", "parent"], ["child", "parent"], ["parent"])  # those that had started


async def test_one_stop_timeout_is_enough_for_a_whole_tree(system: ActorSystem, clock: ManualClock) -> None:  # M5
    config = SystemConfig()
    top = system.spawn(Hooked)
    ref = top
    for _ in range(5):
        ref = await ref.ask(lambda ctx: ctx.spawn(Hooked))
    never = Gate()
    leaf = await ref.ask(lambda ctx: ctx.spawn(HookedAsync, None, name="leaf", pre_stop=lambda _: never))
    await leaf.started()
    top.stop()
    await clock.advance(config.stop_timeout + 2.0)
    await ended(system, top)
    await system.shutdown()
    assert any(path.endswith("/leaf") for path in report_of(system).forced)
