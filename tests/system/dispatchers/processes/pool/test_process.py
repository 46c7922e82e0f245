"""A worker's process: its end is always noticed, and it never outlives the program."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import pytest

from greenroom import ActorSystem
from greenroom.system.dispatchers.processes.pool import process
from tests.system.dispatchers.processes.actors import pid_of
from tests.system.dispatchers.processes.conftest import fds
from tests.system.dispatchers.processes.test_messages import ONE
from tests.system.dispatchers.processes.unruly import Forker, Hooked, Reader

PATIENCE = 120.0


def end(pid: int) -> None:
    """End a child that a worker has forked: it is nobody's by then."""
    os.kill(pid, signal.SIGKILL)


async def test_the_death_of_a_worker_is_noticed_though_a_child_of_it_holds_the_connection() -> None:
    async with ActorSystem(config=ONE) as system:
        ref = system.spawn(Forker, dispatcher="process")
        pid = await ref.ask("pid")
        child = await ref.ask("fork")
        try:
            os.kill(pid, signal.SIGKILL)
            while await pid_of(ref) == pid:
                pass
            assert system.ledger(ref).lost <= 1
        finally:
            end(child)


async def test_the_death_of_a_worker_is_noticed_though_the_program_forked_while_it_was_started(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    children: list[int] = []
    real = subprocess.Popen

    def fork_first(*args: Any, **more: Any) -> Any:
        children.append(_fork_a_sleeper())
        return real(*args, **more)

    async with ActorSystem(config=ONE) as system:
        monkeypatch.setattr(subprocess, "Popen", fork_first)
        ref = system.spawn(Forker, dispatcher="process")
        pid = await ref.ask("pid")
        monkeypatch.undo()
        try:
            assert children
            os.kill(pid, signal.SIGKILL)
            while await pid_of(ref) == pid:
                pass
        finally:
            for child in children:
                end(child)
                await asyncio.to_thread(os.waitpid, child, 0)


async def test_a_fork_while_a_worker_is_started_does_not_hold_up_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    children: list[int] = []
    forks: list[threading.Thread] = []
    real = subprocess._fork_exec  # type: ignore[attr-defined]

    def fork_meanwhile(*args: Any) -> Any:
        thread = threading.Thread(target=lambda: children.append(_fork_a_sleeper()))
        forks.append(thread)
        thread.start()
        thread.join(0.1)  # it is to fork now, if it can
        return real(*args)

    async with ActorSystem(config=ONE) as system:
        monkeypatch.setattr(subprocess, "_fork_exec", fork_meanwhile)
        ref = system.spawn(Forker, dispatcher="process")
        try:
            await ref.started()
        finally:
            monkeypatch.undo()
            for thread in forks:
                await asyncio.to_thread(thread.join)
            (child,) = children
            end(child)
            await asyncio.to_thread(os.waitpid, child, 0)


def _fork_a_sleeper() -> int:
    """The id of a child that does nothing, for long."""
    child = os.fork()
    if child == 0:
        sleep(600.0)
        os._exit(0)
    return child


def test_a_forked_child_of_the_program_has_none_of_its_connections(tmp_path: Path) -> None:
    with ActorSystem(config=ONE) as system:
        ref = system.spawn(Forker, dispatcher="process")
        pid = ref.ask_sync("pid")
        child = os.fork()
        if child == 0:
            # At the end of the child nothing may happen to the workers of its parent.
            process.end_all()
            (tmp_path / "open").write_text("\n".join(fds().values()))
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        kept = set((tmp_path / "open").read_text().split("\n"))
        gone = [what.partition(":")[0] for what in fds().values() if what not in kept]
        assert (gone.count("socket"), "pipe" in gone) == (1, True)
        assert ref.ask_sync("pid") == pid


@pytest.mark.parametrize("what", ["tell", "request", "log"])
async def test_a_child_that_a_guest_forks_cannot_speak_for_it(what: str, tmp_path: Path) -> None:
    async with ActorSystem(config=ONE) as system:
        ref, other = (system.spawn(Forker, dispatcher="process") for _ in range(2))
        pid = await ref.ask("pid")
        more = (other,) if what == "tell" else ()
        outcome = await ref.ask((f"fork and {what}", *more, tmp_path / "outcome"))
        assert outcome == "done" if what == "log" else "WorkerLost" in outcome
        assert await ref.ask("pid") == await other.ask("pid") == pid


async def test_a_child_that_goes_on_in_the_loop_of_its_parent_ends_and_disturbs_nobody() -> None:
    async with ActorSystem(config=ONE) as system:
        ref = system.spawn(Forker, dispatcher="process")
        pid = await ref.ask("pid")
        for _ in range(3):
            assert await ref.ask("fork and return") > 0
        assert await ref.ask("pid") == pid


async def test_a_guest_can_use_a_pool_of_forked_processes() -> None:
    async with ActorSystem(config=ONE) as system:
        ref = system.spawn(Forker, dispatcher="process")
        assert await ref.ask("multiprocessing") == [1, 2, 3]
        assert await ref.ask("multiprocessing") == [1, 2, 3]


async def test_the_standard_input_of_a_worker_is_empty() -> None:
    async with ActorSystem(config=ONE) as system:
        ref = system.spawn(Reader, dispatcher="process")
        pid = await ref.ask("pid")
        assert await ref.ask("cat") == b""
        assert await ref.ask("input") == "end of file"
        assert await ref.ask("close") == "closed"
        assert await ref.ask("pid") == pid


async def test_a_worker_that_is_stopped_or_keeps_its_lock_does_not_keep_the_system_from_ending() -> None:
    async with ActorSystem(config=ONE) as system:
        ref = system.spawn(Hooked, dispatcher="process")
        pid = await ref.ask("pid")
        os.kill(pid, signal.SIGSTOP)
        await system.shutdown(timeout=0.1)
        assert not _is_running(pid)


# -- no worker outlives the program

_PROGRAM = """
import asyncio, ctypes, os, signal, sys, time
from greenroom import ActorSystem, Process, SystemConfig
from greenroom.system.dispatchers.processes.pool import process
from tests.system.dispatchers.processes.unruly import Busy

process._KERNEL_ENDS_CHILDREN = KERNEL
config = SystemConfig(dispatchers={"process": Process(workers=4)}, stop_timeout=0.1)

async def occupy(system):
    # One waits, one keeps its lock, one is stopped, one runs Python.
    refs = [system.spawn(Busy, dispatcher="process") for _ in range(4)]
    pids = [await ref.ask("pid", timeout=None) for ref in refs]
    begun = asyncio.Semaphore(0)
    aio = asyncio.get_running_loop()
    witness = system.spawn(lambda ctx, message: aio.call_soon_threadsafe(begun.release))
    for message, ref in zip((("until", sys.argv[0] + "none", witness), ("keep the lock", witness)), refs):
        ref.tell(message)
        await begun.acquire()
    os.kill(pids[2], signal.SIGSTOP)
    print(*pids, flush=True)

async def main():
    async with ActorSystem(config=config) as system:
        await occupy(system)
        HOW

async def forgotten():
    system = await ActorSystem(config=config).start()
    await occupy(system)

START
"""
_INSIDE = "asyncio.run(main())"
_THREAD = """
with asyncio.Runner() as runner:
    system = ActorSystem(config=config).__enter__()
    runner.run(occupy(system))
"""
# Holds on to all that the program had open, and outlives the test's patience: nobody sees an end of file.
_FORK = """
        if child := os.fork():
            print(child, flush=True)
            os._exit(0)
        os.close(1)
        time.sleep(600)
        os._exit(0)
"""
WAYS = {
    "SIGKILL": ("os.kill(os.getpid(), 9)", _INSIDE),
    "SIGSEGV": ("ctypes.string_at(0)", _INSIDE),
    "SIGTERM": ("os.kill(os.getpid(), 15)", _INSIDE),
    "SIGINT": ("os.kill(os.getpid(), 2)", _INSIDE),
    "abort": ("os.abort()", _INSIDE),
    "_exit": ("os._exit(1)", _INSIDE),
    "exit": ("sys.exit(3)", _INSIDE),
    "exception": ("raise ValueError", _INSIDE),
    "another program": ("os.execv('/bin/true', ['true'])", _INSIDE),
    "fork holds on": (_FORK, _INSIDE),
    "return": ("pass", "asyncio.run(forgotten())"),
    "return, system on a thread": ("pass", _THREAD),
}


@pytest.mark.parametrize(
    ("way", "kernel"),
    [*((way, True) for way in WAYS), *((way, False) for way in ("SIGKILL", "exit", "fork holds on"))],
    ids=lambda given: given if isinstance(given, str) else "kernel" if given else "reaper",
)
def test_no_worker_outlives_the_program(way: str, kernel: bool, tmp_path: Path) -> None:
    how, start = WAYS[way]
    text = _PROGRAM.replace("HOW", how).replace("START", start).replace("KERNEL", str(kernel))
    (tmp_path / "program.py").write_text(text)
    path = os.pathsep.join(entry for entry in sys.path if entry)
    program = subprocess.run(  # it returns when nobody holds its standard output any more
        [sys.executable, str(tmp_path / "program.py")],
        env={**os.environ, "PYTHONPATH": path, "PYTHONFAULTHANDLER": ""},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        timeout=PATIENCE,
        check=False,
    )
    *workers, last = (int(pid) for pid in program.stdout.split())
    if len(workers) == 3:
        workers.append(last)
    deadline = monotonic() + PATIENCE
    try:
        while any(map(_is_running, workers)):
            assert monotonic() < deadline, workers
            sleep(0.01)  # they are not ours: nothing says when they end
    finally:
        if last not in workers:
            end(last)


def _is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"
