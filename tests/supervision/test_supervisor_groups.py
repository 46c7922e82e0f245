"""A `Supervisor` and siblings that are restarted together, or wait for one another (J10)."""

from __future__ import annotations

import asyncio
from inspect import isawaitable
from itertools import product
from typing import Any

import pytest

from greenroom import (
    ActorRef,
    ActorSystem,
    ActorTerminated,
    Backoff,
    Behaviors,
    ChildSpec,
    CountChildren,
    DeleteChild,
    DynamicSupervisor,
    ExitKind,
    ManualClock,
    Restart,
    RestartChild,
    Scope,
    StartChild,
    State,
    StopChild,
    Supervisor,
    WhichChildren,
)
from greenroom.errors import ChildRestarting, ChildRunning, GreenroomError, NoSuchChild, Unhandled
from greenroom.testing import TestProbe
from tests.conformance.lives import AT_ONCE, ended, soon
from tests.conformance.lives import Gate as Hold
from tests.conftest import Play
from tests.supervision.children import (
    END,
    AsyncWorker,
    Boom,
    Stage,
    Worker,
    both,
    by_name,
    child_of,
    end,
    nothing_left,
    supervise,
)

ALL, REST, ONE = Scope.ONE_FOR_ALL, Scope.REST_FOR_ONE, Scope.ONE_FOR_ONE
PERMANENT, TRANSIENT, TEMPORARY = Restart.PERMANENT, Restart.TRANSIENT, Restart.TEMPORARY


async def refs_of(supervisor: ActorRef[Any, Any]) -> dict[str, ActorRef[Any, Any]]:
    """The refs of those that have one."""
    return {name: info.ref for name, info in (await by_name(supervisor)).items() if info.ref is not None}


@both
@pytest.mark.parametrize("how", list(END))
@pytest.mark.parametrize(
    ("scope", "failing", "order"),
    [
        (ONE, "b", "-b +b"),
        (REST, "b", "-b -c +b +c"),
        (REST, "c", "-c +c"),
        (REST, "a", "-a -c -b +a +b +c"),
        (ALL, "b", "-b -c -a +a +b +c"),
        (ALL, "a", "-a -c -b +a +b +c"),
        (ALL, "c", "-c -b -a +a +b +c"),
        (Scope.ALL_FOR_ONE, "b", "-b -c -a +a +b +c"),
    ],
)
def test_siblings_stop_in_reverse_and_start_in_order(
    play: Play, scope: Scope, failing: str, order: str, how: str, kind: type[Worker]
) -> None:  # cases 33, 34, 43
    stage = Stage(kind)
    clock = ManualClock(7.0)

    async def program(system: ActorSystem) -> None:
        supervisor = await supervise(system, stage.children("abc"), scope)
        refs = await refs_of(supervisor)
        stage.take()
        end(refs[failing], how)
        await system.settle()
        assert stage.take() == order.split()
        infos = await by_name(supervisor)
        assert list(infos) == ["a", "b", "c"]
        assert await refs_of(supervisor) == refs
        for name, info in infos.items():
            restarted = f"+{name}" in order.split()
            assert (info.restarts, info.last_restart) == ((1, 7.0) if restarted else (0, None))
            assert info.state is State.RUNNING

    play(program, clock=clock)


@both
@pytest.mark.parametrize("together", ["ab", "ba", "ac", "abc", "cba"])
@pytest.mark.parametrize("backoff", [None, Backoff(min=1.0)], ids=["at once", "later"])
# One that is to fail in a handler may be told to restart first: then it fails afterwards, and that is another failure.
@pytest.mark.parametrize("how", [pytest.param("failed", marks=pytest.mark.fifo), "fail"])
async def test_one_for_all_restarts_every_sibling_once_though_two_fail_at_one_tick(
    system: ActorSystem, clock: ManualClock, kind: type[Worker], together: str, backoff: Backoff | None, how: str
) -> None:  # cases 33, 34, 43
    stage = Stage(kind)
    supervisor = await supervise(system, stage.children("abc"), ALL, intensity=1, backoff=backoff)
    refs = await refs_of(supervisor)
    stage.take()
    for name in together:
        end(refs[name], how)
    await clock.advance(0.5)
    if backoff is not None:
        assert sorted(stage.log) == ["-a", "-b", "-c"]
    await clock.advance(0.5)
    log = stage.take()
    assert sorted(log[:3]) == ["-a", "-b", "-c"]
    assert log[3:] == ["+a", "+b", "+c"]
    assert {info.restarts for info in (await by_name(supervisor)).values()} == {1}
    assert supervisor.state is State.RUNNING  # exits in a group restart are not counted


async def test_the_children_of_a_group_keep_their_queues_and_their_watchers_in_the_dark(system: ActorSystem) -> None:
    # cases 17, 33, 34, 43
    stage = Stage()
    probe = TestProbe(system)
    supervisor = await supervise(system, stage.children("abc"), ALL)
    refs = await refs_of(supervisor)
    for ref in refs.values():
        await probe.watch(ref)
    refs["b"].tell(Boom())
    for ref in refs.values():
        ref.tell("kept")
    await system.settle()
    assert sorted(stage.heard) == [("a", "kept"), ("b", "kept"), ("c", "kept")]
    assert system.dead_letters.count == 0
    await probe.expect_no()


async def test_a_temporary_child_is_ended_and_forgotten_in_a_group_restart(system: ActorSystem) -> None:
    # cases 33, 34, 43, decision 016, case 35
    stage = Stage()
    probe = TestProbe(system)
    children = [stage.child("a"), stage.child("t", restart=TEMPORARY), stage.child("c")]
    supervisor = await supervise(system, children, ALL)
    refs = await refs_of(supervisor)
    await probe.watch(refs["t"])
    stage.take()
    refs["a"].tell(Boom())
    await system.settle()
    assert stage.take() == ["-a", "-c", "-t", "+a", "+c"]
    assert list(await by_name(supervisor)) == ["a", "c"]
    await probe.expect_terminated(refs["t"])


async def test_a_failing_temporary_child_restarts_nobody(system: ActorSystem) -> None:  # cases 33, 34, 35, 43
    stage = Stage()
    children = [stage.child("a"), stage.child("t", restart=TEMPORARY), stage.child("c")]
    supervisor = await supervise(system, children, ALL, intensity=0)
    refs = await refs_of(supervisor)
    stage.take()
    refs["t"].tell(Boom())
    await system.settle()
    assert stage.take() == ["-t"]
    assert list(await by_name(supervisor)) == ["a", "c"]


@both
@pytest.mark.parametrize("scope", [ALL, REST])
async def test_a_child_that_has_finished_is_started_again_with_its_group(
    system: ActorSystem, scope: Scope, kind: type[Worker]
) -> None:  # cases 33, 34, 43: decision 016, as changed: as in OTP
    stage = Stage(kind)
    children = [stage.child("a"), stage.child("t", restart=TRANSIENT), stage.child("c")]
    supervisor = await supervise(system, children, scope)
    refs = await refs_of(supervisor)
    refs["t"].stop()
    await system.settle()
    assert (await by_name(supervisor))["t"].ref is None
    stage.take()
    refs["a"].tell(Boom())
    await system.settle()
    assert stage.take() == ["-a", "-c", "+a", "+t", "+c"]
    again = await refs_of(supervisor)
    assert list(again) == ["a", "t", "c"]
    assert again["t"].path == refs["t"].path
    assert await again["t"].ask("hello") == "hello"
    again["t"].tell(Boom())  # and it is looked after as before
    await system.settle()
    assert (await by_name(supervisor))["t"].restarts == 1


@pytest.mark.parametrize("scope", [ALL, REST])
async def test_a_finished_child_that_cannot_be_started_with_its_group_is_tried_again(
    system: ActorSystem, scope: Scope
) -> None:  # cases 33, 34, 43: decision 016: a start that fails does count
    stage = Stage()
    children = [stage.child("a"), stage.child("t", restart=TRANSIENT), stage.child("c")]
    supervisor = await supervise(system, children, scope)
    refs = await refs_of(supervisor)
    refs["t"].stop()
    await system.settle()
    stage.take()
    stage.trouble("+t", Boom("not at the first attempt"))
    refs["a"].tell(Boom())
    await system.settle()
    infos = await by_name(supervisor)
    assert {name: info.state for name, info in infos.items()} == dict.fromkeys("atc", State.RUNNING)
    assert stage.log.count("+t") == 1


async def test_a_child_that_was_stopped_by_request_stays_down_in_a_group_restart(system: ActorSystem) -> None:
    # cases 33, 34, 43: decision 016
    stage = Stage()
    supervisor = await supervise(system, stage.children("abc"), ALL)
    refs = await refs_of(supervisor)
    await supervisor.ask(StopChild("b"))
    stage.take()
    refs["a"].tell(Boom())
    await system.settle()
    assert stage.take() == ["-a", "-c", "+a", "+c"]
    assert (await by_name(supervisor))["b"].ref is None
    again = await supervisor.ask(RestartChild("b"))
    assert again != refs["b"]
    refs["a"].tell(Boom())  # and now it takes part, in its old place
    await system.settle()
    assert stage.take() == ["+b", "-a", "-c", "-b", "+a", "+b", "+c"]


@pytest.mark.parametrize("restart", [PERMANENT, TRANSIENT])
async def test_when_a_start_in_a_group_fails_the_group_is_tried_again(system: ActorSystem, restart: Restart) -> None:
    # cases 32, 33, 34, 43
    stage = Stage()
    supervisor = await supervise(system, stage.children("abc", restart=restart), ALL, intensity=2)
    refs = await refs_of(supervisor)
    stage.take()
    stage.trouble("+b", Boom("not yet"))
    refs["c"].tell(Boom())
    await system.settle()
    log = stage.take()
    assert log[:5] == ["-c", "-b", "-a", "+a", "+b!"]
    assert log[-3:] == ["+a", "+b", "+c"]
    assert log.count("-a") == 2  # it had come up, and went down again with its group
    assert await refs_of(supervisor) == refs
    # Two restarts are counted: the exit of c, and the failed start of b. The next one is too many.
    refs["a"].tell(Boom("one too many"))
    assert str((await supervisor.terminated()).cause) == "one too many"


async def test_when_a_start_in_rest_for_one_fails_those_before_it_stay(system: ActorSystem) -> None:
    # cases 32, 33, 34, 43
    stage = Stage()
    supervisor = await supervise(system, stage.children("abcd"), REST)
    refs = await refs_of(supervisor)
    stage.take()
    stage.trouble("+c", Boom("not yet"))
    refs["b"].tell(Boom())
    await system.settle()
    assert stage.take() == ["-b", "-d", "-c", "+b", "+c!", "-c", "+c", "+d"]
    assert {name: info.state for name, info in (await by_name(supervisor)).items()} == dict.fromkeys(
        "abcd", State.RUNNING
    )


async def test_a_group_waits_for_the_backoff_together(system: ActorSystem, clock: ManualClock) -> None:
    # cases 33, 34, 43, decision 016, case 44
    stage = Stage()
    children = [stage.child("a"), stage.child("b", backoff=Backoff(min=2.0, max=9.0)), stage.child("c")]
    supervisor = await supervise(system, children, REST)
    refs = await refs_of(supervisor)
    stage.take()
    refs["b"].tell(Boom())
    refs["c"].tell("waits")
    await clock.advance(1.0)
    infos = await by_name(supervisor)
    assert stage.log == ["-b", "-c"]
    assert [info.state for info in infos.values()] == [State.RUNNING, State.RESTARTING, State.RESTARTING]
    assert [info.next_attempt for info in infos.values()] == [None, 2.0, 2.0]
    assert await refs["a"].ask("served") == "served"
    with pytest.raises(ChildRestarting):
        await supervisor.ask(RestartChild("c"))
    await clock.advance(0.999)
    assert stage.log == ["-b", "-c"]
    await clock.advance(0.001)
    assert stage.take() == ["-b", "-c", "+b", "+c"]
    assert ("c", "waits") in stage.heard
    assert all(info.next_attempt is None for info in (await by_name(supervisor)).values())
    assert system.snapshot().timers == 0


async def test_a_sibling_that_fails_while_its_group_waits_joins_it(system: ActorSystem, clock: ManualClock) -> None:
    # cases 33, 34, 43, 44
    stage = Stage()
    supervisor = await supervise(system, stage.children("abc"), REST, backoff=Backoff(min=1.0, max=9.0))
    refs = await refs_of(supervisor)
    stage.take()
    refs["b"].tell(Boom())
    await clock.advance(0.5)
    refs["a"].tell(Boom())
    await clock.advance(0.5)
    assert stage.log == ["-b", "-c", "-a"]
    await clock.advance(0.5)
    assert stage.take() == ["-b", "-c", "-a", "+a", "+b", "+c"]
    await clock.advance(10.0)
    assert stage.take() == []
    assert [info.state for info in (await by_name(supervisor)).values()] == [State.RUNNING] * 3


async def test_stopping_one_that_waits_with_its_group_leaves_the_others_waiting(
    system: ActorSystem, clock: ManualClock
) -> None:  # cases 33, 34, 43: requests, decision 016
    stage = Stage()
    supervisor = await supervise(system, stage.children("abc"), ALL, backoff=Backoff(min=1.0))
    refs = await refs_of(supervisor)
    refs["b"].tell(Boom())
    await clock.advance(0.5)
    stage.take()
    await supervisor.ask(StopChild("b"))
    assert not refs["b"].is_alive
    again = supervisor.ask(RestartChild("b"))  # alone, and at once
    await system.settle()
    assert stage.take() == ["+b"]
    fresh = await again
    await clock.advance(0.5)
    assert stage.take() == ["+a", "+c"]
    assert await refs_of(supervisor) == {"a": refs["a"], "b": fresh, "c": refs["c"]}
    await clock.advance(5.0)
    nothing_left(system, supervisor, *(await refs_of(supervisor)).values())


async def test_a_sibling_that_ends_by_itself_while_its_group_stops_is_not_lost(system: ActorSystem) -> None:
    # cases 33, 34, 43: decision 016
    stage = Stage(AsyncWorker)
    supervisor = await supervise(system, stage.children("abc"), ALL, intensity=1)
    refs = await refs_of(supervisor)
    gate = stage.hold("-c")
    stage.take()
    refs["b"].tell(Boom())
    await gate.entered.wait()
    refs["a"].tell(Boom("meanwhile"))  # a still runs: it is its turn after c
    gate.released.set()
    del stage.gates["-c"]
    await system.settle()
    log = stage.take()
    assert sorted(log[:3]) == ["-a", "-b", "-c"]
    assert log[3:] == ["+a", "+b", "+c"]
    refs["a"].tell(Behaviors.same)
    assert await refs["a"].ask("well?") == "well?"


Ref = ActorRef[Any, Any]


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


@pytest.mark.parametrize("moment", ["-a", "-c", "+a", "+c"])
async def test_requests_during_a_group_restart_wait_for_its_end_and_are_answered_in_order(
    system: ActorSystem, clock: ManualClock, moment: str
) -> None:  # "requests"
    stage = Stage(AsyncWorker)
    supervisor = await supervise(system, stage.children("abc"), ALL)
    ref = await child_of(supervisor, "b")
    gate = stage.hold(moment)
    ref.tell(Boom())
    await gate.entered.wait()
    which = supervisor.ask(WhichChildren())
    count = supervisor.ask(CountChildren())
    nobody = supervisor.ask(StopChild("nobody"))
    running = supervisor.ask(RestartChild("a"))
    unknown = supervisor.ask("what is this?")
    stopping = supervisor.ask(StopChild("c"))
    starting = supervisor.ask(StartChild(stage.child("d")))
    deleting = supervisor.ask(DeleteChild("a"))
    asked = [which, count, nobody, running, stopping, starting, deleting]
    await clock.advance(1.0)
    assert not any(one.done() for one in asked)
    del stage.gates[moment]
    gate.released.set()
    await clock.advance(0.0)
    assert all(one.done() for one in asked)
    assert [info.state for info in await which] == [State.RUNNING] * 3
    assert (await count).active == 3
    with pytest.raises(NoSuchChild):
        await nobody
    for one in (running, deleting):
        with pytest.raises(ChildRunning):
            await one
    with pytest.raises(Unhandled):
        await unknown
    await stopping
    assert (await starting).state is State.RUNNING
    assert {name: info.state for name, info in (await by_name(supervisor)).items()} == {
        "a": State.RUNNING,
        "b": State.RUNNING,
        "c": State.TERMINATED,
        "d": State.RUNNING,
    }


async def test_what_is_no_request_is_a_dead_letter_during_a_group_restart_too(
    system: ActorSystem, clock: ManualClock
) -> None:  # "never silently"
    stage = Stage(AsyncWorker)
    supervisor = await supervise(system, stage.children("ab"), ALL)
    gate = stage.hold("-b")
    (await child_of(supervisor, "a")).tell(Boom())
    await gate.entered.wait()
    supervisor.tell("what is this?")
    gate.released.set()
    await clock.advance(0.0)
    assert [letter.message for letter in system.dead_letters.recent()] == ["what is this?"]


async def test_a_request_whose_asker_gave_up_waiting_is_no_harm(system: ActorSystem, clock: ManualClock) -> None:
    # case 28
    stage = Stage(AsyncWorker)
    supervisor = await supervise(system, stage.children("ab"), ALL)
    gate = stage.hold("-b")
    (await child_of(supervisor, "a")).tell(Boom())
    await gate.entered.wait()
    late = supervisor.ask(StartChild(stage.child("c")), timeout=1.0)
    cancelled = supervisor.ask(StopChild("b"), timeout=None)
    await clock.advance(2.0)
    with pytest.raises(TimeoutError):
        await late
    cancelled.cancel()
    gate.released.set()
    await clock.advance(0.0)
    assert supervisor.state is State.RUNNING
    assert (await by_name(supervisor))["a"].state is State.RUNNING


async def test_only_the_request_about_a_child_waits_for_it(system: ActorSystem, clock: ManualClock) -> None:
    # decision 016
    stage = Stage(AsyncWorker)
    supervisor = await supervise(system, stage.children("ab"))
    up, down = stage.hold("+c"), stage.hold("-a")
    starting = supervisor.ask(StartChild(stage.child("c")))
    stopping = supervisor.ask(StopChild("a"))
    await up.entered.wait()
    await down.entered.wait()
    assert not starting.done()
    assert not stopping.done()
    states = {name: info.state for name, info in (await by_name(supervisor)).items()}
    assert states == {"a": State.STOPPING, "b": State.RUNNING, "c": State.STARTING}
    also_stopping = supervisor.ask(StopChild("a"))
    with pytest.raises(GreenroomError):
        await supervisor.ask(RestartChild("a"))
    (await child_of(supervisor, "b")).tell(Boom())  # restarted meanwhile
    await clock.advance(0.0)
    assert (await by_name(supervisor))["b"].restarts == 1
    up.released.set()
    down.released.set()
    assert (await starting).state is State.RUNNING
    await stopping
    await also_stopping


async def test_a_child_that_is_starting_can_be_stopped(system: ActorSystem, clock: ManualClock) -> None:  # "requests"
    stage = Stage(AsyncWorker)
    supervisor = await supervise(system, stage.children("a"))
    gate = stage.hold("+b")
    starting = supervisor.ask(StartChild(stage.child("b", shutdown=2.0)), timeout=None)
    await gate.entered.wait()
    stopping = supervisor.ask(StopChild("b"), timeout=None)
    await clock.advance(2.0)
    assert stopping.done()
    with pytest.raises(ActorTerminated):
        await starting
    await clock.advance(10.0)
    nothing_left(system, supervisor, await child_of(supervisor, "a"))


@pytest.mark.parametrize("succeeds", [True, False])
async def test_a_child_that_is_being_added_when_its_group_restarts(
    system: ActorSystem, clock: ManualClock, succeeds: bool
) -> None:  # decision 016
    stage = Stage(AsyncWorker)
    supervisor = await supervise(system, stage.children("a"), ALL)
    gate = stage.hold("+b")
    if not succeeds:
        stage.trouble("+b", Boom("no start"))
    starting = supervisor.ask(StartChild(stage.child("b")), timeout=None)
    await gate.entered.wait()
    (await child_of(supervisor, "a")).tell(Boom())
    await clock.advance(0.0)
    del stage.gates["+b"]
    gate.released.set()
    await clock.advance(0.0)
    assert starting.done()
    infos = await by_name(supervisor)
    assert infos["a"].state is State.RUNNING
    try:
        ref = await starting
    except Exception:  # then it must have been forgotten
        assert list(infos) == ["a"]
    else:
        assert infos["b"].ref == ref
        assert infos["b"].state is State.RUNNING


async def test_a_child_whose_start_fails_while_its_group_stops_another_is_forgotten(
    system: ActorSystem, clock: ManualClock
) -> None:  # decision 016
    stage = Stage(AsyncWorker)
    supervisor = await supervise(system, stage.children("a"), ALL)
    gates = {name: stage.hold(f"+{name}") for name in "xy"}
    stage.trouble("+x", Boom("no start"))
    asked = {name: supervisor.ask(StartChild(stage.child(name)), timeout=None) for name in "xy"}
    for gate in gates.values():
        await gate.entered.wait()
    (await child_of(supervisor, "a")).tell(Boom())
    await clock.advance(0.0)
    for name in "xy":  # it is the turn of y, which holds the group up; x fails meanwhile
        gates[name].released.set()
        await clock.advance(0.0)
    stage.gates.clear()
    await clock.advance(10.0)
    assert supervisor.state is State.RUNNING
    infos = await by_name(supervisor)
    assert infos["a"].state is State.RUNNING
    with pytest.raises(Boom):
        await asked["x"]
    assert "x" not in infos
    assert asked["y"].done()


@pytest.mark.parametrize("moment", ["-c", "+a"])
async def test_a_child_that_finishes_in_the_middle_of_a_group_restart_holds_nobody_up(
    system: ActorSystem, clock: ManualClock, moment: str
) -> None:  # 016
    stage = Stage(AsyncWorker)
    children = [stage.child("a"), stage.child("t", restart=Restart.TRANSIENT), stage.child("c")]
    supervisor = await supervise(system, children, ALL)
    refs = {name: await child_of(supervisor, name) for name in "atc"}
    gate = stage.hold(moment)
    refs["a"].tell(Boom())
    await gate.entered.wait()
    refs["t"].stop()  # of its own; it may be at rest already
    await clock.advance(0.0)
    stage.gates.clear()
    gate.released.set()
    await clock.advance(10.0)
    infos = await by_name(supervisor)
    assert infos["a"].state is infos["c"].state is State.RUNNING
    assert await refs["c"].ask("well?") == "well?"


async def test_which_children_is_answered_while_a_single_child_restarts_slowly(system: ActorSystem) -> None:
    # case 32, 44
    stage = Stage(AsyncWorker)
    supervisor = await supervise(system, stage.children("ab"))
    ref = await child_of(supervisor, "a")
    for moment, state in (("-a", {State.RESTARTING, State.STOPPING, State.FAILED}), ("+a", {State.STARTING})):
        gate = stage.hold(moment)
        ref.tell(Boom())
        await gate.entered.wait()
        info = (await by_name(supervisor))["a"]
        assert info.ref == ref
        assert info.state in state
        del stage.gates[moment]
        gate.released.set()
        await system.settle()
    assert (await by_name(supervisor))["a"].restarts == 2


async def test_a_slow_restart_can_be_given_up(system: ActorSystem, clock: ManualClock) -> None:
    # "StopChild cancels a pending restart"
    stage = Stage(AsyncWorker)
    supervisor = await supervise(system, stage.children("ab", shutdown=3.0))
    ref = await child_of(supervisor, "a")
    gate = stage.hold("+a")
    ref.tell(Boom())
    await gate.entered.wait()
    stopping = supervisor.ask(StopChild("a"), timeout=None)
    await clock.advance(2.9)
    await clock.advance(0.2)
    assert stopping.done()
    assert not ref.is_alive
    assert (await by_name(supervisor))["a"].ref is None
    del stage.gates["+a"]
    assert (await supervisor.ask(RestartChild("a"))).state is State.RUNNING


async def test_a_backoff_that_ends_during_a_group_restart_waits_for_it(system: ActorSystem, clock: ManualClock) -> None:
    # decision 016
    stage = Stage(AsyncWorker)
    children = [stage.child("a"), stage.child("b"), stage.child("c", backoff=Backoff(min=1.0))]
    supervisor = await supervise(system, children, Scope.REST_FOR_ONE)
    (await child_of(supervisor, "c")).tell(Boom())
    await clock.advance(0.5)
    gate = stage.hold("-b")
    stage.take()
    (await child_of(supervisor, "a")).tell(Boom())
    await gate.entered.wait()
    async with asyncio.timeout(120.0):  # it must not turn in circles meanwhile
        await clock.advance(1.0)  # c would be due
    assert "+c" not in stage.log
    gate.released.set()
    await clock.advance(1.0)
    assert stage.take() == ["-a", "-b", "+a", "+b", "+c"]
    await clock.advance(5.0)
    assert stage.take() == []
    assert system.snapshot().timers == 0


async def test_requests_sent_while_the_supervisor_starts_are_answered_when_it_runs(system: ActorSystem) -> None:
    # case 54
    stage = Stage(AsyncWorker)
    gate = stage.hold("+b")
    supervisor = system.spawn(Supervisor, Supervisor.spec(stage.children("abc")))
    await gate.entered.wait()
    asked = supervisor.ask(CountChildren(), timeout=None)
    gate.released.set()
    assert (await asked).active == 3
