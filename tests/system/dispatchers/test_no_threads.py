"""A machine that has no more threads, or no more file descriptors: what needs one fails by name, and all else goes on.

The interpreter is what refuses here, as it does at `ulimit -u` and `ulimit -n`.
"""

from __future__ import annotations

import asyncio
import logging
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from greenroom import Actor, ActorSystem, Context, Directive, ExitKind, Parallel, Supervision
from greenroom.errors import NoThread
from tests.conftest import Play

PATIENCE = 120.0
ROOT = Path(__file__).parents[3]
STARTS = next(name for name in ("_start_joinable_thread", "_start_new_thread") if hasattr(threading, name))


class Worker(Actor[Any, Any]):
    def receive(self, message: Any) -> Any:
        return message() if callable(message) else threading.current_thread().name


def where(ctx: Context, message: str) -> str:
    """Needs no thread to start, as an actor does that has to be made."""
    return threading.current_thread().name


@contextmanager
def no_threads() -> Iterator[list[int]]:
    """Inside, the machine has no more threads. What is given counts how often one was asked for."""
    refused: list[int] = []

    def refuse(*args: object, **kwargs: object) -> Any:
        refused.append(1)
        raise RuntimeError("can't start new thread")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(threading, STARTS, refuse)
        yield refused


@pytest.fixture
def play() -> Iterator[Play]:
    yield Play("asyncio", stuck_after=0.0)
    assert not [one.name for one in threading.enumerate() if one.name.startswith("test ")]


async def until(is_so: Callable[[], bool]) -> None:
    while not is_so():  # noqa: ASYNC110 - another thread brings it about
        await asyncio.sleep(0)


@pytest.mark.parametrize("dispatcher", ["parallel", "pinned"])
async def test_an_actor_without_a_thread_fails_to_start_and_says_so(system: ActorSystem, dispatcher: str) -> None:
    with no_threads():
        ref = system.spawn(Worker, name="worker", dispatcher=dispatcher)
        ref.tell("lost")
        with pytest.raises(NoThread, match=f"/worker, by the dispatcher '{dispatcher}': raise the limit") as caught:
            await ref.started()
        assert isinstance(caught.value.__cause__, RuntimeError)
        assert (await ref.terminated()).kind is ExitKind.FAIL
    assert system.ledger(ref).dead_lettered == 1
    assert system.actor("worker") is None
    assert system.dispatchers.threads == {}
    again = system.spawn(Worker, name="worker", dispatcher=dispatcher)
    assert (await again.ask("where?", timeout=None)).startswith(f"test {dispatcher}")


@pytest.mark.parametrize("dispatcher", ["parallel", "pinned"])
@pytest.mark.config(supervision=Supervision(max_restarts=None, backoff=None))
async def test_its_supervisor_has_it_restarted_when_there_are_threads_again(
    system: ActorSystem, dispatcher: str
) -> None:
    with no_threads() as refused:
        ref = system.spawn(Worker, dispatcher=dispatcher)
        asked = ref.ask("where?", timeout=None)
        await until(lambda: len(refused) >= 3)
    assert (await asked).startswith(f"test {dispatcher}")


async def test_a_message_that_finds_no_thread_fails_and_the_asker_is_told(system: ActorSystem) -> None:
    ref = system.spawn(where, dispatcher="parallel", supervision=Supervision(Directive.RESUME))
    await ref.started()
    with no_threads():
        asked = [ref.ask("where?", timeout=None) for _ in range(3)]
        for one in asked:
            with pytest.raises(NoThread, match="parallel"):
                await one
    assert system.ledger(ref).failed == 3
    assert (await ref.ask("where?", timeout=None)).startswith("test parallel")


@pytest.mark.config(dispatchers={"parallel": Parallel(threads=1)})
async def test_what_waits_for_a_thread_fails_when_the_last_one_is_abandoned(system: ActorSystem) -> None:
    held, release = threading.Event(), threading.Event()

    def block() -> None:
        held.set()
        release.wait(PATIENCE)

    busy, waiting = (system.spawn(Worker, dispatcher="parallel") for _ in range(2))
    await asyncio.gather(busy.started(), waiting.started())
    busy.tell(block)
    await until(held.is_set)
    asked = waiting.ask("where?", timeout=None)
    await asyncio.sleep(0)
    with no_threads():
        busy.kill()
        with pytest.raises(NoThread, match="parallel"):
            await asked
    release.set()
    again = system.spawn(Worker, dispatcher="parallel")
    assert (await again.ask("where?", timeout=None)).startswith("test parallel")
    await busy.terminated()


def test_a_system_without_a_watchdog_runs_and_says_so(play: Play, caplog: pytest.LogCaptureFixture) -> None:
    async def program(system: ActorSystem) -> None:
        assert await system.spawn(Worker).ask("where?") == threading.current_thread().name

    with no_threads(), caplog.at_level(logging.WARNING, "greenroom"):
        play(program, stuck_after=1.0)
    assert "not reported: can't start new thread" in caplog.text
    play(program, stuck_after=1.0)


def test_a_sync_program_without_a_thread_is_told_so_and_may_try_again() -> None:
    system = ActorSystem("poor")
    with no_threads(), pytest.raises(NoThread, match="the system 'poor'"):
        system.__enter__()
    assert system.phase == "new"
    with system:
        assert system.spawn(Worker).ask_sync("where?", timeout=None) == "poor"


PROGRAM = """
import asyncio, os, resource, sys
from greenroom import ActorSystem, Directive, Supervision, SystemConfig
from greenroom.errors import WorkerLost
from tests.system.dispatchers.test_no_threads import Worker

def limit():
    found = [int(name) for name in os.listdir("/proc/self/fd")]
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(found), LARGEST))

LARGEST = resource.getrlimit(resource.RLIMIT_NOFILE)[1]

def sync():
    system = ActorSystem("poor")
    limit()
    try:
        system.__enter__()
    except OSError as exc:
        assert exc.errno == 24, exc
    else:
        raise SystemExit("it started")
    assert system.phase == "new"
    resource.setrlimit(resource.RLIMIT_NOFILE, (LARGEST, LARGEST))
    with system:
        assert system.spawn(Worker).ask_sync("where?", timeout=None) == "poor"

async def pinned():
    async with ActorSystem("poor", config=SystemConfig(supervision=Supervision(Directive.STOP))) as system:
        await system.spawn(Worker, dispatcher="pinned").started()  # what is imported late needs descriptors too
        limit()
        ref = system.spawn(Worker, name="worker", dispatcher="pinned")
        try:
            await ref.started()
        except WorkerLost as exc:
            assert "/worker any more" in str(exc) and "open files" in str(exc), exc
        else:
            raise SystemExit("it started")
        await ref.terminated()
        resource.setrlimit(resource.RLIMIT_NOFILE, (LARGEST, LARGEST))
        again = system.spawn(Worker, name="worker", dispatcher="pinned")
        assert (await again.ask("where?", timeout=None)).startswith("poor pinned")

sync() if sys.argv[1] == "sync" else asyncio.run(pinned())
print("all is well")
"""


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs to know the open files")
@pytest.mark.parametrize("which", ["sync", "pinned"])
def test_what_finds_no_file_descriptor_fails_by_name_and_may_try_again(which: str) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", PROGRAM, which],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        cwd=ROOT,
        check=False,
    )
    assert done.stdout == "all is well\n", done.stderr
