"""Lists what a test may leak: systems, actors, tasks, threads, processes and open files, each with a unique key.

Resources of the whole process are no leaks, even if a test was the first to need them: the pipe that libuv opens with
its first loop, and the helper processes of `multiprocessing`.
"""

from __future__ import annotations

import asyncio
import concurrent.futures.thread
import gc
import os
import sys
import threading
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from types import CodeType
from typing import NamedTuple

from greenroom._core.simulation.director import director_here
from greenroom.actor.records import systems as registry
from greenroom.system.ending.report import Phase
from greenroom.system.watchdog import WATCHDOG

__all__ = ["Leak", "live_resources", "open_process_wide_resources"]

_OPEN_FILES = Path("/proc/self/fd")
_PROC = Path("/proc")
_CHILDREN = "self/task/*/children"

_POOL_WORKER: CodeType = concurrent.futures.thread._worker.__code__
"""The code of a thread-pool worker. If it is the innermost frame of a thread, that thread is idle."""

_HELPERS = {
    "multiprocessing.resource_tracker": ("_resource_tracker", "_pid", "_fd"),
    "multiprocessing.forkserver": ("_forkserver", "_forkserver_pid", "_forkserver_alive_fd"),
}
"""Per module: the helper object, its attribute for the process id, and that for the fd which keeps it alive."""


class Leak(NamedTuple):
    """One leaked resource: its kind (`system`, `actor`, `task`, ...), its name, and details."""

    kind: str
    """`system`, `actor`, `task`, `thread`, `process` or `fd`."""
    name: str
    detail: str = ""
    alias: str = ""
    """Another name by which it can be ignored."""

    def __str__(self) -> str:
        return f"{self.kind} {self.name}{self.detail}"

    def is_one_of(self, patterns: Iterable[str]) -> bool:
        """Whether one of its names matches one of the patterns."""
        return any(fnmatchcase(name, pattern) for pattern in patterns for name in (self.name, self.alias) if name)


def live_resources() -> Iterator[tuple[object, Leak]]:
    """Everything that is alive or open now, each with its key."""
    yield from _systems()
    yield from _tasks()
    yield from _threads()
    yield from _processes()
    yield from _open_files()


def open_process_wide_resources() -> None:
    """Open what is opened once per process before the first listing, so that the test does not open it."""
    if director_here() is None:  # a simulation has no loops but its own
        _open_pipe_of_libuv()


@cache
def _open_pipe_of_libuv() -> None:
    # uvloop's first loop opens a pipe for signals and never closes it. A system in a plain `with` runs on uvloop.
    with suppress(ImportError):
        import uvloop

        uvloop.new_event_loop().close()


def _systems() -> Iterator[tuple[object, Leak]]:
    """Running systems, and the actors of any system."""
    for token, system in sorted(registry._systems.items()):
        phase = system.phase
        if phase in (Phase.RUNNING, Phase.DRAINING, Phase.STOPPING):
            yield token, Leak("system", system.name, f", which is {phase}")
        # Read from this thread, without asking the system's own thread: that may be stuck.
        for cell in list(system._loop.table):
            path = cell.name()
            where = f" of the system {system.name}, which is {'not started' if phase == Phase.NEW else phase}"
            yield (token, cell.id), Leak("actor", path, where, f"{system.name}{path}")


def _tasks() -> Iterator[tuple[object, Leak]]:
    """Unfinished tasks of the running asyncio loop."""
    if asyncio._get_running_loop() is None:
        return
    for task in sorted(asyncio.all_tasks(), key=lambda task: task.get_name()):
        coro: object = task.get_coro()
        name = getattr(coro, "__qualname__", type(coro).__name__)
        frame = getattr(coro, "cr_frame", None)
        place = "" if frame is None else f" at {frame.f_code.co_filename}:{frame.f_lineno}"
        yield task, Leak("task", task.get_name(), f", in {name}(){place}", name)


def _threads() -> Iterator[tuple[object, Leak]]:
    """Threads that are alive, except idle ones in the running loop's own pool."""
    running = {number: frame.f_code for number, frame in sys._current_frames().items()}
    known = threading.enumerate()
    pool = _threads_of_own_pool()
    for thread in known:
        if thread.name == WATCHDOG:
            continue  # it runs as long as there are systems, and those are listed
        if thread in pool:
            if running.get(thread.ident or 0) is not _POOL_WORKER:
                yield thread, Leak("thread", thread.name, ", of the running loop's pool, which is at work")
        else:
            yield thread, Leak("thread", thread.name, ", a daemon" if thread.daemon else "")
    for number in running.keys() - {thread.ident for thread in known}:
        yield ("thread", number), Leak("thread", str(number), ", which was started without `threading`")


def _threads_of_own_pool() -> frozenset[threading.Thread]:
    loop = asyncio._get_running_loop()
    if loop is None:
        return frozenset()
    pools = [getattr(loop, "_default_executor", None)]
    if pools == [None]:  # uvloop hides it, but the garbage collector finds what a loop refers to
        pools = [one for one in gc.get_referents(loop) if isinstance(one, ThreadPoolExecutor)]
    return frozenset(thread for pool in pools for thread in list(getattr(pool, "_threads", ())))


def _processes() -> Iterator[tuple[object, Leak]]:
    """Running child processes, where there is a /proc."""
    helpers = {number for number, _ in _helpers()}
    for file in _PROC.glob(_CHILDREN):
        with suppress(OSError):  # the thread has ended meanwhile
            for number in file.read_text().split():
                if int(number) not in helpers:
                    yield from _process(number)


def _process(number: str) -> Iterator[tuple[object, Leak]]:
    with suppress(OSError):  # it has ended meanwhile
        stat = (_PROC / number / "stat").read_text(errors="replace")
        name, _, rest = stat.partition(" (")[2].rpartition(") ")
        state, began = rest.split()[0], rest.split()[19]
        command = (_PROC / number / "cmdline").read_text(errors="replace").replace("\0", " ").strip()
        if state not in "ZX":  # zombie or dead
            yield ("process", number, began), Leak("process", name, f", number {number}: {command[:80]}", command)


def _helpers() -> Iterator[tuple[int | None, int | None]]:
    """The ids of multiprocessing's helper processes, and the fds that keep them alive."""
    for module, (name, number, descriptor) in _HELPERS.items():
        helper = getattr(sys.modules.get(module), name, None)
        yield getattr(helper, number, None), getattr(helper, descriptor, None)


def _open_files() -> Iterator[tuple[object, Leak]]:
    """Open files and sockets, where there is a /proc."""
    if not _OPEN_FILES.is_dir():
        return
    helpers = {descriptor for _, descriptor in _helpers()}
    for entry in list(_OPEN_FILES.iterdir()):
        number = int(entry.name)
        try:
            target = str(entry.readlink())
            status = os.fstat(number)
        except OSError:  # opened by the listing itself, or closed by another thread
            continue
        # An open file may be renamed or removed, so its key is its inode. Names of sockets and pipes have a unique
        # number. Others (`anon_inode:[eventpoll]`) share one inode, so their key is the name.
        what = (status.st_dev, status.st_ino) if target.startswith("/") else target
        if number not in helpers:
            yield (number, what), Leak("fd", target, f", number {entry.name}", entry.name)
