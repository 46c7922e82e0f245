# cython: boundscheck=False, wraparound=False
"""The loop: takes in what time and other threads bring, visits runnable cells, and stays within its budgets.

A *tick* takes in foreign messages and due timers, then makes *visits*: to each runnable cell in turn, up to
`max_msgs_per_actor` messages each, `max_actors_per_tick` visits in all, and no message begun after `max_tick_time`. The
rest of the thread's time belongs to asyncio, which the poller hands it back to.

**The quick way.** With no bit of `cell.alert` set, a visit takes the oldest data message, calls the handler, counts,
and looks at the time; nothing else. Everything rarer (orders, other lanes, slips, suspended handlers, failures) sets a
bit or leaves by an exception, so it costs a plain message nothing. There is no `try` in the quick way either: what a
handler raises goes up to the tick, which knows from `hand` and `message` who it was.

**Time.** Whether the time is up is asked after every message, so a slow handler cannot take the next one with it. The
compiled loop reads the processor's counter (8-17 ns) and asks the clock (35 ns) only when that says so.

**Adaptive visits.** When ticks keep running out of time before every runnable cell had its turn, visits become shorter,
down to one message, except for cells with deep queues; they lengthen again as soon as everyone gets a turn.
"""

from __future__ import annotations

import logging
from _thread import get_ident
from asyncio import CancelledError
from math import inf, isfinite
from types import CoroutineType
from typing import Any

from greenroom._core.alerts import HELD, ORDERS, RESUME
from greenroom._core.build import COMPILED
from greenroom._core.cell import Cell
from greenroom._core.door import Door
from greenroom._core.hooks import Hooks
from greenroom._core.host import Host
from greenroom._core.inbound import Inbound
from greenroom._core.limits import Limits
from greenroom._core.pace import Pace
from greenroom._core.runqueue import RunQueue
from greenroom._core.slip import NOTICE, Slip
from greenroom._core.stepping import SUSPENDED, HandlerTask, Stepper
from greenroom._core.table import Table
from greenroom._core.timers import Timer, Timers
from greenroom.clock import Clock, MonotonicClock
from greenroom.errors import InternalError, InvalidDelay, LoopStopped, WrongThread
from greenroom.exits import ends_system
from greenroom.lanes import Lane, MailboxConfig

__all__ = ["Loop"]

EMPTY = -1
KEPT = 64
"""Slots a drained ring keeps for good, as in `ring`."""
LINGER = 1.0
"""Seconds a drained ring stays large: growing it anew for each burst costs 150 ns a message (`make bench`, P3)."""
NEVER = inf
# What a cell has in hand.
NOTHING = 0
MESSAGE = 1
NOTICED = 2
ORDERED = 3

_log = logging.getLogger("greenroom")
_DATA = Lane.DATA
_DEFAULT_MAILBOX = MailboxConfig()


class Loop:
    """The scheduler of one thread. Everything but `Cell.tell`, `post`, `notify` and `order` belongs to that thread."""

    __slots__ = (
        "_batch",
        "_large",
        "_out_of_time",
        "_per_tick",
        "_per_visit",
        "_strained",
        "_tick_began",
        "_ticking",
        "_visits",
        "adrift",
        "clock",
        "closed",
        "door",
        "ended_handled",
        "ended_sent",
        "hand",
        "hooks",
        "host",
        "inbound",
        "kind",
        "limits",
        "message",
        "pace",
        "runq",
        "sender",
        "stepper",
        "table",
        "timers",
        "trim_at",
    )

    def __init__(
        self,
        limits: Limits | None = None,
        clock: Clock | None = None,
        host: Any = None,
        hooks: Hooks | None = None,
    ) -> None:
        self.limits = Limits() if limits is None else limits
        self.clock: Clock = MonotonicClock() if clock is None else clock
        self.host: Any = Host() if host is None else host
        self.hooks = Hooks() if hooks is None else hooks
        self.table = Table(self.limits.max_actors)
        self.timers = Timers(self.limits.max_timers)
        self.runq = RunQueue(get_ident())
        self.door = Door(self.host, self.hooks)
        self.inbound = Inbound(self.door)
        self.door.inbound = self.runq.inbound = self.inbound
        self.stepper = Stepper(self._resume)
        self.pace = Pace(self.clock, self.limits.max_tick_time)
        # The cell in hand, what it handles, and from whom.
        self.hand: Cell | None = None
        self.kind = NOTHING
        self.message: object = None
        self.sender: object = None
        self.closed = False
        # What cells that have ended were sent and handled, and what they have in hand still.
        self.ended_sent = 0
        self.ended_handled = 0
        self.adrift = 0
        self._ticking = False
        self._tick_began = 0.0
        # Invariant: trim_at == NEVER iff _large is empty; a dict for its order
        self._large: dict[Cell, None] = {}
        self.trim_at = NEVER
        self._visits = 0
        self._out_of_time = False
        # Messages a visit may handle at present, and how many ticks in a row left someone without a turn.
        self._per_visit: int = self.limits.max_msgs_per_actor
        self._per_tick: int = self.limits.max_actors_per_tick
        self._batch = self._per_visit
        self._strained = 0

    def now(self) -> float:
        """The time, by the loop's clock."""
        return self.pace.now()

    def adopt(self) -> None:
        """Make the calling thread the loop's own; nothing may be under way on the old one."""
        if self._ticking:
            raise WrongThread("a loop in the middle of a tick")
        self.runq.thread = get_ident()

    def _require_own_thread(self, what: str) -> None:
        if get_ident() != self.runq.thread:
            raise WrongThread(what)

    # Cells

    def spawn(
        self, handler: Any, subject: object = None, mailbox: MailboxConfig | None = None, exempt: bool = False
    ) -> Cell:
        """A new cell whose messages are handled by `handler(subject, message)`."""
        self._require_own_thread("spawn()")
        if self.closed:
            raise LoopStopped("this loop has stopped: nothing can be spawned on it any more")
        cell = Cell.__new__(Cell)
        cell.set_up(self, self.runq, handler, subject, _DEFAULT_MAILBOX if mailbox is None else mailbox)
        self.table.add(cell, exempt)
        return cell

    def retire(self, cell: Cell, why: str = "stopped") -> None:
        """End `cell`: its timers end, what waits for it becomes dead letters, its id is never used again."""
        self._require_own_thread("retire()")
        if cell.id == 0:
            return
        cell.close()
        self.cancel_timers(cell)
        self.door.clear(cell, why)
        if cell.task is not None:
            if self.stepper.aio is None:
                self.abandon(cell)
            else:
                cell.task.cancel()
        self.table.remove(cell)
        self.adrift += self.in_hand(cell)
        self.ended_sent += cell.pushed - cell.noticed
        self.ended_handled += cell.handled
        cell.handled = 0
        if cell.tally is not None:
            self.door.totals.add(cell.tally)
        cell.id = 0
        cell.orders = None
        cell.alert &= ~ORDERS

    def abandon(self, cell: Cell) -> None:
        """Break off the suspended handler of `cell`, which will not end by itself; its message counts as failed."""
        task: HandlerTask = cell.task
        cell.alert &= ~RESUME
        if task.kind == MESSAGE:
            tally = self.door.tally_of(cell)
            tally.failed += 1
            if cell.id == 0:
                self.adrift -= 1
            if isinstance(task.sender, Slip):
                task.sender.fail(CancelledError("abandoned"))
        try:
            task.abandon()
        except BaseException:
            _log.exception("the handler of %s would not be broken off", cell.name())

    def in_hand(self, cell: Cell) -> int:
        """How many messages `cell` has in hand: one or none."""
        if cell.task is not None:
            return 1 if cell.task.kind == MESSAGE else 0
        return 1 if self.hand is cell and self.kind == MESSAGE else 0

    # Timers

    def start_timer(
        self,
        delay: float,
        target: Cell,
        message: object,
        interval: float = 0.0,
        fixed_rate: bool = False,
        owner: Cell | None = None,
    ) -> Timer:
        """Send `message` to `target` after `delay` seconds, and every `interval` after that; it ends with `owner`."""
        if not (isfinite(delay) and delay >= 0.0):
            raise InvalidDelay("delay", delay)
        if not (isfinite(interval) and interval >= 0.0):
            raise InvalidDelay("interval", interval)
        self._require_own_thread("start_timer()")
        self.timers.require_room()
        timer = Timer.__new__(Timer)
        timer.set_up(self, target, message, self.now() + delay, interval, fixed_rate, owner)
        self.timers.add(timer)
        if self.runq.asleep:
            self.runq.wake()  # to sleep again, but not past this deadline
        return timer

    def cancel_timers(self, cell: Cell) -> None:
        """End every timer that `cell` owns."""
        while cell.timers is not None:
            cell.timers.cancel()

    def _fire_due(self, now: float) -> None:
        fired = 0
        timer = self.timers.pop_due(now)
        while timer is not None:
            target = timer.target
            message = timer.message
            if target.closed:
                timer.cancel()
            self.door.deliver(target, message, timer, _DATA)
            fired += 1
            if fired % 64 == 0 and self.pace.spent():
                return
            timer = self.timers.pop_due(now)

    # Ticks

    def tick(self) -> None:
        """Take in what has come, and visit cells until the budgets are spent or nobody is runnable."""
        self._require_own_thread("tick()")
        if self._ticking:
            raise InternalError("a tick was begun inside a tick: please report what called it")
        self._ticking = True
        self._out_of_time = False
        self._visits = self._per_tick
        try:
            now = self._tick_began = self.pace.begin()
            if now >= self.trim_at:
                self._trim()
            if self.inbound.waiting():
                self.inbound.take_in()
            if self.timers.count > 0:
                self._fire_due(now)
            waiting = self.runq.count
            while True:
                try:
                    self._drain()
                    break
                except BaseException as exc:
                    self._fail(exc)
            self._adapt(waiting)
        finally:
            self.stepper.leave()
            self.hand = None
            self.kind = NOTHING
            self.message = self.sender = self.runq.speaker = None
            self._ticking = False

    def run_until_idle(self) -> None:
        """Tick on this thread until nothing is queued or due at the present time."""
        self.tick()
        while self.has_work():
            self.tick()

    def has_work(self) -> bool:
        """Whether a tick would find something to do now."""
        if self.runq.count > 0 or self.inbound.waiting():
            return True
        deadline = self.timers.next_deadline()
        return deadline is not None and deadline <= self.now()

    def _drain(self) -> None:
        """Make visits. An exception means that the cell in hand failed."""
        runq = self.runq
        while self._visits > 0 and runq.count > 0 and not self._out_of_time:
            self._visits -= 1
            cell = runq.take()
            self.hand = cell
            runq.speaker = cell.ref
            self._visit(cell)
            self._leave(cell)
            # The counters may stand still where a machine's are broken; the clock does not.
            if self._visits % 64 == 0 and self.pace.spent():
                self._out_of_time = True

    def _visit(self, cell: Cell) -> None:
        """Handle messages of `cell` until its budget or the tick's time is spent, or none is left."""
        left = self._batch
        if left < self._per_visit:
            left = min(left + cell.count // 8, self._per_visit)
        timed = self.hooks.slow_handler is not None
        while left > 0:
            left -= 1
            if cell.alert != 0 or timed:
                if not self._look(cell):
                    break
            else:
                if cell.count == 0:
                    break
                head = cell.head
                if COMPILED:
                    message = take_slot(cell.buf, head)
                    sender = take_slot(cell.buf, head + 1)
                else:
                    buf = cell.buf
                    message = buf[head]  # type: ignore[index]
                    sender = buf[head + 1]  # type: ignore[index]
                    buf[head] = buf[head + 1] = None  # type: ignore[index]
                cell.head = (head + 2) & cell.mask
                cell.count -= 1
                # The last message and sender may go with these: their finalizers find the ring in order.
                self.message = message
                self.sender = sender
                self.kind = MESSAGE
                result = cell.handler(cell.subject, message)
                if result is None:
                    cell.handled += 1
                elif not self._conclude(cell, result):
                    break
            if COMPILED and counter() - self.pace.began < self.pace.allowed:
                continue
            if self.pace.spent():
                self._out_of_time = True
                break

    def _look(self, cell: Cell) -> bool:
        """Do the next thing for a cell whose next thing is not plain; False when there is nothing to do now."""
        if cell.alert & RESUME:
            return self._go_on(cell)
        if cell.alert & ORDERS:
            action = cell.orders.popleft()  # type: ignore[union-attr]
            if not cell.orders:
                cell.orders = None
                cell.alert &= ~ORDERS
            self.kind, self.message, self.sender = ORDERED, action, None
            return self._conclude(cell, action(cell))
        if cell.alert & HELD:
            return False
        lane = cell.choose()
        if lane == EMPTY:
            return False
        sender = cell.sender_of(lane)
        message = cell.take_from(lane)
        if isinstance(sender, Slip):
            if sender is NOTICE:
                self.kind, self.message, self.sender = NOTICED, message, None
                return self._conclude(cell, self.host.notice(cell, message))
            if not sender.live():
                self.door.count_withdrawn(cell, sender)
                return True
        self.kind, self.message, self.sender = MESSAGE, message, sender
        if self.hooks.slow_handler is None:
            return self._conclude(cell, cell.handler(cell.subject, message))
        began = self.now()
        result = cell.handler(cell.subject, message)
        took = self.now() - began
        if took >= self.hooks.slow_after:
            self.hooks.slow_handler(cell.ref or cell, message, took)
        return self._conclude(cell, result)

    def _conclude(self, cell: Cell, result: object) -> bool:
        """Bring what is in hand to its end, stepping it if it is a coroutine; False when that suspends."""
        if type(result) is CoroutineType or type(result).__name__ == "coroutine":  # a compiled one has its own type
            result = self.stepper.first(result, cell)
            if result is SUSPENDED:
                task = cell.task
                task.kind, task.message, task.sender = self.kind, self.message, self.sender
                self.kind = NOTHING
                return False
        self._settle(cell, result)
        return True

    def _go_on(self, cell: Cell) -> bool:
        """Step the suspended coroutine of `cell`; False when it suspends again."""
        cell.alert &= ~RESUME
        task: HandlerTask = cell.task
        self.kind, self.message, self.sender = task.kind, task.message, task.sender
        result = self.stepper.step(task)
        if result is SUSPENDED:
            self.kind = NOTHING
            return False
        self._settle(cell, result)
        return True

    def _settle(self, cell: Cell, result: object) -> None:
        """Account for what was in hand, and pass its result on."""
        kind = self.kind
        self.kind = NOTHING
        if kind == MESSAGE:
            cell.handled += 1
            if isinstance(self.sender, Slip):
                self.sender.settle(result)
        if result is not None and kind != ORDERED:
            self.host.result(cell, result)

    def _leave(self, cell: Cell) -> None:
        """End a visit: back into the run queue if there is more to do, else idle or suspended."""
        if cell.task is None:
            if cell.id == 0:
                # It ended with a message in hand, which has been handled since.
                self.ended_handled += cell.handled
                self.adrift -= cell.handled
                cell.handled = 0
            if (
                (cell.count > 0 and cell.alert == 0)
                or cell.alert & ORDERS
                or (cell.alert != 0 and not cell.alert & HELD and cell.waiting())
            ):
                self.runq.push(cell)
            else:
                cell.idle = True
                if cell.mask >= KEPT:
                    self._note_large(cell)

    def _note_large(self, cell: Cell) -> None:
        """Give the ring of a drained cell back in a while, unless it is in use by then."""
        self._large[cell] = None
        if self.trim_at == NEVER:
            self.trim_at = self._tick_began + LINGER

    def _trim(self) -> None:
        for cell in self._large:
            if cell.count == 0:
                cell.trim()
        self._large.clear()
        self.trim_at = NEVER

    def _resume(self, cell: Cell) -> None:
        """The suspended coroutine of `cell` can go on: at the back of the run queue."""
        cell.alert |= RESUME
        self.runq.push(cell)

    def _fail(self, cause: BaseException) -> None:
        """The cell in hand let `cause` out."""
        cell = self.hand
        kind, message, sender = self.kind, self.message, self.sender
        self.kind = NOTHING
        if cell is None or kind == NOTHING:
            raise InternalError(f"the loop itself failed, with {cell} in hand: please report this") from cause
        if kind == MESSAGE:
            tally = self.door.tally_of(cell)
            tally.failed += 1
            if cell.id == 0:
                self.adrift -= 1
            if isinstance(sender, Slip):
                sender.fail(cause)
        try:
            if cell.id != 0 or ends_system(cause):
                self.host.failed(cell, message, cause)
        finally:
            self._leave(cell)

    def _adapt(self, waiting: int) -> None:
        """Shorten visits when two ticks in a row left cells without a turn; lengthen them when all had one."""
        if self._out_of_time and self._per_tick - self._visits < waiting:
            self._strained += 1
            if self._strained >= 2 and self._batch > 1:
                self._batch //= 2
        else:
            self._strained = 0
            if self._batch < self._per_visit:
                self._batch = min(self._batch * 2, self._per_visit)

    def close(self) -> None:
        """End every cell and timer and take nothing more. What other threads send from now on is a dead letter."""
        self._require_own_thread("close()")
        if self.closed:
            return
        self.closed = True
        self.inbound.close()
        self.inbound.take_in()
        for cell in list(self.table):
            self.retire(cell, "loop stopped")
        self.timers.clear()
