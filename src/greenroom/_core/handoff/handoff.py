"""Work that is done for a cell on another thread than its loop's.

The cell stays where it is: its mailbox, its orders and its place in the run queue belong to its loop, as ever. Only the
calls of a user's code are carried out elsewhere, and meanwhile the cell is suspended, as it is in an async handler that
waits. So whatever holds for those (orders wait for the message in hand, a deadline cancels, a kill abandons) holds here
too, by the same text.

**Threads.** What is done, and how far it is, is written by the thread that carries it out, under `_lock`;
everything else by the loop's own. A loop that waits no longer *abandons* it, under the same lock: from then on nothing
further is begun, and its outcome is ignored.
"""

from __future__ import annotations

from _thread import allocate_lock, get_ident
from asyncio import _get_running_loop, current_task, get_running_loop
from collections.abc import Callable, Generator
from inspect import isawaitable, iscoroutine
from typing import TYPE_CHECKING

from greenroom._core.current import current_handoffs
from greenroom._core.mailbox.cell import Cell
from greenroom._core.scheduler.stepping import Wait
from greenroom.clock import TURNS

if TYPE_CHECKING:
    from asyncio import Task
    from collections.abc import Awaitable
    from typing import TypeGuard

    from greenroom.actor.messaging.question import Question
    from greenroom.actor.messaging.waiting import ThreadWait

_NEVER = -1
_SOON = -2


def after_turns(then: Callable[[], object], left: int = TURNS) -> None:
    """Call `then` when the asyncio loop of this thread has done what it has ready: a manual clock may advance then."""
    if left:
        get_running_loop().call_soon(after_turns, then, left - 1)
    else:
        then()


class Handoff(Wait):
    """Something that another thread does for `cell`. Its handler, hook or notice awaits it; it may be abandoned."""

    carries_messages = False
    __slots__ = (
        "_blocked",
        "_closed",
        "_error",
        "_is_cancelled",
        "_lock",
        "_on_abandoned",
        "_on_cancel",
        "_over",
        "_result",
        "_settled",
        "_touches",
        "awaits",
        "cell",
        "on_wait",
        "question",
        "take_turns",
        "task",
    )

    def __init__(self, cell: Cell) -> None:
        self.set_up_alarm(0.0)
        self.waiter = None
        self.cell = cell
        # What its thread waits for, if it is known. If that is an answer, a ring of such waits can be seen.
        self.question: Question | ThreadWait | None = None
        # The asyncio task that carries it out, where one does; and whether it awaits something at present.
        self.task: Task[None] | None = None
        self.awaits = False
        self._lock = allocate_lock()
        # Invariant: these, and _on_cancel, are written under _lock; once it is over, _closed by the loop's thread alone
        self._closed = False
        self._over = False
        self._is_cancelled = False
        self._result: object = None
        self._error: BaseException | None = None
        # How often its code has said that it blocks, and not that it goes on. Written by the thread that runs it.
        self._blocked = 0
        cell.loop.handoffs[self] = None
        # Called when it is cancelled, or abandoned, to tell the thread that carries it out.
        self._on_cancel: Callable[[], object] | None = None
        # Called when its thread begins, or ends, to wait for an answer.
        self.on_wait: Callable[[bool], object] | None = None
        self._on_abandoned: Callable[[], object] | None = None
        # How asyncio, where that carries it out, can be asked to do what it has ready, and then something more.
        self.take_turns: Callable[[Callable[[], object]], object] | None = None
        # How often it has been touched; and how often it had been when asyncio was last asked, and had done so. The
        # loop's thread writes this when it asks, the other one when it is done; never both at once.
        self._touches = 0
        self._settled = _NEVER

    def _show(self) -> None:
        """Register the hand-off, so that other threads find it by its cell."""
        self.cell.loop.carried[self.cell] = self

    # -- where it is carried out

    def enter(self) -> None:
        """This thread carries it out, until `leave`: the sender of its messages is the cell's actor."""
        current_handoffs[get_ident()] = self

    def leave(self) -> None:
        """This thread stops carrying it out, for now or for good."""
        current_handoffs.pop(get_ident(), None)

    def waits(self, begins: bool) -> None:
        """The thread begins, or ends, to wait for an answer."""
        if self.on_wait is not None:
            self.on_wait(begins)

    def is_awaiting_itself(self) -> bool:
        """Whether the calling code is the hand-off's own, and no task that it has made."""
        running = _get_running_loop()
        return running is None if self.task is None else running is not None and self.task is current_task()

    def begin_next(self) -> bool:
        """Begin the next piece, which `perform` does; False if there is none."""
        raise NotImplementedError

    def perform(self) -> object:
        raise NotImplementedError

    def has_begun(self) -> bool:
        raise NotImplementedError

    def may_await(self, result: object) -> TypeGuard[Awaitable[object]]:
        """Whether what the code returned is to be awaited where it is carried out, if that has asyncio."""
        raise NotImplementedError

    def accept(self, result: object) -> bool:
        """Take what the code returned; whether that is all, and the next can begin."""
        self._result = result
        return False

    def is_closed(self) -> bool:
        """Whether the loop waits no longer: the outcome will be ignored."""
        return self._closed

    def take_error(self, error: BaseException) -> None:
        self._error = error

    def hurry(self) -> None:
        """The code has brought its own actor something urgent: begin nothing further."""

    def complete(self) -> None:
        """Hand the outcome to the loop, which goes on with the cell."""
        with self._lock:
            if self._over:
                return
            self._over = True
            abandon = self._closed
        if abandon:
            self._close_result()
            return
        self.cell.loop.inbound.post_back(self.cell, self._completed)

    def fail(self, cause: BaseException) -> None:
        self.take_error(cause)
        self.complete()

    def _close_result(self) -> None:
        """Close the coroutine of an async function that was only called, as it will not be awaited."""
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
            self.complete()

    # -- on the loop's thread

    def __await__(self) -> Generator[Handoff, None, object]:
        if not self._closed:  # else it is over before anybody waited for it
            yield self
        error, self._error = self._error, None
        if error is not None:
            try:
                raise error
            finally:
                del error  # or its traceback would hold on to this frame, and that to it
        return self._result

    def is_at_rest(self) -> bool:
        """Whether the code is known to wait: for an answer, for a future, or in `ctx.blocking()`.

        Reported, never guessed: code that just runs, or blocks without saying so, is at work until it returns.
        """
        if self._blocked > 0 or (self.question is not None and not self.question.done()):
            return True
        if self._settled != self._touches or not self.awaits:
            return False
        # As with a handler on the loop itself: one that awaits a future has nothing to do until that is done.
        future = getattr(self.task, "_fut_waiter", None)
        return future is not None and not future.done()

    def report_rest(self, tell: Callable[[], object]) -> None:
        """Have `tell` called, on any thread, when the code may have come to rest."""
        take_turns, touches = self.take_turns, self._touches
        if take_turns is None or self._settled == _SOON:
            return
        self._settled = _SOON

        def settled() -> None:
            self._settled = touches
            tell()

        take_turns(settled)

    def block(self) -> None:
        """The code is about to block on something that only others can bring about. On its own thread."""
        self.waits(True)
        self._blocked += 1
        self.tick_soon()

    def tick_soon(self) -> None:
        """Have the actor's loop tick, so that those who wait for idleness look again. On any thread."""
        self.cell.loop.inbound.post_back(None, _nothing)

    def unblock(self) -> None:
        """The code goes on. On its own thread."""
        self._blocked -= 1
        self.waits(False)

    def on_cancel(self, ask: Callable[[], object]) -> None:
        with self._lock:
            self._on_cancel = ask
            is_late = self._is_cancelled
        if is_late:
            ask()

    def on_abandoned(self, tell: Callable[[], object]) -> None:
        """Have `tell` called when the loop abandons the hand-off before its thread is done."""
        self._on_abandoned = tell

    def cancel(self, msg: object = None) -> bool:
        """Cancel what the code awaits. A call that just runs cannot be cancelled: it completes by itself."""
        with self._lock:
            self._is_cancelled = True
            ask = self._on_cancel
        if ask is not None:
            ask()
            self.touch()
        return True

    def touch(self) -> None:
        """The code has something to do again: a manual clock must not advance meanwhile."""
        self._touches += 1

    def remove_done_callback(self, fn: object) -> int:
        """Called by the cell when it abandons the hand-off."""
        self.waiter = None
        self.abandon()
        return 1

    def abandon(self) -> None:
        """Stop waiting; nothing further is begun."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            over = self._over
        self._take_off()
        self._account()
        if not over and self._on_abandoned is not None:
            self._on_abandoned()

    def _completed(self) -> None:
        if self._closed:
            self._close_result()
            return
        self._closed = True  # it is over: there is nothing left to abandon
        self._take_off()
        self._account()
        self.wake_waiter()

    def _take_off(self) -> None:
        loop = self.cell.loop
        loop.handoffs.pop(self, None)
        if loop.carried.get(self.cell) is self:
            del loop.carried[self.cell]

    def _account(self) -> None:
        """Count what has been done."""


def _nothing() -> None:
    """Only the tick matters."""


class CallHandoff(Handoff):
    """One call of a user's function: a constructor, a hook, a notice's handler."""

    __slots__ = ("_arguments", "_awaits", "_begun", "_function")

    def __init__(
        self, cell: Cell, function: Callable[..., object], arguments: tuple[object, ...], awaits: bool
    ) -> None:
        super().__init__(cell)
        self._awaits = awaits
        self._function = function
        self._arguments = arguments
        self._begun = False

    def begin_next(self) -> bool:
        with self._lock:
            if self._begun or self._closed:
                return False
            self._begun = True
            return True

    def has_begun(self) -> bool:
        return self._begun

    def perform(self) -> object:
        return self._function(*self._arguments)

    def may_await(self, result: object) -> TypeGuard[Awaitable[object]]:
        return self._awaits and isawaitable(result)
