"""What happens to a message that does not simply walk into the data lane.

Side lanes, receipts, orders by key, mailboxes that are full or closed: everything that `Cell.tell` hands on comes here.

A sender that waits for room stands in line here. The place that a message leaves is given to the first in line before
anybody else can see it.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from greenroom._core.delivery.outcomes import Outcomes
from greenroom._core.delivery.propagation import Propagation
from greenroom._core.delivery.waitingline import Waiter, WaitingLine
from greenroom._core.flags import INTERCEPTED, OFFLOADED, PROPAGATES, ROOM
from greenroom._core.itemkinds import ATOMS
from greenroom._core.mailbox.cell import Cell
from greenroom._core.receipt import NOTICE, Receipt, Told
from greenroom._core.simulation.director import Director
from greenroom.errors import MailboxFull
from greenroom.errors.base import in_words
from greenroom.lanes import Lane, Overflow, as_lane

if TYPE_CHECKING:
    from greenroom._core.delivery.ports import LoopHost, RoomReservations
    from greenroom._core.observerhooks import ObserverHooks

__all__ = ["Admission"]

EMPTY = -1
DATA = 1

LOOKED_AT = INTERCEPTED | PROPAGATES

_DATA = Lane.DATA
_REJECT = Overflow.REJECT
_DROP_OLD = Overflow.DROP_OLD
_LANES = tuple(Lane)


class Admission(Outcomes):
    """Admission to the mailboxes of one loop, and the account of its messages."""

    __slots__ = ("_line", "director", "inbound", "propagation")

    def __init__(
        self,
        host: LoopHost,
        hooks: ObserverHooks,
        director: Director | None = None,
        propagation: Propagation | None = None,
    ) -> None:
        super().__init__(host, hooks)
        self.director = director
        # Invariant: not None iff the loop's cells have PROPAGATES in their flags
        self.propagation = propagation
        self.inbound: RoomReservations = None  # type: ignore[assignment]
        self._line = WaitingLine()

    def admit(self, cell: Cell, message: object, sender: object, lane: Lane) -> None:
        """Let a message in, or do what the mailbox's policy says. For the loop's thread."""
        if type(lane) is not Lane:
            lane = as_lane(lane)
        if self._is_looked_at(cell):
            sender = self.take_along(cell, sender)
            if self._is_intercepted(cell, message, sender, lane):
                return
        if self.director is None or not self.director.sends(cell, message, sender, lane):
            self.decide(cell, message, sender, lane)

    # By the .pxd, `cell` is known to be one only here: `admit` is declared where there are no cells yet.
    def _is_looked_at(self, cell: Cell) -> bool:
        return bool(cell.flags & LOOKED_AT)

    def take_along(self, cell: Cell, sender: object) -> object:
        """What stands in the sender's place, with the context variables that travel. On the sender's thread."""
        if cell.flags & PROPAGATES and self.propagation is not None:
            return self.propagation.take_along(sender)
        return sender

    def _is_intercepted(self, cell: Cell, message: object, sender: object, lane: Lane) -> bool:
        """Whether the floor above has dealt with a message; what it raises, the sender hears."""
        if not cell.flags & INTERCEPTED or (cell.flags & OFFLOADED and type(message) in ATOMS):
            return False
        intercepted = self.host.intercept(cell, message, sender, lane)
        return intercepted  # noqa: RET504 - a C number, by the .pxd

    def decide(self, cell: Cell, message: object, sender: object, lane: Lane) -> None:
        """What `admit` does with a message that is here, and not on its way."""
        if cell.closed:
            self.turn_away(cell, message, sender)
        elif cell.priority is not None and lane is _DATA:
            self._admit_by_key(cell, message, sender)
        elif not self._is_full(cell, lane):
            self._let_in(cell, message, sender, lane)
        elif cell.config.overflow is _DROP_OLD:
            self._displace(cell, lane)
            if cell.closed:  # by whoever was told of the displaced one
                self.turn_away(cell, message, sender)
            else:
                self._let_in(cell, message, sender, lane)
        else:
            self._refuse(cell, message, sender, lane)

    def _admit_by_key(self, cell: Cell, message: object, sender: object) -> None:
        """As `admit`, where letting in runs a user's code: the key, and comparisons of keys."""
        if cell.config.overflow is _DROP_OLD:
            # In first, then another out: a message without a place in the order must cost nobody else's.
            self._let_in(cell, message, sender, _DATA)
            if not cell.closed and cell.depth(_DATA) > cell.capacity:
                self._displace(cell, _DATA)
        elif self.inbound.reserve(cell, _DATA):
            try:
                self._let_in(cell, message, sender, _DATA)
            finally:
                self.inbound.unreserve(cell, _DATA)
        else:
            self._refuse(cell, message, sender, _DATA)

    def deliver(self, cell: Cell, message: object, sender: object, lane: Lane) -> None:
        """Let in a message whose sender cannot be told that it was refused: a timer's tick, say."""
        try:
            self.admit(cell, message, sender, lane)
        except MailboxFull:
            tally = cell.count_aside()
            tally.rejected -= 1
            self.totals.rejected -= 1
            self.turn_away(cell, message, sender, "mailbox full")
        except BaseException as exc:
            self._turn_away_keyless(cell, message, sender, exc)

    def deliver_if_room(self, cell: Cell, message: object, sender: object, lane: Lane) -> bool:
        """As `deliver`, if there is room; else False, and nothing has happened."""
        try:
            return self.admit_if_room(cell, message, sender, lane)
        except BaseException as exc:
            self._turn_away_keyless(cell, message, sender, exc)
            return True

    def deliver_sent(self, cell: Cell, message: object, sender: object, lane: Lane) -> None:
        """As `deliver`, for what a foreign thread sent to a mailbox that drops its oldest."""
        if self.director is None:
            self.deliver(cell, message, sender, lane)
            return
        # The director was told when it was sent.
        try:
            self.decide(cell, message, sender, lane)
        except BaseException as exc:
            self._turn_away_keyless(cell, message, sender, exc)

    def let_in_reserved(self, cell: Cell, message: object, sender: object, lane: Lane) -> None:
        """Let in a message from a foreign thread, for which room is reserved."""
        try:
            if cell.closed:
                self.turn_away(cell, message, sender)
            else:
                self._let_in(cell, message, sender, lane)
        except BaseException as exc:
            self._turn_away_keyless(cell, message, sender, exc)

    def _is_full(self, cell: Cell, lane: Lane) -> bool:
        if lane is _DATA:
            if cell.depth(DATA) + cell.reserved < cell.capacity:
                return False
            if not cell.flags & OFFLOADED:
                return True
            handoff = cell.handoff()
            if handoff is not None:
                handoff.let_done_go()
            return cell.depth(DATA) + cell.reserved >= cell.capacity
        reserved: int = self.inbound.reserved(cell, lane)
        return cell.depth(lane) + reserved >= cell.config.room(lane)

    def _let_in(self, cell: Cell, message: object, sender: object, lane: Lane) -> None:
        if lane is _DATA:
            cell.enqueue(DATA, message, sender)
        else:
            cell.enqueue(lane, message, sender)
            tally = cell.count_aside()
            tally.sent_aside += 1
            self.totals.sent_aside += 1
            if cell.flags & OFFLOADED:
                self._overtake(cell)
        if cell.ended:
            # Its key, or a comparison of keys, has ended the actor meanwhile, and what it was sent is counted.
            if lane is _DATA:
                self.totals.sent_aside += 1
            self.clear(cell, "stopped")
        else:
            cell.make_runnable()

    def _overtake(self, cell: Cell) -> None:
        """Something has come that goes before the messages that are away."""
        handoff = cell.handoff()
        if handoff is not None:
            handoff.hurry()

    def _displace(self, cell: Cell, lane: Lane) -> None:
        message, sender = cell.evict(lane)
        tally = cell.count_aside()
        tally.dropped += 1
        self.totals.dropped += 1
        self.tell_dropped(cell, message, sender, lane)

    def _refuse(self, cell: Cell, message: object, sender: object, lane: Lane) -> None:
        tally = cell.count_aside()
        if cell.config.overflow is _REJECT:
            tally.rejected += 1
            self.totals.rejected += 1
            self.tell_full(cell, message, sender, lane)
            raise MailboxFull(cell.shown(), message, lane, cell.config.room(lane))
        tally.sent_aside += 1
        tally.dropped += 1
        self.totals.sent_aside += 1
        self.totals.dropped += 1
        self.tell_dropped(cell, message, sender, lane)

    def turn_away(self, cell: Cell, message: object, sender: object, why: str = "stopped") -> None:
        """A message that never stood in the mailbox becomes a dead letter."""
        tally = cell.count_aside()
        tally.sent_aside += 1
        self.totals.sent_aside += 1
        self.bury(cell, message, sender, why)

    def _turn_away_keyless(self, cell: Cell, message: object, sender: object, exc: BaseException) -> None:
        if cell.flags & INTERCEPTED and isinstance(exc, Exception):
            self.turn_away(cell, message, sender, f"it cannot be sent: {in_words(exc)}")
            return
        if isinstance(exc, MemoryError):
            self.turn_away(cell, message, sender, "there is no memory for it")
            return
        if cell.priority is None or cell.closed:
            raise exc  # no key was asked: somebody who was told of something raised
        self.turn_away(cell, message, sender, f"its priority cannot be told: {in_words(exc)}")
        if not isinstance(exc, Exception):
            raise exc

    def clear(self, cell: Cell, why: str) -> None:
        """Make every message that waits for `cell` a dead letter; notices and withdrawn messages just go."""
        found = self.take_next(cell)
        while found is not None:
            self.bury(cell, found[0], found[1], why)
            found = self.take_next(cell)
        if cell.flags & ROOM:
            self._dismiss(cell, why)

    def take_next(self, cell: Cell) -> tuple[object, object] | None:
        """Take the next message that waits for `cell`, with its sender; it is the caller's to account for."""
        while True:
            lane = cell.choose()
            if lane == EMPTY:
                return None
            sender = cell.sender_of(lane)
            message = cell.take_from(lane)
            if sender is NOTICE:
                continue
            if isinstance(sender, Receipt) and not sender.live():
                self.count_withdrawn(cell, sender)
                continue
            return message, sender

    def redirect(self, cell: Cell, target: Cell, message: object, sender: object) -> None:
        """Send a message that was taken from `cell` to `target` instead, from the same sender."""
        tally = cell.count_aside()
        tally.redirected += 1
        self.totals.redirected += 1
        if target.flags & PROPAGATES and not isinstance(sender, Receipt):
            sender = Told(sender, ())  # it has brought nothing, wherever we are now
        # Nobody is there to be told that it was refused, so it is let in on the target's own thread.
        let_in = partial(target.loop.admission.deliver, target, message, sender, _DATA)
        if not target.is_foreign():
            let_in()
        elif not target.runq.inbound.call(target, let_in):
            target.post(message, sender, _DATA)  # its loop has stopped: a dead letter

    def take_back(self, cell: Cell, message: object, sender: object, lane: int) -> None:
        """Queue a message again that was put aside, before all others of its lane."""
        cell.put_back(lane, message, sender)
        if lane == DATA:
            # It entered the data lane a second time, but was sent once.
            tally = cell.count_aside()
            tally.sent_aside -= 1
            self.totals.sent_aside -= 1
        self.count_stashed(cell, -1)
        cell.make_runnable()

    def wait_for_room(self, cell: Cell, waiter: Waiter) -> None:
        """Let a message in as soon as there is room, behind those who wait already."""
        self._line.join(cell, waiter)
        if cell.closed:
            self._dismiss(cell, "stopped")
        else:
            self.fill_up(cell)

    def has_room(self, cell: Cell, lane: Lane) -> bool:
        """Whether a message would be let in, and nobody waits for that."""
        if self.director is not None:
            self.director.approaches(cell)
        return cell.closed or (self._line.is_empty(cell, lane) and not self._is_full(cell, lane))

    def admit_if_room(self, cell: Cell, message: object, sender: object, lane: Lane) -> bool:
        """As `admit`, if there is room and nobody waits for it; else False, and nothing has happened. From any thread.

        Nobody can take the room meanwhile, as other threads could between `has_room` and `admit`.
        """
        if cell.is_foreign():
            return cell.runq.inbound.offer_if_room(cell, message, sender, lane)  # type: ignore[no-any-return]
        if not self.has_room(cell, lane):
            return False
        if cell.closed:
            self.admit(cell, message, sender, lane)
            return True
        if not self._reserve(cell, lane):
            return False
        try:
            self._admit_reserved(cell, message, sender, lane)
        finally:
            self._unreserve(cell, lane)
        return True

    # In a simulation nobody comes between, and the director reserves room itself for what it holds back.
    def _reserve(self, cell: Cell, lane: Lane) -> bool:
        return self.director is not None or self.inbound.reserve(cell, lane)

    def _unreserve(self, cell: Cell, lane: Lane) -> None:
        if self.director is None:
            self.inbound.unreserve(cell, lane)

    def _admit_reserved(self, cell: Cell, message: object, sender: object, lane: Lane) -> None:
        """As `admit`, when room is reserved for the message."""
        if self.director is not None:
            self.admit(cell, message, sender, lane)
            return
        if cell.flags & LOOKED_AT:
            sender = self.take_along(cell, sender)
            if self._is_intercepted(cell, message, sender, lane):
                return
        if cell.closed:
            self.turn_away(cell, message, sender)
        else:
            self._let_in(cell, message, sender, lane)

    def give_up(self, cell: Cell, waiter: Waiter) -> None:
        """Take `waiter` out of the line, if it still stands there."""
        self._line.leave(cell, waiter)

    def fill_up(self, cell: Cell) -> None:
        """Let in those who wait for room, as far as there is some."""
        for lane in _LANES:
            while not self._line.is_empty(cell, lane) and not cell.closed and not self._is_full(cell, lane):
                if not self._reserve(cell, lane):
                    break
                try:
                    self._let_waiter_in(cell, self._line.pop(cell, lane))
                finally:
                    self._unreserve(cell, lane)

    def _let_waiter_in(self, cell: Cell, waiter: Waiter) -> None:
        if waiter.claim is not None and not waiter.claim():
            return
        try:
            self._admit_reserved(cell, waiter.message, waiter.sender, waiter.lane)
        except BaseException as exc:  # its priority cannot be told: that is the sender's to hear
            waiter.finish(exc)
        else:
            waiter.finish(None)

    def _dismiss(self, cell: Cell, why: str) -> None:
        """`cell` has closed: what waits for room there is a dead letter."""
        for waiter in self._line.dissolve(cell):
            if waiter.claim is not None and not waiter.claim():
                continue
            self.turn_away(cell, waiter.message, waiter.sender, why)
            waiter.finish(None)
