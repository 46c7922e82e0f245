"""What happens to a message that does not simply walk into the data lane, and the account of all messages.

Side lanes, receipts, orders by key, mailboxes that are full or closed: everything that `Cell.accept` hands on comes
here. A sender that waits for room stands in line here. The place that a message leaves is given to the first in line
before anybody else can see it.

Every message ends in exactly one column. Columns are counted twice, with the cell and for the whole loop, so that an
ended cell can be forgotten and its messages cannot.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from greenroom._core.delivery.propagation import Propagation
from greenroom._core.flags import INTERCEPTED, OFFLOADED, PROPAGATES, ROOM
from greenroom._core.itemkinds import ATOMS
from greenroom._core.mailbox.cell import Cell, Tally
from greenroom._core.observerhooks import ObserverHooks
from greenroom._core.receipt import NOTICE, Receipt, Told
from greenroom._core.runqueue import AdmissionBase
from greenroom.errors import MailboxFull
from greenroom.errortext import in_words
from greenroom.lanes import Lane, Overflow, as_lane

if TYPE_CHECKING:
    from greenroom._core.delivery.inbound import Inbound
    from greenroom._core.scheduler.host import Host
    from greenroom._core.simulation.director import Director
    from greenroom.actor.lifecycle import Lifecycle

EMPTY = -1
DATA = 1

LOOKED_AT = INTERCEPTED | PROPAGATES

_DATA = Lane.DATA
_REJECT = Overflow.REJECT
_DROP_OLD = Overflow.DROP_OLD
_LANES = tuple(Lane)


class Waiter:
    """A message that waits for room. `finish` is called once: with None when it is in, or with what prevents it.

    `claim`, if there is one, is called before the message is let in: False when its sender has given up.
    """

    __slots__ = ("claim", "finish", "lane", "message", "sender")

    def __init__(
        self,
        message: object,
        sender: object,
        lane: Lane,
        finish: Callable[[BaseException | None], object],
        claim: Callable[[], bool] | None = None,
    ) -> None:
        self.message = message
        self.sender = sender
        self.lane = lane
        self.finish = finish
        self.claim = claim


class Admission(AdmissionBase):
    """Admission to the mailboxes of one loop, and the account of its messages."""

    def __init__(
        self,
        host: Host | Lifecycle,
        hooks: ObserverHooks,
        director: Director | None = None,
        propagation: Propagation | None = None,
    ) -> None:
        self.host = host
        self.hooks = hooks
        self.director = director
        # Invariant: not None iff the loop's cells have PROPAGATES in their flags
        self.propagation = propagation
        self.inbound: Inbound = None  # type: ignore[assignment]
        # The columns of all cells, living and ended.
        self.totals = Tally()
        # Messages that wait for room. Invariants: no line is empty; ROOM in cell.flags iff a key has that cell
        self._lines: dict[tuple[Cell, Lane], deque[Waiter]] = {}

    # -- sending

    def admit(self, cell: Cell, message: object, sender: object, lane: Lane) -> None:
        """Put a message into its mailbox, or do what the mailbox's policy says. For the loop's thread."""
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
            self._let_in_or_bury(cell, message, sender, lane)  # an observer of the displaced one may have closed it
        else:
            self._refuse(cell, message, sender, lane)

    def _admit_by_key(self, cell: Cell, message: object, sender: object) -> None:
        """Admit a message to a mailbox that a user's key orders: that runs the key, and comparisons of keys."""
        if cell.config.overflow is _DROP_OLD:
            # In first, then another out: a message without a place in the order must not cost another its own.
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
        """Admit a message whose sender cannot be told that it was refused: a timer's tick, say."""
        try:
            self.admit(cell, message, sender, lane)
        except MailboxFull:
            tally = cell.count_aside()
            tally.rejected -= 1
            self.totals.rejected -= 1
            self.turn_away(cell, message, sender, "mailbox full")
        except BaseException as exc:
            self._bury_refused(cell, message, sender, exc)

    def deliver_sent(self, cell: Cell, message: object, sender: object, lane: Lane) -> None:
        """Deliver what a foreign thread sent to a mailbox that drops its oldest. It was examined when it was sent."""
        try:
            self.decide(cell, message, sender, lane)
        except BaseException as exc:
            self._bury_refused(cell, message, sender, exc)

    def deliver_reserved(self, cell: Cell, message: object, sender: object, lane: Lane) -> None:
        """Deliver a message from a foreign thread that has reserved room for it."""
        try:
            self._let_in_or_bury(cell, message, sender, lane)
        except BaseException as exc:
            self._bury_refused(cell, message, sender, exc)

    def _let_in_or_bury(self, cell: Cell, message: object, sender: object, lane: Lane) -> None:
        if cell.closed:
            self.turn_away(cell, message, sender)
        else:
            self._let_in(cell, message, sender, lane)

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
                handoff = cell.handoff()
                if handoff is not None:
                    handoff.hurry()  # this goes before the messages that are away
        if cell.ended:
            # Its key, or a comparison of keys, has ended the actor meanwhile, and what it was sent is counted.
            if lane is _DATA:
                self.totals.sent_aside += 1
            self.clear(cell, "stopped")
        else:
            cell.make_runnable()

    def _displace(self, cell: Cell, lane: Lane) -> None:
        message, sender = cell.evict(lane)
        tally = cell.count_aside()
        tally.dropped += 1
        self.totals.dropped += 1
        self.tell_dropped(cell, message, sender, lane)

    def _refuse(self, cell: Cell, message: object, sender: object, lane: Lane) -> None:
        is_rejected = cell.config.overflow is _REJECT
        self.count_refused(cell, is_rejected, not is_rejected, 0)
        self.tell_refused(cell, message, sender, lane)

    def tell_refused(self, cell: Cell, message: object, sender: object, lane: Lane) -> None:
        """Tell observers, the host and the sender that there was no room. From any thread."""
        if cell.config.overflow is not _REJECT:
            self.tell_dropped(cell, message, sender, lane)
            return
        self.tell_full(cell, message, sender, lane)
        raise MailboxFull(cell.shown(), message, lane, cell.config.room(lane))

    def turn_away(self, cell: Cell, message: object, sender: object, why: str = "stopped") -> None:
        """Make a dead letter of a message that never stood in the mailbox."""
        tally = cell.count_aside()
        tally.sent_aside += 1
        self.totals.sent_aside += 1
        self.bury(cell, message, sender, why)

    def _bury_refused(self, cell: Cell, message: object, sender: object, exc: BaseException) -> None:
        """`exc` kept a message out whose sender cannot be told."""
        if cell.flags & INTERCEPTED and isinstance(exc, Exception):
            self.turn_away(cell, message, sender, f"it cannot be sent: {in_words(exc)}")
            return
        if isinstance(exc, MemoryError):
            self.turn_away(cell, message, sender, "there is no memory for it")
            return
        if cell.priority is None or cell.closed:
            raise exc  # no key was asked: an observer or a drain raised
        self.turn_away(cell, message, sender, f"its priority cannot be told: {in_words(exc)}")
        if not isinstance(exc, Exception):
            raise exc

    def redirect(self, cell: Cell, target: Cell, message: object, sender: object) -> None:
        """Send a message that was taken from `cell` to `target` instead, from the same sender."""
        tally = cell.count_aside()
        tally.redirected += 1
        self.totals.redirected += 1
        if target.flags & PROPAGATES and not isinstance(sender, Receipt):
            sender = Told(sender, ())  # it has brought nothing, wherever we are now
        # A refusal could not be told to its sender, so it is delivered, on the target's own thread.
        let_in = partial(target.loop.admission.deliver, target, message, sender, _DATA)
        if not target.is_foreign():
            let_in()
        elif not target.runq.inbound.post(target, let_in):
            target.post(message, sender, _DATA)  # its loop has stopped: a dead letter

    # -- sending if there is room, and waiting for room

    def send_if_room(self, cell: Cell, message: object, sender: object, lane: Lane) -> bool:
        """Admit a message if there is room and no line for it; else return False and do nothing. From any thread.

        The room cannot be taken meanwhile, as other threads could between `has_room` and `admit`.
        """
        if cell.is_foreign():
            return cell.runq.inbound.send_if_room(cell, message, sender, lane)  # type: ignore[no-any-return]
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

    def deliver_if_room(self, cell: Cell, message: object, sender: object, lane: Lane) -> bool:
        """Send a message if there is room, for a sender that cannot be told that it was refused."""
        try:
            return self.send_if_room(cell, message, sender, lane)
        except BaseException as exc:
            self._bury_refused(cell, message, sender, exc)
            return True

    def has_room(self, cell: Cell, lane: Lane) -> bool:
        """Whether a message would be let in at once, before a line for room."""
        if self.director is not None:
            self.director.approaches(cell)
        return cell.closed or ((cell, lane) not in self._lines and not self._is_full(cell, lane))

    def wait_for_room(self, cell: Cell, waiter: Waiter) -> None:
        """Admit a message as soon as there is room, behind those that wait already."""
        self._lines.setdefault((cell, waiter.lane), deque()).append(waiter)
        cell.flags |= ROOM
        if cell.closed:
            self._dismiss(cell, "stopped")
        else:
            self.fill_up(cell)

    def give_up(self, cell: Cell, waiter: Waiter) -> None:
        """Take `waiter` out of the line, if it still stands there."""
        line = self._lines.get((cell, waiter.lane))
        if line is not None and waiter in line:
            line.remove(waiter)
            self._close_if_empty(cell, waiter.lane, line)

    def _close_if_empty(self, cell: Cell, lane: Lane, line: deque[Waiter]) -> None:
        if not line:
            del self._lines[cell, lane]
            if all((cell, other) not in self._lines for other in _LANES):
                cell.flags &= ~ROOM

    def fill_up(self, cell: Cell) -> None:
        """Admit messages that wait for room, as far as there is some."""
        for lane in _LANES:
            while (cell, lane) in self._lines and not cell.closed and not self._is_full(cell, lane):
                if not self._reserve(cell, lane):
                    break
                try:
                    line = self._lines[cell, lane]
                    waiter = line.popleft()
                    self._close_if_empty(cell, lane, line)
                    self._let_waiter_in(cell, waiter)
                finally:
                    self._unreserve(cell, lane)

    # In a simulation no other thread comes between, and the director reserves room itself for what it holds back.
    def _reserve(self, cell: Cell, lane: Lane) -> bool:
        return self.director is not None or self.inbound.reserve(cell, lane)

    def _unreserve(self, cell: Cell, lane: Lane) -> None:
        if self.director is None:
            self.inbound.unreserve(cell, lane)

    def _let_waiter_in(self, cell: Cell, waiter: Waiter) -> None:
        if waiter.claim is not None and not waiter.claim():
            return
        try:
            self._admit_reserved(cell, waiter.message, waiter.sender, waiter.lane)
        except BaseException as exc:  # its priority cannot be told: that is the sender's to hear
            waiter.finish(exc)
        else:
            waiter.finish(None)

    def _admit_reserved(self, cell: Cell, message: object, sender: object, lane: Lane) -> None:
        """Admit a message for which room is reserved."""
        if self.director is not None:
            self.admit(cell, message, sender, lane)
            return
        if cell.flags & LOOKED_AT:
            sender = self.take_along(cell, sender)
            if self._is_intercepted(cell, message, sender, lane):
                return
        self._let_in_or_bury(cell, message, sender, lane)

    def _dismiss(self, cell: Cell, why: str) -> None:
        """`cell` has closed: what waits for room there is a dead letter."""
        cell.flags &= ~ROOM
        for waiter in [waiter for lane in _LANES for waiter in self._lines.pop((cell, lane), ())]:
            if waiter.claim is not None and not waiter.claim():
                continue
            self.turn_away(cell, waiter.message, waiter.sender, why)
            waiter.finish(None)

    # -- taking out, and putting back

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

    def clear(self, cell: Cell, why: str) -> None:
        """Make every message that waits for `cell` a dead letter; notices and withdrawn messages just go."""
        found = self.take_next(cell)
        while found is not None:
            self.bury(cell, found[0], found[1], why)
            found = self.take_next(cell)
        if cell.flags & ROOM:
            self._dismiss(cell, why)

    def take_back(self, cell: Cell, message: object, sender: object, lane: int) -> None:
        """Queue a message again that was put aside, before all others of its lane."""
        cell.put_back(lane, message, sender)
        if lane == DATA:
            # The message entered the data lane a second time, but was sent once.
            tally = cell.count_aside()
            tally.sent_aside -= 1
            self.totals.sent_aside -= 1
        self.count_stashed(cell, -1)
        cell.make_runnable()

    # -- counting what becomes of messages, and telling of it

    def bury(self, cell: Cell, message: object, sender: object, why: str) -> None:
        """Make a message that was taken from `cell` a dead letter."""
        tally = cell.count_aside()
        tally.dead_lettered += 1
        self.totals.dead_lettered += 1
        self.tell_dead_letter(cell, message, sender, why)

    def drop(self, cell: Cell, message: object, sender: object) -> None:
        tally = cell.count_aside()
        tally.dropped += 1
        self.totals.dropped += 1
        self.tell_dropped(cell, message, sender, _DATA)

    def count_stashed(self, cell: Cell, change: int) -> None:
        """Count messages that were put aside, or taken back."""
        tally = cell.count_aside()
        tally.stashed += change
        self.totals.stashed += change

    def count_failed(self, cell: Cell) -> None:
        """Count a message whose handler raised."""
        tally = cell.count_aside()
        tally.failed += 1
        self.totals.failed += 1

    def count_refusal(self, cell: Cell) -> None:
        """Count a message whose handler raised an exception that its actor declares as an answer."""
        tally = cell.count_aside()
        tally.refused += 1
        self.totals.refused += 1

    def count_lost(self, cell: Cell, messages: int) -> None:
        """Count messages that were carried elsewhere, and what became of them there cannot be known."""
        tally = cell.count_aside()
        tally.lost += messages
        self.totals.lost += messages

    def count_unhandled(self, cell: Cell) -> None:
        """Count a message of which its handler said that it was not for its actor."""
        tally = cell.count_aside()
        tally.unhandled += 1
        self.totals.unhandled += 1

    def count_withdrawn(self, cell: Cell, receipt: Receipt) -> None:
        """Count a message that its receipt has withdrawn."""
        tally = cell.count_aside()
        tally.dropped += 1
        self.totals.dropped += 1
        receipt.discard("withdrawn")

    def count_refused(self, cell: Cell, rejected: int, dropped: int, turned_away: int) -> None:
        """Count messages that were not let in."""
        for tally in (cell.count_aside(), self.totals):
            tally.rejected += rejected
            tally.sent_aside += dropped + turned_away
            tally.dropped += dropped
            tally.dead_lettered += turned_away

    def tell_full(self, cell: Cell, message: object, sender: object, lane: Lane) -> None:
        """Tell observers that a mailbox is full and the sender will hear of it. From any thread."""
        if self.hooks.mailbox_full:
            self.hooks.emit("mailbox_full", cell.shown(), message, lane)

    def tell_dropped(self, cell: Cell, message: object, sender: object, lane: Lane) -> None:
        """Tell the host, observers and the receipt that a message was dropped. From any thread.

        The receipt comes last, here and below: an asker on another loop goes on at once, and finds all told.
        """
        try:
            self.host.dropped(cell, message, sender, lane)
            if self.hooks.message_dropped:
                self.hooks.emit("message_dropped", cell.shown(), message, lane)
        finally:
            if isinstance(sender, Receipt):
                sender.discard("dropped")

    def tell_dead_letter(self, cell: Cell, message: object, sender: object, why: str) -> None:
        """Tell the host, observers and the receipt of a dead letter. From any thread."""
        try:
            self.host.dead_letter(cell, message, sender, why)
            if self.hooks.dead_letter:
                shown = sender.shown_sender() if isinstance(sender, Receipt) else sender
                self.hooks.emit("dead_letter", cell.shown(), message, shown, why)
        finally:
            if isinstance(sender, Receipt):
                sender.discard(why)
