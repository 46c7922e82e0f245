# cython: boundscheck=False, wraparound=False, nonecheck=False
"""What is sent from one thread to a group of cells on another's loop: connections, and the inbox that drains them.

**A connection** is one holder's, and has a ring for each lane. Its holder is the one producer of its rings, and the
thread of the cell's loop their one consumer. Sending is one push. The loop is told by its bell, which is rung once for
all that is pushed until it looks, and roused only if it sleeps.

**The inbox** moves messages from the rings of its connections into the mailboxes of the cells, a burst at a time, and
waits until there is room for the next. So what is queued stands in the rings, whose holders feel the pressure, and the
mailboxes do the rest, as for messages that came any other way.

A *cycle* is half a burst of CONTROL, a burst of MANAGEMENT, the other half of CONTROL, a burst of DATA and one of LOG.
Control is never kept waiting for more than one burst, and a flood of it leaves room for the others. Within a burst the
holders take turns.
"""

from __future__ import annotations

from _thread import get_ident
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from threading import RLock
from typing import Any

from greenroom._core.build import COMPILED
from greenroom._core.connections.spscring import SENT, SpscRing
from greenroom._core.delivery.admission import Admission
from greenroom._core.delivery.inbound import Inbound
from greenroom._core.mailbox.cell import Cell
from greenroom._core.world import worlds
from greenroom.lanes import Lane, as_lane

_DATA = Lane.DATA
DATA = 1
_CYCLE = (Lane.CONTROL, Lane.MANAGEMENT, Lane.CONTROL, Lane.DATA, Lane.LOG)
_PHASES = 5
_ALL = tuple(reversed(Lane))


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


class MessageInContext:
    __slots__ = ("message", "sender")

    def __init__(self, message: object, sender: object) -> None:
        self.message = message
        self.sender = sender


class ShardedInbox:
    """The connections to one group of cells. For the loop's own thread, unless it says otherwise."""

    def __init__(self, inbound: Inbound, admission: Admission, bursts: Mapping[Lane, int]) -> None:
        self._admission = admission
        half = max(1, bursts[Lane.CONTROL] // 2)
        self._bursts = [half, bursts[Lane.MANAGEMENT], half, bursts[Lane.DATA], bursts[Lane.LOG]]
        self.bell = Doorbell(inbound)
        self._burying = RLock()
        # All connections. Other threads add to them, so compiled code takes a copy, and never an item by its position.
        self.connections: list[Connection] = []
        # The connections that take turns, for the loop's thread alone; and new ones, which it has not seen yet.
        self._turns: list[Connection] = []
        self._arrived: deque[Connection] = deque()
        # Whose turn it is to be the first of a burst, and which part of the cycle is next.
        self._first = 0
        self._phase = 0
        # Whether messages may be moved: not before the cells run, and not while they are restarted.
        self.is_open = False
        # The lanes from which nothing is moved any more: a bit for each. Written from any thread.
        self.shut = 0
        # Whether there was no room in the mailboxes for what is left: a later tick has another look.
        self.is_stalled = False

    def connect(self, sizes: Mapping[Lane, int], sender: object = None) -> Connection:
        """A new connection. From any thread."""
        connection = Connection(self.bell, sizes, sender)
        self.connections.append(connection)
        self._arrived.append(connection)
        return connection

    def waits(self) -> bool:
        """Whether `step` would find something to do."""
        return self.is_open and self.bell.rung and not self.is_stalled

    def held(self) -> int:
        """How many messages the rings hold. From any thread, a glance."""
        held = 0
        for connection in list(self.connections):
            held += connection.held()
        return held

    def queued(self, cell: Cell | None = None) -> int:
        """How many messages were sent, to `cell` or in all, and not moved yet. From any thread, a glance."""
        return sum(one.queued() for one in list(self.connections) if cell is None or one.cell is cell)

    def open(self) -> None:
        """Move messages from now on, and what is there already first."""
        self.is_open = True
        self.is_stalled = False
        self.bell.ring(True)

    def close(self) -> None:
        """Leave what is in the rings, and what comes, where it is."""
        self.is_open = False

    def step(self) -> int:
        """Move the next burst of the cycle, and leave out parts that have nothing. How many messages were moved."""
        if not self.is_open or not self.bell.rung:
            return 0
        moved = self._next_burst()
        if moved > 0:
            self.is_stalled = False
            return moved
        # A push from here on rings again. What was pushed until now is looked for once more.
        self.bell.rung = False
        if COMPILED:
            fence()
        self._forget_abandoned()
        moved = self._next_burst()
        self.is_stalled = moved == 0 and self.held() > 0
        if moved > 0 or self.is_stalled:
            self.bell.rung = True
        return moved

    def _next_burst(self) -> int:
        while self._arrived:
            self._turns.append(self._arrived.popleft())
        skipped = 0
        while skipped < _PHASES:
            phase = self._phase
            self._phase = (phase + 1) % _PHASES
            lane = _CYCLE[phase]
            if not self.shut >> int(lane) & 1:
                moved = self._move(lane, self._bursts[phase])
                if moved > 0:
                    return moved
            skipped += 1
        return 0

    def _forget_abandoned(self) -> None:
        for connection in list(self._turns):
            if connection.is_abandoned and connection.queued() == 0:
                self.connections.remove(connection)
                self._turns.remove(connection)

    def _move(self, lane: Lane, burst: int) -> int:
        """Move up to `burst` messages of one lane, in turns."""
        connections = self._turns
        count = len(connections)
        if count == 0:
            return 0
        first = self._first % count
        self._first = first + 1
        left = burst
        share = max(1, burst // count)
        while left > 0:
            before = left
            for position in range(count):
                connection = connections[(first + position) % count]
                left -= self._move_from(connection, lane, min(share, left))
                if left <= 0:
                    break
            if left == before:
                break
        return burst - left

    def _move_from(self, connection: Connection, lane: Lane, most: int) -> int:
        ring = connection.ring_of(lane)
        count = min(ring.count(), most)
        if count <= 0:
            return 0
        cell = connection.cell
        if cell is None:
            return 0
        count = min(count, self._room(connection, cell, lane))
        if count <= 0:
            return 0
        if lane is Lane.DATA and not cell.closed and cell.priority is None and self._is_plain():
            self._move_plainly(connection, cell, ring, count)
        else:
            for _ in range(count):
                self._let_in(connection, cell, ring.pop(), lane)
        connection.handled = cell.handled
        connection.has_room()
        return count

    def _room(self, connection: Connection, cell: Cell, lane: Lane) -> int:
        """How many messages a mailbox may get now: a burst in all, and one for what was handled if it has more."""
        if cell.closed:
            return 1 << 20  # they are dead letters
        depth = cell.depth(int(lane))
        burst = self._bursts[3 - int(lane) if int(lane) >= 2 else 4 - int(lane)]
        if depth < burst:
            return burst - depth
        bound = cell.capacity if lane is Lane.DATA else cell.config.room(lane)
        return 1 if depth < bound and cell.handled != connection.handled else 0

    def _is_plain(self) -> bool:
        """Whether messages simply go into a mailbox: they are not looked at, and have nothing with them."""
        return self._admission.director is None and self._admission.propagation is None

    def _move_plainly(self, connection: Connection, cell: Cell, ring: SpscRing, count: int) -> None:
        sender = connection.sender()
        if COMPILED:
            while (cell.count + count) * 2 > cell.mask + 1:
                cell.grow()
            while count > 0:
                move_reference(ring, cell, sender)
                count -= 1
        else:
            for _ in range(count):
                cell.enqueue(DATA, ring.pop(), sender)
        cell.make_runnable()

    def _let_in(self, connection: Connection, cell: Cell, message: object, lane: Lane) -> None:
        sender = connection.sender()
        if isinstance(message, MessageInContext):
            sender = message.sender
            message = message.message
        if self._admission.director is None or cell.closed:
            self._admission.deliver_reserved(cell, message, sender, lane)
        else:
            self._admission.deliver(cell, message, sender, lane)

    def end(self, why: str) -> None:
        """The loop has stopped: let nothing be pushed any more, and make dead letters of what is there."""
        self.close()
        for connection in list(self.connections):
            connection.close()
        self.bury(why)

    def bury(self, why: str, lanes: tuple[Lane, ...] = _ALL) -> int:
        """Make dead letters of what the rings hold; how many those were. Of all lanes, also of what is put down."""
        buried = 0
        with self._burying:  # when the loop has stopped, the pod may be ended from another thread
            for connection in list(self.connections):
                target = connection.cell
                if target is None:
                    continue
                for lane in lanes:
                    ring = connection.ring_of(lane)
                    while ring.count() > 0:
                        self._bury(connection, target, ring.pop(), why)
                        buried += 1
                outbox = connection.outbox if lanes is _ALL else None
                while outbox:
                    try:
                        message = outbox.take()
                    except IndexError:  # its holder was quicker
                        break
                    self._bury(connection, target, message, why)
                    buried += 1
                connection.has_room()
        return buried

    def _bury(self, connection: Connection, target: Cell, message: object, why: str) -> None:
        sender = connection.sender()
        if isinstance(message, MessageInContext):
            sender = message.sender
            message = message.message
        self._admission.turn_away(target, message, sender, why)


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
