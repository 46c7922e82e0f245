"""The owner of a meta-process: how it is told what comes, and holds the source up while it is slow."""

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


class OwnedProcess(MetaProcess):
    """A meta-process of Greenroom's own that never blocks. Its owner is its parent, unless it is given another."""

    _on_loop: ClassVar[bool] = True
    _owner: ActorRef | None = None
    # Tells of the owner's end, unless the owner is the parent.
    _owner_end: OwnerEnd | None = None

    @property
    def _loop(self) -> Loop:
        loop: Loop = self._spawned().ctx.cell.loop
        return loop

    def _recipient(self) -> ActorRef:
        return self._owner or self.parent

    def _end_with(self, owner: ActorRef, ended: Callable[[], object]) -> None:
        """Make `owner` the owner, and call `ended` when it has ended."""
        self._leave_owner()
        self._owner = owner
        if owner != self.parent:
            self._owner_end = OwnerEnd(self._loop, owner, ended)

    def _leave_owner(self) -> None:
        owner_end, self._owner_end = self._owner_end, None
        if owner_end is not None:
            owner_end.cancel()

    def _tell_owner(self, message: object) -> None:
        """Tell the owner, now or as soon as there is room."""
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


class OwnerEnd(End):
    """Calls a function on `loop` when the owner has ended, even while messages wait for it.

    The owner may live on another loop.
    """

    __slots__ = ("_call", "_loop", "has_failed")

    def __init__(self, loop: Loop, owner: ActorRef, call: Callable[[], object]) -> None:
        super().__init__(owner._cell)
        self._loop = loop
        self._call: Callable[[], object] | None = call
        # Whether the owner has ended by an exception.
        self.has_failed = False
        on_loop(self.cell, self.begin)

    def ended(self, reason: ExitReason) -> None:
        if self.cell.loop is self._loop:
            self._tell(reason)
        else:
            self._loop.inbound.post_back(None, partial(self._tell, reason))

    def _tell(self, reason: ExitReason) -> None:
        self.has_failed = reason.cause is not None
        call, self._call = self._call, None
        if call is not None:
            call()

    def cancel(self) -> None:
        self._call = None
        on_loop(self.cell, self.leave)


def _wait_in_line(owner: Cell, message: object, sender: Alias) -> None:
    waiter = Waiter(message, sender, Lane.DATA, lambda refused: None)
    on_loop(owner, partial(owner.loop.admission.wait_for_room, owner, waiter))


class Outlet:
    """Tells an owner what comes from a source, which it pauses meanwhile if the owner has no room.

    All methods are for the loop's own thread.
    """

    __slots__ = ("_loop", "_owner", "_pending", "_waiter", "alias", "holds")

    alias: Alias

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self._owner: Cell | None = None
        # Messages that wait for room in the owner's mailbox, or for an owner; None while the owner has all.
        self._pending: deque[object] | None = None
        self._waiter: Waiter | None = None
        # Whether messages wait for an owner.
        self.holds = False

    def _pause(self) -> None:
        raise NotImplementedError

    def _resume(self) -> None:
        """Have the source go on: the owner has all messages."""
        raise NotImplementedError

    def hand_over(self, owner: ActorRef) -> None:
        """Make `owner` the owner of what waits, and of what comes from now on."""
        self._leave_line()
        self._owner = owner._cell
        self.holds = False
        if self._pending is not None:
            self._deliver_pending()

    def hold(self) -> None:
        """Hold messages back until there is another owner."""
        self.holds = True
        self._pause()
        if self._pending is None:
            self._pending = deque()

    def tell(self, message: object) -> None:
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
        """The message that waited for room is in the owner's mailbox, or refused."""
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

    def has_live_owner(self) -> bool:
        return self._owner is not None and not self._owner.closed

    def detach(self) -> None:
        """Leave the owner, which is told what waits as soon as it has room."""
        owner, waiter = self._owner, self._waiter
        pending: deque[object] = self._pending or deque()
        self._owner = self._waiter = self._pending = None
        if waiter is not None:
            pending.popleft()  # the waiter has this one, and stays in line before the others
        for message in pending:
            if owner is not None:
                _wait_in_line(owner, message, self.alias)

    def discard(self) -> None:
        """Leave the owner, and make dead letters of what waits."""
        self._leave_line()
        pending, self._pending = self._pending, None
        owner = None if self._owner is None else self._owner.shown()
        for message in pending or ():
            self._loop.host.publish(message, self.alias, owner, "its source ended")
        self._owner = None
        self.holds = False
