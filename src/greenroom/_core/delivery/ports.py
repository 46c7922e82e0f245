"""What delivery knows of others, as protocols: the floor above its loop, and who keeps room for other threads."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Protocol

from greenroom._core.behavior import BehaviorBase
from greenroom._core.mailbox.cell import Cell
from greenroom.lanes import Lane

__all__ = ["LoopHost", "RoomReservations"]


class LoopHost(Protocol):
    """The host of a loop, for whoever lets messages in and has them handled; `Host` says more of each method."""

    def carry_out(self, cell: Cell, what: int) -> object:
        """Do what a `HostOrder` of this number stands for."""
        ...

    def behavior_returned(self, cell: Cell, behavior: BehaviorBase) -> None:
        """A handler returned a behavior."""
        ...

    def unhandled(self, cell: Cell, message: object, sender: object) -> None:
        """A message was not for its actor."""
        ...

    def suspended(self, cell: Cell) -> None:
        """A handler suspends while orders wait for its end, or an order does."""
        ...

    def message_taken(self, cell: Cell) -> None:
        """A cell that has `NOTIFY_TAKEN` set takes a message."""
        ...

    def offload(self, cell: Cell, message: object, sender: object, lane: int) -> Coroutine[object, None, object]:
        """Have a message handled elsewhere."""
        ...

    def intercept(self, cell: Cell, message: object, sender: object, lane: Lane) -> bool:
        """Look at a message before it is let in; True when it has been dealt with."""
        ...

    def examine(self, cell: Cell, message: object) -> None:
        """The same, from another thread."""
        ...

    def notice(self, cell: Cell, notice: object) -> object:
        """Handle a notice in its turn."""
        ...

    def refuses(self, cell: Cell, message: object, sender: object, cause: BaseException) -> bool:
        """Whether a handler let out an answer, and no failure."""
        ...

    def failed(self, cell: Cell, message: object, cause: BaseException) -> None:
        """A handler, notice or order let `cause` out."""
        ...

    def dead_letter(self, cell: Cell, message: object, sender: object, why: str) -> None:
        """A message can never be handled."""
        ...

    def dropped(self, cell: Cell, message: object, sender: object, lane: Lane) -> None:
        """A message was dropped by the overflow policy."""
        ...


class RoomReservations(Protocol):
    """Who keeps room for messages; `Inbound` does."""

    def reserve(self, cell: Cell, lane: Lane) -> bool:
        """Keep room for one message; False when there is none."""
        ...

    def unreserve(self, cell: Cell, lane: Lane) -> None:
        """Give up the room for one message: it is taken, or not needed any more."""
        ...

    def reserved(self, cell: Cell, lane: Lane) -> int:
        """How much room is reserved in a side lane."""
        ...
