"""The hand-offs to a worker process: messages of one actor, and calls of its hooks.

While messages are in flight, the first one that is not done is in hand. The others stay in the mailbox until the worker
reports that they are done. More are sent after them as long as nothing more urgent arrives, so that the worker does not
run out of messages.

Everything here is for the loop's own thread only.
"""

from __future__ import annotations

from asyncio import CancelledError
from collections import deque
from collections.abc import Callable
from itertools import count
from time import monotonic
from typing import TYPE_CHECKING

from greenroom._core.flags import PROPAGATES, ROOM
from greenroom._core.handoff.handoff import Handoff
from greenroom._core.handoff.messages import must_go_alone, put_back
from greenroom._core.itemkinds import MESSAGE
from greenroom._core.itemkinds import STASHED as PUT_ASIDE
from greenroom._core.mailbox.cell import Cell
from greenroom._core.receipt import Receipt, Told
from greenroom.actor.api.behavior import UNHANDLED as UNHANDLED_BEHAVIOR
from greenroom.actor.messaging.question import Question
from greenroom.errors import FrameTooLarge, NotSendable, WorkerLost
from greenroom.errortext import in_words
from greenroom.runtimelog import RuntimeLog
from greenroom.system.dispatchers.processes.protocol import STASHED, UNHANDLED, Asked, Brought, Progress

if TYPE_CHECKING:
    from greenroom.system.dispatchers.processes.pool.executor import ProcessExecutor

__all__ = ["RemoteCall", "RemoteMessages", "Window"]

_log = RuntimeLog()

_numbers = count(1)

_SMALLEST = 1
_LARGEST = 16_384
_AT_ONCE = 2048
"""The maximum number of messages in one frame."""
_BYTES = 1 << 22
"""The intended maximum size of a frame, in bytes."""
_QUICK = 0.02
_SLOW = 0.1
"""Seconds: a window that is emptied faster than the first grows; slower than the second, it shrinks."""


class Window:
    """How many messages of one actor may be in flight to its worker.

    Few, if each takes long: messages in flight can be overtaken only by asking the worker to return them, and they are
    lost with the worker. Many, if they are handled quickly: otherwise the worker is idle until it gets the next ones.
    So the window grows while it is emptied quickly, and shrinks when it is not.

    >>> window = Window()
    >>> window.room(0), window.room(1)
    (1, 0)
    """

    __slots__ = ("_at_once", "_mark", "_since", "size")

    def __init__(self) -> None:
        self.size = _SMALLEST
        # How many messages fit into a frame, judging by the last ones.
        self._at_once = _AT_ONCE
        # We measure the time until all messages before this number are done.
        self._mark = -1
        self._since = 0.0

    def at_once(self) -> int:
        return min(self._at_once, self.size)

    def room(self, away: int) -> int:
        """How many messages may be sent when `away` are in flight. Returns 0 rather than a small number."""
        size = min(self.size, 8 * self._at_once)
        left = size - away
        return min(left, self._at_once) if left * 4 >= size else 0

    def sent(self, number: int, count: int, size: int) -> None:
        """`count` messages of `size` bytes were sent; the next one gets this number."""
        self._at_once = max(1, min(_AT_ONCE, _BYTES * count // max(size, 1)))
        if self._mark < 0:
            self._mark = number
            self._since = monotonic()

    def done(self, number: int) -> None:
        """All messages before this number are done."""
        if self._mark < 0 or number < self._mark:
            return
        self._mark = -1
        took = monotonic() - self._since
        if took < _QUICK:
            self.size = min(_LARGEST, self.size * 2)
        elif took > _SLOW:
            self.size = max(_SMALLEST, self.size // 2)

    def shrink(self) -> None:
        """Send one at a time for now, because something is wrong with one of the messages."""
        self.size = _SMALLEST


class RemoteHandoff(Handoff):
    """Work of a hosted actor. It is at rest when its worker is."""

    __slots__ = ("_executor",)

    def __init__(self, cell: Cell, executor: ProcessExecutor) -> None:
        super().__init__(cell)
        self._executor = executor

    def is_at_rest(self) -> bool:
        return self._executor.is_at_rest()

    def report_rest(self, tell: Callable[[], object]) -> None:
        self._executor.report_rest(tell)


class RemoteCall(RemoteHandoff):
    """One call of a user's function in another process."""

    __slots__ = ("number",)

    def __init__(self, cell: Cell, executor: ProcessExecutor) -> None:
        super().__init__(cell, executor)
        self.number = next(_numbers)

    def has_returned(self, result: object, error: BaseException | None = None) -> None:
        """The function has returned or raised, or we do not know whether it was called."""
        self._result = result
        self._error = error
        self._completed()


class RemoteMessages(RemoteHandoff):
    """Messages of one cell that are handled in another process."""

    carries_messages = True
    __slots__ = ("_asked", "_hurries", "first", "kind", "lane", "message", "sender", "sent")

    def __init__(self, cell: Cell, executor: ProcessExecutor, message: object, sender: object, lane: int) -> None:
        super().__init__(cell, executor)
        self.kind = MESSAGE
        self.lane = lane
        # The message in hand, which is the first that is not done; its number, and that after the last one sent.
        self.message = message
        self.sender = sender
        self.first = self.sent = executor.numbers
        self._hurries = False
        # The numbers of the messages in flight that were asked.
        self._asked: deque[int] = deque()
        self._show()

    # -- sending

    def send_first(self) -> bool:
        """Send the message in hand, and those queued behind it. False if the message in hand cannot be sent."""
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
        if self._hurries or must_go_alone(self.cell, self.lane):
            return False
        return not isinstance(self.sender, Receipt) or isinstance(self.sender, Question | Told)

    def _behind(self, position: int, most: int) -> tuple[list[object], list[object]]:
        """The queued messages from `position` on, up to the first that cannot be sent with others."""
        messages, senders = self.cell.peek(position, most)
        if self.cell.receipts:
            for index, sender in enumerate(senders):
                if isinstance(sender, Receipt) and not _may_come_along(sender):
                    return messages[:index], senders[:index]
        return messages, senders

    def _send(self, messages: list[object], senders: list[object]) -> int:
        """Send all messages, or the first half or quarter if those are too large; return how many were sent."""
        count = len(messages)
        while count:
            try:
                size = self._executor.send_messages(
                    self.sent, self.lane, messages[:count], self._shown(senders[:count])
                )
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

    def _shown(self, senders: list[object]) -> object:
        """The senders in the form in which they are sent: a list, or one sender if it is the same for all."""
        first = senders[0]
        if not isinstance(first, Receipt) and senders.count(first) == len(senders):
            return first
        if not self.cell.flags & PROPAGATES:
            return [_sender_of(sender) for sender in senders]
        return [self._with_values(sender) for sender in senders]

    def _with_values(self, sender: object) -> object:
        values = sender.propagated() if isinstance(sender, Receipt) else None
        shown = _sender_of(sender)
        return Brought(shown, self._executor.pack_values(values)) if values else shown

    def _note_asked(self, senders: list[object]) -> None:
        for number, sender in enumerate(senders, self.sent):
            if isinstance(sender, Question):
                self._executor.open[number] = sender
                self._asked.append(number)

    def _give_back(self, message: object, sender: object, exc: Exception) -> None:
        """A message that could be sent when it was queued cannot be sent now: it was changed in between."""
        if self.sent == self.first:
            told = "a message to %s cannot be brought there after all: %s"
            _log.error(told, self.cell.name(), in_words(exc), extra=self.cell.loop.host.log_fields(self.cell))
            if isinstance(sender, Question):
                sender.refuse(exc)

    def _send_more(self) -> None:
        """Keep enough messages in flight that the worker does not run out of them."""
        window = self._executor.window
        while (room := window.room(self.sent - self.first)) and self._may_take_more():
            messages, senders = self._behind(self.sent - self.first - 1, room)
            if not messages or self._send(messages, senders) < len(messages):
                return

    # -- what the worker reports

    def progress(self, news: Progress, failure: BaseException | None) -> None:
        """Some messages are done; if the actor has failed, `failure` is why."""
        self._executor.window.done(news.done)
        if news.returned is not None and news.returned < self.sent:
            self._take_back(news.returned)
            if self.sent == self.first and failure is None:
                self._put_back()
                return
        if failure is None and not news.waits:
            self._send_more()
        is_last = self.sent == news.done
        self._account_for(news.done - self.first - (1 if is_last else 0), news.asides)
        self._note_deferred(news.done, {number for number, what in news.asides if what == STASHED})
        if self.cell.flags & ROOM:
            self.cell.loop.admission.fill_up(self.cell)
        if is_last or failure is not None:
            last = news.asides[-1] if news.asides else (-1, 0)
            self._end(last[1] if is_last and last[0] == news.done - 1 else 0, failure)

    def _take_back(self, number: int) -> None:
        """The worker has not started the messages from `number` on, and will not."""
        self.sent = self._executor.numbers = number
        while self._asked and self._asked[-1] >= number:
            self._executor.open.pop(self._asked.pop(), None)

    def _put_back(self) -> None:
        """Not even the message in hand was started: put it back into the mailbox."""
        put_back(self.cell, self.message, self.sender, self.lane)
        self.kind = PUT_ASIDE
        self.message = self.sender = None
        self._end()

    def _account_for(self, count: int, asides: list[tuple[int, int]]) -> None:
        """`count` messages are done, and the next is in hand."""
        if count <= 0 or self.cell.ending:
            return
        cell = self.cell
        others = 0
        for number, what in asides:
            if number < self.first + count:
                self._set_aside(self._at(number), what)
                others += 1
        message, sender = self._at(self.first + count)
        cell.drop_first(count)
        cell.handled += count - others
        self.first += count
        self.message, self.sender = message, sender
        self._sync()

    def _at(self, number: int) -> tuple[object, object]:
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
            admission.count_unhandled(self.cell)
            self.cell.loop.host.unhandled(self.cell, message, sender)
            if isinstance(sender, Receipt):
                sender.discard("unhandled")

    def _note_deferred(self, done: int, stashed: set[int]) -> None:
        """Mark questions as deferred whose handler is done and that have no answer. Stashed ones are ours again."""
        while self._asked and self._asked[0] < done:
            number = self._asked.popleft()
            if number in stashed:
                self._executor.open.pop(number, None)
                continue
            question = self._executor.open.get(number)
            if question is not None and not question.replied:
                question.defer(self.cell.record.ensure_extras().deferred)

    def _sync(self) -> None:
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

    def lose(self, error: WorkerLost) -> bool:
        """The worker is lost. Whether the actor has failed with that, because of a message.

        Nobody knows what became of the messages in flight, unless the worker has marked how far it was. Then those that
        it had not begun stay in the mailbox, and the one that it was at has failed.
        """
        marks = self._executor.marks()
        if marks is None:
            self._count_as_lost()
            self._end(error=error)
            return True
        done = min(max(marks[0], self.first), self.sent)
        begun = min(max(marks[1], done), done + 1, self.sent)
        self._take_back(max(begun, self.first))
        is_last = done > self.first and done == self.sent
        self._account_for(done - self.first - (1 if is_last else 0), [])
        if begun > done:
            self._end(error=error)
            return True
        if is_last:
            self._end()  # it is done, with all before it
        else:
            self._put_back()
        return False

    def give_up(self) -> None:
        """The messages are abandoned, and what became of them is not known."""
        asked, self._asked = self._asked, deque()
        self._count_as_lost()
        self._sync()
        for number in asked:
            question = self._executor.open.pop(number, None)
            if question is not None:
                question.fail(CancelledError("abandoned"))

    def _count_as_lost(self) -> None:
        cell = self.cell
        count = self.sent - self.first
        if isinstance(self.sender, Receipt) and not isinstance(self.sender, Question):  # those are told of it otherwise
            self.sender.discard("lost")
        if not cell.ending:
            cell.drop_first(count - 1)
        cell.loop.admission.count_lost(cell, count)
        self.kind = PUT_ASIDE  # so that it counts neither as handled nor as failed
        self.sender = None

    def unreadable(self, number: int, count: int, error: BaseException) -> None:
        """The worker cannot decode a frame, and has ignored those after it. If the frame has one message, it is that
        one; else the messages are sent again one by one.
        """
        self._take_back(number)
        self._executor.window.shrink()
        if number > self.first:
            return  # it becomes the first when those before it are done
        if count > 1:
            self._put_back()
        else:
            told = "%s cannot be brought a message, which its process cannot read: %s"
            fields = self.cell.loop.host.log_fields(self.cell)
            _log.error(told, self.cell.name(), in_words(error), extra=fields)
            if isinstance(self.sender, Question):
                self.sender.refuse(error)
            self._end(aside=UNHANDLED)

    # -- called by the loop

    def hurry(self) -> None:
        """Something has arrived that must be handled before the messages that were not started."""
        if not self._hurries and not self.cell.is_foreign():
            self._hurries = True
            if self.sent - self.first > 1:
                self._executor.hurry(self.first + 1)

    def withdraw(self) -> None:
        self.hurry()

    def keep_the_rest(self) -> None:
        """Nothing to do: the worker itself returns the messages that it has not started."""

    def done(self) -> int:
        """How many messages in the mailbox are done: none that we know of."""
        return 0

    def let_done_go(self) -> None:
        """Nothing to do, as `done()` is 0."""

    def let_sender_go(self) -> None:
        self.sender = None


def _may_come_along(receipt: Receipt) -> bool:
    """Whether a message with this receipt can be sent with others."""
    return isinstance(receipt, Told) or (isinstance(receipt, Question) and not receipt.done())


def _sender_of(sender: object) -> object:
    if isinstance(sender, Question):
        return Asked(sender.shown_sender())
    return sender.shown_sender() if isinstance(sender, Receipt) else sender
