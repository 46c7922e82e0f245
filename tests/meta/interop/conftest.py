"""Tests with other people's programs: none may be left behind, nor a task."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.conftest import Play
from tests.meta.interop.browser import Browser
from tests.meta.ports.programs import children
from tests.meta.web.conftest import TidyPlay


@pytest.fixture
def play(play: Play) -> Play:
    """Runs `program(system)`, as everywhere; and sees to it that no task is left."""
    return TidyPlay(play.backend)


@pytest.fixture(autouse=True)
def no_program_is_left_behind(nothing_is_left_behind: None) -> Iterator[None]:
    """Fail a test that does not end, and reap, what it starts."""
    before = children()
    yield
    assert children() - before == set()


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """A browser; it takes longer to start than all its tests do."""
    with Browser(tmp_path_factory.mktemp("browser")) as started:
        yield started
