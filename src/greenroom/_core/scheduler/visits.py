# cython: boundscheck=False, wraparound=False, nonecheck=False
"""Visits to runnable cells: the hot path of a tick.

**The quick way.** With no bit of `cell.flags` set, a visit takes the oldest data message, calls the handler, counts,
and looks at the time; nothing else. Everything rarer (orders, other lanes, receipts, suspended handlers, failures) sets
a bit or leaves by an exception, so it costs a plain message nothing. There is no `try` in the quick way either: what a
handler raises goes up to `make`, which knows from `hand` and `message` whose it was.

**Time.** Whether the time is up is asked after every message, so a slow handler cannot take the next one with it.

**Orders are no messages.** They do not count against what a visit may handle: an actor starts and handles its first
message in one visit, and handles its last one and ends in one. Each visit to an actor among thousands begins with cache
misses: while two visits more were made, a life took a third longer (`make bench`, P18F). In a simulation an order does
take a turn, so that others can come between.

**Adaptive visits.** When ticks keep running out of time before every runnable cell had its turn, visits become shorter,
down to one message, except for cells with deep queues; they lengthen again as soon as everyone gets a turn.
"""

from __future__ import annotations

from asyncio import CancelledError
from collections.abc import Coroutine
from math import inf
from types import CoroutineType
from typing import TYPE_CHECKING

from greenroom._core.behavior import BehaviorBase, is_generator, refuse_returned_generator
from greenroom._core.build import COMPILED
from greenroom._core.delivery.admission import Admission
from greenroom._core.flags import HELD, NOTIFY_TAKEN, OFFLOADED, ORDERS, PROPAGATES, RECEIPTS, RESUME, ROOM
from greenroom._core.itemkinds import MESSAGE, NOTHING, NOTICED, ORDERED, STASHED
from greenroom._core.mailbox.cell import ENDED, ENDED_IN_HAND, Cell, HostOrder
from greenroom._core.observerhooks import ObserverHooks
from greenroom._core.receipt import NOTICE, Receipt
from greenroom._core.runqueue import RunQueue
from greenroom._core.scheduler.stepping import SUSPENDED, HandlerTask, Stepper
from greenroom._core.timing.tickbudget import TickBudget
from greenroom.errors import InternalError, NotAwaited
from greenroom.exits import ends_system
from greenroom.runtimelog import RuntimeLog

if TYPE_CHECKING:
    from contextvars import Context
    from typing import TypeGuard
    from weakref import ref

    from greenroom._core.scheduler.host import Host
    from greenroom._core.scheduler.stepping import AnyCoroutine
    from greenroom._core.simulation.director import Director
    from greenroom.actor.lifecycle import Lifecycle

_log = RuntimeLog()

EMPTY = -1
DATA = 1
"""As in `greenroom.lanes.Lane`."""
NOTED = NOTIFY_TAKEN | PROPAGATES
KEPT = 64
"""Slots a drained ring keeps for good, as in `ring`."""
LINGER = 1.0
"""Seconds a drained ring stays large: growing it anew for each burst costs 150 ns a message (`make bench`, P3)."""
NEVER = inf
_UNTIMED = 3
"""Messages whose time is not asked for after a quick one."""


def is_awaitable(result: object) -> bool:
    return can_await(result) if COMPILED else hasattr(type(result), "__await__")


def is_coroutine(awaitable: object) -> TypeGuard[AnyCoroutine]:
    """Whether `awaitable` is a handler's own coroutine; those of handlers that Cython compiled have their own type."""
    return type(awaitable) is CoroutineType or (
        type(awaitable).__name__ == "coroutine" and isinstance(awaitable, Coroutine)
    )


class Visits:
    """Makes the visits of one loop's ticks, and knows what is in hand: a cell, and its message, order or notice."""

    def __init__(
        self, runq: RunQueue, admission: Admission, tick_budget: TickBudget, per_visit: int, per_tick: int
    ) -> None:
        self.runq = runq
        self.admission = admission
        self.host: Host | Lifecycle = admission.host
        self.director: Director | None = admission.director
        self.tick_budget = tick_budget
        # These two are guarded, as in a `Cell`: `peek_hand` reads them from any thread.
        self.hand: Cell | None = None
        self.message: object = None
        self.kind = NOTHING
        self.sender: object = None
        # Invariant: DATA, but while a message of another lane is in hand; so the quick way need not set it
        self.lane = DATA
        # The context of the message in hand, if it has one of its own.
        self.context: Context | None = None
        # Where the id of the cell in hand is written for other processes to see, if some do: shared memory.
        self.holder: memoryview | None = None
        # Other loops that run on this thread: what is told to their actors in a visit comes from the cell in hand too.
        self.neighbours: tuple[ref[RunQueue], ...] = ()
        # Invariant: True iff one of these two is there
        self.is_marked = False
        # Invariant: how many cells have a suspended handler or order
        self.suspended = 0
        # How many cells have ended with a message in hand that has not come to its end.
        self.ended_in_hand = 0
        # When the last message was done, in counts; when the handler that is being resumed began, or -1; and how long
        # the handler took that failed last. So a failure can be told with its time, and no message has to be timed.
        self._mark = 0
        self._resumed_from = -1.0
        self.took = 0.0
        self.hooks: ObserverHooks = admission.hooks
        self.stepper = Stepper()
        # What cells have handled that had ended before.
        self.ended_handled = 0
        self._left = 0
        self._out_of_time = False
        self._tick_began = 0.0
        # How many more messages are handled before the counter is asked how long that took.
        self._untimed = 0
        # Messages a visit may handle at present, and how many ticks in a row left someone without a turn.
        self._per_visit = per_visit
        self._per_tick = per_tick
        self._batch = per_visit
        self._strained = 0
        # Invariant: trim_at == NEVER iff _large is empty; a dict for its order
        self._large: dict[Cell, None] = {}
        self.trim_at = NEVER

    # -- who may see what is in hand

    def hold(self, holder: memoryview) -> None:
        """Write the id of the cell in hand there, from now on."""
        self.holder = holder
        self.is_marked = True

    def set_neighbours(self, neighbours: tuple[ref[RunQueue], ...]) -> None:
        self.neighbours = neighbours
        self.is_marked = self.holder is not None or bool(neighbours)

    def _mark_hand(self, cell: Cell | None) -> None:
        if self.holder is not None:
            self.holder[0] = 0 if cell is None else cell.id
        for neighbour in self.neighbours:
            runq = neighbour()
            if runq is not None:
                runq.current_ref = None if cell is None else cell.ref

    def peek_hand(self) -> tuple[Cell | None, object]:
        """The cell in hand, and its message. From any thread."""
        return guarded_hand(self) if COMPILED else (self.hand, self.message)

    # -- visits

    def make(self, now: float) -> None:
        """Make the visits of a tick that began at `now`, until a budget is spent or no cell is runnable."""
        self._tick_began = now
        self._mark = self.tick_budget.began
        self._untimed = 0
        if now >= self.trim_at:
            self._trim()
        self._out_of_time = False
        self._left = self._per_tick
        waiting = self.runq.count
        try:
            while True:
                try:
                    self._drain()
                    break
                except BaseException as exc:
                    try:
                        self._fail(exc)
                    finally:
                        if self.hand is not None:
                            self._leave(self.hand)
                    self._out_of_time = self.tick_budget.spent()
                    self._mark = self.tick_budget.began
                    self._untimed = 0
        finally:
            self.stepper.leave()
            if COMPILED:
                guard_hand(self, None)
            else:
                self.hand = None
            if self.is_marked:
                self._mark_hand(None)
            self.kind = NOTHING
            self.show(None)
            self.sender = self.runq.current_ref = None
        self._adapt(waiting)

    def _drain(self) -> None:
        """Visit one cell after the other. An exception means that the cell in hand failed."""
        runq = self.runq
        while self._left > 0 and runq.count > 0 and not self._out_of_time:
            self._left -= 1
            if self.director is not None:
                runq.bring_forward(self.director.next(runq))
            cell = runq.take()
            if COMPILED:
                guard_hand(self, cell)
            else:
                self.hand = cell
            if self.is_marked:
                self._mark_hand(cell)
            runq.current_ref = cell.ref
            self._visit(cell)
            self._leave(cell)
            if self.director is not None and self.director.ends_tick():
                self._left = 0
            # The counters may stand still where a machine's are broken; the clock does not.
            if self._left % 64 == 0 and self.tick_budget.spent():
                self._out_of_time = True

    def _visit(self, cell: Cell) -> None:
        """Handle messages of `cell` until its budget or the tick's time is spent, or none is left."""
        left = self._batch
        if left < self._per_visit:
            left = min(left + cell.count // 8, self._per_visit)
        timed = self.hooks.slow_handler
        if self.director is not None:
            left = self.director.budget(self._per_visit)
            timed = True
        while left > 0 or (left == 0 and cell.flags & ORDERS and self.director is None):
            left -= 1
            # An ask that is queued is looked at when its turn comes: those before it are plain.
            if (cell.flags != 0 and (cell.flags != RECEIPTS or isinstance(cell.first_sender(), Receipt))) or timed:
                if cell.flags & ORDERS and self.director is None:
                    left += 1
                if not self._look(cell):
                    left = -1
            else:
                if cell.count == 0:
                    break
                if COMPILED:
                    take_in_hand(self, cell)
                else:
                    head = cell.head
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
                result = call_with_message(self, cell) if COMPILED else cell.handler(cell.subject, self.message)
                if result is None and self.kind == MESSAGE:
                    self.kind = NOTHING
                    cell.handled += 1
                elif not self._conclude(cell, result):
                    left = -1
            if COMPILED:
                # Quick ones are timed by fours: to look at the counter each time took a tenth of P18N.
                if self._untimed > 0:
                    self._untimed -= 1
                    continue
                count = counter()
                if count - self._mark < self.tick_budget.quick:
                    self._untimed = _UNTIMED
                self._mark = count
                if count - self.tick_budget.began < self.tick_budget.allowed:
                    continue
                self._untimed = 0
            if self.tick_budget.spent():
                self._out_of_time = True
                break

    def _look(self, cell: Cell) -> bool:
        """Do the next thing for a cell whose next thing is not plain; False when there is nothing to do now."""
        if cell.flags & RESUME:
            return self._go_on(cell)
        if cell.flags & ORDERS:
            action = cell.take_order()
            self.kind, self.sender = ORDERED, None
            self.show(action)
            if type(action) is HostOrder:
                order: HostOrder = action
                result = self.host.carry_out(cell, order.what)
            else:
                result = action(cell)
            if result is None:
                self.kind = NOTHING
                return True
            return self._conclude(cell, result)
        if cell.flags & HELD:
            return False
        lane = cell.choose()
        if lane == EMPTY:
            return False
        sender = cell.sender_of(lane)
        message = cell.take_from(lane)
        if cell.flags & ROOM:
            self.admission.fill_up(cell)
        if isinstance(sender, Receipt):
            if sender is NOTICE:
                self.kind, self.sender = NOTICED, None
                self.show(message)
                return self._conclude(cell, self.host.notice(cell, message))
            self.kind, self.sender = MESSAGE, sender
            self.show(message)
            receipt: Receipt = sender
            if not receipt.live():
                self.kind = NOTHING
                self.admission.count_withdrawn(cell, sender)
                return True
        self.kind, self.sender = MESSAGE, sender
        self.show(message)
        self.lane = lane
        if cell.flags & NOTED:
            if cell.flags & NOTIFY_TAKEN:
                self.host.message_taken(cell)
            if cell.flags & PROPAGATES:
                return self._handle_within(cell, message)
        if not self.hooks.slow_handler:
            return self._conclude(cell, self._handle(cell, message))
        began = self.tick_budget.now()
        try:
            return self._conclude(cell, self._handle(cell, message))
        finally:
            self._tell_if_slow(cell, message, began)

    def _handle_within(self, cell: Cell, message: object) -> bool:
        """Have a message handled in a context of its own, with the variables that it brings along."""
        own = cell.context
        context = cell.context = self.admission.propagation.context_for(own, self.sender)  # type: ignore[union-attr]
        # For what is said of a failure; see `_fail`.
        self.context = context
        began = self.tick_budget.now()
        try:
            is_done = self._conclude(cell, context.run(self._handle, cell, message))
        finally:
            if cell.context is context:
                cell.context = own
            if self.hooks.slow_handler:
                self._tell_if_slow(cell, message, began)
        self.context = None
        return is_done

    def _handle(self, cell: Cell, message: object) -> object:
        if cell.flags & OFFLOADED:
            return self.host.offload(cell, message, self.sender, self.lane)
        if self.director is not None:
            return self.director.handle(cell, message, self.sender)
        return cell.handler(cell.subject, message)

    def _tell_if_slow(self, cell: Cell, message: object, began: float) -> None:
        """A handler, or one step of it, has held the thread since `began`."""
        took = self.tick_budget.now() - began
        if took >= self.hooks.slow_after and self.hooks.slow_handler:
            self.hooks.emit("slow_handler", cell.shown(), message, took)

    def _conclude(self, cell: Cell, result: object) -> bool:
        """Bring what is in hand to its end, stepping it if it is a coroutine; False when that suspends."""
        if type(result) is CoroutineType or is_awaitable(result):
            if not is_coroutine(result):
                raise NotAwaited(cell.shown(), result)
            result = self.stepper.first(result, cell)
            if result is SUSPENDED:
                task = cell.task
                task.kind, task.message, task.sender = self.kind, self.message, self.sender
                task.lane = self.lane
                task.began = self._tick_began
                self.kind = NOTHING
                self.lane = DATA
                self.suspended += 1
                if cell.flags & ORDERS or task.kind == ORDERED:
                    self.host.suspended(cell)
                return False
        self._settle(cell, result)
        return True

    def _go_on(self, cell: Cell) -> bool:
        """Step the suspended coroutine of `cell`; False when it suspends again."""
        cell.flags &= ~RESUME
        task: HandlerTask = cell.task
        self.kind, self.sender = task.kind, task.sender
        self.show(task.message)
        self.lane = task.lane
        self.suspended -= 1
        self._resumed_from = task.began
        if cell.flags & PROPAGATES and task.kind == MESSAGE:
            self.context = task._context
        if not self.hooks.slow_handler or task.kind != MESSAGE:
            result = self.stepper.step(task)
        else:
            began = self.tick_budget.now()
            try:
                result = self.stepper.step(task)
            finally:
                self._tell_if_slow(cell, task.message, began)
        self._resumed_from = -1.0
        if cell.flags & PROPAGATES:
            self.context = None
        if result is SUSPENDED:
            task.kind, task.sender = self.kind, self.sender
            self.kind = NOTHING
            self.lane = DATA
            self.suspended += 1
            return False
        self._settle(cell, result)
        return True

    def _settle(self, cell: Cell, result: object) -> None:
        """Account for what was in hand, and pass its result on."""
        self.lane = DATA
        if isinstance(result, BehaviorBase):
            behavior: BehaviorBase = result
            if behavior.unhandled:
                self._leave_unhandled(cell)
                return
            self.host.behavior_returned(cell, behavior)
            result = None
        elif (
            result is not None
            and is_generator(result)
            and not isinstance(self.sender, Receipt)  # only an asker can do something with that
            and self.kind in (MESSAGE, NOTICED)
        ):
            refuse_returned_generator(f"a handler of {cell.name()}", result)
        kind = self.kind
        self.kind = NOTHING
        if kind == MESSAGE:
            cell.handled += 1
            if isinstance(self.sender, Receipt):
                receipt: Receipt = self.sender
                receipt.settle(result)

    def _leave(self, cell: Cell) -> None:
        """End a visit: back into the run queue if there is more to do, else idle or suspended."""
        if cell.task is None:
            if cell.ended == ENDED_IN_HAND:
                # The cell ended with a message in hand, which has been handled since.
                self.ended_handled += 1
                self._count_out(cell)
            if self._has_more(cell):
                self.runq.push(cell)
            else:
                cell.idle = True
                if cell.mask >= KEPT:
                    self._note_large(cell)

    def _has_more(self, cell: Cell) -> bool:
        if cell.flags == 0:
            return cell.count > 0
        return bool(cell.flags & ORDERS) or (not cell.flags & HELD and cell.has_next())

    def in_hand(self, cell: Cell) -> int:
        """How many messages `cell` has in hand: one or none."""
        if cell.task is not None:
            return 1 if cell.task.kind == MESSAGE else 0
        return 1 if self.hand is cell and self.kind == MESSAGE else 0

    def _adapt(self, waiting: int) -> None:
        """Shorten visits when two ticks in a row left cells without a turn; lengthen them when all had one."""
        if self._out_of_time and self._per_tick - self._left < waiting:
            self._strained += 1
            if self._strained >= 2 and self._batch > 1:
                self._batch //= 2
        else:
            self._strained = 0
            if self._batch < self._per_visit:
                self._batch = min(self._batch * 2, self._per_visit)

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

    # -- what becomes of a message whose handler does not return

    def let_sender_go(self) -> None:
        """The message in hand is answered, or will be, by another actor."""
        self.sender = None

    def stash(self) -> tuple[object, object, int]:
        """Take the message in hand away to be handled later, with its sender and lane; there must be one."""
        self.kind = STASHED
        return self.message, self.sender, self.lane

    def show(self, message: object) -> None:
        """Take `message` for what is in hand: a failure, or a message left unhandled, is told with it."""
        if COMPILED:
            guard_message(self, message)
        else:
            self.message = message

    def _leave_unhandled(self, cell: Cell) -> None:
        kind = self.kind
        self.kind = NOTHING
        if kind == MESSAGE:
            self.admission.count_unhandled(cell)
            if cell.ended == ENDED_IN_HAND:
                self._count_out(cell)
        if kind == MESSAGE or kind == NOTICED:  # noqa: SIM109 - a tuple to search in would be an object
            try:
                self.host.unhandled(cell, self.message, self.sender)
            finally:
                if kind == MESSAGE and isinstance(self.sender, Receipt):
                    self.sender.discard("unhandled")  # last, as in `tell_dead_letter`

    def _fail(self, cause: BaseException) -> None:
        """The cell in hand let `cause` out. Its visit ends with that; raise if the cause is none of its handler's."""
        cell = self.hand
        kind, message, sender = self.kind, self.message, self.sender
        context, self.context = self.context, None
        self.kind = NOTHING
        self.lane = DATA
        self.took = (
            self.tick_budget.since(self._mark)
            if self._resumed_from < 0.0
            else self.tick_budget.now() - self._resumed_from
        )
        self._resumed_from = -1.0
        if cell is None:
            raise InternalError("the loop itself failed: please report this") from cause
        if kind == MESSAGE and self._is_refusal(cell, message, sender, cause):
            cell.handled += 1
            if isinstance(sender, Receipt):
                self._tell_failed(cell, sender, cause)
            return
        if kind == STASHED and self._is_refusal(cell, message, None, cause):  # it is put aside, and not answered yet
            return
        if self.director is not None:
            self.director.failed(cell, cause)
        if kind == NOTHING:
            # Not its handler: what is told of results, or (in plain Python) a signal between two steps of ours.
            if ends_system(cause):
                raise cause
            raise InternalError(f"the loop failed with {cell} in hand: please report this") from cause
        if kind == MESSAGE:
            self._count_failed(cell)
        try:
            if not cell.ended or ends_system(cause):
                if context is None:
                    self.host.failed(cell, message, cause)
                else:
                    context.run(self.host.failed, cell, message, cause)
        finally:
            # When it is decided what becomes of the actor: that is part of what a receipt tells.
            if kind == MESSAGE and isinstance(sender, Receipt):
                self._tell_failed(cell, sender, cause)

    def _is_refusal(self, cell: Cell, message: object, sender: object, cause: BaseException) -> bool:
        """Whether `cause` is an answer to the message in hand, and no failure. An injected fault never is."""
        if cell.ended or (self.director is not None and self.director.is_fault(cause)):
            return False
        if not self.host.refuses(cell, message, sender, cause):
            return False
        self.admission.count_refusal(cell)
        return True

    def abandon(self, cell: Cell) -> None:
        """Break off the suspended handler of `cell`, which will not end by itself; its message counts as failed."""
        task: HandlerTask = cell.task
        cell.flags &= ~RESUME
        self.suspended -= 1
        if cell.flags & OFFLOADED:
            task.abandon_waiter()  # which says what of it is done
        if task.kind == MESSAGE:
            self._count_failed(cell)
            if isinstance(task.sender, Receipt):
                self._tell_failed(cell, task.sender, CancelledError("abandoned"))
        try:
            task.abandon()
        except BaseException as exc:
            fields = cell.loop.host.log_fields(cell)
            _log.exception("the handler of %s would not be broken off", cell.name(), extra=fields)
            if self.director is not None:
                self.director.hook_raised(cell, "handler", exc)

    def _count_failed(self, cell: Cell) -> None:
        self.admission.count_failed(cell)
        if cell.ended == ENDED_IN_HAND:
            self._count_out(cell)

    def _tell_failed(self, cell: Cell, receipt: Receipt, cause: BaseException) -> None:
        try:
            receipt.fail(cause)
        except Exception:
            fields = cell.loop.host.log_fields(cell)
            _log.exception("a receipt raised when it was told of a failure of %s", cell.name(), extra=fields)

    def _count_out(self, cell: Cell) -> None:
        """What an ended cell still had in hand is counted in the ledger now."""
        self.ended_in_hand -= 1
        cell.ended = ENDED
