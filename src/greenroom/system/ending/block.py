"""The body of an `async with` block, as the system sees it: a task that can be made to leave.

A task group cancels its body when one of its tasks fails, and then raises what failed. A system does the same when it
fails, and when a signal tells it to end. The body's own cancellation, by somebody else, stays what it is.
"""

from __future__ import annotations

import asyncio
from typing import Any

__all__ = ["Block"]


class Block:
    """The task in the body of one block, from `enter` to `leave`."""

    __slots__ = ("_before", "_cancelled", "_task")

    def __init__(self) -> None:
        self._task: asyncio.Task[Any] | None = None
        # How often it had been cancelled when it came in; and whether we have done it once more.
        self._before = 0
        self._cancelled = False

    def enter(self) -> None:
        """The body begins, in the current task."""
        task = self._task = asyncio.current_task()
        self._before = 0 if task is None else task.cancelling()

    def interrupt(self) -> bool:
        """Cancel the body; False if it is over. On the system's own thread."""
        if self._task is None or self._cancelled:
            return self._cancelled
        if asyncio.current_task() is self._task:
            # Its own code does this. It leaves at its next `await`, unless that is where it leaves anyway.
            asyncio.get_running_loop().call_soon(self._cancel)
        else:
            self._cancel()
        return True

    def _cancel(self) -> None:
        if self._task is not None and not self._cancelled:
            self._cancelled = self._task.cancel()

    def leave(self, exc: BaseException | None) -> bool:
        """The body has ended with `exc`: whether that is our doing, and nobody else's."""
        task = self._task
        self._task = None
        if task is None or not self._cancelled or asyncio.current_task() is not task:
            return False
        cancelled_by_others = task.uncancel() > self._before
        return isinstance(exc, asyncio.CancelledError) and not cancelled_by_others
