"""The place of one actor in another process, as its loop sees it."""

from __future__ import annotations

from asyncio import CancelledError
from collections.abc import Callable, Coroutine, Generator
from itertools import count
from time import monotonic
from typing import Any

from greenroom._core.handoff.handoff import Handoff
from greenroom._core.mailbox.cell import Cell
from greenroom.actor.api.behavior import UNHANDLED
from greenroom.actor.api.context import Context
from greenroom.actor.offload.executor import Executor
from greenroom.actor.records.record import ActorRecord, Settings
from greenroom.actor.records.states import State
from greenroom.errors import WorkerLost
from greenroom.exits import NORMAL
from greenroom.system.dispatchers.processes.pool.messages import RemoteCall, RemoteMessages
from greenroom.system.dispatchers.processes.pool.ports import PoolPort, WorkerPort
from greenroom.system.dispatchers.processes.pool.window import Window
from greenroom.wire.codec import registered_names, require_sendable, unpacked
from greenroom.wire.failures import Failure

__all__ = ["ProcessExecutor"]

_numbers = count(1)
_RUNNING = State.RUNNING.code

_PROMPT = 0.5
"""Seconds in which a worker whose thread is free does what it is told."""


class ProcessExecutor(Executor):
    """Where one actor is a guest. Belongs to the loop's own thread."""

    has_asyncio = True
    is_remote = True

    def __init__(self, workers: PoolPort) -> None:
        super().__init__(workers.dispatcher)
        self._workers = workers
        self.number = next(_numbers)
        # Whose place it is, and the process it is a guest of: None before its start, and when that is gone.
        self.cell: Any = None
        self.worker: WorkerPort | None = None
        # Invariant: numbers have been given to messages that were sent up to this one, and not come back
        self.numbers = 0
        # How many times the guest has sent something back, as far as is known here.
        self.epoch = 0
        # How much may be under way.
        self.window = Window()
        # Questions that were sent, by the number of their message, until they are answered.
        self.open: dict[int, Any] = {}
        # Questions of the guest that have no answer.
        self.asking: dict[int, Any] = {}
        # What is done for the guest that takes a while.
        self.tasks: set[Any] = set()
        # What is under way: messages, or a call.
        self._in_flight: RemoteMessages | None = None
        self._call: RemoteCall | None = None
        # When the guest was told to break off what it does, if it has not said that it heard it.
        self._cancelled_at: float | None = None
        # Timers that the guest has handles of.
        self.timers: dict[int, Any] = {}

    def new_context(self) -> Context:
        """At home it has the context of any actor; the one that its code sees is where the code is."""
        return Context()

    def examine(self, message: object) -> None:
        """Refuse a message that cannot be sent to another process. From any thread."""
        require_sendable(message, self._workers.limit)

    # -- its life

    def enter(self, cell: Cell, record: ActorRecord) -> Handoff:
        """Have the actor made, in a process that has room for one more."""
        self.cell = cell
        self._leave()
        self.epoch = 0
        self.worker = self._workers.worker_for(self)
        spec = record.spec
        settings: Settings = record.settings()
        made = (spec.kind, spec.factory, spec.args, dict(spec.kwargs))
        call = self._new_call(cell)
        self._say(
            ("enter", self.number, call.number, self.numbers), (cell.ref, made, dict(settings.env), registered_names())
        )
        return call

    def _new_call(self, cell: Cell) -> RemoteCall:
        call = self._call = RemoteCall(cell, self)
        call.on_cancel(self._cancel)
        call.on_abandoned(self._abandon)
        return call

    def _say(self, head: tuple[Any, ...], value: object) -> None:
        """Send a call; if it cannot be sent, it has failed."""
        call: Any = self._call
        try:
            self._to_worker().tell(head, [value], lenient=True)
        except Exception as exc:
            self._call = None
            call.has_raised(exc)

    def _to_worker(self) -> WorkerPort:
        if self.worker is None:
            raise WorkerLost(f"{self.cell.shown()} is in no process at present")
        return self.worker

    def has_lost_actor(self) -> bool:
        """Whether the process that the actor was in is gone."""
        return self.worker is None

    def let_go(self) -> None:
        """The actor has ended."""
        self._leave()
        self.open.clear()

    def _leave(self) -> None:
        worker, self.worker = self.worker, None
        if worker is not None:
            worker.see_off(self)
        self._is_seen_off(worker)

    def _is_seen_off(self, worker: WorkerPort | None) -> None:
        """The guest is no more: what it has asked, or started, means nothing any more."""
        self.timers.clear()
        self._cancelled_at = None
        asking, self.asking = self.asking, {}
        for number, question in asking.items():
            self._withdraw(number, question, worker)
        for task in list(self.tasks):
            task.cancel()

    def _withdraw(self, number: int, question: Any, worker: WorkerPort | None) -> None:
        """Nobody waits for an answer to the guest any more."""
        question.cancel()
        if worker is not None:  # so that nothing is kept there for the sake of an answer
            worker.answer(number, False, Failure.of(CancelledError()))

    def lost(self, error: WorkerLost) -> None:
        """The process is gone: what was under way there has failed, and so has the actor."""
        self.worker = None
        self._is_seen_off(None)
        questions, self.open = list(self.open.values()), {}
        in_flight, self._in_flight = self._in_flight, None
        call, self._call = self._call, None
        if in_flight is not None and not in_flight.is_closed():
            in_flight.lose(error)
        else:
            if call is not None and not call.is_closed():
                call.has_raised(error.again())
            if call is None or getattr(self.cell.record, "state", None) == _RUNNING:  # else it fails of that already
                self.cell.loop.host.request_failure(self.cell, error)
        for question in questions:
            question.refuse(error.again())

    # -- calls

    def call(self, cell: Cell, function: Callable[..., Any], arguments: tuple[Any, ...], awaits: bool) -> Any:
        """Have one of the actor's methods called: a `Hook`, by its name."""
        if self.worker is None:
            return _Nothing()  # whose hook it is, is gone
        call = self._new_call(cell)
        name = function.name  # type: ignore[attr-defined]
        self._say(("call", self.number, call.number, name), arguments)
        return call

    def called(self, call_id: int, ok: bool, value: Any) -> None:
        """A call is over."""
        call = self._call
        if call is None or call.number != call_id:
            return
        self._call = None
        self._cancelled_at = None
        ok, value = _outcome(ok, value)
        if not ok:
            call.has_raised(value)
        else:
            call.has_returned(value)

    # -- messages

    def carry(self, cell: Cell, message: object, sender: object, lane: int) -> Coroutine[Any, Any, object]:
        """Have a message handled, and those behind it."""
        return self._see_through(cell, RemoteMessages(cell, self, message, sender, lane))

    async def _see_through(self, cell: Cell, in_flight: RemoteMessages) -> object:
        departed = False
        try:
            departed = in_flight.depart()
        finally:
            if not departed:
                in_flight.abandon()
        if not departed:
            return UNHANDLED
        self._in_flight = in_flight
        in_flight.on_cancel(self._cancel)
        in_flight.on_abandoned(self._abandon)
        return await in_flight

    def send_messages(self, number: int, lane: int, messages: list[Any], senders: Any) -> int:
        """Send messages; how many bytes those were."""
        return self._to_worker().tell(
            ("messages", self.number, number, self.epoch, lane, len(messages), senders), messages
        )

    def progressed(self, news: Any) -> None:
        """The guest is further than it was."""
        in_flight = self._in_flight
        self.epoch = news.epoch
        if in_flight is None or in_flight.is_closed():
            return
        if news.failure is not None:
            news = news._replace(failure=_restored(news.failure))
        in_flight.progress(news)
        if in_flight.is_closed():
            self._in_flight = None
            self._cancelled_at = None

    def unreadable(self, number: int, count: int, epoch: int, error: Any) -> None:
        """The worker could not read a frame of messages."""
        in_flight = self._in_flight
        self.epoch = epoch
        if in_flight is not None and not in_flight.is_closed():
            in_flight.unreadable(number, count, _restored(error))
            if in_flight.is_closed():
                self._in_flight = None

    def answered(self, number: int, ok: bool, value: Any) -> None:
        """A question has been answered."""
        question = self.open.pop(number, None)
        if question is None:
            return
        ok, value = _outcome(ok, value)
        if ok:
            question.answer(value)
        else:
            question.refuse(value)

    def stash(self, message: object, sender: object, lane: int) -> None:
        """The guest has put a message aside."""
        self.cell.record._get_stash().add(message, sender, lane)

    def unstash(self) -> None:
        """The guest wants back what it has put aside."""
        self.cell.record._get_stash().unstash_all()

    # -- what the guest decides about itself

    def stop_actor(self) -> None:
        """The guest wants to stop, after the message in hand."""
        self.cell.loop.host.request_end(self.cell, NORMAL)

    def supervise(self, ok: bool, supervision: Any) -> None:
        """The guest has become a behavior that says what becomes of it when it fails."""
        record = self.cell.record
        ok, supervision = _outcome(ok, supervision)
        if not ok:
            self.cell.loop.host.request_failure(self.cell, supervision)
        elif isinstance(record, ActorRecord):
            record.ensure_extras().settings_of_behavior = Settings(supervision, record.settings().env)

    def awaits(self, number: int) -> None:
        """The guest's handler, or hook, waits for the answer to this question, and for nothing else."""
        question = self.asking.get(number)
        handoff = self._call if self._in_flight is None or self._in_flight.is_closed() else self._in_flight
        if question is not None and handoff is not None:
            question._is_waited_for_by(handoff)

    def gives_up(self, number: int) -> None:
        """The guest waits for the answer no longer."""
        question = self.asking.pop(number, None)
        if question is not None:
            self._withdraw(number, question, self.worker)

    def is_at_rest(self) -> bool:
        """Whether its worker is known to have nothing to do; if that is gone, nothing is done there."""
        return self.worker is None or self.worker.is_at_rest()

    def report_rest(self, tell: Callable[[], object]) -> None:
        """Have `tell` called when its worker may be known to have nothing to do."""
        if self.worker is not None:
            self.worker.report_rest(tell)

    # -- breaking off

    def hurry(self, number: int) -> None:
        """Have what was not begun sent back, from this number on."""
        if self.worker is not None:
            self.worker.tell(("hurry", self.number, number))

    def _cancel(self) -> None:
        if self.worker is not None:
            if self._cancelled_at is None:
                self._cancelled_at = monotonic()
            self.worker.tell(("cancel", self.number))

    def heard(self) -> None:
        """The guest has been told to break off what it does, where that awaits something."""
        self._cancelled_at = None

    def _abandon(self) -> None:
        """Nobody waits any more for what is under way. A worker that does not even hear that is of no use to others."""
        self._in_flight = self._call = None
        worker, self.worker = self.worker, None
        if worker is None:
            return
        is_stuck = self._cancelled_at is not None and monotonic() - self._cancelled_at > _PROMPT
        worker.see_off(self)
        self._is_seen_off(worker)
        if is_stuck:
            worker.kill(f"{self.cell.shown()} held it, and would not be interrupted")


def _outcome(ok: bool, value: Any) -> tuple[bool, Any]:
    """How something went in the worker: what cannot be read here has failed."""
    try:
        value = unpacked(value)
    except Exception as exc:
        return False, exc
    return ok, value if ok else value.restore()


def _restored(failure: Any) -> BaseException:
    error: BaseException = _outcome(False, failure)[1]
    return error


class _Nothing:
    """What a hook of an actor that is gone comes to."""

    def __await__(self) -> Generator[Any, None, None]:
        return
        yield
