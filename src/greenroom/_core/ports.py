"""What the lower rooms of the core know of upper ones, as protocols."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

__all__ = ["Awaited", "CarriedMessages", "Hand", "Named", "Pending", "PendingHandoff"]


class Pending(Protocol):
    """Something that is waited for: `Question` is one."""

    def done(self) -> bool:
        """Whether it has ended, in whichever way."""
        ...


class Awaited(Protocol):
    """What a suspended handler waits for: a future of asyncio's, or a `Wait`."""

    def cancel(self, msg: object = None) -> bool:
        """Give up waiting; False when it is over."""
        ...

    def remove_done_callback(self, fn: object, /) -> int:
        """The handler that waits is broken off."""
        ...


class CarriedMessages(Protocol):
    """Messages of one cell that are handled elsewhere, as the cell's own loop sees them; `MessageHandoff` is one."""

    @property
    def sender(self) -> object:
        """Who sent the message in hand: a ref, nobody, or a receipt."""
        ...

    def hurry(self) -> None:
        """Begin nothing further: something more urgent has come."""
        ...

    def withdraw(self) -> None:
        """An order has come: give back what has not been begun, if that would have to wait."""
        ...

    def keep_the_rest(self) -> None:
        """Let nothing that was not begun be begun."""
        ...

    def let_done_go(self) -> None:
        """Those that are done leave the mailbox."""
        ...

    def done(self) -> int:
        """How many messages stand in the mailbox though they are done, or in hand."""
        ...


class Named(Protocol):
    """Something that can be named in logs and errors: `Cell` is one."""

    def name(self) -> str:
        """What to call it."""
        ...


class PendingHandoff(Protocol):
    """Work that another thread does for a cell, as the cell's loop keeps it; `Handoff` is it."""

    @property
    def cell(self) -> Named:
        """Whose work it is."""
        ...

    def is_at_rest(self) -> bool:
        """Whether it is known to wait for something that its own loop has to bring about."""
        ...

    def report_rest(self, tell: Callable[[], object], /) -> None:
        """Have `tell` called when it may be known to be at rest."""
        ...


class Helper(Protocol):
    """Who may be at work for a loop without a hand-off: a worker process, a task on another thread."""

    @property
    def name(self) -> str:
        """What people know it by."""
        ...

    def is_at_rest(self) -> bool:
        """Whether it is known to wait for something that the loop has to bring about."""
        ...

    def report_rest(self, tell: Callable[[], object], /) -> None:
        """Have `tell` called when it may be known to be at rest."""
        ...


class Hand(Protocol):
    """What has a message of an actor in hand: the `Visits` of its loop, or a `MessageHandoff`."""

    @property
    def kind(self) -> int:
        """What is in hand, as in `itemkinds`."""
        ...

    @property
    def lane(self) -> int:
        """The lane it came by."""
        ...

    @property
    def message(self) -> object:
        """The message."""
        ...

    @property
    def sender(self) -> object:
        """Who sent it: a ref, nobody, or a receipt."""
        ...

    def stash(self) -> tuple[object, object, int]:
        """Take it away, to be handled later: the message, its sender and its lane."""
        ...

    def let_sender_go(self) -> None:
        """It is answered by somebody else."""
        ...
