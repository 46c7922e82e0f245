"""`detect_leaks`: fails a test that leaves something running or open.

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
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from types import CodeType
from typing import TYPE_CHECKING, NamedTuple

from greenroom._core.world import world_here
from greenroom.actor.records import systems as registry
from greenroom.errors import BadArgument
from greenroom.system.ending.report import Phase
from greenroom.system.watchdog import WATCHDOG
from greenroom.validation import require_delay

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

_POLL_INTERVAL = 0.005
"""Seconds between two checks."""
_SHOWN = 20
"""How many leaks of one kind an error shows at most."""

_REMEDIES = {
    "system": "leave the system's `async with` or `with`, or await `system.shutdown()`",
    "actor": "stop the actor and await `ref.terminated()`",
    "task": "cancel the task and await it",
    "thread": "have the thread end, and join it",
    "process": "end the process, and wait for it",
    "fd": "close the file or socket",
}


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


class LeaksFound(AssertionError):
    """Something outlives the test. `leaks` lists all of it."""

    def __init__(self, leaks: tuple[Leak, ...], hint: str = "") -> None:
        self.leaks = leaks
        super().__init__(_describe(leaks, hint))


def _describe(leaks: tuple[Leak, ...], hint: str) -> str:
    lines = ["something outlives the test:" if len(leaks) == 1 else f"{len(leaks)} things outlive the test:"]
    for kind, remedy in _REMEDIES.items():
        those = [leak for leak in leaks if leak.kind == kind]
        lines.extend(f"  {leak}" for leak in those[:_SHOWN])
        if len(those) > _SHOWN:
            lines.append(f"  and {len(those) - _SHOWN} more of the kind")
        if those:
            lines.append(f"    {remedy}")
    lines.append(f"What is meant to stay is allowed by detect_leaks(ignore=[...]), a name or a pattern of it.{hint}")
    return "\n".join(lines)


def detect_leaks(
    *,
    ignore: str | Iterable[str] = (),
    actors: bool = True,
    tasks: bool = True,
    threads: bool = True,
    processes: bool = True,
    fds: bool = True,
    patience: float = 1.0,
) -> LeakDetector:
    """Raise `LeaksFound` at the end of the `with` or `async with` block if anything new is still running or open.

    >>> import asyncio
    >>> from greenroom import ActorSystem
    >>> async def main():
    ...     async with detect_leaks(patience=0.0):
    ...         async with ActorSystem("demo"):
    ...             asyncio.create_task(asyncio.sleep(60), name="forgotten")
    >>> try:
    ...     asyncio.run(main())
    ... except LeaksFound as found:
    ...     print(*[(leak.kind, leak.name) for leak in found.leaks])
    ('task', 'forgotten')

    It checks running systems and their actors, tasks of the running asyncio loop and threads. Where there is a /proc,
    it also checks child processes, open files and sockets. Each check can be turned off.

    `ignore` takes names, or patterns such as `pool-*`: of a system, an actor (its path, or the path after the system's
    name), a task or its coroutine, a thread, a process or its command, or what an fd refers to.

    Garbage is collected first. What is about to end has `patience` seconds to do so. Tasks need `async with` for that,
    because a plain `with` blocks their loop. If the test raises, its exception passes unchanged.

    Idle threads of the running loop's own pool (`asyncio.to_thread`) are no leaks: they end with the loop. Not detected
    are pending callbacks (`loop.call_later`), unclosed asynchronous generators, tasks of other loops, threads of C
    code, and zombie processes.
    """
    require_delay("timeout", patience)
    patterns = (ignore,) if isinstance(ignore, str) else tuple(ignore)
    for pattern in patterns:
        if not isinstance(pattern, str):
            raise BadArgument(f"ignore takes names and patterns of names, not {pattern!r}")
    kinds = {"system": actors, "actor": actors, "task": tasks, "thread": threads, "process": processes, "fd": fds}
    return LeakDetector(frozenset(kind for kind, wanted in kinds.items() if wanted), patterns, patience)


class LeakDetector:
    """What `detect_leaks` returns."""

    def __init__(self, kinds: frozenset[str], ignore: tuple[str, ...], patience: float) -> None:
        self._kinds = kinds
        self._ignore = ignore
        self._patience = patience
        # What was there before. The keys keep tasks and threads alive, so that no new one gets the id of an old one.
        self._before: dict[object, Leak] = {}

    def __enter__(self) -> Self:
        open_process_wide_resources()
        self._before = dict(self._all())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if exc is None:
            for _ in self._until_clean():
                time.sleep(_POLL_INTERVAL)
        self._before = {}

    async def __aenter__(self) -> Self:
        return self.__enter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if exc is None:
            for _ in self._until_clean(waits_for_tasks=True):
                await asyncio.sleep(_POLL_INTERVAL)
        self._before = {}

    def _until_clean(self, waits_for_tasks: bool = False) -> Iterator[None]:
        """Yield, for the caller to wait, as long as there are leaks; raise when `patience` is over."""
        if not self._leaks():
            return
        gc.collect()
        until = time.monotonic() + self._patience
        while leaks := self._leaks():
            if time.monotonic() >= until:
                held_up = not waits_for_tasks and any(leak.kind == "task" for leak in leaks)
                hint = " Tasks have a chance to end in `async with detect_leaks()`." if held_up else ""
                raise LeaksFound(leaks, hint)
            yield

    def _leaks(self) -> tuple[Leak, ...]:
        return tuple(leak for key, leak in self._all() if key not in self._before and not leak.is_one_of(self._ignore))

    def _all(self) -> Iterator[tuple[object, Leak]]:
        return ((key, leak) for key, leak in live_resources() if leak.kind in self._kinds)


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
    if world_here().is_real:  # a simulation has no loops but its own
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
        where = f" of the system {system.name}, which is {'not started' if phase == Phase.NEW else phase}"
        for number, one in enumerate(system._loops.all()):
            # Read from this thread, without asking the loop's own thread: that may be stuck.
            for cell in list(one.loop.table):
                path = cell.name()
                yield (token, number, cell.id), Leak("actor", path, where, f"{system.name}{path}")


def _tasks() -> Iterator[tuple[object, Leak]]:
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
