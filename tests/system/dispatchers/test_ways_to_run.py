"""Every way to run a system, with actors by every dispatcher in it."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from greenroom import Actor, ActorSystem, ActorTerminated, SystemStopped
from greenroom.errors import WaitsForItself

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
