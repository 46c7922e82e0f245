"""Runs coroutines in a simulation: with the event loop, time and randomness of this thread replaced meanwhile."""

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
from greenroom.errors import SimulationEndless, SimulationStuck
from greenroom.errors.base import add_note, in_words
from greenroom.testing.simulating.patches import Patches
from greenroom.testing.simulating.virtualthreads import MainEventLoop

__all__ = ["Main", "SimulationRunner"]

T = TypeVar("T")
Main = Callable[[], Coroutine[Any, Any, T]]
"""A function whose coroutine is run, as by `asyncio.run`."""

_PROGRAM = "the program"
_TO_WIND_UP = 100_000
"""How many more steps a cancelled program has to end its actors, and turns of the event loop to end its tasks."""
_MOVES_TO_WIND_UP = 10_000
"""How often the clock may move meanwhile: a task that sleeps so often after its cancellation never ends."""
_ASYNCIO = str(Path(asyncio.__file__).parent)
_WILL_NOT_END = "tasks were cancelled when all else was over, and went on as if nothing had happened"


class SimulationRunner:
    """Runs coroutines on a virtual event loop, like `asyncio.Runner`. Between two runs, the thread is not simulated."""

    def __init__(self, director: Director, seed: int, *, has_threads: bool = True) -> None:
        """`has_threads`: whether the further loops of a system get virtual threads. If not, systems have one loop."""
        self.director = director
        self._patches = Patches(director, seed)
        self._patches.require_free()
        self._loop = MainEventLoop(director)
        if has_threads:
            director.stage = self._loop

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Close it, without hiding an earlier error."""
        try:
            self.close()
        except SimulationStuck:
            if exc is None:
                raise

    @property
    def next_moment(self) -> float:
        """The time of the next deadline; inf if there is none."""
        return self._loop.next_moment()

    def run(self, main: Main[T]) -> T:
        """Run `main()` and return its result. If it cannot end, cancel everything, and raise an error that says why."""
        __tracebackhide__ = True
        try:
            return self._run(main)
        finally:
            self._patches.__exit__()  # again: Ctrl-C may have come while the patches were undone

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
            self.director.unheeded = []  # those of cancelled actors do not count
        raise end from unheeded

    def _unheeded(self) -> BaseException | None:
        """What an actor raised and nobody got to know. Each is returned once: a session may go on, or be closed."""
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
        """Add a note to the program's exception about what actors raised before: that may be the reason."""
        unheeded, self.director.unheeded = self.director.unheeded, []
        for cause, who in unheeded:
            if cause is not exc:
                add_note(exc, f"Before, {who} let out {in_words(cause)}, and nobody was told.")

    def close(self) -> None:
        """Cancel what is left, and close the loop. Raise if a task does not end when it is cancelled."""
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
        """Cancel all tasks and let them end. Return those that do not."""
        loop = self._loop
        self.director.allow(_TO_WIND_UP)
        loop.allow(_TO_WIND_UP, _MOVES_TO_WIND_UP)
        left = sorted(loop.tasks(), key=_name_of)
        for task in left:
            task.cancel()
        with suppress(SimulationStuck, SimulationEndless):
            if left:
                loop.run_until_complete(_all_ended(loop, left))
            for one in loop.all_loops():
                loop.run_until_complete(one.shutdown_asyncgens())
        loop.allow(inf, inf)
        return [task for task in left if not task.done()]

    def _who_waits(self) -> tuple[str, ...]:
        """The tasks and actors that wait, and where."""
        tasks = [_waiting(_title_of(task), task) for task in sorted(self._loop.tasks(), key=_name_of)]
        cells = [cell for loop in self.director.loops for cell in loop.table if cell.task is not None]
        return (*tasks, *(_waiting(cell.name(), cell.task) for cell in cells))

    def _who_ran(self) -> str | None:
        """The actor that last handled a message, if it is still alive."""
        for loop in self.director.loops:
            cell = loop.table.find(self.director.last_actor)
            if cell is not None:
                name: str = cell.name()
                return name
        return None


def _all_ended(loop: MainEventLoop, tasks: list[asyncio.Task[object]]) -> asyncio.Future[None]:
    """A future that ends when all have ended, on whichever virtual thread."""
    waiting = set(tasks)
    ended: asyncio.Future[None] = loop.create_future()

    def note(task: asyncio.Task[object]) -> None:
        waiting.discard(task)
        if not task.cancelled():
            task.exception()  # which counts as seen
        if not waiting and not ended.done():
            ended.set_result(None)

    for task in tasks:
        task.add_done_callback(note)
    return ended


def _name_of(task: asyncio.Task[object]) -> tuple[int, str]:
    name = task.get_name()  # by length first: Task-9 comes before Task-10
    return len(name), name


def _title_of(task: asyncio.Task[object]) -> str:
    name = task.get_name()  # the default names differ from run to run
    return "a task" if name.startswith("Task-") else name


def _abandon(task: asyncio.Task[object]) -> str:
    """Leak a task that does not end. Return its name and where it waits.

    Freeing its coroutine would run it once more. A coroutine that swallows every exception would then loop for ever
    inside a finalizer. So we never free it.
    """
    task._log_destroy_pending = False  # type: ignore[attr-defined]  # the error says so
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(task.get_coro()))
    return _waiting(_title_of(task), task)


def _waiting(who: str, task: asyncio.Task[object] | HandlerTask) -> str:
    """Describe who waits, in which function, and at which innermost line outside asyncio."""
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
