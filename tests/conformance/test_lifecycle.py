"""The states of an actor's life, and the ways from one to the next (M1; case 53)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from greenroom import Actor, ActorRef, ActorSystem, ActorTerminated, Behaviors, Context, ExitKind, ManualClock, State
from greenroom.testing import TestProbe
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
    assert_is_a_life,
    every_hooked,
    every_kind,
    raises,
)
from tests.gates import Gate

if TYPE_CHECKING:
    from tests.conftest import Play


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
) -> None:  # M1
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
async def test_an_actor_that_fails_goes_through_failed(system: ActorSystem, kind: Any, how: str) -> None:  # M1, J3
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
async def test_an_actor_fails_once(system: ActorSystem, kind: Any) -> None:  # M1: FAILED leads nowhere but on
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
async def test_an_actor_that_cannot_start_was_never_running(
    system: ActorSystem, kind: Any, step: str
) -> None:  # M1, case 53
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
async def test_a_killed_actor_is_terminated_straight_away(system: ActorSystem, kind: Any) -> None:  # M1
    ref = system.spawn(kind)
    await ref.started()
    ref.kill()
    assert (await ref.terminated()).kind is ExitKind.KILLED
    assert ref.history == (CREATED, STARTING, RUNNING, TERMINATED)


@every_kind
@pytest.mark.parametrize("end", ["stop", "kill"])
@pytest.mark.parametrize("history", [True, False])
def test_an_actor_may_be_ended_before_it_has_started(play: Play, kind: Any, end: str, history: bool) -> None:  # M1
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
async def test_a_kill_ends_an_actor_in_any_state(system: ActorSystem, kind: Any) -> None:  # M1
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
) -> None:  # M1, M3
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


async def test_without_being_asked_to_an_actor_keeps_no_history(system: ActorSystem) -> None:  # M1
    ref = system.spawn(Hooked)
    ref.stop()
    await ref.terminated()
    assert ref.history == ()


@every_hooked
async def test_hooks_run_in_the_states_they_are_named_after(system: ActorSystem, kind: Any) -> None:  # M1, M3
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
async def test_nothing_of_an_actor_runs_inside_spawn(system: ActorSystem, kind: Any) -> None:  # J4
    log: list[str] = []
    ref = system.spawn(kind, log, init=lambda _: log.append("init"))
    assert log == []
    assert ref.state is CREATED
    await ref.started()
    assert log == ["init", "pre_start", "post_start"]


@every_kind
@pytest.mark.config(max_actors=2)
async def test_a_constructor_that_raises_leaves_no_zombie(system: ActorSystem, kind: Any) -> None:  # case 53
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
