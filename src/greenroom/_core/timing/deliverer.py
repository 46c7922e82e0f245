"""Who takes in what a timer sends, as alarms know it."""

from __future__ import annotations

from typing import Protocol

from greenroom._core.mailbox.cell import Cell
from greenroom.lanes import Lane

__all__ = ["Deliverer"]


class Deliverer(Protocol):
    """`Admission` is one."""

    def deliver(self, cell: Cell, message: object, sender: object, lane: Lane, /) -> None:
        """Bring a message to a cell that need not be there any more."""
        ...
