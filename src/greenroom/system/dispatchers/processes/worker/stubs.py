"""Stubs that hosted actors use: their context, refs to other actors, and the system.

They are made from the column `remote` of `actor.offload.operations`, and call the main process.
"""

from __future__ import annotations

import inspect
from _thread import get_ident
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import wraps
from typing import TYPE_CHECKING, Any

from greenroom._core.itemkinds import MESSAGE
from greenroom.actor.api.context import ContextRecord
from greenroom.actor.messaging.question import Asked, seconds_of
from greenroom.actor.messaging.ref import ActorRef
from greenroom.actor.messaging.stash import Stash, require_number_of_messages
from greenroom.actor.messaging.timers import KeyedTimers
from greenroom.actor.messaging.waiting import require_may_block
from greenroom.actor.offload.operations import OPERATIONS, Operation, Refused, Way, carries_out
from greenroom.errors import NoMessage, StashFull
from greenroom.lanes import Lane, as_lane
from greenroom.system.dispatchers.processes.protocol import BLOCKS, STASHED, WAITS_FOR_ROOM, RemotePipe, TimerHandle
from greenroom.system.dispatchers.processes.worker.channel import PATIENCE
from greenroom.validation import require_delay

if TYPE_CHECKING:
    from greenroom._core.mailbox.cell import Cell
    from greenroom.system.dispatchers.processes.worker.channel import MainChannel
    from greenroom.system.dispatchers.processes.worker.host import HostedActor, WorkerHost

Caller = tuple["MainChannel", int, tuple[object, ...]]
"""By what a stub calls home, for which actor, and its own arguments, which come before those that it is given."""

_INSTEAD = {
    "send_sync": "ref.send(...)",
    "started_sync": "ref.started()",
    "terminated_sync": "ref.terminated()",
    "inspect_sync": "ref.inspect(...)",
}


def _stub(row: Operation, function: Callable[..., Any]) -> Callable[..., Any] | None:
    if row.remote in (Way.HERE, Way.MAIL):
        return None
    made = _refusing(row, row.remote) if isinstance(row.remote, Refused) else _MAKERS[row.remote](row, function)
    return wraps(function)(made)


def _refusing(row: Operation, refused: Refused) -> Callable[..., Any]:
    def refuse(self: RemoteContext, /, *args: object, **kwargs: object) -> object:
        raise refused.error(self.self, f"{row.name}()", refused.why)

    return refuse


def _packed(stub: Any, args: tuple[object, ...], kwargs: dict[str, object]) -> tuple[MainChannel, int, object]:
    """By what a stub calls home, for which actor, and the arguments in the form in which they are sent."""
    channel, actor, own = stub._caller()
    return channel, actor, channel.pack(((*own, *args), kwargs))


def _calling(row: Operation, function: object = None) -> Callable[..., Any]:
    def call(self: Any, /, *args: object, **kwargs: object) -> Any:
        channel, actor, given = _packed(self, args, kwargs)
        result = channel.request(actor, row.key, given)
        return RemoteTimer(self.cell, result.number) if type(result) is TimerHandle else result

    return call


def _posting(row: Operation, function: object = None) -> Callable[..., Any]:
    def post(self: Any, /, *args: object, **kwargs: object) -> None:
        channel, actor, given = _packed(self, args, kwargs)
        channel.ask(lambda outcome: None, "request", actor, row.key, given)

    return post


def _awaiting(row: Operation, function: object = None) -> Callable[..., Any]:
    async def wait(self: Any, /, *args: object, **kwargs: object) -> Any:
        channel, actor, given = _packed(self, args, kwargs)
        return await channel.begin(actor, row.key, given)

    return wait


def _blocking(row: Operation, function: Callable[..., Any]) -> Callable[..., Any]:
    signature = inspect.signature(function)

    def block(self: RemoteRef, /, *args: object, **kwargs: object) -> Any:
        given = signature.bind(self, *args, **kwargs)
        given.apply_defaults()
        timeout = given.arguments["timeout"]
        if timeout is not None:
            require_delay("timeout", timeout)
        host: WorkerHost = self._cell.loop.host
        if not host.may_block():
            require_may_block(host.loop, f"{row.name}()", _INSTEAD[row.name])
        channel, actor, packed = _packed(self, args, kwargs)
        return channel.request(actor, row.key, packed, _patience(timeout))

    return block


_MAKERS = {Way.CALL: _calling, Way.POST: _posting, Way.AWAIT: _awaiting, Way.BLOCK: _blocking}


def _patience(timeout: float | None) -> float | None:
    """Seconds to wait for the main process: it keeps the time, and has to tell us of it."""
    return None if timeout is None else timeout + PATIENCE


def _caller_for(cell: Cell) -> Caller:
    actor: HostedActor = cell.record.ensure_extras().executor
    host: WorkerHost = cell.loop.host
    return host.channel, actor.number, ()


@carries_out("ref", _stub)
class RemoteRef(ActorRef):
    """A ref to an actor in another process."""

    __slots__ = ()

    def _caller(self) -> Caller:
        host: WorkerHost = self._cell.loop.host
        return host.channel, host.current_number(), (self,)

    def ask_sync(
        self,
        message: object,
        *,
        timeout: float | None = 5.0,
        lane: Lane = Lane.DATA,
        wait_for_room: bool = False,
    ) -> Any:
        host: WorkerHost = self._cell.loop.host
        if not host.may_block():
            return super().ask_sync(message, timeout=timeout, lane=lane, wait_for_room=wait_for_room)
        loop, question = host.loop, Asked.__new__(Asked)
        question.set_up(loop, self._cell, loop.visits.hand, seconds_of(timeout))
        how = BLOCKS | (WAITS_FOR_ROOM if wait_for_room else 0)
        host.forward(self._cell, message, question, int(as_lane(lane)), how)
        host.awaits(question)
        host.channel.wait(question.done, "ask_sync()", _patience(timeout))
        return _result_of(question)


def _result_of(question: Asked) -> Any:
    try:
        next(question.__await__())
    except StopIteration as stop:
        return stop.value


class RemoteSystem:
    """The system, as far as it can be used from another process."""

    def __init__(self, name: str, host: WorkerHost) -> None:
        self.name = name
        self._host = host

    def __repr__(self) -> str:
        return f"<ActorSystem {self.name}, in another process>"

    def __getattr__(self, name: str) -> Any:
        row = OPERATIONS.get(f"system.{name}")
        if row is None or name.startswith("_"):
            known = ", ".join(("name", "phase", "shutdown", *sorted(_METHODS)))
            raise AttributeError(f"{name} of a system cannot be used from another process; there are: {known}")
        if name not in _VALUES:
            return lambda *args, **kwargs: self._request(row, *args, **kwargs)
        return self._request(row)

    async def shutdown(self, timeout: float = 30.0, *, drain: bool | None = None) -> None:
        """Request the shutdown, and return at once, because it waits for the handler that requests it."""
        self._request(OPERATIONS["system._request_end"], timeout, drain)

    def _request(self, row: Operation, *args: object, **kwargs: object) -> Any:
        if isinstance(row.remote, Refused):
            raise row.remote.error(row.remote.why)
        channel = self._host.channel
        return channel.request(self._host.current_number(), row.key, channel.pack((args, kwargs)))


_VALUES = ("phase", "token")
_METHODS = {
    row.name
    for row in OPERATIONS.values()
    if row.of == "system" and row.remote is Way.CALL and row.name not in _VALUES and not row.name.startswith("_")
}


class RemoteTimer:
    __slots__ = ("_number", "cell")

    def __init__(self, cell: Cell, number: int) -> None:
        self.cell = cell
        self._number = number

    def _caller(self) -> Caller:
        channel, actor, _ = _caller_for(self.cell)
        return channel, actor, (self._number,)

    cancel = _calling(OPERATIONS["timer.cancel"])
    active = property(_calling(OPERATIONS["timer.active"]))


@carries_out("timers", _stub)
class RemoteTimers(KeyedTimers):
    """Keyed timers in the main process."""

    __slots__ = ()

    def _caller(self) -> Caller:
        return _caller_for(self.cell)


class RemoteStash(Stash):
    """The stash of a hosted actor. The main process keeps the messages; here they are only counted."""

    __slots__ = ("_actor",)

    def __init__(self, actor: HostedActor) -> None:
        super().__init__(actor.cell)
        self._actor = actor

    def __len__(self) -> int:
        return self._actor.stashed

    @property
    def full(self) -> bool:
        return self._actor.stashed >= self.capacity

    def put(self, what: str = "put()") -> None:
        cell = self._actor.cell
        hand = cell.record._hand()
        if hand is None or hand.kind != MESSAGE:
            raise NoMessage(cell.shown(), what)
        if self.full:
            raise StashFull(cell.ref, self.capacity)
        self._actor.set_aside(STASHED)
        hand.stash()

    def unstash_all(self) -> int:
        return self._actor.unstash(self._actor.stashed)

    def unstash(self, n: int = 1) -> int:
        return self._actor.unstash(require_number_of_messages(n))


@contextmanager
def _blocked(host: WorkerHost) -> Iterator[None]:
    host.block()
    try:
        yield
    finally:
        host.unblock()


@carries_out("ctx", _stub)
class RemoteContext(ContextRecord):
    """The context of a hosted actor."""

    __slots__ = ()

    def _caller(self) -> Caller:
        return _caller_for(self.cell)

    def blocking(self) -> AbstractContextManager[None]:
        host: WorkerHost = self.cell.loop.host
        # A thread that the handler has started may block: no other actor waits for it.
        return _blocked(host) if host.is_manual and get_ident() == self.cell.runq.thread else nullcontext()

    def now(self) -> float:
        host: WorkerHost = self.cell.loop.host
        return _main_now(self) if host.is_manual else super().now()

    def _new_timers(self) -> KeyedTimers:
        return RemoteTimers(self.cell)

    def _new_stash(self) -> Stash:
        return RemoteStash(self.ensure_extras().executor)

    def _begin_pipe(self, pipe: Any) -> None:
        super()._begin_pipe(pipe)
        _begin_in_main(self, RemotePipe(id(pipe)))  # a system that drains waits for it

    def _end_pipe(self, pipe: Any) -> None:
        super()._end_pipe(pipe)
        _end_in_main(self, RemotePipe(id(pipe)))


_main_now = _calling(OPERATIONS["ctx.now"])
_begin_in_main = _calling(OPERATIONS["ctx._begin_pipe"])
_end_in_main = _posting(OPERATIONS["ctx._end_pipe"])
