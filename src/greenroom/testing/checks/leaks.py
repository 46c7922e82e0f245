"""`detect_leaks`: fails a test that leaves something running or open."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from greenroom.actor.messaging.asking import require_timeout
from greenroom.errors import BadArgument
from greenroom.testing.checks.resources import Leak, live_resources, open_process_wide_resources

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

__all__ = ["Leak", "LeakDetector", "LeaksFound", "detect_leaks"]

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
    require_timeout(patience)
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
        for key, leak in live_resources():
            if leak.kind in self._kinds:
                yield key, leak
