"""How a `Supervisor` ends: in order, and each child in its own time ("stop order", "forcing", J10; cases 56, 57)."""

from __future__ import annotations

import pytest

from greenroom import (
    ActorSystem,
    ChildSpec,
    ExitKind,
    ManualClock,
    Scope,
    Shutdown,
    StartChild,
    State,
    StopChild,
    Supervisor,
)
from greenroom.testing import TestProbe
from tests.supervision.staff import GRACE, AsyncWorker, Boom, Stage, Worker, both, by_name, child_of, end, supervise


@both
@pytest.mark.parametrize("how", ["stop", "kill", "fail", "shutdown"])
async def test_children_stop_one_after_the_other_in_reverse(
    system: ActorSystem, kind: type[Worker], how: str
) -> None:  # "stop order"
    stage = Stage(kind)
    supervisor = await supervise(system, stage.children("abc"))
    await supervisor.ask(StartChild(stage.child("d")))
    stage.take()
    if how == "shutdown":
        await system.shutdown()
    else:
        end(supervisor, how)
    await supervisor.terminated()
    if how != "kill":
        assert stage.take() == ["-d", "-c", "-b", "-a"]
    else:
        assert sorted(stage.take()) == ["-a", "-b", "-c", "-d"]
    assert system.actors() == []


@pytest.mark.parametrize("how", ["stop", "restart", "trip", "shutdown"])
@pytest.mark.config(stop_timeout=100.0)
async def test_a_child_that_ignores_its_stop_is_cancelled_when_its_time_is_over(
    system: ActorSystem, clock: ManualClock, how: str
) -> None:  # case 57
    stage = Stage(AsyncWorker)
    children = [stage.child("a"), stage.child("b", shutdown=2.0), stage.child("c", shutdown=7.0), stage.child("d")]
    supervisor = await supervise(system, children, intensity=0)
    stage.hold("-c")
    stage.hold("-b")
    stage.take()
    if how == "stop":
        supervisor.stop()
    elif how == "restart":
        supervisor.restart()
    elif how == "trip":
        (await child_of(supervisor, "d")).tell(Boom())
    else:
        system.stop()
    await clock.advance(0.0)
    assert stage.take() == ["-d"]
    await clock.advance(6.9)
    assert stage.log == []
    await clock.advance(0.1)
    assert stage.take() == ["-c cancelled"]
    await clock.advance(1.9)  # b's time begins only now
    assert stage.log == []
    await clock.advance(0.1)
    await clock.advance(GRACE)
    assert stage.take()[:2] == ["-b cancelled", "-a"]
    assert supervisor.is_alive is (how == "restart")
    stage.gates.clear()


@pytest.mark.config(stop_timeout=1.0)
async def test_a_child_with_no_time_is_killed_and_one_with_all_of_it_waited_for(
    system: ActorSystem, clock: ManualClock
) -> None:  # KILL, INFINITY
    stage = Stage(AsyncWorker)
    probe = TestProbe(system)
    children = [
        stage.child("a", shutdown=Shutdown.KILL),
        stage.child("b", shutdown=Shutdown.INFINITY),
        stage.child("c"),
    ]
    supervisor = await supervise(system, children)
    refs = {name: await child_of(supervisor, name) for name in "abc"}
    for ref in refs.values():
        await probe.watch(ref)
    gates = {name: stage.hold(f"~{name}") for name in "abc"}
    gates["c"].released.set()
    supervisor.stop()
    await clock.advance(10_000.0)
    assert stage.log == ["+a", "+b", "+c", "~c", "-c"]
    assert supervisor.is_alive
    gates["b"].released.set()
    await clock.advance(0.0)
    assert not supervisor.is_alive
    assert stage.log == ["+a", "+b", "+c", "~c", "-c", "~b", "-b", "-a"]  # a had no `pre_stop`
    kinds = {notice.ref.name: notice.reason.kind for notice in [await probe.receive() for _ in range(3)]}
    assert kinds == {"c": ExitKind.SHUTDOWN, "b": ExitKind.SHUTDOWN, "a": ExitKind.KILLED}


@pytest.mark.parametrize("shutdown", [2.0, 30.0])
async def test_a_child_stopped_by_request_has_its_own_time_too(
    system: ActorSystem, clock: ManualClock, shutdown: float
) -> None:  # "stop order"
    stage = Stage(AsyncWorker)
    supervisor = await supervise(system, [stage.child("a", shutdown=shutdown)])
    stage.hold("~a")
    asked = supervisor.ask(StopChild("a"), timeout=None)
    await clock.advance(shutdown - 0.1)
    assert not asked.done()
    await clock.advance(0.1 + GRACE)
    assert asked.done()
    assert "~a cancelled" in stage.log


@pytest.mark.config(stop_timeout=100.0)
async def test_a_group_restart_gives_each_its_own_time(
    system: ActorSystem, clock: ManualClock
) -> None:  # "stop order", case 34
    stage = Stage(AsyncWorker)
    children = [stage.child("a"), stage.child("b", shutdown=2.0), stage.child("c", shutdown=3.0)]
    supervisor = await supervise(system, children, Scope.ONE_FOR_ALL)
    gates = [stage.hold("-c"), stage.hold("-b")]
    stage.take()
    (await child_of(supervisor, "a")).tell(Boom())
    await clock.advance(2.9)
    assert stage.log == ["-a"]
    await clock.advance(0.1)
    assert stage.log == ["-a", "-c cancelled"]
    await clock.advance(1.9)
    assert stage.log == ["-a", "-c cancelled"]
    await clock.advance(0.1 + GRACE)
    assert stage.take() == ["-a", "-c cancelled", "-b cancelled", "+a", "+b", "+c"]
    assert {info.state for info in (await by_name(supervisor)).values()} == {State.RUNNING}
    stage.gates.clear()
    assert len(gates) == 2


@pytest.mark.config(stop_timeout=1.0)
async def test_a_nested_supervisor_takes_the_time_its_children_need(
    system: ActorSystem, clock: ManualClock
) -> None:  # "stop order"
    stage = Stage(AsyncWorker)
    low = Supervisor.spec([stage.child("x", shutdown=4.0), stage.child("y", shutdown=4.0)])
    nested = ChildSpec("low", Supervisor, (low,), shutdown=Shutdown.INFINITY)
    supervisor = await supervise(system, [stage.child("a"), nested, stage.child("c")])
    stage.hold("-x")
    stage.hold("-y")
    stage.take()
    supervisor.stop()
    await clock.advance(7.9)
    assert stage.log == ["-c", "-y cancelled"]
    await clock.advance(0.1 + GRACE)
    assert stage.log == ["-c", "-y cancelled", "-x cancelled", "-a"]
    assert not supervisor.is_alive
