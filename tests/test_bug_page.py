"""The page of planted bugs says what simulations say, and the bugs are there (B1)."""

from __future__ import annotations

import asyncio
from types import ModuleType
from typing import Any

import pytest

from examples.bugs import ask_cycle, late_message, lost_update, rare_order
from greenroom import ActorSystem, SystemConfig
from greenroom.testing import Simulation, explore
from tools import bug_page

PLANTED = [lost_update, ask_cycle, late_message]
KIND_AT_FIRST = [*PLANTED, rare_order]


@pytest.mark.parametrize("module", KIND_AT_FIRST, ids=lambda module: module.__name__)
def test_the_program_passes_when_it_is_simply_run(module: ModuleType) -> None:
    async def main() -> Any:
        async with ActorSystem() as system:
            return await module.program(system)

    result = asyncio.run(main())
    assert getattr(module, "is_right", lambda _: True)(result)


@pytest.mark.parametrize("module", PLANTED, ids=lambda module: module.__name__)
def test_the_bug_is_found_simplified_and_replayed(module: ModuleType) -> None:
    check = getattr(module, "is_right", None)
    failure = explore(module.program, check=check, output=None).failure
    assert failure is not None
    again = Simulation(failure.seed)
    simplest = Simulation(failure.seed, schedule=failure.shortest.script)
    for simulation, trace in ((again, failure.trace), (simplest, failure.shortest.trace)):
        if check is None:
            with pytest.raises(type(failure.error)):
                simulation.run(module.program)
        else:
            assert not check(simulation.run(module.program))
        assert simulation.trace.digest == trace.digest
    assert len(failure.shortest.script) <= 3


def test_priorities_find_what_plain_chance_does_not() -> None:
    """One of depth three, at the same number of seeds; plain chance does not find it in ten times as many either."""
    tried = 2000
    by_priorities = explore(
        rare_order.program, runs=tried, schedule="pct", config=rare_order.ONE_BY_ONE, output=None, shrinks=False
    )
    by_chance = explore(rare_order.program, runs=tried, config=rare_order.ONE_BY_ONE, output=None, shrinks=False)
    assert by_priorities.failure is not None
    assert by_chance.failure is None


def test_the_page_and_its_pictures_are_up_to_date() -> None:
    text, pictures = bug_page.write()
    assert bug_page.PAGE.read_text(encoding="utf-8") == text, "run `make bug-page`"
    for path, picture in pictures.items():
        assert path.read_text(encoding="utf-8") == picture, f"run `make bug-page` for {path.name}"


def test_a_program_without_a_bug_is_refused() -> None:
    async def program(system: ActorSystem) -> None:
        assert isinstance(system.config, SystemConfig)

    with pytest.raises(RuntimeError, match="not found"):
        bug_page.failure_of(explore(program, runs=2, output=None))
