"""The tests of `play`, in simulations: every case of docs/conformance.md at 200 seeds.

A case's seeds are dealt out among its tests, and a test's among its parameters. A test holds at every schedule, unless
it is marked: `fifo` (what it says is said of first come first served alone) or `real` (it needs threads, a wall clock,
or the collector at work).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from greenroom.testing import Simulation
from tools.conformance import find_tests, tests_in

FOLDERS = ("conformance", "supervision")
OF_A_CASE = 200
OF_A_TEST = 20
"""At least, however many tests a case has; but a test of no case has a few."""
FEW = 2
USUAL_STEPS = 1_000_000
ENDURING_STEPS = 100_000_000
"""What a simulation may take to come to its end."""
MANY_STEPS = 3000
"""A test that takes as many steps is about numbers, not about orders: a few seeds will do."""


def deal_out(items: list[pytest.Item], param: str) -> None:
    """Say of each simulated item which are its seeds, and drop those that are not to be simulated."""
    simulated: list[Any] = [item for item in items if _is_simulated(item, param)]
    kept = [item for item in simulated if item.path.parent.name in FOLDERS and item.get_closest_marker("real") is None]
    dropped = {id(item) for item in simulated} - {id(item) for item in kept}
    items[:] = [item for item in items if id(item) not in dropped]
    wanted = (kept[0].config.getoption("--greenroom-runs") if kept else None) or OF_A_CASE
    siblings = Counter((item.path, item.originalname) for item in kept)
    dealt: Counter[tuple[Path, str]] = Counter()
    for item in kept:
        test = (item.path, item.originalname)
        many = FEW if item.get_closest_marker("fifo") else -(-_seeds_of(*test, wanted) // siblings[test])
        first = dealt[test]
        dealt[test] += max(FEW, many)
        item.seeds = range(first, dealt[test])


def _is_simulated(item: pytest.Item, param: str) -> bool:
    call = getattr(item, "callspec", None)
    return call is not None and call.params.get("play") == param


def _seeds_of(path: Path, test: str, of_a_case: int) -> int:
    """How many seeds a test function has."""
    cases = [name for name in _names_in(path).get(test, ()) if name.startswith("case")]
    if not cases:
        return FEW
    share = max(-(-of_a_case // sum(map(len, _all_tests()[case].values()))) for case in cases)
    return max(share, min(OF_A_TEST, of_a_case))


@cache
def _names_in(path: Path) -> dict[str, set[str]]:
    return dict(tests_in(path))


@cache
def _all_tests() -> dict[str, dict[str, list[str]]]:
    return find_tests()


def run_at_seeds(item: Any, play: Any, test: Callable[..., object]) -> None:
    """Run `test` at each seed of `item`, or at the one that the command line names."""
    arguments = {name: item.funcargs[name] for name in item._fixtureinfo.argnames}
    fifo = item.get_closest_marker("fifo") is not None
    max_steps = ENDURING_STEPS if item.get_closest_marker("slow") else USUAL_STEPS
    replayed = item.config.getoption("--greenroom-seed")
    for seed in item.seeds if replayed is None else (replayed,):
        schedule = "fifo" if fifo else "pct" if seed % 4 == 3 else "random"
        play.simulation = simulation = Simulation(seed, schedule=schedule, keep=0, max_steps=max_steps)
        play.raised = []
        if "caplog" in item.funcargs:
            item.funcargs["caplog"].clear()
        try:
            test(**arguments)
        except BaseException as error:
            error.add_note(f"in {simulation}: run it again with --greenroom-seed={seed}")
            raise
        if seed - item.seeds[0] >= FEW and simulation.has_run and simulation.trace.steps > MANY_STEPS:
            return
