"""The pytest plugin: its fixtures in tests of every kind, its options, and what it says of a failure (B8)."""

from __future__ import annotations

import os
import re
import sys
import textwrap
import tomllib
from importlib.util import find_spec
from pathlib import Path

import pytest

pytest_plugins = ["pytester"]

PLUGIN = "greenroom.testing.plugin"
PLAIN = ["-p", "no:cacheprovider"]

HEAD = """
    import asyncio
    import pytest
    from greenroom import Actor, ActorSystem, SystemConfig
    from greenroom.testing import ManualClock, TestProbe, faults
"""

RACE = """
    class Note(Actor):
        def __init__(self, log):
            self.log = log
        def receive(self, message):
            self.log.append(message)

    async def program(system):
        log = []
        for name in "ab":
            system.spawn(Note, log, name=name).tell(name)
        await system.settle()
        if log != ["a", "b"]:
            raise ValueError("b was first")
        return log
"""


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of all plugins, have only those that a test names: hypothesis alone takes a second."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, sys.path)))
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)


def _prepare(pytester: pytest.Pytester, text: str) -> None:
    pytester.makepyfile(HEAD + text)
    if not list(pytester.path.glob("*.ini")):
        pytester.makeini("[pytest]")  # or it would find ours, above


def run(pytester: pytest.Pytester, text: str, *options: str) -> pytest.RunResult:
    """Run a file of tests."""
    _prepare(pytester, text)
    return pytester.runpytest_inprocess(*PLAIN, "-p", PLUGIN, *options)


def run_apart(pytester: pytest.Pytester, text: str, *options: str) -> pytest.RunResult:
    """Run a file of tests in a process of its own."""
    _prepare(pytester, text)
    return pytester.runpytest_subprocess(*PLAIN, "-p", PLUGIN, *options)


def run_under_asyncio(pytester: pytest.Pytester, text: str, *options: str) -> pytest.RunResult:
    """Run a file of tests beside pytest-asyncio, which takes every async test and fixture unless told otherwise."""
    if find_spec("pytest_asyncio") is None:
        pytest.skip("pytest-asyncio is not installed")
    set_up = ["-p", "pytest_asyncio.plugin", "-o", "asyncio_default_fixture_loop_scope=function"]
    if not any("asyncio_mode" in option for option in options):
        set_up += ["-o", "asyncio_mode=auto"]
    return run_apart(pytester, text, *set_up, *options)


# -- actor_system


def test_a_plain_test_has_a_system_on_a_thread_of_its_own(pytester: pytest.Pytester) -> None:
    text = """
    seen = []

    def test_asks(actor_system):
        assert actor_system.spawn(lambda ctx, message: message * 2).ask_sync(4) == 8
        seen.append(actor_system)

    def test_it_has_stopped_since(actor_system):
        assert seen[0].phase == "stopped"
        assert seen[0] is not actor_system
    """
    run(pytester, text).assert_outcomes(passed=2)


def test_an_async_test_has_it_on_its_own_loop_under_anyio(pytester: pytest.Pytester) -> None:
    pytest.importorskip("anyio")
    text = """
    @pytest.fixture
    def anyio_backend():
        return "asyncio"

    @pytest.mark.anyio
    async def test_asks(actor_system):
        loop = asyncio.get_running_loop()
        async def which(ctx, message):
            return asyncio.get_running_loop()
        assert await actor_system.spawn(which).ask(1) is loop

    class TestInAClass:
        @pytest.mark.anyio
        @pytest.mark.parametrize("number", [1, 2])
        async def test_asks(self, number, actor_system, probe):
            actor_system.spawn(lambda ctx, message: probe.ref.tell(message + 1)).tell(number)
            assert await probe.expect(number + 1) == number + 1
    """
    run(pytester, text, "-p", "anyio.pytest_plugin").assert_outcomes(passed=3)


def test_an_async_test_has_it_on_its_own_loop_under_pytest_asyncio(pytester: pytest.Pytester) -> None:
    text = """
    async def test_asks(actor_system):
        loop = asyncio.get_running_loop()
        async def which(ctx, message):
            return asyncio.get_running_loop()
        assert await actor_system.spawn(which).ask(1) is loop

    async def test_probes(actor_system, probe):
        actor_system.spawn(lambda ctx, message: probe.ref.tell(message)).tell("x")
        await probe.expect("x")

    async def test_simulates(simulation):
        async def program(system):
            await asyncio.sleep(3600)
            return "done"
        assert simulation.run(program) == "done"
        await asyncio.sleep(0)
    """
    run_under_asyncio(pytester, text).assert_outcomes(passed=3)


AWAITING = """
    @ASYNC_FIXTURE
    async def echo(actor_system):
        ref = actor_system.spawn(lambda ctx, message: message)
        await ref.started()
        assert await ref.ask(1) == 1
        yield ref
        assert await ref.ask(3) == 3

    @pytest.fixture
    def spawned(actor_system):
        ref = actor_system.spawn(lambda ctx, message: message)
        ref.tell("before anything runs")
        return ref

    async def test_asks(echo, spawned, probe):
        assert await echo.ask(2) == 2
        assert await spawned.ask(2) == 2
        probe.ref.tell("x")
        await probe.expect("x")
"""


def test_async_fixtures_can_await_it_under_anyio(pytester: pytest.Pytester) -> None:
    pytest.importorskip("anyio")
    text = """
    pytestmark = pytest.mark.anyio

    @pytest.fixture
    def anyio_backend():
        return "asyncio"
    """
    text += AWAITING.replace("@ASYNC_FIXTURE", "@pytest.fixture")
    run_apart(pytester, text, "-p", "anyio.pytest_plugin").assert_outcomes(passed=1)


@pytest.mark.parametrize("mode", ["auto", "strict"])
@pytest.mark.parametrize("loop_scope", ["function", "module"])
def test_async_fixtures_can_await_it_under_pytest_asyncio(
    pytester: pytest.Pytester, mode: str, loop_scope: str
) -> None:
    text = f"\n    pytestmark = pytest.mark.asyncio(loop_scope={loop_scope!r})\n    import pytest_asyncio\n"
    text += AWAITING.replace("@ASYNC_FIXTURE", f"@pytest_asyncio.fixture(loop_scope={loop_scope!r})")
    run_under_asyncio(pytester, text, "-o", f"asyncio_mode={mode}").assert_outcomes(passed=1)


def test_an_async_fixture_of_a_plain_test_can_await_it_too(pytester: pytest.Pytester) -> None:
    text = """
    @pytest.fixture
    async def echo(actor_system):
        ref = actor_system.spawn(lambda ctx, message: message)
        await ref.started()
        return ref

    def test_asks(echo):
        assert echo.ask_sync(2) == 2
    """
    run_under_asyncio(pytester, text).assert_outcomes(passed=1)


def test_an_async_test_case_of_unittest_has_it_from_its_set_up_on(pytester: pytest.Pytester) -> None:
    text = """
    import unittest

    class TestAsking(unittest.IsolatedAsyncioTestCase):
        @pytest.fixture(autouse=True)
        def _take(self, actor_system):
            self.system = actor_system

        async def asyncSetUp(self):
            self.ref = self.system.spawn(lambda ctx, message: message)
            assert await self.ref.ask(1) == 1

        async def test_asks(self):
            assert await self.ref.ask(2) == 2

        async def asyncTearDown(self):
            assert await self.ref.ask(3) == 3
    """
    run_apart(pytester, text).assert_outcomes(passed=1)


RERUN = """
    from _pytest.runner import runtestprotocol

    def pytest_runtest_protocol(item, nextitem):
        for _ in range(2):  # as plugins do that give a failing test another chance
            reports = runtestprotocol(item, nextitem=nextitem, log=False)
            item._initrequest()
        for report in reports:
            item.ihook.pytest_runtest_logreport(report=report)
        return True
"""
FLAKY = """
    tries = []

    async def test_asks(actor_system):
        tries.append(actor_system)
        assert await actor_system.spawn(lambda ctx, message: message).ask(1) == 1
        assert len(tries) == 2
"""


def test_an_async_test_can_be_run_again(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(RERUN)
    run_under_asyncio(pytester, FLAKY).assert_outcomes(passed=1)


def test_an_async_test_can_be_run_again_by_whoever_runs_it(pytester: pytest.Pytester) -> None:
    by_itself = """
    import asyncio

    def pytest_pyfunc_call(pyfuncitem):
        names = pyfuncitem._fixtureinfo.argnames
        asyncio.run(pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in names}))
        return True
    """
    pytester.makeconftest(RERUN + by_itself)
    run_apart(pytester, FLAKY).assert_outcomes(passed=1)


def test_a_failing_test_fails_as_itself(pytester: pytest.Pytester) -> None:
    text = """
    def test_fails(actor_system):
        actor_system.spawn(lambda ctx, message: None).tell(1)
        assert 1 == 2
    """
    result = run(pytester, text)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*assert 1 == 2*"])


def test_any_parameter_makes_a_name_that_a_system_can_have(pytester: pytest.Pytester) -> None:
    text = """
    @pytest.mark.parametrize("name", ["a/b", "a b", "", "*", "\u00e9", "x" * 300])
    def test_asks(name, actor_system):
        assert actor_system.spawn(lambda ctx, message: message).ask_sync(name) == name
    """
    run(pytester, text).assert_outcomes(passed=6)


def test_its_settings_are_a_fixture_to_override(pytester: pytest.Pytester) -> None:
    text = """
    @pytest.fixture
    def actor_config():
        return SystemConfig(max_actors=7)

    def test_has_them(actor_system):
        assert actor_system.config.max_actors == 7
    """
    run(pytester, text).assert_outcomes(passed=1)


def test_a_manual_clock_is_the_clock_of_the_system(pytester: pytest.Pytester) -> None:
    pytest.importorskip("anyio")
    text = """
    @pytest.mark.anyio
    @pytest.mark.parametrize("anyio_backend", ["asyncio"])
    async def test_advances(actor_system, manual_clock, probe, anyio_backend):
        class Timed(Actor):
            def pre_start(self):
                self.ctx.send_after(30, probe.ref, "tick")
            def receive(self, message):
                pass
        assert actor_system.clock is manual_clock
        actor_system.spawn(Timed)
        await actor_system.settle()
        await probe.expect_no()
        await manual_clock.advance(30)
        await probe.expect("tick")
    """
    run(pytester, text, "-p", "anyio.pytest_plugin").assert_outcomes(passed=1)


def test_a_probe_in_a_plain_test_is_an_error_that_says_why(pytester: pytest.Pytester) -> None:
    result = run(pytester, "    def test_probes(probe):\n        pass\n")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*async def*"])


# -- simulation


def test_a_simulation_runs_at_a_hundred_seeds_and_returns_what_the_last_did(pytester: pytest.Pytester) -> None:
    text = """
    def test_runs(simulation):
        drawn = []
        async def program(system):
            await asyncio.sleep(3600)
            drawn.append(system.random.random())
            return drawn[-1]
        assert simulation.run(program) == drawn[-1]
        assert len(set(drawn)) == len(drawn) == 100
    """
    run(pytester, text).assert_outcomes(passed=1)


FAILING = RACE + "\n    def test_order(simulation):\n        simulation.run(program)\n"


def test_a_failure_says_the_seed_the_schedule_the_trace_and_how_to_run_it_again(pytester: pytest.Pytester) -> None:
    result = run(pytester, FAILING)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "*ValueError: b was first",
            "*Failed at seed *: ValueError: b was first",
            "*The simplest schedule found*",
            "*step 1: /b runs, before 1 other that waited longer",
            "*/b handles 'b'",
            "*Run it again:*test_order*--greenroom-seed=*",
        ]
    )


def test_the_seed_that_it_says_fails_again_and_in_the_same_words(pytester: pytest.Pytester) -> None:
    first = run(pytester, FAILING).stdout.str()
    (seed,) = set(re.findall(r"--greenroom-seed=(\d+)", first))
    again = pytester.runpytest_inprocess(*PLAIN, "-p", PLUGIN, f"--greenroom-seed={seed}")
    again.assert_outcomes(failed=1)

    def told(text: str) -> str:
        return text[text.index("Failed at seed") : text.index("Run it again")]

    assert told(again.stdout.str()) == told(first)


def test_the_way_to_run_it_again_starts_where_pytest_was_started(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    _prepare(pytester, "")
    inner = pytester.mkdir("inner")
    (inner / "test_inner.py").write_text(textwrap.dedent(HEAD + FAILING))
    monkeypatch.chdir(inner)
    result = pytester.runpytest_inprocess(*PLAIN, "-p", PLUGIN)
    result.stdout.fnmatch_lines(["*rootdir: *", "*Run it again:  pytest test_inner.py::test_order --greenroom-seed=*"])


def test_a_failure_is_not_buried_in_what_other_runs_logged(pytester: pytest.Pytester) -> None:
    text = (
        RACE
        + """
    def test_order(simulation):
        simulation.run(program, faults=[faults.crash("a", at=1)])
    """
    )
    result = run(pytester, text)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*Failed at seed *"])
    result.stdout.no_fnmatch_line("*Captured log*")
    result.stdout.no_fnmatch_line("*Traceback*")


def test_what_the_last_run_logs_is_there_for_the_test(pytester: pytest.Pytester) -> None:
    text = """
    def test_logs(simulation, caplog):
        async def program(system):
            system.spawn(lambda ctx, message: 1 / 0).tell(1)
            await system.settle()
        simulation.run(program)
        assert sum("failed on int" in record.message for record in caplog.records) == 1
    """
    run(pytester, text).assert_outcomes(passed=1)


@pytest.mark.parametrize(
    "program", ["def program(system): return 3", "async def program(): pass", "async def program(system, more): pass"]
)
def test_what_is_no_program_is_an_error_of_the_test_and_not_of_a_seed(pytester: pytest.Pytester, program: str) -> None:
    result = run(pytester, f"    {program}\n    def test_runs(simulation):\n        simulation.run(program)\n")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*NotAProgram*program*"])
    result.stdout.no_fnmatch_line("*Failed at seed*")


def test_a_seed_on_the_command_line_is_the_only_one(pytester: pytest.Pytester) -> None:
    text = """
    def test_runs(simulation):
        assert simulation.seeds == (-3,)
    """
    run(pytester, text, "--greenroom-seed=-3").assert_outcomes(passed=1)


@pytest.mark.parametrize("given", ["option", "ini"])
def test_how_many_seeds_can_be_said(pytester: pytest.Pytester, given: str) -> None:
    text = """
    def test_runs(simulation):
        assert len(simulation.seeds) == 7
    """
    if given == "ini":
        pytester.makeini("[pytest]\ngreenroom_runs = 7\n")
    run(pytester, text, *(["--greenroom-runs=7"] if given == "option" else [])).assert_outcomes(passed=1)


@pytest.mark.parametrize("runs", ["0", "-1", "many"])
@pytest.mark.parametrize("given", ["option", "ini"])
def test_no_seeds_at_all_is_an_error_before_any_test(pytester: pytest.Pytester, given: str, runs: str) -> None:
    name, other = ("--greenroom-runs", "greenroom_runs") if given == "option" else ("greenroom_runs", "--greenroom")
    if given == "ini":
        pytester.makeini(f"[pytest]\ngreenroom_runs = {runs}\n")
    options = [f"--greenroom-runs={runs}"] if given == "option" else []
    result = run(pytester, "    def test_runs():\n        pass\n", "--collect-only", *options)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    line = [line for line in result.errlines if "ERROR" in line or "error:" in line][-1]
    assert name in line
    assert runs in line
    assert other not in line


def test_checks_schedules_and_faults_can_be_given(pytester: pytest.Pytester) -> None:
    text = (
        RACE
        + """
    def test_in_turn(simulation):
        assert simulation.run(program, schedule="fifo") == ["a", "b"]

    def test_checks(simulation):
        with pytest.raises(AssertionError, match="check"):
            simulation.run(program, schedule="fifo", check=lambda log: log == [])

    def test_faults(simulation):
        with pytest.raises(ValueError) as raised:
            simulation.run(program, schedule="fifo", faults=[faults.crash("a", at=1), faults.slow("b")])
        assert "crash('a', at=1" in "".join(raised.value.__notes__)
        assert "slow" not in "".join(raised.value.__notes__)
    """
    )
    run(pytester, text).assert_outcomes(passed=3)


def test_a_timeout_is_told_like_any_other_failure(pytester: pytest.Pytester) -> None:
    text = """
    def test_times_out(simulation):
        async def program(system):
            async def slow(ctx, message):
                await asyncio.sleep(60)
            await system.spawn(slow, name="slow").ask(1)
        simulation.run(program)
    """
    result = run(pytester, text)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*AskTimeout*", "*/slow handles 1", "*--greenroom-seed=0"])


def test_it_works_beside_xdist(pytester: pytest.Pytester) -> None:
    pytest.importorskip("xdist")
    text = (
        FAILING
        + """
    @pytest.mark.parametrize("number", range(4))
    def test_asks(number, actor_system):
        assert actor_system.spawn(lambda ctx, message: message).ask_sync(number) == number

    def test_fine(simulation):
        async def program(system):
            await asyncio.sleep(1)
        simulation.run(program)
    """
    )
    result = run_apart(pytester, text, "-p", "xdist.plugin", "-n2")
    result.assert_outcomes(passed=5, failed=1)
    result.stdout.fnmatch_lines(["*Failed at seed *", "*--greenroom-seed=*"])


def test_nothing_happens_to_tests_without_its_fixtures(pytester: pytest.Pytester) -> None:
    text = """
    import time

    def test_plain():
        assert time.time() > 1_000_000_000
    """
    run(pytester, text).assert_outcomes(passed=1)


def test_of_greenroom_only_what_importing_it_takes_is_imported_for_them(pytester: pytest.Pytester) -> None:
    text = """
    import sys

    def test_plain():
        kit = {name for name in sys.modules if name.startswith("greenroom.testing")}
        assert kit == {"greenroom.testing", "greenroom.testing.plugin"}
    """
    pytester.makeini("[pytest]")
    pytester.makepyfile(text)
    pytester.runpytest_subprocess(*PLAIN, "-p", PLUGIN).assert_outcomes(passed=1)


def test_its_options_and_fixtures_are_in_the_help(pytester: pytest.Pytester) -> None:
    shown = pytester.runpytest_inprocess(*PLAIN, "-p", PLUGIN, "--help").stdout.str()
    assert "--greenroom-seed" in shown
    assert "--greenroom-runs" in shown
    fixtures = pytester.runpytest_inprocess(*PLAIN, "-p", PLUGIN, "--fixtures").stdout.str()
    for name in ("actor_system", "probe", "manual_clock", "simulation"):
        assert re.search(rf"^{name} -- .*\n    \w", fixtures, re.MULTILINE), name


def test_pytest_finds_it_by_itself_where_greenroom_is_installed() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    assert project["entry-points"]["pytest11"] == {"greenroom": PLUGIN}
