"""Fixtures for tests of actors: a system on every kind of event loop, checked at the end."""

from __future__ import annotations

import asyncio
import gc
import inspect
import signal
import sys
from collections.abc import Callable, Coroutine, Generator
from functools import cache, partial
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from greenroom import COMPILED, ActorSystem, Directive, ManualClock, Supervision, SystemConfig
from greenroom.testing import Simulation, TestProbe, assert_ledger_balanced
from tests import matrix
from tests.matrix import BACKENDS, DISPATCHERS, SIMULATION, SPREAD
from tests.seeds import deal_out, is_home, run_at_seeds

DEADLINE = 240.0
"""Seconds a test may wait for anything. Never reached unless something is wrong."""

BUILD = "compiled" if COMPILED else "pure"
ROOT = Path(__file__).parents[1]
SELECTED = pytest.StashKey[bool]()
"""Whether a run of a test is among those that `--matrix` asks for; if there is no choice, nothing is said."""

Program = Callable[[ActorSystem], Coroutine[Any, Any, None]]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Say how much of the matrix is run: tests/matrix.py says what that is."""
    parser.addoption(
        "--matrix",
        choices=matrix.CHOICES,
        default=matrix.ALL,
        help="of builds, backends and cases: all of them (the default), what `make test` runs, or what that leaves",
    )


def pytest_configure() -> None:
    """Let Ctrl-C reach what the tests start, and let examples take their time."""
    # A shell has its background jobs ignore it, and that is inherited.
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    # When they give up shows only in a test that fails, and must not depend on how busy the machine is.
    patience: Any = TestProbe.__init__.__kwdefaults__
    patience["timeout"] = DEADLINE
    settle: Any = ActorSystem.settle
    settle.__defaults__ = (DEADLINE,)
    advance: Any = ManualClock.advance
    advance.__kwdefaults__["patience"] = DEADLINE
    # Hypothesis would time single examples: on a busy machine that says nothing about them.
    settings.register_profile("unhurried", deadline=None)
    settings.load_profile("unhurried")


def pytest_collection_finish() -> None:
    """Put what pytest itself has made out of the collector's sight: nearly every test asks it to look at everything."""
    gc.collect()
    gc.freeze()


_ended = count(1)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """And what pytest keeps of each test: without this, the ten thousandth takes ten times as long as the first."""
    if report.when == "teardown" and next(_ended) % 100 == 0:
        gc.collect()
        gc.freeze()


class Play:
    """Runs a test's coroutine with a system of its own, on one kind of event loop."""

    def __init__(self, backend: str, **defaults: Any) -> None:
        self.backend = backend
        # The config of a folder's or a file's systems, where a test says nothing else.
        self.defaults = defaults
        # What a test of endurance raises.
        self.deadline = DEADLINE
        # What a callback raised into asyncio; a test that means it to takes it out of here.
        self.raised: list[dict[str, Any]] = []
        # The system of the last run, for a look at how it ended.
        self.system: ActorSystem | None = None
        # What runs it, if that is not asyncio or uvloop itself.
        self.simulation: Simulation | None = None

    @property
    def is_elsewhere(self) -> bool:
        """Whether the actors' code runs on other threads than the system's."""
        return self.backend in DISPATCHERS

    def many(self, number: int) -> int:
        """As many as that; in a simulation, which is about orders and not about numbers, a tenth."""
        return number // 10 if self.backend == SIMULATION else number

    def loop_factory(self) -> asyncio.AbstractEventLoop:
        if self.backend == "uvloop":
            import uvloop

            made: asyncio.AbstractEventLoop = uvloop.new_event_loop()
            return made
        return asyncio.new_event_loop()

    def __call__(self, program: Program, *, root: Any = None, **config: Any) -> ActorSystem:
        """Run `program(system)` to its end, shut the system down, and check what always holds; the stopped system.

        Actors that fail are stopped, for most tests are about one life; one about restarts says
        `supervision=Supervision()`.
        """
        config = {"supervision": Supervision(Directive.STOP), **self.defaults, **config}
        if self.backend == SPREAD:
            config.setdefault("loops", 3)
            config.setdefault("placement", {"*": "spread"})
            config.setdefault("clock", ManualClock())
        elif self.is_elsewhere:
            config.setdefault("placement", {"*": self.backend})
            # How soon a thread has its turn is up to the machine: no deadline of an actor's may pass meanwhile.
            config.setdefault("clock", ManualClock())
        elif self.backend != SIMULATION and "clock" not in config:
            config.setdefault("stop_timeout", self.deadline)

        async def main() -> None:
            async with asyncio.timeout(self.deadline):
                self.system = ActorSystem("test", config=SystemConfig(**config), root=root)
                async with self.system:
                    await program(self.system)

        self.bare(main)
        assert self.system is not None
        ledger = assert_ledger_balanced(self.system)
        assert ledger.queued == ledger.in_hand == 0, ledger
        assert self.system.actors() == []
        return self.system

    def bare(self, main: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run `main()` without a system."""

        async def watched() -> None:
            asyncio.get_running_loop().set_exception_handler(lambda _, context: self.raised.append(context))
            await main()

        if self.simulation is not None:
            self.simulation.run_main(watched)
        else:
            with asyncio.Runner(loop_factory=self.loop_factory) as runner:
                runner.run(watched())
            gc.collect()  # what should have been awaited or closed complains now, in the test that made it
        assert self.raised == []


@pytest.fixture(scope="session", autouse=True)
def without_gil() -> Generator[None]:
    """Where the tests began without a GIL, nothing that any of them imports may switch it on."""
    is_gil_enabled: Callable[[], bool] = getattr(sys, "_is_gil_enabled", lambda: True)
    began_without = not is_gil_enabled()
    yield
    assert not (began_without and is_gil_enabled()), "something that was imported has switched the GIL on"


@pytest.fixture(params=BACKENDS)
def play(request: pytest.FixtureRequest) -> Play:
    """Runs `program(system)` on asyncio, on uvloop, with actors on other threads, and in simulations at many seeds.

    `play(program, clock=ManualClock(), max_actors=5)`. A test that is an `async def` runs there without a system.
    """
    if request.param == "uvloop":
        pytest.importorskip("uvloop")
    return Play(request.param)


@pytest.fixture
def system(play: Play) -> Play:
    """For a test that is an `async def`: the system that it runs in, as `play` runs a program.

    `@pytest.mark.config(max_actors=5)` says what its system is like, and the fixture `clock` is its clock.
    """
    return play


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.hookimpl(wrapper=True)
def pytest_pycollect_makeitem(collector: pytest.Collector) -> Generator[None, Any, Any]:
    """Of what pytest makes of a test, keep what makes sense, and say which of it is run and at which seeds.

    Here all of a test is at hand, even if a single run of it is asked for.
    """
    made = yield
    if not isinstance(made, list):
        return made
    items = [item for item in made if not isinstance(item, pytest.Function) or _makes_sense(item)]
    tests = [item for item in items if isinstance(item, pytest.Function)]
    if tests:
        config, path = tests[0].config, _path_of(tests[0])
        # What is slow is no part of the matrix: it is run by itself.
        dealt = [item for item in tests if item.get_closest_marker("slow") is None]
        if config.getoption("--greenroom-runs") is None:
            _deal(dealt, path, str(config.getoption("--matrix")))
        deal_out([item for item in tests if _backend_of(item) == SIMULATION], config.getoption("--greenroom-runs"))
    return items


def _deal(items: list[pytest.Function], path: str, wanted: str) -> None:
    """Say of each run of a test whether it is selected."""
    runs = {id(item): (_case_of(item), backend) for item in items if (backend := _backend_of(item)) is not None}
    if runs:
        turn = matrix.turn_of(f"{path}::{items[0].originalname}")
        selected = matrix.select(list(runs.values()), turn, BUILD, wanted, path)
        for item in items:
            item.stash[SELECTED] = runs[id(item)] in selected
    else:
        for number, item in enumerate(items):
            item.stash[SELECTED] = matrix.is_selected(path, item.originalname, number, BUILD, wanted)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep what `--matrix` asks for."""
    wanted = str(config.getoption("--matrix"))
    kept: list[pytest.Item] = []
    left_out: list[pytest.Item] = []
    for item in items:
        selected = item.stash.get(SELECTED, None)
        if selected is None:
            # It is no function: a class of unittest's, or a code block. In these, one is like the other.
            selected = matrix.is_selected(_path_of(item), item.name, 0, BUILD, wanted)
        (kept if selected else left_out).append(item)
    config.hook.pytest_deselected(items=left_out)
    items[:] = kept


def _path_of(item: pytest.Item) -> str:
    return _from_root(item.path)


@cache
def _from_root(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def _backend_of(item: pytest.Item) -> str | None:
    """What runs the actors of a test: a parameter of the fixture `play`, or of `run` in tests/core."""
    call = getattr(item, "callspec", None)
    given = None if call is None else call.params.get("play", call.params.get("run"))
    return given if given in BACKENDS else None


def _case_of(item: pytest.Function) -> str:
    """A test's other parameters, by their ids."""
    backend = _backend_of(item)
    ids = list(item.callspec._idlist)
    ids.remove(str(backend))
    return "-".join(ids)


def _makes_sense(item: pytest.Function) -> bool:
    backend = _backend_of(item)
    if backend == SIMULATION:
        return is_home(_path_of(item)) and item.get_closest_marker("real") is None
    if backend in DISPATCHERS:
        mark = item.get_closest_marker("at_home")
        stays = mark is not None and (not mark.args or backend in mark.args)
        # Below a supervisor all live on one loop.
        stays = stays or (backend == SPREAD and not _path_of(item).startswith("tests/conformance/"))
        return is_home(_path_of(item)) and not stays
    return True


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a test that is a coroutine, in its system if it has one, and a simulated one once for each of its seeds."""
    stage = pyfuncitem.funcargs.get("play")
    test: Callable[..., object] = pyfuncitem.obj
    if not isinstance(stage, Play):
        if not inspect.iscoroutinefunction(test):
            return None
        asyncio.run(_in_time(test(**{name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames})))
        return True
    if inspect.iscoroutinefunction(test):
        test = partial(_play, stage, pyfuncitem)
    elif stage.backend != SIMULATION:
        return None
    if stage.backend == SIMULATION:
        run_at_seeds(pyfuncitem, stage, test)
    else:
        test(**{name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames})
    return True


async def _in_time(test: Coroutine[Any, Any, None]) -> None:
    async with asyncio.timeout(DEADLINE):
        await test


def _play(play: Play, item: pytest.Function, /, **arguments: Any) -> None:
    config: dict[str, Any] = {}
    for mark in reversed([*item.iter_markers("config")]):  # a test's own says more than its file's
        config.update(mark.kwargs)
    if "clock" in arguments:
        arguments["clock"] = ManualClock()  # one for each run
        config = {**config, "clock": arguments["clock"]}
    if "system" in arguments:
        play(lambda system: item.obj(**{**arguments, "system": system}), **config)
    else:
        play.bare(lambda: item.obj(**arguments))
