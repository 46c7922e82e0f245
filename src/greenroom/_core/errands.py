"""Work that is done for a cell on another thread than its loop's.

The cell stays where it is: its mailbox, its orders and its place in the run queue belong to its loop, as ever. Only the
calls of a user's code are carried out elsewhere, and meanwhile the cell is suspended, as it is in an async handler that
waits. So whatever holds for those (orders wait for the message in hand, a deadline cancels, a kill abandons) holds here
too, by the same text.

**Errands.** A message is carried away together with those behind it that are as plain: of the data lane, without a
slip. They are carried, not taken: until the errand comes home they stand in the mailbox and count against its bound.
Whoever carries it out looks before each message, as a visit does, whether something more urgent has come, or its time
is up. So a burst costs one hand-over, not one for each message.

**Who may touch it.** What is done, and how far it is, is written by the thread that carries it out, under `_lock`;
everything else by the loop's own. When a loop gives up on a piece of work it *cuts* it, under the same lock: from then
on nothing further is begun, and what comes of it is nobody's.
"""

from __future__ import annotations

from _thread import allocate_lock, get_ident
from asyncio import _get_running_loop, current_task
from collections.abc import Callable, Generator
from inspect import isawaitable, iscoroutine
from time import monotonic
from typing import Any

from greenroom._core.alerts import HELD, LANES, ORDERS, ROOM
from greenroom._core.cell import Cell
from greenroom._core.doing import doing
from greenroom._core.kinds import MESSAGE, STASHED
from greenroom._core.slip import Slip
from greenroom._core.stepping import Wait
from greenroom._core.verdict import Verdict
from greenroom.lanes import Overflow

__all__ = ["Call", "Errand", "Work"]

_DATA = 1
_VISITS = 16
"""Visits that one errand can be, if its thread has nothing else to do: coming home takes as long as some hundreds of
messages."""
_PLAIN = (bool, int, float, str, bytes, tuple, list, dict)
"""What a handler may return that nobody has to look at."""
_URGENT = ORDERS | HELD | LANES
"""What ends an errand before its messages do."""
_NEVER = -1
_SOON = -2


class Work(Wait):
    """Something that another thread does for `cell`. Its handler, hook or notice awaits it; it may be cut."""

    is_errand = False
    __slots__ = (
        "_cut",
        "_error",
        "_is_cancelled",
        "_lock",
        "_on_cancel",
        "_on_cut",
        "_over",
        "_result",
        "_settled",
        "_touches",
        "awaits",
        "cell",
        "on_wait",
        "question",
        "since",
        "take_turns",
        "task",
    )

    def __init__(self, cell: Cell) -> None:
        self.set_up_alarm(0.0)
        self.waiter = None
        self.cell = cell
        # What its thread waits for, if it is an answer: so that a ring of such waits can be seen.
        self.question: Any = None
        # The asyncio task that carries it out, where one does; and whether it awaits something at present.
        self.task: Any = None
        self.awaits = False
        self._lock = allocate_lock()
        # Invariant: these, and _on_cancel, are written under _lock; once it is over, _cut by the loop's thread alone
        self._cut = False
        self._over = False
        self._is_cancelled = False
        self._result: Any = None
        self._error: BaseException | None = None
        # When it was given away, by the machine's clock.
        self.since = monotonic()
        cell.loop.elsewhere[self] = None
        # How whoever carries it out can be told that it is not wanted, or not waited for, any more.
        self._on_cancel: Callable[[], object] | None = None
        # Who wants to know when its thread only waits for an answer.
        self.on_wait: Callable[[bool], object] | None = None
        self._on_cut: Callable[[], object] | None = None
        # How asyncio, where that carries it out, can be asked to do what it has ready, and then something more.
        self.take_turns: Callable[[Callable[[], object]], object] | None = None
        # How often it has been touched; and how often it had been when asyncio was last asked, and had done so. The
        # loop's thread writes this when it asks, the other one when it is done; never both at once.
        self._touches = 0
        self._settled = _NEVER

    # -- where it is carried out

    def enter(self) -> None:
        """This thread does it, until `leave`: what it sends comes from the cell's actor."""
        doing[get_ident()] = self

    def leave(self) -> None:
        """This thread does it no longer, for now or for good."""
        doing.pop(get_ident(), None)

    def waits(self, begins: bool) -> None:
        """Its thread begins, or ends, to wait for an answer."""
        if self.on_wait is not None:
            self.on_wait(begins)

    def is_awaiting_itself(self) -> bool:
        """Whether the code that runs here, on the thread that does it, is its own, and no task of its making."""
        running = _get_running_loop()
        return running is None if self.task is None else running is not None and self.task is current_task()

    def begin_next(self) -> bool:
        """Whether there is something to do now; what that is, `perform` does."""
        raise NotImplementedError

    def perform(self) -> Any:
        """Call the user's code."""
        raise NotImplementedError

    def has_begun(self) -> bool:
        """Whether something of it has been begun."""
        raise NotImplementedError

    def may_await(self, result: Any) -> bool:
        """Whether what the code returned is to be awaited where it is carried out, if that has asyncio."""
        raise NotImplementedError

    def accept(self, result: Any) -> bool:
        """Take what the code returned; whether that is all, and the next can begin."""
        self._result = result
        return False

    def is_cut(self) -> bool:
        """Whether nobody waits for it any more: what it still does is done for nobody."""
        return self._cut

    def take_error(self, error: BaseException) -> None:
        """Take what the code raised."""
        self._error = error

    def hurry(self) -> None:
        """What is done now has brought its own actor something that must not wait: begin nothing further."""

    def bring_home(self) -> None:
        """It is done: let the loop go on."""
        with self._lock:
            if self._over:
                return
            self._over = True
            cut = self._cut
        if cut:
            self._close_result()
            return
        self.cell.loop.inbound.bring(self.cell, self._come_home)

    def _close_result(self) -> None:
        """Nobody will await what an async function returned that was only called."""
        if iscoroutine(self._result):
            self._result.close()

    def run(self, before_home: Callable[[], object]) -> None:
        """Carry it out on this thread. What is a coroutine is left to the loop, whose asyncio can step it.

        `before_home` is called when it is done, and before the loop, which may have the next at once, knows of it.
        """
        self.enter()
        try:
            while self.begin_next():
                if not self.accept(self.perform()):
                    break
        except BaseException as exc:
            self.take_error(exc)
        finally:
            self.leave()
            before_home()
            self.bring_home()

    # -- at home

    def __await__(self) -> Generator[Any, None, Any]:
        if not self._cut:  # else it is over before anybody waited for it
            yield self
        error, self._error = self._error, None
        if error is not None:
            try:
                raise error
            finally:
                del error  # or its traceback would hold on to this frame, and that to it
        return self._result

    def is_waiting(self) -> bool:
        """Whether it is known to wait for something that its own loop has to bring about."""
        if self.question is not None and not self.question.done():
            return True
        if self._settled != self._touches or not self.awaits:
            return False
        # As with a handler on the loop itself: one that awaits a future has nothing to do until that is done.
        future = getattr(self.task, "_fut_waiter", None)
        return future is not None and not future.done()

    def come_to_rest(self, tell: Callable[[], object]) -> None:
        """Have `tell` called, on whatever thread, when it may be known whether it waits; unless that is under way."""
        take_turns, touches = self.take_turns, self._touches
        if take_turns is None or self._settled == _SOON:
            return
        self._settled = _SOON

        def settled() -> None:
            self._settled = touches
            tell()

        take_turns(settled)

    def on_cancel(self, ask: Callable[[], object]) -> None:
        """Have `ask` called when it is to be broken off, and can be."""
        with self._lock:
            self._on_cancel = ask
            is_late = self._is_cancelled
        if is_late:
            ask()

    def on_cut(self, tell: Callable[[], object]) -> None:
        """Have `tell` called when nobody waits for it any more, though its thread is not done."""
        self._on_cut = tell

    def cancel(self, msg: object = None) -> bool:
        """Have it broken off where it awaits something. A call that just runs cannot be: it comes home by itself."""
        with self._lock:
            self._is_cancelled = True
            ask = self._on_cancel
        if ask is not None:
            ask()
            self.touch()
        return True

    def touch(self) -> None:
        """It has something to do again: time must not pass over it, if that stands still until all is quiet."""
        elsewhere = self.cell.loop.elsewhere
        self._touches += 1
        if elsewhere.pop(self, self) is None:
            self.since = monotonic()
            elsewhere[self] = None

    def remove_done_callback(self, fn: object) -> int:
        """Its cell has abandoned it."""
        self.waiter = None
        self.cut()
        return 1

    def cut(self) -> None:
        """Wait for it no longer; nothing further is begun."""
        with self._lock:
            if self._cut:
                return
            self._cut = True
            over = self._over
        self.cell.loop.elsewhere.pop(self, None)
        self._account()
        if not over and self._on_cut is not None:
            self._on_cut()

    def _come_home(self) -> None:
        if self._cut:
            self._close_result()
            return
        self._cut = True  # it is over: there is nothing left that could be cut
        self.cell.loop.elsewhere.pop(self, None)
        self._account()
        self.wake_waiter()

    def _account(self) -> None:
        """Count what has been done."""


class Call(Work):
    """One call of a user's function: a constructor, a hook, a notice's handler."""

    __slots__ = ("_arguments", "_awaits", "_begun", "_function")

    def __init__(self, cell: Cell, function: Callable[..., Any], arguments: tuple[Any, ...], awaits: bool) -> None:
        super().__init__(cell)
        self._awaits = awaits
        self._function = function
        self._arguments = arguments
        self._begun = False

    def begin_next(self) -> bool:
        """Once."""
        with self._lock:
            if self._begun or self._cut:
                return False
            self._begun = True
            return True

    def has_begun(self) -> bool:
        """Whether it has been called."""
        return self._begun

    def perform(self) -> Any:
        """Call it."""
        return self._function(*self._arguments)

    def may_await(self, result: Any) -> bool:
        """What a hook returns, if it can be."""
        return self._awaits and isawaitable(result)


class Errand(Work):
    """Messages of one cell that are handled elsewhere, one after the other."""

    __slots__ = (
        "_began",
        "_begun",
        "_budget",
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

    is_errand = True

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
        self.messages: list[Any] = [message]
        self.senders: list[Any] = [sender]
        # How many have been begun: all but the last of those are done.
        self._begun = 0
        # The budgets of a visit. When one is over another may follow, unless somebody else waits for the thread.
        self._per_visit: int = cell.loop.limits.max_msgs_per_actor
        self._budget: float = cell.loop.limits.max_tick_time
        self._others_wait = others_wait
        self._is_backed_up = is_backed_up
        self._began = 0.0
        self._hurries = False
        # How many of the done have left the mailbox.
        self._gone = 0
        self._slow: list[tuple[object, float]] | None = None

    def carry(self) -> None:
        """Let what is queued behind the first message come along, as far as it is as plain, and not too much."""
        cell = self.cell
        most = self._per_visit * _VISITS
        if self.lane != _DATA or cell.alert & (ORDERS | LANES) or isinstance(self.senders[0], Slip):
            return
        if cell.priority is not None or cell.config.overflow is Overflow.DROP_OLD:
            return
        for position in range(min(most - 1, cell.count)):
            sender = cell.sender_at(position)
            if isinstance(sender, Slip):
                return
            self.messages.append(cell.message_at(position))
            self.senders.append(sender)

    # -- where it is carried out

    @property
    def message(self) -> Any:
        """The message in hand."""
        return self.messages[self._begun - 1]

    @property
    def sender(self) -> Any:
        """Who sent it: a ref, nobody, or a slip."""
        return self.senders[self._begun - 1]

    def begin_next(self) -> bool:
        """Whether there is another message, nothing more urgent has come, and there is time."""
        with self._lock:
            begun = self._begun
            if self._cut or begun == len(self.messages) or (begun > 0 and self._is_time_to_go()):
                return False
            if begun == 0:
                self._began = monotonic()
            self._begun = begun + 1
            return True

    def _is_time_to_go(self) -> bool:
        """Whether something more urgent has come, or a budget is spent and others wait."""
        if self._hurries or self.cell.alert & _URGENT or monotonic() - self._began >= self._budget:
            return True
        return self._begun % self._per_visit == 0 and self._others_wait()

    def has_begun(self) -> bool:
        """Whether a message is in hand."""
        return self._begun > 0

    def may_await(self, result: Any) -> bool:
        """A handler's own coroutine."""
        return result is not None and iscoroutine(result)

    def perform(self) -> Any:
        """Have the message handled."""
        cell = self.cell
        if cell.loop.hooks.slow_handler is None:
            return cell.handler(cell.subject, self.messages[self._begun - 1])
        began = monotonic()
        try:
            return cell.handler(cell.subject, self.messages[self._begun - 1])
        finally:
            self.note_time(monotonic() - began)

    def note_time(self, seconds: float) -> None:
        """The message in hand took so long."""
        if seconds >= self.cell.loop.hooks.slow_after:
            self._slow = [*(self._slow or ()), (self.message, seconds)]

    def accept(self, result: Any) -> bool:
        """Take what the handler returned. Of a message that was told, that is all, unless it says what comes next."""
        if result is not None and type(result) not in _PLAIN and not self._cut:
            result = self.cell.loop.host.absorb(self.cell, result)
        self._result = result
        if self.kind == STASHED or isinstance(self.senders[self._begun - 1], Slip):
            return False
        return not isinstance(result, Verdict) and not hasattr(type(result), "__await__")

    def hurry(self) -> None:
        """The next message is the loop's to choose."""
        self._hurries = True

    def stash(self) -> tuple[object, object, int]:
        """Take the message in hand away, to be handled later."""
        with self._lock:
            if not self._cut:
                self.kind = STASHED
            return self.message, self.sender, self.lane

    def let_sender_go(self) -> None:
        """The message in hand is answered by somebody else."""
        self.senders[self._begun - 1] = None

    # -- at home

    def keep_the_rest(self) -> None:
        """Let nothing that was not begun be begun: something comes before it."""
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
            if self._begun > 0 or self._cut:
                return
            self._cut = True
        cell = self.cell
        cell.loop.elsewhere.pop(self, None)
        cell.task.kind = STASHED  # which is no message that was handled
        door = cell.loop.door
        door.count_stashed(cell, 1)
        door.take_back(cell, self.messages[0], self.senders[0], self.lane)
        self.wake_waiter()

    def done(self) -> int:
        """How many messages stand in the mailbox though they are done, or in hand. From any thread, a moment ago."""
        return max(self._begun, 1) - 1 - self._gone

    def let_done_go(self) -> None:
        """Those that are done leave the mailbox; so does the one in hand, if it still stood there."""
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
            cell.loop.door.count_stashed(cell, 1)
        if cell.alert & ROOM:
            cell.loop.door.fill_up(cell)
        if self._slow is not None:
            self._tell_slow(self._slow)

    def _tell_slow(self, slow: list[tuple[object, float]]) -> None:
        for message, seconds in slow:
            tell = self.cell.loop.hooks.slow_handler
            if tell is not None:
                tell(self.cell.shown(), message, seconds)
