"""Whatever a `Supervisor` is doing, it can end or be restarted, with nothing left behind (J10; case 59)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from greenroom import (
    ActorRef,
    ActorSystem,
    Backoff,
    CountChildren,
    MailboxConfig,
    MailboxFull,
    ManualClock,
    Scope,
    StartChild,
    State,
    StopChild,
    Supervision,
    Supervisor,
)
from greenroom.testing import TestProbe
from tests.supervision.staff import (
    GRACE,
    AsyncWorker,
    Boom,
    Gate,
    Stage,
    by_name,
    child_of,
    end,
    nothing_left,
    supervise,
)


class Scene:
    """A supervisor in the middle of something, and how to let that go on."""

    def __init__(self, system: ActorSystem, clock: ManualClock, stage: Stage) -> None:
        self.system, self.clock, self.stage = system, clock, stage

    def spawn(self, names: str = "abc", scope: Scope = Scope.ONE_FOR_ONE, **options: Any) -> ActorRef[Any, Any]:
        spec = Supervisor.spec(self.stage.children(names, shutdown=3.0), scope, **options)
        return self.system.spawn(Supervisor, spec, name="top")

    def child(self, name: str) -> ActorRef[Any, Any]:
        ref = self.system.actor(f"/top/{name}")
        assert ref is not None
        return ref

    async def at(self, moment: str, act: Callable[[], object] | None = None) -> Gate:
        gate = self.stage.hold(moment)
        if act is not None:
            act()
        await gate.entered.wait()
        return gate


async def starting(scene: Scene) -> ActorRef[Any, Any]:
    supervisor = scene.spawn()
    await scene.at("+b")
    return supervisor


async def rolling_back(scene: Scene) -> ActorRef[Any, Any]:
    scene.stage.trouble("+c", Boom("no start"))
    supervisor = scene.spawn()
    await scene.at("-b")
    return supervisor


async def waiting(scene: Scene) -> ActorRef[Any, Any]:
    supervisor = scene.spawn(backoff=Backoff(min=50.0, max=50.0))
    await supervisor.started()
    scene.child("a").tell(Boom())
    scene.child("b").tell(Boom())
    await scene.clock.advance(1.0)
    assert scene.child("b").state is State.RESTARTING
    return supervisor


async def group_waiting(scene: Scene) -> ActorRef[Any, Any]:
    supervisor = scene.spawn(scope=Scope.ONE_FOR_ALL, backoff=Backoff(min=50.0, max=50.0))
    await supervisor.started()
    scene.child("b").tell(Boom())
    await scene.clock.advance(1.0)
    assert scene.child("a").state is State.RESTARTING
    return supervisor


async def child_leaving(scene: Scene) -> ActorRef[Any, Any]:
    supervisor = scene.spawn()
    await supervisor.started()
    await scene.at("-b", lambda: scene.child("b").tell(Boom()))
    return supervisor


async def child_starting(scene: Scene) -> ActorRef[Any, Any]:
    supervisor = scene.spawn()
    await supervisor.started()
    await scene.at("+b", lambda: scene.child("b").tell(Boom()))
    return supervisor


async def group_stopping(scene: Scene) -> ActorRef[Any, Any]:
    supervisor = scene.spawn(scope=Scope.ONE_FOR_ALL)
    await supervisor.started()
    await scene.at("-b", lambda: scene.child("a").tell(Boom()))
    return supervisor


async def group_starting(scene: Scene) -> ActorRef[Any, Any]:
    supervisor = scene.spawn(scope=Scope.ONE_FOR_ALL)
    await supervisor.started()
    await scene.at("+b", lambda: scene.child("c").tell(Boom()))
    return supervisor


async def giving_up(scene: Scene) -> ActorRef[Any, Any]:
    supervisor = scene.spawn(intensity=0)
    await supervisor.started()
    await scene.at("-b", lambda: scene.child("c").tell(Boom()))
    return supervisor


async def adding(scene: Scene) -> ActorRef[Any, Any]:
    supervisor = scene.spawn()
    await supervisor.started()
    await scene.at("+d", lambda: supervisor.tell(StartChild(scene.stage.child("d", shutdown=3.0))))
    return supervisor


async def removing(scene: Scene) -> ActorRef[Any, Any]:
    supervisor = scene.spawn()
    await supervisor.started()
    await scene.at("-b", lambda: supervisor.tell(StopChild("b")))
    return supervisor


MOMENTS: list[Callable[[Scene], Awaitable[ActorRef[Any, Any]]]] = [
    starting,
    rolling_back,
    waiting,
    group_waiting,
    child_leaving,
    child_starting,
    group_stopping,
    group_starting,
    giving_up,
    adding,
    removing,
]
every_moment = pytest.mark.parametrize("moment", MOMENTS, ids=lambda moment: str(moment.__name__))


@every_moment
@pytest.mark.parametrize("released", [True, False], ids=["goes on", "hangs"])
@pytest.mark.parametrize("how", ["stop", "kill", "fail", "shutdown"])
@pytest.mark.config(stop_timeout=5.0)
async def test_whatever_it_is_doing_a_supervisor_ends_and_leaves_nothing_behind(
    system: ActorSystem,
    clock: ManualClock,
    how: str,
    released: bool,
    moment: Callable[[Scene], Awaitable[ActorRef[Any, Any]]],
) -> None:  # J10, case 59
    stage = Stage(AsyncWorker)
    scene = Scene(system, clock, stage)
    supervisor = await moment(scene)
    probe = TestProbe(system)
    await probe.watch(supervisor)
    asked = supervisor.ask("anything", timeout=None)
    if how == "shutdown":
        system.stop()
    else:
        end(supervisor, how)
    await clock.advance(0.0)
    if released:
        for gate in stage.gates.values():
            gate.released.set()
        await clock.advance(0.0)
    else:
        await clock.advance(20.0 + GRACE)
    async with asyncio.timeout(120.0):
        await supervisor.terminated()
        with pytest.raises(Exception, match=r"."):
            await asked
        if how == "shutdown":
            await system.stopped()
    assert [ref.path for ref in system.actors() if ref != probe.ref] == []
    assert system.snapshot().timers == 0
    started = [entry[1] for entry in stage.log if entry[0] == "+" and "cancelled" not in entry]
    stopped = [entry[1] for entry in stage.log if entry[0] == "-"]
    assert set(started) <= set(stopped)  # whoever came up went down


@every_moment
@pytest.mark.config(stop_timeout=5.0, supervision=Supervision())
async def test_whatever_it_is_doing_a_supervisor_can_be_restarted(
    system: ActorSystem, clock: ManualClock, moment: Callable[[Scene], Awaitable[ActorRef[Any, Any]]]
) -> None:  # J10, M6
    stage = Stage(AsyncWorker)
    scene = Scene(system, clock, stage)
    supervisor = await moment(scene)
    supervisor.restart()
    await clock.advance(0.0)
    for gate in stage.gates.values():
        gate.released.set()
    stage.gates.clear()
    await clock.advance(10.0)
    assert supervisor.state is State.RUNNING
    infos = await by_name(supervisor)
    assert {name: info.state for name, info in infos.items()} == dict.fromkeys("abc", State.RUNNING)
    assert {info.restarts for info in infos.values()} == {0}
    alive = [info.ref for info in infos.values() if info.ref is not None]
    nothing_left(system, supervisor, *alive)
    stage.take()
    await clock.advance(200.0)  # no deadline of the old incarnation is left
    assert stage.take() == []
    if moment is not giving_up:  # which allows none
        alive[1].tell(Boom())
        await clock.advance(60.0)
        assert (await by_name(supervisor))["b"].restarts == 1


@pytest.mark.parametrize("scope", [Scope.ONE_FOR_ONE, Scope.ONE_FOR_ALL])
async def test_a_deadline_of_an_earlier_incarnation_starts_nobody(
    system: ActorSystem, clock: ManualClock, scope: Scope
) -> None:  # J11, decision 014
    stage = Stage()
    supervisor = await supervise(system, stage.children("ab"), scope, backoff=Backoff(min=50.0, max=50.0))
    (await child_of(supervisor, "a")).tell(Boom())
    await clock.advance(0.0)
    supervisor.restart()
    await clock.advance(20.0)
    (await child_of(supervisor, "a")).tell(Boom())
    await clock.advance(40.0)  # past the deadline of the incarnation before
    infos = await by_name(supervisor)
    assert (infos["a"].state, infos["a"].next_attempt) == (State.RESTARTING, 70.0)
    await clock.advance(10.0)
    assert (await by_name(supervisor))["a"].state is State.RUNNING


@pytest.mark.parametrize("how", ["stop", "kill"])
async def test_a_child_that_is_ended_while_it_waits_does_not_wait_for_ever(
    system: ActorSystem, clock: ManualClock, how: str
) -> None:  # case 35
    stage = Stage()
    children = stage.children("ab", backoff=Backoff(min=10.0, max=10.0))
    supervisor = await supervise(system, children, intensity=None)
    (await child_of(supervisor, "a")).tell(Boom())
    await clock.advance(1.0)
    end(await child_of(supervisor, "a"), how)
    await clock.advance(30.0)
    assert (await by_name(supervisor))["a"].state is State.RUNNING  # permanent is permanent
    assert await (await child_of(supervisor, "a")).ask("well?") == "well?"
    assert system.snapshot().timers == 0


async def test_notices_reach_a_supervisor_whose_mailbox_is_full(
    system: ActorSystem, clock: ManualClock
) -> None:  # case 11, "orders and notices"
    stage = Stage()
    spec = Supervisor.spec(stage.children("abc"), Scope.ONE_FOR_ALL, backoff=Backoff(min=1.0))
    supervisor = system.spawn(Supervisor, spec, mailbox=MailboxConfig(capacity=1))
    await supervisor.started()
    refs = [await child_of(supervisor, name) for name in "abc"]
    stage.take()
    for ref in refs:
        ref.fail(Boom())
    asked = supervisor.ask(CountChildren())
    with pytest.raises(MailboxFull):
        supervisor.tell(CountChildren())
    assert (await asked).specs == 3
    await clock.advance(1.0)
    assert stage.take()[-3:] == ["+a", "+b", "+c"]
    assert {info.restarts for info in (await by_name(supervisor)).values()} == {1}
