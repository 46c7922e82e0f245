"""How a worker begins and ends, and what it says of handlers that take long."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from greenroom import ActorSystem, Process, Supervision, SystemConfig
from tests.system.dispatchers.processes.actors import witness_in
from tests.system.dispatchers.processes.test_ways_to_run import run_program
from tests.system.dispatchers.processes.unruly import Busy

_SHOP = """
from greenroom import Actor

class Shop(Actor):
    def receive(self, message):
        return f"sold {message}"
"""
_GOES_ELSEWHERE = """
import os, sys
sys.path[0] = ""  # as in a terminal, or with `python -c`
from greenroom import ActorSystem
from shop import Shop
os.chdir("/")
with ActorSystem() as system:
    print(system.spawn(Shop, dispatcher="process").ask_sync("tea", timeout=None))
"""


def test_a_program_that_goes_elsewhere_before_its_first_worker_keeps_its_modules(tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.mkdir()
    (tmp_path / "shop.py").write_text(_SHOP)
    (program / "program.py").write_text(_GOES_ELSEWHERE)
    done = run_program(tmp_path, str(program / "program.py"), with_folder=False)
    assert (done.stdout, done.returncode) == ("sold tea\n", 0), done.stderr


_FAILS = """
import sys
from greenroom.system.dispatchers.processes.worker import main

def broken(config):
    raise ImportError("this machine lacks something")

main._serve = broken
"""
_LOSES_ITS_WORKERS = """
from greenroom import ActorSystem, Directive, Supervision
from shop import Shop

with ActorSystem() as system:
    ref = system.spawn(Shop, dispatcher="process", supervision=Supervision(Directive.STOP))
    try:
        ref.ask_sync("tea", timeout=None)
    except Exception as exc:
        print(exc)
"""


def test_a_worker_that_cannot_run_says_why_and_ends_with_a_code(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(_SHOP)
    (tmp_path / "program.py").write_text(_LOSES_ITS_WORKERS)
    (tmp_path / "sitecustomize.py").write_text(f"import sys\nif sys.argv[0] == '-c':\n    exec({_FAILS!r})\n")
    done = run_program(tmp_path, "program.py")
    assert "Fatal Python error" not in done.stderr
    assert "ImportError: this machine lacks something" in done.stderr
    assert "ended with code 1" in done.stdout
    assert done.returncode == 0


class Watcher:
    """Keeps what it is told of handlers that take long."""

    def __init__(self) -> None:
        self.slow: list[tuple[Any, Any, float]] = []
        self.stuck: list[tuple[Any, Any, float, str]] = []
        self.is_stuck = asyncio.Event()

    def slow_handler(self, ref: Any, message: Any, seconds: float) -> None:
        self.slow.append((ref, message, seconds))

    def stuck_handler(self, ref: Any, message: Any, seconds: float, stack: str) -> None:
        self.stuck.append((ref, message, seconds, stack))
        self.is_stuck.set()


async def test_a_handler_that_holds_its_worker_is_told_of_while_it_does_and_after(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    config = SystemConfig(
        dispatchers={"process": Process(workers=1)},
        supervision=Supervision(backoff=None),
        stuck_after=0.05,
        propagate=[],
        slow_after=0.05,
    )
    watcher = Watcher()
    async with ActorSystem(config=config) as system:
        ref = system.spawn(Busy, dispatcher="process", name="busy")
        await ref.ask("pid")
        system.observers.add(watcher)
        witness, begun = witness_in(system)
        asked = asyncio.ensure_future(ref.ask(("until", tmp_path / "go", witness)))
        await begun.wait()
        await watcher.is_stuck.wait()
        assert not asked.done()
        (tmp_path / "go").touch()
        assert await asked == "done"
        await system.settle()
        while not watcher.slow:
            await ref.ask("pid")
    who, what, seconds, stack = watcher.stuck[0]
    assert (who, what[0]) == (ref, "until")
    assert seconds >= 0.05
    assert "wait_for(path)" in stack
    (slow,) = [one for one in watcher.slow if one[1] != "pid"]
    assert slow[:2] == (ref, what)
    assert slow[2] >= 0.05
    (told,) = [one for one in caplog.records if "has held its worker process" in one.getMessage()][:1]
    assert told.getMessage().startswith("/busy has held its worker process for ")
    assert "more workers" in told.getMessage()
