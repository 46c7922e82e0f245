"""Stubs that hosted actors use: their context, refs to other actors, and the system. They call the main process."""

from __future__ import annotations

import itertools
from _thread import get_ident
from collections.abc import Awaitable, Callable, Hashable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, NoReturn

from greenroom._core.itemkinds import MESSAGE
from greenroom.actor.api.context import Context, ContextRecord
from greenroom.actor.messaging.asking import Asked, require_timeout, seconds_of
from greenroom.actor.messaging.blocking import require_may_block
from greenroom.actor.messaging.ref import ActorRef
from greenroom.actor.messaging.stash import Stash, require_number_of_messages
from greenroom.errors import NoMessage, NotInWorker, StashFull, WaitsForItself
from greenroom.lanes import Lane, as_lane
from greenroom.system.dispatchers.processes.protocol import BLOCKS, WAITS_FOR_ROOM

if TYPE_CHECKING:
    import asyncio

    from greenroom.actor.messaging.ref import Alias
    from greenroom.actor.messaging.signals import MonitorRef
    from greenroom.actor.records.states import State
    from greenroom.exits import ExitReason
    from greenroom.system.dispatchers.processes.worker.actor import HostedActor
    from greenroom.system.dispatchers.processes.worker.channel import Answer
    from greenroom.system.dispatchers.processes.worker.host import WorkerHost

__all__ = ["RemoteContext", "RemoteRef", "RemoteSystem"]

_pipe_numbers = itertools.count(1)


_PATIENCE = 30.0
"""Seconds beyond a timeout that the main process, which keeps the time, has to tell us of it."""


class RemoteRef(ActorRef):
    """A ref to an actor in another process. Its methods and properties are calls of the main process."""

    __slots__ = ()

    def _ask_main(self, what: str, /, *args: object, **kwargs: object) -> Any:
        host: WorkerHost = self._cell.loop.host
        return host.channel.request(host.current_number(), f"ref.{what}", self, *args, **kwargs)

    def _await_main(self, what: str, /, *args: object, **kwargs: object) -> Answer:
        host: WorkerHost = self._cell.loop.host
        return host.channel.begin(host.current_number(), f"ref.{what}", self, *args, **kwargs)

    @property
    def state(self) -> State:
        """Its state, a moment ago."""
        state: State = self._ask_main("state")
        return state

    @property
    def is_alive(self) -> bool:
        """Whether it has not ended yet."""
        return bool(self._ask_main("is_alive"))

    @property
    def history(self) -> tuple[State, ...]:
        """The states that it went through, if the system's config has `history=True`."""
        history: tuple[State, ...] = self._ask_main("history")
        return history

    def stop(self, *, after_queued: bool = False) -> None:
        """Stop it after the message in hand."""
        self._ask_main("stop", after_queued=after_queued)

    def kill(self) -> None:
        """End it without `pre_stop`."""
        self._ask_main("kill")

    def fail(self, cause: BaseException) -> None:
        """Let it fail with `cause` after the message in hand."""
        self._ask_main("fail", cause)

    def _fail_by_pipe(self, cause: BaseException) -> None:
        self._ask_main("_fail_by_pipe", cause)

    def restart(self, cause: BaseException | None = None) -> None:
        """Restart it after the message in hand."""
        self._ask_main("restart", cause)

    def _block(self, what: str, instead: str, timeout: float | None, /, *args: object, **kwargs: object) -> Any:
        """Have the main process wait for something, and block this thread meanwhile."""
        host: WorkerHost = self._cell.loop.host
        if timeout is not None:
            require_timeout(timeout)
        if not host.may_block():
            require_may_block(host.loop, f"{what}()", instead)
        patience = None if timeout is None else timeout + _PATIENCE
        return host.channel.request_within(patience, host.current_number(), f"ref.{what}", self, *args, **kwargs)

    def ask_sync(
        self,
        message: object,
        *,
        timeout: float | None = 5.0,
        lane: Lane = Lane.DATA,
        wait_for_room: bool = False,
    ) -> Any:
        """Send a message and block until its reply comes."""
        host: WorkerHost = self._cell.loop.host
        if not host.may_block():
            return super().ask_sync(message, timeout=timeout, lane=lane, wait_for_room=wait_for_room)
        seconds, loop, question = seconds_of(timeout), host.loop, Asked.__new__(Asked)
        question.set_up(loop, self._cell, loop.visits.hand, seconds)
        how = BLOCKS | (WAITS_FOR_ROOM if wait_for_room else 0)
        host.forward(self._cell, message, question, int(as_lane(lane)), how)
        host.awaits(question)
        host.channel.wait(question.done, "ask_sync()", None if timeout is None else seconds + _PATIENCE)
        return _result_of(question)

    def send_sync(self, message: object, *, lane: Lane = Lane.DATA, timeout: float | None = None) -> None:
        """Like `send`, but block until there is room."""
        host: WorkerHost = self._cell.loop.host
        speaker = host.loop.runq.speaker if host.may_block() else None
        self._block("send_sync", "ref.send(...)", timeout, message, speaker, int(as_lane(lane)), timeout)

    def started_sync(self, timeout: float | None = None) -> None:
        """Like `started`, but block."""
        self._block("started_sync", "ref.started()", timeout, timeout)

    def terminated_sync(self, timeout: float | None = None) -> ExitReason:
        """Like `terminated`, but block."""
        reason: ExitReason = self._block("terminated_sync", "ref.terminated()", timeout, timeout)
        return reason

    def inspect_sync(self, *items: str, timeout: float | None = 5.0) -> Mapping[str, Any]:
        """Like `inspect`, but block."""
        seen: Mapping[str, Any] = self._block("inspect_sync", "ref.inspect(...)", timeout, *items, timeout=timeout)
        return seen

    async def send(self, message: object, *, lane: Lane = Lane.DATA, timeout: float | None = None) -> None:
        """Like `tell`, but wait for room, in order of arrival."""
        speaker = self._cell.runq.speaker
        await self._await_main("send", message, speaker, int(as_lane(lane)), timeout)

    async def started(self) -> None:
        """Return when it is running; raise if it could not start."""
        await self._await_main("started")

    async def terminated(self) -> ExitReason:
        """Wait for its end; return the exit reason."""
        reason: ExitReason = await self._await_main("terminated")
        return reason

    async def inspect(self, *items: str, timeout: float | None = 5.0) -> Mapping[str, Any]:
        """What the actor's `inspect` returns."""
        seen: Mapping[str, Any] = await self._await_main("inspect", *items, timeout=timeout)
        return seen


def _result_of(question: Asked) -> Any:
    """What came of a question that is done."""
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
        if name in _OF_SYSTEM:
            return lambda *args, **kwargs: self._request(name, *args, **kwargs)
        if name in ("phase", "token"):
            return self._request(name)
        known = ", ".join(("name", "phase", "shutdown", *sorted(_OF_SYSTEM)))
        raise AttributeError(f"{name} of a system cannot be used from another process; there are: {known}")

    async def shutdown(self, timeout: float = 30.0, *, drain: bool | None = None) -> None:
        """Request the shutdown, and return at once, because it waits for the handler that requests it."""
        self._request("shutdown", timeout, drain)

    def settle_sync(self, timeout: float = 30.0) -> None:
        """Refused: nobody in a worker process can wait for that."""
        raise WaitsForItself("an actor waits for its system to be idle, which it is not before the handler ends")

    def _request(self, name: str, /, *args: object, **kwargs: object) -> Any:
        return self._host.channel.request(self._host.current_number(), f"system.{name}", *args, **kwargs)


_OF_SYSTEM = frozenset(("spawn", "actor", "actors", "ledger", "tree", "snapshot", "stop", "fail"))


class RemoteTimer:
    """The handle of a timer in the main process."""

    __slots__ = ("_context", "_number")

    def __init__(self, context: RemoteContext, number: int) -> None:
        self._context = context
        self._number = number

    def cancel(self) -> bool:
        """Cancel it; False if it has ended already."""
        return bool(self._context.request("timers.handle_cancel", self._number))

    @property
    def active(self) -> bool:
        """Whether a tick is still to come."""
        return bool(self._context.request("timers.handle_active", self._number))


class RemoteTimers:
    """Keyed timers in the main process."""

    __slots__ = ("_context",)

    def __init__(self, context: RemoteContext) -> None:
        self._context = context

    def start(self, key: Hashable, delay: float, message: object, **options: object) -> RemoteTimer:
        """Send `message` to the actor itself (or to `target`) after `delay`, and then every `every` seconds."""
        return RemoteTimer(self._context, self._context.request("timers.start", key, delay, message, **options))

    def cancel(self, key: Hashable) -> bool:
        """Cancel the timer of this key; False if there is no active one."""
        return bool(self._context.request("timers.cancel", key))

    def cancel_all(self) -> None:
        """Cancel all keyed timers."""
        self._context.request("timers.cancel_all")

    def is_active(self, key: Hashable) -> bool:
        """Whether a tick of this key's timer is still to come."""
        return bool(self._context.request("timers.is_active", key))

    @property
    def active(self) -> list[Hashable]:
        """The keys whose timers are active."""
        keys: list[Hashable] = self._context.request("timers.active")
        return keys


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
        """Whether another message would be refused."""
        return self._actor.stashed >= self.capacity

    def put(self, what: str = "put()") -> None:
        """Stash the message in hand."""
        cell = self._actor.cell
        hand = cell.record._hand()
        if hand is None or hand.kind != MESSAGE:
            raise NoMessage(cell.shown(), what)
        if self.full:
            raise StashFull(cell.ref, self.capacity)
        self._actor.stash_current()
        hand.stash()

    def unstash_all(self) -> int:
        """Queue all stashed messages, in their order, ahead of the others; return how many there were."""
        return self._actor.unstash(self._actor.stashed)

    def unstash(self, n: int = 1) -> int:
        """Queue the first `n` of them; return how many that were."""
        return self._actor.unstash(require_number_of_messages(n))


def _in_main(name: str) -> Callable[..., object]:
    """A method of a context that the main process carries out."""
    original = getattr(Context, name)

    def done_in_main(self: RemoteContext, /, *args: object, **kwargs: object) -> object:
        return self.request(f"ctx.{name}", *args, **kwargs)

    done_in_main.__name__ = name
    done_in_main.__doc__ = original.__doc__
    return done_in_main


@contextmanager
def _blocking(host: WorkerHost) -> Iterator[None]:
    host.block()
    try:
        yield
    finally:
        host.unblock()


class RemoteContext(ContextRecord):
    """The context of a hosted actor."""

    __slots__ = ()

    def request(self, what: str, /, *args: object, **kwargs: object) -> Any:
        """Have the main process do something for this actor."""
        actor: HostedActor = self.ensure_extras().executor
        host: WorkerHost = self.cell.loop.host
        return host.channel.request(actor.number, what, *args, **kwargs)

    @property
    def children(self) -> list[ActorRef]:
        """The refs of its children, eldest first."""
        found: list[ActorRef] = self.request("ctx.children")
        return found

    def blocking(self) -> AbstractContextManager[None]:
        """Say that this handler only waits inside the block."""
        host: WorkerHost = self.cell.loop.host
        # What blocks a thread that the handler has started holds up nobody.
        return _blocking(host) if host.is_manual and get_ident() == self.cell.runq.thread else nullcontext()

    def now(self) -> float:
        """The time, by the system's clock."""
        host: WorkerHost = self.cell.loop.host
        return float(self.request("system.now")) if host.is_manual else super().now()

    def stop(self, child: ActorRef | None = None) -> None:
        """Stop a child, or (without one) the actor itself, after the message in hand."""
        actor: HostedActor = self.ensure_extras().executor
        if child is None:
            actor.stop()
        else:
            self.request("ctx.stop", child)

    if not TYPE_CHECKING:
        spawn = _in_main("spawn")
        watch = _in_main("watch")
        unwatch = _in_main("unwatch")
        demonitor = _in_main("demonitor")
        link = _in_main("link")
        unlink = _in_main("unlink")
        set_receive_timeout = _in_main("set_receive_timeout")

    def spawn_meta(self, meta: object, options: object = None) -> NoReturn:
        """Raise: the sockets and threads of a meta-process are those of the main process."""
        why = "let an actor in the main process spawn it, and send this one its alias"
        raise NotInWorker(self.self, "spawn_meta()", why)

    @property
    def metas(self) -> list[Alias]:
        """None: it cannot have any."""
        return []

    def watch_fd(self, fd: object, interest: int, *, once: bool = False) -> NoReturn:
        """Raise: the descriptors of this process mean nothing to the main one."""
        raise NotInWorker(self.self, "watch_fd()", "let an actor in the main process watch it")

    def unwatch_fd(self, fd: object) -> bool:
        """False: it cannot watch any."""
        return False

    def monitor(self, ref: ActorRef) -> MonitorRef:
        """Get the message `Down(mref, ref, reason)` when `ref` has ended; every monitor gets its own."""
        mref: MonitorRef = self.request("ctx.monitor", ref)
        return mref

    @property
    def trap_exit(self) -> bool:
        """Whether the end of a linked actor comes as the message `Exit(ref, reason)`, instead of failing this one."""
        return bool(self.request("ctx.trap_exit"))

    @trap_exit.setter
    def trap_exit(self, traps: bool) -> None:
        self.request("ctx.set_trap_exit", traps)

    def send_after(self, delay: float, target: ActorRef, message: object) -> Any:
        """Send `message` to `target` after `delay` seconds, unless this actor ends before."""
        return RemoteTimer(self, self.request("ctx.send_after", delay, target, message))

    def send_every(self, interval: float, target: ActorRef, message: object, *, fixed_rate: bool = False) -> Any:
        """Send `message` to `target` every `interval` seconds: after the last was handled, or at a fixed rate."""
        number = self.request("ctx.send_every", interval, target, message, fixed_rate=fixed_rate)
        return RemoteTimer(self, number)

    @property
    def timers(self) -> Any:
        """Timers by key."""
        extras = self.ensure_extras()
        if extras.keyed is None:
            extras.keyed = RemoteTimers(self)
        return extras.keyed

    def pipe_to_self(
        self,
        awaitable: Awaitable[Any],
        map: Callable[[Any], object] | None = None,  # noqa: A002 - the word of the contract
        *,
        on_error: Callable[[BaseException], object] | None = None,
    ) -> asyncio.Task[None]:
        """Await something here. The main process is told, because a system that drains waits for it."""
        task = super().pipe_to_self(awaitable, map, on_error=on_error)
        number = next(_pipe_numbers)
        self.request("ctx.begin_pipe", number)

        def ended(task: asyncio.Task[None]) -> None:
            actor: HostedActor = self.ensure_extras().executor
            channel = self.cell.loop.host.channel
            channel.ask(lambda ok, value: None, "request", actor.number, "ctx.end_pipe", channel.pack(((number,), {})))

        task.add_done_callback(ended)
        return task

    def _take_piped(self, message: object) -> None:
        self.request("ctx.take_piped", message)

    def _new_stash(self) -> Stash:
        return RemoteStash(self.ensure_extras().executor)
