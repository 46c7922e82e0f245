"""Requests that have to wait: for a group restart, or for the child they are about (decision 016, J10)."""

from __future__ import annotations

import asyncio

import pytest

from greenroom import (
    ActorSystem,
    ActorTerminated,
    Backoff,
    CountChildren,
    DeleteChild,
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
from greenroom.errors import ChildRunning, GreenroomError, NoSuchChild, Unhandled
from tests.supervision.staff import AsyncWorker, Boom, Stage, by_name, child_of, nothing_left, supervise

ALL = Scope.ONE_FOR_ALL


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


async def test_a_request_whose_asker_gave_up_waiting_is_no_harm(
    system: ActorSystem, clock: ManualClock
) -> None:  # case 28
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


async def test_only_the_request_about_a_child_waits_for_it(
    system: ActorSystem, clock: ManualClock
) -> None:  # decision 016
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


async def test_which_children_is_answered_while_a_single_child_restarts_slowly(
    system: ActorSystem,
) -> None:  # case 32, 44
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


async def test_a_slow_restart_can_be_given_up(
    system: ActorSystem, clock: ManualClock
) -> None:  # "StopChild cancels a pending restart"
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


async def test_a_backoff_that_ends_during_a_group_restart_waits_for_it(
    system: ActorSystem, clock: ManualClock
) -> None:  # decision 016
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


async def test_requests_sent_while_the_supervisor_starts_are_answered_when_it_runs(
    system: ActorSystem,
) -> None:  # case 54
    stage = Stage(AsyncWorker)
    gate = stage.hold("+b")
    supervisor = system.spawn(Supervisor, Supervisor.spec(stage.children("abc")))
    await gate.entered.wait()
    asked = supervisor.ask(CountChildren(), timeout=None)
    gate.released.set()
    assert (await asked).active == 3
