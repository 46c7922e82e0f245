"""Messages of one actor that are in another process, and calls of its hooks.

A *flight* is the hand-off of an actor whose code is in another process. While it lasts, the first message that is not
done is in hand, and the others wait in the mailbox until they are known to be done; more are sent after them as long
as nothing more urgent has come, so the worker need not wait for the next.

Everything here belongs to the loop's own thread.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from itertools import count
from typing import Any

from greenroom._core.flags import HELD, LANES, ORDERS, ROOM
from greenroom._core.handoff.handoff import Handoff
from greenroom._core.itemkinds import MESSAGE
from greenroom._core.itemkinds import STASHED as PUT_ASIDE
from greenroom._core.mailbox.cell import Cell
from greenroom._core.receipt import Receipt
from greenroom.actor.api.behavior import UNHANDLED as UNHANDLED_BEHAVIOR
from greenroom.actor.messaging.question import Question
from greenroom.errors import FrameTooLarge, NotSendable, WorkerLost, in_words
from greenroom.lanes import Overflow
from greenroom.system.dispatchers.processes.pool.ports import ExecutorPort
from greenroom.system.dispatchers.processes.protocol import STASHED, UNHANDLED, Asked, Progress

__all__ = ["RemoteCall", "RemoteMessages"]

_log = logging.getLogger("greenroom")

_numbers = count(1)

_DATA = 1
_URGENT = ORDERS | HELD | LANES


class RemoteCall(Handoff):
    """One call of a user's function in another process."""

    __slots__ = ("_executor", "number")

    def __init__(self, cell: Cell, executor: ExecutorPort) -> None:
        super().__init__(cell)
        self._executor = executor
        self.number = next(_numbers)

    def is_at_rest(self) -> bool:
        """Whether it waits for an answer, or for what its worker cannot bring about."""
        return super().is_at_rest() or self._executor.is_at_rest()

    def report_rest(self, tell: Callable[[], object]) -> None:
        """Have `tell` called when it may be known to be at rest."""
        self._executor.report_rest(tell)

    def has_returned(self, result: Any) -> None:
        """It has returned."""
        self._result = result
        self._completed()

    def has_raised(self, error: BaseException) -> None:
        """It has raised, or cannot be known to have been made."""
        self.take_error(error)
        self._completed()


class RemoteMessages(Handoff):
    """Messages of one cell that are handled in another process."""

    carries_messages = True
    __slots__ = ("_asked", "_executor", "_hurries", "first", "kind", "lane", "message", "sender", "sent")

    def __init__(self, cell: Cell, executor: ExecutorPort, message: object, sender: object, lane: int) -> None:
        super().__init__(cell)
        self._executor = executor
        self.kind = MESSAGE
        self.lane = lane
        # What is in hand: the first that is not done; its number, and the number after the last that was sent.
        self.message = message
        self.sender = sender
        self.first = self.sent = executor.numbers
        self._hurries = False
        # Numbers of those in flight that were asked.
        self._asked: deque[int] = deque()

    def is_at_rest(self) -> bool:
        """Whether they wait for an answer, or for what their worker cannot bring about."""
        return super().is_at_rest() or self._executor.is_at_rest()

    def report_rest(self, tell: Callable[[], object]) -> None:
        """Have `tell` called when they may be known to be at rest."""
        self._executor.report_rest(tell)

    # -- sending

    def depart(self) -> bool:
        """Send the message in hand, and those behind it; False when it cannot be sent at all."""
        messages, senders = [self.message], [self.sender]
        if self._may_take_more():
            more, theirs = self._behind(0, self._executor.window.at_once() - 1)
            messages += more
            senders += theirs
        if self._send(messages, senders) < len(messages):
            return self.sent > self.first
        self._send_more()
        return True

    def _may_take_more(self) -> bool:
        cell = self.cell
        if self.lane != _DATA or self._hurries or cell.flags & _URGENT:
            return False
        if cell.priority is not None or cell.config.overflow is Overflow.DROP_OLD:
            return False
        return not isinstance(self.sender, Receipt) or isinstance(self.sender, Question)

    def _behind(self, position: int, most: int) -> tuple[list[Any], list[Any]]:
        """Messages of the mailbox from `position` on, as far as they can be sent with others."""
        messages, senders = self.cell.peek(position, most)
        if self.cell.receipts:
            for index, sender in enumerate(senders):
                if isinstance(sender, Receipt) and not (isinstance(sender, Question) and not sender.done()):
                    return messages[:index], senders[:index]
        return messages, senders

    def _send(self, messages: list[Any], senders: list[Any]) -> int:
        """Send messages, all of them or the first half, or the first quarter; how many those were."""
        count = len(messages)
        while count:
            try:
                size = self._executor.send_messages(self.sent, self.lane, messages[:count], _shown(senders[:count]))
            except (NotSendable, FrameTooLarge) as exc:
                if count == 1:
                    self._give_back(messages[0], senders[0], exc)
                count //= 2
                continue
            self._executor.window.sent(self.sent + count, count, size)
            if self.cell.receipts or isinstance(senders[0], Receipt):
                self._note_asked(senders[:count])
            self.sent += count
            self._executor.numbers = self.sent
            return count
        return 0

    def _note_asked(self, senders: list[Any]) -> None:
        for number, sender in enumerate(senders, self.sent):
            if isinstance(sender, Question):
                self._executor.open[number] = sender
                self._asked.append(number)

    def _give_back(self, message: object, sender: object, exc: Exception) -> None:
        """A message could be sent when it was let in, and cannot now: somebody has changed it."""
        if self.sent == self.first:
            told = "a message to %s cannot be brought there after all: %s"
            _log.error(told, self.cell.name(), in_words(exc), extra=self.cell.loop.host.log_fields(self.cell))
            if isinstance(sender, Question):
                sender.refuse(exc)

    def _send_more(self) -> None:
        """Keep enough under way that the worker does not run out before it is heard of again."""
        window = self._executor.window
        while (room := window.room(self.sent - self.first)) and self._may_take_more():
            messages, senders = self._behind(self.sent - self.first - 1, room)
            if not messages or self._send(messages, senders) < len(messages):
                return

    # -- what the worker says

    def progress(self, news: Progress) -> None:
        """Some of it is done."""
        self._executor.window.done(news.done)
        if news.returned is not None and news.returned < self.sent:
            self._take_back(news.returned)
            if self.sent == self.first and news.failure is None:
                self._put_back()
                return
        if news.failure is None and not news.waits:
            self._send_more()
        is_last = self.sent == news.done
        self._account_for(news.done - self.first - (1 if is_last else 0), news.asides)
        self._note_deferred(news.done)
        if self.cell.flags & ROOM:
            self.cell.loop.admission.fill_up(self.cell)
        if is_last or news.failure is not None:
            last = news.asides[-1] if news.asides else (-1, 0)
            self._end(last[1] if is_last and last[0] == news.done - 1 else 0, news.failure)

    def _take_back(self, number: int) -> None:
        """What was sent from `number` on has not been begun, and will not be."""
        self.sent = self._executor.numbers = number
        while self._asked and self._asked[-1] >= number:
            self._executor.open.pop(self._asked.pop(), None)

    def _put_back(self) -> None:
        """Not even the message in hand has been begun: it goes back to where it was."""
        admission = self.cell.loop.admission
        admission.count_stashed(self.cell, 1)
        admission.take_back(self.cell, self.message, self.sender, self.lane)
        self.kind = PUT_ASIDE
        self.message = self.sender = None
        self._end()

    def _account_for(self, count: int, asides: list[tuple[int, int]]) -> None:
        """So many are done, and another is in hand."""
        if count <= 0 or self.cell.ending:
            return
        cell = self.cell
        others = 0
        for number, what in asides:
            if number < self.first + count:
                self._set_aside(self._at(number), what)
                others += 1
        message, sender = self._at(self.first + count)
        cell.let_go(count)
        cell.handled += count - others
        self.first += count
        self.message, self.sender = message, sender
        self._sync()

    def _at(self, number: int) -> tuple[object, object]:
        """A message of the flight, and its sender."""
        if number == self.first:
            return self.message, self.sender
        position = number - self.first - 1
        return self.cell.message_at(position), self.cell.sender_at(position)

    def _set_aside(self, entry: tuple[object, object], what: int) -> None:
        message, sender = entry
        admission = self.cell.loop.admission
        if what == STASHED:
            self._executor.stash(message, sender, self.lane)
            admission.count_stashed(self.cell, 1)
        elif what == UNHANDLED:
            admission.count_unhandled(self.cell, sender)
            self.cell.loop.host.unhandled(self.cell, message, sender)

    def _note_deferred(self, done: int) -> None:
        """Questions whose handler is done, and that have no answer, get it later."""
        while self._asked and self._asked[0] < done:
            question = self._executor.open.get(self._asked.popleft())
            if question is not None and not question.replied:
                question.defer(self.cell.record.ensure_extras().deferred)

    def _sync(self) -> None:
        """What the loop takes for the message in hand."""
        task = self.cell.task
        if task is not None:
            task.kind, task.message, task.sender, task.lane = self.kind, self.message, self.sender, self.lane

    def _end(self, aside: int = 0, error: BaseException | None = None) -> None:
        if aside == STASHED:
            self._set_aside((self.message, self.sender), STASHED)
            self.kind = PUT_ASIDE
        elif aside == UNHANDLED:
            self._result = UNHANDLED_BEHAVIOR
        if error is not None:
            self.take_error(error)
        self._sync()
        self._completed()

    def lose(self, error: WorkerLost) -> None:
        """The worker is gone: what became of what was there, nobody knows."""
        cell = self.cell
        count = self.sent - self.first
        if isinstance(self.sender, Receipt) and not isinstance(self.sender, Question):  # those its place has told
            self.sender.discard("lost")
        if not cell.ending:
            cell.let_go(count - 1)
        cell.loop.admission.count_lost(cell, count)
        self.kind = PUT_ASIDE  # which is no message that was handled, or has failed
        self.sender = None
        self._end(error=error)

    def unreadable(self, number: int, count: int, error: BaseException) -> None:
        """The worker cannot read a frame, and has not taken in what came after it. If there is one message in it, it
        is that one; else they are sent again one by one.
        """
        self._take_back(number)
        self._executor.window.shrink()
        if number > self.first:
            return  # when those before it are done, it is the first
        if count > 1:
            self._put_back()
        else:
            told = "%s cannot be brought a message, which its process cannot read: %s"
            fields = self.cell.loop.host.log_fields(self.cell)
            _log.error(told, self.cell.name(), in_words(error), extra=fields)
            if isinstance(self.sender, Question):
                self.sender.refuse(error)
            self._end(aside=UNHANDLED)

    # -- what the loop says

    def hurry(self) -> None:
        """Something has come that goes before what was not begun."""
        if not self._hurries and not self.cell.is_foreign():
            self._hurries = True
            if self.sent - self.first > 1:
                self._executor.hurry(self.first + 1)

    def withdraw(self) -> None:
        """An order has come."""
        self.hurry()

    def keep_the_rest(self) -> None:
        """Something comes before what was not begun: the worker has sent that back itself."""

    def done(self) -> int:
        """How many stand in the mailbox though they are done: none, as far as is known here."""
        return 0

    def let_done_go(self) -> None:
        """They have gone."""

    def let_sender_go(self) -> None:
        """The message in hand is answered by somebody else."""
        self.sender = None


def _shown(senders: list[Any]) -> Any:
    """The senders, as they travel: one, if it is the same for all."""
    first = senders[0]
    if not isinstance(first, Receipt) and senders.count(first) == len(senders):
        return first
    return [_sender_of(sender) for sender in senders]


def _sender_of(sender: Any) -> Any:
    if isinstance(sender, Question):
        return Asked(sender.shown_sender())
    return sender.shown_sender() if isinstance(sender, Receipt) else sender
