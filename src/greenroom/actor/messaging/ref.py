"""`ActorRef`: the stable address of an actor."""

from __future__ import annotations

from collections.abc import Mapping
from types import GenericAlias
from typing import TYPE_CHECKING, Any, Generic, overload

from greenroom._core.build import MadeByRuntime
from greenroom._core.current import sender_here
from greenroom.actor.messaging.address import Address, lend_methods
from greenroom.actor.messaging.waiting import (
    End,
    Inspection,
    Start,
    block_for,
    block_for_room,
    wait_for_end,
    wait_for_inspection,
    wait_for_room,
    wait_for_start,
)
from greenroom.actor.records.record import ActorRecord
from greenroom.actor.records.states import STATES, State
from greenroom.actor.records.systems import resolve
from greenroom.errors import BadArgument
from greenroom.exits import KILLED, NORMAL, ExitReason
from greenroom.lanes import Lane, as_lane
from greenroom.tracebacks import drop_outer
from greenroom.validation import require_delay

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Coroutine, Generator
    from typing import Self

    from typing_extensions import TypeVar

    T = TypeVar("T")
    T_co = TypeVar("T_co", covariant=True)
    M = TypeVar("M", contravariant=True, default=Any)
    R = TypeVar("R", covariant=True, default=Any)

    class Asked(Coroutine[Any, Any, T_co]):
        """What `ask` returns: an awaitable of the reply. Tasks take it as they take a coroutine."""

        def __await__(self) -> Generator[Any, None, T_co]: ...
        def send(self, value: Any, /) -> Any: ...
        def throw(self, kind: Any, value: Any = None, traceback: Any = None, /) -> Any: ...
        def close(self) -> None: ...
        def future(self) -> asyncio.Future[T_co]:
            """An asyncio future of the reply, for functions that insist on one: `asyncio.wait`."""
            ...

        def cancel(self, msg: object = None) -> bool:
            """Wait no longer; a reply that still comes is a dead letter."""
            ...

        def done(self) -> bool:
            """Whether the ask has ended: answered, failed or given up."""
            ...

else:
    from typing import TypeVar

    from greenroom.actor.messaging.question import Asked

    T = TypeVar("T")
    M = TypeVar("M")
    R = TypeVar("R")

__all__ = ["ActorRef", "Alias", "Asked", "Request"]

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
    __signature__ = MadeByRuntime("ActorRef")

    if TYPE_CHECKING:

        def tell(  # type: ignore[override]
            self, message: M, *, lane: Lane = _DATA, sender: ActorRef | None = None
        ) -> None:
            """Send a message. Never blocks; from any thread."""

        def __lshift__(self, message: M) -> Self: ...  # type: ignore[override]

        @overload  # type: ignore[override]
        def ask(
            self, message: Request[T], *, timeout: float | None = 5.0, lane: Lane = _DATA, wait_for_room: bool = False
        ) -> Asked[T]: ...
        # Without this one, mypy would take an ask of the wrong type for one of any.
        @overload
        def ask(
            self, message: Request[Any], *, timeout: float | None = 5.0, lane: Lane = _DATA, wait_for_room: bool = False
        ) -> Asked[object]: ...
        @overload
        def ask(
            self, message: M, *, timeout: float | None = 5.0, lane: Lane = _DATA, wait_for_room: bool = False
        ) -> Asked[R]: ...
        def ask(  # pyright: ignore[reportIncompatibleMethodOverride]
            self, message: Any, *, timeout: float | None = 5.0, lane: Lane = _DATA, wait_for_room: bool = False
        ) -> Asked[Any]:
            """Send a message now, and return an awaitable of its reply.

            A full mailbox is `MailboxFull` where it is awaited; with `wait_for_room` the message waits for room, within
            the same timeout.
            """
            ...

        @overload  # type: ignore[override]
        def ask_sync(
            self, message: Request[T], *, timeout: float | None = 5.0, lane: Lane = _DATA, wait_for_room: bool = False
        ) -> T: ...
        @overload
        def ask_sync(
            self, message: Request[Any], *, timeout: float | None = 5.0, lane: Lane = _DATA, wait_for_room: bool = False
        ) -> object: ...
        @overload
        def ask_sync(
            self, message: M, *, timeout: float | None = 5.0, lane: Lane = _DATA, wait_for_room: bool = False
        ) -> R: ...
        def ask_sync(
            self, message: Any, *, timeout: float | None = 5.0, lane: Lane = _DATA, wait_for_room: bool = False
        ) -> Any:
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
        record = self._cell.peek_record()
        return STATES[record.state] if isinstance(record, ActorRecord) else TERMINATED

    @property
    def is_alive(self) -> bool:
        """Whether the actor has not ended."""
        return isinstance(self._cell.peek_record(), ActorRecord)

    @property
    def history(self) -> tuple[State, ...]:
        """The states it went through, the last thousand of them, if the system's config has `history=True`."""
        record = self._cell.peek_record()
        if isinstance(record, ActorRecord):
            extras = record.extras
            kept = None if extras is None else extras.history
        else:
            kept = record.history
        return () if kept is None else tuple(kept)

    def __str__(self) -> str:
        return self.path

    def __repr__(self) -> str:
        return f"<ActorRef {self.path} of {self._cell.loop.host.system.name}>"

    def __reduce__(self) -> tuple[object, ...]:
        return resolve, tuple(self._cell.loop.host.address_of(self))

    # -- sending with backpressure

    async def send(self, message: M, *, lane: Lane = _DATA, timeout: float | None = None) -> None:
        """Like `tell`, but wait for room in a full mailbox, in order of arrival. `SendTimeout` carries the message.

        To an actor that has ended it is a dead letter, as with `tell`: to be told, `ask`, with `wait_for_room=True`.
        """
        if timeout is not None:
            require_delay("timeout", timeout)
        cell = self._cell
        sender = None
        lane = as_lane(lane)
        if not cell.is_foreign():
            sender = cell.runq.current_ref
            if cell.loop.admission.send_if_room(cell, message, sender, lane):
                return
        else:
            sender = sender_here()
        await wait_for_room(cell, message, sender, lane, timeout)

    def send_sync(self, message: M, *, lane: Lane = _DATA, timeout: float | None = None) -> None:
        """Like `send`, for code that cannot await: block until there is room. `SendTimeout` carries the message.

        For plain threads, and plain `def` handlers that run on another thread or in another process. Where it would
        hold up a loop, and in a handler for the actor's own full mailbox, it raises `WaitsForItself`.
        """
        block_for_room(self._cell, message, timeout, lane)

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

    def _fail_by_pipe(self, cause: BaseException) -> None:
        """Fail the actor because of what `ctx.pipe_to_self` awaited."""
        self._cell.loop.host.request_failure(self._cell, cause, why="because what it piped to itself raised")

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
        try:
            await wait_for_start(self._cell)
        except Exception as exc:
            drop_outer(exc)
            raise

    async def terminated(self) -> ExitReason:
        """Wait until it has ended for good, and return the exit reason. Never raises its failure."""
        return await wait_for_end(self._cell)

    async def inspect(self, *items: str, timeout: float | None = 5.0) -> Mapping[str, Any]:
        """Call the actor's `inspect`, between two messages, and return the result. `AskTimeout` when it is late."""
        try:
            return await wait_for_inspection(self._cell, items, timeout)
        except Exception as exc:
            drop_outer(exc)
            raise

    def started_sync(self, timeout: float | None = None) -> None:
        """Like `started`, for code that cannot await: block until it is RUNNING. `WaitTimeout` when that is late.

        Without a timeout it waits as long as the start may take, which `SystemConfig(start_timeout=...)` bounds.
        """
        block_for(Start(self._cell, timeout), "started_sync()", "ref.started()")

    def terminated_sync(self, timeout: float | None = None) -> ExitReason:
        """Like `terminated`, for code that cannot await: block until it has ended. `WaitTimeout` when that is late.

        Without a timeout it waits for ever, as `Thread.join` does.
        """
        reason: ExitReason = block_for(End(self._cell, timeout), "terminated_sync()", "ref.terminated()")
        return reason

    def inspect_sync(self, *items: str, timeout: float | None = 5.0) -> Mapping[str, Any]:
        """Like `inspect`, for code that cannot await."""
        inspection = Inspection(self._cell, items, timeout)
        seen: Mapping[str, Any] = block_for(inspection, "inspect_sync()", "ref.inspect(...)")
        return seen


class Alias(ActorRef):
    """The ref of a meta-process: it can be used wherever a ref can."""

    __slots__ = ()
    __signature__ = MadeByRuntime("Alias")

    def __repr__(self) -> str:
        return f"<Alias {self.path} of {self._cell.loop.host.system.name}>"


lend_methods(ActorRef)
lend_methods(Alias)
