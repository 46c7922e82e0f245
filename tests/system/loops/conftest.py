"""What tests of systems with several loops have in common."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from greenroom import ActorSystem
from tests.conftest import Play

LOOPS = 3


@pytest.fixture(params=["asyncio", "uvloop"])
def stage(request: pytest.FixtureRequest) -> Callable[..., ActorSystem]:
    """Runs a program in a system of several loops, on asyncio's event loop and on uvloop's."""
    if request.param == "uvloop":
        pytest.importorskip("uvloop")
    play = Play(request.param)

    def run(program: Callable[[ActorSystem], Any], **config: Any) -> ActorSystem:
        return play(program, **{"loops": LOOPS, **config})

    return run
