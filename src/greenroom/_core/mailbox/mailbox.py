# cython: boundscheck=False, wraparound=False, nonecheck=False
"""What waits for one actor: four lanes, their bounds, and which message comes next.

The data lane is the mailbox's own ring: a separate object would cost every message one more cache miss, and every
actor 64 bytes. The other lanes, and the order by a user's key, are made when first used.

**Admission.** A message may enter the data lane by the quick way when `count + reserved < limit`. `limit` is the
configured capacity, raised by one for each queued notice (notices take no room), and 0 when the quick way is shut:
the mailbox is closed, its data lane is ordered by a key, or a director looks on. `reserved` is room kept for other
threads.

**Order.** Lanes are served from the highest down. But the 64th pick that passes a waiting lower lane over serves the
oldest message of the lower lanes instead, so none starves.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from greenroom._core.flags import LANES, PRIORITY, RECEIPTS, STALLED
from greenroom._core.mailbox.prioritylane import PriorityLane
from greenroom._core.mailbox.ring import Ring
from greenroom._core.receipt import NOTICE, Receipt, is_from_itself
from greenroom.lanes import MailboxConfig, Overflow

# Lane codes, as in `greenroom.lanes.Lane`; here they are C integers.
EMPTY = -1
LOG = 0
DATA = 1
MANAGEMENT = 2
CONTROL = 3
PATIENCE = 64

_DROP_OLD = Overflow.DROP_OLD
_BITS = 64


def data_place(data_before: int) -> int:
    """The place of a data message: after every side message that saw as many data messages before it."""
    return ((data_before + 1) << _BITS) - 1


class SideLane:
    """One lane: messages, and their places in the same order."""

    __slots__ = ("messages", "places")

    def __init__(self) -> None:
        self.messages = Ring()
        self.places = Ring()


class SideLanes:
    """CONTROL, MANAGEMENT and LOG of one mailbox, made when it first needs one of them.

    A message here has a *place*, kept in a ring beside its own: how many data messages, and then how many side
    messages, had arrived before it. That tells which of two waiting messages is older without stamping the data
    messages, which are nearly all there are.
    """

    __slots__ = ("arrived", "control", "log", "management", "passed")

    def __init__(self) -> None:
        self.control: SideLane | None = None
        self.management: SideLane | None = None
        self.log: SideLane | None = None
        self.arrived = 0
        # Picks since the last that served a lower lane out of turn, counted only while a lower lane waited.
        self.passed = 0

    def lane(self, code: int) -> SideLane | None:
        if code == CONTROL:
            return self.control
        return self.management if code == MANAGEMENT else self.log

    def depth(self, code: int) -> int:
        lane = self.lane(code)
        return 0 if lane is None else lane.messages.count

    def total(self) -> int:
        return self.depth(CONTROL) + self.depth(MANAGEMENT) + self.depth(LOG)

    def senders(self) -> list[object]:
        """The senders of all messages here, lane by lane."""
        found: list[object] = []
        for lane in (self.control, self.management, self.log):
            if lane is not None:
                found += lane.messages.peek(0, lane.messages.count)[1]
        return found

    def slots(self, code: int) -> int:
        """How many slots a lane holds ready, for messages and their senders."""
        lane = self.lane(code)
        return 0 if lane is None else lane.messages.mask + 1

    def push(self, code: int, message: object, sender: object, data_before: int) -> None:
        """Append a message to a lane, after `data_before` data messages had arrived."""
        lane = self.lane(code)
        if lane is None:
            lane = SideLane()
            if code == CONTROL:
                self.control = lane
            elif code == MANAGEMENT:
                self.management = lane
            else:
                self.log = lane
        place = (data_before << _BITS) | self.arrived
        self.arrived += 1
        lane.places.push(place, None)
        lane.messages.push(message, sender)

    def put_back(self, code: int, message: object, sender: object) -> None:
        """Put a message that came from this lane before all others, and it is older than any."""
        lane: SideLane = self.lane(code)  # type: ignore[assignment]
        lane.places.push_front(0, None)
        lane.messages.push_front(message, sender)

    def first_sender(self, code: int) -> object:
        """The sender of the oldest message of a lane; there must be one."""
        return self.lane(code).messages.first_sender()  # type: ignore[union-attr]

    def first_place(self, code: int) -> int:
        """The place of the oldest message of a lane; there must be one."""
        return self.lane(code).places.message_at(0)  # type: ignore[union-attr,return-value]

    def pop(self, code: int) -> object:
        """Take the oldest message of a lane; there must be one."""
        lane: SideLane = self.lane(code)  # type: ignore[assignment]
        lane.places.pop()
        message = lane.messages.pop()
        if lane.messages.count == 0:
            lane.places.trim()
            lane.messages.trim()
        return message


class Mailbox(Ring):
    """The lanes of one actor. Touched by its loop's thread alone, but for `reserved`."""

    __slots__ = (
        "capacity",
        "closed",
        "config",
        "drops_oldest",
        "flags",
        "limit",
        "noticed",
        "notices",
        "priority",
        "pushed",
        "receipts",
        "reserved",
        "side",
    )

    def __init__(self, config: MailboxConfig) -> None:
        self.set_up_mailbox(config, config.capacity, config.overflow is _DROP_OLD, config.priority)

    def set_up_mailbox(
        self, config: MailboxConfig, capacity: int, drops_oldest: bool, priority: Callable[[Any], Any] | None
    ) -> None:
        """Set the fields, for subclasses that know already what the config says."""
        self.set_up_ring()
        self.config = config
        self.capacity = capacity
        self.drops_oldest = drops_oldest
        # Invariant: limit == 0 if closed, priority is not None or each message is looked at first (INTERCEPTED,
        # PROPAGATES, a director), else capacity + notices
        self.limit = self.capacity
        # Invariant: changed by `inbound` only, atomically, from any thread; messages to the data lane that wait there
        self.reserved = 0
        self.flags = 0
        self.closed = False
        # Messages and notices that ever entered the data lane; the oldest there had pushed - count before it.
        self.pushed = 0
        self.noticed = 0
        # Invariant: notices standing in the ring
        self.notices = 0
        # Invariant: messages and notices in the ring whose sender is a Receipt; RECEIPTS in flags iff receipts > 0
        self.receipts = 0
        self.side: SideLanes | None = None
        self.priority: PriorityLane | None = None
        if priority is not None:
            self.priority = PriorityLane(priority)
            self.flags = PRIORITY
            self.limit = 0

    def depth(self, lane: int) -> int:
        """How many messages count against the bound of `lane`."""
        if lane != DATA:
            return 0 if self.side is None else self.side.depth(lane)
        return self.count - self.notices if self.priority is None else len(self.priority)

    def queued(self) -> int:
        """How many messages wait in all lanes; notices are none."""
        return self.depth(DATA) + (0 if self.side is None else self.side.total())

    def from_others(self, own: object, most: int) -> int:
        """How many messages wait that the actor with the ref `own` did not tell itself; `most` are counted."""
        found = 0
        for position in range(self.count):
            if found == most:
                return found
            sender = self.sender_at(position)
            if sender is not NOTICE and not is_from_itself(sender, own):
                found += 1
        elsewhere = [] if self.priority is None else self.priority.senders()
        if self.side is not None:
            elsewhere += self.side.senders()
        for sender in elsewhere:
            if found < most and not is_from_itself(sender, own):
                found += 1
        return found

    def waiting(self) -> bool:
        """Whether a message or a notice waits in any lane."""
        return self._data_waits() or (self.side is not None and self.side.total() > 0)

    def has_next(self) -> bool:
        """Return whether a message waits in a lane that is served at present."""
        return self._urgent() != EMPTY if self.flags & STALLED else self.waiting()

    def _data_waits(self) -> bool:
        return self.count > 0 if self.priority is None else self.priority.waiting

    def enqueue(self, lane: int, message: object, sender: object) -> None:
        """Append a message to `lane`, bound or no bound."""
        if lane != DATA:
            if self.side is None:
                self.side = SideLanes()
            self.side.push(lane, message, sender, self.pushed)
            self.flags |= LANES
            return
        if self.priority is not None:
            self.priority.push(message, sender, data_place(self.pushed))
        else:
            self.push(message, sender)
            if isinstance(sender, Receipt):
                self.receipts += 1
                self.flags |= RECEIPTS
        self.pushed += 1

    def put_back(self, lane: int, message: object, sender: object) -> None:
        """Put a message that had its turn already before all others of its lane, bound or no bound."""
        if lane != DATA:
            self.side.put_back(lane, message, sender)  # type: ignore[union-attr]
            self.flags |= LANES
            return
        if self.priority is not None:
            # Places count up from 0: a negative one is before all, and later calls are before earlier ones.
            self.priority.put_back(message, sender, -data_place(self.pushed))
        else:
            self.push_front(message, sender)
            if isinstance(sender, Receipt):
                self.receipts += 1
                self.flags |= RECEIPTS
        self.pushed += 1

    def enqueue_notice(self, notice: object) -> None:
        """Append a notice to the data lane; it needs no room."""
        place = self.pushed
        self.pushed += 1
        self.noticed += 1
        if self.priority is not None:
            self.priority.push_notice(notice, NOTICE, data_place(place))
            return
        self.push(notice, NOTICE)
        self.receipts += 1
        self.flags |= RECEIPTS
        self.notices += 1
        if self.limit > 0:
            self.limit += 1

    def choose(self) -> int:
        """The lane that is served next, or `EMPTY`. Counts as a pick."""
        if self.flags & STALLED:
            return self._urgent()
        side = self.side
        if side is None:
            return DATA if self._data_waits() else EMPTY
        data = self._data_waits()
        management = side.depth(MANAGEMENT) > 0
        log = side.depth(LOG) > 0
        contested = log
        top = LOG if log else EMPTY
        if data:
            top = DATA
        if management:
            contested = data or log
            top = MANAGEMENT
        if side.depth(CONTROL) > 0:
            contested = management or data or log
            top = CONTROL
        if top > LOG and contested:
            side.passed += 1
            if side.passed == PATIENCE:
                side.passed = 0
                return self._oldest_below(top)
        return top

    def _urgent(self) -> int:
        """The lane that is served next, if it is one of the two that are always served."""
        side = self.side
        if side is None:
            return EMPTY
        if side.depth(CONTROL) > 0:
            return CONTROL
        return MANAGEMENT if side.depth(MANAGEMENT) > 0 else EMPTY

    def _oldest_below(self, top: int) -> int:
        """The lane under `top` whose next message arrived first; one of them holds some."""
        side = self.side
        chosen = EMPTY
        first: int | None = None
        if top > DATA and self._data_waits():
            chosen = DATA
            first = data_place(self.pushed - self.count) if self.priority is None else self.priority.first_place()
        for lane in (MANAGEMENT, LOG):
            if lane < top and side.depth(lane) > 0:  # type: ignore[union-attr]
                place = side.first_place(lane)  # type: ignore[union-attr]
                if first is None or place < first:
                    chosen, first = lane, place
        return chosen

    def sender_of(self, lane: int) -> object:
        """The sender of the next message of `lane`; there must be one."""
        if lane != DATA:
            return self.side.first_sender(lane)  # type: ignore[union-attr]
        return self.first_sender() if self.priority is None else self.priority.first_sender()

    def take_from(self, lane: int) -> object:
        """Take the next message of `lane`; there must be one."""
        if lane != DATA:
            message = self.side.pop(lane)  # type: ignore[union-attr]
            if self.side.total() == 0:  # type: ignore[union-attr]
                self.flags &= ~LANES
            return message
        if self.priority is not None:
            return self.priority.pop()
        self._release(self.first_sender())
        return self.pop()

    def drop_first(self, count: int) -> None:
        """Take so many messages off the front of the data lane, which must have them, and no order by a key."""
        while count > 0:
            self._release(self.first_sender())
            self.pop()
            count -= 1

    def take_in(self, messages: list[object], senders: list[object]) -> None:
        """Append messages to the data lane, bound or no bound."""
        for position in range(len(messages)):
            self.enqueue(DATA, messages[position], senders[position])

    def evict(self, lane: int) -> tuple[object, object]:
        """Take the oldest message of `lane` and its sender, to make room; notices stay. There must be one."""
        if lane != DATA:
            sender = self.sender_of(lane)
            return self.take_from(lane), sender
        if self.priority is not None:
            return self.priority.pop_oldest()
        position = 0
        while self.sender_at(position) is NOTICE:
            position += 1
        sender = self.sender_at(position)
        self._release(sender)
        return self.remove(position), sender

    def _release(self, sender: object) -> None:
        """Undo what `sender`'s slot had raised: its message leaves the ring."""
        if self.receipts > 0 and isinstance(sender, Receipt):
            self.receipts -= 1
            if self.receipts == 0:
                self.flags &= ~RECEIPTS
            if sender is NOTICE:
                self.notices -= 1
                if self.limit > 0:
                    self.limit -= 1

    def close(self) -> None:
        self.closed = True
        self.limit = 0
