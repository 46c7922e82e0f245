"""What other threads send, until the loop's own thread takes it in.

A thread that is not the loop's reserves room in the target's mailbox, so that `tell` can refuse at once; the loop moves
what was admitted into the mailboxes at the start of a tick. One queue per loop keeps the order of each sending thread.

**Room** is reserved when a message is sent, so that a mailbox never gets more than it holds. In the data lane the
reservations of a cell are a number, changed in one atomic step; those of other lanes are kept here, under the lock. A
lane that drops its oldest message always has room: what is sent to it is parked here, and displaces what was parked
before.

**The quick way**, in the compiled build: a data message whose mailbox has room takes no lock. Its sender adds one to
`Cell.reserved`, and puts the message into the `Intake`. When the mailbox looks full, the lock is taken to
see whether it is: the loop moves messages under the lock, so nothing is counted twice then. All else is rarer, and
locked.

The lock can be taken again by its holder: making an object may run a finalizer, and a finalizer may send a message.

**Sleep.** A sleeping loop is roused once, by the first to bring something, not once per message. The loop says that it
sleeps, and then looks whether something is there; who brings something puts it in, and then looks whether the loop
sleeps. With a fence between the two steps on either side, one of them sees the other.

**The end.** As with sleep: the loop says that it has closed, and then looks whether something is there; who brings
something puts it in, and then looks whether the loop has closed.

A simulation brings nothing to a real loop: when that would act on it, and what came of it, is not the same next time.
A thread that tries is refused here, where all ways into another loop meet, before anything has changed. What one loop
of a simulation sends another is a foreign thread's too: its director is told of it here.
"""

from __future__ import annotations

from _thread import get_ident
from collections import deque
from collections.abc import Callable
from functools import partial
from threading import RLock
from typing import Any, Self

from greenroom._core.build import COMPILED
from greenroom._core.current import current_handoffs, sender_here
from greenroom._core.delivery.admission import Admission
from greenroom._core.delivery.intake import Intake
from greenroom._core.flags import INTERCEPTED, OFFLOADED, PROPAGATES, ROOM
from greenroom._core.mailbox.cell import Cell
from greenroom._core.receipt import NOTICE
from greenroom._core.runqueue import InboundBase
from greenroom._core.world import world_here, worlds
from greenroom.errors import SimulationRefused
from greenroom.lanes import Lane, Overflow, as_lane

ELSEWHERE = OFFLOADED | INTERCEPTED | PROPAGATES
"""What has to be looked at before a message may wait."""

_DATA = Lane.DATA
_REJECT = Overflow.REJECT
_DROP_OLD = Overflow.DROP_OLD
# What stands in an entry's lane when it is no message, and in its message when that is parked.
_NOTICE = object()
_ORDER = object()
_CALL = object()
_PARKED = object()
# What can become of a message that is sent.
_STOPPED = object()
_REFUSED = object()
_TURNED_AWAY = object()
_MOST_FOR_THE_DEAD = 64
"""Messages to one closed cell that wait to be dead letters in their turn. Further ones are dead letters at once, on the
sender's thread: one that does not see that it is over must fill no memory and hold up no tick."""
_MOST_AT_ONCE = 10_000
"""Entries taken in by one tick: the thread has other things to do, and the next tick takes the next."""
_REMEDY = (
    "that system is real, and not part of it: put a stand-in in the actor's place (`harness.inbox()`, or one of "
    "your own), or spawn it in the simulation"
)


class FastRLock:
    """A lock that its holder may take again, and that is cheap to take when it is free.

    `threading.RLock` parses its arguments each time it is taken: with it, a send from a foreign thread took 440 ns
    instead of 250. Compiled, this one asks the system's lock itself, and gives up the GIL only if it has to wait.
    """

    def __init__(self) -> None:
        self._plain = None if COMPILED else RLock()
        if COMPILED:
            self._lock = new_lock()
            # Invariant: _holder is the thread that has _lock, or 0; written by that thread alone
            self._holder = 0
            self._depth = 0

    def __dealloc__(self) -> None:
        if COMPILED:
            free_lock(self._lock)

    def enter(self) -> None:
        if COMPILED:
            if self._holder == thread_ident():
                self._depth += 1
            else:
                wait_for_lock(self._lock)
                self._holder = thread_ident()
                self._depth = 1
        else:
            self._plain.acquire()  # type: ignore[union-attr]

    def leave(self) -> None:
        if COMPILED:
            self._depth -= 1
            if self._depth == 0:
                self._holder = 0
                free_to_enter(self._lock)
        else:
            self._plain.release()  # type: ignore[union-attr]

    def __enter__(self) -> Self:
        self.enter()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.leave()


class Parked:
    """What is on its way to a lane that drops its oldest: at most as many messages as that holds, and notices."""

    __slots__ = ("entries", "messages")

    def __init__(self) -> None:
        self.entries: deque[tuple[object, object]] = deque()
        self.messages = 0

    def displace(self) -> tuple[object, object]:
        """Take the oldest message; notices stay where they are."""
        position = 0
        while self.entries[position][1] is NOTICE:
            position += 1
        oldest = self.entries[position]
        del self.entries[position]
        self.messages -= 1
        return oldest


def change_reserved(cell: Cell, change: int) -> int:
    """Change how much room is reserved in the data lane; return what it was before. Compiled, one atomic step."""
    if COMPILED:
        previous: int = add_reserved(cell, change)
        return previous
    before = cell.reserved
    cell.reserved = before + change
    return before


class Inbound(InboundBase):
    """Admission for foreign threads. Every field is written under `_lock`, but for `sleeping` by the loop's thread."""

    def __init__(self, admission: Admission) -> None:
        self._admission = admission
        # The compiled gate is the cheaper one; in plain Python only a lock made in C is safe from signals in a `with`.
        self._lock: Any = FastRLock() if COMPILED else RLock()
        # In order of arrival: cell, lane, message, sender. Taken from by the loop's thread, under the lock.
        self._intake = Intake()
        # What was taken, and could not be delivered yet: it comes before all that is in the intake.
        self._kept: list[tuple[Any, Any, Any, Any]] = []
        # Invariant: room reserved by (cell, lane), for side lanes; for the data lane that is Cell.reserved
        self._reserved: dict[tuple[Cell, Lane], int] = {}
        # Invariant: each entry in here has one in the intake that says so
        self._parked: dict[tuple[Cell, Lane], Parked] = {}
        # How many are on their way to stand in line for room, by cell.
        self._lines: dict[Cell, int] = {}
        # Messages rejected, dropped and turned away, by cell, until the loop's thread adds them to the cell's counters.
        self._refused: dict[Cell, list[int]] = {}
        # How many came too late, by cell; None when the loop's thread has ended all and counts no more.
        self._late: dict[Cell, int] | None = {}
        self.closed = False
        self._is_over = False
        # Whether something was pushed into a ring that the loop drains. Rung from any thread, stilled by its own.
        self.bell = False
        # Invariant: sleeping only while the loop's thread waits for something to happen, and has not been roused
        self.sleeping = False
        self.rouse: Callable[[], object] | None = None

    # -- sending

    def tell(self, cell: Cell, message: object, sender: object, lane: Lane) -> None:
        """Send a message to `cell` from a foreign thread: of the actor that this thread works for, unless named."""
        self._send(cell, message, sender_here() if sender is None else sender, lane)

    def send(self, cell: Cell, message: object, sender: object, lane: Lane) -> None:
        """Send a message to `cell` from a foreign thread, with exactly this in its sender's place."""
        self._send(cell, message, sender, lane)

    # By the .pxd, `cell` is known to be one only here: the two above are declared where there are no cells yet.
    def _send(self, cell: Cell, message: object, sender: object, lane: Lane) -> None:
        if worlds:
            self.require_same_world(cell)
        if type(lane) is not Lane:
            lane = as_lane(lane)
        if cell.flags & ELSEWHERE:
            sender = self._admission.take_along(cell, sender)
            if cell.flags & INTERCEPTED:
                self._admission.host.examine(cell, message)
            if lane is not _DATA and cell.flags & (OFFLOADED | INTERCEPTED):
                self._note_urgent(cell)
        director = self._admission.director
        if director is not None and director.sends(cell, message, sender, lane):
            return
        if COMPILED and lane is _DATA and self._put_quickly(cell, message, sender):
            return
        if COMPILED:
            # No signal can come between these two, and a `with` would look its methods up each time.
            self._lock.enter()
            try:
                fate = self._place(cell, message, sender, lane)
            finally:
                self._lock.leave()
        else:
            with self._lock:
                fate = self._place(cell, message, sender, lane)
        self._rouse_if_asleep()
        if fate is _STOPPED:
            self._admission.tell_dead_letter(cell, message, sender, "loop stopped")
        elif fate is _TURNED_AWAY:
            self._admission.tell_dead_letter(cell, message, sender, "stopped")
        elif fate is _REFUSED:
            self._admission.tell_refused(cell, message, sender, lane)
        elif fate is not None:
            self._admission.tell_dropped(cell, fate[0], fate[1], lane)

    def _put_quickly(self, cell: Cell, message: object, sender: object) -> bool:
        """Put a data message into the intake if there is room at a glance; else False, and nothing has happened."""
        if self.closed or cell.closed or cell.priority is not None or cell.drops_oldest:
            return False
        # Reserve first: the loop counts a message twice while it moves it, and never not at all.
        reserved = change_reserved(cell, 1)
        if reserved + cell.count - cell.notices >= cell.capacity:
            change_reserved(cell, -1)
            return False
        try:
            self._intake.put(cell, _DATA, message, sender)
        except MemoryError:
            change_reserved(cell, -1)
            raise
        if COMPILED:
            fence()
        if self.sleeping:
            self._rouse_if_asleep()
        if self.closed:
            self._bury_late()
        return True

    def _bury_late(self) -> None:
        """The loop closed while messages were put in: those that it does not see any more are dead letters."""
        late = []
        with self._lock:
            if not self._is_over:
                return  # it looks once more
            self._intake.begin()
            while self._intake.has_next():
                entry = self._intake.first()
                self._intake.drop_first()
                change_reserved(entry[0], -1)
                self._count_late(entry[0])
                late.append(entry)
        for cell, _, message, sender in late:
            self._admission.tell_dead_letter(cell, message, sender, "loop stopped")

    def _counts_for(self, cell: Cell) -> list[int]:
        counts = self._refused.get(cell)
        if counts is None:
            counts = self._refused[cell] = [0, 0, 0]
        return counts

    def _count_late(self, cell: Cell) -> None:
        """Count a message that came after the loop had closed. Under the lock."""
        if self._late is None:
            self._admission.count_refused(cell, 0, 0, 1)
        else:
            self._late[cell] = self._late.get(cell, 0) + 1

    def _place(self, cell: Cell, message: object, sender: object, lane: Lane) -> Any:
        """Put a message where it waits for the loop: None, what became of it instead, or the older one it displaced."""
        if self.closed:
            self._count_late(cell)
            return _STOPPED
        policy = cell.config.overflow
        if policy is _DROP_OLD and not cell.closed:
            return self._park(cell, lane, message, sender)
        if cell.closed and cell.reserved >= _MOST_FOR_THE_DEAD:
            self._counts_for(cell)[2] += 1
            return _TURNED_AWAY
        if self._reserve(cell, lane):  # in a closed mailbox too, to be a dead letter in its turn
            self._intake.put(cell, lane, message, sender)
            return None
        if cell.closed:
            self._counts_for(cell)[2] += 1
            return _TURNED_AWAY
        self._counts_for(cell)[0 if policy is _REJECT else 1] += 1
        return _REFUSED

    def send_if_room(self, cell: Cell, message: object, sender: object, lane: Lane) -> bool:
        """Send a message if there is room and no line for it; else return False and do nothing."""
        if worlds:
            self.require_same_world(cell)
        if cell.flags & INTERCEPTED:
            self._admission.host.examine(cell, message)
        sender = self._admission.take_along(cell, sender)
        # One that drops its oldest is never full from here: who waits for room there waits on the loop's own thread.
        if cell.config.overflow is _DROP_OLD:
            return False
        if lane is not _DATA and cell.flags & OFFLOADED:
            self._note_urgent(cell)
        director = self._admission.director
        if director is not None:
            director.approaches(cell)
            if not self._has_room(cell, lane):
                return False
            if director.sends(cell, message, sender, lane):
                return True
        with self._lock:
            waited_for = cell.flags & ROOM or cell in self._lines
            if self.closed or cell.closed or waited_for or not self._reserve(cell, lane):
                return False
            self._intake.put(cell, lane, message, sender)
        self._rouse_if_asleep()
        return True

    def _has_room(self, cell: Cell, lane: Lane) -> bool:
        """Whether `send_if_room` would let a message in. In a simulation, where no other thread comes between."""
        if self.closed or cell.closed or cell.flags & ROOM or cell in self._lines or not self.reserve(cell, lane):
            return False
        self.unreserve(cell, lane)
        return True

    def post_to_line(self, cell: Cell, action: Callable[[], object]) -> bool:
        """Post an action that has a message stand in line for room: later messages stand behind it."""
        if worlds:
            self.require_same_world(cell)
        with self._lock:
            if self.closed:
                return False
            self._lines[cell] = self._lines.get(cell, 0) + 1
            self._intake.put(cell, _CALL, partial(self._arrive, cell, action), None)
        self._rouse_if_asleep()
        return True

    def _arrive(self, cell: Cell, action: Callable[[], object]) -> None:
        with self._lock:
            left = self._lines.pop(cell) - 1
            if left:
                self._lines[cell] = left
        action()

    def notify(self, cell: Cell, notice: object) -> None:
        """Queue a notice for `cell` from a foreign thread."""
        if worlds:
            self.require_same_world(cell)
        director = self._admission.director
        if director is not None and director.notifies(cell, notice):
            return
        with self._lock:
            if self.closed:
                return
            if cell.config.overflow is _DROP_OLD:
                parked = self._parked.setdefault((cell, _DATA), Parked())
                parked.entries.append((notice, NOTICE))
                self._intake.put(cell, _DATA, _PARKED, None)
            else:
                self._intake.put(cell, _NOTICE, notice, None)
        self._rouse_if_asleep()

    def order(self, cell: Cell, action: Callable[[Cell], object]) -> None:
        """Order `action(cell)` from a foreign thread."""
        if worlds:
            self.require_same_world(cell)
        if cell.flags & OFFLOADED:
            self._note_urgent(cell)
        with self._lock:
            if not self.closed:
                self._intake.put(cell, _ORDER, action, None)
        self._rouse_if_asleep()

    def post(self, cell: Cell | None, action: Callable[[], object]) -> bool:
        """Have the loop's thread call `action()` in its next tick, on behalf of `cell`; False when it has stopped."""
        if worlds:
            self.require_same_world(cell)
        return self.post_back(cell, action)

    def post_back(self, cell: Cell | None, action: Callable[[], object]) -> bool:
        """Post the end of something that the other side began: that is never refused."""
        if cell is not None and cell.flags & OFFLOADED:
            self._note_urgent(cell)
        with self._lock:
            if self.closed:
                return False
            self._intake.put(cell, _CALL, action, None)
        self._rouse_if_asleep()
        return True

    def require_same_world(self, cell: Cell | None) -> None:
        """Raise when a simulation runs on this thread, and this is the loop of a real system."""
        if self._admission.director is None and not world_here().is_real:
            what = "a call of another system" if cell is None else f"reaching for {cell.shown()!r}"
            raise SimulationRefused(what, _REMEDY)

    def _note_urgent(self, cell: Cell) -> None:
        """Something that overtakes messages is brought to `cell`: what is done for it elsewhere is the last for now."""
        handoff = current_handoffs.get(get_ident())
        if handoff is None or handoff.cell is not cell:
            handoff = cell.handoff()
        if handoff is not None:
            handoff.hurry()

    def _park(self, cell: Cell, lane: Lane, message: object, sender: object) -> tuple[object, object] | None:
        """Keep a message for a lane that drops its oldest; the one it displaces here, if it does."""
        parked = self._parked.setdefault((cell, lane), Parked())
        parked.entries.append((message, sender))
        parked.messages += 1
        if parked.messages > cell.config.room(lane):
            self._counts_for(cell)[1] += 1
            return parked.displace()
        self._intake.put(cell, lane, _PARKED, None)
        return None

    def _unpark(self, cell: Cell, lane: Lane) -> tuple[object, object]:
        with self._lock:
            key = (cell, lane)
            parked = self._parked[key]
            entry = parked.entries.popleft()
            if entry[1] is not NOTICE:
                parked.messages -= 1
            if not parked.entries:
                del self._parked[key]
            return entry

    # -- room

    def reserve(self, cell: Cell, lane: Lane) -> bool:
        """Reserve room in `lane` for a message of the loop's own thread, while a user's code runs; False when full."""
        with self._lock:
            return self._reserve(cell, lane)

    def _reserve(self, cell: Cell, lane: Lane) -> bool:
        """Reserve room for one message, if there is any. Under the lock."""
        if lane is _DATA:
            # As in `_put_quickly`: others may be at it now.
            if change_reserved(cell, 1) + cell.depth(lane) >= cell.capacity and not self._is_done_with_some(cell):
                change_reserved(cell, -1)
                return False
            return True
        key = (cell, lane)
        if cell.depth(lane) + self._reserved.get(key, 0) >= cell.config.room(lane):
            return False
        self._reserved[key] = self._reserved.get(key, 0) + 1
        return True

    def _is_done_with_some(self, cell: Cell) -> bool:
        """Whether a data lane that looks full is not: messages handled on another thread may not be reported yet."""
        handoff = cell.handoff() if cell.flags & OFFLOADED else None
        # `reserved` includes the room for this message.
        return handoff is not None and cell.depth(_DATA) - handoff.done() + cell.reserved <= cell.capacity

    def unreserve(self, cell: Cell, lane: Lane) -> None:
        """Give up the room for one message: it has been taken, or is not needed any more."""
        with self._lock:
            if lane is _DATA:
                if cell.reserved > 0:
                    change_reserved(cell, -1)
                return
            key = (cell, lane)
            left = self._reserved.pop(key, 0) - 1
            if left > 0:
                self._reserved[key] = left

    def reserved(self, cell: Cell, lane: Lane) -> int:
        """How much room is reserved in `lane`, which is not DATA."""
        with self._lock:
            return self._reserved.get((cell, lane), 0)

    # -- sleep

    def waiting(self) -> bool:
        """A glance, without the lock: whether there is something to take in. For the loop's thread."""
        return self.bell or self.has_entries()

    def has_entries(self) -> bool:
        """Return whether entries wait, leaving out those in rings."""
        return self._intake.waiting() or bool(self._refused) or bool(self._kept)

    def ring_bell(self) -> None:
        """Say that something was pushed into a ring. From any thread."""
        if not self.closed:
            self.bell = True
            self._rouse_if_asleep()

    def clear_bell(self) -> None:
        """The loop looks into the rings next: a push from now on rings again."""
        self.bell = False
        if COMPILED:
            fence()

    def fall_asleep(self) -> bool:
        """Ask to be roused by the next to bring something; False when something is here already.

        Without the lock, here and in `note_awake`: to be roused when awake does no harm.
        """
        self.sleeping = True
        if COMPILED:
            fence()
        if self.waiting():
            self.sleeping = False
            return False
        return True

    def note_awake(self) -> None:
        """The loop's thread is awake, and need not be roused."""
        self.sleeping = False

    def rouse_by(self, rouse: Callable[[], object] | None) -> None:
        """From now on, have the loop's thread roused by `rouse`. For that thread."""
        with self._lock:
            self.rouse = rouse

    def _rouse_if_asleep(self) -> None:
        """Rouse the loop if it sleeps. Outside the lock: rousing gives up the GIL, and others would queue up behind."""
        if COMPILED:
            fence()
        if not self.sleeping:
            return
        with self._lock:
            if not self.sleeping:
                return  # another thread was first
            self.sleeping = False
            rouse = self.rouse
        if rouse is not None:
            try:
                rouse()
            except BaseException:
                with self._lock:
                    self.sleeping = True  # it still does: the next sender tries again
                raise

    # -- on the loop's thread

    def take_in(self) -> None:
        """Move what was admitted into the mailboxes. For the loop's thread.

        A call is made in its turn: what came before it is in the mailboxes then, and what came after is not. What comes
        meanwhile waits for the next tick, or calls that lead to calls would never let go of this one.
        """
        left = _MOST_AT_ONCE
        self._intake.begin()
        late, self._kept = self._kept, []
        while True:
            left = self._move(late, left)
            delivered = 0
            try:
                for cell, lane, message, sender in late:
                    delivered += 1
                    self._deliver(cell, lane, message, sender)
            finally:
                if delivered < len(late):
                    # Something that ends the system came between: the rest waits, ahead of what has come since.
                    self._kept = late[delivered:]
            if left <= 0:
                return
            late = []

    def _move(self, late: list[tuple[Any, Any, Any, Any]], left: int) -> int:
        """Move up to `left` entries, and note in `late` what is not simply put into a mailbox; up to the next call.

        How many may still be moved: none, if there are no more.
        """
        with self._lock:
            refused, self._refused = self._refused, {}
            # Room that is reserved must be taken before the lock is given up, or a sender would find it free again.
            # What can run a user's code (a priority key, an observer, a drain) waits until after, its room kept;
            # for one cell that is all or nothing, so its messages and notices keep their order.
            intake = self._intake
            try:
                while left > 0:
                    if not (has_entry(intake) if COMPILED else intake.has_next()):
                        left = 0
                        break
                    left -= 1
                    if COMPILED and move_simply(intake):
                        intake.drop_first()
                        continue
                    cell, lane, message, sender = intake.first()
                    if lane is _CALL:
                        late.append((cell, lane, message, sender))
                        intake.drop_first()
                        break
                    if cell.closed or cell.priority is not None or message is _PARKED:
                        late.append((cell, lane, message, sender))
                    elif lane is _DATA:
                        cell.enqueue(1, message, sender)
                        change_reserved(cell, -1)
                        cell.make_runnable()
                    elif lane is _NOTICE:
                        cell.enqueue_notice(message)
                        cell.make_runnable()
                    else:
                        late.append((cell, lane, message, sender))
                    intake.drop_first()
            except MemoryError:
                left = 0  # a mailbox cannot grow: what comes from here on waits until some messages are handled
        for cell, (rejected, dropped, turned_away) in refused.items():
            self._admission.count_refused(cell, rejected, dropped, turned_away)
        return left

    def _deliver(self, cell: Cell, lane: Any, message: Any, sender: object) -> None:
        if lane is _CALL:
            message()
        elif lane is _ORDER:
            cell.order(message)
        elif lane is _NOTICE:
            cell.notify(message)
        elif message is not _PARKED:
            try:
                self._admission.deliver_reserved(cell, message, sender, lane)
            finally:
                self.unreserve(cell, lane)
                if cell.flags & ROOM:  # it may have been reserved in vain, and there is a line for it
                    self._admission.fill_up(cell)
        else:
            message, sender = self._unpark(cell, lane)
            if sender is NOTICE:
                cell.notify(message)
            else:
                self._admission.deliver_sent(cell, message, sender, lane)

    def count(self, cell: Cell | None = None) -> int:
        """How many messages are in here, for `cell` or in all. Costs a search: for the ledger."""
        with self._lock:
            total = 0
            for target, lane, message, _ in [*self._kept, *self._intake]:
                mine = cell is None or target is cell
                if mine and isinstance(lane, Lane) and message is not _PARKED:
                    total += 1
            for key, parked in self._parked.items():
                if cell is None or key[0] is cell:
                    total += parked.messages
            return total

    def close(self) -> None:
        """Take nothing more; what is here already can still be taken in."""
        with self._lock:
            self.closed = True
        if COMPILED:
            fence()

    def end(self) -> None:
        """Nothing is taken in any more: what a thread was just putting in is a dead letter."""
        with self._lock:
            self._is_over = True
        self._bury_late()

    def settle(self) -> None:
        """The loop's thread counts nothing any more: who sends does."""
        with self._lock:
            late, self._late = self._late, None
            for cell, count in ({} if late is None else late).items():
                self._admission.count_refused(cell, 0, 0, count)
