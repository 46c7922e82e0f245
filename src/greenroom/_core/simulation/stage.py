"""What a director knows of whoever gives the loops of a simulation virtual threads."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Protocol, TypeVar

__all__ = ["Stage"]

T = TypeVar("T")


class Stage(Protocol):
    """Several virtual threads on one real one, of which one runs at a time.

    Each has an event loop of its own. To the loops of one, the others are foreign: `RunQueue.thread` is this thread's
    number while their own virtual thread runs, and 0 while another does. So what one sends another goes the way that
    it goes between real threads.
    """

    def open(self, loop: Any, name: str) -> asyncio.AbstractEventLoop:
        """Begin a virtual thread for `loop`, which belongs to it from now on; its event loop."""
        ...

    def end(self, aio: asyncio.AbstractEventLoop) -> None:
        """End a virtual thread on which nothing is left to do."""
        ...

    def call(self, loop: Any, action: Callable[[], T]) -> T:
        """Call `action` on the virtual thread of `loop`, now, behind what others have brought to that."""
        ...
