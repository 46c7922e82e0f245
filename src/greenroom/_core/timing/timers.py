"""Pending deadlines, by the millions.

A timer waits in the bucket of its deadline, 1/128 s wide, and goes there and away in constant time; only the bucket
whose time has come is sorted. So starting and cancelling cost the same with one timer pending or a million, and a
timer that is cancelled, as most timeouts are, was never sorted at all. Buckets themselves stand in a heap.
"""

from __future__ import annotations

from _thread import get_ident
from bisect import insort_right
from functools import partial
from heapq import heapify, heappop, heappush
from math import ceil
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from greenroom._core.build import COMPILED, MadeByRuntime
from greenroom._core.current import current_handoffs
from greenroom._core.itemkinds import TICKED
from greenroom._core.receipt import Receipt, Told
from greenroom._core.runqueue import RunQueue
from greenroom._core.timing.tickbudget import TickBudget
from greenroom.errors import TooManyTimers, WrongThread
from greenroom.lanes import Lane

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    from greenroom._core.delivery.admission import Admission
    from greenroom._core.mailbox.cell import Cell

    T = TypeVar("T")

_DATA = Lane.DATA

BUCKETS_PER_SECOND = 128.0
SHORTEST_INTERVAL: float = 1e-6
TRACKED = 1000
"""How many pending timers of a loop the garbage collector tracks."""
MOST_MISSED = 1 << 60

NEW = 0
PENDING = 1
QUEUED = 2
OVER = 3

_deadline = attrgetter("deadline")


class Alarm(Receipt):
    """Something that is due at a moment, in one of `Timers`' buckets until then."""

    __slots__ = ("_bucket", "_position", "_state", "deadline")

    def set_up_alarm(self, deadline: float) -> None:
        """What `__init__` would do, for subclasses."""
        self.deadline = deadline
        self._state = NEW
        # Invariant: while PENDING in a bucket, _bucket.alarms[_position] is self
        self._bucket: Bucket | None = None
        self._position = 0

    def ring(self, admission: Admission) -> None:
        """The moment has come."""

    def end(self) -> None:
        """Nothing is to come any more."""
        self._state = OVER

    def disarm(self, timers: Timers) -> None:
        """Take it out of `timers`, if it is still to come."""
        if self._state == PENDING:
            timers.remove(self)
        self._state = OVER


class ScheduledCall(Alarm):
    """A call of a function at a moment; `Loop.call_at` and `Loop.call_later` make it."""

    __slots__ = ("_function", "_timers")

    def __init__(self, timers: Timers, function: Callable[[], object]) -> None:
        self._timers = timers
        self._function = function

    def ring(self, admission: Admission) -> None:
        function, self._function = self._function, _nothing
        function()

    def end(self) -> None:
        """End without calling the function, which may have this call, and would be kept by it."""
        super().end()
        self._function = _nothing

    def cancel(self) -> None:
        self.disarm(self._timers)
        self._function = _nothing


def _nothing() -> None:
    """What an ended call has instead of its function."""


class Timer(Alarm):
    """A message to come, once or again and again: what `ctx.send_after` and `ctx.send_every` return."""

    # A timer is the receipt of its own ticks, so that those of a cancelled one are not handled.
    #
    # When compiled, the garbage collector tracks only the first `TRACKED` timers of a loop: a million of them took it
    # three times as long as starting them (`make bench`, P11). A timer lets go of everything when it ends, of its loop
    # too, so the price is only this: a loop that is dropped with more timers pending, and never closed, is not
    # collected.

    __slots__ = (
        "_next",
        "_previous",
        "_sender",
        "fixed_rate",
        "interval",
        "message",
        "owner",
        "skipped",
        "target",
        "timers",
    )
    __signature__ = MadeByRuntime("Timer")

    def set_up(
        self,
        timers: Timers,
        target: Cell,
        message: object,
        deadline: float,
        interval: float,
        fixed_rate: bool,
        owner: Cell | None,
    ) -> None:
        """What `__init__` would do; `Loop.start_timer` makes timers without one, as in `Loop.spawn`."""
        if COMPILED and timers.count >= TRACKED:
            untrack(self)
        self.set_up_alarm(deadline)
        self._sender: object = None if owner is None else owner.ref
        # Invariant: None once it is over, for a timer that is kept must not keep the loop
        self.timers: Timers = timers
        self.target: Cell = target
        self.message = message
        self.interval = interval
        self.fixed_rate = fixed_rate
        # Ticks that fell out because the loop stood still, or the last one was still queued.
        self.skipped = 0
        # The other timers of the same owner, so that all of them end with it.
        self.owner = owner
        self._next: Timer | None = None
        self._previous: Timer | None = None
        if owner is not None:
            self._join(owner.timers)
            owner.timers = self

    def _join(self, first: Timer | None) -> None:
        """Stand before `first` among the timers of one owner."""
        self._next = first
        if first is not None:
            first._previous = self

    @property
    def active(self) -> bool:
        """Whether a tick is still to come or to be handled."""
        return self._state != OVER

    def cancel(self) -> bool:
        """Have no further tick handled, a queued one neither; False when the timer was over already."""
        timers = self.timers
        if self._state == OVER or timers is None:  # it may end meanwhile, on another thread
            return False
        if not timers.is_own_thread():
            return timers.ask_owner(self.cancel)
        if self._state == PENDING:
            timers.remove(self)
        self.end()
        return True

    def ring(self, admission: Admission) -> None:
        target = self.target
        message = self.message
        if target.runq is not self.timers._runq:
            tick = ForeignTick(self, self.timers._runq.inbound)
            deliver = partial(_deliver_foreign, target, message, tick)
            if not target.runq.inbound.post_back(None, deliver):
                target.post(message, tick)  # its loop has stopped
        elif target.closed:
            sender = self._sender
            self.cancel()
            admission.deliver(target, message, sender, _DATA)
        else:
            admission.deliver(target, message, self, _DATA)

    def origin(self) -> int:
        return TICKED

    def shown_sender(self) -> object:
        """The ref of the timer's owner: a tick is a message of its own."""
        sender = self._sender
        return sender.shown_sender() if isinstance(sender, Told) else sender

    def propagated(self) -> Any:
        sender = self._sender
        return sender.propagated() if isinstance(sender, Told) else ()

    def propagate(self, values: Any) -> None:
        """Have each tick carry these values of context variables."""
        if values:
            self._sender = Told(self._sender, values)

    def live(self) -> bool:
        return self._state == QUEUED

    def settle(self, result: object) -> None:
        """A tick was handled: that ends the timer, or starts the next delay."""
        self._after_tick()

    def fail(self, cause: BaseException) -> None:
        self._after_tick()

    def discard(self, why: str) -> None:
        self._after_tick()

    def _after_tick(self) -> None:
        if self._state != QUEUED:
            return
        if self.interval <= 0.0 or self.timers.closed:
            self.end()
        elif self.fixed_rate:
            self._skip_missed()
            self.timers.add(self)
        else:
            self.deadline = self.timers.now() + self.interval
            self.timers.add(self)

    def _skip_missed(self) -> None:
        """Move a fixed-rate deadline to the next one that is still to come."""
        self.deadline += self.interval
        late = self.timers.now() - self.deadline
        if late > 0.0:
            # A beat that falls on this very moment is not missed yet.
            missed = min(ceil(late / self.interval), MOST_MISSED)
            self.skipped += missed
            self.deadline += missed * self.interval

    def end(self) -> None:
        """Drop all references."""
        self._state = OVER
        owner = self.owner
        if owner is not None:
            if self._next is not None:
                self._next._previous = self._previous
            if self._previous is not None:
                self._previous._next = self._next
            else:
                owner.timers = self._next
            self._next = self._previous = self.owner = None
        self.target = self.message = self._sender = self.timers = None  # type: ignore[assignment]


class ForeignTick(Receipt):
    """Goes, in the timer's place, with a tick to an actor of another loop than the timer's.

    The tick is posted to that loop, and let in there, or turned away, as on one loop. When it is done with, that is
    posted back, and the timer goes on.
    """

    __slots__ = ("_inbound", "_propagated", "_sender", "_timer")

    def __init__(self, timer: Timer, inbound: Any) -> None:
        self._timer = timer
        self._inbound = inbound
        self._sender = timer.shown_sender()
        self._propagated = timer.propagated()

    def shown_sender(self) -> object:
        return self._sender

    def origin(self) -> int:
        return TICKED

    def propagated(self) -> Any:
        return self._propagated

    def live(self) -> bool:
        return self._timer.live()

    def settle(self, result: object) -> None:
        self._inbound.post_back(None, partial(self._timer.settle, None))

    def fail(self, cause: BaseException) -> None:
        self.settle(None)

    def discard(self, why: str) -> None:
        self.settle(None)


def _deliver_foreign(target: Cell, message: object, tick: ForeignTick) -> None:
    target.loop.admission.deliver(target, message, tick, _DATA)


class Bucket:
    """The alarms of one slice of time, in the order they were set; a cancelled one leaves a hole."""

    __slots__ = ("alarms", "earliest", "key", "live", "used")

    def __init__(self, key: int, earliest: float) -> None:
        self.key = key
        # Not after the earliest deadline in here; may be too early when that one was cancelled.
        self.earliest = earliest
        self.live = 0
        # Invariant: from here on there are holes only, to be filled first: no list grows and shrinks with each ask
        self.used = 0
        self.alarms: list[Alarm | None] = []


class Timers:
    """All pending alarms of one loop."""

    def __init__(self, runq: RunQueue, pace: TickBudget, limit: int) -> None:
        self._runq = runq
        self._tick_budget = pace
        self.limit = limit
        self.closed = False
        self.count = 0
        # The timers of other loops of the system, which count against the same limit: at a glance.
        self.others: list[Timers] | None = None
        self._buckets: dict[int, Bucket] = {}
        # Invariant: a heap with every key of _buckets, and keys of buckets that are gone
        self._keys: list[int] = []
        # The bucket that was last added to. It stays when it is empty: an ask sets an alarm and cancels it, the next
        # ask sets one for nearly the same moment, and the bucket need not be made again (`make bench`, P5).
        self._recent: Bucket | None = None
        # Alarms whose bucket's time has come, sorted, from _position on; every key up to _opened goes here.
        self._due: list[Alarm | None] = []
        self._position = 0
        self._opened = -1

    def now(self) -> float:
        return self._tick_budget.now()

    def is_own_thread(self) -> bool:
        if COMPILED:
            mine: bool = thread_ident() == self._runq.thread
        else:
            mine = get_ident() == self._runq.thread
        return mine

    def ask_owner(self, action: Callable[[], T]) -> T:
        """Have the loop's own thread call `action`, if this one works for it; what it returns."""
        handoff = current_handoffs.get(get_ident())
        if handoff is None or handoff.cell.runq is not self._runq:
            raise WrongThread("a timer")
        done: T = handoff.cell.loop.host.call("a timer", action)
        return done

    def require_room(self) -> None:
        """Raise when no further timer may be started."""
        pending = self.count
        if self.others is not None:
            for other in self.others:
                pending += other.count
        if pending >= self.limit:
            raise TooManyTimers(self.limit)

    def add(self, timer: Alarm) -> None:
        """Keep `timer` until its deadline. The limit is for new ones: a periodic timer keeps its place."""
        deadline = timer.deadline
        key = int(deadline * BUCKETS_PER_SECOND)
        timer._state = PENDING
        self.count += 1
        if key <= self._opened:
            timer._bucket = None
            due = self._due
            last = due[len(due) - 1] if self._position < len(due) else None
            if last is None or last.deadline <= deadline:
                due.append(timer)
            else:
                insort_right(due, timer, self._position, key=_deadline)
            return
        bucket = self._recent
        if bucket is None or bucket.key != key:
            bucket = self._bucket_of(key, deadline)
        if deadline < bucket.earliest:
            bucket.earliest = deadline
        timer._bucket = bucket
        timer._position = bucket.used
        if bucket.used < len(bucket.alarms):
            bucket.alarms[bucket.used] = timer
        else:
            bucket.alarms.append(timer)
        bucket.used += 1
        bucket.live += 1

    def _bucket_of(self, key: int, deadline: float) -> Bucket:
        """The bucket with this key, which is the most recent one from now on."""
        last = self._recent
        bucket = self._buckets.get(key)
        if bucket is None:
            bucket = self._buckets[key] = Bucket(key, deadline)
            heappush(self._keys, key)
        self._recent = bucket
        if last is not None and last.live == 0:
            self._discard(last)
        return bucket

    def remove(self, timer: Alarm) -> None:
        self.count -= 1
        bucket = timer._bucket
        if bucket is None:
            return  # among the due ones, where its state tells
        timer._bucket = None
        bucket.alarms[timer._position] = None
        bucket.live -= 1
        if bucket.live == 0:
            if bucket is self._recent:
                bucket.used = 0
            else:
                self._discard(bucket)
        elif timer._position == bucket.used - 1:
            bucket.used -= 1
        elif bucket.used > 2 * bucket.live + 32:
            self._close_holes(bucket)

    def _discard(self, bucket: Bucket) -> None:
        """Forget an empty bucket. Its key stays in the heap until it comes up, or until most keys are such."""
        if self._buckets.pop(bucket.key, None) is not None and len(self._keys) > 2 * len(self._buckets) + 64:
            self._keys = list(self._buckets)
            heapify(self._keys)

    def _close_holes(self, bucket: Bucket) -> None:
        bucket.alarms = [timer for timer in bucket.alarms if timer is not None]
        bucket.used = bucket.live
        for position, timer in enumerate(bucket.alarms):
            timer._position = position  # type: ignore[union-attr]

    def pop_due(self, now: float) -> Alarm | None:
        """Take the first alarm whose deadline is not after `now`: the earliest, or of equals the first started."""
        while True:
            if self._position == len(self._due):
                if self._position:
                    self._due = []
                    self._position = 0
                if not self._keys or self._keys[0] > int(now * BUCKETS_PER_SECOND):
                    return None
                bucket = self._buckets.pop(heappop(self._keys), None)
                if bucket is not None:
                    self._open(bucket)
                continue
            timer = self._due[self._position]
            if timer._state == PENDING:  # type: ignore[union-attr]
                if timer.deadline > now:  # type: ignore[union-attr]
                    return None
                self._pass()
                self.count -= 1
                timer._state = QUEUED  # type: ignore[union-attr]
                return timer
            self._pass()

    def _open(self, bucket: Bucket) -> None:
        if bucket is self._recent:
            self._recent = None
        self._due = [timer for timer in bucket.alarms if timer is not None]
        self._due.sort(key=_deadline)
        self._position = 0
        self._opened = bucket.key
        for timer in self._due:
            timer._bucket = None  # type: ignore[union-attr]

    def _pass(self) -> None:
        self._due[self._position] = None
        self._position += 1

    def next_deadline(self) -> float | None:
        """When to look again; may be too early when timers were cancelled."""
        while self._position < len(self._due):
            timer = self._due[self._position]
            if timer._state == PENDING:  # type: ignore[union-attr]
                return timer.deadline  # type: ignore[union-attr]
            self._pass()
        while self._keys:
            bucket = self._buckets.get(self._keys[0])
            if bucket is not None and bucket.live > 0:
                return bucket.earliest
            if bucket is not None and bucket is self._recent and len(self._keys) == 1:
                return None  # it will be wanted again
            if bucket is not None:
                del self._buckets[bucket.key]
                self._recent = None
            heappop(self._keys)
        return None

    def clear(self) -> None:
        """End every pending timer, for good: one whose tick is in hand does not begin again."""
        self.closed = True
        for bucket in self._buckets.values():
            self._end_all(bucket.alarms)
        self._buckets = {}
        self._recent = None
        self._keys = []
        self._end_all(self._due)
        self._due = []
        self._position = 0
        self.count = 0

    def _end_all(self, alarms: list[Alarm | None]) -> None:
        for timer in alarms:
            if timer is not None and timer._state == PENDING:
                timer._bucket = None
                timer.end()
