"""Which hand-off each thread is working on, for threads that are not a loop's own.

A thread finds its own entry by its number. This lies apart from `handoff`, because nearly everything may look here, and
only systems with such threads import the rest.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from greenroom._core.mailbox.cell import Cell
    from greenroom._core.ports import Pending

__all__ = ["CurrentHandoff", "current_handoffs", "current_reader"]


class CurrentHandoff(Protocol):
    """What can be asked of the hand-off that a thread works on; `Handoff` is one."""

    cell: Cell
    question: Pending | None
    """What its thread waits for, if it is known: an answer, for one."""

    awaits: bool
    """Whether its code awaits something: then it is a coroutine."""

    @property
    def carries_messages(self) -> bool:
        """Whether it is messages that are handled, and no other call."""
        ...

    def is_awaiting_itself(self) -> bool:
        """Whether the code that runs here is its own, and no task of its making."""
        ...

    def waits(self, begins: bool) -> None:
        """Its thread begins, or ends, to wait for an answer."""
        ...

    def is_closed(self) -> bool:
        """Whether nobody waits for it any more."""
        ...

    def hurry(self) -> None:
        """Begin nothing further: something more urgent has come."""
        ...

    def touch(self) -> None:
        """It has something to do again: what it waited for has come."""
        ...

    def tick_soon(self) -> None:
        """Have its actor's loop tick, so that whoever waits for that to be idle looks again."""
        ...


current_handoffs: dict[int, CurrentHandoff] = {}
"""By the thread's number. Each entry is written and removed by that thread alone, and a dict bears that."""

current_reader: ContextVar[object] = ContextVar("greenroom_reader", default=None)
"""The alias of the meta-process whose `start()` runs here, on a thread of its own or as a task."""
