"""How often a `Supervisor` restarts, and what it does when that is too often (J10; cases 30, 31, 37)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from greenroom import (
    ActorRef,
    ActorSystem,
    ActorTerminated,
    ChildSpec,
    CountChildren,
    ExitKind,
    ManualClock,
    RestartLimit,
    Scope,
    State,
    StopChild,
    Supervision,
    Supervisor,
    SystemFailed,
)
from greenroom.policy.directives import Directive
from greenroom.testing import TestProbe
from tests.supervision.staff import AsyncWorker, Boom, Panic, Stage, by_name, child_of, end, nothing_left, supervise

if TYPE_CHECKING:
    from tests.conftest import Play

SCOPES = [Scope.ONE_FOR_ONE, Scope.ONE_FOR_ALL, Scope.REST_FOR_ONE]
every_scope = pytest.mark.parametrize("scope", SCOPES, ids=lambda scope: str(scope.value))


def state_of(ref: ActorRef[Any, Any]) -> State:
    """Its state, which a type checker does not hold for the same after a while."""
    return ref.state


@every_scope
@pytest.mark.parametrize(
    ("moments", "trips"),
    [
        ([0.0, 1.0, 2.0, 3.0], True),
        ([0.0, 0.0, 0.0, 0.0], True),
        ([6.0 * number for number in range(12)], False),
        ([0.0, 1.0, 2.0, 5.0], True),  # the window is inclusive
        ([0.0, 1.0, 2.0, 5.5], False),
        ([0.0, 1.0, 2.0, 5.5, 6.0], True),  # and it slides
        ([0.0, 1.0, 2.0, 5.5, 6.5, 7.5, 11.0], False),
    ],
)
async def test_three_in_five_seconds(
    system: ActorSystem, clock: ManualClock, scope: Scope, moments: list[float], trips: bool
) -> None:  # case 30
    stage = Stage()
    supervisor = await supervise(system, stage.children("ab"), scope, intensity=3, period=5.0)
    refs = [await child_of(supervisor, "a"), await child_of(supervisor, "b")]
    causes = [Boom(str(number)) for number in range(len(moments))]
    for number, moment in enumerate(moments):
        assert supervisor.state is State.RUNNING, f"tripped at number {number}"
        await clock.advance(moment - clock.now())
        refs[number % 2].tell(causes[number])  # the limit is the supervisor's, not the child's
        await clock.advance(0.0)
    if trips:
        reason = await supervisor.terminated()
        assert reason.kind is ExitKind.FAIL
        assert reason.cause is causes[-1]
    else:
        assert supervisor.state is State.RUNNING
        assert await refs[0].ask("there?") == "there?"


@every_scope
async def test_with_intensity_zero_the_first_failure_trips(system: ActorSystem, scope: Scope) -> None:  # case 31
    stage = Stage()
    supervisor = await supervise(system, stage.children("abc"), scope, intensity=0)
    cause = Boom()
    (await child_of(supervisor, "b")).tell(cause)
    assert (await supervisor.terminated()).cause is cause
    assert stage.log == ["+a", "+b", "+c", "-b", "-c", "-a"]


@every_scope
async def test_without_an_intensity_there_is_no_limit(system: ActorSystem, scope: Scope) -> None:  # "backoff"
    stage = Stage()
    supervisor = await supervise(system, stage.children("ab"), scope, intensity=None)
    ref = await child_of(supervisor, "b")
    for _ in range(50):
        ref.tell(Boom())
    await system.settle()
    assert (await by_name(supervisor))["b"].restarts == 50
    assert await ref.ask("there?") == "there?"


@pytest.mark.parametrize("how", ["stop", "stopped", "kill"])
async def test_a_trip_without_an_exception_fails_with_a_restart_limit(
    system: ActorSystem, how: str
) -> None:  # decision 015
    stage = Stage()
    supervisor = await supervise(system, stage.children("ab"), intensity=1, period=4.0)
    ref = await child_of(supervisor, "a")
    for _ in range(2):
        end(ref, how)
        await system.settle()
    reason = await supervisor.terminated()
    assert reason.kind is ExitKind.FAIL
    assert isinstance(reason.cause, RestartLimit)
    assert reason.cause.child == ref
    assert reason.cause.ref == supervisor
    assert (reason.cause.limit, reason.cause.period) == (1, 4.0)


async def test_a_panic_that_trips_is_the_supervisors_own(system: ActorSystem) -> None:  # J10, case 37
    stage = Stage()
    supervisor = await supervise(system, stage.children("ab"), intensity=0)
    cause = Panic()
    (await child_of(supervisor, "a")).tell(cause)
    reason = await supervisor.terminated()
    assert (reason.kind, reason.cause) == (ExitKind.PANIC, cause)
    assert stage.take()[-2:] == ["-a", "-b"]
    nothing_left(system)


async def test_children_are_stopped_first_and_in_reverse_before_the_supervisor_fails(
    system: ActorSystem,
) -> None:  # case 37
    stage = Stage(AsyncWorker)
    probe = TestProbe(system)
    supervisor = await supervise(system, stage.children("abcd"), intensity=0, name="top")
    refs = {name: await child_of(supervisor, name) for name in "abcd"}
    for ref in (supervisor, *refs.values()):
        await probe.watch(ref)
    gate = stage.hold("-c")
    stage.take()
    cause = Boom()
    refs["b"].tell(cause)
    await gate.entered.wait()
    assert stage.log == ["-b", "-d"]
    assert supervisor.is_alive
    assert refs["a"].state is State.RUNNING  # its turn has not come
    assert await refs["a"].ask("still served") == "still served"
    gate.released.set()
    reason = await supervisor.terminated()
    assert stage.log == ["-b", "-d", "-c", "-a"]
    assert reason.cause is cause
    ended = [await probe.receive() for _ in range(5)]
    assert [notice.ref.name for notice in ended] == ["b", "d", "c", "a", "top"]
    assert ended[0].cause is cause  # that is how b ended
    assert {notice.reason.kind for notice in ended[1:4]} == {ExitKind.SHUTDOWN}


@pytest.mark.config(supervision=Supervision())
async def test_a_plain_supervision_above_restarts_the_whole_tree(
    system: ActorSystem, clock: ManualClock
) -> None:  # case 37
    stage = Stage()
    supervisor = await supervise(system, stage.children("ab"), intensity=1, name="top")
    probe = TestProbe(system)
    await probe.watch(supervisor)
    first = await child_of(supervisor, "a")
    for _ in range(2):
        first.tell(Boom())
    await clock.advance(0.0)
    assert state_of(supervisor) is State.RESTARTING
    assert stage.take() == ["+a", "+b", "-a", "+a", "-a", "-b"]
    await clock.advance(0.01)  # the default backoff
    assert supervisor.state is State.RUNNING
    assert stage.take() == ["+a", "+b"]
    second = await child_of(supervisor, "a")
    assert second != first  # children end with the supervisor's incarnation
    assert second.path == first.path == "/top/a"
    assert not first.is_alive
    for _ in range(1):  # the count begins anew
        second.tell(Boom())
    await clock.advance(0.0)
    assert supervisor.state is State.RUNNING
    await probe.expect_no()


def test_an_escalated_trip_at_the_top_stops_the_system(play: Play) -> None:  # case 37, 41
    stage = Stage()
    cause = Boom()

    async def program(system: ActorSystem) -> None:
        supervisor = await supervise(
            system, stage.children("ab"), intensity=0, supervision=Supervision(Directive.ESCALATE)
        )
        (await child_of(supervisor, "a")).tell(cause)
        await system.stopped()

    with pytest.raises(SystemFailed) as caught:
        play(program)
    assert caught.value.__cause__ is cause
    assert stage.log == ["+a", "+b", "-a", "-b"]


async def test_a_trip_climbs_through_nested_supervisors(system: ActorSystem) -> None:  # case 37
    stage = Stage()
    low = Supervisor.spec(stage.children("xy"), intensity=1)
    middle = Supervisor.spec([stage.child("m"), ChildSpec("low", Supervisor, (low,))], intensity=1)
    top = await supervise(system, [stage.child("t"), ChildSpec("middle", Supervisor, (middle,))], name="top")
    counts = await top.ask(CountChildren())
    assert (counts.specs, counts.active, counts.supervisors, counts.workers) == (2, 2, 1, 1)
    assert stage.take() == ["+t", "+m", "+x", "+y"]

    async def crash() -> list[str]:
        ref = system.actor("/top/middle/low/x")
        assert ref is not None
        ref.tell(Boom())
        await system.settle()
        return stage.take()

    low_ref, middle_ref = system.actor("/top/middle/low"), system.actor("/top/middle")
    assert await crash() == ["-x", "+x"]
    assert await crash() == ["-x", "-y", "+x", "+y"]  # low trips, and middle restarts it
    assert await crash() == ["-x", "+x"]
    assert await crash() == ["-x", "-y", "-m", "+m", "+x", "+y"]  # low trips, so middle does, and top restarts it
    assert system.actor("/top/middle") == middle_ref
    assert system.actor("/top/middle/low") != low_ref  # another one, since middle is another incarnation
    assert (await by_name(top))["middle"].restarts == 1
    assert top.state is State.RUNNING
    assert (await by_name(top))["t"].restarts == 0


@pytest.mark.config(supervision=Supervision())
async def test_a_request_that_waits_while_its_supervisor_trips_is_not_left_without_an_answer(
    system: ActorSystem, clock: ManualClock
) -> None:  # case 37
    stage = Stage(AsyncWorker)
    supervisor = await supervise(system, stage.children("ab"), intensity=0)
    gate = stage.hold("-b")
    (await child_of(supervisor, "a")).tell(Boom())
    await gate.entered.wait()
    asked = supervisor.ask(CountChildren(), timeout=60.0)
    stopping = supervisor.ask(StopChild("a"), timeout=60.0)
    await clock.advance(0.0)
    gate.released.set()
    await clock.advance(1.0)
    assert supervisor.state is State.RUNNING  # it was restarted
    answers: list[Any] = []
    for one in (asked, stopping):
        assert one.done(), "the asker still waits, long after the incarnation that took its request is gone"
        try:
            answers.append(await one)
        except ActorTerminated as exc:
            answers.append(exc)
    assert len(answers) == 2
