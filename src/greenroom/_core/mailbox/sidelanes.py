"""The lanes beside the data lane, made when a mailbox first needs one.

A message here has a *place*, kept in a ring beside its own: how many data messages, and then how many side messages,
had arrived before it. That tells which of two waiting messages is older without stamping the data messages, which are
nearly all there are.
"""

from __future__ import annotations

from greenroom._core.mailbox.ring import Ring

__all__ = ["SideLanes", "data_place"]

# Lane codes, as in `greenroom.lanes.Lane`.
LOG = 0
DATA = 1
MANAGEMENT = 2
CONTROL = 3


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
    """CONTROL, MANAGEMENT and LOG of one mailbox."""

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
