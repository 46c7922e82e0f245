"""The pytest plugin: systems, probes, clocks and simulations as fixtures.

It is there when greenroom is installed beside pytest, and does nothing to tests that use none of its fixtures; what
those need is imported in them, for pytest imports this file wherever it runs. Async tests are run by whoever runs
yours: pytest-asyncio, anyio's plugin, or another.
"""

from __future__ import annotations

import functools
import inspect
import os
import shlex
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

import pytest

if TYPE_CHECKING:
    from greenroom.clock import ManualClock
    from greenroom.system.config import SystemConfig
    from greenroom.system.system import ActorSystem
    from greenroom.testing.probing.probe import TestProbe
    from greenroom.testing.seeds import Simulations

__all__: list[str] = []

T = TypeVar("T")

_RUNS = 100
"""Seeds at which a simulated test runs, if nothing else is said."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Say which seeds simulations run at."""
    group = parser.getgroup("greenroom", "simulations of actors")
    group.addoption(
        "--greenroom-seed",
        type=int,
        default=None,
        metavar="SEED",
        help="run simulations at this seed alone, again, whatever --greenroom-runs says",
    )
    group.addoption(
        "--greenroom-runs", type=int, default=None, metavar="N", help=f"run simulations at N seeds (default: {_RUNS})"
    )
    parser.addini("greenroom_runs", "seeds at which simulations run", default=str(_RUNS))


def pytest_configure(config: pytest.Config) -> None:
    """Refuse a number of seeds that is none, before any test has run."""
    _runs(config)


def _runs(config: pytest.Config) -> int:
    """How many seeds there are, by the command line or the ini file."""
    name, said = "--greenroom-runs", config.getoption("--greenroom-runs")
    if said is None:
        name, said = "greenroom_runs, in the ini file", config.getini("greenroom_runs")
    try:
        runs = int(said)
    except ValueError:
        runs = 0
    if runs < 1:
        raise pytest.UsageError(f"{name}: must be a whole number, 1 or more, not {said!r}")
    return runs


@pytest.fixture
def manual_clock() -> ManualClock:
    """A clock that the test moves: `await manual_clock.advance(30)`. `actor_system` goes by it, if a test has both."""
    from greenroom.clock import ManualClock

    return ManualClock()


@pytest.fixture
def actor_config() -> SystemConfig:
    """The settings of `actor_system`; override it where yours are others."""
    from greenroom.system.config import SystemConfig

    return SystemConfig()


@pytest.fixture
def actor_system(request: pytest.FixtureRequest, actor_config: SystemConfig) -> Iterator[ActorSystem]:
    """A running system, shut down after the test, when every message must be accounted for.

    In an async test it runs on the test's own loop, in any other on a thread of its own.
    """
    from greenroom.system.system import ActorSystem
    from greenroom.testing.checks.ledgers import assert_ledger_balanced

    if "manual_clock" in request.fixturenames:
        actor_config = replace(actor_config, clock=request.getfixturevalue("manual_clock"))
    system = ActorSystem(request.node.name, config=actor_config)
    test = request.node.obj
    if inspect.iscoroutinefunction(test):
        request.node.obj = _inside(system, test)
        yield system
    else:
        with system:
            yield system
    assert_ledger_balanced(system)


def _inside(system: ActorSystem, test: Callable[..., Coroutine[Any, Any, T]]) -> Callable[..., Coroutine[Any, Any, T]]:
    """The test, with the system running around it: only there is the loop that runs both."""

    @functools.wraps(test)
    async def inside(*args: Any, **kwargs: Any) -> T:
        async with system:
            return await test(*args, **kwargs)

    return inside


@pytest.fixture
def probe(request: pytest.FixtureRequest, actor_system: ActorSystem) -> TestProbe:
    """A `TestProbe` of `actor_system`, in an async test."""
    from greenroom.testing.probing.probe import TestProbe

    if actor_system.phase != "new":
        raise pytest.UsageError(
            f"{request.node.name} is no async test, and a probe is awaited: make it `async def`, or simulate it"
        )
    return TestProbe(actor_system, name="probe")


@pytest.fixture
def simulation(request: pytest.FixtureRequest) -> Simulations:
    """Runs a program of actors in simulations, at one seed after the other: `simulation.run(program)`."""
    from greenroom.testing.seeds import Simulations

    config = request.config
    seed = config.getoption("--greenroom-seed")
    return Simulations(range(_runs(config)) if seed is None else (seed,), f"pytest {_from_here(request)}")


def _from_here(request: pytest.FixtureRequest) -> str:
    """The test, as a shell takes it where pytest was started: its id says where it is below the rootdir."""
    _, found, name = request.node.nodeid.partition("::")
    return shlex.quote(os.path.relpath(request.node.path, request.config.invocation_params.dir) + found + name)
