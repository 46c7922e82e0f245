"""The executor of an actor in a worker process, and the hand-offs to it: messages of the actor, and calls of its hooks.

While messages are in flight, the first one that is not done is in hand. The others stay in the mailbox until the worker
reports that they are done. More are sent after them as long as nothing more urgent arrives, so that the worker does not
run out of messages.

Everything here is in the main process, and for the loop's own thread only.
"""

from __future__ import annotations

from asyncio import CancelledError
from collections import deque
from collections.abc import Callable, Coroutine, Generator
from itertools import count
from time import monotonic
from typing import TYPE_CHECKING, Any

from greenroom._core.flags import PROPAGATES, ROOM
from greenroom._core.handoff.handoff import Handoff
from greenroom._core.handoff.messages import must_go_alone, put_back
from greenroom._core.itemkinds import MESSAGE
from greenroom._core.itemkinds import STASHED as PUT_ASIDE
from greenroom._core.mailbox.cell import Cell
from greenroom._core.receipt import Receipt, Told
from greenroom.actor.api.behavior import UNHANDLED as UNHANDLED_BEHAVIOR
from greenroom.actor.api.context import Context, ContextRecord
from greenroom.actor.failure.reports import report_refusal
from greenroom.actor.messaging.question import Question, wait_on_thread
from greenroom.actor.offload.executor import Executor
from greenroom.actor.records.record import ActorRecord, Settings
from greenroom.actor.records.states import State
from greenroom.errors import FrameTooLarge, NotSendable, WorkerLost
from greenroom.errortext import in_words
from greenroom.runtimelog import RuntimeLog
from greenroom.system.dispatchers.processes.protocol import (
    STASHED,
    UNHANDLED,
    Asked,
    Progress,
    Propagated,
    error_of,
    outcome_of,
)
from greenroom.wire.codec import pack, registered_names
from greenroom.wire.failures import Failure

if TYPE_CHECKING:
    from asyncio import Task

    from greenroom._core.delivery.propagation import Values
    from greenroom._core.timing.timers import Timer
    from greenroom.system.dispatchers.processes.pool.worker import Hold, Worker, WorkerPool
    from greenroom.system.dispatchers.processes.protocol import Entry
    from greenroom.system.dispatchers.processes.variables import PackedValues

_log = RuntimeLog()

_numbers = count(1)
_RUNNING = State.RUNNING.code

_PROMPT = 0.5
"""Seconds in which a worker whose thread is free confirms a cancellation."""
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
    """Work of a hosted actor, which is at rest when its worker is known to have nothing to do."""

    __slots__ = ("_executor",)

    def __init__(self, executor: ProcessExecutor) -> None:
        super().__init__(executor.cell)
        self._executor = executor

    def is_at_rest(self) -> bool:
        worker = self._executor.worker  # without one, nothing is done there
        return worker is None or worker.is_at_rest()

    def report_rest(self, tell: Callable[[], object]) -> None:
        if self._executor.worker is not None:
            self._executor.worker.report_rest(tell)


class RemoteCall(RemoteHandoff):
    __slots__ = ("number",)

    def __init__(self, executor: ProcessExecutor) -> None:
        super().__init__(executor)
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

    def __init__(self, executor: ProcessExecutor, message: object, sender: object, lane: int) -> None:
        super().__init__(executor)
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
        return Propagated(shown, self._executor.pack_values(values)) if values else shown

    def _note_asked(self, senders: list[object]) -> None:
        for number, sender in enumerate(senders, self.sent):
            if isinstance(sender, Question):
                self._executor.open[number] = sender
                self._asked.append(number)

    def _give_back(self, message: object, sender: object, exc: Exception) -> None:
        if self.sent == self.first:
            told = "a message to %s cannot be brought there after all: %s"
            _log.error(told, self.cell.name(), in_words(exc), extra=self.cell.loop.host.log_fields(self.cell))
            if isinstance(sender, Question):
                sender.refuse(exc)

    def _send_more(self) -> None:
        window = self._executor.window
        while (room := window.room(self.sent - self.first)) and self._may_take_more():
            messages, senders = self._behind(self.sent - self.first - 1, room)
            if not messages or self._send(messages, senders) < len(messages):
                return

    # -- what the worker reports

    def progress(self, news: Progress, failure: BaseException | None) -> None:
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
        put_back(self.cell, self.message, self.sender, self.lane)
        self.kind = PUT_ASIDE
        self.message = self.sender = None
        self._end()

    def _account_for(self, count: int, asides: list[tuple[int, int]]) -> None:
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
            self.cell.record._get_stash().add(message, sender, self.lane)
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

    def lose(self, error: WorkerLost, marks: tuple[int, int] | None) -> bool:
        """The worker is lost. Whether the actor has failed with that, because of a message.

        What became of the messages in flight is not known, unless the worker has marked how far it was. Then those that
        it had not begun stay in the mailbox, and the one that it was at has failed.
        """
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
        """The worker cannot decode a frame, and has ignored those after it.

        If the frame has one message, it is that one; else the messages are sent again one by one.
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
            worker = self._executor.worker
            if self.sent - self.first > 1 and worker is not None:
                worker.tell(("hurry", self._executor.number, self.first + 1))  # return those that were not started

    def withdraw(self) -> None:
        self.hurry()

    def keep_the_rest(self) -> None:
        """Do nothing: the worker itself returns the messages that it has not started."""

    def done(self) -> int:
        """How many messages in the mailbox are done: none that we know of."""
        return 0

    def let_done_go(self) -> None:
        """Do nothing, as `done()` is 0."""

    def let_sender_go(self) -> None:
        self.sender = None


def _may_come_along(receipt: Receipt) -> bool:
    """Whether a message with this receipt can be sent with others."""
    return isinstance(receipt, Told) or (isinstance(receipt, Question) and not receipt.done())


def _sender_of(sender: object) -> object:
    if isinstance(sender, Question):
        return Asked(sender.shown_sender())
    return sender.shown_sender() if isinstance(sender, Receipt) else sender


class Requests:
    """What the main process does for a hosted actor, or for code in its worker that is no actor's."""

    def __init__(self) -> None:
        # Questions that are not answered.
        self.asked: dict[int, Question] = {}
        # Those that serve slow requests; asyncio itself keeps no reference to them.
        self.tasks: set[Task[None]] = set()
        # Timers of which there are handles.
        self.timers: dict[int, Timer] = {}

    def withdraw(self, number: int, worker: Worker | None) -> None:
        """The asker no longer waits for the answer to its question."""
        question = self.asked.pop(number, None)
        if question is not None:
            question.cancel()
            if worker is not None:  # so that it need not keep anything for an answer
                worker.answer(number, Failure.of(CancelledError()))

    def drop(self, worker: Worker | None) -> None:
        self.timers.clear()
        for number in list(self.asked):
            self.withdraw(number, worker)
        for task in list(self.tasks):
            task.cancel()


class ProcessExecutor(Executor):
    """The executor of one actor that is hosted by a worker."""

    has_asyncio = True
    is_remote = True

    cell: Cell
    """The cell of the actor, from `enter` on."""

    def __init__(self, workers: WorkerPool) -> None:
        super().__init__(workers.dispatcher)
        self._workers = workers
        self.number = next(_numbers)
        # The id of the actor's cell in its worker; 0 before it is known.
        self.cell_id = 0
        # The process that hosts the actor: None before its start, and after the process is lost.
        self.worker: Worker | None = None
        # Invariant: the number of the next message; all before it were sent, and not returned
        self.numbers = 0
        # How many times the actor has returned messages, as far as we know.
        self.epoch = 0
        # How many messages may be in flight.
        self.window = Window()
        # Questions that were sent and are not answered, by the number of their message.
        self.open: dict[int, Question] = {}
        self.requests = Requests()
        # The hand-off that is under way: messages, or a call.
        self._in_flight: RemoteMessages | None = None
        self._call: RemoteCall | None = None
        # When we sent a cancellation that the worker has not confirmed, and who held the worker then.
        self._cancelled_at: float | None = None
        self._hold_then: Hold | None = None
        # Whether it has confirmed the cancellation of what is under way: then we know how far that is.
        self._has_confirmed = False
        # Where its worker marks how far it is, if it does.
        self._place = 0
        self._marked_by: Worker | None = None

    def new_context(self) -> Context:
        """In the main process it has an ordinary context; its code sees the one in the worker."""
        return ContextRecord()

    def examine(self, message: object) -> None:
        pack(message, self._workers.limit)

    # -- its life

    def enter(self, cell: Cell, record: ActorRecord) -> Handoff:
        self.cell = cell
        self._leave()
        self.epoch = self.cell_id = 0
        self.worker = self._workers.worker_for(self)
        spec = record.spec
        settings: Settings = record.settings()
        made = (spec.kind, spec.factory, record.args, spec.kwargs)
        call = self._new_call()
        self._place = self._place_in(self.worker) if self._workers.keep else 0
        head = ("enter", self.number, call.number, self.numbers, self._place)
        self._send_call(call, head, (cell.ref, made, dict(settings.env), registered_names()))
        return call

    def _new_call(self) -> RemoteCall:
        call = self._call = RemoteCall(self)
        call.on_cancel(self._cancel)
        call.on_abandoned(self._abandon)
        return call

    def _send_call(self, call: RemoteCall, head: Entry, value: object) -> None:
        try:
            self._require_worker().tell(head, [value], lenient=True)
        except Exception as exc:
            self._call = None
            call.has_returned(None, exc)

    def _require_worker(self) -> Worker:
        if self.worker is None:
            raise WorkerLost(f"{self.cell.shown()} is in no process at present")
        return self.worker

    def entered(self, cell_id: int) -> None:
        self.cell_id = cell_id

    def _place_in(self, worker: Worker) -> int:
        before, self._marked_by = self._marked_by, worker
        return worker.new_marks(self.numbers, self._place if before is worker else 0)

    def has_lost_actor(self) -> bool:
        return self.worker is None

    def actor_ended(self) -> None:
        self._leave()
        self.open.clear()

    def _leave(self) -> None:
        worker, self.worker = self.worker, None
        if worker is not None:
            worker.release(self)
        self._cancelled_at = None
        self.requests.drop(worker)

    def lost(self, error: WorkerLost) -> None:
        marks = None if self.worker is None or not self._place else self.worker.marks(self._place)
        self.worker = None
        self._leave()
        in_flight, self._in_flight = self._in_flight, None
        call, self._call = self._call, None
        is_told = in_flight is not None and not in_flight.is_closed() and in_flight.lose(error, marks)
        # Those whose messages stay are still asked.
        questions, self.open = list(self.open.values()), {}
        if not is_told:
            if call is not None and not call.is_closed():
                call.has_returned(None, error.again())
            if call is None or getattr(self.cell.record, "state", None) == _RUNNING:  # else that failure is enough
                self.cell.loop.host.request_failure(self.cell, error)
        for question in questions:
            question.refuse(error.again())

    # -- calls

    def call(self, cell: Cell, function: Callable[..., object], arguments: tuple[object, ...], awaits: bool) -> Any:
        if self.worker is None:
            return _Nothing()  # the actor is gone
        call = self._new_call()
        name = function.name  # type: ignore[attr-defined]
        self._send_call(call, ("call", self.number, call.number, name), arguments)
        return call

    def called(self, call_id: int, value: object) -> None:
        call = self._call
        if call is None or call.number != call_id:
            return
        self._call = None
        self._cancelled_at = None
        call.has_returned(*outcome_of(value))

    # -- messages

    def carry(self, cell: Cell, message: object, sender: object, lane: int) -> Coroutine[Any, Any, object]:
        return self._run(RemoteMessages(self, message, sender, lane))

    async def _run(self, in_flight: RemoteMessages) -> object:
        is_sent = False
        try:
            is_sent = in_flight.send_first()
        finally:
            if not is_sent:
                in_flight.abandon()
        if not is_sent:
            return UNHANDLED
        self._in_flight = in_flight
        self._has_confirmed = False
        in_flight.on_cancel(self._cancel)
        in_flight.on_abandoned(self._abandon)
        return await in_flight

    def pack_values(self, values: Values) -> PackedValues:
        packer = self._require_worker().packer
        return [] if packer is None else packer.pack(values)

    def send_messages(self, number: int, lane: int, messages: list[object], senders: object) -> int:
        head = ("messages", self.number, number, self.epoch, lane, len(messages), senders)
        worker = self._require_worker()
        worker.note_observers()
        return worker.tell(head, messages)

    def progressed(self, news: Progress) -> None:
        in_flight = self._in_flight
        self.epoch = news.epoch
        if in_flight is None or in_flight.is_closed():
            return
        in_flight.progress(news, None if news.failure is None else error_of(news.failure))
        if in_flight.is_closed():
            self._in_flight = None
            self._cancelled_at = None

    def unreadable(self, number: int, count: int, epoch: int, error: object) -> None:
        in_flight = self._in_flight
        self.epoch = epoch
        if in_flight is not None and not in_flight.is_closed():
            in_flight.unreadable(number, count, error_of(error))
            if in_flight.is_closed():
                self._in_flight = None

    def answered(self, number: int, value: object) -> None:
        question = self.open.pop(number, None)
        if question is None:
            return
        result, error = outcome_of(value)
        if error is None:
            question.answer(result)
        else:
            question.refuse(error)

    def refused(self, told: tuple[str, str] | None, failure: object) -> None:
        """The actor refused a message with one of its answers; if no asker hears, `told` says what, and as what."""
        self.cell.loop.admission.count_refusal(self.cell)
        record = self.cell.record
        if told is not None and isinstance(record, ActorRecord):
            message_type, declared = told
            report_refusal(self.cell, record, message_type, error_of(failure), declared)

    def unstash(self, count: int) -> None:
        self.cell.record._get_stash().unstash(count)

    # -- what the actor decides about itself

    def stop_actor(self) -> None:
        self.cell.loop.host.request_own_end(self.cell)

    def supervise(self, supervision: object) -> None:
        """The actor has become a behavior with a supervision of its own."""
        record = self.cell.record
        result, error = outcome_of(supervision)
        if error is not None:
            self.cell.loop.host.request_failure(self.cell, error)
        elif isinstance(record, ActorRecord):
            record.ensure_extras().settings_of_behavior = record.settings().supervised_by(result)

    def awaits(self, number: int) -> None:
        """The actor's handler or hook waits for the answer to this question, and for nothing else."""
        question = self.requests.asked.get(number)
        handoff = self._call if self._in_flight is None or self._in_flight.is_closed() else self._in_flight
        if question is not None and handoff is not None:
            wait_on_thread(question, handoff)

    # -- cancelling

    def _cancel(self) -> None:
        if self.worker is not None:
            if self._cancelled_at is None:
                self._has_confirmed = False
                self._cancelled_at = monotonic()
                self._hold_then = self.worker.hold()
            self.worker.tell(("cancel", self.number))

    def cancel_confirmed(self) -> None:
        self._cancelled_at = None
        self._has_confirmed = True

    def _abandon(self) -> None:
        """What is under way is abandoned, and the actor leaves its worker.

        If it is the one that holds the worker's thread, the worker ends with it, because the others there would wait
        for ever. If another one does, that one is only busy: this one goes without having been reached.
        """
        in_flight, self._in_flight = self._in_flight, None
        self._call = None
        if in_flight is not None and not self._has_confirmed:
            in_flight.give_up()
        worker, self.worker = self.worker, None
        if worker is None:
            return
        holder = worker.holder()
        has_held = self._hold_then == worker.hold()
        was_cancelled = self._cancelled_at is not None and monotonic() - self._cancelled_at > _PROMPT
        worker.release(self)
        self._cancelled_at = None
        self.requests.drop(worker)
        if holder is self:
            if was_cancelled and has_held:
                worker.kill(f"{self.cell.shown()} held it, and would not be interrupted")
            else:
                worker.end_unless_free(self)
        elif was_cancelled:
            worker.note_held()
            told = "%s was not reached in its worker process, because %s keeps that busy: it goes without its hooks"
            other = "something else" if holder is None else holder.cell.name()
            _log.warning(told, self.cell.name(), other, extra=self.cell.loop.host.log_fields(self.cell))


class _Nothing:
    """Stands for the call of a hook when the actor is gone: returns None."""

    def __await__(self) -> Generator[Any, None, None]:
        return
        yield
