"""What is dealt to a test: each case in both builds, each backend at least once, and no more than that takes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests import seeds
from tests.matrix import (
    ALL,
    BACKENDS,
    BUILDS,
    DISPATCHERS,
    LOOPS,
    PAIRS,
    REST,
    SIMULATION,
    Run,
    build_of,
    everything,
    is_selected,
    pairs,
    select,
    turn_of,
)
from tools.conformance import CASES

TURNS = st.integers(0, 2**32 - 1)
PLAIN = "tests/meta/web/test_it.py"
"""A test of what is not compiled."""
OFFERS = st.lists(st.sets(st.sampled_from(BACKENDS), min_size=1), min_size=1, max_size=12)
"""For each case of a test, the backends that make sense."""


def product(cases: int, backends: Sequence[str]) -> list[Run]:
    return [(case, backend) for case in range(cases) for backend in backends]


def runs_of(offers: list[set[str]]) -> list[Run]:
    return [(case, backend) for case, offer in enumerate(offers) for backend in BACKENDS if backend in offer]


@given(OFFERS, TURNS)
def test_every_case_runs_in_both_builds(offers: list[set[str]], turn: int) -> None:
    for dealt in pairs(runs_of(offers), turn).values():
        assert {case for case, _ in dealt} == set(range(len(offers)))


@given(OFFERS, TURNS)
def test_every_backend_that_makes_sense_is_used(offers: list[set[str]], turn: int) -> None:
    dealt = pairs(runs_of(offers), turn)
    assert {backend for held in dealt.values() for _, backend in held} == set().union(*offers)


@given(OFFERS, TURNS)
def test_nothing_is_run_that_makes_no_sense(offers: list[set[str]], turn: int) -> None:
    for dealt in pairs(runs_of(offers), turn).values():
        assert dealt <= set(runs_of(offers))


@given(OFFERS, TURNS)
def test_a_case_runs_on_two_backends_if_it_can(offers: list[set[str]], turn: int) -> None:
    dealt = pairs(runs_of(offers), turn)
    for number, offer in enumerate(offers):
        used = {backend for held in dealt.values() for case, backend in held if case == number}
        assert len(used) >= min(2, len(offer))


@pytest.mark.parametrize("backends", [LOOPS, BACKENDS])
@pytest.mark.parametrize("cases", [1, 2, 3, 5, 40])
def test_it_takes_two_runs_a_case_or_one_a_backend(backends: tuple[str, ...], cases: int) -> None:
    for turn in range(12):
        dealt = pairs(product(cases, backends), turn)
        assert sum(map(len, dealt.values())) == max(2 * cases, len(backends))


@pytest.mark.parametrize("backends", [LOOPS, BACKENDS])
def test_many_cases_use_every_backend_evenly_in_every_build(backends: tuple[str, ...]) -> None:
    dealt = pairs(product(100, backends), turn=7)
    used = Counter((build, backend) for build, held in dealt.items() for _, backend in held)
    assert len(used) == len(BUILDS) * len(backends)
    assert max(used.values()) - min(used.values()) <= 2


@pytest.mark.parametrize("cases", [1, 2, 3])
def test_many_tests_of_few_cases_use_every_backend_evenly_in_every_build(cases: int) -> None:
    used: Counter[tuple[str, str]] = Counter()
    for number in range(2000):
        dealt = pairs(product(cases, BACKENDS), turn_of(f"tests/test_some.py::test_{number}"))
        used.update((build, backend) for build, held in dealt.items() for _, backend in held)
    assert len(used) == len(BUILDS) * len(BACKENDS)
    assert max(used.values()) < 1.2 * min(used.values())


@given(OFFERS, TURNS)
def test_the_rest_is_what_the_pairs_leave_of_everything_in_one_build_or_the_other(
    offers: list[set[str]], turn: int
) -> None:
    runs = runs_of(offers)
    chosen, rest, whole = (
        Counter(run for build in BUILDS for run in select(runs, turn, build, matrix)) for matrix in (PAIRS, REST, ALL)
    )
    assert set(chosen) | set(rest) == set(whole)
    assert not set(chosen) & set(rest)
    assert set(rest.values()) <= {1}
    assert {run for run in runs if run[1] not in DISPATCHERS} <= set(whole)


@given(OFFERS, TURNS)
def test_a_case_is_simulated_in_one_build_alone(offers: list[set[str]], turn: int) -> None:
    runs = runs_of(offers)
    chosen, rest = (Counter(run for build in BUILDS for run in select(runs, turn, build, one)) for one in (PAIRS, REST))
    for run in runs:
        if run[1] == SIMULATION:
            assert rest[run] == (0 if chosen[run] else 1)


@given(OFFERS, TURNS)
def test_a_case_of_what_is_not_compiled_is_in_the_pairs_of_one_build(offers: list[set[str]], turn: int) -> None:
    runs = runs_of(offers)
    homes = Counter(case for build in BUILDS for case, _ in select(runs, turn, build, PAIRS, PLAIN))
    assert homes == Counter(range(len(offers)))


@example([{"asyncio", "parallel", "pinned", "spread"}, {"pinned", "simulation", "uvloop"}, {"parallel"}], 255)
@given(OFFERS, TURNS)
def test_a_run_of_what_is_not_compiled_is_left_to_one_build_and_a_case_to_both(
    offers: list[set[str]], turn: int
) -> None:
    runs = runs_of(offers)
    chosen, rest = ({build: select(runs, turn, build, matrix, PLAIN) for build in BUILDS} for matrix in (PAIRS, REST))
    dealt = Counter(run for held in (*chosen.values(), *rest.values()) for run in held)
    assert set(dealt) >= {run for build in BUILDS for run in everything(runs, build)}
    assert all(not chosen[build] & rest[other] for build in BUILDS for other in BUILDS)
    assert not rest["compiled"] & rest["pure"]
    for number, offer in enumerate(offers):
        if len(offer.difference(DISPATCHERS)) > 1:
            assert all((number in {case for case, _ in chosen[build] | rest[build]}) for build in BUILDS)


def test_everything_has_all_dispatchers_for_the_first_case_and_one_in_six_of_the_others() -> None:
    compiled, pure = (everything(product(8, BACKENDS), build) for build in BUILDS)
    assert {case for case, backend in compiled if backend == "parallel"} == {0, 6}
    assert {case for case, backend in compiled if backend == "pinned"} == {0, 1, 7}
    assert {case for case, backend in compiled if backend == "spread"} == {0, 2}
    assert {case for case, backend in pure if backend == "parallel"} == {0, 3}
    assert {case for case, backend in pure if backend == "pinned"} == {0, 4}
    assert {case for case, backend in pure if backend == "spread"} == {0, 5}


def test_a_turn_is_the_same_in_every_process() -> None:
    assert turn_of("tests/core/test_ring.py::test_it") == 1949329428


@pytest.mark.parametrize(
    ("path", "home"),
    [
        ("tests/core/test_ring.py", None),
        ("tests/test_house.py", None),
        ("tests/testing/simulating/test_simulation.py", None),
        ("README.md", "compiled"),
    ],
)
def test_where_a_test_without_a_backend_is_at_home(path: str, home: str | None) -> None:
    assert {build_of(path, "test_it", number) for number in range(4)} == {home}


def test_the_cases_of_a_test_that_needs_one_build_are_dealt_out_among_the_builds() -> None:
    homes = [build_of("tests/policy/test_plan.py", "test_it", number) for number in range(10)]
    assert Counter(homes) == {"compiled": 5, "pure": 5}


def test_the_blocks_of_a_page_stay_together() -> None:
    assert len({build_of("docs/actors.md", f"line:{number}", 0) for number in range(10)}) == 1


@pytest.mark.parametrize(
    ("path", "build", "selected"),
    [
        ("tests/core/test_ring.py", "pure", {PAIRS, ALL}),
        ("tests/core/test_ring.py", "compiled", {PAIRS, ALL}),
        ("tests/policy/test_plan.py", "pure", {PAIRS, ALL}),
        ("tests/policy/test_plan.py", "compiled", {REST, ALL}),
        ("tests/packaging/test_setup.py", "pure", {ALL}),
        ("tests/packaging/test_setup.py", "compiled", {REST, ALL}),
        ("tests/typing/test_typing.py", "pure", {REST, ALL}),
    ],
)
def test_a_test_without_a_backend_is_in_the_pairs_or_in_the_rest(path: str, build: str, selected: set[str]) -> None:
    assert {matrix for matrix in (PAIRS, REST, ALL) if is_selected(path, "test_it", 0, build, matrix)} == selected


@pytest.mark.parametrize("case", [f"case {number}" for number in CASES])
def test_a_case_that_can_be_simulated_has_its_seeds(case: str) -> None:
    tests = seeds.explored_tests(case)
    many = sum(seeds.seeds_of(path, test, seeds.OF_A_CASE) for path, test in tests)
    assert not tests or many >= seeds.OF_A_CASE
