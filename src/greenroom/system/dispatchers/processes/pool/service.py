"""What guests ask of their home: messages to others, and everything that is kept for them there.

A guest's context, its refs and its system are stand-ins; what they cannot do where they are is asked for here, by
name. Everything happens on the loop's own thread.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any

from greenroom.actor.api.context import Context
from greenroom.actor.messaging.address import Address
from greenroom.actor.messaging.question import Question
from greenroom.actor.messaging.ref import ActorRef, wait_for_room
from greenroom.actor.records.record import ActorRecord
from greenroom.actor.records.systems import resolve
from greenroom.errors import ActorTerminated, BadArgument, MailboxFull, WaitsForItself, in_words
from greenroom.lanes import Lane
from greenroom.system.dispatchers.processes.pool.ports import ExecutorPort, WorkerPort
from greenroom.system.dispatchers.processes.relay import Relay
from greenroom.wire.codec import unpacked
from greenroom.wire.failures import Failure

if TYPE_CHECKING:
    from greenroom._core.timing.timers import Timer

__all__ = ["Service"]

_log = logging.getLogger("greenroom")

_MANY_TIMERS = 64
_handles = count(1)


class Service:
    """Serves the guests of one worker."""

    def __init__(self, worker: WorkerPort, system: Any) -> None:
        self._worker = worker
        self._system = system
        self._loop = system._loop
        # What takes a while, so that asyncio does not lose it.
        self._tasks: set[asyncio.Task[None]] = set()

    def close(self) -> None:
        """Nobody is there to be served."""
        for task in list(self._tasks):
            task.cancel()

    def do(self, word: str, rest: list[Any]) -> None:
        """Do what the worker says."""
        if word == "tell":
            self._tell(*rest)
        elif word == "ask":
            self._ask(*rest)
        elif word == "request":
            self._request(*rest)
        elif word == "letter":
            message, sender, recipient, why = rest
            self._loop.host.publish(_shown(message), _found(sender), _found(recipient), why)
        elif word == "late":
            target, value, asker = rest
            ref = _found(target)
            if ref is not None:
                ref._cell.loop.host.late_reply(ref._cell, _shown(value), _found(asker))
        elif word == "log":
            self._log(unpacked(rest[0]))
        else:
            raise BadArgument(f"a worker says {word!r}, which means nothing here: is it of the same version?")

    # -- messages

    def _tell(self, address: Any, packed: Any, whose: Any, lane: int) -> None:
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
        except MailboxFull:  # which its own admission has counted; there is nobody who could be told
            self._loop.host.publish(message, sender, target, "mailbox full")

    def _ask(self, number: int, actor: int, address: Any, packed: Any, whose: Any, lane: int, timeout: float) -> None:
        executor = self._worker.actors.get(actor)
        if actor and executor is None:
            return  # it has ended since, and nobody wants to know
        try:
            target, message = resolve(*address), unpacked(packed)
        except Exception as exc:
            self._worker.answer(number, False, Failure.of(exc))
            return
        sender = _found(whose)
        cell = target._cell
        asker = sender._cell if isinstance(sender, Address) and sender._cell.loop is self._loop else None
        question = Question.__new__(Question)
        question.set_up(self._loop, cell, asker, timeout)
        question.tell_future(Relay(partial(self._answered, number, executor)), None)
        if executor is not None:
            executor.asking[number] = question
        try:
            cell.post(message, question, Lane(lane))
        except Exception as exc:
            question.refuse(exc)
        if timeout >= 0.0:
            question.arm()

    def _answered(self, number: int, executor: ExecutorPort | None, ok: bool, value: Any) -> None:
        if executor is not None:
            executor.asking.pop(number, None)
        self._worker.answer(number, ok, value)

    # -- requests

    def _request(self, number: int, actor: int, what: str, given: Any) -> None:
        executor = self._worker.actors.get(actor)
        child_list, _, name = what.partition(".")
        try:
            args, kwargs = unpacked(given)
            if child_list == "ref" and name in _SLOW:
                self._begin(number, executor, _SLOW[name](self, executor, *args, **kwargs))
                return
            result = _FAMILIES[child_list](self, executor, name, args, kwargs)
        except Exception as exc:
            self._worker.answer(number, False, Failure.of(exc))
        else:
            self._worker.answer(number, True, result)

    def _begin(self, number: int, executor: ExecutorPort | None, coroutine: Any) -> None:
        async def see_through() -> None:
            try:
                result = await coroutine
            except (Exception, asyncio.CancelledError) as exc:
                self._worker.answer(number, False, Failure.of(exc))
            else:
                self._worker.answer(number, True, result)

        task = asyncio.get_running_loop().create_task(see_through())
        for supervisor in (self._tasks, set() if executor is None else executor.tasks):
            supervisor.add(task)
            task.add_done_callback(supervisor.discard)

    def _ctx(self, executor: ExecutorPort | None, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Something that the context of an actor does."""
        record = None if executor is None else executor.cell.record
        if executor is None or not isinstance(record, Context):
            raise ActorTerminated(self._system, "it is not a guest of its process any more")
        if name in ("children", "trap_exit"):
            return getattr(record, name)
        if name == "set_trap_exit":
            record.trap_exit = args[0]
            return None
        result = getattr(record, name)(*args, **kwargs)
        return self._handle(executor, result) if name in ("send_after", "send_every") else result

    def _timers(self, executor: ExecutorPort | None, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Something that its keyed timers do."""
        if executor is None or not isinstance(executor.cell.record, Context):
            raise ActorTerminated(self._system, "it is not a guest of its process any more")
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
        """What stands for a timer where the guest is."""
        if len(executor.timers) >= _MANY_TIMERS and len(executor.timers) & (len(executor.timers) - 1) == 0:
            executor.timers = {number: one for number, one in executor.timers.items() if one.active}
        number = next(_handles)
        executor.timers[number] = timer
        return number

    def _ref(self, executor: ExecutorPort | None, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Something that a ref knows, or does."""
        ref, *rest = args
        _require_ref(ref)
        value = getattr(ref, name)
        return value(*rest, **kwargs) if callable(value) else value

    def _in_system(
        self, executor: ExecutorPort | None, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Something that the system does."""
        if name == "now":
            return self._loop.now()
        if name == "shutdown":
            self._system._request_shutdown(*args, None)
            return None
        value = getattr(self._system, name)
        return value(*args, **kwargs) if callable(value) else value

    async def _send(
        self, executor: ExecutorPort | None, ref: Any, message: object, sender: Any, lane: int, timeout: float | None
    ) -> None:
        cell = ref._cell
        if cell.loop is self._loop and self._loop.admission.has_room(cell, Lane(lane)):
            cell.post(message, sender, Lane(lane))
        else:
            await wait_for_room(cell, message, sender, Lane(lane), timeout)

    async def _await_start(self, executor: ExecutorPort | None, ref: Any) -> None:
        _require_other(executor, ref, "start")
        await ref.started()

    async def _await_end(self, executor: ExecutorPort | None, ref: Any) -> Any:
        _require_other(executor, ref, "end")
        return await ref.terminated()

    async def _inspect(self, executor: ExecutorPort | None, ref: Any, *items: str) -> Any:
        _require_other(executor, ref, "inspect()")
        return await ref.inspect(*items)

    # -- logs

    def _log(self, fields: dict[str, Any]) -> None:
        record = logging.makeLogRecord(fields)
        logger = logging.getLogger(record.name)
        if logger.isEnabledFor(record.levelno):
            logger.handle(record)


def _found(address: Any) -> Any:
    """The ref at an address; nobody, if there is none."""
    with suppress(Exception):
        return None if address is None else resolve(*address)


def _shown(packed: Any) -> Any:
    """A message that nobody will handle, or what is there of it."""
    with suppress(Exception):
        return unpacked(packed)
    return packed


def _require_ref(ref: object) -> None:
    if not isinstance(ref, ActorRef):
        raise BadArgument(f"{ref!r} is no ref")


def _require_other(executor: ExecutorPort | None, ref: Any, what: str) -> None:
    if executor is not None and ref._cell is executor.cell and isinstance(ref._cell.record, ActorRecord):
        raise WaitsForItself(f"{ref} awaits its own {what}, which cannot come before its handler has ended")


_FAMILIES: dict[str, Callable[..., Any]] = {
    "ctx": Service._ctx,
    "timers": Service._timers,
    "ref": Service._ref,
    "system": Service._in_system,
}
_SLOW: dict[str, Callable[..., Any]] = {
    "send": Service._send,
    "started": Service._await_start,
    "terminated": Service._await_end,
    "inspect": Service._inspect,
}
