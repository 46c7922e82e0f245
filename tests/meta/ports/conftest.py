"""Tests of programs: none may leave a process behind, be it a zombie."""

from __future__ import annotations

from collections.abc import Iterator
from time import monotonic, sleep

import pytest

from tests.meta.ports.programs import children, is_gone

PATIENCE = 30.0
"""Seconds that what a test has ended has to be gone."""


@pytest.fixture(autouse=True)
def no_process_is_left_behind(nothing_is_left_behind: None) -> Iterator[None]:
    """Fail a test that leaves a process behind, or does not reap one."""
    before = children()
    yield
    deadline = monotonic() + PATIENCE
    while left := children() - before:
        assert not all(map(is_gone, left)), f"zombies: {left}"
        assert monotonic() < deadline, left
        sleep(0.01)  # they end by themselves, and nothing says when
