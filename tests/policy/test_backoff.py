"""How long a restart waits: the series, its jitter, and what begins it anew."""

from __future__ import annotations

import dataclasses
import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from greenroom.errors import ConfigError
from greenroom.policy.backoff import Backoff, Delays, Streak, next_delay
from greenroom.seededrandom import Random

MANY = 10**6
NO_JITTER = 0.5
PLAIN = Backoff()
SERIES = [0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.0, 1.0, 1.0]

seconds = st.one_of(st.just(0.0), st.floats(1e-6, 1e6), st.integers(0, 100))
chances = st.floats(0.0, 1.0)
unhurried = settings(deadline=None)


@st.composite
def backoffs(draw: st.DrawFn) -> Backoff:
    low, high = sorted([draw(seconds), draw(seconds)])
    return Backoff(low, high, draw(st.floats(1.0, 1000.0) | st.integers(1, 10)), draw(st.floats(0.0, 1.0)))


def failures_in_a_row(backoff: Backoff | None, count: int) -> list[float]:
    """The delays of an actor that fails as soon as it runs."""
    streak, delays = Streak(), []
    for _ in range(count):
        delay, streak = next_delay(backoff, streak, ran=0.0, quiet=1.0, chance=NO_JITTER)
        delays.append(delay)
    return delays


def test_the_default_is_ten_milliseconds_doubled_up_to_a_second() -> None:  # M7, case 42
    assert [PLAIN.delay(attempt) for attempt in range(10)] == SERIES
    assert Backoff(0.01, 1.0, 2.0, 0.0) == PLAIN


@pytest.mark.parametrize(
    ("backoff", "series"),
    [
        (Backoff(min=1.0, max=100.0, factor=3.0), [1.0, 3.0, 9.0, 27.0, 81.0, 100.0, 100.0]),
        (Backoff(min=1, max=10, factor=2), [1, 2, 4, 8, 10, 10]),
        (Backoff(min=0.5, max=5.0, factor=1.0), [0.5, 0.5, 0.5, 0.5]),
        (Backoff(min=0.25, max=0.25), [0.25, 0.25, 0.25]),
        (Backoff(min=0.0), [0.0, 0.0, 0.0]),
        (Backoff(min=0.0, max=0.0), [0.0, 0.0, 0.0]),
    ],
    ids=str,
)
def test_delays_grow_by_the_factor_from_the_least_to_the_most(backoff: Backoff, series: list[float]) -> None:  # M7
    assert [backoff.delay(attempt) for attempt in range(len(series))] == series


@given(backoffs(), st.integers(0, 5000))
@example(Backoff(min=0.0), 1023)
@example(Backoff(), 1029)
@unhurried
def test_every_delay_is_the_one_before_it_times_the_factor_unless_that_is_too_much(  # M7
    backoff: Backoff, attempt: int
) -> None:
    before, delay = backoff.delay(attempt), backoff.delay(attempt + 1)
    assert delay == pytest.approx(min(before * backoff.factor, backoff.max))
    assert backoff.min <= before <= delay <= backoff.max


@pytest.mark.parametrize("attempt", [1000, 1023, 1024, 1100, MANY])
@pytest.mark.parametrize(
    ("backoff", "delay"),
    [
        (PLAIN, 1.0),
        (Backoff(min=1, max=60, factor=2), 60),
        (Backoff(min=0.01, factor=2), 1.0),
        (Backoff(factor=1.0), 0.01),
        (Backoff(min=0.0), 0.0),
        (Backoff(min=0, factor=10), 0),
        (Backoff(jitter=0.5), 1.0),
    ],
    ids=str,
)
def test_no_number_of_attempts_is_too_many(backoff: Backoff, delay: float, attempt: int) -> None:  # M7
    assert backoff.delay(attempt) == delay


@given(backoffs(), st.integers(0, 2000), chances)
@unhurried
def test_jitter_varies_a_delay_by_its_share_at_most(  # M7, case 42
    backoff: Backoff, attempt: int, chance: float
) -> None:
    middle = dataclasses.replace(backoff, jitter=0.0).delay(attempt, chance)
    delay = backoff.delay(attempt, chance)
    assert delay >= 0.0
    assert abs(delay - middle) <= middle * (backoff.jitter + 1e-12)


@pytest.mark.parametrize(
    ("jitter", "chance", "delay"),
    [
        (0.0, 0.0, 8.0),
        (0.0, 1.0, 8.0),
        (0.25, 0.0, 6.0),
        (0.25, 0.25, 7.0),
        (0.25, 0.5, 8.0),
        (0.25, 0.75, 9.0),
        (0.25, 1.0, 10.0),
        (1.0, 0.0, 0.0),
        (1.0, 1.0, 16.0),
    ],
)
def test_jitter_goes_evenly_either_way(jitter: float, chance: float, delay: float) -> None:  # M7, case 42
    assert Backoff(min=1.0, max=8.0, jitter=jitter).delay(5, chance) == delay


def test_an_actor_that_fails_again_and_again_waits_the_whole_series() -> None:  # M7, case 42
    assert failures_in_a_row(PLAIN, len(SERIES)) == SERIES


def test_without_a_backoff_a_restart_never_waits() -> None:  # M7
    assert failures_in_a_row(None, 5) == [0.0] * 5


# How long it ran, the quiet time, its last delay, whether that begins the series anew.
QUIET: list[tuple[float | None, float, float, bool]] = [
    (1.0, 1.0, 0.08, True),
    (5.0, 1.0, 0.08, True),
    (math.nextafter(1.0, 0.0), 1.0, 0.08, False),
    (0.0, 1.0, 0.08, False),
    (0.5, 1.0, 0.08, False),
    (10.0, 10.0, 30.0, False),
    (math.nextafter(30.0, 0.0), 10.0, 30.0, False),
    (30.0, 10.0, 30.0, True),
    (0.5, 0.0, 0.5, True),
    (0.25, 0.0, 0.5, False),
    (0.0, 0.0, 0.0, True),
    (None, 1.0, 0.08, False),
    (None, 0.0, 0.0, False),
]


@pytest.mark.parametrize(("ran", "quiet", "last_delay", "anew"), QUIET)
def test_the_series_begins_anew_after_the_quiet_time_and_the_last_delay(  # M7, case 42
    ran: float | None, quiet: float, last_delay: float, anew: bool
) -> None:
    delay, streak = next_delay(PLAIN, Streak(4, last_delay), ran, quiet, NO_JITTER)
    assert delay == (0.01 if anew else 0.16)
    assert streak == Streak(1 if anew else 5, delay)


def test_one_that_never_ran_long_enough_begins_where_it_was() -> None:  # M7, case 42
    streak, delays = Streak(), []
    for ran in (None, 0.5, 0.5, 2.0, 0.5, None):
        delay, streak = next_delay(PLAIN, streak, ran, quiet=1.0, chance=NO_JITTER)
        delays.append(delay)
    assert delays == [0.01, 0.02, 0.04, 0.01, 0.02, 0.04]


def test_a_delay_that_jitter_made_longer_must_be_outlived_too() -> None:  # case 42
    backoff = Backoff(min=2.0, max=60.0, jitter=0.5)
    delay, streak = next_delay(backoff, Streak(), None, quiet=1.0, chance=1.0)
    assert delay == 3.0
    assert next_delay(backoff, streak, 2.5, quiet=1.0, chance=NO_JITTER) == (4.0, Streak(2, 4.0))
    assert next_delay(backoff, streak, 3.0, quiet=1.0, chance=NO_JITTER) == (2.0, Streak(1, 2.0))


@given(backoffs() | st.none(), st.integers(0, 5000), seconds, seconds | st.none(), seconds, chances)
@unhurried
def test_a_streak_remembers_the_delay_it_gave(
    backoff: Backoff | None, attempt: int, last_delay: float, ran: float | None, quiet: float, chance: float
) -> None:
    delay, streak = next_delay(backoff, Streak(attempt, last_delay), ran, quiet, chance)
    assert streak.last_delay == delay
    assert streak.attempt in (1, attempt + 1)
    assert delay == (0.0 if backoff is None else backoff.delay(streak.attempt - 1, chance))


NO_NUMBERS: list[Any] = [-1, -0.1, math.inf, -math.inf, math.nan, True, False, None, "1", Decimal(1), Fraction(1), [1]]
REFUSED: list[tuple[str, dict[str, Any]]] = [
    *((f"backoff.{name}", {name: value}) for name in ("min", "max", "factor", "jitter") for value in NO_NUMBERS),
    ("backoff.max", {"max": 0.0}),
    ("backoff.max", {"min": 2.0, "max": 1.999}),
    ("backoff.max", {"min": 2.0}),
    ("backoff.factor", {"factor": 0}),
    ("backoff.factor", {"factor": 0.999}),
    ("backoff.jitter", {"jitter": 1.001}),
    ("backoff.jitter", {"jitter": 20}),
]


@pytest.mark.parametrize(("field", "settings"), REFUSED, ids=lambda value: str(value)[:60])
def test_a_bad_number_is_refused_by_name(field: str, settings: dict[str, Any]) -> None:  # J9
    with pytest.raises(ConfigError) as caught:
        Backoff(**settings)
    assert caught.value.field == field
    assert field in str(caught.value)


def test_a_backoff_cannot_be_changed() -> None:
    backoff = Backoff()
    with pytest.raises(dataclasses.FrozenInstanceError):
        backoff.max = 2.0  # type: ignore[misc]
    with pytest.raises(dataclasses.FrozenInstanceError):
        Streak().attempt = 1


def test_delays_grow_from_failure_to_failure_until_it_has_run_well() -> None:
    delays = Delays()
    given = [delays.next(Backoff(min=1.0, max=10.0), ran, 5.0, Random(1)) for ran in (None, 0.5, 4.9, 5.0, None)]
    assert given == [1.0, 2.0, 4.0, 1.0, 2.0]


@pytest.mark.parametrize(("ran", "failures"), [(None, 2), (0.0, 2), (5.0, 0)])
def test_failures_in_a_row_are_forgotten_when_it_has_run_well(ran: float | None, failures: int) -> None:
    delays = Delays()
    for _ in range(2):
        delays.next(None, None, 5.0, Random(1))
    assert delays.in_a_row(ran) == failures


def test_chance_is_asked_only_where_there_is_jitter() -> None:
    random, untouched = Random(1), Random(1)
    Delays().next(Backoff(min=1.0), None, 5.0, random)
    Delays().next(None, None, 5.0, random)
    assert random.random() == untouched.random()
    delay = Delays().next(Backoff(min=1.0, jitter=0.5), None, 5.0, random)
    assert delay != 1.0
    assert 0.5 <= delay <= 1.5
