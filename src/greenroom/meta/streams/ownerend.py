"""Tells a meta-process that the owner of what it does has ended, even while its messages wait."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from greenroom.actor.messaging.waiting import LifeWaiter, end_of
from greenroom.exits import ExitReason

if TYPE_CHECKING:
    from greenroom.actor.messaging.ref import ActorRef

__all__ = ["OwnerEnd"]


class OwnerEnd:
    """Calls a function when an actor has ended, for good; not if it is restarted. On the loop's own thread."""

    __slots__ = ("_call", "_waiter", "has_failed", "owner")

    def __init__(self, owner: ActorRef, call: Callable[[], object]) -> None:
        self.owner = owner
        # Whether it ended by an exception.
        self.has_failed = False
        self._call: Callable[[], object] | None = call
        self._waiter: LifeWaiter = end_of(owner._cell, self)
        self._waiter.begin()

    def end(self, result: object, cause: BaseException | None = None) -> None:
        """It has."""
        self.has_failed = isinstance(result, ExitReason) and result.cause is not None
        call, self._call = self._call, None
        if call is not None:
            call()

    def cancel(self) -> None:
        """Do not call."""
        if self._call is not None:
            self._call = None
            self._waiter.leave()
