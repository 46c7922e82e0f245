# cython: boundscheck=False, wraparound=False, nonecheck=False
"""One holder's connection to one cell: a ring for each lane.

Who holds it is the one producer of its rings, and the thread of the cell's loop their one consumer. Sending is one
push. The loop is told by its bell, which is rung once for all that is pushed until it looks, and roused only if it
sleeps.
"""

from __future__ import annotations

from _thread import get_ident
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from greenroom._core.build import COMPILED
from greenroom._core.connections.spscring import SENT, SpscRing
from greenroom._core.delivery.inbound import Inbound
from greenroom._core.world import worlds
from greenroom.lanes import Lane, as_lane

if TYPE_CHECKING:
    from greenroom._core.mailbox.cell import Cell

__all__ = ["Connection", "Doorbell", "HandleBase"]

_DATA = Lane.DATA


class Doorbell:
    """Tells a loop's thread that something was pushed. One for all connections of a group of cells."""

    __slots__ = ("inbound", "rung")

    def __init__(self, inbound: Inbound) -> None:
        self.inbound = inbound
        # Invariant: rung while a ring holds something that the loop has not been told of, or has left there
        self.rung = False

    def ring(self, urgent: bool) -> None:
        """Something was pushed. From any thread; a bell that rings already is left alone, unless it is `urgent`."""
        if COMPILED:
            fence()
        if self.rung and not urgent:
            return
        self.rung = True
        if COMPILED:
            fence()  # or the loop could see its bell before ours, and leave it rung
        self.inbound.ring_bell()


class Connection:
    """The rings of one holder. `offer` is for its thread, the rest for the loop's, unless it says otherwise."""

    def __init__(self, bell: Doorbell, sizes: Mapping[Lane, int], sender: object = None) -> None:
        self.bell = bell
        self.control = SpscRing(sizes[Lane.CONTROL])
        self.management = SpscRing(sizes[Lane.MANAGEMENT])
        self.data = SpscRing(sizes[Lane.DATA])
        self.log = SpscRing(sizes[Lane.LOG])
        # The cell that is sent to, once there is one, and the ref that stands as the sender of all that is.
        self.cell: Cell | None = None
        self._sender = sender
        # What the cell had handled when something was last moved to it.
        self.handled = 0
        # Whom to call, once, when messages were taken. The holder appends, and then sets `wants_room`; the loop's
        # thread unsets that, and then calls all that are there.
        self.wants_room = False
        self._on_room: deque[Callable[[], object]] = deque()
        # Messages, with their lanes, that a holder who must not wait has put down until they can be pushed; its own.
        self.outbox: Any = None
        # Whether its holder is gone.
        self.is_abandoned = False

    def ring_of(self, lane: Lane) -> SpscRing:
        """The ring of a lane."""
        if lane is _DATA:
            return self.data
        number = int(lane if type(lane) is Lane else as_lane(lane))
        if number == 3:
            return self.control
        return self.management if number == 2 else self.log

    def offer(self, message: object, lane: Lane) -> int:
        """Push a message: `SENT`, `FULL` or `CLOSED`."""
        ring = self.data if lane is _DATA else self.ring_of(lane)
        fate = push_message(ring, message) if COMPILED else ring.push(message)
        if fate == SENT:
            self.bell.ring(lane is not _DATA)
        return fate

    def held(self) -> int:
        """How many messages its rings hold. From any thread, a glance."""
        return self.control.count() + self.management.count() + self.data.count() + self.log.count()

    def sent_by(self, sender: object) -> None:
        """Make `sender` the sender of all that comes this way. From any thread."""
        if COMPILED:
            guard_sender(self, sender)
        else:
            self._sender = sender

    def sender(self) -> object:
        """The ref that stands as the sender. From any thread."""
        return guarded_sender(self) if COMPILED else self._sender

    def queued(self) -> int:
        """How many messages were sent this way, and not taken yet. From any thread, a glance."""
        return self.held() + (0 if self.outbox is None else len(self.outbox))

    def close(self) -> None:
        """Refuse pushes until it is opened."""
        for ring in (self.control, self.management, self.data, self.log):
            ring.close()

    def open(self, shut: tuple[Lane, ...] = ()) -> None:
        """Accept pushes again, behind what is there; but not in lanes that are `shut`."""
        for lane in Lane:
            if lane not in shut:
                self.ring_of(lane).open()

    def ask_for_room(self, on_room: Callable[[], object]) -> None:
        """Call this, once, when messages have been taken: the holder looks for room again after it has asked."""
        self._on_room.append(on_room)
        self.wants_room = True
        if COMPILED:
            fence()

    def forget_room(self, on_room: Callable[[], object]) -> None:
        """Do not call it."""
        with suppress(ValueError):  # it has been called
            self._on_room.remove(on_room)

    def has_room(self) -> None:
        """Call those that wait for room: messages were taken."""
        if COMPILED:
            fence()
        if self.wants_room:
            self.wants_room = False
            self._tell_room()

    def _tell_room(self) -> None:
        on_room = self._on_room
        for _ in range(len(on_room)):
            try:
                call = on_room.popleft()
            except IndexError:  # it has been forgotten
                return
            call()

    def abandon(self) -> None:
        """Say that its holder is gone: when its rings are empty, it is forgotten. From any thread."""
        self.is_abandoned = True
        self.bell.ring(True)


class HandleBase:
    """The compiled half of a service handle: sends what can simply be pushed, and leaves the rest to `_send_otherwise`.

    A handle has one holder, the first thread that sends with it. So the rings behind it have one producer each.
    """

    __slots__ = ("_connection", "_holder", "_is_plain")

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        # The number of the holder's thread; 0 before there is one.
        self._holder = 0
        # Invariant: true iff a message may simply be pushed: its outbox is empty, and messages need not be looked at
        self._is_plain = True

    def send(self, message: object, *, lane: Lane = _DATA, timeout: float | None = None) -> None:
        """Send a message; see `ServiceHandle`."""
        is_holder = thread_ident() == self._holder if COMPILED else get_ident() == self._holder
        if is_holder and self._is_plain and not worlds and self._connection.offer(message, lane) == SENT:
            return
        self._send_otherwise(message, lane, timeout)

    def _send_otherwise(self, message: object, lane: Lane, timeout: float | None) -> None:
        raise NotImplementedError
