"""A task that an actor has on another thread's asyncio loop, beside its handlers: `ctx.pipe_to_self` there."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from greenroom._core.timing.turns import after_turns

if TYPE_CHECKING:
    from greenroom._core.mailbox.cell import Cell

__all__ = ["OffloadedPipe"]

_NEVER = -1


class OffloadedPipe:
    """A task of another thread's asyncio loop that ends with the actor. For a manual clock it reports when it waits."""

    __slots__ = ("_aio", "_asked", "_cell", "_settled", "task")

    def __init__(self, cell: Cell, aio: asyncio.AbstractEventLoop, task: asyncio.Task[None]) -> None:
        self._cell = cell
        self._aio = aio
        self.task = task
        # The tick of the actor's loop after which it was last asked to report, and after which it last did. What it
        # waits for comes with a tick.
        self._asked = _NEVER
        self._settled = _NEVER

    @property
    def name(self) -> str:
        """The actor's."""
        return self._cell.name()

    def cancel(self) -> None:
        """End it, from the loop's thread."""
        with suppress(RuntimeError):  # that loop is closed, and the task with it
            self._aio.call_soon_threadsafe(self.task.cancel)

    def is_at_rest(self) -> bool:
        """Whether it has ended, or is known to wait for what the actor's loop has to bring about."""
        if self.task.done() or self._aio.is_closed():
            return True
        future = getattr(self.task, "_fut_waiter", None)
        return self._settled == self._cell.loop.ticks and future is not None and not future.done()

    def report_rest(self, tell: Callable[[], object]) -> None:
        """Have `tell` called, on the other thread, when asyncio there has done what it has ready."""
        ticks = self._cell.loop.ticks
        if self._asked == ticks and self._settled != ticks:
            return  # that is under way

        def settled() -> None:
            self._settled = ticks
            tell()

        self._asked = ticks
        try:
            self._aio.call_soon_threadsafe(after_turns, settled)
        except RuntimeError:  # that loop is closed
            tell()
