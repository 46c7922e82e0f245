"""How often an actor is restarted, and how long that waits (M7; cases 30, 31, 42)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from greenroom import (
    ActorSystem,
    Backoff,
    Directive,
    ManualClock,
    State,
    Supervision,
    SystemConfig,
)
from tests.conformance.incarnations import AT_ONCE, BAD, Bird, Book, Phoenix
from tests.conformance.lives import ended

if TYPE_CHECKING:
    from tests.conftest import Play

STOP, RESUME, ESCALATE, RESTART = Directive.STOP, Directive.RESUME, Directive.ESCALATE, Directive.RESTART


async def test_three_in_five_seconds_trip_at_the_fourth(system: ActorSystem, clock: ManualClock) -> None:  # case 30
    book, slower = Book(), Book()
    limited = Supervision(max_restarts=3, within=5.0, backoff=None)
    ref = system.spawn(Bird, book, supervision=limited)
    other = system.spawn(Bird, slower, supervision=limited)
    for second in range(4):
        assert ref.is_alive, second
        ref.tell(BAD)
        await clock.advance(1.0)
    assert not ref.is_alive
    assert book.lives == 4
    for _ in range(12):
        other.tell(BAD)
        await clock.advance(6.0)
    assert slower.lives == 13
    assert other.state is State.RUNNING


@pytest.mark.parametrize(("gap", "survives"), [(5.0, False), (5.0625, True)])
async def test_the_window_slides_and_includes_both_its_ends(
    system: ActorSystem, clock: ManualClock, gap: float, survives: bool
) -> None:  # case 30
    ref = system.spawn(Bird, Book(), supervision=Supervision(max_restarts=3, within=5.0, backoff=None))
    for pause in (1.0, 1.0, gap - 2.0, 0.0):
        ref.tell(BAD)
        await clock.advance(pause)
    assert ref.is_alive is survives


async def test_a_limit_of_nothing_trips_at_the_first_failure(
    system: ActorSystem, clock: ManualClock
) -> None:  # case 31
    book = Book()
    ref = system.spawn(Phoenix, book, supervision=Supervision(max_restarts=0))
    await clock.advance(100.0)
    ref.tell(BAD)
    assert (await ended(system, ref)).cause is BAD
    assert book.log == ["init 1", "pre_start 1", "post_start 1", "post_stop 1"]


@given(st.lists(st.integers(0, 12), min_size=1, max_size=12), st.integers(0, 3), st.integers(0, 8))
@settings(max_examples=60, deadline=None)
def test_the_limit_is_that_of_a_sliding_window(gaps: list[int], limit: int, within: int) -> None:  # case 30, M7
    clock = ManualClock()
    times: list[int] = []
    expected = 0
    for moment in (sum(gaps[: number + 1]) for number in range(len(gaps))):
        times.append(moment)
        if len([one for one in times if moment - one <= within]) > limit:
            break
        expected += 1

    async def main() -> None:
        async with asyncio.timeout(120.0), ActorSystem(config=SystemConfig(clock=clock)) as system:
            book = Book()
            ref = system.spawn(
                Bird, book, supervision=Supervision(max_restarts=limit, within=float(within), backoff=None)
            )
            for gap in gaps:
                await clock.advance(float(gap))
                ref.tell(BAD)
            await clock.advance(0.0)
            assert book.lives == expected + 1
            assert ref.is_alive is (expected == len(gaps))

    asyncio.run(main())


async def test_without_a_limit_an_actor_is_restarted_for_ever(system: ActorSystem) -> None:  # M7: max_restarts=None
    book = Book()
    ref = system.spawn(Bird, book, supervision=AT_ONCE)
    for _ in range(200):
        ref.tell(BAD)
    assert await ref.ask(lambda me: me.number) == 201


def moments_of(book: Book) -> list[float]:
    """When each incarnation began to run."""
    return [at for name, at in book.heard if name == "started"]


async def fail_again_and_again(clock: ManualClock, count: int, backoff: Backoff, **options: Any) -> list[float]:
    """The delays of `count` restarts in a row of one actor, as the clock shows them."""
    delays: list[float] = []
    book = Book()
    book.acts["post_start"] = lambda me: me.book.heard.append(("started", me.ctx.now()))
    config = SystemConfig(clock=clock, **options)
    async with asyncio.timeout(120.0), ActorSystem(config=config) as system:
        ref = system.spawn(Phoenix, book, supervision=Supervision(max_restarts=None, within=1.0, backoff=backoff))
        for _ in range(count):
            failed_at = clock.now()
            ref.tell(BAD)
            await clock.advance(0.0)
            while ref.state is not State.RUNNING:
                clock.step(clock.now() + 5.0)
                await clock.advance(0.0)
            delays.append(moments_of(book)[-1] - failed_at)
    return delays


def test_the_backoff_doubles_from_ten_milliseconds_to_a_second(play: Play) -> None:  # case 42
    delays: list[float] = []

    async def main() -> None:
        delays.extend(await fail_again_and_again(ManualClock(), 10, Backoff(min=0.01, max=1.0, factor=2.0)))

    play.bare(main)
    assert delays == pytest.approx([0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.0, 1.0, 1.0])


@pytest.mark.parametrize("jitter", [0.1, 0.5, 1.0])
def test_jitter_is_within_its_share_and_from_the_systems_random(play: Play, jitter: float) -> None:  # case 42
    series: list[list[float]] = []

    async def main() -> None:
        series.extend(
            [
                await fail_again_and_again(ManualClock(), 20, Backoff(min=1.0, max=1.0, jitter=jitter), seed=seed)
                for seed in (7, 7, 8)
            ]
        )

    play.bare(main)
    assert series[0] == series[1] != series[2]
    for delay in series[0]:
        assert 1.0 - jitter <= delay + 1e-9
        assert delay - 1e-9 <= 1.0 + jitter
    assert len(set(series[0])) > 10
    assert min(series[0]) < 1.0 < max(series[0])


@pytest.mark.parametrize(("quiet", "again"), [(0.5, False), (1.0, True), (4.0, True)])
async def test_the_backoff_begins_anew_after_a_quiet_window(
    system: ActorSystem, clock: ManualClock, quiet: float, again: bool
) -> None:  # case 42
    book = Book()
    supervision = Supervision(max_restarts=None, within=1.0, backoff=Backoff(min=0.125, max=8.0))
    ref = system.spawn(Bird, book, supervision=supervision)
    ref.tell(BAD)
    await clock.advance(0.125)
    ref.tell(BAD)
    await clock.advance(0.25)
    assert book.lives == 3
    await clock.advance(quiet)
    ref.tell(BAD)
    await clock.advance(0.125)
    assert (book.lives == 4) is again
    await clock.advance(0.375)
    assert book.lives == 4


async def test_a_quiet_window_is_as_long_as_the_last_delay(
    system: ActorSystem, clock: ManualClock
) -> None:  # M7: max(within, last delay)
    book = Book()
    supervision = Supervision(max_restarts=None, within=1.0, backoff=Backoff(min=4.0, max=64.0))
    ref = system.spawn(Bird, book, supervision=supervision)
    ref.tell(BAD)
    await clock.advance(4.0 + 3.0)  # it ran for three seconds: less than its delay
    ref.tell(BAD)
    await clock.advance(7.0)
    assert book.lives == 2
    await clock.advance(1.0 + 8.0)  # and now for eight
    assert book.lives == 3
    ref.tell(BAD)
    await clock.advance(4.0)
    assert book.lives == 4
