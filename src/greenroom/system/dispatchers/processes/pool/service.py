"""Serves hosted actors in the main process: delivers their messages, and does what they request.

A hosted actor's context, refs and system are stubs. What they cannot do in the worker, they request from here by name.
Everything here is for the loop's own thread only.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any, NamedTuple

from greenroom.actor.api.context import Context
from greenroom.actor.messaging.address import Address
from greenroom.actor.messaging.asking import send_patiently, send_when_room
from greenroom.actor.messaging.question import Question
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
from greenroom.actor.records.record import ActorRecord
from greenroom.actor.records.systems import resolve
from greenroom.errors import ActorTerminated, BadArgument, MailboxFull, WaitsForItself
from greenroom.errors.base import in_words
from greenroom.lanes import Lane
from greenroom.runtimelog import RuntimeLog, print_error
from greenroom.system.dispatchers.processes.pool.ports import ExecutorPort, OwnerSystem, WorkerPort
from greenroom.system.dispatchers.processes.protocol import BLOCKS, WAITS_FOR_ROOM
from greenroom.system.dispatchers.processes.relay import Relay
from greenroom.wire.codec import unpacked
from greenroom.wire.failures import Failure

if TYPE_CHECKING:
    from greenroom._core.timing.timers import Timer
    from greenroom.system.dispatchers.processes.variables import PackedValues
    from greenroom.wire.address import ActorAddress

__all__ = ["Service"]

_log = RuntimeLog()

_MANY_TIMERS = 64
_handles = count(1)


class _Request(NamedTuple):
    """What a stub was called with: the name of a method or property, and the user's arguments."""

    name: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


class Service:
    """Serves the hosted actors of one worker."""

    def __init__(self, worker: WorkerPort, system: OwnerSystem) -> None:
        self._worker = worker
        self._system = system
        self._loop = system._loop
        # Questions of no actor's: of a thread, say.
        self._asking: dict[int, Question] = {}
        # Slow requests; asyncio itself keeps no reference to its tasks.
        self._tasks: set[asyncio.Task[None]] = set()

    def close(self) -> None:
        """The worker is gone."""
        for task in list(self._tasks):
            task.cancel()

    def do(self, word: str, rest: list[Any]) -> None:
        """Do what the worker asks for."""
        if word == "within":
            self._do_within(*rest)
        elif word == "tell":
            self._tell(*rest)
        elif word == "ask":
            self._ask(*rest)
        elif word == "request":
            self._request(*rest)
        elif word == "withdraw":
            self._withdraw(*rest)
        elif word == "letter":
            message, sender, recipient, why = rest
            self._loop.host.publish(_shown(message), _found(sender), _found(recipient), why)
        elif word == "late":
            target, value, asker = rest
            ref = _found(target)
            if ref is not None:
                ref._cell.loop.host.late_reply(ref._cell, _shown(value), _found(asker))
        elif word in ("slow", "stuck"):
            self._took_long(word, *rest)
        elif word == "log":
            self._log(unpacked(rest[0]))
        else:
            raise BadArgument(f"a worker says {word!r}, which means nothing here: is it of the same version?")

    def _do_within(self, packed: PackedValues, word: str, *rest: Any) -> None:
        """The same, with the context variables that are set where it is asked for."""
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
        try:
            if not how & WAITS_FOR_ROOM:
                cell.post(message, question, Lane(lane))
            elif cell.loop is self._loop:
                send_when_room(question, message, Lane(lane))
            else:
                send_patiently(cell.loop, cell, question, message, Lane(lane))
        except Exception as exc:
            question.refuse(exc)
        if timeout >= 0.0:
            question.arm()

    def _answered(self, number: int, executor: ExecutorPort | None, ok: bool, value: object) -> None:
        asking = self._asking if executor is None else executor.asking
        asking.pop(number, None)
        self._worker.answer(number, ok, value)

    def _withdraw(self, number: int) -> None:
        """Nobody waits for the answer to this question any more."""
        question = self._asking.pop(number, None)
        if question is not None:
            question.cancel()
            self._worker.answer(number, False, Failure.of(asyncio.CancelledError()))

    # -- requests

    def _request(self, number: int, actor: int, what: str, given: object) -> None:
        executor = self._worker.actors.get(actor)
        stub, _, name = what.partition(".")
        try:
            args, kwargs = unpacked(given)
            if stub == "ref" and name in _SLOW:
                if name.endswith("_sync"):
                    self._worker.blocks_for(number)
                self._begin(number, executor, _SLOW[name](self, executor, *args, **kwargs))
                return
            result = _BY_STUB[stub](self, executor, _Request(name, args, kwargs))
        except Exception as exc:
            self._worker.answer(number, False, Failure.of(exc))
        else:
            self._worker.answer(number, True, result)

    def _begin(self, number: int, executor: ExecutorPort | None, coroutine: Coroutine[Any, Any, object]) -> None:
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

    def _in_context(self, executor: ExecutorPort | None, request: _Request) -> object:
        """A method or property of the actor's context."""
        record = None if executor is None else executor.cell.record
        if executor is None or not isinstance(record, Context):
            raise ActorTerminated(self._system, "its worker process does not run it any more")
        name, args, kwargs = request
        if name in ("children", "trap_exit"):
            return getattr(record, name)
        if name == "set_trap_exit":
            record.trap_exit = args[0]
            return None
        if name in _OF_PIPES:
            _OF_PIPES[name](record, *args)
            return None
        result = getattr(record, name)(*args, **kwargs)
        return self._handle(executor, result) if name in ("send_after", "send_every") else result

    def _in_timers(self, executor: ExecutorPort | None, request: _Request) -> object:
        """A method or property of the actor's keyed timers, or of the handle of a timer."""
        if executor is None or not isinstance(executor.cell.record, Context):
            raise ActorTerminated(self._system, "its worker process does not run it any more")
        name, args, kwargs = request
        if name == "handle_cancel":
            timer = executor.timers.get(args[0])
            return timer is not None and timer.cancel()
        if name == "handle_active":
            timer = executor.timers.get(args[0])
            return timer is not None and timer.active
        timers = executor.cell.record.timers
        if name == "active":
            return timers.active
        result = getattr(timers, name)(*args, **kwargs)
        return self._handle(executor, result) if name == "start" else result

    def _handle(self, executor: ExecutorPort, timer: Timer) -> int:
        """The number by which the worker knows a timer."""
        if len(executor.timers) >= _MANY_TIMERS and len(executor.timers) & (len(executor.timers) - 1) == 0:
            executor.timers = {number: one for number, one in executor.timers.items() if one.active}
        number = next(_handles)
        executor.timers[number] = timer
        return number

    def _in_ref(self, executor: ExecutorPort | None, request: _Request) -> object:
        """A method or property of a ref, which is the first argument."""
        ref, *rest = request.args
        _require_ref(ref)
        value = getattr(ref, request.name)
        return value(*rest, **request.kwargs) if callable(value) else value

    def _in_system(self, executor: ExecutorPort | None, request: _Request) -> object:
        """A method or property of the system."""
        name, args, kwargs = request
        if name == "now":
            return self._loop.now()
        if name == "shutdown":
            self._system._request_end(*args)
            return None
        value = getattr(self._system, name)
        return value(*args, **kwargs) if callable(value) else value

    async def _send(
        self,
        executor: ExecutorPort | None,
        ref: ActorRef,
        message: object,
        sender: object,
        lane: int,
        timeout: float | None,
    ) -> None:
        cell = ref._cell
        is_here = cell.loop is self._loop
        if not is_here or not self._loop.admission.admit_if_room(cell, message, sender, Lane(lane)):
            await wait_for_room(cell, message, sender, Lane(lane), timeout)

    def _require_elsewhere(self, ref: ActorRef, executor: ExecutorPort | None) -> None:
        """Raise when an actor is about to block its worker's thread for one that needs the same thread."""
        record = ref._cell.record
        extras = record.extras if isinstance(record, ActorRecord) else None
        worker = None if extras is None else getattr(extras.executor, "worker", None)
        if worker is self._worker and not _is_own(executor, ref):
            why = f"{ref} is in the same worker process, and waits for the thread that this would block"
            raise WaitsForItself(f"{why}: make the handler `async def` and await it, or give it another dispatcher")

    async def _send_sync(
        self,
        executor: ExecutorPort | None,
        ref: ActorRef,
        message: object,
        sender: object,
        lane: int,
        timeout: float | None,
    ) -> None:
        if ref._cell.loop is self._loop and not self._loop.admission.has_room(ref._cell, Lane(lane)):
            if _is_own(executor, ref):
                raise own_mailbox_is_full(ref._cell)
            self._require_elsewhere(ref, executor)
        await self._send(executor, ref, message, sender, lane, timeout)

    async def _await_start_sync(self, executor: ExecutorPort | None, ref: ActorRef, timeout: float | None) -> None:
        require_startable(ref._cell, _is_own(executor, ref))
        if not has_started(ref._cell):
            self._require_elsewhere(ref, executor)
        await wait_for_start(ref._cell, timeout)

    async def _await_end_sync(self, executor: ExecutorPort | None, ref: ActorRef, timeout: float | None) -> object:
        require_other(ref._cell, "end", _is_own(executor, ref))
        self._require_elsewhere(ref, executor)
        return await wait_for_end(ref._cell, timeout)

    async def _inspect_sync(
        self, executor: ExecutorPort | None, ref: ActorRef, *items: str, timeout: float | None
    ) -> object:
        require_other(ref._cell, "inspect()", _is_own(executor, ref))
        self._require_elsewhere(ref, executor)
        return await wait_for_inspection(ref._cell, items, timeout)

    async def _await_start(self, executor: ExecutorPort | None, ref: ActorRef) -> None:
        require_startable(ref._cell, _is_own(executor, ref))
        await ref.started()

    async def _await_end(self, executor: ExecutorPort | None, ref: ActorRef) -> object:
        require_other(ref._cell, "end", _is_own(executor, ref))
        return await ref.terminated()

    async def _inspect(
        self, executor: ExecutorPort | None, ref: ActorRef, *items: str, timeout: float | None
    ) -> object:
        require_other(ref._cell, "inspect()", _is_own(executor, ref))
        return await ref.inspect(*items, timeout=timeout)

    # -- for observers, and logs

    def _took_long(self, word: str, address: ActorAddress | None, message: object, *details: object) -> None:
        """A handler was slow, or is stuck: observers want to know."""
        event = "slow_handler" if word == "slow" else "stuck_handler"
        if getattr(self._loop.hooks, event):
            self._loop.hooks.emit(event, _found(address), _shown(message), *details)

    def _log(self, fields: dict[str, object]) -> None:
        record = logging.makeLogRecord(fields)
        logger = logging.getLogger(record.name)
        try:
            if logger.isEnabledFor(record.levelno):
                logger.handle(record)
        except Exception:  # a filter or handler of the program; whoever logged is in another process
            print_error()


class _RemotePipe:
    """Stands here for what an actor in a worker pipes to itself. It is cancelled there."""

    __slots__ = ("number",)

    def __init__(self, number: int) -> None:
        self.number = number

    def cancel(self) -> None:
        """Nothing has to be done here."""


def _begin_pipe(record: Context, number: int) -> None:
    pipes: dict[Any, None] = record.ensure_extras().pipes
    pipes[_RemotePipe(number)] = None


def _end_pipe(record: Context, number: int) -> None:
    pipes: dict[Any, None] = record.ensure_extras().pipes
    for pipe in list(pipes):
        if isinstance(pipe, _RemotePipe) and pipe.number == number:
            del pipes[pipe]


_OF_PIPES: dict[str, Callable[..., None]] = {
    "begin_pipe": _begin_pipe,
    "take_piped": lambda record, message: record._take_piped(message),
    "end_pipe": _end_pipe,
}


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


def _is_own(executor: ExecutorPort | None, ref: ActorRef) -> bool:
    """Whether a hosted actor means itself."""
    return executor is not None and ref._cell is executor.cell and isinstance(ref._cell.record, ActorRecord)


_BY_STUB: dict[str, Callable[[Service, ExecutorPort | None, _Request], object]] = {
    "ctx": Service._in_context,
    "timers": Service._in_timers,
    "ref": Service._in_ref,
    "system": Service._in_system,
}
_SLOW: dict[str, Callable[..., Coroutine[Any, Any, object]]] = {
    "send": Service._send,
    "started": Service._await_start,
    "terminated": Service._await_end,
    "inspect": Service._inspect,
    "send_sync": Service._send_sync,
    "started_sync": Service._await_start_sync,
    "terminated_sync": Service._await_end_sync,
    "inspect_sync": Service._inspect_sync,
}
