"""A `DynamicSupervisor`: one template, many children (J10; case 38)."""

from __future__ import annotations

from typing import Any

import pytest

from greenroom import (
    ActorRef,
    ActorSystem,
    Backoff,
    ChildSpec,
    CountChildren,
    DeleteChild,
    DynamicSupervisor,
    ExitKind,
    ManualClock,
    Restart,
    RestartChild,
    RestartLimit,
    Shutdown,
    StartChild,
    State,
    StopChild,
    Supervisor,
    WhichChildren,
)
from greenroom.errors import ConfigError, NoSuchChild, TooManyActors, TooManyChildren, Unhandled
from greenroom.testing import TestProbe
from tests.conformance.lives import actor_at
from tests.conftest import Play
from tests.supervision.children import END, AsyncWorker, Boom, Stage, Worker, both, by_name, end, nothing_left

PERMANENT, TRANSIENT, TEMPORARY = Restart.PERMANENT, Restart.TRANSIENT, Restart.TEMPORARY


def template(stage: Stage, **options: Any) -> ChildSpec:
    return ChildSpec("worker", stage.kind, (stage,), **options)


async def direct(system: ActorSystem, stage: Stage, **options: Any) -> ActorRef[Any, Any]:
    """A running dynamic supervisor."""
    said = {key: options.pop(key) for key in ("intensity", "period", "backoff", "max_children") if key in options}
    supervisor: ActorRef[Any, Any] = system.spawn(
        DynamicSupervisor, DynamicSupervisor.spec(template(stage, **options), **said), name="crowd"
    )
    await supervisor.started()
    return supervisor


@both
async def test_a_child_restarts_with_the_same_arguments(system: ActorSystem, kind: type[Worker]) -> None:  # case 38
    stage = Stage(kind)
    supervisor = await direct(system, stage)
    first = await supervisor.ask(StartChild("a", 1, (2, 3)))
    second = await supervisor.ask(StartChild("b", 4))
    assert stage.args == [(1, (2, 3)), (4,)]
    first.tell(Boom())
    first.tell("kept")
    await system.settle()
    second.kill()
    await system.settle()
    assert stage.args == [(1, (2, 3)), (4,), (1, (2, 3)), (4,)]
    assert stage.heard == [("a", "kept")]
    assert stage.log == ["+a", "+b", "-a", "+a", "-b", "+b"]
    infos = await supervisor.ask(WhichChildren())
    assert [(info.ref, info.restarts, info.state) for info in infos] == [
        (first, 1, State.RUNNING),
        (second, 1, State.RUNNING),
    ]


async def test_arguments_are_added_to_the_templates_own(system: ActorSystem) -> None:  # case 38
    made: list[Any] = []

    class Keyed(Worker):
        def __init__(self, stage: Stage, name: str, *args: Any, size: int = 0, colour: str = "none") -> None:
            super().__init__(stage, name, *args)
            made.append((args, size, colour))

    spec = ChildSpec("keyed", Keyed, (Stage(), "k"), {"size": 3})
    supervisor: ActorRef[Any, Any] = system.spawn(DynamicSupervisor, spec)
    ref = await supervisor.ask(StartChild(1, colour="red"))
    await supervisor.ask(StartChild(size=5))
    await supervisor.ask(StartChild())
    ref.tell(Boom())
    await system.settle()
    assert made == [((1,), 3, "red"), ((), 5, "none"), ((), 3, "none"), ((1,), 3, "red")]


@both
@pytest.mark.parametrize("how", list(END))
@pytest.mark.parametrize("restart", list(Restart))
async def test_who_comes_back_and_who_is_forgotten(
    system: ActorSystem, restart: Restart, how: str, kind: type[Worker]
) -> None:  # 35
    stage = Stage(kind)
    comes_back = restart is PERMANENT or (restart is TRANSIENT and how not in ("stop", "stopped"))
    probe = TestProbe(system)
    supervisor = await direct(system, stage, restart=restart)
    ref = await supervisor.ask(StartChild("a"))
    other = await supervisor.ask(StartChild("b"))
    await probe.watch(ref)
    end(ref, how)
    await system.settle()
    infos = await supervisor.ask(WhichChildren())
    assert [info.ref for info in infos] == ([ref, other] if comes_back else [other])
    if comes_back:
        await probe.expect_no()
        assert await ref.ask("well?") == "well?"
    else:
        await probe.expect_terminated(ref)
        with pytest.raises(NoSuchChild):
            await supervisor.ask(StopChild(ref))
    assert stage.log == ["+a", "+b", "-a", *(["+a"] if comes_back else [])]


@both
@pytest.mark.parametrize("by", ["name", "ref"])
@pytest.mark.parametrize("restart", list(Restart))
async def test_a_child_can_be_stopped_by_name_and_by_ref(
    system: ActorSystem, by: str, restart: Restart, kind: type[Worker]
) -> None:  # J10
    stage = Stage(kind)
    supervisor = await direct(system, stage, restart=restart, intensity=0)
    refs = [await supervisor.ask(StartChild(name)) for name in "abc"]
    names = list(await by_name(supervisor))
    assert len(set(names)) == 3
    assert names == [ref.name for ref in refs]
    child: Any = names[1] if by == "name" else refs[1]
    await supervisor.ask(StopChild(child))
    assert not refs[1].is_alive
    assert list(await by_name(supervisor)) == [names[0], names[2]]
    with pytest.raises(NoSuchChild):
        await supervisor.ask(StopChild(child))
    assert stage.log == ["+a", "+b", "+c", "-b"]


async def test_a_child_nobody_knows_is_an_error(system: ActorSystem) -> None:  # NoSuchChild
    stage = Stage()
    supervisor = await direct(system, stage)
    ref = await supervisor.ask(StartChild("a"))
    nested = await ref.ask(lambda ctx: ctx.spawn(Worker, stage, "n", name="nested"))
    outside = system.spawn(Worker, stage, "o", name="outside")
    for child in ("nobody", "worker", "", f"{ref.name}/nested", nested, outside, supervisor, None, ref.id, ["a"]):
        with pytest.raises(NoSuchChild):
            await supervisor.ask(StopChild(child))  # type: ignore[arg-type]
    assert ref.is_alive
    assert supervisor.state is State.RUNNING


@pytest.mark.parametrize("message", [RestartChild("a"), DeleteChild("a"), "what is this?"])
async def test_what_a_dynamic_supervisor_cannot_do_is_unhandled(system: ActorSystem, message: Any) -> None:  # J9
    stage = Stage()
    supervisor = await direct(system, stage)
    with pytest.raises(Unhandled):
        await supervisor.ask(message)
    assert supervisor.state is State.RUNNING


@both
async def test_a_start_that_fails_is_raised_at_the_asker_and_forgotten(system: ActorSystem, kind: type[Worker]) -> None:
    # J10
    stage = Stage(kind)
    supervisor = await direct(system, stage, intensity=0, max_children=1)
    cause = Boom()
    stage.trouble("+a", cause)
    with pytest.raises(Boom) as caught:
        await supervisor.ask(StartChild("a"))
    assert caught.value is cause
    with pytest.raises(TypeError):
        await supervisor.ask(StartChild())  # without the argument it needs
    await system.settle()
    assert await supervisor.ask(WhichChildren()) == []
    assert (await supervisor.ask(StartChild("a"))).state is State.RUNNING  # there is room for it


async def test_there_may_be_so_many_and_no_more(system: ActorSystem, clock: ManualClock) -> None:  # max_children
    stage = Stage(AsyncWorker)
    supervisor = await direct(system, stage, max_children=2, backoff=Backoff(min=5.0, max=5.0), restart=TRANSIENT)
    first = await supervisor.ask(StartChild("a"))
    gate = stage.hold("+b")
    starting = supervisor.ask(StartChild("b"))
    await gate.entered.wait()
    with pytest.raises(TooManyChildren) as caught:  # one that is starting counts
        await supervisor.ask(StartChild("c"))
    assert (caught.value.limit, caught.value.ref) == (2, supervisor)
    assert caught.value.code == "too_many_children"
    gate.released.set()
    second = await starting
    first.tell(Boom())
    await clock.advance(1.0)
    with pytest.raises(TooManyChildren):  # one that waits for its restart too
        await supervisor.ask(StartChild("c"))
    second.stop()
    await clock.advance(0.0)
    third = await supervisor.ask(StartChild("c"))
    await clock.advance(5.0)
    assert [info.ref for info in await supervisor.ask(WhichChildren())] == [first, third]


@pytest.mark.config(max_actors=3)
async def test_no_children_at_all_and_no_room_in_the_system(system: ActorSystem) -> None:  # max_children, J1
    stage = Stage()
    none = await direct(system, stage, max_children=0)
    with pytest.raises(TooManyChildren):
        await none.ask(StartChild("a"))
    some: ActorRef[Any, Any] = system.spawn(DynamicSupervisor, template(stage))
    await some.ask(StartChild("a"))
    with pytest.raises(TooManyActors):
        await some.ask(StartChild("b"))
    assert (await some.ask(CountChildren())).specs == 1


async def test_settings_that_make_no_sense_are_refused(system: ActorSystem) -> None:  # J9
    stage = Stage()
    with pytest.raises(ConfigError):
        DynamicSupervisor.spec(template(stage), max_children=-1)
    with pytest.raises(ConfigError):
        DynamicSupervisor.spec(template(stage, restart=TRANSIENT, significant=True))
    with pytest.raises(ConfigError):
        await system.spawn(DynamicSupervisor, Supervisor.spec(), name="wrong").started()


@pytest.mark.parametrize("how", ["failed", "kill", "stop"])
async def test_the_limit_is_that_of_all_children_together(system: ActorSystem, clock: ManualClock, how: str) -> None:
    # case 30, 37
    stage = Stage()
    supervisor = await direct(system, stage, intensity=2, period=5.0)
    refs = [await supervisor.ask(StartChild(name)) for name in "abcd"]
    for number, moment in enumerate([0.0, 1.0, 6.0, 6.5]):  # two in five seconds: never
        await clock.advance(moment - clock.now())
        end(refs[number], how)
        await clock.advance(0.0)
    assert supervisor.state is State.RUNNING
    stage.take()
    end(refs[1], how)
    await clock.advance(0.0)
    reason = await supervisor.terminated()
    assert reason.kind is ExitKind.FAIL
    assert isinstance(reason.cause, Boom if how == "failed" else RestartLimit)
    assert stage.take() == ["-b", "-d", "-c", "-a"]
    nothing_left(system)


async def test_each_child_has_a_wait_of_its_own(system: ActorSystem, clock: ManualClock) -> None:  # case 44, 42
    stage = Stage()
    backoff = Backoff(min=1.0, max=8.0)
    supervisor = await direct(system, stage, intensity=None, period=100.0, backoff=backoff)
    refs = [await supervisor.ask(StartChild(name)) for name in "ab"]
    refs[0].tell(Boom())
    await clock.advance(1.0)
    refs[0].tell(Boom())
    await clock.advance(0.0)
    refs[1].tell(Boom())
    await clock.advance(0.0)
    infos = await supervisor.ask(WhichChildren())
    assert [info.next_attempt for info in infos] == [3.0, 2.0]
    counts = await supervisor.ask(CountChildren())
    assert (counts.specs, counts.active, counts.restarting, counts.workers) == (2, 0, 2, 2)
    await supervisor.ask(StopChild(refs[0]))
    await clock.advance(5.0)
    assert [info.ref for info in await supervisor.ask(WhichChildren())] == [refs[1]]
    assert stage.take() == ["+a", "+b", "-a", "+a", "-a", "-b", "+b"]
    supervisor.stop()
    await clock.advance(0.0)
    nothing_left(system)


@pytest.mark.at_home("pinned")
async def test_thousands_of_children_come_and_go(play: Play, system: ActorSystem) -> None:  # J10
    stage = Stage()
    many = play.many(4000)
    supervisor = await direct(system, stage, intensity=None, restart=TRANSIENT)
    asked = [supervisor.ask(StartChild(str(number)), timeout=None) for number in range(many)]
    refs = [await one for one in asked]
    assert len(set(refs)) == many
    assert (await supervisor.ask(CountChildren())).active == many
    for ref in refs[::4]:
        ref.tell(Boom())
    for ref in refs[1::4]:
        ref.stop()
    stopped = [supervisor.ask(StopChild(ref), timeout=None) for ref in refs[2::4]]
    for one in stopped:
        await one
    await system.settle()
    infos = await supervisor.ask(WhichChildren())
    assert [info.ref for info in infos] == [ref for number, ref in enumerate(refs) if number % 4 in (0, 3)]
    assert sum(info.restarts for info in infos) == many // 4
    stage.take()
    supervisor.stop()
    await supervisor.terminated()
    assert stage.take() == [f"-{number}" for number in reversed(range(many)) if number % 4 in (0, 3)]
    nothing_left(system)


@pytest.mark.config(stop_timeout=1.0)
async def test_dynamic_children_end_in_reverse_each_in_its_own_time(system: ActorSystem, clock: ManualClock) -> None:
    # "stop order"
    stage = Stage(AsyncWorker)
    supervisor = await direct(system, stage, shutdown=3.0)
    for name in "abc":
        await supervisor.ask(StartChild(name))
    stage.hold("-b")
    stage.take()
    supervisor.stop()
    await clock.advance(2.9)
    assert stage.log == ["-c"]
    await clock.advance(0.1)
    await clock.advance(2.0)
    assert stage.log == ["-c", "-b cancelled", "-a"]
    assert not supervisor.is_alive


async def test_a_dynamic_supervisor_under_a_supervisor_starts_afresh(system: ActorSystem) -> None:  # case 37
    stage = Stage()
    spec = DynamicSupervisor.spec(template(stage), intensity=0)
    crowd = ChildSpec("crowd", DynamicSupervisor, (spec,), shutdown=Shutdown.INFINITY)
    top: ActorRef[Any, Any] = system.spawn(Supervisor, Supervisor.spec([crowd]), name="top")
    await top.started()
    supervisor = actor_at(system, "/top/crowd")
    await supervisor.ask(StartChild("a"))
    (await supervisor.ask(StartChild("b"))).tell(Boom())
    await system.settle()
    assert stage.log == ["+a", "+b", "-b", "-a"]
    assert (await by_name(top))["crowd"].restarts == 1
    assert await supervisor.ask(WhichChildren()) == []
    assert (await supervisor.ask(StartChild("c"))).state is State.RUNNING
