"""Tests of the web: besides what all meta-processes must not leave behind, no task may be left."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from tests.conftest import Play

PATIENCE = 20.0
"""Seconds that tasks which are about to end have to do so."""


class TidyPlay(Play):
    """Checks that no task is left when the program and its system have ended."""

    def bare(self, main: Callable[[], Coroutine[Any, Any, None]]) -> None:
        async def tidy() -> None:
            await main()
            left = asyncio.all_tasks() - {asyncio.current_task()}
            if left:
                await asyncio.wait(left, timeout=PATIENCE)
            assert not [task for task in left if not task.done()]

        super().bare(tidy)


@pytest.fixture
def play(play: Play) -> Play:
    """Runs `program(system)`, as everywhere; and sees to it that no task is left."""
    return TidyPlay(play.backend)
