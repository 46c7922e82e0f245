"""The pytest plugin: systems, probes, clocks and simulations as fixtures.

pytest loads it wherever greenroom is installed. It does nothing to tests that use none of its fixtures. Each fixture
imports what it needs, so that loading this file stays cheap. Your own plugin runs async tests: pytest-asyncio, anyio's,
unittest, or another.
"""

from __future__ import annotations

import functools
import inspect
import os
import shlex
from collections.abc import AsyncIterator, Callable, Generator, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from unittest import IsolatedAsyncioTestCase

import pytest

if TYPE_CHECKING:
    from greenroom.clock import ManualClock
    from greenroom.system.config import SystemConfig
    from greenroom.system.system import ActorSystem
    from greenroom.testing.probing.probe import TestProbe
    from greenroom.testing.seeds import Simulations

__all__: list[str] = []

_RUNS = 100
"""The default number of seeds at which a simulated test runs."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options that select the seeds of simulations."""
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
    """Reject an invalid number of seeds before any test runs."""
    _runs(config)


def _runs(config: pytest.Config) -> int:
    """The number of seeds, from the command line or the ini file."""
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
    system = _system(request, actor_config)
    if _is_async(request.node):
        # No known plugin runs async fixtures here, so the system starts when the test does.
        with pytest.MonkeyPatch.context() as patch:
            _run_around(request, system, patch)
            yield system
    else:
        with system:
            yield system
    _check(system)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_fixture_setup(
    fixturedef: pytest.FixtureDef[object], request: pytest.FixtureRequest
) -> Generator[None, object, object]:
    """Make `actor_system` an async fixture if a plugin runs async fixtures on the test's event loop.

    Then the system runs before the fixtures that use it, until they are torn down. The plugin depends on the test, so
    one fixture has two implementations.
    """
    is_ours = fixturedef.argname == "actor_system" and fixturedef.func.__module__ == __name__
    async_fixture = _async_fixture(request) if is_ours and _is_async(request.node) else None
    if async_fixture is None:
        return (yield)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fixturedef, "func", async_fixture)
        return (yield)


def _async_fixture(request: pytest.FixtureRequest) -> Callable[..., AsyncIterator[ActorSystem]] | None:
    """`actor_system` as an async fixture for the plugin that runs the test; None if we do not know it."""

    async def actor_system(request: pytest.FixtureRequest, actor_config: SystemConfig) -> AsyncIterator[ActorSystem]:
        system = _system(request, actor_config)
        async with system:
            yield system
        _check(system)

    def has_plugin(*names: str) -> bool:
        return any(map(request.config.pluginmanager.hasplugin, names))

    # A plugin has one name if pytest found it by its entry point, and another after `-p`.
    if "anyio_backend" in request.fixturenames and has_plugin("anyio", "anyio.pytest_plugin"):
        return actor_system
    mark = request.node.get_closest_marker("asyncio")
    if mark is not None and has_plugin("asyncio", "pytest_asyncio.plugin", "pytest_asyncio"):
        # As `pytest_asyncio.fixture(loop_scope=...)` sets them; the fixture must run on the test's loop.
        default = request.config.getini("asyncio_default_test_loop_scope")
        noted: Any = actor_system
        noted._force_asyncio_fixture = True
        noted._loop_scope = mark.kwargs.get("loop_scope") or mark.kwargs.get("scope") or default
        return actor_system
    return None


def _system(request: pytest.FixtureRequest, config: SystemConfig) -> ActorSystem:
    """The system of a test, not started yet."""
    from greenroom.system.system import ActorSystem

    if "manual_clock" in request.fixturenames:
        config = replace(config, clock=request.getfixturevalue("manual_clock"))
    return ActorSystem(request.node.name, config=config)


def _is_async(test: pytest.Function) -> bool:
    return inspect.iscoroutinefunction(test.obj)


def _run_around(request: pytest.FixtureRequest, system: ActorSystem, patch: pytest.MonkeyPatch) -> None:
    """Run the system around the test; in unittest's async test cases, around the set-up too."""
    case = request.instance
    if isinstance(case, IsolatedAsyncioTestCase):
        set_up = case.asyncSetUp

        async def set_up_inside() -> None:
            await case.enterAsyncContext(system)
            await set_up()

        patch.setattr(case, "asyncSetUp", set_up_inside)
    else:
        test = request.node.obj

        @functools.wraps(test)
        async def inside(*args: object, **kwargs: object) -> object:
            async with system:
                return await test(*args, **kwargs)

        patch.setattr(request.node, "obj", inside)


def _check(system: ActorSystem) -> None:
    from greenroom.testing.checks.ledgers import assert_ledger_balanced

    __tracebackhide__ = True
    assert_ledger_balanced(system)


@pytest.fixture
def probe(request: pytest.FixtureRequest, actor_system: ActorSystem) -> TestProbe:
    """A `TestProbe` of `actor_system`, in an async test."""
    from greenroom.testing.probing.probe import TestProbe

    if not _is_async(request.node):
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
    """The test's id for a shell in the directory where pytest was started; a node id is relative to the rootdir."""
    _, found, name = request.node.nodeid.partition("::")
    return shlex.quote(os.path.relpath(request.node.path, request.config.invocation_params.dir) + found + name)
