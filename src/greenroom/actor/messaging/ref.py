"""`ActorRef`: the stable address of an actor."""

from __future__ import annotations

import asyncio
from _thread import get_ident
from collections.abc import Mapping
from types import GenericAlias
from typing import TYPE_CHECKING, Any, Generic, overload

from greenroom._core.current import current_handoffs
from greenroom._core.delivery.admission import Waiter
from greenroom._core.mailbox.cell import Cell
from greenroom.actor.messaging.address import Address, lend_methods
from greenroom.actor.messaging.question import Question, current_handoff, require_timeout
from greenroom.actor.messaging.waiting import WaitTimeout, inspect_actor, on_loop, wait_for_end, wait_for_start
from greenroom.actor.records.record import ActorRecord
from greenroom.actor.records.states import STATES, State
from greenroom.actor.records.systems import resolve
from greenroom.errors import BadArgument, SendTimeout
from greenroom.exits import KILLED, NORMAL, ExitReason
from greenroom.lanes import Lane, as_lane

if TYPE_CHECKING:
    from collections.abc import Generator
    from typing import Self

    from typing_extensions import TypeVar

    T = TypeVar("T")
    T_co = TypeVar("T_co", covariant=True)
    M = TypeVar("M", contravariant=True, default=Any)
    R = TypeVar("R", covariant=True, default=Any)

    class Asked(Generic[T_co]):
        """What `ask` returns: an awaitable of the reply."""

        def __await__(self) -> Generator[Any, None, T_co]: ...
        def cancel(self, msg: object = None) -> bool:
            """Wait no longer; a reply that still comes is a dead letter."""
            ...

        def done(self) -> bool:
            """Whether it has ended, in whichever way."""
            ...

else:
    from typing import TypeVar

    T = TypeVar("T")
    M = TypeVar("M")
    R = TypeVar("R")
    Asked = Question

__all__ = ["ActorRef", "Asked", "Request", "wait_for_room"]

_DATA = Lane.DATA
TERMINATED = State.TERMINATED


class Request(Generic[T]):
    """The base of a message class that declares its reply: `class Get(Request[int])` makes `ask(Get())` an `int`."""

    __slots__ = ()


class ActorRef(Address, Generic[M, R]):
    """The stable address of an actor: send to it, ask it, stop it. It stays valid across restarts, and after the end.

    Refs of the same actor are equal. They can be dict keys, and they can be sent in messages.
    """

    __slots__ = ()

    if TYPE_CHECKING:

        def tell(  # type: ignore[override]
            self, message: M, *, lane: Lane = _DATA, sender: ActorRef | None = None
        ) -> None:
            """Send a message. Never blocks; from any thread."""

        def __lshift__(self, message: M) -> Self: ...  # type: ignore[override]

        @overload  # type: ignore[override]
        def ask(self, message: Request[T], *, timeout: float | None = 5.0, lane: Lane = _DATA) -> Asked[T]: ...
        # Without this one, mypy would take an ask of the wrong type for one of any.
        @overload
        def ask(self, message: Request[Any], *, timeout: float | None = 5.0, lane: Lane = _DATA) -> Asked[object]: ...
        @overload
        def ask(self, message: M, *, timeout: float | None = 5.0, lane: Lane = _DATA) -> Asked[R]: ...
        def ask(  # pyright: ignore[reportIncompatibleMethodOverride]
            self, message: Any, *, timeout: float | None = 5.0, lane: Lane = _DATA
        ) -> Asked[Any]:
            """Send a message now, and return an awaitable of its reply."""
            ...

        @overload  # type: ignore[override]
        def ask_sync(self, message: Request[T], *, timeout: float | None = 5.0, lane: Lane = _DATA) -> T: ...
        @overload
        def ask_sync(self, message: Request[Any], *, timeout: float | None = 5.0, lane: Lane = _DATA) -> object: ...
        @overload
        def ask_sync(self, message: M, *, timeout: float | None = 5.0, lane: Lane = _DATA) -> R: ...
        def ask_sync(self, message: Any, *, timeout: float | None = 5.0, lane: Lane = _DATA) -> Any:
            """Send a message and block until its reply comes: for plain threads, refused on a loop's own."""
            ...

    else:
        # Where `ActorRef[str]` is enough: TypeVars have no defaults at run time yet.
        __class_getitem__ = classmethod(GenericAlias)

    # -- who it is

    @property
    def name(self) -> str:
        """The name given to `spawn`, or one made from its class and a number: `Greeter$12`."""
        given = self._name
        if type(given) is str:
            return given
        slot, generation = self._cell.id & 0xFFFF_FFFF, self._cell.id >> 32
        return f"{given[0]}${slot}" if generation == 1 else f"{given[0]}${slot}.{generation}"

    @property
    def path(self) -> str:
        """Its name, after the names of its parents: `/parent/child`."""
        names = [self.name]
        parent: ActorRef | None = self._parent  # type: ignore[assignment]
        while parent is not None:
            names.append(parent.name)
            parent = parent._parent  # type: ignore[assignment]
        return "/" + "/".join(reversed(names))

    @property
    def parent(self) -> ActorRef | None:
        """The ref of its parent, or None if the system spawned it."""
        parent: ActorRef | None = self._parent  # type: ignore[assignment]
        return parent

    @property
    def state(self) -> State:
        """Its lifecycle state. Read from another thread, it may already have changed."""
        record = self._cell.record
        return STATES[record.state] if isinstance(record, ActorRecord) else TERMINATED

    @property
    def is_alive(self) -> bool:
        """Whether it has not ended."""
        return isinstance(self._cell.record, ActorRecord)

    @property
    def history(self) -> tuple[State, ...]:
        """The states it went through, the last thousand of them, if the system's config has `history=True`."""
        record = self._cell.record
        kept = (
            (None if record.extras is None else record.extras.history)
            if isinstance(record, ActorRecord)
            else record.history
        )
        return () if kept is None else tuple(kept)

    def __str__(self) -> str:
        return self.path

    def __repr__(self) -> str:
        return f"<ActorRef {self.path} of {self._cell.loop.host.port.name}>"

    def __reduce__(self) -> tuple[object, ...]:
        return resolve, tuple(self._cell.loop.host.address_of(self))

    # -- sending with backpressure

    async def send(self, message: M, *, lane: Lane = _DATA, timeout: float | None = None) -> None:
        """Like `tell`, but wait for room in a full mailbox, in order of arrival. `SendTimeout` carries the message."""
        if timeout is not None:
            require_timeout(timeout)
        cell = self._cell
        sender = None
        lane = as_lane(lane)
        if not cell.is_foreign():
            sender = cell.runq.speaker
            if cell.loop.admission.has_room(cell, lane):
                cell.accept(message, sender, lane)
                return
        elif (handoff := current_handoff(cell.loop)) is not None:
            sender = handoff.cell.ref
        await wait_for_room(cell, message, sender, lane, timeout)

    # -- its life

    def stop(self, *, after_queued: bool = False) -> None:
        """Stop it after the current message. From any thread.

        With `after_queued` it first handles the data messages that are queued now, and more urgent ones. Messages
        of the log lane, which is served last, may be drained.
        """
        if after_queued:
            self._cell.loop.host.request_end_in_order(self._cell)
        else:
            self._cell.loop.host.request_end(self._cell, NORMAL)

    def kill(self) -> None:
        """End it without `pre_stop`; a suspended handler is cancelled. From any thread."""
        self._cell.loop.host.request_end(self._cell, KILLED)

    def fail(self, cause: BaseException) -> None:
        """Make it fail with `cause` after the current message, as if its handler had raised it. From any thread."""
        if not isinstance(cause, BaseException):
            raise BadArgument(f"an actor fails with an exception, not with {cause!r}")
        self._cell.loop.host.request_failure(self._cell, cause)

    def restart(self, cause: BaseException | None = None) -> None:
        """Restart it after the current message, without backoff. Does not count toward any limit. From any thread.

        If it is waiting for a backoff, it starts at once.
        """
        if cause is not None and not isinstance(cause, BaseException):
            raise BadArgument(f"an actor is restarted because of an exception, or of nothing, not of {cause!r}")
        self._cell.loop.host.request_fresh_start(self._cell, cause)

    async def started(self) -> None:
        """Return when it is RUNNING. If its start fails, raise the cause.

        In a hook of its own that runs before, it raises `WaitsForItself`.
        """
        await wait_for_start(self._cell)

    async def terminated(self) -> ExitReason:
        """Wait until it has ended for good, and return the exit reason. Never raises its failure."""
        return await wait_for_end(self._cell)

    async def inspect(self, *items: str, timeout: float | None = 5.0) -> Mapping[str, Any]:
        """Call the actor's `inspect`, between two messages, and return the result. `AskTimeout` when it is late."""
        return await inspect_actor(self._cell, items, timeout)


lend_methods(ActorRef)


async def wait_for_room(cell: Cell, message: object, sender: object, lane: Lane, timeout: float | None) -> None:
    """Send a message as soon as there is room for it."""
    aio = asyncio.get_running_loop()
    future: asyncio.Future[None] = aio.create_future()
    handoff = current_handoffs.get(get_ident()) if current_handoffs else None
    loop = cell.loop

    def finish(error: BaseException | None) -> None:
        if get_ident() == my_thread:
            tell(error)
        elif not aio.is_closed():
            if handoff is not None:
                handoff.touch()
            aio.call_soon_threadsafe(tell, error)

    def tell(error: BaseException | None) -> None:
        if not future.done():
            if error is None:
                future.set_result(None)
            else:
                future.set_exception(error)

    def give_up() -> None:
        loop.admission.give_up(cell, waiter)
        finish(SendTimeout(cell.shown(), message, timeout or 0.0))

    def begin() -> None:
        loop.admission.wait_for_room(cell, waiter)
        if alarm is not None:
            loop.timers.add(alarm)
            if loop.runq.asleep:
                loop.runq.wake()

    def leave() -> None:
        loop.admission.give_up(cell, waiter)
        if alarm is not None:
            alarm.disarm(loop.timers)

    my_thread = get_ident()
    waiter = Waiter(message, sender, lane, finish)
    alarm = None if timeout is None else WaitTimeout(loop.now() + timeout, give_up)
    on_loop(cell, begin)
    try:
        await future
    finally:
        on_loop(cell, leave)
