"""Fixtures for tests of actors: a system on every kind of event loop, checked at the end."""

from __future__ import annotations

import asyncio
import gc
import signal
import sys
from collections import Counter
from collections.abc import Callable, Coroutine
from itertools import count
from typing import Any

import pytest

from greenroom import COMPILED, ActorSystem, Directive, Supervision, SystemConfig
from greenroom.testing import Simulation, TestProbe, assert_ledger_balanced
from tests.seeds import FOLDERS, deal_out, run_at_seeds

DEADLINE = 120.0
"""Seconds a test may wait for anything. Never reached unless something is wrong."""

BACKENDS = ["asyncio"] if sys.platform == "win32" else ["asyncio", "uvloop"]
SIMULATION = "simulation"
DISPATCHERS = ["parallel", "pinned"]
"""Those that run actors elsewhere than on the system's own loop: the conformance tests are run with each of them."""

Program = Callable[[ActorSystem], Coroutine[Any, Any, None]]


def pytest_configure() -> None:
    """Let Ctrl-C reach what the tests start: a shell has its background jobs ignore it, and that is inherited."""
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    # How long a probe waits shows only in a test that fails, and must not depend on how busy the machine is.
    patience: Any = TestProbe.__init__.__kwdefaults__
    patience["timeout"] = DEADLINE


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

    def __init__(self, backend: str) -> None:
        self.backend = backend
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
        config.setdefault("supervision", Supervision(Directive.STOP))
        if self.is_elsewhere:
            config.setdefault("placement", {"*": self.backend})

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


@pytest.fixture(params=[*BACKENDS, *DISPATCHERS, SIMULATION])
def play(request: pytest.FixtureRequest) -> Play:
    """Runs `program(system)` on asyncio, on uvloop, with actors on other threads, and in simulations at many seeds.

    `play(program, clock=ManualClock(), max_actors=5)`.
    """
    if request.param == "uvloop":
        pytest.importorskip("uvloop")
    return Play(request.param)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Say at how many seeds each test is simulated, and which are run with which dispatcher."""
    elsewhere: list[Any] = [item for item in items if _dispatcher_of(item) is not None]
    kept = {id(item) for item in deal_dispatchers([item for item in elsewhere if _makes_sense(item)])}
    items[:] = [item for item in items if _dispatcher_of(item) is None or id(item) in kept]
    deal_out(items, SIMULATION)


def _dispatcher_of(item: pytest.Item) -> str | None:
    call = getattr(item, "callspec", None)
    given = None if call is None else call.params.get("play")
    return given if given in DISPATCHERS else None


def _makes_sense(item: pytest.Item) -> bool:
    mark = item.get_closest_marker("at_home")
    stays = mark is not None and (not mark.args or _dispatcher_of(item) in mark.args)
    return item.path.parent.name in FOLDERS and not stays


def deal_dispatchers(items: list[Any]) -> list[Any]:
    """Each test with both dispatchers; but the parameters of one that has many are dealt out among them and the builds.

    `make stress` runs them all.
    """
    if not items or items[0].config.getoption("--greenroom-runs") is not None:
        return items
    seen: Counter[tuple[Any, str, str]] = Counter()
    kept = []
    for item in items:
        dispatcher: Any = _dispatcher_of(item)
        test = (item.path, item.originalname, dispatcher)
        turn = len(DISPATCHERS) * (0 if COMPILED else 1) + DISPATCHERS.index(dispatcher)
        if seen[test] == 0 or seen[test] % (2 * len(DISPATCHERS)) == turn:
            kept.append(item)
        seen[test] += 1
    return kept


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a simulated test once for each of its seeds."""
    stage = pyfuncitem.funcargs.get("play")
    if not isinstance(stage, Play) or stage.backend != SIMULATION:
        return None
    run_at_seeds(pyfuncitem, stage, pyfuncitem.obj)
    return True
