"""`ServiceHandle`: a holder's connection to one actor of a pod, whatever becomes of the pod meanwhile."""

from __future__ import annotations

import asyncio
from _thread import get_ident
from collections import deque
from contextlib import suppress
from functools import partial
from threading import Event
from time import monotonic
from types import GenericAlias
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NoReturn, overload

from greenroom._core.connections.connection import HandleBase, MessageInContext
from greenroom._core.connections.spscring import CLOSED, SENT
from greenroom._core.current import ticking_here
from greenroom.errors import ConnectTimeout, HandleHeld, PodGone, RingFull, TroupeEnding
from greenroom.lanes import Lane, as_lane
from greenroom.pods.service.slot import CONNECTED, GONE, PodSlot
from greenroom.validation import require_seconds

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Generic

    from typing_extensions import TypeVar

    from greenroom._core.connections.connection import Connection
    from greenroom._core.scheduler.loop import Loop
    from greenroom.pods.assembly import Assembly

    T = TypeVar("T")
    D = TypeVar("D", contravariant=True, default=Any)
    C = TypeVar("C", contravariant=True, default=D)
    M = TypeVar("M", contravariant=True, default=D)

    _DataLanes = Literal[Lane.DATA, Lane.LOG]

    class _Typed(Generic[D, C, M]): ...

else:
    D = C = M = Any

    class _Typed:
        """At run time, `ServiceHandle[Tick]` is `ServiceHandle` with a note."""

        __slots__ = ()
        __class_getitem__ = classmethod(GenericAlias)


class Outbox:
    """The messages of a holder whose thread must not wait: lane by lane, in order.

    Its holder fills and sends it. When the pod is gone, any thread may empty it, with `take`.
    """

    __slots__ = ("_lanes",)

    def __init__(self) -> None:
        # All from the beginning: others look in here, too.
        self._lanes: dict[Lane, deque[object]] = {lane: deque() for lane in Lane}

    def __len__(self) -> int:
        return sum(len(waiting) for waiting in self._lanes.values())

    def count(self, lane: Lane) -> int:
        return len(self._lanes[lane])

    def put(self, message: object, lane: Lane) -> None:
        self._lanes[lane].append(message)

    def lanes(self) -> list[Lane]:
        return [lane for lane, waiting in self._lanes.items() if waiting]

    def take(self) -> object:
        """Take any message; `IndexError` when there is none."""
        for waiting in self._lanes.values():
            if waiting:
                return waiting.popleft()
        raise IndexError("nothing waits")

    def send(self, lane: Lane, offer: Callable[[Lane, object], bool]) -> None:
        """Offer one message after the other, until one is not taken: it stays the first."""
        waiting = self._lanes[lane]
        while waiting:
            try:
                message = waiting.popleft()
            except IndexError:  # the pod is gone, and they are dead letters
                return
            if not offer(lane, message):
                waiting.appendleft(message)
                return


class ServiceHandle(HandleBase, _Typed[D, C, M]):
    """A connection to one actor of a pod. It stays good when the pod is restarted.

    `ServiceHandle[Data, Control, Management]` says what may be sent in each lane; type checkers hold you to it. With
    one type, `ServiceHandle[Data]`, all lanes take that.

    A handle has one holder: the first thread that sends with it. `clone()` makes another connection, for another
    thread. Messages of one handle arrive in order, lane by lane.
    """

    __greenroom_is_handle__: ClassVar[bool] = True
    __slots__ = ("__weakref__", "_actor", "_home", "_retry", "_slot", "_troupe", "_validate")

    def __init__(
        self,
        slot: PodSlot,
        actor: str,
        troupe: Assembly,
        connection: Connection,
        validate: Callable[[object], object] | None = None,
        home: Assembly | None = None,
    ) -> None:
        super().__init__(connection)
        self._slot = slot
        self._actor = actor
        self._troupe = troupe
        # Raises if a message cannot be sent to where the pod is.
        self._validate = validate
        # The troupe of the actor that holds it, if one does: a send of that is no failure when the troupe ends.
        self._home = home
        # What is called when the outbox may be sent, if something waits there.
        self._retry: Callable[[], object] | None = None
        self._is_plain = self._sends_plainly()

    def _sends_plainly(self) -> bool:
        return self._validate is None and self._slot.loop.admission.propagation is None

    def __del__(self) -> None:
        connection = getattr(self, "_connection", None)
        if connection is not None:
            connection.abandon()

    @property
    def name(self) -> str:
        """The actor's name in its troupe."""
        return self._actor

    @property
    def pod(self) -> str:
        """The name of its pod."""
        return self._slot.name

    @property
    def is_gone(self) -> bool:
        """Whether the pod has ended for good: nothing can be sent any more."""
        return self._slot.state == GONE

    @property
    def waiting(self) -> int:
        """How many messages of this handle the pod has not taken in yet."""
        waiting: int = self._connection.queued()
        return waiting

    def __repr__(self) -> str:
        state = self._slot.state if self._troupe.is_playing else "not playing"
        return f"<ServiceHandle of {self._actor} in the pod {self._slot.name}, {state}>"

    if TYPE_CHECKING:

        @overload  # type: ignore[override]
        def send(self, message: D, *, lane: _DataLanes = ..., timeout: float | None = ...) -> None: ...
        @overload
        def send(self, message: C, *, lane: Literal[Lane.CONTROL], timeout: float | None = ...) -> None: ...
        @overload
        def send(self, message: M, *, lane: Literal[Lane.MANAGEMENT], timeout: float | None = ...) -> None: ...
        @overload
        def send(self: ServiceHandle[T, T, T], message: T, *, lane: Lane, timeout: float | None = ...) -> None: ...
        def send(self, message: Any, *, lane: Lane = Lane.DATA, timeout: float | None = None) -> None:
            """Send a message. Waits for room, or for a pod that is being restarted, up to `timeout` seconds.

            Raises `PodGone` when the pod will not come back, `ConnectTimeout` when it is not back in time, and
            `RingFull`, a `MailboxFull`, when there is no room in time. Each has the message, which was not sent.

            On the kubelet's own thread (in cooperative pods) it does not wait: the message is put down until it can
            be sent, and `RingFull` is raised when too many are. In `async def` handlers, use `asend`.
            """

    @overload
    def try_send(self, message: D, *, lane: _DataLanes = ...) -> bool: ...
    @overload
    def try_send(self, message: C, *, lane: Literal[Lane.CONTROL]) -> bool: ...
    @overload
    def try_send(self, message: M, *, lane: Literal[Lane.MANAGEMENT]) -> bool: ...
    @overload
    def try_send(self: ServiceHandle[T, T, T], message: T, *, lane: Lane) -> bool: ...
    def try_send(self, message: Any, *, lane: Lane = Lane.DATA) -> bool:
        """Send a message if that can be done now: False when there is no room, or the pod is being restarted.

        Raises `PodGone` when the pod will not come back.
        """
        lane = self._prepare(message, lane, None)
        if self._offer(message, lane) == SENT:
            return True
        if self._slot.refuses(lane):
            self._fail(message, lane)
        return False

    @overload
    async def asend(self, message: D, *, lane: _DataLanes = ..., timeout: float | None = ...) -> None: ...
    @overload
    async def asend(self, message: C, *, lane: Literal[Lane.CONTROL], timeout: float | None = ...) -> None: ...
    @overload
    async def asend(self, message: M, *, lane: Literal[Lane.MANAGEMENT], timeout: float | None = ...) -> None: ...
    @overload
    async def asend(self: ServiceHandle[T, T, T], message: T, *, lane: Lane, timeout: float | None = ...) -> None: ...
    async def asend(self, message: Any, *, lane: Lane = Lane.DATA, timeout: float | None = None) -> None:
        """Send, and await room: the thread goes on with other work meanwhile."""
        lane = self._prepare(message, lane, timeout)
        aio = asyncio.get_running_loop()
        patience = self._troupe.config.connect_timeout if timeout is None else timeout
        deadline = aio.time() + patience
        while True:
            change: asyncio.Future[None] = aio.create_future()
            wake = partial(_wake, aio, change)
            fate = self._offer_or_wait(message, lane, wake)
            if fate == SENT:
                return
            try:
                async with asyncio.timeout_at(deadline):
                    await change
            except TimeoutError:
                self._fail(message, lane, fate, patience)
            finally:
                self._forget(wake)

    def clone(self) -> ServiceHandle[D, C, M]:
        """Another connection to the same actor, for another holder. Its rings are made now."""
        connection = self._slot.connect(self._actor, self._connection.sender())
        return ServiceHandle(self._slot, self._actor, self._troupe, connection, self._validate, self._home)

    # -- what cannot simply be pushed

    def _send_otherwise(self, message: Any, lane: Lane, timeout: float | None) -> None:
        lane = self._prepare(message, lane, timeout)
        fate = self._offer(message, lane)
        if fate == SENT:
            return
        if self._slot.refuses(lane):
            self._fail(message, lane)
        here = self._loop_that_must_not_wait()
        if here is not None:
            self._put_in_outbox(message, lane, here)
            return
        patience = self._troupe.config.connect_timeout if timeout is None else timeout
        deadline = monotonic() + patience
        change = Event()
        while True:
            change.clear()
            fate = self._offer_or_wait(message, lane, change.set)
            if fate == SENT:
                return
            try:
                is_late = not change.wait(max(0.0, deadline - monotonic()))
            finally:
                self._forget(change.set)
            if is_late:
                self._fail(message, lane, fate, patience)

    def _prepare(self, message: object, lane: Lane, timeout: float | None) -> Lane:
        """Check the message and its sender; raises if it cannot be sent from here."""
        if timeout is not None:
            require_seconds("timeout", timeout)
        here = get_ident()
        if self._holder != here:
            with self._slot.lock:
                if self._holder == 0:
                    self._holder = here
            if self._holder != here:
                raise HandleHeld(self._slot.name)
        self._slot.loop.inbound.require_same_world(None)
        if self._validate is not None:
            self._validate(message)
        return lane if type(lane) is Lane else as_lane(lane)

    def _offer(self, message: object, lane: Lane) -> int:
        """Push a message: `SENT`, `FULL` or `CLOSED`; behind others of its lane in the outbox, that can never be."""
        outbox = self._connection.outbox
        if outbox is not None and outbox.count(lane) > 0:
            return CLOSED
        fate: int = self._connection.offer(self._with_context(message), lane)
        return fate

    def _with_context(self, message: object) -> object:
        propagation = self._slot.loop.admission.propagation
        if propagation is None:
            return message
        return MessageInContext(message, propagation.take_along(self._connection.sender()))

    def _offer_or_wait(self, message: object, lane: Lane, wake: Callable[[], object]) -> int:
        """Offer a message. If it is not taken, `wake` is called when that may have changed; raises if it cannot."""
        if not self._slot.on_change(wake):
            self._fail(message, lane)
        waits = False
        try:
            self._connection.ask_for_room(wake)
            fate = self._offer(message, lane)
            if fate != SENT:
                is_refused = fate == CLOSED and self._slot.refuses(lane)
                if is_refused or not self._troupe.is_playing or self._home_has_ended():
                    self._fail(message, lane, fate)
                waits = True
        finally:
            if not waits:
                self._forget(wake)
        return fate

    def _forget(self, wake: Callable[[], object]) -> None:
        self._slot.forget(wake)
        self._connection.forget_room(wake)

    def _home_has_ended(self) -> bool:
        """Whether the holder is to wait no longer, because its own troupe has ended."""
        return self._home is not None and self._home.has_ended

    def _fail(self, message: object, lane: Lane, fate: int = CLOSED, patience: float = 0.0) -> NoReturn:
        cell = self._slot.target_of(self._connection)
        error = self._error(message, lane, fate, patience)
        if isinstance(error, RingFull) and cell is not None:
            admission = self._slot.loop.admission
            self._slot.loop.inbound.post_back(None, partial(admission.count_refused, cell, 1, 0, 0))
            admission.tell_full(cell, message, self._connection.sender(), lane)
        raise error

    def _error(self, message: object, lane: Lane, fate: int, patience: float) -> ConnectTimeout | RingFull | PodGone:
        slot = self._slot
        if slot.refuses(lane) or self._home_has_ended():
            is_ending = self._home is not None and (self._home.has_ended or self._home.is_ending())
            error = (TroupeEnding if is_ending else PodGone)(slot.name, slot.why, message)
            error.__cause__ = slot.cause
            return error
        if fate == CLOSED and slot.state != CONNECTED:
            why = slot.why
            says = self._troupe.heart.says()
            return ConnectTimeout(slot.name, patience, f"{why}; {says}" if says else why, message)
        if not self._troupe.is_playing:
            why, remedy = "the troupe does not play yet", "Start it first"
            return RingFull(slot.name, message, lane, slot.sizes[lane], why, remedy)
        why = f"it has made none in {patience:g} s" if slot.inbox.is_open else "it does not run yet"
        return RingFull(slot.name, message, lane, slot.sizes[lane], why)

    # -- a thread that must not wait

    def _loop_that_must_not_wait(self) -> Loop | None:
        """The loop of this thread, if the pod may need that thread to go on; None if it may wait."""
        loops = self._troupe.loops
        if not loops[-1].world.is_real:
            runq = ticking_here()
            return loops[-1] if runq is None else runq.admission.host.loop
        here = get_ident()
        for loop in (*loops, self._slot.loop):
            if loop.runq.thread == here and loop.runq.rouse is not None:  # else it does not run yet, or not any more
                return loop
        return None

    def _put_in_outbox(self, message: object, lane: Lane, here: Loop) -> None:
        connection = self._connection
        if connection.outbox is None:
            connection.outbox = Outbox()
        bound = self._slot.sizes[lane]
        if connection.outbox.count(lane) >= bound:
            why = "its holder is on a thread that must not wait for the pod, and has put down as many as it may"
            raise RingFull(self._slot.name, message, lane, bound, why)
        connection.outbox.put(self._with_context(message), lane)
        self._is_plain = False
        if self._retry is None:
            self._try_again_later(here)

    def _try_again_later(self, here: Loop) -> None:
        connection = self._connection
        wake = self._retry = partial(here.inbound.post_back, None, partial(self._send_outbox, here))
        connection.ask_for_room(wake)
        if not self._slot.on_change(wake):
            wake()
        elif any(self._takes_more(lane) for lane in connection.outbox.lanes()):
            wake()  # there is room by now

    def _takes_more(self, lane: Lane) -> bool:
        ring = self._connection.ring_of(lane)
        has_room: bool = ring.count() < ring.capacity
        return has_room and not ring.is_closed()

    def _send_outbox(self, here: Loop) -> None:
        """Send what waits in the outbox, as far as that goes. On its holder's thread."""
        connection = self._connection
        if self._retry is not None:
            self._forget(self._retry)
            self._retry = None
        for lane in connection.outbox.lanes():
            connection.outbox.send(lane, self._send_or_bury)
        if not connection.outbox:
            self._is_plain = self._sends_plainly()
        else:
            self._try_again_later(here)

    def _send_or_bury(self, lane: Lane, message: object) -> bool:
        """Send a message of the outbox, or make it a dead letter; False if it has to wait on."""
        if self._connection.offer(message, lane) == SENT:
            return True
        if not self._slot.refuses(lane):
            return False
        self._slot.bury(self._connection, message)
        return True


def _wake(aio: asyncio.AbstractEventLoop, change: asyncio.Future[None]) -> None:
    with suppress(RuntimeError):  # it is closed
        aio.call_soon_threadsafe(_resolve, change)


def _resolve(change: asyncio.Future[None]) -> None:
    if not change.done():
        change.set_result(None)
