"""Which runs of a test are needed: its cases are dealt out over builds and backends, by pairs instead of all with all.

A *case* is one set of a test's parameters, a *backend* is what runs its actors (asyncio, uvloop, a dispatcher, a
simulation), a *build* is compiled or plain Python. `--matrix=pairs` runs every case once in either build, each time on
another backend, and every backend at least once, in one build or the other. `--matrix=all` runs every case on every
backend; but if a test has many cases, not each of them with every dispatcher. `--matrix=rest` runs what `pairs` leaves
of that, each case on each backend in one build or the other: together they have every case in both builds and on every
backend.

Of tests of what is not compiled, and of long ones, `pairs` runs each case in one build alone; `rest` then sees to it
that both builds see each case. Tests without a backend of what is the same in both builds are in the `pairs` of one and
in the `rest` of the other; so are long ones. Those of wheels, types, pages, examples and of what starts many processes
are in one `rest` alone.

What is dealt to a test depends on nothing but its name and its own parameters, so it is the same whichever tests are
collected, by whichever worker and in whatever order.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from zlib import crc32

BUILDS = ("compiled", "pure")
LOOPS = ("asyncio",) if sys.platform == "win32" else ("asyncio", "uvloop")
SPREAD = "spread"
DISPATCHERS = ("parallel", "pinned", SPREAD)
"""Those that run actors elsewhere than on the system's first loop: the conformance tests are run with each of them.
With the last, the system has three loops."""
SIMULATION = "simulation"
BACKENDS = (*LOOPS, *DISPATCHERS, SIMULATION)

PAIRS, REST, ALL = "pairs", "rest", "all"
CHOICES = (PAIRS, REST, ALL)

Case = Hashable
Run = tuple[Case, str]
"""A case on a backend."""


def turn_of(name: str) -> int:
    """Where a test begins to deal: another number for each name, but the same in every process."""
    return crc32(name.encode())


def pairs(runs: Sequence[Run], turn: int) -> dict[str, set[Run]]:
    """Of all that makes sense, what is run in each build.

    >>> dealt = pairs([(case, backend) for case in "ab" for backend in ("asyncio", "uvloop")], turn=0)
    >>> sorted(dealt["compiled"]), sorted(dealt["pure"])
    ([('a', 'asyncio'), ('b', 'uvloop')], [('a', 'uvloop'), ('b', 'asyncio')])
    """
    offered: dict[Case, set[str]] = {}
    for case, backend in runs:
        offered.setdefault(case, set()).add(backend)
    backends = list(dict.fromkeys(backend for _, backend in runs))
    dealt: dict[str, set[Run]] = {build: set() for build in BUILDS}
    used: Counter[str | tuple[str, str]] = Counter()

    def run(case: Case, build: str, backend: str) -> None:
        dealt[build].add((case, backend))
        used.update([backend, (build, backend)])

    for number, case in enumerate(offered):
        first = ""
        for half, build in enumerate(BUILDS):
            start = turn + number + half * -(-len(backends) // 2)
            order = [backends[(start + step) % len(backends)] for step in range(len(backends))]
            choice = min(
                (one for one in order if one in offered[case]),
                key=lambda one: (one == first, used[one], used[build, one]),
            )
            run(case, build, choice)
            first = choice

    for number, backend in enumerate(one for one in backends if not used[one]):
        # A test of few cases: those that can go on run once more.
        build = BUILDS[(turn // len(backends) + number) % len(BUILDS)]
        cases = [case for case in offered if backend in offered[case]]
        run(min(cases, key=lambda case: sum(case == one for held in dealt.values() for one, _ in held)), build, backend)
    return dealt


def everything(runs: Iterable[Run], build: str) -> set[Run]:
    """What `--matrix=all` runs in a build, beside the pairs: all dispatchers for the first case they make sense for.

    The others are dealt out among the dispatchers and the builds; `make stress` runs them all.
    """
    seen: Counter[str] = Counter()
    kept = set()
    for case, backend in runs:
        if backend in DISPATCHERS:
            turn = len(DISPATCHERS) * BUILDS.index(build) + DISPATCHERS.index(backend)
            is_kept = seen[backend] == 0 or seen[backend] % (len(BUILDS) * len(DISPATCHERS)) == turn
            seen[backend] += 1
            if not is_kept:
                continue
        kept.add((case, backend))
    return kept


def halve(dealt: dict[str, set[Run]], cases: Iterable[Case], turn: int) -> dict[str, set[Run]]:
    """Of what is dealt, each case once, in one build.

    >>> dealt = halve({"compiled": {("a", "uvloop"), ("b", "asyncio")}, "pure": {("a", "asyncio")}}, "ab", turn=0)
    >>> sorted(dealt["compiled"]), sorted(dealt["pure"])
    ([('a', 'uvloop')], [])
    """
    halved: dict[str, set[Run]] = {build: set() for build in dealt}
    for number, case in enumerate(dict.fromkeys(cases)):
        build = BUILDS[(turn + number) % len(BUILDS)]
        held = [(case, backend) for backend in BACKENDS if (case, backend) in dealt[build]]
        if held:
            halved[build].add(held[turn // len(BUILDS) % len(held)])
    return halved


def share(runs: Sequence[Run], dealt: dict[str, set[Run]], turn: int) -> dict[str, set[Run]]:
    """Of what is not dealt yet, each run in one build alone: where its case has run less.

    >>> runs = [("a", backend) for backend in ("asyncio", "uvloop", "simulation")]
    >>> shared = share(runs, {"compiled": {("a", "uvloop")}, "pure": set()}, turn=0)
    >>> sorted(shared["compiled"]), sorted(shared["pure"])
    ([('a', 'simulation')], [('a', 'asyncio')])
    """
    builds = [BUILDS[(turn + step) % len(BUILDS)] for step in range(len(BUILDS))]
    offered = {build: everything(runs, build) for build in builds}
    done = set().union(*dealt.values())
    used = Counter((case, build) for build, held in dealt.items() for case, _ in held)
    shared: dict[str, set[Run]] = {build: set() for build in builds}
    for run in runs:
        able = [build for build in builds if run in offered[build] and run not in done]
        if able:
            build = min(able, key=lambda one: used[run[0], one])
            shared[build].add(run)
            used[run[0], build] += 1
    return shared


def select(runs: Sequence[Run], turn: int, build: str, matrix: str, path: str = "") -> set[Run]:
    """The runs of a test in a build; `path` is its file's."""
    dealt = pairs(runs, turn)
    if path.startswith(NOT_COMPILED + LONG):
        dealt = halve(dealt, (case for case, _ in runs), turn)
    chosen = dealt[build]
    match matrix:
        case "pairs":
            return chosen
        case "all":
            return everything(runs, build) | chosen
        case _:
            return share(runs, dealt, turn)[build]


NOT_COMPILED = (
    "tests/meta/",
    "tests/pods/",
    "tests/supervision/",
    "tests/system/dispatchers/",
    "tests/system/ending/",
    "tests/testing/test_fake",
)
"""Tests of modules that are plain Python in both builds."""
LONG = (
    "tests/conformance/test_ask_deadlock.py",
    "tests/conformance/test_ask_failures.py",
    "tests/conformance/test_forcing.py",
    "tests/conformance/test_ordering.py",
    "tests/conformance/test_shutdown_busy.py",
    "tests/conformance/test_stop_order.py",
    "tests/conformance/test_watch_many.py",
    "tests/system/loops/test_endurance.py",
    "tests/system/loops/test_simulated_circles.py",
    "tests/system/test_forgotten",
    "tests/system/test_out_of_memory.py",
    "tests/testing/simulating/test_identical_traces.py",
    "tests/testing/simulating/test_one_seed_one_run.py",
    "tests/testing/simulating/test_races_between_loops.py",
    "tests/testing/simulating/test_several_loops.py",
    "tests/tools/test_chaos.py",
)
"""Tests of what is compiled, that take long."""
ONE_BUILD = (
    *NOT_COMPILED,
    *LONG,
    "docs/",
    "README.md",
    "tests/policy/",
    "tests/testing/checks/",
    "tests/testing/exploring/",
    "tests/testing/harness/",
    "tests/testing/tracing/",
    "tests/testing/test_",
    "tests/tools/test_model.py",
    "tests/tools/test_mutants.py",
    "tests/wire/",
    "tests/test_clock.py",
    "tests/test_conformance_page.py",
    "tests/test_docstrings.py",
    "tests/test_errors.py",
    "tests/test_exits.py",
    "tests/test_lanes.py",
    "tests/test_matrix.py",
)
"""Tests that need one build at first, if they have no backend: those, and what is the same in both."""
TOGETHER = ("docs/", "README.md")
"""Of those, the ones whose tests build on one another, a file at a time."""
ONCE = {
    "tests/benchmarks/": "compiled",
    "tests/examples/": "compiled",
    "tests/meta/interop/": "pure",
    "tests/packaging/": "compiled",
    "tests/pods/test_troupe_in_simulation.py::test_five_hundred": "compiled",
    "tests/system/dispatchers/processes/pool/test_process.py": "pure",
    "tests/testing/exploring/test_workerpool.py": "pure",
    "tests/testing/test_machine.py": "pure",
    "tests/testing/test_plugin.py": "pure",
    "tests/testing/test_strategies_shrinking.py": "compiled",
    "tests/test_recipes.py": "compiled",
    "tests/typing/": "pure",
    "tests/test_bug_page.py": "compiled",
    "tests/test_house.py::test_every_module_imports_alone": "compiled",
}
"""Tests that take long and need one run, with the rest; and in which build."""


def build_of(path: str, test: str, number: int) -> str | None:
    """The build that `pairs` runs the case `number` of a test without a backend in; none if it is both.

    >>> build_of("tests/core/test_ring.py", "test_it", 0), build_of("tests/policy/test_plan.py", "test_it", 0)
    (None, 'pure')
    """
    if not f"{path}::{test}".startswith(ONE_BUILD):
        return None
    if path.startswith(TOGETHER):
        return BUILDS[turn_of(path) % len(BUILDS)]
    return BUILDS[(turn_of(f"{path}::{test}") + number) % len(BUILDS)]


def is_selected(path: str, test: str, number: int, build: str, matrix: str) -> bool:
    """Whether a build runs the case `number` of a test without a backend."""
    if matrix == ALL:
        return True
    for place, only in ONCE.items():
        if f"{path}::{test}".startswith(place):
            return matrix == REST and build == only
    home = build_of(path, test, number)
    return home in (None, build) if matrix == PAIRS else home not in (None, build)
