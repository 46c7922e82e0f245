# cython: boundscheck=False, wraparound=False, nonecheck=False
"""An actor as the loop sees it: a mailbox, a handler, and where it stands.

`Cell` is a `Mailbox` rather than having one: the path of a message then touches one object fewer (`make bench`, P9),
and an idle actor is smaller (P8).

**Four ways into a mailbox**, from any thread. *Send*: `accept` by the quick way, `post` with a receipt. *Send if there
is room*, and *wait for room*: `Admission.send_if_room` and `wait_for_room`. *Notify*: `notify`, which needs no room. On
the loop's thread they lead to `Admission`, elsewhere to `Inbound`.

**Threads.** A cell belongs to its loop's thread, which reads and writes it as it likes. What others may look at, with a
GIL or without, is one of three kinds, and each field says of which it is:

- *settled*: set before anybody else has the cell, and the same until it is freed: `loop`, `runq`, `config`, `capacity`.
- *numbers*: `count`, `flags`, `closed` and the like. Written by the loop's thread alone, so a glance from elsewhere is
  a moment old, and never torn. `reserved` alone is written by all, atomically.
- *guarded*: objects that are replaced while others look. The loop's thread writes them by the methods below, others
  read them by those; without a GIL, both take the cell's own lock, or an object could be freed between a look and a
  touch.
"""

from __future__ import annotations

from _thread import get_ident
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

from greenroom._core.build import COMPILED
from greenroom._core.flags import HELD, INTERCEPTED, OFFLOADED, ORDERS, PROPAGATES, RESUME, STALLED
from greenroom._core.itemkinds import ATOMS
from greenroom._core.mailbox.mailbox import Mailbox
from greenroom._core.runqueue import RunQueue
from greenroom.lanes import Lane

if TYPE_CHECKING:
    from contextvars import Context

    from greenroom._core.handoff.messages import MessageHandoff
    from greenroom.system.dispatchers.processes.pool.executor import RemoteMessages

    Order: TypeAlias = "HostOrder | Callable[[Cell], object]"

_DATA = Lane.DATA
# What `Cell.ended` says of a cell that has ended: all its messages found their column, or one is still in hand.
ENDED = 1
ENDED_IN_HAND = 2


class HostOrder:
    """An order that the host of a cell carries out itself, by its number: saves a call, at the start and at the end."""

    __slots__ = ("name", "what")

    def __init__(self, what: int, name: str) -> None:
        self.what = what
        self.name = name

    def __repr__(self) -> str:
        return f"<order to {self.name}>"


class Tally:
    """The columns of the ledger that most actors never need; made on first use."""

    __slots__ = (
        "dead_lettered",
        "dropped",
        "failed",
        "late_replies",
        "lost",
        "redirected",
        "refused",
        "rejected",
        "sent_aside",
        "stashed",
        "unhandled",
    )

    def __init__(self) -> None:
        # What was sent, beyond what the data lane took in by the quick way; notices count against it.
        self.sent_aside = 0
        self.failed = 0
        self.unhandled = 0
        self.dead_lettered = 0
        self.dropped = 0
        self.redirected = 0
        self.lost = 0
        self.rejected = 0
        # Of the handled ones, those that it refused with an exception it declares as an answer.
        self.refused = 0
        # Replies that came too late for their askers; they are not messages of the ledger.
        self.late_replies = 0
        # Messages that are put aside at present; they count as queued.
        self.stashed = 0


class Cell(Mailbox):
    """One actor on a loop. Made by `Loop.spawn`."""

    __slots__ = (
        "__weakref__",
        "context",
        "ended",
        "ending",
        "exempt",
        "handled",
        "handler",
        "id",
        "idle",
        "loop",
        "orders",
        "record",
        "ref",
        "runq",
        "subject",
        "tally",
        "task",
        "timers",
    )

    def set_up(self, loop: Any, runq: RunQueue, handler: Any, subject: object, like: Mailbox) -> None:
        """What `__init__` would do, if its arguments had not to be packed into a tuple first. For `Loop.spawn`.

        The mailbox is made like `like`: thousands of actors have one config, which is read once.
        """
        priority = None if like.priority is None else like.config.priority
        self.set_up_mailbox(like.config, like.capacity, like.drops_oldest, priority)
        self.loop = loop
        self.runq = runq
        # Called as handler(subject, message): a class's own function and its instance, so that no bound method has
        # to be kept for every actor.
        self.handler = handler
        self.subject = subject
        if COMPILED:
            leave_to_collector(handler)
        # What stands for this cell as a sender, and in what people read; the floor above sets it. Guarded, as are
        # `handler`, `subject` and `record`: others read it by `shown`.
        self.ref: Any = None
        # The floor above's own record of the actor. Others read it by `peek_record`.
        self.record: Any = None
        self.id = 0
        self.exempt = False
        # Set when the loop begins to retire the cell, and when its account is closed (`ENDED` or `ENDED_IN_HAND`).
        self.ending = False
        self.ended = 0
        # Invariant: False iff the cell stands in the run queue, is in hand, or is suspended in a handler
        self.idle = True
        self.handled = 0
        self.tally: Tally | None = None
        # One order, as nearly always, or a deque of several.
        self.orders: Any = None
        # The first of its `Timer`s, and its suspended handler's `HandlerTask`: both of upper rooms.
        self.timers: Any = None
        self.task: Any = None
        # Where its coroutines run, once it had one.
        self.context: Context | None = None

    def __repr__(self) -> str:
        return f"<cell {self.name()}>"

    def __init__(self) -> None:
        raise TypeError("a cell is made by `Loop.spawn`")

    def shown(self) -> object:
        """What errors and observers are given: the ref, if the floor above has set one. From any thread."""
        ref = guarded_ref(self) if COMPILED else self.ref
        return self.loop.host.ref_of(self) if ref is None else ref

    def peek_record(self) -> Any:
        """The floor above's record of the actor. From any thread."""
        return guarded_record(self) if COMPILED else self.record

    def put_record(self, record: object) -> None:
        if COMPILED:
            guard_record(self, record)
        else:
            self.record = record

    def code(self) -> tuple[Any, Any]:
        """The handler and the subject. From any thread."""
        return guarded_code(self) if COMPILED else (self.handler, self.subject)

    def put_code(self, handler: Any, subject: Any) -> None:
        if COMPILED:
            guard_code(self, handler, subject)
        else:
            self.handler = handler
            self.subject = subject

    def forget_code(self) -> None:
        """Drop what handles messages: no more are handled, for now."""
        self.put_code(None, None)
        self.context = None

    def forget_actor(self) -> None:
        """Break the cycles of an actor that has ended, so that it is freed at once, without a collector."""
        self.forget_code()
        if COMPILED:
            guard_ref(self, None)
        else:
            self.ref = None

    def name(self) -> str:
        """What to call it in errors and logs."""
        shown = self.shown()
        return f"#{self.id & 0xFFFFFFFF}.{self.id >> 32}" if shown is self else str(shown)

    def tell(self, message: object, sender: object = None, lane: Lane = _DATA) -> None:
        """Send a message, from any thread. Inside a handler, the sender is the actor in hand unless named."""
        self.accept(message, sender, lane)

    # Every C expression is written where it is used, and no argument may be left out: either would cost some 30
    # instructions a message (callgrind, flood). `runq` has no name of its own: without a GIL, threads that send to one
    # loop would fight over the count of its references.
    def accept(self, message: object, sender: object, lane: Lane) -> None:
        """What `tell` does, for callers that have all three: the quick way in."""
        if (COMPILED and thread_ident() != self.runq.thread) or (not COMPILED and get_ident() != self.runq.thread):
            self.runq.inbound.tell(self, message, sender, lane)
            return
        if lane is not _DATA or (self.count + self.reserved >= self.limit and not self._may_enter_quickly(message)):
            self.runq.admission.admit(self, message, self.runq.current_ref if sender is None else sender, lane)
            return
        while self.count * 2 > self.mask:
            self.grow()
        if COMPILED:
            append(self, message, sender)
        else:
            tail = (self.head + self.count * 2) & self.mask
            self.buf[tail] = message  # type: ignore[index]
            self.buf[tail + 1] = self.runq.current_ref if sender is None else sender  # type: ignore[index]
        self.count += 1
        self.pushed += 1
        if self.idle:
            self.idle = False
            self.runq.push(self)

    def _may_enter_quickly(self, message: object) -> bool:
        """Whether the quick way is shut only because each message is looked at first, and this one need not be."""
        if not self.flags & INTERCEPTED or not self.flags & OFFLOADED or self.closed or self.priority is not None:
            return False
        if self.flags & PROPAGATES:
            return False
        return type(message) in ATOMS and self.count - self.notices + self.reserved < self.capacity

    def is_foreign(self) -> bool:
        """Whether this is another thread than the loop's own."""
        if COMPILED:
            foreign: bool = thread_ident() != self.runq.thread
        else:
            foreign = get_ident() != self.runq.thread
        return foreign

    def post(self, message: object, receipt: object, lane: Lane = _DATA) -> None:
        """Send a message with exactly this in its sender's place: a receipt, a ref, or None. From any thread."""
        if self.is_foreign():
            self.runq.inbound.send(self, message, receipt, lane)
        else:
            self.runq.admission.admit(self, message, receipt, lane)

    def notify(self, notice: object) -> None:
        """Queue a notice with the data lane, from any thread. A closed cell takes none."""
        if self.is_foreign():
            self.runq.inbound.notify(self, notice)
        elif not self.closed:
            if self.loop.is_guarded and self.loop.world.notifies(self, notice):
                return
            self.enqueue_notice(notice)
            self.make_runnable()

    def handoff(self) -> MessageHandoff | RemoteMessages | None:
        """What carries its messages elsewhere at present, if something does. From other threads, a glance."""
        carried: MessageHandoff | RemoteMessages | None = self.loop.carried.get(self)
        return carried

    def order(self, action: Order) -> None:
        """Have `action(cell)` called, or carried out by the host, after the message in hand and before any other.

        From any thread.
        """
        if self.is_foreign():
            self.runq.inbound.order(self, action)
            return
        if self.ending:
            return
        if self.orders is None:
            self.orders = action
        elif type(self.orders) is deque:
            self.orders.append(action)
        else:
            self.orders = deque((self.orders, action))
        self.flags |= ORDERS
        self.make_runnable()
        if self.flags & OFFLOADED:
            handoff = self.handoff()
            if handoff is not None:
                handoff.withdraw()

    def waiting_orders(self) -> tuple[Order, ...]:
        if self.orders is None:
            return ()
        return tuple(self.orders) if type(self.orders) is deque else (self.orders,)

    def withdraw(self, withdrawn: tuple[Order, ...]) -> None:
        """Take back orders that have not acted yet."""
        left = [order for order in self.waiting_orders() if order not in withdrawn]
        self.orders = deque(left) if left else None
        if not left:
            self.flags &= ~ORDERS

    def take_order(self) -> Any:
        """Take the next order; there must be one."""
        action = self.orders
        if type(action) is deque:
            action = self.orders.popleft()
            if self.orders:
                return action
        self.orders = None
        self.flags &= ~ORDERS
        return action

    def hold(self) -> None:
        """Make messages and notices wait; orders still act."""
        self.flags |= HELD

    def release(self) -> None:
        self.flags &= ~HELD
        if self.waiting():
            self.make_runnable()

    def stall(self) -> None:
        """Make data messages and notices wait; orders still act, and more urgent lanes are served."""
        self.flags |= STALLED

    def unstall(self) -> None:
        self.flags &= ~STALLED
        if self.waiting():
            self.make_runnable()

    def resume(self) -> None:
        """Queue the cell for the next step of its suspended handler."""
        if self.task is not None:
            self.flags |= RESUME
            self.runq.push(self)

    def make_runnable(self) -> None:
        """Enter the run queue, unless the cell is there already, in hand or suspended."""
        if self.idle:
            self.idle = False
            self.runq.push(self)

    def count_aside(self) -> Tally:
        if self.tally is None:
            self.tally = Tally()
        return self.tally

    def sent(self) -> int:
        """Messages ever sent to this cell: in any lane, refused when it was closed too, but not rejected ones."""
        return self.pushed - self.noticed + (0 if self.tally is None else self.tally.sent_aside)
