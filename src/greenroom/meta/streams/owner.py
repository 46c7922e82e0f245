"""How a meta-process tells its owner what comes, holds the source up when the owner is slow, and ends with it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from greenroom._core.delivery.admission import Waiter
from greenroom.actor.messaging.waiting import End, on_loop
from greenroom.exits import NORMAL, ExitReason
from greenroom.lanes import Lane
from greenroom.meta.process.metaprocess import MetaProcess

if TYPE_CHECKING:
    from greenroom._core.mailbox.cell import Cell
    from greenroom._core.scheduler.loop import Loop
    from greenroom.actor.messaging.ref import ActorRef, Alias

__all__ = ["Outlet", "OwnedProcess"]


class OwnedProcess(MetaProcess):
    """A meta-process of Greenroom's own that never blocks, and has an owner: its parent, unless it is given another."""

    _on_loop: ClassVar[bool] = True
    _owner: ActorRef | None = None
    # Tells of the owner's end, if that is not the parent.
    _owner_end: OwnerEnd | None = None

    @property
    def _loop(self) -> Loop:
        loop: Loop = self._spawned().ctx.cell.loop
        return loop

    def _recipient(self) -> ActorRef:
        return self._owner or self.parent

    def _end_with(self, owner: ActorRef, ended: Callable[[], object]) -> None:
        """Have `ended` called when the owner, which is `owner` from now on, has ended."""
        self._leave_owner()
        self._owner = owner
        if owner != self.parent:
            self._owner_end = OwnerEnd(owner, ended)

    def _leave_owner(self) -> None:
        owner_end, self._owner_end = self._owner_end, None
        if owner_end is not None:
            owner_end.cancel()

    def _tell_owner(self, message: object) -> None:
        """Tell the owner now, or as soon as there is room."""
        cell = self._recipient()._cell
        if not cell.loop.admission.send_if_room(cell, message, self.id, Lane.DATA):
            _wait_in_line(cell, message, self.id)

    def _bury(self, message: object, why: str) -> None:
        self._spawned().bury(message, why)

    def _bury_unwritten(self, message: object, error: Exception) -> None:
        self.log.error("this cannot be written, and is a dead letter: %s", error)
        self._bury(message, f"cannot be written: {error}")

    def _end(self) -> None:
        cell = self._spawned().ctx.cell
        cell.loop.host.request_end(cell, NORMAL)

    def inspect(self, *items: str) -> Mapping[str, Any]:
        shown = self._shown()
        return {name: shown[name] for name in items if name in shown} if items else shown

    def _shown(self) -> dict[str, Any]:
        raise NotImplementedError


class OwnerEnd:
    """Calls a function when an actor has ended for good, even while messages wait for it. On the loop's own thread."""

    __slots__ = ("_call", "_waiter", "has_failed")

    def __init__(self, owner: ActorRef, call: Callable[[], object]) -> None:
        # Whether it ended by an exception.
        self.has_failed = False
        self._call: Callable[[], object] | None = call
        self._waiter = End(owner._cell)
        self._waiter.finish = self._ended
        self._waiter.begin()

    def _ended(self, result: object, cause: BaseException | None) -> None:
        self.has_failed = isinstance(result, ExitReason) and result.cause is not None
        call, self._call = self._call, None
        if call is not None:
            call()

    def cancel(self) -> None:
        if self._call is not None:
            self._call = None
            self._waiter.leave()


def _wait_in_line(owner: Cell, message: object, sender: Alias) -> None:
    waiter = Waiter(message, sender, Lane.DATA, lambda refused: None)
    on_loop(owner, partial(owner.loop.admission.wait_for_room, owner, waiter))


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
        """Have the source wait."""
        raise NotImplementedError

    def _resume(self) -> None:
        """Have the source go on: all has been told."""
        raise NotImplementedError

    def hand_over(self, owner: ActorRef) -> None:
        """Tell `owner` what waits, and what comes from now on."""
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
        if not self._loop.admission.send_if_room(owner, message, self.alias, Lane.DATA):
            self._pending = deque((message,))
            self._pause()
            self._deliver_pending()

    def _deliver_pending(self) -> None:
        pending, owner, admission = self._pending, self._owner, self._loop.admission
        if self._waiter is not None or self.holds or owner is None or pending is None:
            return
        while pending:
            if not admission.send_if_room(owner, pending[0], self.alias, Lane.DATA):
                self._stand_in_line(owner, pending[0])
                return
            pending.popleft()
        self._pending = None
        self._resume()

    def _stand_in_line(self, owner: Cell, message: object) -> None:
        """Wait for room in the owner's mailbox, which may be one of another loop."""

        def let_in(refused: BaseException | None) -> None:
            if owner.loop is self._loop:
                self._let_in(waiter)
            else:
                self._loop.inbound.post_back(None, partial(self._let_in, waiter))

        waiter = self._waiter = Waiter(message, self.alias, Lane.DATA, let_in)
        on_loop(owner, partial(owner.loop.admission.wait_for_room, owner, waiter))

    def _let_in(self, waiter: Waiter) -> None:
        """What waited for room is in the owner's mailbox, or nowhere."""
        if waiter is self._waiter:
            self._waiter = None
            if self._pending:
                self._pending.popleft()
            self._deliver_pending()

    def _leave_line(self) -> None:
        owner, waiter = self._owner, self._waiter
        if owner is not None and waiter is not None:
            self._waiter = None
            on_loop(owner, partial(owner.loop.admission.give_up, owner, waiter))

    def is_behind(self) -> bool:
        return self._pending is not None

    def is_heard(self) -> bool:
        return self._owner is not None and not self._owner.closed

    def leave(self) -> None:
        """End; what waits is told as soon as there is room."""
        owner, waiter = self._owner, self._waiter
        pending: deque[object] = self._pending or deque()
        self._owner = self._waiter = self._pending = None
        if waiter is not None:
            pending.popleft()  # which it brings: it stays in line, before the others
        for message in pending:
            if owner is not None:
                _wait_in_line(owner, message, self.alias)

    def give_up(self) -> None:
        """End; what waits is a dead letter."""
        self._leave_line()
        pending, self._pending = self._pending, None
        owner = None if self._owner is None else self._owner.shown()
        for message in pending or ():
            self._loop.host.publish(message, self.alias, owner, "its source ended")
        self._owner = None
        self.holds = False
