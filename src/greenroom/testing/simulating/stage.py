"""Where a simulation takes place: this thread, with asyncio, time and chance replaced while something runs on it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, TypeVar

from greenroom._core.director import Director
from greenroom.errors import SimulationEndless, SimulationStuck
from greenroom.testing.simulating.patches import Patches
from greenroom.testing.simulating.virtual import VirtualLoop

__all__ = ["Stage"]

T = TypeVar("T")

_PROGRAM = "the program"
_TO_WIND_UP = 100_000
"""Further steps that a program has which is broken off, to end its actors."""


class Stage:
    """An asyncio loop on a virtual clock. What runs on it is simulated; between two runs, this thread is as ever."""

    def __init__(self, director: Director, seed: int) -> None:
        self.director = director
        self._patches = Patches(director, seed)
        self._patches.require_free()
        self._loop = VirtualLoop(director)

    def run(self, main: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Run `main()` to its end. When that cannot come, say why; everything else is broken off too, then."""
        __tracebackhide__ = True
        try:
            return self._run(main)
        finally:
            self._patches.__exit__()  # once more: Ctrl-C may have come at the very door

    def _run(self, main: Callable[[], Coroutine[Any, Any, T]]) -> T:
        __tracebackhide__ = True
        with self._patches:
            task = self._loop.create_task(main(), name=_PROGRAM)
            try:
                result = self._loop.run_until_complete(task)
                if self._loop.internal_error is not None:
                    raise self._loop.internal_error
                refused, self.director.refused = self.director.refused, None
                if refused is not None:  # told once: a session may go on, or be closed
                    raise refused
                return result
            except SimulationStuck:
                end: Exception = SimulationStuck(self._who_waits())
            except SimulationEndless:
                end = SimulationEndless(self.director.max_steps, self._who_ran())
            self._wind_up()
        raise end

    def close(self) -> None:
        """Break off what is left, and give everything back."""
        if not self._loop.is_closed():
            try:
                with self._patches:
                    self._wind_up()
            finally:
                self._patches.__exit__()
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
        """The tasks and the actors that wait, and where."""
        tasks = [_waiting(_title_of(task), task) for task in sorted(asyncio.all_tasks(self._loop), key=_name_of)]
        cells = [cell for loop in self.director.loops for cell in loop.table if cell.task is not None]
        return (*tasks, *(_waiting(cell.name(), cell.task) for cell in cells))

    def _who_ran(self) -> str | None:
        """The actor that last handled a message, if it is still there."""
        for loop in self.director.loops:
            cell = loop.table.find(self.director.last_actor)
            if cell is not None:
                name: str = cell.name()
                return name
        return None


def _name_of(task: asyncio.Task[Any]) -> tuple[int, str]:
    name = task.get_name()  # Task-9 is before Task-10
    return len(name), name


def _title_of(task: asyncio.Task[Any]) -> str:
    name = task.get_name()  # numbers go on from one run to the next
    return "a task" if name.startswith("Task-") else name


def _waiting(who: str, task: Any) -> str:
    """Who waits, in which function, and the innermost line."""
    coroutine = task.get_coro()
    name = getattr(coroutine, "__qualname__", type(coroutine).__name__)
    frame = None
    while coroutine is not None:
        frame = getattr(coroutine, "cr_frame", None) or frame
        name = getattr(coroutine, "__qualname__", name)
        coroutine = getattr(coroutine, "cr_await", None)
    where = f", {frame.f_code.co_filename}:{frame.f_lineno}" if frame else ""
    return f"{who} waits in {name}{where}"
