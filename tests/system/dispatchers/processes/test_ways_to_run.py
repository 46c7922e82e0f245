"""Worker processes in each kind of program: with and without asyncio, under uvloop, in a notebook, a test, a script."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from greenroom import ActorSystem
from tests.system.dispatchers.processes.actors import Echo
from tests.system.dispatchers.processes.test_messages import ONE


def test_a_program_on_uvloop() -> None:
    uvloop = pytest.importorskip("uvloop")

    async def main() -> tuple[Any, Any]:
        async with asyncio.timeout(120.0), ActorSystem(config=ONE) as system:
            ref = system.spawn(Echo, dispatcher="process")
            for number in range(5_000):
                ref.tell(number)
                if number % 500 == 0:
                    await system.settle()
            large = bytes(3_000_000)
            return await ref.ask("on uvloop"), await ref.ask(large) == large

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        assert runner.run(main()) == ("on uvloop", True)


def test_a_notebook_whose_loop_runs_already() -> None:
    with asyncio.Runner() as runner:
        cell: dict[str, Any] = {}

        async def first() -> None:
            cell["system"] = await ActorSystem("notebook", config=ONE).start()
            cell["ref"] = cell["system"].spawn(Echo, dispatcher="process")

        async def second() -> Any:
            return await cell["ref"].ask("next cell")

        async def third() -> None:
            await cell["system"].shutdown()

        runner.run(first())
        assert runner.run(second()) == "next cell"
        runner.run(third())


def run_program(folder: Path, *command: str, with_folder: bool = True) -> subprocess.CompletedProcess[str]:
    """Run a program in a folder, whose modules it can import unless that is to be seen."""
    path = os.pathsep.join(entry for entry in (*([str(folder)] if with_folder else []), *sys.path) if entry)
    return subprocess.run(
        [sys.executable, *command],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=240,
        cwd=folder,
        check=False,
    )


MODULE = """
from dataclasses import dataclass
from greenroom import Actor

@dataclass
class Order:
    item: str

class Shop(Actor):
    def receive(self, message):
        return f"sold {getattr(message, 'item', message)}"
"""
PROGRAM = """
from dataclasses import dataclass
from greenroom import Actor, ActorSystem
from shop import Order, Shop

class Mine(Actor):
    def receive(self, message):
        return message

@dataclass
class Local:
    item: str

with ActorSystem() as system:
    for make in (lambda: system.spawn(Mine, dispatcher="process"), lambda: shop.tell([Local("tea")])):
        shop = system.spawn(Shop, dispatcher="process")
        try:
            make()
        except Exception as exc:
            print(type(exc).__name__, exc)
    print(shop.ask_sync(Order("tea"), timeout=None))
"""
PYTEST_ASYNCIO = """
import pytest
from greenroom import ActorSystem
from shop import Order, Shop

@pytest.mark.asyncio
async def test_with_a_system_of_its_own():
    async with ActorSystem() as system:
        assert await system.spawn(Shop, dispatcher="process").ask(Order("tea"), timeout=None) == "sold tea"

@pytest.mark.asyncio
async def test_with_the_fixture(actor_system):
    assert await actor_system.spawn(Shop, dispatcher="process").ask(Order("tea"), timeout=None) == "sold tea"
"""


def test_a_script_whose_own_classes_are_refused_with_advice(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(MODULE)
    (tmp_path / "program.py").write_text(PROGRAM)
    done = run_program(tmp_path, "program.py")
    assert done.returncode == 0, done.stderr
    first, second, third = done.stdout.splitlines()
    for line, name in ((first, "Mine"), (second, "Local")):
        assert line.startswith("NotSendable")
        assert f"{name} is defined in the program itself" in line
        assert f"from shop import {name}" in line
    assert third == "sold tea"


def test_a_pytest_asyncio_test(tmp_path: Path) -> None:
    pytest.importorskip("pytest_asyncio")
    (tmp_path / "shop.py").write_text(MODULE)
    (tmp_path / "test_program.py").write_text(PYTEST_ASYNCIO)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    done = run_program(tmp_path, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:randomly", "test_program.py")
    assert "2 passed" in done.stdout, done.stdout + done.stderr
