"""What a loop asks of the floor above it: the few things that are not a matter of cells and messages.

This one serves bare cells; the actor floor puts its own in its place.
"""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

from greenroom._core.behavior import BehaviorBase
from greenroom._core.mailbox.cell import Cell
from greenroom.exits import ends_system
from greenroom.lanes import Lane
from greenroom.runtimelog import RuntimeLog

_log = RuntimeLog()


class HostBase:
    """What every host is: the few things that it is asked for so often that finding the method would show."""

    __slots__ = ()

    def carry_out(self, cell: Cell, what: int) -> object:
        """Do what a `HostOrder` of this number stands for; what it returns is treated as a handler's result."""
        raise NotImplementedError

    def behavior_returned(self, cell: Cell, behavior: BehaviorBase) -> None:
        """A handler returned a behavior. If this raises, the handler has failed."""

    def spawn_child(self, parent: Cell, factory: Any, args: tuple[Any, ...]) -> Any:
        """Bring up a child of an actor of this loop, without options; its ref. For the loop's thread."""
        raise NotImplementedError


class Host(HostBase):
    """Cells without actors above them: a failed one is logged and ends, a notice is handled like a message."""

    def unhandled(self, cell: Cell, message: object, sender: object) -> None:
        """A handler said that a message or notice was not for its actor."""

    def suspended(self, cell: Cell) -> None:
        """A handler suspends while orders wait for its end, or an order does."""

    def message_taken(self, cell: Cell) -> None:
        """A cell that has `NOTIFY_TAKEN` set takes a message."""

    def offload(self, cell: Cell, message: object, sender: object, lane: int) -> Coroutine[object, None, object]:
        """Have a message to a cell that has `OFFLOADED` set handled elsewhere; what its handler returned, or raised."""
        raise NotImplementedError

    def intercept(self, cell: Cell, message: object, sender: object, lane: Lane) -> bool:
        """Look at a message to a cell that has `INTERCEPTED` set, before it is let in, and raise what its sender should
        hear; True when it is let in nowhere, because it has been dealt with. For the loop's thread.
        """
        return False

    def examine(self, cell: Cell, message: object) -> None:
        """Look at a message to such a cell that comes from another thread, and raise what its sender should hear."""

    def awaits(self, question: object) -> None:
        """A handler waits for the answer to a question that was put to such a cell, and for nothing else."""

    def gave_up(self, question: object) -> None:
        """The answer to such a question is not waited for any more."""

    def absorb(self, cell: Cell, result: object) -> object:
        """Do what a handler that works elsewhere has returned, if that can be done there; what is left of it."""
        return result

    def notice(self, cell: Cell, notice: object) -> object:
        """Handle a notice in its turn; what it returns is treated as a handler's result."""
        return cell.handler(cell.subject, notice)

    def refuses(self, cell: Cell, message: object, sender: object, cause: BaseException) -> bool:
        """Whether what a handler let out is an answer to the message in hand, and no failure. It must not raise."""
        return False

    def failed(self, cell: Cell, message: object, cause: BaseException) -> None:
        """A handler, notice or order let `cause` out. What is raised here leaves the tick."""
        if ends_system(cause):
            raise cause
        _log.error("%s failed on %r and ends", cell.name(), message, exc_info=cause, extra=self.log_fields(cell))
        cell.loop.retire(cell)

    def waits_for_time(self) -> bool:
        """Whether messages are queued that can be handled only when some time has passed."""
        return False

    def ref_of(self, cell: Cell) -> object:
        """What errors and observers are given for a cell without a ref."""
        return cell

    def log_fields(self, cell: Cell) -> dict[str, object]:
        """What a log record about a cell has in its fields, so that who it is about need not be read from its text."""
        return {"actor": cell.name(), "actor_id": cell.id}

    def dead_letter(self, cell: Cell, message: object, sender: object, why: str) -> None:
        """A message can never be handled. May be called by any thread once the loop has stopped."""

    def dropped(self, cell: Cell, message: object, sender: object, lane: Lane) -> None:
        """A message was dropped by the overflow policy. Called on the sender's thread."""
