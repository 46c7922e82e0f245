"""Orders and failures that meet in one child of a supervisor; what siblings and former refs notice of it (J10)."""

from __future__ import annotations

from inspect import isawaitable
from itertools import product
from typing import Any

import pytest

from greenroom import (
    ActorRef,
    ActorSystem,
    ChildSpec,
    DeleteChild,
    DynamicSupervisor,
    ExitKind,
    Restart,
    RestartChild,
    Scope,
    StartChild,
    State,
    StopChild,
    Supervisor,
    WhichChildren,
)
from greenroom.errors import NoSuchChild
from greenroom.testing import TestProbe
from tests.conformance.incarnations import AT_ONCE, soon
from tests.conformance.incarnations import Gate as Hold
from tests.conformance.lives import ended
from tests.supervision.staff import AsyncWorker, Boom, Stage, Worker, both, by_name, child_of, supervise

Ref = ActorRef[Any, Any]
PERMANENT, TRANSIENT, TEMPORARY = Restart.PERMANENT, Restart.TRANSIENT, Restart.TEMPORARY


class Patient(AsyncWorker):
    """Awaits what it was told to do, if that takes a while."""

    async def receive(self, message: Any) -> Any:
        result = super().receive(message)
        return await result if isawaitable(result) else result


class Held:
    """A message whose handler is suspended until the test goes on, and then raises."""

    def __init__(self, cause: BaseException) -> None:
        self.gate = Hold()
        self.cause = cause

    async def __call__(self, _: object) -> None:
        await self.gate.wait()
        raise self.cause.with_traceback(None)


async def employ(system: ActorSystem, over: type, stage: Stage, restart: Restart, **options: Any) -> tuple[Ref, Ref]:
    """A running supervisor of either kind, and its only child."""
    if over is Supervisor:
        supervisor = await supervise(system, [stage.child("a", restart=restart)], **options)
        return supervisor, await child_of(supervisor, "a")
    template = ChildSpec("a", stage.kind, (stage, "a"), restart=restart)
    crowd: Ref = system.spawn(DynamicSupervisor, DynamicSupervisor.spec(template, **options))
    return crowd, await crowd.ask(StartChild())


async def assert_at_work(system: ActorSystem, supervisor: Ref, ref: Ref) -> None:
    """It runs, answers, and is its supervisor's only child."""
    await system.settle()
    assert (ref.state, supervisor.state) == (State.RUNNING, State.RUNNING)
    assert await soon(system, ref.ask("well?", timeout=None)) == "well?"
    infos = await soon(system, supervisor.ask(WhichChildren(), timeout=None))
    assert [(info.ref, info.state, info.next_attempt) for info in infos] == [(ref, State.RUNNING, None)]


either = pytest.mark.parametrize("over", [Supervisor, DynamicSupervisor], ids=["supervisor", "dynamic"])
COMING_BACK = [TRANSIENT, PERMANENT]


# -- a failure and a restart at once


@either
@both
async def test_a_child_that_is_failed_and_restarted_in_one_breath_runs_in_the_end(
    system: ActorSystem, kind: type[Worker], over: type
) -> None:  # J10, M6
    for restart, orders in product(COMING_BACK, [("fail", "restart"), ("restart", "fail")]):
        stage = Stage(kind)
        supervisor, ref = await employ(system, over, stage, restart)
        for order in orders:
            ref.fail(Boom()) if order == "fail" else ref.restart()
        await assert_at_work(system, supervisor, ref)
        assert stage.log.count("+a") == stage.log.count("-a") + 1


@either
@pytest.mark.parametrize("failing", [False, True], ids=["by its handler", "and from outside too"])
async def test_a_child_whose_handler_raises_after_a_restart_was_asked_for_runs_in_the_end(
    system: ActorSystem, failing: bool, over: type
) -> None:  # J10, M6
    for restart in COMING_BACK:
        supervisor, ref = await employ(system, over, Stage(Patient), restart)
        held = Held(Boom())
        ref.tell(held)
        await held.gate.entered.wait()
        ref.restart()
        if failing:
            ref.fail(Boom())
        held.gate.opened.set()
        await assert_at_work(system, supervisor, ref)
        ref.tell(Boom())  # and it is looked after as before
        await assert_at_work(system, supervisor, ref)


@either
@both
async def test_a_failure_that_is_one_too_many_is_the_supervisors_though_a_restart_was_asked_for(
    system: ActorSystem, kind: type[Worker], over: type
) -> None:  # J10, M7, case 31
    cause = Boom()
    supervisor, ref = await employ(system, over, Stage(kind), PERMANENT, intensity=0)
    ref.fail(cause)
    ref.restart()
    reason = await ended(system, supervisor)
    assert (reason.kind, reason.cause) == (ExitKind.FAIL, cause)
    assert not ref.is_alive


# -- a failure at the end


async def raise_at_its_end(ref: Ref, kind: type[Worker], how: str, cause: BaseException) -> None:
    """Let `ref` be told to end by the message in hand, or while that is suspended, and then fail on it."""

    def end_and_raise(ctx: Any) -> None:
        getattr(ctx.self, how)()
        raise cause.with_traceback(None)

    if kind is not Patient:
        ref.tell(end_and_raise)
        return
    held = Held(cause)
    ref.tell(held)
    await held.gate.entered.wait()
    getattr(ref, how)()
    held.gate.opened.set()


sync_or_not = pytest.mark.parametrize("kind", [Worker, Patient], ids=["sync", "async"])


@either
@sync_or_not
async def test_a_transient_child_that_fails_at_its_end_has_failed_and_comes_back(
    system: ActorSystem, kind: type[Worker], over: type
) -> None:  # J10, case 35
    for how in ("kill", "stop"):
        stage = Stage(kind)
        probe = TestProbe(system)
        supervisor, ref = await employ(system, over, stage, TRANSIENT)
        await probe.watch(ref)
        await raise_at_its_end(ref, kind, how, Boom())
        await assert_at_work(system, supervisor, ref)
        assert stage.take() == ["+a", "-a", "+a"]
        await probe.expect_no()  # it has not ended


@either
@sync_or_not
async def test_the_failure_of_a_transient_child_at_its_end_counts_for_the_limit(
    system: ActorSystem, kind: type[Worker], over: type
) -> None:  # J10, case 31
    cause = Boom()
    supervisor, ref = await employ(system, over, Stage(kind), TRANSIENT, intensity=0)
    await raise_at_its_end(ref, kind, "stop", cause)
    assert (await ended(system, supervisor)).cause is cause
    assert not ref.is_alive


@sync_or_not
@pytest.mark.parametrize("employed", [False, True], ids=["plain", "temporary"])
@pytest.mark.config(supervision=AT_ONCE)
async def test_one_that_is_not_to_be_restarted_and_fails_at_its_end_ends_with_the_failure(
    system: ActorSystem, employed: bool, kind: type[Worker]
) -> None:  # M5, J10, case 35
    cause = Boom()
    probe = TestProbe(system)
    ref: Ref
    if employed:
        supervisor, ref = await employ(system, Supervisor, Stage(kind), TEMPORARY)
    else:
        supervisor, ref = probe.ref, system.spawn(kind, Stage(kind), "a")
    await probe.watch(ref)
    await raise_at_its_end(ref, kind, "stop", cause)
    reason = await ended(system, ref)
    assert (reason.kind, reason.cause) == (ExitKind.FAIL, cause)
    assert (await probe.expect_terminated(ref)).reason.cause is cause
    if employed:
        assert await by_name(supervisor) == {}


# -- who stops first


def revive_with_group(name: str) -> Any:
    async def revive(system: ActorSystem, supervisor: Ref) -> None:
        (await child_of(supervisor, name)).stop()
        await system.settle()
        assert (await by_name(supervisor))[name].ref is None
        (await child_of(supervisor, "c")).tell(Boom())
        await system.settle()

    return revive


def revive_by_request(name: str) -> Any:
    async def revive(system: ActorSystem, supervisor: Ref) -> None:
        await supervisor.ask(StopChild(name))
        await supervisor.ask(RestartChild(name))

    return revive


@both
@pytest.mark.parametrize("how", ["stop", "shutdown", "restart"])
@pytest.mark.parametrize(
    "revive",
    [revive_with_group("a"), revive_with_group("b"), revive_by_request("a"), revive_by_request("b")],
    ids=["a with its group", "b with its group", "a by request", "b by request"],
)
async def test_children_stop_in_the_reverse_of_their_list_also_when_one_was_revived(
    system: ActorSystem, revive: Any, how: str, kind: type[Worker]
) -> None:  # J10, M5, "stop order"
    stage = Stage(kind)
    supervisor = await supervise(system, stage.children("abc", restart=TRANSIENT), Scope.ONE_FOR_ALL)
    await revive(system, supervisor)
    infos = await by_name(supervisor)
    assert {name: info.state for name, info in infos.items()} == dict.fromkeys("abc", State.RUNNING)
    assert list(infos) == ["a", "b", "c"]
    stage.take()
    if how == "shutdown":
        await system.shutdown()
    else:
        supervisor.stop() if how == "stop" else supervisor.restart()
        await system.settle()
    assert stage.take()[:3] == ["-c", "-b", "-a"]


# -- refs of former actors


@pytest.mark.parametrize("about", [StopChild, RestartChild, DeleteChild])
@pytest.mark.parametrize("how", ["by request", "with its group", "as a new child"])
async def test_the_ref_of_a_former_actor_names_no_child_that_has_a_new_one(
    system: ActorSystem, how: str, about: Any
) -> None:  # J10
    stage = Stage()
    supervisor = await supervise(system, stage.children("ab", restart=TRANSIENT), Scope.ONE_FOR_ALL)
    old = await child_of(supervisor, "a")
    if how == "with its group":
        old.stop()
        await system.settle()
        (await child_of(supervisor, "b")).tell(Boom())
        await system.settle()
    else:
        await supervisor.ask(StopChild(old))
        await supervisor.ask(StopChild(old))  # its last ref still names it
        if how == "as a new child":
            await supervisor.ask(DeleteChild(old))
            await supervisor.ask(StartChild(stage.child("a")))
        else:
            await supervisor.ask(RestartChild(old))
    new = await child_of(supervisor, "a")
    assert (new.path, new != old, old.is_alive) == (old.path, True, False)
    stage.take()
    with pytest.raises(NoSuchChild) as caught:
        await supervisor.ask(about(old))
    assert caught.value.ref == supervisor
    assert str(old) in str(caught.value)
    assert (new.state, supervisor.state, stage.log) == (State.RUNNING, State.RUNNING, [])
    assert await child_of(supervisor, "a") == new
    await supervisor.ask(StopChild(new))
    await supervisor.ask(DeleteChild(new))
    assert list(await by_name(supervisor)) == ["b"]
