"""Watching: who is told of an end, once, and what a hook makes of it (M8)."""

from __future__ import annotations

import asyncio
import gc
import itertools
import weakref
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from greenroom import (
    Actor,
    ActorSystem,
    Behaviors,
    ChildTerminated,
    Context,
    DeathPact,
    Directive,
    ExitKind,
    MailboxConfig,
    Signal,
    Supervision,
    Terminated,
    handles,
)
from greenroom.errors import WrongLoop
from greenroom.testing import TestProbe
from tests.conformance.relations import BAD, Doer, Panic, Plain, Ref, Watcher, end
from tests.conformance.sending import until
from tests.gates import Event

Act = Callable[[Context], Any]


class AsyncWatcher(Watcher):
    async def receive(self, message: Any) -> Any:
        await asyncio.sleep(0)
        return super().receive(message)

    async def on_terminated(self, ref: Ref, cause: BaseException | None) -> None:
        await asyncio.sleep(0)
        self.log.append((ref, cause))


class Held(Watcher):
    """Suspends on an event, then does what it was told."""

    async def receive(self, message: tuple[Event, Act]) -> Any:
        gate, act = message
        await gate.wait()
        return act(self.ctx)


WATCHERS = pytest.mark.parametrize("kind", [Watcher, AsyncWatcher])


@WATCHERS
async def test_the_watch_of_a_dead_actor_is_told_at_once(system: ActorSystem, kind: type[Watcher]) -> None:  # case 13
    log: list[Any] = []
    cause = ValueError("over")
    dead = await end(system.spawn(Plain))
    failed = system.spawn(Plain)
    failed.fail(cause)
    await failed.terminated()
    watcher = system.spawn(kind, log)
    await watcher.ask(lambda ctx: (ctx.watch(dead), ctx.watch(failed))[0])
    await system.settle()
    assert log == [(dead, None), (failed, cause)]
    assert watcher.is_alive


async def test_a_dead_actor_can_be_watched_from_every_hook(system: ActorSystem) -> None:  # case 13
    class Early(Watcher):
        def __init__(self, log: list[Any], dead: Ref) -> None:
            super().__init__(log)
            self.dead = dead

        def pre_start(self) -> None:
            self.ctx.watch(self.dead)

        def post_stop(self) -> None:
            self.ctx.watch(self.dead)

    log: list[Any] = []
    dead = await end(system.spawn(Plain))
    watcher = system.spawn(Early, log, dead)
    await watcher.started()
    await system.settle()
    assert log == [(dead, None)]
    watcher.stop()
    assert (await watcher.terminated()).kind is ExitKind.NORMAL
    assert log == [(dead, None)]


@pytest.mark.parametrize("already_dead", [False, True])
@WATCHERS
async def test_watching_twice_is_told_once(system: ActorSystem, kind: type[Watcher], already_dead: bool) -> None:
    # case 14
    log: list[Any] = []
    target = await end(system.spawn(Plain)) if already_dead else system.spawn(Plain)
    watcher = system.spawn(kind, log)
    await watcher.ask(lambda ctx: (ctx.watch(target), ctx.watch(target))[0])
    target.stop()
    await target.terminated()
    await system.settle()
    assert log == [(target, None)]


async def test_watching_anew_after_being_told_is_told_again(system: ActorSystem) -> None:  # case 13
    log: list[Any] = []
    dead = await end(system.spawn(Plain))
    watcher = system.spawn(Watcher, log)
    for count in range(1, 4):
        await watcher.ask(lambda ctx: ctx.watch(dead))
        await system.settle()
        assert log == [(dead, None)] * count


@pytest.mark.parametrize("message", [None, "gone"])
@pytest.mark.parametrize("again", [False, True])
async def test_unwatch_takes_back_a_notice_that_is_queued(system: ActorSystem, message: Any, again: bool) -> None:
    # case 16
    log: list[Any] = []
    gate = Event()
    gate.set()
    target = system.spawn(Plain)
    watcher = system.spawn(Held, log)
    await watcher.ask((gate, lambda ctx: ctx.watch(target) if message is None else ctx.watch(target, message)))

    def act(ctx: Context) -> None:
        ctx.unwatch(target)
        if again:
            ctx.watch(target)

    gate.clear()
    asked = watcher.ask((gate, act))
    await asyncio.sleep(0)
    target.stop()
    await target.terminated()  # so the notice is queued, behind the message in hand
    gate.set()
    await asked
    await system.settle()
    assert log == ([(target, None)] if again else [])
    assert watcher.is_alive


async def test_unwatch_in_on_terminated_takes_back_the_next_notice(system: ActorSystem) -> None:  # case 16
    class Once(Watcher):
        def on_terminated(self, ref: Ref, cause: BaseException | None) -> None:
            super().on_terminated(ref, cause)
            for other in both:
                self.ctx.unwatch(other)

    both: list[Ref] = []
    log: list[Any] = []
    both[:] = [await end(system.spawn(Plain)), await end(system.spawn(Plain))]
    watcher = system.spawn(Once, log)
    await watcher.ask(lambda ctx: [ctx.watch(ref) for ref in both] and None)
    await system.settle()
    assert log == [(both[0], None)]


@WATCHERS
async def test_an_unwatched_actor_ends_unheard(system: ActorSystem, kind: type[Watcher]) -> None:
    log: list[Any] = []
    target, stranger = system.spawn(Plain), system.spawn(Plain)
    watcher = system.spawn(kind, log)
    await watcher.ask(lambda ctx: (ctx.watch(target), ctx.watch(target))[0])
    await watcher.ask(lambda ctx: (ctx.unwatch(target), ctx.unwatch(target), ctx.unwatch(stranger))[0])
    target.stop()
    stranger.stop()
    await system.settle()
    await target.terminated()
    await system.settle()
    assert log == []


async def test_only_refs_can_be_watched(system: ActorSystem) -> None:
    watcher = system.spawn(Watcher)
    with pytest.raises(TypeError):
        await watcher.ask(lambda ctx: ctx.watch("somebody"))


PANIC = Panic("worse")


def raises(cause: BaseException) -> Any:
    raise cause.with_traceback(None)


class BadConstructor(Plain):
    def __init__(self) -> None:
        raise BAD.with_traceback(None)


class BadStart(Plain):
    async def pre_start(self) -> None:
        raise BAD.with_traceback(None)


class BadEnd(Plain):
    def pre_stop(self) -> None:
        raise KeyError("pre_stop")

    async def post_stop(self) -> None:
        raise KeyError("post_stop")


ENDS: dict[str, tuple[Any, Callable[[Ref], object], ExitKind, BaseException | None]] = {
    "stopped": (Plain, lambda ref: ref.stop(), ExitKind.NORMAL, None),
    "stopped after queued": (Plain, lambda ref: ref.stop(after_queued=True), ExitKind.NORMAL, None),
    "killed": (Plain, lambda ref: ref.kill(), ExitKind.KILLED, None),
    "failed": (Plain, lambda ref: ref.fail(BAD), ExitKind.FAIL, BAD),
    "raised": (lambda ctx, _: raises(BAD), lambda ref: ref.tell(1), ExitKind.FAIL, BAD),
    "panicked": (lambda ctx, _: raises(PANIC), lambda ref: ref.tell(1), ExitKind.PANIC, PANIC),
    "Behaviors.stopped": (lambda ctx, _: Behaviors.stopped, lambda ref: ref.tell(1), ExitKind.NORMAL, None),
    "Behaviors.failed": (lambda ctx, _: Behaviors.failed(BAD), lambda ref: ref.tell(1), ExitKind.FAIL, BAD),
    "bad constructor": (BadConstructor, lambda ref: None, ExitKind.FAIL, BAD),
    "bad pre_start": (BadStart, lambda ref: None, ExitKind.FAIL, BAD),
    "bad last hooks": (BadEnd, lambda ref: ref.stop(), ExitKind.NORMAL, None),
}


@pytest.mark.parametrize("how", ENDS)
async def test_the_notice_says_how_the_actor_ended(system: ActorSystem, how: str) -> None:  # M8, cases 22, 53, 58
    factory, bring_about, kind, cause = ENDS[how]
    probe = TestProbe(system)
    target = system.spawn(factory)
    await probe.watch(target)
    bring_about(target)
    notice = await probe.expect_terminated(target)
    assert notice.reason.kind is kind
    assert notice.cause is notice.reason.cause is cause
    assert notice.reason == await target.terminated()
    await probe.expect_no()


@WATCHERS
async def test_what_the_dying_actor_said_comes_before_the_notice(system: ActorSystem, kind: type[Watcher]) -> None:
    # case 6
    log: list[Any] = []
    watcher = system.spawn(kind, log)

    def last_words(ctx: Context, message: Any) -> None:
        for word in range(3):
            watcher.tell(word)
        raise BAD.with_traceback(None)

    target = system.spawn(last_words)
    await watcher.ask(lambda ctx: ctx.watch(target))
    target.tell("go")
    await target.terminated()
    watcher.tell("after")
    await system.settle()
    assert log == [0, 1, 2, (target, BAD), "after"]


async def test_a_notice_needs_no_room(system: ActorSystem) -> None:  # case 11
    log: list[Any] = []
    gate = Event()
    gate.set()
    targets = [system.spawn(Plain) for _ in range(5)]
    watcher = system.spawn(Held, log, mailbox=MailboxConfig(capacity=1))
    await watcher.ask((gate, lambda ctx: [ctx.watch(ref) for ref in targets] and None))
    gate.clear()
    first = watcher.ask((gate, lambda ctx: None))
    await until(lambda: system.ledger(watcher).in_hand)
    second = watcher.ask((gate, lambda ctx: log.append("queued")))
    for target in targets:
        target.stop()
        await target.terminated()
    gate.set()
    await first
    await second
    await system.settle()
    assert log == ["queued", *((ref, None) for ref in targets)]


async def test_an_actor_that_is_stopping_is_watched_to_its_end(system: ActorSystem) -> None:
    class Slow(Plain):
        async def pre_stop(self) -> None:
            await gate.wait()

    gate: Event
    gate = Event()
    log: list[Any] = []
    target, watcher = system.spawn(Slow), system.spawn(Watcher, log)
    await target.started()
    target.stop()
    await asyncio.sleep(0)
    await watcher.ask(lambda ctx: ctx.watch(target))
    assert log == []
    gate.set()
    await target.terminated()
    await system.settle()
    assert log == [(target, None)]


# -- against a model


async def test_nobody_watches_an_actor_of_another_system(system: ActorSystem) -> None:
    async with ActorSystem("other") as other:
        stranger = other.spawn(Plain)
        log: list[Any] = []
        watcher = system.spawn(Watcher, log, supervision=Supervision(Directive.RESUME))
        with pytest.raises(WrongLoop):
            await watcher.ask(lambda ctx: ctx.watch(stranger))
        await end(stranger)
        with pytest.raises(WrongLoop):
            await watcher.ask(lambda ctx: ctx.watch(stranger))
        await system.settle()
        assert log == []


@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.lists(st.tuples(st.sampled_from(["watch", "unwatch"]), st.integers(0, 2)), max_size=6),
            st.sets(st.integers(0, 2), max_size=2),
        ),
        max_size=6,
    )
)
def test_each_watch_is_told_exactly_once(rounds: list[tuple[list[tuple[str, int]], set[int]]]) -> None:  # M8, 13-16
    async def main() -> None:
        log: list[Any] = []
        expected: list[int] = []
        watched: set[int] = set()
        async with asyncio.timeout(120.0), ActorSystem() as system:
            watcher = system.spawn(Watcher, log)
            targets = [system.spawn(Plain) for _ in range(3)]
            alive = {0, 1, 2}
            for steps, ending in rounds:
                await watcher.ask(lambda ctx, steps=steps: [getattr(ctx, do)(targets[i]) for do, i in steps] and None)
                for do, number in steps:
                    (watched.add if do == "watch" else watched.discard)(number)
                for number in ending:
                    targets[number].stop()
                    await targets[number].terminated()
                    alive.discard(number)
                await system.settle()
                expected += [number for number in watched if number not in alive]
                watched &= alive
                assert sorted(targets.index(ref) for ref, _ in log) == sorted(expected)

    asyncio.run(main())


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
async def test_the_message_of_a_watch_comes_to_receive(system: ActorSystem, message: Any, already_dead: bool) -> None:
    # M8
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
async def test_a_raising_hook_fails_its_actor_and_its_watchers_are_told(system: ActorSystem, kind: type[Doer]) -> None:
    # M3, case 58
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


async def do_async(ctx: Context, act: Callable[[Context], Any]) -> Any:
    await asyncio.sleep(0)
    return act(ctx)


def note_signals(ctx: Context, signal: Signal) -> None:
    return None


class Listener(Doer):
    """Hears every signal, and has nothing else for them."""

    def on_signal(self, signal: Signal) -> Any:
        if isinstance(signal, Terminated):
            self.log.append(signal.ref)


WITHOUT_HOOK: dict[str, Any] = {
    "class": Doer,
    "function": lambda ctx, act: act(ctx),
    "async function": do_async,
    "behavior": Behaviors.receive(lambda ctx, act: act(ctx)),
    "behavior that only listens": Behaviors.receive(lambda ctx, act: act(ctx), on_signal=note_signals),
    "class that only listens": Listener,
}


@pytest.mark.parametrize("cause", [None, BAD])
@pytest.mark.parametrize("kind", WITHOUT_HOOK)
async def test_an_unhandled_notice_is_a_death_pact(system: ActorSystem, kind: str, cause: BaseException | None) -> None:
    # M8
    target, watcher = system.spawn(Plain), system.spawn(WITHOUT_HOOK[kind])
    await watcher.ask(lambda ctx: ctx.watch(target))
    await end(target, cause)
    reason = await watcher.terminated()
    assert reason.kind is ExitKind.FAIL
    pact = reason.cause
    assert isinstance(pact, DeathPact)
    assert pact.code == "death_pact"
    assert (pact.ref, pact.ended, pact.reason) == (watcher, target, await target.terminated())
    assert pact.__cause__ is cause


async def test_a_listener_hears_of_the_end_that_kills_it(system: ActorSystem) -> None:  # on_signal: every signal
    log: list[Any] = []
    target, watcher = system.spawn(Plain), system.spawn(Listener, log)
    await watcher.ask(lambda ctx: ctx.watch(target))
    await end(target)
    assert isinstance((await watcher.terminated()).cause, DeathPact)
    assert log == [target]


async def test_death_pacts_run_along_a_chain_until_somebody_has_the_hook(system: ActorSystem) -> None:
    log: list[Any] = []
    chain: list[Ref] = [system.spawn(Plain), *(system.spawn(Doer) for _ in range(3)), system.spawn(Watcher, log)]
    for watched, watcher in itertools.pairwise(chain):
        await watcher.ask(lambda ctx, watched=watched: ctx.watch(watched))
    await end(chain[0], BAD)
    await chain[3].terminated()
    await system.settle()
    (ref, cause), *more = log
    assert ref == chain[3]
    assert more == []
    assert chain[4].is_alive
    ends: list[BaseException] = [BAD]
    while isinstance(cause, DeathPact):
        ends.append(cause)
        assert cause.__cause__ is not None
        cause = cause.__cause__
    assert cause is BAD
    assert len(ends) == 4


async def test_a_function_takes_a_notice_by_saying_what_comes_next(system: ActorSystem) -> None:
    log: list[Any] = []

    def on_signal(ctx: Context, signal: Signal) -> Any:
        if not isinstance(signal, Terminated):
            return None
        log.append((signal.ref, signal.cause, signal.reason.kind))
        return Behaviors.same

    target = system.spawn(Plain)
    watcher = system.spawn(Behaviors.receive(lambda ctx, act: act(ctx), on_signal=on_signal))
    await watcher.ask(lambda ctx: ctx.watch(target))
    await end(target, BAD)
    await system.settle()
    assert log == [(target, BAD, ExitKind.FAIL)]
    assert watcher.is_alive


@pytest.mark.parametrize("family", [False, True])
async def test_a_shutdown_is_no_death_pact(system: ActorSystem, family: bool) -> None:  # M8, M11
    watcher = system.spawn(Doer)

    class Slow(Plain):
        async def pre_stop(self) -> None:
            await asyncio.sleep(0)

    target = await watcher.ask(lambda ctx: ctx.spawn(Slow)) if family else system.spawn(Slow)
    await target.started()
    await watcher.ask(lambda ctx: ctx.watch(target))
    await system.shutdown()
    assert (await watcher.terminated()).kind is ExitKind.SHUTDOWN
    assert (await target.terminated()).kind is ExitKind.SHUTDOWN
