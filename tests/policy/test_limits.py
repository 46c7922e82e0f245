"""When a restart comes, and how many are too many: a sliding window that counts both its ends."""

from __future__ import annotations

from itertools import accumulate

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from greenroom.policy.limits import Window

JUST_AFTER_FIVE = 5.000_000_001
"""By a nanosecond; what is less is noise of the arithmetic."""

# Eighths are exact, so that many a moment falls on the very edge of the window; the other gaps are whatever floats are.
gaps = st.lists(st.integers(0, 40).map(lambda eighths: eighths / 8) | st.floats(0.0, 6.0), max_size=60)
starts = st.sampled_from([0.0, -3.0, 1e-9, 12345.678, 1e9])
withins = st.integers(0, 24).map(lambda eighths: eighths / 8) | st.floats(0.0, 10.0)
unhurried = settings(deadline=None)


def verdicts(limit: int | None, within: float, moments: list[float]) -> list[bool]:
    window = Window(limit, within)
    return [window.admits(moment) for moment in moments]


TABLE: list[tuple[int, float, list[float], list[bool]]] = [
    # One too many, and what comes after it; those that were refused count too.
    (3, 5.0, [0, 1, 2, 3, 4], [True, True, True, False, False]),
    (3, 5.0, [0, 1, 2, 3, 8, 9], [True, True, True, False, True, True]),
    (1, 5.0, [0, 4, 8, 12, 18], [True, False, False, False, True]),
    (2, 5.0, [0, 0, 0, 5.5], [True, True, False, True]),
    # Both ends are inside.
    (1, 5.0, [0, 5.0], [True, False]),
    (1, 5.0, [0, JUST_AFTER_FIVE], [True, True]),
    (3, 5.0, [0, 1, 2, 5.0], [True, True, True, False]),
    (3, 5.0, [0, 1, 2, JUST_AFTER_FIVE], [True, True, True, True]),
    (1, 1.0, [3.44, 4.44], [True, False]),
    # It slides: there is no fixed period that begins anew.
    (2, 1.0, [0.9, 1.1, 1.3], [True, True, False]),
    (2, 1.0, [0, 0.75, 1.5, 2.25], [True, True, True, True]),
    # All at once, and a window of no length.
    (2, 5.0, [7, 7, 7], [True, True, False]),
    (1, 0.0, [1, 1, 2, 2, 2], [True, False, True, False, False]),
]


@pytest.mark.parametrize(("limit", "within", "moments", "admitted"), TABLE)
def test_a_window_counts_both_its_ends_and_slides(  # M7
    limit: int, within: float, moments: list[float], admitted: list[bool]
) -> None:
    assert verdicts(limit, within, moments) == admitted


def test_three_in_five_seconds_trip_at_the_fourth() -> None:  # J10, M7, case 30
    assert verdicts(3, 5.0, [0.0, 1.0, 2.0, 3.0]) == [True, True, True, False]


@pytest.mark.parametrize("limit", [1, 2, 3])
def test_one_failure_every_six_seconds_never_trips(limit: int) -> None:  # J10, M7, case 30
    assert all(verdicts(limit, 5.0, [6.0 * number for number in range(1000)]))


@pytest.mark.parametrize("within", [0.0, 5.0])
def test_with_a_limit_of_none_at_all_the_first_failure_trips(within: float) -> None:  # case 31
    assert verdicts(0, within, [3.0, 3.0, 100.0]) == [False, False, False]


@given(gaps, withins)
@unhurried
def test_without_a_limit_nothing_trips_and_nothing_is_kept(steps: list[float], within: float) -> None:  # M7
    window = Window(None, within)
    assert all(window.admits(moment) for moment in accumulate(steps))
    assert len(window) == 0


@given(st.integers(0, 6), withins, starts, gaps)
@unhurried
def test_a_window_says_what_a_list_of_all_moments_says(  # J10, M7
    limit: int, within: float, start: float, steps: list[float]
) -> None:
    window = Window(limit, within)
    past: list[float] = []
    for now in accumulate(steps, initial=start):
        past.append(now)
        assert window.admits(now) is (sum(round(now - moment, 9) <= within for moment in past) <= limit)


@given(st.integers(0, 6), withins, gaps)
@unhurried
def test_a_window_keeps_no_more_moments_than_its_limit(limit: int, within: float, steps: list[float]) -> None:
    window = Window(limit, within)
    for now in accumulate(steps):
        window.admits(now)
        assert len(window) <= limit


def test_a_window_forgets_what_has_left_it() -> None:
    window = Window(100, 5.0)
    for moment in range(50):
        window.admits(float(moment))
    assert len(window) == 6


def test_two_windows_count_each_its_own() -> None:
    one, other = Window(1, 5.0), Window(1, 5.0)
    assert (one.admits(0.0), one.admits(0.0)) == (True, False)
    assert other.admits(0.0)
