"""Significant children, whose end may be their supervisor's (case 39)."""

from __future__ import annotations

import pytest

from greenroom import (
    ActorSystem,
    AutoShutdown,
    ChildSpec,
    ExitKind,
    Restart,
    RestartChild,
    Scope,
    StartChild,
    State,
    StopChild,
    Supervisor,
)
from greenroom.errors import ConfigError
from greenroom.testing import TestProbe
from tests.supervision.staff import (
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

ANY, ALL, NEVER = AutoShutdown.ANY, AutoShutdown.ALL, AutoShutdown.NEVER
PERMANENT, TRANSIENT, TEMPORARY = Restart.PERMANENT, Restart.TRANSIENT, Restart.TEMPORARY
passing = pytest.mark.parametrize("restart", [TRANSIENT, TEMPORARY])


async def test_pairs_that_make_no_sense_are_refused(system: ActorSystem) -> None:  # case 39
    stage = Stage()
    with pytest.raises(ConfigError) as caught:
        stage.child("a", significant=True)  # permanent: it never ends by itself
    assert caught.value.field == "significant"
    significant = stage.child("a", restart=TRANSIENT, significant=True)
    with pytest.raises(ConfigError):
        Supervisor.spec([significant])  # NEVER
    for auto_shutdown in (ANY, ALL):
        Supervisor.spec([significant], auto_shutdown=auto_shutdown)
    supervisor = await supervise(system, [])
    with pytest.raises(ConfigError):
        await supervisor.ask(StartChild(significant))
    assert await by_name(supervisor) == {}
    assert supervisor.state is State.RUNNING


@both
@pytest.mark.parametrize("scope", list(Scope))
@passing
async def test_with_any_the_first_significant_child_to_end_takes_the_supervisor_along(
    system: ActorSystem, restart: Restart, scope: Scope, kind: type[Worker]
) -> None:  # case 39
    stage = Stage(kind)
    probe = TestProbe(system)
    children = [
        stage.child("a"),
        stage.child("s", restart=restart, significant=True),
        stage.child("z", restart=restart, significant=True),
        stage.child("c"),
    ]
    supervisor = await supervise(system, children, scope, auto_shutdown=ANY)
    await probe.watch(supervisor)
    ref = await child_of(supervisor, "s")
    stage.take()
    ref.stop()
    notice = await probe.expect_terminated(supervisor)
    assert notice.reason.kind is ExitKind.SHUTDOWN
    assert notice.cause is None
    assert stage.take() == ["-s", "-c", "-z", "-a"]
    nothing_left(system, probe.ref)


@both
@pytest.mark.parametrize("order", ["st", "ts"])
@passing
async def test_with_all_the_last_significant_child_to_end_takes_the_supervisor_along(
    system: ActorSystem, restart: Restart, order: str, kind: type[Worker]
) -> None:  # case 39
    stage = Stage(kind)
    children = [stage.child("a"), *stage.children("st", restart=restart, significant=True)]
    supervisor = await supervise(system, children, auto_shutdown=ALL)
    first, last = [await child_of(supervisor, name) for name in order]
    stage.take()
    first.stop()
    await system.settle()
    assert supervisor.state is State.RUNNING
    last.stop()
    await system.settle()
    assert not supervisor.is_alive
    assert (await supervisor.terminated()).kind is ExitKind.SHUTDOWN
    assert stage.take() == [f"-{order[0]}", f"-{order[1]}", "-a"]
    nothing_left(system)


@pytest.mark.parametrize("how", list(END))
@pytest.mark.parametrize("auto_shutdown", [ANY, ALL])
@passing
async def test_which_ends_of_a_significant_child_are_ends(
    system: ActorSystem, restart: Restart, auto_shutdown: AutoShutdown, how: str
) -> None:  # case 39, 35
    stage = Stage()
    comes_back = restart is TRANSIENT and how not in ("stop", "stopped")
    children = [stage.child("a"), stage.child("s", restart=restart, significant=True)]
    supervisor = await supervise(system, children, auto_shutdown=auto_shutdown)
    end(await child_of(supervisor, "s"), how)
    await system.settle()
    assert supervisor.is_alive is comes_back


@pytest.mark.parametrize("auto_shutdown", [ANY, ALL])
@passing
async def test_a_significant_child_that_somebody_stops_takes_nobody_along(
    system: ActorSystem, restart: Restart, auto_shutdown: AutoShutdown
) -> None:  # case 39: only one that has ended by itself
    stage = Stage()
    children = [stage.child("a"), *stage.children("st", restart=restart, significant=True)]
    supervisor = await supervise(system, children, auto_shutdown=auto_shutdown)
    await supervisor.ask(StopChild("s"))
    await system.settle()
    assert supervisor.state is State.RUNNING
    (await child_of(supervisor, "t")).stop()  # no other is left
    await system.settle()
    assert not supervisor.is_alive


@pytest.mark.parametrize("auto_shutdown", [ANY, ALL])
async def test_children_that_are_not_significant_take_nobody_along(
    system: ActorSystem, auto_shutdown: AutoShutdown
) -> None:  # case 39
    stage = Stage()
    children = [stage.child("s", restart=TRANSIENT, significant=True), *stage.children("bc", restart=TRANSIENT)]
    supervisor = await supervise(system, children, auto_shutdown=auto_shutdown)
    for name in "bc":
        (await child_of(supervisor, name)).stop()
        await system.settle()
    assert supervisor.state is State.RUNNING


async def test_a_significant_child_that_was_finished_and_is_started_again_counts_again(
    system: ActorSystem,
) -> None:  # case 39
    stage = Stage()
    children = stage.children("st", restart=TRANSIENT, significant=True)
    supervisor = await supervise(system, children, auto_shutdown=ALL)
    (await child_of(supervisor, "s")).stop()
    await system.settle()
    await supervisor.ask(RestartChild("s"))
    (await child_of(supervisor, "t")).stop()
    await system.settle()
    assert supervisor.state is State.RUNNING
    (await child_of(supervisor, "s")).stop()
    await system.settle()
    assert not supervisor.is_alive


@pytest.mark.parametrize(("restart", "comes_back"), [(PERMANENT, True), (TRANSIENT, False), (TEMPORARY, False)])
async def test_a_supervisor_that_ended_with_its_significant_child_ended_in_order(
    system: ActorSystem, restart: Restart, comes_back: bool
) -> None:  # case 39, 35
    stage = Stage()
    nested = Supervisor.spec(
        [stage.child("x"), stage.child("s", restart=TRANSIENT, significant=True)], auto_shutdown=ANY
    )
    child = ChildSpec("nested", Supervisor, (nested,), restart=restart)
    supervisor = await supervise(system, [child, stage.child("b")], name="top")
    ref = system.actor("/top/nested/s")
    assert ref is not None
    stage.take()
    ref.stop()
    await system.settle()
    assert stage.take() == ["-s", "-x", *(["+x", "+s"] if comes_back else [])]
    assert supervisor.state is State.RUNNING


async def test_a_significant_child_that_ends_while_its_siblings_start(system: ActorSystem) -> None:  # case 39
    stage = Stage(AsyncWorker)
    gate = stage.hold("+c")
    children = [stage.child("s", restart=TRANSIENT, significant=True), stage.child("c")]
    supervisor = system.spawn(Supervisor, Supervisor.spec(children, auto_shutdown=ANY), name="top")
    await gate.entered.wait()
    ref = system.actor("/top/s")
    assert ref is not None
    ref.stop()
    await ref.terminated()
    gate.released.set()
    assert (await supervisor.terminated()).kind is ExitKind.SHUTDOWN
    assert stage.log == ["+s", "-s", "+c", "-c"]


async def test_a_significant_child_that_is_restarted_with_its_group_has_not_ended(
    system: ActorSystem,
) -> None:  # case 39, 34
    stage = Stage()
    children = [stage.child("a"), stage.child("s", restart=TRANSIENT, significant=True)]
    supervisor = await supervise(system, children, Scope.ONE_FOR_ALL, auto_shutdown=ANY)
    (await child_of(supervisor, "a")).tell(Boom())
    await system.settle()
    assert supervisor.state is State.RUNNING
    assert stage.take() == ["+a", "+s", "-a", "-s", "+a", "+s"]
