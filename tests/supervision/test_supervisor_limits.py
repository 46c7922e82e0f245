"""A `Supervisor` and time: limits, backoff, significant children."""

from __future__ import annotations

from typing import Any

import pytest

from greenroom import (
    ActorRef,
    ActorSystem,
    ActorTerminated,
    AutoShutdown,
    Backoff,
    ChildSpec,
    CountChildren,
    ExitKind,
    ManualClock,
    Restart,
    RestartChild,
    RestartLimit,
    Scope,
    StartChild,
    State,
    StopChild,
    Supervision,
    Supervisor,
    SystemFailed,
)
from greenroom.errors import ConfigError
from greenroom.policy.directives import Directive
from greenroom.testing import TestProbe
from tests.conformance.lives import actor_at
from tests.conftest import Play
from tests.supervision.children import (
    END,
    AsyncWorker,
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
) -> None:  # cases 30, 31, 37, J10
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
async def test_with_intensity_zero_the_first_failure_trips(system: ActorSystem, scope: Scope) -> None:
    # cases 30, 31, 37, J10
    stage = Stage()
    supervisor = await supervise(system, stage.children("abc"), scope, intensity=0)
    cause = Boom()
    (await child_of(supervisor, "b")).tell(cause)
    assert (await supervisor.terminated()).cause is cause
    assert stage.log == ["+a", "+b", "+c", "-b", "-c", "-a"]


@every_scope
async def test_without_an_intensity_there_is_no_limit(system: ActorSystem, scope: Scope) -> None:
    # cases 30, 31, 37, J10: "backoff"
    stage = Stage()
    supervisor = await supervise(system, stage.children("ab"), scope, intensity=None)
    ref = await child_of(supervisor, "b")
    for _ in range(50):
        ref.tell(Boom())
    await system.settle()
    assert (await by_name(supervisor))["b"].restarts == 50
    assert await ref.ask("there?") == "there?"


@pytest.mark.parametrize("how", ["stop", "stopped", "kill"])
async def test_a_trip_without_an_exception_fails_with_a_restart_limit(system: ActorSystem, how: str) -> None:
    # cases 30, 31, 37, J10: decision 015
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


async def test_a_panic_that_trips_is_the_supervisors_own(system: ActorSystem) -> None:  # cases 30, 31, 37, J10
    stage = Stage()
    supervisor = await supervise(system, stage.children("ab"), intensity=0)
    cause = Panic()
    (await child_of(supervisor, "a")).tell(cause)
    reason = await supervisor.terminated()
    assert (reason.kind, reason.cause) == (ExitKind.PANIC, cause)
    assert stage.take()[-2:] == ["-a", "-b"]
    nothing_left(system)


async def test_children_are_stopped_first_and_in_reverse_before_the_supervisor_fails(system: ActorSystem) -> None:
    # cases 30, 31, 37, J10
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
async def test_a_plain_supervision_above_restarts_the_whole_tree(system: ActorSystem, clock: ManualClock) -> None:
    # cases 30, 31, 37, J10
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


def test_an_escalated_trip_at_the_top_stops_the_system(play: Play) -> None:  # cases 30, 31, 37, 41, J10
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


async def test_a_trip_climbs_through_nested_supervisors(system: ActorSystem) -> None:  # cases 30, 31, 37, J10
    stage = Stage()
    low = Supervisor.spec(stage.children("xy"), intensity=1)
    middle = Supervisor.spec([stage.child("m"), ChildSpec("low", Supervisor, (low,))], intensity=1)
    top = await supervise(system, [stage.child("t"), ChildSpec("middle", Supervisor, (middle,))], name="top")
    counts = await top.ask(CountChildren())
    assert (counts.specs, counts.active, counts.supervisors, counts.workers) == (2, 2, 1, 1)
    assert stage.take() == ["+t", "+m", "+x", "+y"]

    async def crash() -> list[str]:
        ref = actor_at(system, "/top/middle/low/x")
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
) -> None:  # cases 30, 31, 37, J10
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


async def test_delays_are_exact_and_a_childs_own_backoff_goes_over_its_supervisors(
    system: ActorSystem, clock: ManualClock
) -> None:  # cases 32, 42, 44, J10
    stage = Stage()
    own = Backoff(min=1.0, max=5.0, factor=3.0)
    supervisor = await supervise(
        system,
        [stage.child("a"), stage.child("b", backoff=own)],
        intensity=None,
        period=100.0,
        backoff=Backoff(min=0.01, max=0.08),
    )
    for name, series in (("a", [0.01, 0.02, 0.04, 0.08, 0.08]), ("b", [1.0, 3.0, 5.0, 5.0])):
        ref = await child_of(supervisor, name)
        for delay in series:
            began = clock.now()
            ref.tell(Boom())
            await clock.advance(0.0)
            info = (await by_name(supervisor))[name]
            assert info.state is State.RESTARTING
            assert info.next_attempt == pytest.approx(began + delay)
            await clock.advance(delay * 0.99)
            assert ref.state is State.RESTARTING
            await clock.advance(delay * 0.011)
            info = (await by_name(supervisor))[name]
            assert (info.state, info.next_attempt) == (State.RUNNING, None)
            assert info.last_restart == pytest.approx(began + delay)
        assert (await by_name(supervisor))[name].restarts == len(series)


@pytest.mark.parametrize(
    ("ran", "expected"), [(1.9, 2.0), (2.1, 1.0)], ids=["not long enough", "as long as the period"]
)
async def test_a_quiet_period_begins_the_delays_anew(
    system: ActorSystem, clock: ManualClock, ran: float, expected: float
) -> None:  # cases 32 and 44, J10, "backoff", case 42
    stage = Stage()
    backoff = Backoff(min=1.0, max=60.0)
    supervisor = await supervise(system, stage.children("a", backoff=backoff), intensity=None, period=2.0)
    ref = await child_of(supervisor, "a")
    ref.tell(Boom())
    await clock.advance(1.0)
    assert ref.state is State.RUNNING
    await clock.advance(ran)
    ref.tell(Boom())
    await clock.advance(0.0)
    assert (await by_name(supervisor))["a"].next_attempt == pytest.approx(clock.now() + expected)


async def test_a_long_delay_asks_for_as_long_a_quiet_time(system: ActorSystem, clock: ManualClock) -> None:
    # cases 32, 42, 44, J10: "backoff": max(within, last delay)
    stage = Stage()
    backoff = Backoff(min=10.0, max=1000.0)
    supervisor = await supervise(system, stage.children("a", backoff=backoff), intensity=None, period=2.0)
    ref = await child_of(supervisor, "a")
    for ran, delay in ((50.0, 10.0), (9.0, 20.0), (19.0, 40.0), (41.0, 10.0)):
        await clock.advance(ran)
        ref.tell(Boom())
        await clock.advance(0.0)
        assert (await by_name(supervisor))["a"].next_attempt == pytest.approx(clock.now() + delay)
        await clock.advance(delay)
        assert ref.state is State.RUNNING


def test_jitter_comes_from_the_systems_random_and_stays_within_its_share(play: Play) -> None:  # cases 32, 42, 44, J10
    def run() -> list[float]:
        clock = ManualClock()
        stage = Stage()
        delays: list[float] = []

        async def program(system: ActorSystem) -> None:
            backoff = Backoff(min=1.0, max=1.0, jitter=0.25)
            supervisor = await supervise(system, stage.children("a"), intensity=None, backoff=backoff)
            ref = await child_of(supervisor, "a")
            for _ in range(40):
                ref.tell(Boom())
                await clock.advance(0.0)
                due = (await by_name(supervisor))["a"].next_attempt
                assert due is not None
                delays.append(due - clock.now())
                await clock.advance(2.0)

        play(program, clock=clock, seed=11)
        return delays

    delays = run()
    assert all(0.75 <= delay <= 1.25 for delay in delays)
    assert min(delays) < 0.9 < 1.1 < max(delays)
    assert run() == pytest.approx(delays)


@pytest.mark.parametrize("kind", [Worker, AsyncWorker], ids=["sync", "async"])
async def test_a_restart_that_fails_is_counted_and_tried_again(
    system: ActorSystem, clock: ManualClock, kind: type[Worker]
) -> None:  # cases 32, 42, 44, J10
    stage = Stage(kind)
    backoff = Backoff(min=1.0, max=60.0)
    supervisor = await supervise(system, stage.children("ab", backoff=backoff), intensity=4, period=100.0)
    ref = await child_of(supervisor, "a")
    stage.take()
    last = Boom("the last")
    stage.trouble("+a", *[Boom(f"start {number}") for number in range(3)], last)
    ref.tell(Boom("in a handler"))
    ref.tell("kept")
    for attempt, delay in enumerate([1.0, 2.0, 4.0, 8.0]):
        await clock.advance(0.0)
        info = (await by_name(supervisor))["a"]  # it answers in between
        assert info.state is State.RESTARTING
        assert info.next_attempt == pytest.approx(clock.now() + delay)
        assert info.restarts == attempt
        assert (await by_name(supervisor))["b"].state is State.RUNNING
        assert supervisor.state is State.RUNNING
        await clock.advance(delay)
    # A failure and four failed starts: one more than the four that are allowed.
    reason = await supervisor.terminated()
    assert reason.cause is last
    assert stage.take() == ["-a"] + ["+a!", "-a"] * 4 + ["-b"]
    assert [letter.message for letter in system.dead_letters.recent()] == ["kept"]


async def test_a_restart_that_works_in_the_end_keeps_ref_and_queue(system: ActorSystem, clock: ManualClock) -> None:
    # cases 32, 42, 44, J10
    stage = Stage()
    supervisor = await supervise(system, stage.children("a"), intensity=3)
    ref = await child_of(supervisor, "a")
    stage.trouble("+a", Boom(), Boom())
    ref.tell(Boom())
    ref.tell("kept")
    await clock.advance(0.0)
    assert stage.heard == [("a", "kept")]
    info = (await by_name(supervisor))["a"]
    assert (info.ref, info.state, info.restarts) == (ref, State.RUNNING, 3)


async def test_siblings_and_the_supervisor_are_served_while_one_waits(system: ActorSystem, clock: ManualClock) -> None:
    # cases 32, 42, 44, J10
    stage = Stage()
    supervisor = await supervise(system, stage.children("abc"), intensity=None, backoff=Backoff(min=10.0, max=10.0))
    refs = {name: await child_of(supervisor, name) for name in "abc"}
    refs["a"].tell(Boom())
    asked = refs["a"].ask("after the wait", timeout=None)
    await clock.advance(1.0)
    assert await refs["b"].ask("b") == "b"
    counts = await supervisor.ask(CountChildren())
    assert (counts.specs, counts.active, counts.restarting) == (3, 2, 1)
    refs["b"].tell(Boom())  # another wait, of its own
    await clock.advance(8.0)
    infos = await by_name(supervisor)
    assert [infos[name].next_attempt for name in "abc"] == [10.0, 11.0, None]
    await clock.advance(1.0)
    assert await asked == "after the wait"
    assert (await by_name(supervisor))["b"].state is State.RESTARTING
    await clock.advance(1.0)
    assert (await by_name(supervisor))["b"].state is State.RUNNING
    assert system.snapshot().timers == 0


async def test_a_restart_by_hand_ends_the_wait(system: ActorSystem, clock: ManualClock) -> None:
    # cases 32, 42, 44, J10: decision 014
    stage = Stage()
    supervisor = await supervise(system, stage.children("a"), backoff=Backoff(min=10.0, max=10.0))
    ref = await child_of(supervisor, "a")
    ref.tell(Boom())
    await clock.advance(1.0)
    stage.take()
    ref.restart()
    await clock.advance(0.0)
    assert stage.take() == ["+a"]
    info = (await by_name(supervisor))["a"]
    assert (info.state, info.next_attempt, info.ref) == (State.RUNNING, None, ref)
    await clock.advance(20.0)
    assert stage.take() == []  # and nothing comes of the old deadline
    assert system.snapshot().timers == 0


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


async def test_a_significant_child_that_was_finished_and_is_started_again_counts_again(system: ActorSystem) -> None:
    # case 39
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
    ref = actor_at(system, "/top/nested/s")
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
    ref = actor_at(system, "/top/s")
    ref.stop()
    await ref.terminated()
    gate.released.set()
    assert (await supervisor.terminated()).kind is ExitKind.SHUTDOWN
    assert stage.log == ["+s", "-s", "+c", "-c"]


async def test_a_significant_child_that_is_restarted_with_its_group_has_not_ended(system: ActorSystem) -> None:
    # case 39, 34
    stage = Stage()
    children = [stage.child("a"), stage.child("s", restart=TRANSIENT, significant=True)]
    supervisor = await supervise(system, children, Scope.ONE_FOR_ALL, auto_shutdown=ANY)
    (await child_of(supervisor, "a")).tell(Boom())
    await system.settle()
    assert supervisor.state is State.RUNNING
    assert stage.take() == ["+a", "+s", "-a", "-s", "+a", "+s"]
