"""Tells an owner what comes from outside, and holds the source up when the owner's mailbox is full."""

from __future__ import annotations

from collections import deque
from functools import partial
from typing import TYPE_CHECKING

from greenroom._core.delivery.waitingline import Waiter
from greenroom.actor.messaging.waiting import on_loop
from greenroom.lanes import Lane

if TYPE_CHECKING:
    from greenroom._core.mailbox.cell import Cell
    from greenroom._core.scheduler.loop import Loop
    from greenroom.actor.messaging.ref import ActorRef, Alias

__all__ = ["Outlet"]

DATA = Lane.DATA


class Outlet:
    """What a source is to its owner. All its methods are for the loop's own thread. A subclass says how to pause."""

    __slots__ = ("_loop", "_owner", "_pending", "_waiter", "alias", "holds")

    alias: Alias

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self._owner: Cell | None = None
        # What waits for room in the owner's mailbox, or for an owner; None while nothing does.
        self._pending: deque[object] | None = None
        self._waiter: Waiter | None = None
        # Whether it waits for an owner.
        self.holds = False

    def _pause(self) -> None:
        """Let nothing more come."""
        raise NotImplementedError

    def _resume(self) -> None:
        """Go on: all has been told."""
        raise NotImplementedError

    def hand_over(self, owner: ActorRef) -> None:
        """Let what comes from now on, and what waits, go to `owner`."""
        self._leave_line()
        self._owner = owner._cell
        self.holds = False
        if self._pending is not None:
            self._deliver_pending()

    def hold(self) -> None:
        """Tell nothing more until there is another owner."""
        self.holds = True
        self._pause()
        if self._pending is None:
            self._pending = deque()

    def tell(self, message: object) -> None:
        """Tell the owner, now or when there is room."""
        if self._pending is not None:
            self._pending.append(message)
            return
        owner = self._owner
        if owner is None:
            return
        if not self._loop.admission.admit_if_room(owner, message, self.alias, DATA):
            self._pending = deque((message,))
            self._pause()
            self._deliver_pending()

    def _deliver_pending(self) -> None:
        """Tell the owner what waits, as far as there is room; then go on."""
        pending, owner, admission = self._pending, self._owner, self._loop.admission
        if self._waiter is not None or self.holds or owner is None or pending is None:
            return
        while pending:
            if not admission.admit_if_room(owner, pending[0], self.alias, DATA):
                self._stand_in_line(owner, pending[0])
                return
            pending.popleft()
        self._pending = None
        self._resume()

    def _stand_in_line(self, owner: Cell, message: object) -> None:
        """Wait for room in the owner's mailbox, which may be one of another loop."""
        admission = owner.loop.admission
        if owner.loop is self._loop:
            self._waiter = Waiter(message, self.alias, DATA, self._let_in)
            admission.wait_for_room(owner, self._waiter)
            return

        def let_in(refused: BaseException | None) -> None:
            self._loop.inbound.bring(None, partial(self._let_in_elsewhere, waiter, refused))

        waiter = self._waiter = Waiter(message, self.alias, DATA, let_in)
        on_loop(owner, partial(admission.wait_for_room, owner, waiter))

    def _let_in_elsewhere(self, waiter: Waiter, refused: BaseException | None) -> None:
        if waiter is self._waiter:
            self._let_in(refused)

    def _leave_line(self) -> None:
        owner, waiter = self._owner, self._waiter
        if owner is not None and waiter is not None:
            self._waiter = None
            on_loop(owner, partial(owner.loop.admission.give_up, owner, waiter))

    def _let_in(self, refused: BaseException | None) -> None:
        """What waited for room is in the owner's mailbox, or nowhere."""
        self._waiter = None
        if self._pending:
            self._pending.popleft()
        self._deliver_pending()

    def is_behind(self) -> bool:
        """Whether something waits to be told."""
        return self._pending is not None

    def is_heard(self) -> bool:
        """Whether somebody is there to be told."""
        return self._owner is not None and not self._owner.closed

    def give_up(self) -> None:
        """Nobody is to be told any more: what waits is a dead letter."""
        self._leave_line()
        pending, self._pending = self._pending, None
        owner = None if self._owner is None else self._owner.shown()
        for message in pending or ():
            self._loop.host.publish(message, self.alias, owner, "its source ended")
        self._owner = None
        self.holds = False
