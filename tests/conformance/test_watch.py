"""Watching: an actor is told, once, that another has ended for good (M8)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from greenroom import (
    ActorSystem,
    Behaviors,
    Context,
    Directive,
    ExitKind,
    MailboxConfig,
    Supervision,
)
from greenroom.errors import WrongLoop
from greenroom.testing import TestProbe
from tests.conformance.askers import until
from tests.conformance.watchers import BAD, Plain, Ref, Watcher, end
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
async def test_watching_twice_is_told_once(
    system: ActorSystem, kind: type[Watcher], already_dead: bool
) -> None:  # case 14
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
async def test_unwatch_takes_back_a_notice_that_is_queued(
    system: ActorSystem, message: Any, again: bool
) -> None:  # case 16
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


class Panic(BaseException):
    pass


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
async def test_what_the_dying_actor_said_comes_before_the_notice(
    system: ActorSystem, kind: type[Watcher]
) -> None:  # case 6
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
