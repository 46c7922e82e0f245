"""How long a `Supervisor` waits before a restart, and what it does meanwhile (J10; cases 32, 42, 44)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from greenroom import (
    ActorSystem,
    Backoff,
    CountChildren,
    ManualClock,
    Scope,
    State,
)
from tests.supervision.staff import AsyncWorker, Boom, Stage, Worker, by_name, child_of, supervise

if TYPE_CHECKING:
    from tests.conftest import Play

SCOPES = [Scope.ONE_FOR_ONE, Scope.ONE_FOR_ALL, Scope.REST_FOR_ONE]
every_scope = pytest.mark.parametrize("scope", SCOPES, ids=lambda scope: str(scope.value))


async def test_delays_are_exact_and_a_childs_own_backoff_goes_over_its_supervisors(
    system: ActorSystem, clock: ManualClock
) -> None:  # case 42
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
) -> None:  # "backoff", case 42
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


async def test_a_long_delay_asks_for_as_long_a_quiet_time(
    system: ActorSystem, clock: ManualClock
) -> None:  # "backoff": max(within, last delay)
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


def test_jitter_comes_from_the_systems_random_and_stays_within_its_share(play: Play) -> None:  # case 42
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
) -> None:  # case 32
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


async def test_a_restart_that_works_in_the_end_keeps_ref_and_queue(
    system: ActorSystem, clock: ManualClock
) -> None:  # case 32
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


async def test_siblings_and_the_supervisor_are_served_while_one_waits(
    system: ActorSystem, clock: ManualClock
) -> None:  # case 44
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


async def test_a_restart_by_hand_ends_the_wait(system: ActorSystem, clock: ManualClock) -> None:  # decision 014
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
