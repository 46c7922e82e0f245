"""The lanes beside the data lane, made when a mailbox first needs one.

A message here is followed in its ring by its *place*: how many data messages, and then how many side messages, had
arrived before it. That tells which of two waiting messages is older without stamping the data messages, which are
nearly all there are.
"""

from __future__ import annotations

from greenroom._core.ring import Ring

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


class SideLanes:
    """CONTROL, MANAGEMENT and LOG of one mailbox."""

    __slots__ = ("arrived", "control", "log", "management", "passed")

    def __init__(self) -> None:
        self.control: Ring | None = None
        self.management: Ring | None = None
        self.log: Ring | None = None
        self.arrived = 0
        # Picks since the last that served a lower lane out of turn, counted only while a lower lane waited.
        self.passed = 0

    def ring(self, lane: int) -> Ring | None:
        """The ring of `lane`, if it was ever used."""
        if lane == CONTROL:
            return self.control
        return self.management if lane == MANAGEMENT else self.log

    def depth(self, lane: int) -> int:
        """How many messages stand in `lane`."""
        ring = self.ring(lane)
        return 0 if ring is None else ring.count >> 1

    def total(self) -> int:
        """How many messages stand in all side lanes."""
        return self.depth(CONTROL) + self.depth(MANAGEMENT) + self.depth(LOG)

    def push(self, lane: int, message: object, sender: object, data_before: int) -> None:
        """Append a message to `lane`, after `data_before` data messages had arrived."""
        ring = self.ring(lane)
        if ring is None:
            ring = Ring()
            if lane == CONTROL:
                self.control = ring
            elif lane == MANAGEMENT:
                self.management = ring
            else:
                self.log = ring
        ring.push(message, sender)
        ring.push((data_before << _BITS) | self.arrived, None)
        self.arrived += 1

    def first_sender(self, lane: int) -> object:
        """The sender of the oldest message of `lane`; there must be one."""
        return self.ring(lane).first_sender()  # type: ignore[union-attr]

    def first_place(self, lane: int) -> int:
        """The place of the oldest message of `lane`; there must be one."""
        return self.ring(lane).message_at(1)  # type: ignore[union-attr,return-value]

    def pop(self, lane: int) -> object:
        """Take the oldest message of `lane`; there must be one."""
        ring = self.ring(lane)
        message = ring.pop()  # type: ignore[union-attr]
        ring.pop()  # type: ignore[union-attr]
        if ring.count == 0:  # type: ignore[union-attr]
            ring.trim()  # type: ignore[union-attr]
        return message
