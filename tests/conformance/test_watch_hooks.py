"""What becomes of a notice: the hooks, or a message of one's own; and what is left of a watch (M8)."""

from __future__ import annotations

import asyncio
import gc
import weakref
from typing import Any

import pytest

from greenroom import (
    Actor,
    ActorSystem,
    Behaviors,
    ChildTerminated,
    ExitKind,
    Signal,
    Terminated,
    handles,
)
from tests.conformance.watchers import BAD, Doer, Plain, Ref, Watcher, end


def watchers_of(system: ActorSystem, ref: Ref) -> int:
    return next(actor.watchers for actor in system.snapshot().actors if actor.id == ref.id)


# -- a message instead of the hook


class Sorter(Actor[Any, Any]):
    def __init__(self, log: list[Any], target: Ref, message: Any) -> None:
        self.log = log
        self.target = target
        self.message = message

    def pre_start(self) -> None:
        self.ctx.watch(self.target, self.message)

    @handles(str, int, tuple)
    def note(self, message: Any) -> None:
        self.log.append((message, self.ctx.sender))


@pytest.mark.parametrize("message", ["gone", "", 0, ()])
@pytest.mark.parametrize("already_dead", [False, True])
async def test_the_message_of_a_watch_comes_to_receive(
    system: ActorSystem, message: Any, already_dead: bool
) -> None:  # M8
    log: list[Any] = []
    target = await end(system.spawn(Plain)) if already_dead else system.spawn(Plain)
    watcher = system.spawn(Sorter, log, target, message)
    await watcher.started()
    target.stop()
    await target.terminated()
    await system.settle()
    assert log == [(message, None)]
    assert watcher.is_alive  # no DeathPact, though it has no on_terminated


async def test_to_watch_again_changes_the_message_and_makes_no_second_watch(system: ActorSystem) -> None:  # M8
    class Fickle(Sorter):
        def pre_start(self) -> None:
            self.ctx.watch(self.target, "first")
            self.ctx.watch(self.target, self.message)

    log: list[Any] = []
    target = system.spawn(Plain)
    await system.spawn(Fickle, log, target, "second").started()
    await end(target)
    await system.settle()
    assert log == [("second", None)]


async def test_none_is_no_message(system: ActorSystem) -> None:  # the contract: watch(ref, message=None)
    log: list[Any] = []
    dead = await end(system.spawn(Plain))
    await system.spawn(Watcher, log).ask(lambda ctx: ctx.watch(dead, None))
    await system.settle()
    assert log == [(dead, None)]


async def test_watching_again_changes_the_message(system: ActorSystem) -> None:  # case 14
    log: list[Any] = []
    target = system.spawn(Plain)
    watcher = system.spawn(Watcher, log)
    await watcher.ask(lambda ctx: (ctx.watch(target, "one"), ctx.watch(target, "two"))[0])
    target.stop()
    await target.terminated()
    await system.settle()
    assert log == ["two"]


async def test_an_unhandled_message_of_a_watch_is_a_dead_letter_outside_the_ledger(system: ActorSystem) -> None:
    dead = await end(system.spawn(Plain))
    watcher = system.spawn(Sorter, [], dead, b"nobody wants bytes")
    await watcher.started()
    await system.settle()
    assert [letter.message for letter in system.dead_letters.recent()] == [b"nobody wants bytes"]
    assert system.ledger(watcher).sent == system.ledger(watcher).unhandled == 0


# -- hooks that do something


class Chatty(Doer):
    def on_terminated(self, ref: Ref, cause: BaseException | None) -> None:
        self.log.append(("on_terminated", ref, cause))

    def on_signal(self, signal: Signal) -> None:
        if isinstance(signal, Terminated):
            self.log.append(("on_signal", signal.ref, signal.cause))


class AsyncChatty(Doer):
    async def on_terminated(self, ref: Ref, cause: BaseException | None) -> None:
        await asyncio.sleep(0)
        self.log.append(("on_terminated", ref, cause))

    async def on_signal(self, signal: Signal) -> None:
        await asyncio.sleep(0)
        if isinstance(signal, Terminated):
            self.log.append(("on_signal", signal.ref, signal.cause))


@pytest.mark.parametrize("kind", [Chatty, AsyncChatty])
async def test_on_signal_hears_of_the_end_after_its_own_hook(system: ActorSystem, kind: type[Doer]) -> None:
    log: list[Any] = []
    target, watcher = system.spawn(Plain), system.spawn(kind, log)
    await watcher.ask(lambda ctx: ctx.watch(target))
    await end(target, BAD)
    watcher.tell("next")
    await system.settle()
    # One thing at a time: an async hook is over before the next message.
    assert log == [("on_terminated", target, BAD), ("on_signal", target, BAD), "next"]


class Raising(Doer):
    def on_terminated(self, ref: Ref, cause: BaseException | None) -> None:
        raise BAD.with_traceback(None)


class AsyncRaising(Doer):
    async def on_terminated(self, ref: Ref, cause: BaseException | None) -> None:
        await asyncio.sleep(0)
        raise BAD.with_traceback(None)


class RaisingSignal(Watcher):
    def on_signal(self, signal: Signal) -> None:
        if isinstance(signal, Terminated):
            raise BAD.with_traceback(None)


@pytest.mark.parametrize("kind", [Raising, AsyncRaising, RaisingSignal])
async def test_a_raising_hook_fails_its_actor_and_its_watchers_are_told(
    system: ActorSystem, kind: type[Doer]
) -> None:  # M3, case 58
    log: list[Any] = []
    target, watcher, second = system.spawn(Plain), system.spawn(kind), system.spawn(Watcher, log)
    await watcher.ask(lambda ctx: ctx.watch(target))
    await second.ask(lambda ctx: ctx.watch(watcher))
    await end(target)
    reason = await watcher.terminated()
    assert (reason.kind, reason.cause) == (ExitKind.FAIL, BAD)
    await system.settle()
    assert log == [(watcher, BAD)]


async def test_an_actor_that_became_something_else_still_has_its_hook(system: ActorSystem) -> None:
    log: list[Any] = []
    target, watcher = system.spawn(Plain), system.spawn(Watcher, log)
    await watcher.ask(lambda ctx: (ctx.watch(target), ctx.become(lambda ctx, message: "other"))[0])
    assert await watcher.ask("anything") == "other"
    await end(target)
    await system.settle()
    assert log == [(target, None)]


async def test_the_name_is_free_before_the_watcher_is_told(system: ActorSystem) -> None:  # case 60
    class Heir(Watcher):
        def on_terminated(self, ref: Ref, cause: BaseException | None) -> None:
            assert not ref.is_alive
            assert self.ctx.system.actor("crown") is None
            self.log.append(self.ctx.system.spawn(Plain, name="crown"))

    log: list[Any] = []
    target = system.spawn(Plain, name="crown")
    await system.spawn(Heir, log).ask(lambda ctx: ctx.watch(target))
    await end(target)
    await system.settle()
    assert log == [system.actor("crown")]
    assert log != [target]


# -- children


class Parent(Doer):
    def on_child_terminated(self, ref: Ref, cause: BaseException | None) -> Any:
        self.log.append(("child", ref, cause))


class AsyncParent(Parent):
    async def on_child_terminated(self, ref: Ref, cause: BaseException | None) -> None:
        await asyncio.sleep(0)
        super().on_child_terminated(ref, cause)


class WatchingParent(Parent):
    def on_terminated(self, ref: Ref, cause: BaseException | None) -> None:
        self.log.append(("watched", ref, cause))


@pytest.mark.parametrize("cause", [None, BAD])
@pytest.mark.parametrize("kind", [Parent, AsyncParent])
async def test_a_parent_hears_of_each_child_once(
    system: ActorSystem, kind: type[Doer], cause: BaseException | None
) -> None:
    log: list[Any] = []
    parent = system.spawn(kind, log)
    child = await parent.ask(lambda ctx: ctx.spawn(Doer))
    grandchild = await child.ask(lambda ctx: ctx.spawn(Plain))
    await end(grandchild, cause)
    await system.settle()
    assert log == []
    await end(child, cause)
    await system.settle()
    assert log == [("child", child, cause)]
    assert parent.is_alive  # a child's end is no DeathPact to who does not watch it
    assert await parent.ask(lambda ctx: ctx.children) == []


async def test_a_parent_that_watches_hears_of_it_both_ways(system: ActorSystem) -> None:
    log: list[Any] = []
    parent = system.spawn(WatchingParent, log)
    child = await parent.ask(lambda ctx: ctx.spawn(Plain))
    await parent.ask(lambda ctx: ctx.watch(child))
    await parent.ask(lambda ctx: ctx.stop(child))
    await child.terminated()
    await system.settle()
    assert sorted(log) == [("child", child, None), ("watched", child, None)]


async def test_a_childs_end_is_a_signal_to_functions_and_classes(system: ActorSystem) -> None:
    log: list[Any] = []

    def hear(signal: Signal) -> None:
        if isinstance(signal, ChildTerminated):
            log.append((signal.ref, signal.cause, signal.reason.kind))

    class Hearing(Doer):
        def on_signal(self, signal: Signal) -> None:
            hear(signal)

    kinds: list[Any] = [Hearing, Behaviors.receive(lambda ctx, act: act(ctx), on_signal=lambda ctx, it: hear(it))]
    for kind in kinds:
        parent: Ref = system.spawn(kind)
        child = await parent.ask(lambda ctx: ctx.spawn(Plain))
        await end(child, BAD)
        await system.settle()
        assert log == [(child, BAD, ExitKind.FAIL)]
        log.clear()


async def test_a_raising_on_child_terminated_fails_the_parent(system: ActorSystem) -> None:  # M3
    class Touchy(Parent):
        def on_child_terminated(self, ref: Ref, cause: BaseException | None) -> None:
            raise BAD.with_traceback(None)

    parent = system.spawn(Touchy)
    children = [await parent.ask(lambda ctx: ctx.spawn(Plain)) for _ in range(3)]
    await end(children[1])
    reason = await parent.terminated()
    assert (reason.kind, reason.cause) == (ExitKind.FAIL, BAD)
    assert not any(child.is_alive for child in children)


# -- what is left of a watch


async def test_whichever_ends_first_is_forgotten_by_the_other(system: ActorSystem) -> None:  # M8: cleaned up both ways
    log: list[Any] = []
    target = system.spawn(Plain)
    watchers = [system.spawn(Watcher, log) for _ in range(6)]
    for watcher in watchers:
        await watcher.ask(lambda ctx: (ctx.watch(target), ctx.watch(target))[0])
    assert watchers_of(system, target) == 6
    await watchers[0].ask(lambda ctx: ctx.unwatch(target))
    assert watchers_of(system, target) == 5
    await end(watchers[1])
    await end(watchers[2], BAD)
    watchers[3].kill()
    await watchers[3].terminated()
    assert watchers_of(system, target) == 2
    await end(target)
    await system.settle()
    assert log == [(target, None)] * 2


async def test_neither_side_keeps_the_others_actor_in_memory(system: ActorSystem) -> None:  # M8
    class Kept(Watcher):
        def pre_start(self) -> None:
            alive.append(weakref.ref(self))

    alive: list[weakref.ref[Any]] = []
    first = system.spawn(Kept)
    await first.started()
    second = system.spawn(Kept)
    await second.ask(lambda ctx: ctx.watch(first))
    await first.ask(lambda ctx: ctx.watch(second))
    await end(first)
    await system.settle()
    gc.collect()
    assert [ref() is None for ref in alive] == [True, False]
    assert watchers_of(system, second) == 0


async def test_an_actor_that_watches_itself_ends_like_any_other(system: ActorSystem) -> None:  # M8
    for cause in (None, BAD):
        log: list[Any] = []
        itself, other = system.spawn(Watcher), system.spawn(Watcher, log)
        await itself.ask(lambda ctx: ctx.watch(ctx.self))
        await itself.ask(lambda ctx: ctx.watch(ctx.self, "my own end"))
        await other.ask(lambda ctx, itself=itself: ctx.watch(itself))
        await end(itself, cause)
        assert (await itself.terminated()).cause is cause
        await system.settle()
        assert log == [(itself, cause)]


async def test_a_watch_of_an_old_ref_is_not_of_the_actor_in_its_slot(system: ActorSystem) -> None:  # J14
    log: list[Any] = []
    watcher = system.spawn(Watcher, log)
    old = await end(system.spawn(Plain))
    new = [system.spawn(Plain) for _ in range(10)]
    await watcher.ask(lambda ctx: ctx.watch(old))
    await system.settle()
    assert log == [(old, None)]
    assert [watchers_of(system, ref) for ref in new] == [0] * 10
