"""The executor of an actor in a worker process, in the main process."""

from __future__ import annotations

from asyncio import CancelledError, Task
from collections.abc import Callable, Coroutine, Generator
from itertools import count
from time import monotonic
from typing import TYPE_CHECKING, Any

from greenroom._core.handoff.handoff import Handoff
from greenroom._core.mailbox.cell import Cell
from greenroom.actor.api.behavior import UNHANDLED
from greenroom.actor.api.context import Context, ContextRecord
from greenroom.actor.failure.reports import report_refusal
from greenroom.actor.messaging.question import wait_on_thread
from greenroom.actor.offload.executor import Executor
from greenroom.actor.records.record import ActorRecord, Settings
from greenroom.actor.records.states import State
from greenroom.errors import WorkerLost
from greenroom.runtimelog import RuntimeLog
from greenroom.system.dispatchers.processes.pool.messages import RemoteCall, RemoteMessages, Window
from greenroom.system.dispatchers.processes.protocol import error_of
from greenroom.wire.codec import pack, registered_names, unpacked
from greenroom.wire.failures import Failure

if TYPE_CHECKING:
    from greenroom._core.delivery.propagation import Values
    from greenroom._core.timing.timers import Timer
    from greenroom.actor.messaging.question import Question
    from greenroom.system.dispatchers.processes.pool.worker import Hold, Worker, WorkerPool
    from greenroom.system.dispatchers.processes.protocol import Entry, Progress
    from greenroom.system.dispatchers.processes.variables import PackedValues

__all__ = ["ProcessExecutor"]

_log = RuntimeLog()

_numbers = count(1)
_RUNNING = State.RUNNING.code

_PROMPT = 0.5
"""Seconds in which a worker whose thread is free confirms a cancellation."""


class ProcessExecutor(Executor):
    """The executor of one actor that is hosted by a worker. For the loop's own thread only."""

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
        # Questions that the actor has asked and that are not answered.
        self.asking: dict[int, Question] = {}
        # Tasks that serve slow requests of the actor.
        self.tasks: set[Task[None]] = set()
        # The hand-off that is under way: messages, or a call.
        self._in_flight: RemoteMessages | None = None
        self._call: RemoteCall | None = None
        # When we sent a cancellation that the worker has not confirmed, and who held the worker then.
        self._cancelled_at: float | None = None
        self._hold_then: Hold | None = None
        # Whether it has confirmed the cancellation of what is under way: then we know how far that is.
        self._has_confirmed = False
        # Where its worker marks how far it is, if it does; and the marks, once the worker is lost.
        self._place = 0
        self._marked_by: Worker | None = None
        self._marks: tuple[int, int] | None = None
        # Timers that the actor has handles of.
        self.timers: dict[int, Timer] = {}

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
        call = self._new_call(cell)
        self._marks = None
        self._place = self._place_in(self.worker) if self._workers.keep else 0
        head = ("enter", self.number, call.number, self.numbers, self._place)
        self._send_call(call, head, (cell.ref, made, dict(settings.env), registered_names()))
        return call

    def _new_call(self, cell: Cell) -> RemoteCall:
        call = self._call = RemoteCall(cell, self)
        call.on_cancel(self._cancel)
        call.on_abandoned(self._abandon)
        return call

    def _send_call(self, call: RemoteCall, head: Entry, value: object) -> None:
        """Send a call; if that is not possible, the call has failed."""
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
        """Where a worker marks how far it is: where it did before, if it is the same."""
        before, self._marked_by = self._marked_by, worker
        return worker.new_marks(self.numbers, self._place if before is worker else 0)

    def note_marks(self) -> None:
        """The worker is lost: note how far the actor was, before its page is closed."""
        if self._place and self.worker is not None:
            self._marks = self.worker.marks(self._place)

    def marks(self) -> tuple[int, int] | None:
        """The numbers of the first message that is not done, and of the first not begun; None if that is not known."""
        return self._marks

    def has_lost_actor(self) -> bool:
        return self.worker is None

    def let_go(self) -> None:
        self._leave()
        self.open.clear()

    def _leave(self) -> None:
        worker, self.worker = self.worker, None
        if worker is not None:
            worker.release(self)
        self._drop_requests(worker)

    def _drop_requests(self, worker: Worker | None) -> None:
        """The hosted actor is gone: withdraw its questions and requests, and forget its timers."""
        self.timers.clear()
        self._cancelled_at = None
        asking, self.asking = self.asking, {}
        for number, question in asking.items():
            self._withdraw(number, question, worker)
        for task in list(self.tasks):
            task.cancel()

    def _withdraw(self, number: int, question: Question, worker: Worker | None) -> None:
        """The actor no longer waits for the answer to its question."""
        question.cancel()
        if worker is not None:  # so that it need not keep anything for an answer
            worker.answer(number, False, Failure.of(CancelledError()))

    def lost(self, error: WorkerLost) -> None:
        """The process is lost: what was under way there has failed, and so has the actor."""
        self.worker = None
        self._drop_requests(None)
        in_flight, self._in_flight = self._in_flight, None
        call, self._call = self._call, None
        is_told = in_flight is not None and not in_flight.is_closed() and in_flight.lose(error)
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
        """Call one of the actor's methods: a `Hook`, which has its name."""
        if self.worker is None:
            return _Nothing()  # the actor is gone
        call = self._new_call(cell)
        name = function.name  # type: ignore[attr-defined]
        self._send_call(call, ("call", self.number, call.number, name), arguments)
        return call

    def called(self, call_id: int, ok: bool, value: object) -> None:
        call = self._call
        if call is None or call.number != call_id:
            return
        self._call = None
        self._cancelled_at = None
        call.has_returned(*_outcome(ok, value))

    # -- messages

    def carry(self, cell: Cell, message: object, sender: object, lane: int) -> Coroutine[Any, Any, object]:
        return self._run(RemoteMessages(cell, self, message, sender, lane))

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
        """Send messages; return their size in bytes."""
        head = ("messages", self.number, number, self.epoch, lane, len(messages), senders)
        worker = self._require_worker()
        worker.note_observers()
        return worker.tell(head, messages)

    def progressed(self, news: Progress) -> None:
        in_flight = self._in_flight
        self.epoch = news.epoch
        if in_flight is None or in_flight.is_closed():
            return
        in_flight.progress(news, None if news.failure is None else _restored(news.failure))
        if in_flight.is_closed():
            self._in_flight = None
            self._cancelled_at = None

    def unreadable(self, number: int, count: int, epoch: int, error: object) -> None:
        """The worker could not decode a frame of messages."""
        in_flight = self._in_flight
        self.epoch = epoch
        if in_flight is not None and not in_flight.is_closed():
            in_flight.unreadable(number, count, _restored(error))
            if in_flight.is_closed():
                self._in_flight = None

    def answered(self, number: int, ok: bool, value: object) -> None:
        question = self.open.pop(number, None)
        if question is None:
            return
        result, error = _outcome(ok, value)
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
            report_refusal(self.cell, record, message_type, _restored(failure), declared)

    def stash(self, message: object, sender: object, lane: int) -> None:
        self.cell.record._get_stash().add(message, sender, lane)

    def unstash(self, count: int) -> None:
        self.cell.record._get_stash().unstash(count)

    # -- what the actor decides about itself

    def stop_actor(self) -> None:
        """The actor wants to stop after the current message."""
        self.cell.loop.host.request_own_end(self.cell)

    def supervise(self, ok: bool, supervision: object) -> None:
        """The actor has become a behavior with a supervision of its own."""
        record = self.cell.record
        result, error = _outcome(ok, supervision)
        if error is not None:
            self.cell.loop.host.request_failure(self.cell, error)
        elif isinstance(record, ActorRecord):
            record.ensure_extras().settings_of_behavior = record.settings().supervised_by(result)  # type: ignore[arg-type]

    def awaits(self, number: int) -> None:
        """The actor's handler or hook waits for the answer to this question, and for nothing else."""
        question = self.asking.get(number)
        handoff = self._call if self._in_flight is None or self._in_flight.is_closed() else self._in_flight
        if question is not None and handoff is not None:
            wait_on_thread(question, handoff)

    def gives_up(self, number: int) -> None:
        question = self.asking.pop(number, None)
        if question is not None:
            self._withdraw(number, question, self.worker)

    def is_at_rest(self) -> bool:
        """Whether its worker is known to have nothing to do; if that is gone, nothing is done there."""
        return self.worker is None or self.worker.is_at_rest()

    def report_rest(self, tell: Callable[[], object]) -> None:
        if self.worker is not None:
            self.worker.report_rest(tell)

    # -- cancelling

    def hurry(self, number: int) -> None:
        """Have the worker return the messages that it has not started, from this number on."""
        if self.worker is not None:
            self.worker.tell(("hurry", self.number, number))

    def _cancel(self) -> None:
        if self.worker is not None:
            if self._cancelled_at is None:
                self._has_confirmed = False
                self._cancelled_at = monotonic()
                self._hold_then = self.worker.hold()
            self.worker.tell(("cancel", self.number))

    def cancel_confirmed(self) -> None:
        """The worker has cancelled what the actor awaits."""
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
        self._drop_requests(worker)
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


def _outcome(ok: bool, value: object) -> tuple[object, BaseException | None]:
    """The result of something in the worker, or its error. A result that cannot be decoded is an error."""
    try:
        value = unpacked(value)
    except Exception as exc:
        return None, exc
    return (value, None) if ok else (None, error_of(value))


def _restored(failure: object) -> BaseException:
    _, error = _outcome(False, failure)
    assert error is not None
    return error


class _Nothing:
    """Stands for the call of a hook when the actor is gone: returns None."""

    def __await__(self) -> Generator[Any, None, None]:
        return
        yield
