"""A hook that raises, whichever it is and whatever it raises, never strands its actor (M3; case 58)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from greenroom import (
    Actor,
    ActorRef,
    ActorSystem,
    ActorTerminated,
    Behaviors,
    Context,
    ExitKind,
    PostStart,
    PostStop,
    PreStart,
    PreStop,
    Signal,
    SystemFailed,
    Terminated,
)
from greenroom.testing import TestProbe, assert_ledger_balanced
from tests.conformance.lives import Hooked, HookedAsync, Plain, assert_is_a_life, ended, every_hooked, raises

if TYPE_CHECKING:
    from tests.conftest import Play


class Panic(BaseException):
    """No exception that anybody should catch."""


ERRORS = [ValueError, StopAsyncIteration, asyncio.CancelledError, Panic, GeneratorExit]
every_error = pytest.mark.parametrize("error", ERRORS)
ENDS = ["stop", "kill", "fail"]


def end(ref: ActorRef[Any, Any], how: str) -> None:
    if how == "fail":
        ref.fail(LookupError("as asked for"))
    else:
        getattr(ref, how)()


async def assert_has_gone(system: ActorSystem, probe: TestProbe, ref: ActorRef[Any, Any]) -> Terminated:
    """It has ended, its watchers heard of it once, and its name and its place are free."""
    await ended(system, ref)
    notice = await probe.expect_terminated(ref)
    await probe.expect_no()
    assert not ref.is_alive
    assert system.actor(ref.path) is None
    assert ref not in system.actors()
    assert system.spawn(Plain, name=ref.name, parent=ref.parent).path == ref.path
    assert_ledger_balanced(system, ref)
    return notice


@every_hooked
@every_error
@pytest.mark.parametrize("hook", ["init", "pre_start", "post_start"])
@pytest.mark.config(history=True)
async def test_a_hook_that_raises_at_the_start_ends_its_actor(
    system: ActorSystem, kind: Any, hook: str, error: type[BaseException]
) -> None:  # case 58, M3
    cause = error("on purpose")
    probe = TestProbe(system)
    ref = system.spawn(kind, None, name="one", **{hook: raises(cause)})
    await probe.watch(ref)
    asked = ref.ask("hello", timeout=None)
    notice = await assert_has_gone(system, probe, ref)
    assert notice.reason.kind is (ExitKind.PANIC if error in (Panic, GeneratorExit) else ExitKind.FAIL)
    assert notice.cause is cause
    with pytest.raises(ActorTerminated):
        await asked
    with pytest.raises((error, RuntimeError)):
        await ref.started()
    assert_is_a_life(ref.history)


@every_hooked
@every_error
@pytest.mark.parametrize("how", ENDS)
@pytest.mark.parametrize("hook", ["pre_stop", "post_stop"])
@pytest.mark.config(history=True)
async def test_a_hook_that_raises_at_the_end_changes_nothing(
    system: ActorSystem, kind: Any, hook: str, how: str, error: type[BaseException]
) -> None:  # case 58, M3
    log: list[str] = []
    probe = TestProbe(system)
    ref = system.spawn(kind, log, name="one", **{hook: raises(error("on purpose"))})
    child = await ref.ask(lambda ctx: ctx.spawn(Hooked, log, post_stop=lambda _: log.append("the child's")))
    await child.started()
    await probe.watch(ref)
    end(ref, how)
    ref.tell("too late")
    notice = await assert_has_gone(system, probe, ref)
    kinds = {"stop": ExitKind.NORMAL, "kill": ExitKind.KILLED, "fail": ExitKind.FAIL}
    assert notice.reason.kind is kinds[how]
    assert isinstance(notice.cause, LookupError if how == "fail" else type(None))
    assert not child.is_alive
    assert_is_a_life(ref.history, killed=how == "kill")
    await system.shutdown()
    assert log[-3:] == ["post_stop", "the child's", "post_stop"]


@pytest.mark.parametrize("error", [ValueError, GeneratorExit])
@pytest.mark.parametrize("signal", [PreStart, PostStart, PreStop, PostStop])
@pytest.mark.parametrize("style", ["sync", "async", "behavior", "async behavior"])
@pytest.mark.config(history=True)
async def test_on_signal_that_raises_strands_nobody(
    system: ActorSystem, style: str, signal: type[Signal], error: type[BaseException]
) -> None:  # case 58, M3
    def listen(_: object, heard: Signal) -> None:
        if isinstance(heard, signal):
            raise error("on purpose")

    async def listen_async(_: object, heard: Signal) -> None:
        await asyncio.sleep(0)
        listen(_, heard)

    class Sync(Plain):
        on_signal = listen  # type: ignore[assignment]

    class Async(Plain):
        on_signal = listen_async  # type: ignore[assignment]

    def handle(ctx: Context, message: Any) -> Any:
        return message

    factory: Any = {
        "sync": Sync,
        "async": Async,
        "behavior": Behaviors.receive(handle, on_signal=listen),
        "async behavior": Behaviors.receive(handle, on_signal=listen_async),
    }[style]
    probe = TestProbe(system)
    ref = system.spawn(factory, name="one")
    await probe.watch(ref)
    ref.stop()
    notice = await assert_has_gone(system, probe, ref)
    assert_is_a_life(ref.history)
    if signal in (PreStop, PostStop):
        assert notice.reason.kind is ExitKind.NORMAL


class Kin(Actor[Any, Any]):
    """Fails on any news of its child."""

    error: BaseException

    def pre_start(self) -> None:
        self.child = self.ctx.spawn(Plain, name="child")
        self.ctx.watch(self.child)

    def receive(self, message: Any) -> None:
        self.child.stop()


class WatchingKin(Kin):
    def on_terminated(self, ref: ActorRef[Any, Any], cause: BaseException | None) -> None:
        raise self.error


class WatchingKinAsync(Kin):
    async def on_terminated(self, ref: ActorRef[Any, Any], cause: BaseException | None) -> None:
        await asyncio.sleep(0)
        raise self.error


class Parent(Kin):
    def on_terminated(self, ref: ActorRef[Any, Any], cause: BaseException | None) -> None:
        pass

    def on_child_terminated(self, ref: ActorRef[Any, Any], cause: BaseException | None) -> None:
        raise self.error


class ParentAsync(Parent):
    async def on_child_terminated(self, ref: ActorRef[Any, Any], cause: BaseException | None) -> None:  # type: ignore[override]
        await asyncio.sleep(0)
        raise self.error


@every_error
@pytest.mark.parametrize("kind", [WatchingKin, WatchingKinAsync, Parent, ParentAsync])
async def test_a_hook_that_raises_on_news_of_others_fails_its_actor(
    system: ActorSystem, kind: Any, error: type[BaseException]
) -> None:  # case 58
    cause = error("on purpose")

    class Failing(kind):  # type: ignore[misc]
        pass

    Failing.error = cause
    probe = TestProbe(system)
    ref = system.spawn(Failing, name="one")
    await probe.watch(ref)
    ref.tell("go")
    notice = await assert_has_gone(system, probe, ref)
    assert notice.cause is cause
    assert notice.reason.abnormal


@every_hooked
@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
@pytest.mark.parametrize("hook", ["init", "pre_start", "post_start", "pre_stop", "post_stop"])
def test_a_hook_may_end_the_whole_system(play: Play, kind: Any, hook: str, error: type[BaseException]) -> None:  # M3
    cause = error("on purpose")
    refs: list[ActorRef[Any, Any]] = []

    async def program(system: ActorSystem) -> None:
        refs.append(system.spawn(kind, None, **{hook: raises(cause)}))
        refs.append(system.spawn(kind))
        refs[0].stop()
        await system.stopped()

    with pytest.raises(SystemFailed) as caught:
        play(program, history=True)
    assert caught.value.__cause__ is cause
    assert play.raised == []
    assert play.system is not None
    assert play.system.report is not None
    assert play.system.report.cause is cause
    assert (play.system.report.started, play.system.report.terminated) == (2, 2)
    assert_ledger_balanced(play.system)
    for ref in refs:
        assert_is_a_life(ref.history)


@pytest.mark.parametrize("kind", [WatchingKin, WatchingKinAsync, Parent, ParentAsync])
def test_a_hook_with_news_of_others_may_end_the_whole_system(play: Play, kind: Any) -> None:  # M3
    class Failing(kind):  # type: ignore[misc]
        error = KeyboardInterrupt("on purpose")

    async def program(system: ActorSystem) -> None:
        system.spawn(Failing).tell("go")
        await system.stopped()

    with pytest.raises(SystemFailed) as caught:
        play(program)
    assert caught.value.__cause__ is Failing.error
    assert play.raised == []


@every_hooked
async def test_hooks_run_once_each_and_in_their_order(system: ActorSystem, kind: Any) -> None:  # M3
    log: list[str] = []
    ref = system.spawn(kind, log)
    await ref.ask(1)
    for _ in range(3):
        ref.stop()
    ref.stop(after_queued=True)
    ref.kill()
    await ref.terminated()
    ref.stop()
    ref.kill()
    ref.fail(ValueError("too late"))
    await system.settle()
    await system.shutdown()
    assert log in (
        ["pre_start", "post_start", "receive 1", "pre_stop", "post_stop"],
        ["pre_start", "post_start", "receive 1", "post_stop"],  # the kill may come before pre_stop
    )


@pytest.mark.parametrize("how", ["kill", "fail"])
@every_hooked
async def test_only_an_actor_that_stops_has_its_pre_stop_called(system: ActorSystem, kind: Any, how: str) -> None:  # M3
    log: list[str] = []
    ref = system.spawn(kind, log)
    await ref.started()
    end(ref, how)
    await ref.terminated()
    await system.shutdown()
    assert log == ["pre_start", "post_start", "post_stop"]


async def test_actors_without_hooks_have_defaults_for_all_of_them(system: ActorSystem) -> None:  # M3
    watcher = system.spawn(Hooked)
    ref = system.spawn(Plain)
    assert await ref.ask("hello") == "hello"
    assert await ref.inspect() == {}
    await watcher.ask(lambda ctx: ctx.watch(ref, "ended"))
    ref.stop()
    assert (await ref.terminated()).kind is ExitKind.NORMAL


@pytest.mark.parametrize("kind", [Hooked, HookedAsync])
@pytest.mark.config(history=True)
async def test_an_actor_may_end_in_the_middle_of_a_hook_of_its_own(system: ActorSystem, kind: Any) -> None:  # M3
    for hook in ("pre_start", "post_start", "pre_stop", "post_stop"):
        for act in (Context.stop, lambda ctx: ctx.self.kill(), lambda ctx: ctx.self.stop(after_queued=True)):
            ref = system.spawn(kind, None, **{hook: act})
            if "stop" in hook:
                ref.stop()
            await ended(system, ref)
            assert_is_a_life(ref.history, killed=True)
