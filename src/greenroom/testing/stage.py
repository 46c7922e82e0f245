"""Where a simulation takes place: this thread, with asyncio, time and chance replaced while something runs on it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, TypeVar

from greenroom._core.director import Director
from greenroom.errors import SimulationEndless, SimulationStuck
from greenroom.testing.patches import Patches
from greenroom.testing.virtual import VirtualLoop

__all__ = ["Stage"]

T = TypeVar("T")

_TO_WIND_UP = 100_000
"""Further steps that a program has which is broken off, to end its actors."""


class Stage:
    """An asyncio loop on a virtual clock. What runs on it is simulated; between two runs, this thread is as ever."""

    def __init__(self, director: Director, seed: int) -> None:
        self.director = director
        self._patches = Patches(director, seed)
        self._loop = VirtualLoop(director)

    def run(self, main: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Run `main()` to its end. When that cannot come, say why; everything else is broken off too, then."""
        with self._patches:
            task = self._loop.create_task(main())
            try:
                return self._loop.run_until_complete(task)
            except SimulationStuck:
                stuck = SimulationStuck(self._who_waits())
            except SimulationEndless:
                stuck = None
            self._wind_up()
        raise SimulationEndless(self.director.max_steps) if stuck is None else stuck

    def close(self) -> None:
        """Break off what is left, and give everything back."""
        if not self._loop.is_closed():
            with self._patches:
                self._wind_up()
                self._loop.close()
            if self.director.faults is not None:
                self.director.faults.close()

    def _wind_up(self) -> None:
        """Cancel what is left and let it end."""
        loop = self._loop
        self.director.allow(_TO_WIND_UP)
        left = sorted((task for task in asyncio.all_tasks(loop) if not task.done()), key=_name_of)
        for task in left:
            task.cancel()
        with suppress(SimulationStuck, SimulationEndless):
            if left:
                loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
            loop.run_until_complete(loop.shutdown_asyncgens())

    def _who_waits(self) -> tuple[str, ...]:
        """The tasks that wait, and where."""
        return tuple(map(_where, sorted(asyncio.all_tasks(self._loop), key=_name_of)))


def _name_of(task: asyncio.Task[Any]) -> tuple[int, str]:
    name = task.get_name()  # Task-9 is before Task-10
    return len(name), name


def _where(task: asyncio.Task[Any]) -> str:
    """The name of a task, and the innermost line at which it waits."""
    coroutine: Any = task.get_coro()
    name = coroutine.__qualname__
    frame = None
    while coroutine is not None:
        frame = getattr(coroutine, "cr_frame", None) or frame
        name = getattr(coroutine, "__qualname__", name)
        coroutine = getattr(coroutine, "cr_await", None)
    return f"{task.get_name()} in {name}" + (f", {frame.f_code.co_filename}:{frame.f_lineno}" if frame else "")
