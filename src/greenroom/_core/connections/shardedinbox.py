# cython: boundscheck=False, wraparound=False, nonecheck=False
"""What is sent to a group of cells on one loop, by many holders: drained in bursts, one lane after the other.

The inbox moves messages from the rings of its connections into the mailboxes of the cells, a burst at a time, and waits
until there is room for the next. So what is queued stands in the rings, whose holders feel the pressure, and the
mailboxes do the rest, as for messages that came any other way.

A *cycle* is half a burst of CONTROL, a burst of MANAGEMENT, the other half of CONTROL, a burst of DATA and one of LOG.
Control is never kept waiting for more than one burst, and a flood of it leaves room for the others. Within a burst the
holders take turns.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from threading import RLock

from greenroom._core.build import COMPILED
from greenroom._core.connections.connection import Connection, Doorbell
from greenroom._core.connections.spscring import SpscRing
from greenroom._core.delivery.admission import Admission
from greenroom._core.delivery.inbound import Inbound
from greenroom._core.mailbox.cell import Cell
from greenroom.lanes import Lane

__all__ = ["MessageInContext", "ShardedInbox"]

DATA = 1

_CYCLE = (Lane.CONTROL, Lane.MANAGEMENT, Lane.CONTROL, Lane.DATA, Lane.LOG)
_PHASES = 5
_ALL = tuple(reversed(Lane))


class MessageInContext:
    """A message with the context variables that travel with it."""

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
        # Those that take turns, for the loop's thread alone; and those that it has not seen yet.
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
        with self._burying:  # when the loop has stopped, the pod may be ended from another thread
            return self._bury_all(why, lanes)

    def _bury_all(self, why: str, lanes: tuple[Lane, ...]) -> int:
        buried = 0
        for connection in list(self.connections):
            target = connection.cell
            if target is None:
                continue
            for lane in lanes:
                ring = connection.ring_of(lane)
                while ring.count() > 0:
                    buried += self._bury(connection, target, ring.pop(), why)
            outbox = connection.outbox if lanes is _ALL else None
            while outbox:
                try:
                    message = outbox.take()
                except IndexError:  # its holder was quicker
                    break
                buried += self._bury(connection, target, message, why)
            connection.has_room()
        return buried

    def _bury(self, connection: Connection, target: Cell, message: object, why: str) -> int:
        sender = connection.sender()
        if isinstance(message, MessageInContext):
            sender = message.sender
            message = message.message
        self._admission.turn_away(target, message, sender, why)
        return 1
