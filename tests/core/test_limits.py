"""Limits of a loop: what they accept, and what they refuse by name."""

import dataclasses
import math
import pickle
from typing import Any

import pytest

from greenroom._core.limits import Limits
from greenroom._core.scheduler.loop import Loop
from greenroom.errors import ConfigError, TooManyTimers

LARGEST = (1 << 31) - 1
COUNTS = ["max_actors", "max_msgs_per_actor", "max_actors_per_tick", "max_timers", "max_io_watches"]
SECONDS = "max_tick_time"


def test_every_limit_is_in_one_of_these_tables() -> None:
    assert sorted([*COUNTS, SECONDS]) == sorted(Limits.__slots__)


def test_every_limit_has_a_default_that_is_allowed() -> None:
    for name in (*COUNTS, SECONDS):
        assert getattr(Limits(**{name: getattr(Limits(), name)}), name) == getattr(Limits(), name)


@pytest.mark.parametrize("name", COUNTS)
@pytest.mark.parametrize("value", [1, 2, 1000, LARGEST])
def test_a_count_may_be_any_whole_number_from_one_up(name: str, value: int) -> None:
    assert getattr(Limits(**{name: value}), name) == value


@pytest.mark.parametrize("name", COUNTS)
@pytest.mark.parametrize(
    "value", [0, -1, LARGEST + 1, 1 << 64, True, False, 1.0, 0.5, math.inf, math.nan, "10", None, [10]]
)
def test_a_count_that_is_none_is_refused_by_name(name: str, value: Any) -> None:  # J1
    with pytest.raises(ConfigError) as caught:
        Limits(**{name: value})
    assert caught.value.field == name


@pytest.mark.parametrize("value", [1e-9, 0.002, 1, 3600.0])
def test_a_tick_may_take_any_positive_time(value: float) -> None:
    assert Limits(max_tick_time=value).max_tick_time == value


@pytest.mark.parametrize("value", [0, 0.0, -0.0, -1, -1e-9, math.inf, -math.inf, math.nan, True, "1", None, [1]])
def test_a_tick_time_that_is_none_is_refused_by_name(value: Any) -> None:
    with pytest.raises(ConfigError, match="positive number of seconds") as caught:
        Limits(max_tick_time=value)
    assert caught.value.field == SECONDS


def test_limits_are_values() -> None:
    limits = Limits(max_actors=5)
    assert limits == Limits(max_actors=5) == pickle.loads(pickle.dumps(limits))
    assert hash(limits) == hash(Limits(max_actors=5))
    assert limits != Limits()
    with pytest.raises(dataclasses.FrozenInstanceError):
        limits.max_actors = 6


def handler(subject: object, message: object) -> None:
    """What no test here lets run."""


def test_one_timer_too_many_is_an_error_of_its_own_and_a_cancelled_one_makes_room() -> None:
    loop = Loop(Limits(max_timers=2))
    cell = loop.spawn(handler)
    first, _ = loop.start_timer(60, cell, "m"), loop.start_timer(60, cell, "m")
    with pytest.raises(TooManyTimers) as caught:
        loop.start_timer(60, cell, "m")
    assert caught.value.limit == 2
    assert first.cancel()
    loop.start_timer(60, cell, "m")
