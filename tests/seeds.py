"""The tests of `play`, in simulations: every case of docs/conformance.md that can be simulated, at 200 seeds.

A case's seeds are dealt out among its simulated tests, and a test's among its parameters. A test holds at every
schedule, unless it is marked: `fifo` (what it says is said of first come first served alone) or `real` (it needs
threads, a wall clock, or the collector at work).

These are the seeds of either build with `--matrix=all`. With `--matrix=pairs` a test is simulated with some of its
parameters alone, each at the same seeds as ever: so a case has a share of its 200.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from functools import cache
from itertools import accumulate, chain, pairwise
from typing import Any

from greenroom.testing import Simulation
from tools.conformance import ROOT, find_tests, tests_in

FOLDERS = ("tests/conformance", "tests/supervision")
OF_A_CASE = 200
OF_A_TEST = 20
"""At least, however many tests a case has; but a test of no case has a few."""
FEW = 2
USUAL_STEPS = 1_000_000
ENDURING_STEPS = 100_000_000
"""What a simulation may take to come to its end."""
MANY_STEPS = 3000
VERY_MANY_STEPS = 20_000
"""A test that takes as many steps is about numbers, not about orders: a few seeds will do, or a single one."""


def is_home(path: str) -> bool:
    """Whether tests of this file are run elsewhere than on the system's own loop."""
    return path.rpartition("/")[0] in FOLDERS


def deal_out(items: list[Any], of_a_case: int | None) -> None:
    """Say of each of a test's simulated items which are its seeds."""
    if not items:
        return
    path, test = items[0].path.relative_to(ROOT).as_posix(), items[0].originalname
    wanted = seeds_of(path, test, of_a_case or OF_A_CASE)
    sharing = [item for item in items if not {"fifo", "slow"} & {mark.name for mark in item.iter_markers()}]
    assert (test in _explored_in(path)) == bool(sharing), f"{path}::{test}: its seeds were counted wrongly"
    share = max(FEW, -(-wanted // len(sharing))) if sharing else FEW
    many = [FEW if item.get_closest_marker("fifo") else share for item in items]
    for item, seeds in zip(items, pairwise(accumulate(many, initial=0)), strict=True):
        item.seeds = range(*seeds)


def seeds_of(path: str, test: str, of_a_case: int) -> int:
    """How many seeds a test function has."""
    cases = [name for name in tests_in(ROOT / path).get(test, ()) if name.startswith("case")]
    shared_by = [many for case in cases if (many := len(explored_tests(case)))]
    if not shared_by:
        return FEW
    return max(-(-of_a_case // min(shared_by)), min(OF_A_TEST, of_a_case))


@cache
def explored_tests(case: str) -> list[tuple[str, str]]:
    """The tests of a case that share its seeds: those that are simulated at schedules of all kinds."""
    places = _tests_here()[case]
    return [(path, test) for path, tests in places.items() for test in tests if test in _explored_in(path)]


@cache
def _explored_in(path: str) -> frozenset[str]:
    """The tests of a file that are simulated at schedules of all kinds, by what is written in it."""
    if not is_home(path):
        return frozenset()
    module = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    marked = [ast.unparse(node) for node in module.body if isinstance(node, ast.Assign)]
    if any(line.startswith("pytestmark") and "mark.real" in line for line in marked):
        return frozenset()
    return frozenset(test.name for test in _functions(module) if _is_explored(test))


def _functions(module: ast.Module) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    classes = [node for node in module.body if isinstance(node, ast.ClassDef)]
    for node in chain(module.body, *(one.body for one in classes)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
            yield node


def _is_explored(test: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    marks = {ast.unparse(mark) for mark in test.decorator_list}
    kept_out = {"pytest.mark.real", "pytest.mark.fifo", "pytest.mark.slow"}
    return any(one.arg in ("play", "system") for one in test.args.args) and not marks & kept_out


@cache
def _tests_here() -> dict[str, dict[str, list[str]]]:
    return find_tests(*FOLDERS)


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
        steps = simulation.trace.steps if simulation.has_run else 0
        if steps > VERY_MANY_STEPS or (steps > MANY_STEPS and seed - item.seeds[0] >= FEW):
            return
