"""Where a simulation takes place: this thread, with asyncio, time and chance replaced while something runs on it."""

from __future__ import annotations

import asyncio
import ctypes
from collections.abc import Callable, Coroutine
from contextlib import suppress
from math import inf
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from greenroom._core.scheduler.stepping import HandlerTask
from greenroom._core.simulation.director import Director
from greenroom.errors import SimulationEndless, SimulationStuck, add_note, in_words
from greenroom.testing.simulating.patches import Patches
from greenroom.testing.simulating.virtualeventloop import VirtualEventLoop

__all__ = ["Main", "SimulationRunner"]

T = TypeVar("T")
Main = Callable[[], Coroutine[Any, Any, T]]
"""An `async def` without arguments, as `asyncio.run` takes the result of."""

_PROGRAM = "the program"
_TO_WIND_UP = 100_000
"""Further steps that a program has which is broken off, to end its actors; and turns of asyncio, to end its tasks."""
_MOVES_TO_WIND_UP = 10_000
"""How often the clock may move meanwhile: who has slept so often since it was cancelled will sleep again."""
_ASYNCIO = str(Path(asyncio.__file__).parent)
_WILL_NOT_END = "tasks were cancelled when all else was over, and went on as if nothing had happened"


class SimulationRunner:
    """An asyncio loop on a virtual clock. What runs on it is simulated; between two runs, this thread is as ever."""

    def __init__(self, director: Director, seed: int) -> None:
        self.director = director
        self._patches = Patches(director, seed)
        self._patches.require_free()
        self._loop = VirtualEventLoop(director)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Close it. What went wrong before is what should be seen."""
        try:
            self.close()
        except SimulationStuck:
            if exc is None:
                raise

    @property
    def next_moment(self) -> float:
        """When something is next due; inf if nothing is."""
        return self._loop.next_moment()

    def run(self, main: Main[T]) -> T:
        """Run `main()` to its end. When that cannot come, say why; everything else is broken off too, then."""
        __tracebackhide__ = True
        try:
            return self._run(main)
        finally:
            self._patches.__exit__()  # once more: Ctrl-C may have come at the very door

    def _run(self, main: Main[T]) -> T:
        __tracebackhide__ = True
        with self._patches:
            task = self._loop.create_task(main(), name=_PROGRAM)
            try:
                result = self._loop.run_until_complete(task)
                if self._loop.internal_error is not None:
                    raise self._loop.internal_error
            except SimulationStuck:
                end: Exception = SimulationStuck(self._who_waits())
            except SimulationEndless:
                end = SimulationEndless(self.director.max_steps, self._who_ran())
            except BaseException as exc:
                self._mention_unheeded(exc)
                raise
            else:
                unheeded = self._unheeded()
                if unheeded is not None:
                    raise unheeded
                return result
            unheeded = self._unheeded()
            self._wind_up()
            self.director.unheeded = []  # by what was broken off
        raise end from unheeded

    def _unheeded(self) -> BaseException | None:
        """What an actor has let out and nobody was told; once, for a session may go on, or be closed."""
        director = self.director
        refused, director.refused = director.refused, None
        unheeded, director.unheeded = director.unheeded, []
        if refused is not None:
            told: BaseException = refused
            others = unheeded
        elif unheeded:
            (told, who), *others = unheeded
            add_note(told, f"It was {who} that let it out, and nobody was told: a simulation fails then.")
        else:
            return None
        for cause, who in others:
            add_note(told, f"Besides, {who} let out {in_words(cause)}.")
        return told

    def _mention_unheeded(self, exc: BaseException) -> None:
        """Say, of what the program raises, what an actor let out before: it may be because of that."""
        unheeded, self.director.unheeded = self.director.unheeded, []
        for cause, who in unheeded:
            if cause is not exc:
                add_note(exc, f"Before, {who} let out {in_words(cause)}, and nobody was told.")

    def close(self) -> None:
        """Break off what is left, and give everything back. Raises if a task does not let itself be broken off."""
        if not self._loop.is_closed():
            try:
                with self._patches:
                    stubborn = self._wind_up()
            finally:
                self._patches.__exit__()
                self._loop.close()
            if self.director.faults is not None:
                self.director.faults.close()
            if stubborn:
                raise SimulationStuck(tuple(_abandon(task) for task in stubborn), _WILL_NOT_END)

    def _wind_up(self) -> list[asyncio.Task[object]]:
        """Cancel what is left and let it end: those tasks that do not."""
        loop = self._loop
        self.director.allow(_TO_WIND_UP)
        loop.allow(_TO_WIND_UP, _MOVES_TO_WIND_UP)
        left = sorted((task for task in asyncio.all_tasks(loop) if not task.done()), key=_name_of)
        for task in left:
            task.cancel()
        with suppress(SimulationStuck, SimulationEndless):
            if left:
                loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
            loop.run_until_complete(loop.shutdown_asyncgens())
        loop.allow(inf, inf)
        return [task for task in left if not task.done()]

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


def _name_of(task: asyncio.Task[object]) -> tuple[int, str]:
    name = task.get_name()  # Task-9 is before Task-10
    return len(name), name


def _title_of(task: asyncio.Task[object]) -> str:
    name = task.get_name()  # numbers go on from one run to the next
    return "a task" if name.startswith("Task-") else name


def _abandon(task: asyncio.Task[object]) -> str:
    """Let a task be that does not end, for ever: who it was, and where it waits.

    Its coroutine must not even be freed, which would have it run once more: one that swallows every exception would
    then swallow that there is no loop, and turn round and round inside a finalizer.
    """
    task._log_destroy_pending = False  # type: ignore[attr-defined]  # we say so ourselves
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(task.get_coro()))
    return _waiting(_title_of(task), task)


def _waiting(who: str, task: asyncio.Task[object] | HandlerTask) -> str:
    """Who waits, in which function, and the innermost line, but for those of asyncio."""
    coroutine = task.get_coro()
    name = getattr(coroutine, "__qualname__", type(coroutine).__name__)
    frame = None
    while coroutine is not None:
        own = getattr(coroutine, "cr_frame", None)
        if frame is None or (own is not None and not own.f_code.co_filename.startswith(_ASYNCIO)):
            frame = own or frame
            name = getattr(coroutine, "__qualname__", name)
        coroutine = getattr(coroutine, "cr_await", None)
    where = f", {frame.f_code.co_filename}:{frame.f_lineno}" if frame else ""
    return f"{who} waits in {name}{where}"
