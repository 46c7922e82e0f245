"""Children that are restarted together: who, in which order, and how often (J10; cases 33, 34, 43)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from greenroom import (
    ActorRef,
    ActorSystem,
    Backoff,
    Behaviors,
    ManualClock,
    Restart,
    RestartChild,
    Scope,
    State,
    StopChild,
)
from greenroom.errors import ChildRestarting
from greenroom.testing import TestProbe
from tests.supervision.staff import END, AsyncWorker, Boom, Stage, Worker, both, by_name, end, nothing_left, supervise

if TYPE_CHECKING:
    from tests.conftest import Play

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
) -> None:  # cases 33, 34
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
) -> None:  # case 43
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


async def test_the_children_of_a_group_keep_their_queues_and_their_watchers_in_the_dark(
    system: ActorSystem,
) -> None:  # case 17, 34
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


async def test_a_temporary_child_is_ended_and_forgotten_in_a_group_restart(
    system: ActorSystem,
) -> None:  # decision 016, case 35
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


async def test_a_failing_temporary_child_restarts_nobody(system: ActorSystem) -> None:  # case 35
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
) -> None:  # decision 016, as changed: as in OTP
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
) -> None:  # decision 016: a start that fails does count
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


async def test_a_child_that_was_stopped_by_request_stays_down_in_a_group_restart(
    system: ActorSystem,
) -> None:  # decision 016
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
async def test_when_a_start_in_a_group_fails_the_group_is_tried_again(
    system: ActorSystem, restart: Restart
) -> None:  # case 32, 34
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


async def test_when_a_start_in_rest_for_one_fails_those_before_it_stay(system: ActorSystem) -> None:  # case 32, 33
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


async def test_a_group_waits_for_the_backoff_together(
    system: ActorSystem, clock: ManualClock
) -> None:  # decision 016, case 44
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


async def test_a_sibling_that_fails_while_its_group_waits_joins_it(
    system: ActorSystem, clock: ManualClock
) -> None:  # case 43, 44
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
) -> None:  # requests, decision 016
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


async def test_a_sibling_that_ends_by_itself_while_its_group_stops_is_not_lost(
    system: ActorSystem,
) -> None:  # decision 016
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
