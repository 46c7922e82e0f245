"""What a `Supervisor` can be asked, what it answers, and when ("`Supervisor` requests", J10; case 44)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from greenroom import (
    ActorSystem,
    ActorTerminated,
    Backoff,
    ChildSpec,
    CountChildren,
    DeleteChild,
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
from greenroom.errors import (
    BadArgument,
    ChildExists,
    ChildRestarting,
    ChildRunning,
    ConfigError,
    NoSuchChild,
)
from greenroom.testing import TestProbe
from tests.supervision.staff import (
    END,
    Boom,
    Panic,
    Stage,
    Worker,
    both,
    by_name,
    child_of,
    end,
    nothing_left,
    supervise,
)

if TYPE_CHECKING:
    from tests.conftest import Play

TRANSIENT, TEMPORARY = Restart.TRANSIENT, Restart.TEMPORARY


@both
async def test_a_child_can_be_started_later_and_is_looked_after_like_the_others(
    system: ActorSystem, kind: type[Worker]
) -> None:  # J10
    stage = Stage(kind)
    supervisor = await supervise(system, stage.children("a"), Scope.REST_FOR_ONE, name="top")
    ref = await supervisor.ask(StartChild(stage.child("b")))
    assert stage.take() == ["+a", "+b"]  # the answer comes when it is running
    assert (ref.path, ref.state) == ("/top/b", State.RUNNING)
    assert list(await by_name(supervisor)) == ["a", "b"]
    (await child_of(supervisor, "a")).tell(Boom())
    await system.settle()
    assert stage.take() == ["-a", "-b", "+a", "+b"]  # the last to start
    assert await child_of(supervisor, "b") == ref
    await system.shutdown()
    assert stage.take() == ["-b", "-a"]


async def test_a_name_that_is_taken_is_refused_also_when_its_child_is_stopped(
    system: ActorSystem,
) -> None:  # ChildExists
    stage = Stage()
    supervisor = await supervise(system, stage.children("ab", restart=TRANSIENT))
    await supervisor.ask(StopChild("a"))
    (await child_of(supervisor, "b")).stop()
    await system.settle()
    for name in "ab":
        with pytest.raises(ChildExists) as caught:
            await supervisor.ask(StartChild(stage.child(name)))
        assert caught.value.name == name
        assert caught.value.ref == supervisor
        assert caught.value.code == "child_exists"
    assert stage.log == ["+a", "+b", "-a", "-b"]
    assert supervisor.state is State.RUNNING


@both
@pytest.mark.parametrize("cause", [Boom("no start"), Panic("no start")], ids=["fail", "panic"])
async def test_a_child_whose_start_fails_raises_that_at_the_asker_and_is_forgotten(
    system: ActorSystem, kind: type[Worker], cause: BaseException
) -> None:  # J10
    stage = Stage(kind)
    supervisor = await supervise(system, stage.children("a"), Scope.ONE_FOR_ALL, intensity=0)
    stage.trouble("+b", cause)
    with pytest.raises((Boom, ActorTerminated)) as caught:
        await supervisor.ask(StartChild(stage.child("b")))
    if isinstance(cause, Boom):
        assert caught.value is cause
    await system.settle()
    assert list(await by_name(supervisor)) == ["a"]
    assert stage.take() == ["+a", "+b!", "-b"]  # it is no exit: nothing is counted, nobody restarted
    again = await supervisor.ask(StartChild(stage.child("b")))
    assert again.state is State.RUNNING


async def test_a_child_that_cannot_be_spawned_raises_that_at_the_asker(system: ActorSystem) -> None:  # J10
    stage = Stage()
    supervisor = await supervise(system, stage.children("a"))
    with pytest.raises(TypeError):
        await supervisor.ask(StartChild(ChildSpec("b", 3)))
    for wrong in (
        StartChild(),
        StartChild("b"),
        StartChild(stage.child("b"), 1),
        StartChild(spec=stage.child("b")),
    ):
        with pytest.raises((BadArgument, ConfigError)):
            await supervisor.ask(wrong)
    assert list(await by_name(supervisor)) == ["a"]
    assert supervisor.state is State.RUNNING


@both
@pytest.mark.parametrize("by", ["name", "ref"])
async def test_a_child_can_be_stopped_started_and_deleted(
    system: ActorSystem, kind: type[Worker], by: str
) -> None:  # J10
    stage = Stage(kind)
    probe = TestProbe(system)
    supervisor = await supervise(system, stage.children("abc"), Scope.ONE_FOR_ALL, intensity=0)
    ref = await child_of(supervisor, "b")
    child: Any = "b" if by == "name" else ref
    await probe.watch(ref)
    await supervisor.ask(StopChild(child))
    assert stage.take() == ["+a", "+b", "+c", "-b"]  # the answer comes when it is gone
    assert not ref.is_alive
    assert (await probe.expect_terminated(ref)).reason.kind is ExitKind.SHUTDOWN
    info = (await by_name(supervisor))["b"]
    assert (info.ref, info.next_attempt) == (None, None)
    await supervisor.ask(StopChild(child))  # it is what was asked for
    fresh = await supervisor.ask(RestartChild(child))
    assert fresh != ref
    assert fresh.path == ref.path
    assert list(await by_name(supervisor)) == ["a", "b", "c"]  # in its old place
    child = "b" if by == "name" else fresh
    await supervisor.ask(StopChild(child))
    await supervisor.ask(DeleteChild(child))
    assert list(await by_name(supervisor)) == ["a", "c"]
    with pytest.raises(NoSuchChild):
        await supervisor.ask(RestartChild(child))
    assert stage.take() == ["+b", "-b"]
    assert supervisor.state is State.RUNNING


async def test_a_temporary_child_that_is_stopped_is_forgotten(system: ActorSystem) -> None:  # case 35
    stage = Stage()
    supervisor = await supervise(system, [stage.child("a", restart=TEMPORARY), stage.child("b")])
    await supervisor.ask(StopChild("a"))
    assert list(await by_name(supervisor)) == ["b"]


REQUESTS: list[Any] = [StopChild, RestartChild, DeleteChild]


@pytest.mark.parametrize("request_type", REQUESTS)
async def test_a_child_nobody_knows_is_an_error(system: ActorSystem, request_type: Any) -> None:  # NoSuchChild
    stage = Stage()
    supervisor = await supervise(system, stage.children("a"))
    other = system.spawn(Worker, stage, "other", name="a")  # of the same name, but nobody's child
    nested = await (await child_of(supervisor, "a")).ask(lambda ctx: ctx.spawn(Worker, stage, "n", name="a"))
    for child in ("b", "", "/a", other, supervisor, nested, None, 3, b"a", ["a"]):
        with pytest.raises(NoSuchChild) as caught:
            await supervisor.ask(request_type(child))
        assert caught.value.code == "no_such_child"
    assert supervisor.state is State.RUNNING
    assert other.is_alive


@pytest.mark.parametrize("request_type", [RestartChild, DeleteChild])
async def test_a_running_child_is_neither_started_nor_deleted(
    system: ActorSystem, request_type: Any
) -> None:  # ChildRunning
    stage = Stage()
    supervisor = await supervise(system, stage.children("a"))
    with pytest.raises(ChildRunning) as caught:
        await supervisor.ask(request_type("a"))
    assert caught.value.code == "child_running"
    assert stage.log == ["+a"]


@pytest.mark.parametrize("request_type", [RestartChild, DeleteChild])
async def test_a_child_that_waits_is_neither_started_nor_deleted(
    system: ActorSystem, clock: ManualClock, request_type: Any
) -> None:  # ChildRestarting
    stage = Stage()
    supervisor = await supervise(system, stage.children("a"), backoff=Backoff(min=1.0))
    (await child_of(supervisor, "a")).tell(Boom())
    await clock.advance(0.5)
    with pytest.raises(ChildRestarting) as caught:
        await supervisor.ask(request_type("a"))
    assert caught.value.code == "child_restarting"
    with pytest.raises(ChildExists):
        await supervisor.ask(StartChild(stage.child("a")))
    await clock.advance(0.5)
    assert stage.log == ["+a", "-a", "+a"]


@pytest.mark.parametrize("request_type", [RestartChild, DeleteChild])
async def test_a_child_that_has_finished_can_be_started_or_deleted(
    system: ActorSystem, request_type: Any
) -> None:  # J10
    stage = Stage()
    supervisor = await supervise(system, stage.children("a", restart=TRANSIENT))
    (await child_of(supervisor, "a")).stop()
    await system.settle()
    answer = await supervisor.ask(request_type("a"))
    if request_type is RestartChild:
        assert await child_of(supervisor, "a") == answer
    else:
        assert await by_name(supervisor) == {}


@pytest.mark.parametrize("added", [False, True], ids=["from the spec", "added later"])
async def test_a_stopped_child_that_cannot_be_started_is_kept(
    system: ActorSystem, added: bool
) -> None:  # J10; OTP: restart_child
    stage = Stage()
    supervisor = await supervise(system, [] if added else stage.children("a"))
    if added:
        await supervisor.ask(StartChild(stage.child("a")))
    await supervisor.ask(StopChild("a"))
    cause = Boom("not now")
    stage.trouble("+a", cause)
    with pytest.raises(Boom) as caught:
        await supervisor.ask(RestartChild("a"))
    assert caught.value is cause
    assert (await by_name(supervisor))["a"].ref is None
    assert (await supervisor.ask(RestartChild("a"))).state is State.RUNNING


@pytest.mark.parametrize("scope", [Scope.ONE_FOR_ONE, Scope.ONE_FOR_ALL])
async def test_stopping_a_child_gives_up_the_restart_it_waits_for(
    system: ActorSystem, clock: ManualClock, scope: Scope
) -> None:  # "requests"
    stage = Stage()
    probe = TestProbe(system)
    supervisor = await supervise(system, stage.children("a"), scope, backoff=Backoff(min=1.0))
    ref = await child_of(supervisor, "a")
    await probe.watch(ref)
    cause = Boom()
    ref.tell(cause)
    ref.tell("never heard")
    await clock.advance(0.5)
    await supervisor.ask(StopChild("a"))
    notice = await probe.expect_terminated(ref)
    assert notice.cause is cause  # it did end in that way
    await clock.advance(5.0)
    assert stage.log == ["+a", "-a"]
    assert (await by_name(supervisor))["a"].ref is None
    assert [letter.message for letter in system.dead_letters.recent()] == ["never heard"]
    nothing_left(system, supervisor, probe.ref)


@both
@pytest.mark.parametrize("how", list(END))
@pytest.mark.parametrize("scope", [Scope.ONE_FOR_ONE, Scope.ONE_FOR_ALL])
async def test_a_child_that_ends_just_before_it_is_stopped_stays_down(
    system: ActorSystem, how: str, scope: Scope, kind: type[Worker]
) -> None:  # "requests": StopChild is for good
    stage = Stage(kind)
    supervisor = await supervise(system, stage.children("ab"), scope, intensity=2)
    refs = [await child_of(supervisor, name) for name in "ab"]
    end(refs[0], how)  # the notice of it will be queued behind the request
    await supervisor.ask(StopChild("a"))
    await system.settle()
    assert not refs[0].is_alive
    infos = await by_name(supervisor)
    assert infos["a"].ref is None
    assert infos["b"].state is State.RUNNING
    assert stage.log.count("+a") <= 2
    fresh = await supervisor.ask(RestartChild("a"))
    assert await fresh.ask("well?") == "well?"
    assert await refs[1].ask("well?") == "well?"


def test_which_children_and_how_many(play: Play) -> None:  # J10
    stage = Stage()
    clock = ManualClock(50.0)

    async def program(system: ActorSystem) -> None:
        nested = ChildSpec("nested", Supervisor, (Supervisor.spec(stage.children("x")),))
        slow = stage.child("slow", backoff=Backoff(min=3.0, max=3.0))
        done = stage.child("done", restart=TRANSIENT)
        supervisor = await supervise(system, [nested, slow, done, *stage.children("ab")], intensity=None)
        refs = {name: await child_of(supervisor, name) for name in ("nested", "slow", "done", "a", "b")}
        refs["done"].stop()
        refs["a"].tell(Boom())
        refs["slow"].tell(Boom())
        await supervisor.ask(StopChild("b"))
        await clock.advance(1.0)
        infos = await supervisor.ask(WhichChildren())
        assert [(i.name, i.ref, i.state, i.restarts, i.last_restart, i.next_attempt) for i in infos] == [
            ("nested", refs["nested"], State.RUNNING, 0, None, None),
            ("slow", refs["slow"], State.RESTARTING, 0, None, 53.0),
            ("done", None, State.TERMINATED, 0, None, None),
            ("a", refs["a"], State.RUNNING, 1, 50.0, None),
            ("b", None, State.TERMINATED, 0, None, None),
        ]
        counts = await supervisor.ask(CountChildren())
        assert (counts.specs, counts.active, counts.restarting) == (5, 2, 1)
        assert (counts.supervisors, counts.workers) == (1, 4)
        await clock.advance(2.0)
        info = (await by_name(supervisor))["slow"]
        assert (info.state, info.restarts, info.last_restart, info.next_attempt) == (State.RUNNING, 1, 53.0, None)

    play(program, clock=clock)
