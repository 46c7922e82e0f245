"""Messages of one cell that are handled on another thread than its loop's.

A message is carried away together with those behind it that are as plain: of the data lane, without a receipt. They are
carried, not taken: until the hand-off completes they stand in the mailbox and count against its bound. The thread that
carries it out looks before each message, as a visit does, whether something more urgent has come, or its time is up.
So a burst costs one hand-over, not one for each message.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import copy_context
from functools import partial
from inspect import iscoroutine
from time import monotonic
from typing import TYPE_CHECKING

from greenroom._core.behavior import BehaviorBase, is_generator, refuse_returned_generator
from greenroom._core.flags import HELD, LANES, ORDERS, PROPAGATES, ROOM
from greenroom._core.handoff.handoff import Handoff
from greenroom._core.itemkinds import MESSAGE, STASHED
from greenroom._core.mailbox.cell import Cell
from greenroom._core.receipt import Receipt
from greenroom.lanes import Overflow

if TYPE_CHECKING:
    from collections.abc import Awaitable
    from typing import TypeGuard

_DATA = 1
_VISITS = 16
"""Visits that one hand-off can be, if its thread has nothing else to do: completing takes as long as some hundreds of
messages."""
_PLAIN = (bool, int, float, str, bytes, tuple, list, dict)
"""What a handler may return that needs no further look."""
_URGENT = ORDERS | HELD | LANES
"""What ends a hand-off before its messages do."""


def must_go_alone(cell: Cell, lane: int) -> bool:
    """Whether a message of this lane is handed off without those behind it."""
    if lane != _DATA or cell.flags & _URGENT:
        return True
    return cell.priority is not None or cell.config.overflow is Overflow.DROP_OLD


def put_back(cell: Cell, message: object, sender: object, lane: int) -> None:
    """Put a message that was handed off, and not begun, back to where it was in the mailbox."""
    admission = cell.loop.admission
    admission.count_stashed(cell, 1)
    admission.take_back(cell, message, sender, lane)


class MessageHandoff(Handoff):
    """Messages of one cell that are handled elsewhere, one after the other."""

    __slots__ = (
        "_began",
        "_begun",
        "_budget",
        "_context",
        "_gone",
        "_hurries",
        "_is_backed_up",
        "_others_wait",
        "_per_visit",
        "_slow",
        "kind",
        "lane",
        "messages",
        "senders",
    )

    carries_messages = True

    def __init__(
        self,
        cell: Cell,
        message: object,
        sender: object,
        lane: int,
        others_wait: Callable[[], bool],
        is_backed_up: Callable[[], bool],
    ) -> None:
        super().__init__(cell)
        # What is in hand: a message, until it is put aside; and of which lane.
        self.kind = MESSAGE
        self.lane = lane
        self.messages: list[object] = [message]
        self.senders: list[object] = [sender]
        # How many have been begun: all but the last of those are done.
        self._begun = 0
        # The budgets of a visit. When one is over another may follow, unless another actor waits for the thread.
        self._per_visit: int = cell.loop.limits.max_msgs_per_actor
        self._budget: float = cell.loop.limits.max_tick_time
        self._others_wait = others_wait
        self._is_backed_up = is_backed_up
        self._began = 0.0
        self._hurries = False
        # How many of the done have left the mailbox.
        self._gone = 0
        self._slow: list[tuple[object, float]] | None = None
        # If the message brings context variables along: the loop is in its context, and the thread needs its own copy.
        self._context = copy_context() if cell.flags & PROPAGATES else None
        self._show()

    def carry(self) -> None:
        """Take along what is queued behind the first message, as far as it is as plain, and not too much.

        Messages that bring context variables go alone: each has a context of its own.
        """
        cell = self.cell
        most = self._per_visit * _VISITS
        if self._context is not None or must_go_alone(cell, self.lane) or isinstance(self.senders[0], Receipt):
            return
        for position in range(min(most - 1, cell.count)):
            sender = cell.sender_at(position)
            if isinstance(sender, Receipt):
                return
            self.messages.append(cell.message_at(position))
            self.senders.append(sender)

    # -- where it is carried out

    @property
    def message(self) -> object:
        return self.messages[self._begun - 1]

    @property
    def sender(self) -> object:
        return self.senders[self._begun - 1]

    def begin_next(self) -> bool:
        with self._lock:
            begun = self._begun
            if self._closed or begun == len(self.messages) or (begun > 0 and self._is_time_to_go()):
                return False
            if begun == 0:
                self._began = monotonic()
            self._begun = begun + 1
            return True

    def _is_time_to_go(self) -> bool:
        """Whether something more urgent has come, or a budget is spent and others wait."""
        if self._hurries or self.cell.flags & _URGENT or monotonic() - self._began >= self._budget:
            return True
        return self._begun % self._per_visit == 0 and self._others_wait()

    def has_begun(self) -> bool:
        return self._begun > 0

    def may_await(self, result: object) -> TypeGuard[Awaitable[object]]:
        return result is not None and iscoroutine(result)

    def perform(self) -> object:
        handler, subject = self.cell.code()
        if self._context is not None and self.task is None:  # a task is in the context already
            handler = partial(self._context.run, handler)
        if not self.cell.loop.hooks.slow_handler:
            return handler(subject, self.messages[self._begun - 1])
        began = monotonic()
        try:
            return handler(subject, self.messages[self._begun - 1])
        finally:
            self.note_time(monotonic() - began)

    def note_time(self, seconds: float) -> None:
        if seconds >= self.cell.loop.hooks.slow_after:
            self._slow = [*(self._slow or ()), (self.message, seconds)]

    def accept(self, result: object) -> bool:
        """Take what the handler returned. Of a message that was told, that is all, unless it says what comes next."""
        if result is not None and type(result) not in _PLAIN and not self._closed:
            if is_generator(result) and not isinstance(self.senders[self._begun - 1], Receipt):
                refuse_returned_generator(f"a handler of {self.cell.name()}", result)
            result = self.cell.loop.host.absorb(self.cell, result)
        self._result = result
        if self.kind == STASHED or isinstance(self.senders[self._begun - 1], Receipt):
            return False
        return not isinstance(result, BehaviorBase) and not hasattr(type(result), "__await__")

    def hurry(self) -> None:
        """The next message is the loop's to choose."""
        self._hurries = True

    def stash(self) -> tuple[object, object, int]:
        with self._lock:
            if not self._closed:
                self.kind = STASHED
            return self.message, self.sender, self.lane

    def let_sender_go(self) -> None:
        """Another actor answers the message in hand."""
        self.senders[self._begun - 1] = None

    # -- on the loop's thread

    def keep_the_rest(self) -> None:
        """Begin nothing further: something has come that goes before it."""
        with self._lock:
            del self.messages[max(self._begun, 1) :]
            del self.senders[max(self._begun, 1) :]
        self.let_done_go()

    def withdraw(self) -> None:
        """An order has come. If its message waits for a thread, and there is none, it goes back to where it was: the
        order need not wait for other actors' handlers.
        """
        if not self._is_backed_up():
            return
        with self._lock:
            if self._begun > 0 or self._closed:
                return
            self._closed = True
        cell = self.cell
        self._take_off()
        cell.task.kind = STASHED  # which is no message that was handled
        put_back(cell, self.messages[0], self.senders[0], self.lane)
        self.wake_waiter()

    def done(self) -> int:
        """How many messages stand in the mailbox though they are done, or in hand. From any thread, a moment ago."""
        return max(self._begun, 1) - 1 - self._gone

    def let_done_go(self) -> None:
        """The messages that are done leave the mailbox; so does the one in hand, if it still stood there."""
        cell = self.cell
        last = max(self._begun, 1) - 1
        if not cell.ending:
            for _ in range(last - self._gone):
                cell.take_from(_DATA)
                cell.handled += 1
            self._gone = last

    def _account(self) -> None:
        cell = self.cell
        task = cell.task
        last = max(self._begun, 1) - 1
        self.let_done_go()
        if task is not None and task.kind == MESSAGE:
            task.kind, task.message, task.sender = self.kind, self.messages[last], self.senders[last]
        if self.kind == STASHED:
            cell.loop.admission.count_stashed(cell, 1)
        if cell.flags & ROOM:
            cell.loop.admission.fill_up(cell)
        if self._slow is not None:
            self._tell_slow(self._slow)

    def _tell_slow(self, slow: list[tuple[object, float]]) -> None:
        for message, seconds in slow:
            self.cell.loop.hooks.emit("slow_handler", self.cell.shown(), message, seconds)
