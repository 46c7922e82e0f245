"""What tests of systems with several loops have in common."""

from __future__ import annotations

import pytest

from tests.conftest import Play

LOOPS = 3


@pytest.fixture(params=["asyncio", "uvloop"])
def play(request: pytest.FixtureRequest) -> Play:
    """Runs a program in a system of several loops, on asyncio's event loop and on uvloop's."""
    if request.param == "uvloop":
        pytest.importorskip("uvloop")
    return Play(request.param, loops=LOOPS)
