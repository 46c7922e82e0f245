"""Failures under load, with the actors on three loops (R1). What sixteen threads send to a loop: dispatchers (R2)."""

from __future__ import annotations

import pytest

from tests.conftest import Play
from tests.matrix import SPREAD
from tests.supervision import test_endurance as on_one_loop


@pytest.mark.parametrize(
    ("actors", "messages"),
    [pytest.param(300, 60_000, id="smoke"), pytest.param(10_000, 10_000_000, id="full", marks=pytest.mark.slow)],
)
def test_failures_of_one_in_a_hundred_lose_nothing_and_strand_nobody_on_three_loops(
    actors: int, messages: int, caplog: pytest.LogCaptureFixture
) -> None:  # R1, M7
    caplog.set_level("CRITICAL")  # or pytest would keep a hundred thousand reports, and the memory would not be flat
    on_one_loop.test_failures_of_one_in_a_hundred_under_load_lose_nothing_and_strand_nobody(
        Play(SPREAD), actors, messages
    )
