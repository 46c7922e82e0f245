"""Ends that come at the same tick as something else: the notice is queued when the supervisor decides.

J10, "orders and notices"; cases 35, 37, 43.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from greenroom import (
    ActorRef,
    ActorSystem,
    AutoShutdown,
    Backoff,
    ChildSpec,
    CountChildren,
    DynamicSupervisor,
    ExitKind,
    ManualClock,
    Restart,
    RestartChild,
    RestartLimit,
    Scope,
    StartChild,
    State,
    StopChild,
    Supervisor,
    WhichChildren,
)
from greenroom.errors import ChildRunning, NoSuchChild
from tests.supervision.staff import (
    END,
    Boom,
    Panic,
    Stage,
    Worker,
    both,
    by_name,
    end,
    nothing_left,
    supervise,
)

every_scope = pytest.mark.parametrize("scope", list(Scope), ids=lambda scope: str(scope.value))
every_end = pytest.mark.parametrize("how", list(END))
BY_OTHERS = (Boom, Panic, RestartLimit)
PERMANENT, TRANSIENT, TEMPORARY = Restart.PERMANENT, Restart.TRANSIENT, Restart.TEMPORARY


async def children_of(supervisor: ActorRef[Any, Any]) -> dict[str, ActorRef[Any, Any]]:
    return {name: info.ref for name, info in (await by_name(supervisor)).items() if info.ref is not None}


@both
# One that is told to stop by a message may be restarted with its group first, and stop then.
@pytest.mark.parametrize("how", [pytest.param(how, marks=pytest.mark.fifo) if how == "stopped" else how for how in END])
@every_scope
@pytest.mark.parametrize("restart", list(Restart))
async def test_one_ends_at_the_tick_at_which_another_fails(
    system: ActorSystem, restart: Restart, scope: Scope, how: str, kind: type[Worker]
) -> None:  # case 43, 35
    stage = Stage(kind)
    children = [stage.child("a"), stage.child("b", restart=restart), stage.child("c")]
    supervisor = await supervise(system, children, scope, intensity=3)
    refs = await children_of(supervisor)
    refs["a"].tell(Boom())
    end(refs["b"], how)
    await system.settle()
    assert supervisor.state is State.RUNNING
    infos = await by_name(supervisor)
    assert infos["a"].state is infos["c"].state is State.RUNNING
    if restart is TEMPORARY:
        assert "b" not in infos
    elif restart is PERMANENT or how not in ("stop", "stopped") or scope is not Scope.ONE_FOR_ONE:
        assert infos["b"].state is State.RUNNING
    for name, info in infos.items():
        if info.ref is not None:
            assert await info.ref.ask("well?") == "well?"
            assert stage.log.count(f"+{name}") == stage.log.count(f"-{name}") + 1


@both
@every_end
@every_scope
@pytest.mark.parametrize("restart", list(Restart))
async def test_one_ends_at_the_tick_at_which_another_trips_the_supervisor(
    system: ActorSystem, restart: Restart, scope: Scope, how: str, kind: type[Worker]
) -> None:  # case 37
    stage = Stage(kind)
    children = [stage.child("a"), stage.child("b", restart=restart), stage.child("c")]
    supervisor = await supervise(system, children, scope, intensity=0)
    refs = await children_of(supervisor)
    cause = Boom("the first")
    refs["a"].tell(cause)
    end(refs["b"], how)
    async with asyncio.timeout(120.0):
        reason = await supervisor.terminated()
    # Whichever end the supervisor noticed first.
    assert reason.cause is cause or (restart is not TEMPORARY and isinstance(reason.cause, BY_OTHERS))
    assert sorted(stage.log) == ["+a", "+b", "+c", "-a", "-b", "-c"]
    nothing_left(system)


@every_end
@pytest.mark.parametrize("restart", list(Restart))
async def test_dynamic_children_end_at_the_tick_at_which_another_trips_the_supervisor(
    system: ActorSystem, restart: Restart, how: str
) -> None:  # case 37
    stage = Stage()
    spec = DynamicSupervisor.spec(stage.child("x", restart=restart), intensity=0)
    supervisor: ActorRef[Any, Any] = system.spawn(DynamicSupervisor, spec)
    refs = [await supervisor.ask(StartChild()) for _ in range(4)]
    cause = Boom("the first")
    refs[1].tell(cause)
    for ref in (refs[0], refs[3]):
        end(ref, how)
    await system.settle()
    if restart is TEMPORARY:
        assert (await supervisor.ask(CountChildren())).active == 1
    else:
        reason = await supervisor.terminated()
        assert reason.cause is cause or isinstance(reason.cause, BY_OTHERS)
        nothing_left(system)


@every_end
@pytest.mark.parametrize("restart", [TRANSIENT, TEMPORARY])
async def test_one_ends_at_the_tick_at_which_a_significant_child_does(
    system: ActorSystem, restart: Restart, how: str
) -> None:  # 39
    stage = Stage()
    children = [
        stage.child("a"),
        stage.child("s", restart=TRANSIENT, significant=True),
        stage.child("b", restart=restart),
    ]
    supervisor = await supervise(system, children, auto_shutdown=AutoShutdown.ANY)
    refs = await children_of(supervisor)
    refs["s"].stop()
    end(refs["b"], how)
    async with asyncio.timeout(120.0):
        assert (await supervisor.terminated()).kind is ExitKind.SHUTDOWN
    for name in "asb":
        assert stage.log.count(f"+{name}") == stage.log.count(f"-{name}")
    nothing_left(system)


@both
@every_end
@pytest.mark.parametrize("restart", list(Restart))
async def test_a_child_ends_while_it_is_being_stopped_by_request(
    system: ActorSystem, restart: Restart, how: str, kind: type[Worker]
) -> None:  # "requests"
    stage = Stage(kind)
    supervisor = await supervise(system, stage.children("ab", restart=restart), intensity=0)
    ref = (await children_of(supervisor))["a"]
    asked = supervisor.ask(StopChild("a"))
    end(ref, how)  # after the request, which overtakes a message but not an order
    await asked
    await system.settle()
    assert not ref.is_alive
    assert supervisor.state is State.RUNNING
    assert list(await children_of(supervisor)) == ["b"]
    assert stage.log == ["+a", "+b", "-a"]


@pytest.mark.parametrize("how", ["failed", "kill", "stop"])
async def test_a_child_is_asked_to_start_again_at_the_tick_at_which_it_ends(
    system: ActorSystem, how: str
) -> None:  # "requests"
    stage = Stage()
    supervisor = await supervise(system, stage.children("ab"))
    ref = (await children_of(supervisor))["a"]
    end(ref, how)
    with pytest.raises(ChildRunning):  # as far as the supervisor knows
        await supervisor.ask(RestartChild("a"))
    await system.settle()
    infos = await by_name(supervisor)
    assert (infos["a"].ref, infos["a"].state, infos["a"].restarts) == (ref, State.RUNNING, 1)


@every_scope
@pytest.mark.parametrize("how", ["failed", "kill", "stop"])
async def test_a_child_that_fails_again_as_soon_as_it_runs(
    system: ActorSystem, scope: Scope, how: str
) -> None:  # case 30
    stage = Stage()

    class Hasty(Worker):
        def post_start(self) -> None:
            if self.stage.log.count(f"+{self.name}") < 4:
                end(self.ctx.self, how)

    stage.kind = Hasty
    hasty = stage.child("b")
    stage.kind = Worker
    spec = Supervisor.spec([stage.child("a"), hasty, stage.child("c")], scope, intensity=3)
    supervisor = system.spawn(Supervisor, spec)
    await supervisor.started()
    await system.settle()
    assert supervisor.state is State.RUNNING
    infos = await by_name(supervisor)
    assert {info.state for info in infos.values()} == {State.RUNNING}
    assert infos["b"].restarts == 3
    assert stage.log.count("+b") == 4


@pytest.mark.parametrize("scope", [Scope.ONE_FOR_ALL, Scope.REST_FOR_ONE])
async def test_a_child_added_at_the_tick_at_which_its_group_restarts(
    system: ActorSystem, scope: Scope
) -> None:  # decision 016
    stage = Stage()
    supervisor = await supervise(system, stage.children("ab"), scope)
    refs = await children_of(supervisor)
    asked = supervisor.ask(StartChild(stage.child("c")))
    refs["a"].tell(Boom())
    ref = await asked
    await system.settle()
    assert await children_of(supervisor) == refs | {"c": ref}
    assert {info.state for info in (await by_name(supervisor)).values()} == {State.RUNNING}


@every_scope
async def test_a_deadline_and_an_end_at_the_same_moment(
    system: ActorSystem, clock: ManualClock, scope: Scope
) -> None:  # case 44
    stage = Stage()
    supervisor = await supervise(system, stage.children("abc"), scope, backoff=Backoff(min=1.0, max=1.0))
    refs = await children_of(supervisor)
    refs["b"].tell(Boom())
    await clock.advance(0.5)
    sender = system.spawn(Worker, stage, "sender")
    await sender.ask(lambda ctx: ctx.send_after(0.5, refs["a"], Boom()) and None)
    await clock.advance(0.5)
    await clock.advance(1.0)
    infos = await by_name(supervisor)
    assert {info.state for info in infos.values()} == {State.RUNNING}
    for ref in refs.values():
        assert await ref.ask("well?") == "well?"
    await clock.advance(5.0)
    nothing_left(system, supervisor, sender, *refs.values())


@every_end
@pytest.mark.parametrize("restart", list(Restart))
async def test_a_dynamic_child_that_ends_just_before_it_is_stopped_stays_down(
    system: ActorSystem, restart: Restart, how: str
) -> None:  # J10
    stage = Stage()
    spec = DynamicSupervisor.spec(ChildSpec("x", Worker, (stage,), restart=restart), intensity=2)
    supervisor: ActorRef[Any, Any] = system.spawn(DynamicSupervisor, spec)
    ref = await supervisor.ask(StartChild("a"))
    end(ref, how)
    try:
        await supervisor.ask(StopChild(ref))
    except NoSuchChild:
        assert restart is not PERMANENT
    await system.settle()
    assert not ref.is_alive
    assert await supervisor.ask(WhichChildren()) == []
    assert (await supervisor.ask(StartChild("b"))).state is State.RUNNING
