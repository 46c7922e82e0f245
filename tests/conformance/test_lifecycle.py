"""The states of an actor's life, its hooks, and what may be handled in which part of it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from greenroom import (
    Actor,
    ActorRef,
    ActorSystem,
    ActorTerminated,
    Behaviors,
    Context,
    ExitKind,
    Lane,
    MailboxConfig,
    ManualClock,
    PostStart,
    PostStop,
    PreStart,
    PreStop,
    Signal,
    State,
    SystemFailed,
    Terminated,
)
from greenroom.errors import NameTaken
from greenroom.testing import TestProbe, assert_ledger_balanced
from tests.conformance.lives import (
    CREATED,
    FAILED,
    RUNNING,
    STARTING,
    STOPPED,
    STOPPING,
    TERMINATED,
    Hooked,
    HookedAsync,
    Plain,
    PlainAsync,
    assert_is_a_life,
    ended,
    every_hooked,
    every_kind,
    raises,
)
from tests.conformance.relations import Panic
from tests.conftest import Play
from tests.gates import Event, Gate, standstill, turns


def stop_by_ref(ref: ActorRef[Any, Any]) -> None:
    ref.stop()


def stop_after_queued(ref: ActorRef[Any, Any]) -> None:
    ref.stop(after_queued=True)


def stop_by_itself(ref: ActorRef[Any, Any]) -> None:
    ref.tell(lambda ctx: ctx.stop())


def stop_by_behavior(ref: ActorRef[Any, Any]) -> None:
    ref.tell(lambda _: Behaviors.stopped)


@every_kind
@pytest.mark.parametrize("stop", [stop_by_ref, stop_after_queued, stop_by_itself, stop_by_behavior])
@pytest.mark.config(history=True)
async def test_an_actor_that_is_stopped_goes_through_every_state_once(
    system: ActorSystem, kind: Any, stop: Any
) -> None:  # case 53, M1
    ref: ActorRef[Any, Any] = system.spawn(kind)
    assert [ref.state, *ref.history] == [CREATED, CREATED]
    await ref.started()
    assert ref.state is RUNNING
    assert ref.is_alive
    stop(ref)
    assert (await ref.terminated()).kind is ExitKind.NORMAL
    assert ref.history == (CREATED, STARTING, RUNNING, STOPPING, STOPPED, TERMINATED)
    assert ref.state is TERMINATED
    assert not ref.is_alive


@every_kind
@pytest.mark.parametrize("how", ["raise", "behavior", "from outside"])
@pytest.mark.config(history=True)
async def test_an_actor_that_fails_goes_through_failed(system: ActorSystem, kind: Any, how: str) -> None:
    # case 53, J3, M1
    error = ValueError("on purpose")
    acts: dict[str, Callable[[ActorRef[Any, Any]], None]] = {
        "raise": lambda ref: ref.tell(raises(error)),
        "behavior": lambda ref: ref.tell(lambda _: Behaviors.failed(error)),
        "from outside": lambda ref: ref.fail(error),
    }
    ref = system.spawn(kind)
    acts[how](ref)
    reason = await ref.terminated()
    assert (reason.kind, reason.cause) == (ExitKind.FAIL, error)
    assert ref.history[:4] == (CREATED, STARTING, RUNNING, FAILED)
    assert_is_a_life(ref.history)


@every_kind
@pytest.mark.config(history=True)
async def test_an_actor_fails_once(system: ActorSystem, kind: Any) -> None:  # case 53, M1: FAILED leads nowhere but on
    first, second = ValueError("first"), ValueError("second")
    ref = system.spawn(kind)
    await ref.started()
    ref.fail(first)
    ref.fail(second)
    ref.tell(raises(second))
    reason = await ref.terminated()
    assert reason.cause is first
    assert ref.history.count(FAILED) == 1
    assert_is_a_life(ref.history)


@every_hooked
@pytest.mark.parametrize("step", ["init", "pre_start", "post_start"])
@pytest.mark.config(history=True)
async def test_an_actor_that_cannot_start_was_never_running(system: ActorSystem, kind: Any, step: str) -> None:
    # M1, case 53
    error = ValueError("on purpose")
    log: list[str] = []
    ref = system.spawn(kind, log, **{step: raises(error)})
    ref.tell("too early")
    with pytest.raises(ValueError, match="on purpose") as caught:
        await ref.started()
    assert caught.value is error
    reason = await ref.terminated()
    assert (reason.kind, reason.cause) == (ExitKind.FAIL, error)
    with pytest.raises(ValueError, match="on purpose"):
        await ref.started()
    assert ref.history[:3] == (CREATED, STARTING, FAILED)
    assert RUNNING not in ref.history
    assert_is_a_life(ref.history)
    await system.shutdown()
    assert "pre_stop" not in log
    assert "receive too early" not in log
    assert log.count("post_stop") == (0 if step == "init" else 1)


@every_kind
@pytest.mark.config(history=True)
async def test_a_killed_actor_is_terminated_straight_away(system: ActorSystem, kind: Any) -> None:  # case 53, M1
    ref = system.spawn(kind)
    await ref.started()
    ref.kill()
    assert (await ref.terminated()).kind is ExitKind.KILLED
    assert ref.history == (CREATED, STARTING, RUNNING, TERMINATED)


@every_kind
@pytest.mark.parametrize("end", ["stop", "kill"])
@pytest.mark.parametrize("history", [True, False])
def test_an_actor_may_be_ended_before_it_has_started(play: Play, kind: Any, end: str, history: bool) -> None:
    # case 53, M1
    async def program(system: ActorSystem) -> None:
        ref = system.spawn(kind)
        ref.tell("hello")
        getattr(ref, end)()
        reason = await ref.terminated()
        assert reason.kind is (ExitKind.KILLED if end == "kill" else ExitKind.NORMAL)
        if history:
            assert_is_a_life(ref.history, killed=end == "kill")
        if not history or RUNNING not in ref.history:
            with pytest.raises(ActorTerminated):
                await ref.started()
        assert system.ledger(ref).dead_lettered == 1

    play(program, history=history)


@every_hooked
@pytest.mark.config(history=True)
async def test_a_kill_ends_an_actor_in_any_state(system: ActorSystem, kind: Any) -> None:  # case 53, M1
    def gate(_: object) -> asyncio.Future[None]:
        return asyncio.get_running_loop().create_future()

    failed = system.spawn(kind, name="failed")
    stopping = system.spawn(kind, name="stopping")
    parent = system.spawn(kind, name="waiting for its child")
    await parent.ask(lambda ctx: ctx.spawn(HookedAsync, pre_stop=gate) and None)
    await system.settle()
    # Each of these orders comes right behind the one that leads to the state.
    failed.fail(ValueError("on purpose"))
    failed.kill()
    stopping.stop()
    stopping.kill()
    parent.stop()
    parent.kill()
    for ref in (failed, stopping, parent):
        await ref.terminated()
        assert_is_a_life(ref.history, killed=True)
        ref.kill()  # and once more, when it has ended
        assert ref.state is TERMINATED


@pytest.mark.parametrize("suspended_in", ["pre_start", "post_start", "receive", "pre_stop", "post_stop"])
@pytest.mark.parametrize("end", ["stop", "kill", "fail"])
@pytest.mark.config(history=True)
async def test_an_actor_suspended_anywhere_can_be_ended(
    system: ActorSystem, clock: ManualClock, suspended_in: str, end: str
) -> None:  # case 53, M1, M3
    error = ValueError("on purpose")
    gate = Gate()
    reached = Gate()

    def wait(_: object) -> Any:
        reached.set_result(None)
        return gate

    log: list[str] = []
    ref = system.spawn(HookedAsync, log, **({} if suspended_in == "receive" else {suspended_in: wait}))
    if suspended_in == "receive":
        ref.tell(wait)
    elif "stop" in suspended_in:
        ref.stop()
    await reached
    if end == "fail":
        ref.fail(error)
    else:
        getattr(ref, end)()
    await clock.advance(0.1)
    if end == "kill":
        await ref.terminated()  # cancelled where it stands
    else:
        assert ref.is_alive  # what is in hand comes first
        gate.set_result(None)
    reason = await ref.terminated()
    assert_is_a_life(ref.history, killed=end == "kill")
    if "stop" not in suspended_in:
        assert reason.kind is {"stop": ExitKind.NORMAL, "kill": ExitKind.KILLED, "fail": ExitKind.FAIL}[end]
        assert ("pre_stop" in log) == (end == "stop" and suspended_in != "pre_start")
    assert log.count("post_stop") == 1


async def test_without_being_asked_to_an_actor_keeps_no_history(system: ActorSystem) -> None:  # case 53, M1
    ref = system.spawn(Hooked)
    ref.stop()
    await ref.terminated()
    assert ref.history == ()


@every_hooked
async def test_hooks_run_in_the_states_they_are_named_after(system: ActorSystem, kind: Any) -> None:  # case 53, M1, M3
    seen: dict[str, State] = {}

    def note(hook: str) -> Callable[[Context], None]:
        return lambda ctx: seen.__setitem__(hook, ctx.self.state)

    hooks = ["pre_start", "post_start", "pre_stop", "post_stop"]
    ref = system.spawn(kind, None, **{hook: note(hook) for hook in hooks})
    await ref.ask(note("receive"))
    ref.stop()
    await ref.terminated()
    await system.shutdown()
    assert seen == {
        "pre_start": STARTING,
        "post_start": STARTING,
        "receive": RUNNING,
        "pre_stop": STOPPING,
        "post_stop": STOPPING,
    }


@every_hooked
async def test_nothing_of_an_actor_runs_inside_spawn(system: ActorSystem, kind: Any) -> None:  # case 53, J4, M1
    log: list[str] = []
    ref = system.spawn(kind, log, init=lambda _: log.append("init"))
    assert log == []
    assert ref.state is CREATED
    await ref.started()
    assert log == ["init", "pre_start", "post_start"]


@every_kind
@pytest.mark.config(max_actors=2)
async def test_a_constructor_that_raises_leaves_no_zombie(system: ActorSystem, kind: Any) -> None:  # case 53, M1
    error = ValueError("on purpose")

    def make() -> Actor[Any, Any]:
        raise error

    probe = TestProbe(system)
    ref = system.spawn(make, name="unborn")
    await probe.watch(ref)
    ref.tell("never")
    asked = ref.ask("never", timeout=None)
    notice = await probe.expect_terminated(ref)
    assert notice.cause is error
    with pytest.raises(ActorTerminated) as caught:
        await asked
    assert caught.value.reason.cause is error  # type: ignore[attr-defined]
    assert system.actor("unborn") is None
    assert system.actors() == [probe.ref]
    assert system.ledger(ref).dead_lettered == 2
    assert system.spawn(kind, name="unborn").name == "unborn"


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
) -> None:  # case 58, M3
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
def test_a_hook_may_end_the_whole_system(play: Play, kind: Any, hook: str, error: type[BaseException]) -> None:
    # case 58, M3
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
def test_a_hook_with_news_of_others_may_end_the_whole_system(play: Play, kind: Any) -> None:  # case 58, M3
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
async def test_hooks_run_once_each_and_in_their_order(system: ActorSystem, kind: Any) -> None:  # case 58, M3
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
async def test_only_an_actor_that_stops_has_its_pre_stop_called(system: ActorSystem, kind: Any, how: str) -> None:
    # case 58, M3
    log: list[str] = []
    ref = system.spawn(kind, log)
    await ref.started()
    end(ref, how)
    await ref.terminated()
    await system.shutdown()
    assert log == ["pre_start", "post_start", "post_stop"]


async def test_actors_without_hooks_have_defaults_for_all_of_them(system: ActorSystem) -> None:  # case 58, M3
    watcher = system.spawn(Hooked)
    ref = system.spawn(Plain)
    assert await ref.ask("hello") == "hello"
    assert await ref.inspect() == {}
    await watcher.ask(lambda ctx: ctx.watch(ref, "ended"))
    ref.stop()
    assert (await ref.terminated()).kind is ExitKind.NORMAL


@pytest.mark.parametrize("kind", [Hooked, HookedAsync])
@pytest.mark.config(history=True)
async def test_an_actor_may_end_in_the_middle_of_a_hook_of_its_own(system: ActorSystem, kind: Any) -> None:
    # case 58, M3
    for hook in ("pre_start", "post_start", "pre_stop", "post_stop"):
        for act in (Context.stop, lambda ctx: ctx.self.kill(), lambda ctx: ctx.self.stop(after_queued=True)):
            ref = system.spawn(kind, None, **{hook: act})
            if "stop" in hook:
                ref.stop()
            await ended(system, ref)
            assert_is_a_life(ref.history, killed=True)


@every_hooked
async def test_no_message_is_handled_before_the_actor_has_started(system: ActorSystem, kind: Any) -> None:
    # cases 54, 55, 60, M2
    log: list[str] = []

    def send_to_itself(ctx: Context) -> None:
        ctx.self.tell("from itself")
        ctx.send_after(0.0, ctx.self, "from a timer")
        ctx.pipe_to_self(asyncio.sleep(0, "from a pipe"))

    ref = system.spawn(kind, log, pre_start=send_to_itself)
    ref.tell("urgent", lane=Lane.CONTROL)
    asked = ref.ask("asked")
    ref.tell("logged", lane=Lane.LOG)
    assert await asked == "asked"
    await system.settle()
    await system.shutdown()
    assert log[:3] == ["pre_start", "post_start", "receive urgent"]
    rest = ["receive asked", "receive from itself", "receive from a pipe", "receive from a timer", "receive logged"]
    assert sorted(log[3:-2]) == sorted(rest)


async def test_messages_wait_as_long_as_pre_start_takes(system: ActorSystem) -> None:  # cases 54, 55, 60, M2
    gate = Gate()
    log: list[str] = []
    child = system.spawn(Plain)

    def watch_and_wait(ctx: Context) -> Gate:
        ctx.watch(child, "the notice")
        return gate

    ref = system.spawn(HookedAsync, log, pre_start=watch_and_wait)
    started = asyncio.ensure_future(ref.started())
    ref.tell(1)
    ref.tell(2, lane=Lane.CONTROL)
    child.stop()
    await child.terminated()
    await turns(5)
    assert log == ["pre_start"]
    assert ref.state is STARTING
    assert not started.done()
    gate.set_result(None)
    await started
    await system.settle()
    assert log == ["pre_start", "post_start", "receive 2", "receive 1", "receive the notice"]


@every_hooked
async def test_an_order_overtakes_every_message_that_is_queued(system: ActorSystem, kind: Any) -> None:
    # cases 54, 55, 60, M2
    log: list[str] = []
    ref = system.spawn(kind, log)
    await ref.started()
    for number in range(5):
        ref.tell(number, lane=Lane.CONTROL if number == 0 else Lane.DATA)
    ref.stop()
    await ref.terminated()
    assert system.ledger(ref).dead_lettered == 5
    await system.shutdown()
    assert log == ["pre_start", "post_start", "pre_stop", "post_stop"]


@every_kind
@pytest.mark.parametrize("budget", [1, 64])
@pytest.mark.parametrize("order", ["stop", "kill", "fail"])
def test_orders_are_looked_for_between_every_two_messages(play: Play, kind: Any, budget: int, order: str) -> None:
    # cases 54, 55, 60, M2
    if play.backend == "pinned" and order == "kill" and kind in (PlainAsync, HookedAsync):
        pytest.skip("there a coroutine that kills itself has suspended already, and is cancelled")
    handled: list[int] = []

    def on(number: int) -> Callable[[Context], None]:
        def act(ctx: Context) -> None:
            handled.append(number)
            if number == 3:
                ctx.self.fail(ValueError("on purpose")) if order == "fail" else getattr(ctx.self, order)()

        return act

    async def program(system: ActorSystem) -> None:
        ref = system.spawn(kind)
        for number in range(10):
            ref.tell(on(number))
        await ref.terminated()
        ledger = system.ledger(ref)
        assert (ledger.handled, ledger.failed, ledger.dead_lettered) == (4, 0, 6)

    play(program, max_msgs_per_actor=budget)
    assert handled == [0, 1, 2, 3]


async def test_orders_are_accepted_however_full_the_mailbox_is(system: ActorSystem) -> None:  # cases 11, 54, 55, 60, M2
    refs = [system.spawn(Plain, mailbox=MailboxConfig(capacity=1)) for _ in range(4)]
    with standstill(system):
        for ref in refs:
            ref.tell("the only one")
        refs[0].stop()
        refs[1].kill()
        refs[2].fail(ValueError("on purpose"))
        refs[3].stop(after_queued=True)
    kinds = [(await ref.terminated()).kind for ref in refs]
    assert kinds == [ExitKind.NORMAL, ExitKind.KILLED, ExitKind.FAIL, ExitKind.NORMAL]
    assert [system.ledger(ref).handled for ref in refs] == [0, 0, 0, 1]


@pytest.mark.parametrize("end", ["stop", "fail"])
async def test_what_is_sent_to_a_stopping_actor_is_a_dead_letter(system: ActorSystem, end: str) -> None:
    # cases 54, 55, 60, M2
    gate = Gate()
    reached = Event()

    def wait(_: Context) -> Gate:
        reached.set()
        return gate

    ref = system.spawn(HookedAsync, None, **{"pre_stop" if end == "stop" else "post_stop": wait})
    await ref.started()
    ref.stop() if end == "stop" else ref.fail(ValueError("on purpose"))
    await reached.wait()
    assert ref.state is STOPPING
    ref.tell("told")
    await ref.send("sent")
    asked = ref.ask("asked", timeout=None)
    with pytest.raises(ActorTerminated):  # at once: it is still there
        await asked
    assert ref.is_alive
    assert [letter.message for letter in system.dead_letters.recent()] == ["told", "sent", "asked"]
    assert {letter.recipient for letter in system.dead_letters.recent()} == {ref}
    gate.set_result(None)
    await ref.terminated()
    assert system.ledger(ref).dead_lettered == 3


async def test_a_name_is_taken_until_its_actor_has_ended(system: ActorSystem) -> None:  # cases 54, 55, 60, M2
    gate = Gate()
    ref = system.spawn(HookedAsync, None, name="one", pre_stop=lambda _: gate)
    with pytest.raises(NameTaken) as caught:
        system.spawn(Plain, name="one")
    assert caught.value.path == "/one"
    await ref.started()
    ref.stop()
    await asyncio.sleep(0)
    with pytest.raises(NameTaken):
        system.spawn(Plain, name="one")
    assert system.actor("one") == ref
    gate.set_result(None)
    await ref.terminated()
    again = system.spawn(Plain, name="one")
    assert again != ref
    assert system.actor("one") == again
    assert len(system.actors()) == 1


@pytest.mark.parametrize("end", ["stop", "kill", "fail"])
@every_hooked
async def test_a_name_is_free_before_the_watchers_are_told(system: ActorSystem, kind: Any, end: str) -> None:
    # cases 54, 55, 60, M2
    class Watcher(Actor[Any, Any]):
        def pre_start(self) -> None:
            self.watched = self.ctx.spawn(kind, name="child")
            self.ctx.watch(self.watched)

        def receive(self, message: Any) -> Any:
            self.watched.fail(ValueError("on purpose")) if end == "fail" else getattr(self.watched, end)()
            self.asked = self.ctx.defer_reply()

        def on_terminated(self, ref: ActorRef[Any, Any], cause: BaseException | None) -> None:
            looked_up = self.ctx.system.actor("/watcher/child")
            self.asked.send((looked_up, self.ctx.children, self.ctx.spawn(kind, name="child").path))

    watcher = system.spawn(Watcher, name="watcher")
    assert await watcher.ask("go") == (None, [], "/watcher/child")


@pytest.mark.real
async def test_of_many_threads_that_want_a_name_one_gets_it(system: ActorSystem) -> None:  # cases 54, 55, 60, M2
    barrier = threading.Barrier(5)
    got: list[ActorRef[Any, Any]] = []
    refused: list[NameTaken] = []

    def claim() -> None:
        barrier.wait(120.0)
        try:
            got.append(system.spawn(Plain, name="one"))
        except NameTaken as exc:
            refused.append(exc)

    threads = [asyncio.create_task(asyncio.to_thread(claim)) for _ in range(4)]
    await asyncio.to_thread(barrier.wait, 15.0)
    await asyncio.gather(*threads)
    assert (len(got), len(refused)) == (1, 3)
    assert system.actors() == got
