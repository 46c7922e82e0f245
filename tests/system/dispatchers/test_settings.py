"""The settings of dispatchers, and the ways to run a system that has them."""

from __future__ import annotations

import asyncio
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from greenroom import (
    Actor,
    ActorSystem,
    ActorTerminated,
    Concurrent,
    Dispatchers,
    Parallel,
    Pinned,
    Process,
    SystemConfig,
    SystemStopped,
)
from greenroom.errors import ConfigError, DispatcherExists, UnknownDispatcher, WaitsForItself
from greenroom.system.dispatchers.settings import settings_of


@pytest.mark.parametrize("threads", [0, -1, 1.5, True, "4"])
def test_a_pool_has_a_whole_number_of_threads(threads: Any) -> None:
    with pytest.raises(ConfigError, match="threads="):
        Parallel(threads)


@pytest.mark.parametrize("core", [-1, 1.5, True, "0"])
def test_a_processor_is_named_by_its_number(core: Any) -> None:
    with pytest.raises(ConfigError, match="core="):
        Pinned(core)


@pytest.mark.parametrize("workers", [0, -1, 1.5, True, "4"])
def test_there_is_a_whole_number_of_workers(workers: Any) -> None:
    with pytest.raises(ConfigError, match="workers="):
        Process(workers)


@pytest.mark.parametrize("limit", [0, 1000, 1.5e9, True, "1 GB"])
def test_a_frame_has_room_for_something(limit: Any) -> None:
    with pytest.raises(ConfigError, match="frame_limit="):
        Process(frame_limit=limit)


@pytest.mark.parametrize(
    "settings", [Concurrent(), Pinned(), Pinned(1), Parallel(), Parallel(3), Process(), Process(3, 1 << 20)]
)
def test_settings_are_values(settings: Any) -> None:
    again = pickle.loads(pickle.dumps(settings))
    assert again == settings
    assert hash(again) == hash(settings)
    assert again != object()


@pytest.mark.parametrize(
    ("name", "given", "made"),
    [
        ("io", Parallel(2), Parallel(2)),
        ("io", "pinned", Pinned()),
        ("io", {"kind": "parallel", "threads": 2}, Parallel(2)),
        ("parallel", {"threads": 2}, Parallel(2)),
        ("pinned", {"core": 0}, Pinned(0)),
        ("process", {"workers": 2, "frame_limit": 1_000_000}, Process(2, 1_000_000)),
        ("more", "concurrent", Concurrent()),
    ],
)
def test_settings_can_be_written_in_several_ways(name: str, given: Any, made: Any) -> None:
    assert settings_of(name, given) == made


@pytest.mark.parametrize(
    ("given", "field"),
    [
        (5, "dispatchers['io']"),
        ({"kind": "parallel", "cores": 2}, "dispatchers['io'].cores"),
        ({"kind": "concurrent", "threads": 2}, "dispatchers['io'].threads"),
        ({"kind": "fork"}, "dispatchers['io'].kind"),
        ({"threads": 2}, "dispatchers['io'].kind"),
        ({"kind": "parallel", "threads": 0}, "threads"),
    ],
)
def test_settings_that_are_none_name_the_field(given: Any, field: str) -> None:
    with pytest.raises(ConfigError) as caught:
        SystemConfig(dispatchers={"io": given})
    assert caught.value.field == field


@pytest.mark.parametrize("given", [5, {5: "parallel"}, {"": "parallel"}])
@pytest.mark.parametrize("name", ["dispatchers", "placement"])
def test_both_are_mappings_with_texts_as_keys(name: str, given: Any) -> None:
    with pytest.raises(ConfigError, match=name):
        SystemConfig(**{name: given})


def test_the_system_s_own_loop_cannot_be_another() -> None:
    with pytest.raises(ConfigError, match="own loop"):
        SystemConfig(dispatchers={"concurrent": Parallel(2)})


def test_a_placement_names_a_dispatcher_that_is_there() -> None:
    with pytest.raises(UnknownDispatcher, match="there are: concurrent, spread, pinned, parallel, process, io"):
        SystemConfig(dispatchers={"io": Parallel(2)}, placement={"/a": "oi"})


def test_a_file_can_name_them(tmp_path: Path) -> None:
    path = tmp_path / "app.toml"
    path.write_text(
        """
        [tool.greenroom.dispatchers.disk]
        kind = "parallel"
        threads = 1
        [tool.greenroom.placement]
        "/uploads/*" = "disk"
        """
    )
    config = SystemConfig.load(path, {})
    system = ActorSystem("test", config=config)
    assert system.dispatchers["disk"] == Parallel(1)
    assert dict(config.placement) == {"/uploads/*": "disk"}


def test_a_config_with_dispatchers_can_be_pickled() -> None:
    config = SystemConfig(dispatchers={"io": Parallel(2)}, placement={"/a": "io"}, env={"a": 1}, max_actors=5)
    assert pickle.loads(pickle.dumps(config)) == config


def test_a_registry_is_a_mapping_of_names_to_settings() -> None:
    dispatchers = Dispatchers("test", {"parallel": Parallel(2)})
    assert list(dispatchers) == ["concurrent", "spread", "pinned", "parallel", "process"]
    assert (len(dispatchers), dispatchers["parallel"], dispatchers.get("io")) == (5, Parallel(2), None)
    dispatchers.add("io", Pinned())
    assert "io" in dispatchers
    assert repr(dispatchers) == "<Dispatchers of test: concurrent, spread, pinned, parallel, process, io>"


@pytest.mark.parametrize("name", ["concurrent", "parallel"])
def test_a_name_can_be_given_once(name: str) -> None:
    with pytest.raises(DispatcherExists, match=name):
        Dispatchers("test").add(name, Parallel(2))


@pytest.mark.parametrize("name", ["", 5, None])
def test_a_dispatcher_has_a_name(name: Any) -> None:
    with pytest.raises(ConfigError, match="name="):
        Dispatchers("test").add(name, Parallel(2))


def test_an_unknown_dispatcher_is_refused_and_nothing_is_spawned() -> None:
    class Quiet(Actor[Any, Any]):
        def receive(self, message: Any) -> None: ...

    system = ActorSystem("test")
    with pytest.raises(UnknownDispatcher, match="there is no dispatcher 'io'; there are: concurrent, spread, pinned"):
        system.spawn(Quiet, name="a", dispatcher="io")
    assert system.actors() == []
    system.dispatchers.add("io", Parallel(1))
    system.spawn(Quiet, name="a", dispatcher="io")
    assert [ref.name for ref in system.actors()] == ["a"]


DISPATCHERS = ["concurrent", "parallel", "pinned"]
PATIENCE = 120.0


class Sum(Actor[int, int]):
    def __init__(self) -> None:
        self.total = 0

    def receive(self, message: int) -> int:
        self.total += message
        return self.total


async def use(system: ActorSystem) -> list[int]:
    """Ask an actor of each kind."""
    refs = [system.spawn(Sum, dispatcher=name) for name in DISPATCHERS]
    for ref in refs:
        ref.tell(1)
    return [await ref.ask(2) for ref in refs]


def test_a_sync_program() -> None:
    with ActorSystem("sync") as system:
        refs = [system.spawn(Sum, dispatcher=name) for name in DISPATCHERS]
        assert [ref.ask_sync(3) for ref in refs] == [3, 3, 3]


def test_an_asyncio_program() -> None:
    async def main() -> list[int]:
        async with ActorSystem() as system:
            return await use(system)

    assert asyncio.run(main()) == [3, 3, 3]


def test_a_uvloop_program() -> None:
    uvloop = pytest.importorskip("uvloop")

    async def main() -> list[int]:
        async with ActorSystem() as system:
            where = await system.spawn(lambda ctx, _: type(asyncio.get_running_loop()), dispatcher="pinned").ask("?")
            assert where.__module__.startswith("uvloop")
            return await use(system)

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        assert runner.run(main()) == [3, 3, 3]


def test_a_notebook_whose_loop_runs_already_and_goes_on_from_cell_to_cell() -> None:
    with asyncio.Runner() as runner:
        cell: dict[str, Any] = {}

        async def first() -> None:
            cell["system"] = await ActorSystem("notebook").start()
            cell["ref"] = cell["system"].spawn(Sum, dispatcher="parallel")

        async def second() -> int:
            answer: int = await cell["ref"].ask(5)
            return answer

        async def third() -> None:
            with pytest.raises(WaitsForItself):
                await cell["system"].start()
            await cell["system"].shutdown()
            with pytest.raises(SystemStopped):
                await cell["system"].start()
            with pytest.raises(ActorTerminated):
                await cell["ref"].ask(5)

        runner.run(first())
        assert runner.run(second()) == 5
        runner.run(third())


def test_a_program_that_is_nothing_but_its_actors() -> None:
    seen: list[int] = []

    class Main(Actor[Any, None]):
        def pre_start(self) -> None:
            helper = self.ctx.spawn(Sum, dispatcher="parallel")
            self.ctx.pipe_to_self(answer(helper))

        def receive(self, message: int) -> None:
            seen.append(message)
            self.ctx.system.stop()

    async def answer(ref: Any) -> int:
        result: int = await ref.ask(4)
        return result

    ActorSystem("alone", root=Main).run()
    assert seen == [4]


PYTEST_ASYNCIO = """
import pytest
from greenroom import Actor, ActorSystem

class Sum(Actor):
    def receive(self, message):
        return message + 1

@pytest.mark.asyncio
@pytest.mark.parametrize("name", ["concurrent", "parallel", "pinned"])
async def test_with_a_system_of_its_own(name):
    async with ActorSystem() as system:
        assert await system.spawn(Sum, dispatcher=name).ask(1) == 2

@pytest.mark.asyncio
@pytest.mark.parametrize("name", ["concurrent", "parallel", "pinned"])
async def test_with_the_fixture(actor_system, name):
    assert await actor_system.spawn(Sum, dispatcher=name).ask(1) == 2
"""


def test_a_pytest_asyncio_test(tmp_path: Path) -> None:
    pytest.importorskip("pytest_asyncio")
    (tmp_path / "test_program.py").write_text(PYTEST_ASYNCIO)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:randomly", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, cwd=tmp_path, check=False)
    assert "6 passed" in done.stdout, done.stdout + done.stderr
