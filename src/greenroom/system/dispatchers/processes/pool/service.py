"""Serves hosted actors in the main process: delivers their messages, and does what they request.

A hosted actor's context, refs and system are stubs. What they cannot do in the worker, they request from here by the
key of its row in `actor.offload.operations`.
Everything here is for the loop's own thread only.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any

from greenroom._core.timing.timers import Timer
from greenroom.actor.api.context import Context
from greenroom.actor.messaging.address import Address
from greenroom.actor.messaging.question import Question, send_question
from greenroom.actor.messaging.ref import ActorRef
from greenroom.actor.messaging.waiting import (
    has_started,
    own_mailbox_is_full,
    require_other,
    require_startable,
    wait_for_end,
    wait_for_inspection,
    wait_for_room,
    wait_for_start,
)
from greenroom.actor.offload.operations import OPERATIONS, Operation, Way
from greenroom.actor.records.record import ActorRecord
from greenroom.actor.records.systems import resolve
from greenroom.errors import ActorTerminated, BadArgument, MailboxFull, WaitsForItself
from greenroom.errortext import in_words
from greenroom.lanes import Lane, as_lane
from greenroom.runtimelog import RuntimeLog, print_error
from greenroom.system.dispatchers.processes.protocol import BLOCKS, WAITS_FOR_ROOM, Relay, TimerHandle
from greenroom.wire.codec import unpacked
from greenroom.wire.failures import Failure

if TYPE_CHECKING:
    from greenroom.system.dispatchers.processes.pool.executor import ProcessExecutor
    from greenroom.system.dispatchers.processes.pool.worker import Worker
    from greenroom.system.dispatchers.processes.variables import PackedValues
    from greenroom.system.loops.thread import SystemLoop
    from greenroom.wire.address import ActorAddress

__all__ = ["Service"]

_log = RuntimeLog()

_MANY_TIMERS = 64
_handles = count(1)


class Service:
    """Serves the hosted actors of one worker."""

    def __init__(self, worker: Worker, owner: SystemLoop) -> None:
        self._worker = worker
        self._system = owner.system
        self._loop = owner.loop
        # Questions of no actor's: of a thread, say.
        self._asking: dict[int, Question] = {}
        # Slow requests; asyncio itself keeps no reference to its tasks.
        self._tasks: set[asyncio.Task[None]] = set()

    def close(self) -> None:
        for task in list(self._tasks):
            task.cancel()

    def do(self, word: str, rest: list[Any]) -> None:
        if word not in _WORDS:
            raise BadArgument(f"a worker says {word!r}, which means nothing here: is it of the same version?")
        _WORDS[word](self, *rest)

    def _do_within(self, packed: PackedValues, word: str, *rest: Any) -> None:
        """Do it with the context variables that were set where the worker asked for it."""
        packer, propagation = self._worker.packer, self._loop.admission.propagation
        if packer is not None and propagation is not None:
            propagation.context_of(packer.unpack(packed)).run(self.do, word, list(rest))

    # -- messages

    def _tell(self, address: ActorAddress, packed: object, whose: ActorAddress | None, lane: int) -> None:
        sender = _found(whose)
        try:
            target, message = resolve(*address), unpacked(packed)
        except Exception as exc:
            told = "a message of %s to %s is lost, for it cannot be read: %s"
            _log.error(told, sender, address.path, in_words(exc))
            self._loop.host.publish(packed, sender, _found(address), f"it cannot be read: {in_words(exc)}")
            return
        cell = target._cell
        if cell.loop is self._loop:
            self._loop.admission.deliver(cell, message, sender, Lane(lane))
            return
        try:
            cell.post(message, sender, Lane(lane))
        except MailboxFull:  # already counted by the receiving side; the sender cannot be told
            self._loop.host.publish(message, sender, target, "mailbox full")
        except Exception as exc:  # the other system has limits of its own, and its workers too
            self._loop.host.publish(message, sender, target, f"it cannot be sent: {in_words(exc)}")

    def _ask(
        self,
        number: int,
        actor: int,
        address: ActorAddress,
        packed: object,
        whose: ActorAddress | None,
        lane: int,
        timeout: float,
        how: int,
    ) -> None:
        executor = self._worker.actors.get(actor)
        if actor and executor is None:
            return  # the actor has ended in the meantime
        try:
            target, message = resolve(*address), unpacked(packed)
            if how & BLOCKS:
                self._require_elsewhere(target, executor)
                self._worker.blocks_for(number)
        except Exception as exc:
            self._worker.answer(number, False, Failure.of(exc))
            return
        sender = _found(whose)
        cell = target._cell
        asker = sender._cell if isinstance(sender, Address) and sender._cell.loop is self._loop else None
        question = Question.__new__(Question)
        question.set_up(self._loop, cell, asker, timeout)
        question.tell_future(Relay(partial(self._answered, number, executor)), None)
        asking = self._asking if executor is None else executor.asking
        asking[number] = question
        send_question(question, message, Lane(lane), bool(how & WAITS_FOR_ROOM))
        if timeout >= 0.0:
            question.arm()

    def _answered(self, number: int, executor: ProcessExecutor | None, ok: bool, value: object) -> None:
        asking = self._asking if executor is None else executor.asking
        asking.pop(number, None)
        self._worker.answer(number, ok, value)

    def _withdraw(self, number: int) -> None:
        """The asker waits for the answer no longer."""
        question = self._asking.pop(number, None)
        if question is not None:
            question.cancel()
            self._worker.answer(number, False, Failure.of(asyncio.CancelledError()))

    # -- requests

    def _request(self, number: int, actor: int, key: str, given: object) -> None:
        executor = self._worker.actors.get(actor)
        try:
            args, kwargs = unpacked(given)
            row = OPERATIONS[key]
            if row.remote is Way.AWAIT or row.remote is Way.BLOCK:
                blocks = row.remote is Way.BLOCK
                if blocks:
                    self._worker.blocks_for(number)
                self._begin(
                    number, executor, _SLOW[row.name.removesuffix("_sync")](self, executor, blocks, *args, **kwargs)
                )
                return
            subject, args = self._subject(row, executor, args)
            result = row.apply(subject, args, kwargs)
            if executor is not None and isinstance(result, Timer):
                result = self._handle(executor, result)
        except Exception as exc:
            self._worker.answer(number, False, Failure.of(exc))
        else:
            self._worker.answer(number, True, result)

    def _subject(
        self, row: Operation, executor: ProcessExecutor | None, args: tuple[Any, ...]
    ) -> tuple[object, tuple[Any, ...]]:
        """What an operation is carried out on, and its arguments."""
        if row.of == "system":
            return self._system, args
        if row.of == "ref":
            _require_ref(args[0])
            return args[0], args[1:]
        record = None if executor is None else executor.cell.record
        if executor is None or not isinstance(record, Context):
            raise ActorTerminated(self._system, "its worker process does not run it any more")
        if row.of == "timer":
            return executor.timers.get(args[0], _ENDED), args[1:]
        return record.timers if row.of == "timers" else record, args

    def _begin(self, number: int, executor: ProcessExecutor | None, coroutine: Coroutine[Any, Any, object]) -> None:
        async def run() -> None:
            try:
                result = await coroutine
            except (Exception, asyncio.CancelledError) as exc:
                self._worker.answer(number, False, Failure.of(exc))
            else:
                self._worker.answer(number, True, result)

        task = asyncio.get_running_loop().create_task(run())
        for tasks in (self._tasks, set() if executor is None else executor.tasks):
            tasks.add(task)
            task.add_done_callback(tasks.discard)

    def _handle(self, executor: ProcessExecutor, timer: Timer) -> TimerHandle:
        if len(executor.timers) >= _MANY_TIMERS and len(executor.timers) & (len(executor.timers) - 1) == 0:
            executor.timers = {number: one for number, one in executor.timers.items() if one.active}
        number = next(_handles)
        executor.timers[number] = timer
        return TimerHandle(number)

    def _require_elsewhere(self, ref: ActorRef, executor: ProcessExecutor | None) -> None:
        """Raise when an actor is about to block its worker's thread for one that needs the same thread."""
        record = ref._cell.record
        extras = record.extras if isinstance(record, ActorRecord) else None
        worker = None if extras is None else getattr(extras.executor, "worker", None)
        if worker is self._worker and not _is_own(executor, ref):
            why = f"{ref} is in the same worker process, and waits for the thread that this would block"
            raise WaitsForItself(f"{why}: make the handler `async def` and await it, or give it another dispatcher")

    async def _send(
        self,
        executor: ProcessExecutor | None,
        blocks: bool,
        ref: ActorRef,
        message: object,
        *,
        lane: Lane = Lane.DATA,
        timeout: float | None = None,
    ) -> None:
        cell, sender, lane = ref._cell, None if executor is None else executor.cell.shown(), as_lane(lane)
        if cell.loop is self._loop:
            admission = self._loop.admission
            if blocks and not admission.has_room(cell, lane):
                if _is_own(executor, ref):
                    raise own_mailbox_is_full(cell)
                self._require_elsewhere(ref, executor)
            if admission.send_if_room(cell, message, sender, lane):
                return
        await wait_for_room(cell, message, sender, lane, timeout)

    async def _started(
        self, executor: ProcessExecutor | None, blocks: bool, ref: ActorRef, timeout: float | None = None
    ) -> None:
        require_startable(ref._cell, _is_own(executor, ref))
        if blocks and not has_started(ref._cell):
            self._require_elsewhere(ref, executor)
        await wait_for_start(ref._cell, timeout)

    async def _terminated(
        self, executor: ProcessExecutor | None, blocks: bool, ref: ActorRef, timeout: float | None = None
    ) -> object:
        require_other(ref._cell, "end", _is_own(executor, ref))
        if blocks:
            self._require_elsewhere(ref, executor)
        return await wait_for_end(ref._cell, timeout)

    async def _inspect(
        self,
        executor: ProcessExecutor | None,
        blocks: bool,
        ref: ActorRef,
        *items: str,
        timeout: float | None = 5.0,
    ) -> object:
        require_other(ref._cell, "inspect()", _is_own(executor, ref))
        if blocks:
            self._require_elsewhere(ref, executor)
        return await wait_for_inspection(ref._cell, items, timeout)

    # -- for observers, dead letters and logs

    def _was_slow(self, *handler: Any) -> None:
        self._took_long("slow_handler", *handler)

    def _is_stuck(self, *handler: Any) -> None:
        self._took_long("stuck_handler", *handler)

    def _took_long(self, event: str, address: ActorAddress | None, message: object, *details: object) -> None:
        if getattr(self._loop.hooks, event):
            self._loop.hooks.emit(event, _found(address), _shown(message), *details)

    def _publish(self, message: object, sender: ActorAddress | None, recipient: ActorAddress | None, why: str) -> None:
        self._loop.host.publish(_shown(message), _found(sender), _found(recipient), why)

    def _late_reply(self, target: ActorAddress | None, value: object, asker: ActorAddress | None) -> None:
        ref = _found(target)
        if ref is not None:
            ref._cell.loop.host.late_reply(ref._cell, _shown(value), _found(asker))

    def _log(self, packed: object) -> None:
        record = logging.makeLogRecord(unpacked(packed))
        logger = logging.getLogger(record.name)
        try:
            if logger.isEnabledFor(record.levelno):
                logger.handle(record)
        except Exception:  # a filter or handler of the program; whoever logged is in another process
            print_error()


class _EndedTimer:
    """Stands for a timer that is over, and forgotten."""

    active = False

    def cancel(self) -> bool:
        return False


_ENDED = _EndedTimer()


def _found(address: ActorAddress | None) -> ActorRef | None:
    """The ref with an address; None if there is none."""
    if address is not None:
        with suppress(Exception):
            ref: ActorRef = resolve(*address)
            return ref
    return None


def _shown(packed: object) -> object:
    """The message of a dead letter; in its packed form if it cannot be decoded."""
    with suppress(Exception):
        return unpacked(packed)
    return packed


def _require_ref(ref: object) -> None:
    if not isinstance(ref, ActorRef):
        raise BadArgument(f"{ref!r} is no ref")


def _is_own(executor: ProcessExecutor | None, ref: ActorRef) -> bool:
    """Whether a hosted actor means itself."""
    return executor is not None and ref._cell is executor.cell and isinstance(ref._cell.record, ActorRecord)


_SLOW: dict[str, Callable[..., Coroutine[Any, Any, object]]] = {
    "send": Service._send,
    "started": Service._started,
    "terminated": Service._terminated,
    "inspect": Service._inspect,
}
_WORDS: dict[str, Callable[..., None]] = {
    "within": Service._do_within,
    "tell": Service._tell,
    "ask": Service._ask,
    "withdraw": Service._withdraw,
    "request": Service._request,
    "letter": Service._publish,
    "late": Service._late_reply,
    "slow": Service._was_slow,
    "stuck": Service._is_stuck,
    "log": Service._log,
}
