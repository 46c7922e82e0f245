"""`MetaProcess`, which users subclass to do blocking work beside an actor: its incarnations, and how it is spawned."""

from __future__ import annotations

import asyncio
import inspect
import logging
import select
from _thread import get_ident
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from functools import partial
from inspect import isawaitable, iscoroutinefunction
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, cast

from greenroom._core.current import current_handoffs
from greenroom.actor.api.actor import Actor
from greenroom.actor.api.behavior import UNHANDLED, close_unawaited
from greenroom.actor.api.props import props
from greenroom.actor.messaging.question import Question
from greenroom.actor.messaging.reply import Reply
from greenroom.actor.messaging.waiting import block_for_room
from greenroom.errors import (
    ActorTerminated,
    AlreadyReplied,
    DispatcherExists,
    MetaCannotAsk,
    MetaCannotCompress,
    MetaCannotLink,
    MetaCannotMonitor,
    MetaCannotReply,
    MetaCannotSetLane,
    MetaCannotSpawnActors,
    MetaCannotWatch,
    MetaEnded,
    MetaNotSpawned,
    MetaSpawnedBefore,
    NotAMeta,
    SendTimeout,
)
from greenroom.exits import KILLED, NORMAL, SHUTDOWN, ExitReason
from greenroom.lanes import Lane, as_lane
from greenroom.meta.process.options import Compression, MetaOptions, MetaState
from greenroom.meta.process.reader import ReaderStopped, TaskReader, ThreadReader, Waits, close_held, shut_down
from greenroom.runtimelog import RuntimeLog
from greenroom.system.dispatchers.settings import Parallel

if TYPE_CHECKING:
    from _typeshed import FileDescriptorLike

    from greenroom.actor.api.context import Context
    from greenroom.actor.messaging.ref import ActorRef, Alias

    Call = Callable[..., Awaitable[object]]

_log = RuntimeLog()

DISPATCHER = "meta"
"""Where handlers run that may block: threads of their own; `SystemConfig(dispatchers={"meta": ...})` says how many."""
THREADS = 32
BETWEEN_LOOKS = 0.25
"""Seconds after which a reader that waits for room looks whether it is to end."""
TIME_TO_LEAVE = 0.3
"""Seconds that a reader has to leave what it was broken off in before `terminate()` is called beside it."""


class MetaProcess:
    """Two threads of work that belong to one actor: a reader, which may block, and a handler of messages.

    >>> import asyncio, socket
    >>> from greenroom import Actor, ActorSystem
    >>> class Listener(MetaProcess):
    ...     def __init__(self, sock: socket.socket) -> None:
    ...         self.sock = sock
    ...     def start(self) -> None:                     # on a thread of its own: it may block
    ...         while data := self.sock.recv(1024):
    ...             self.send(self.parent, data)
    ...     def handle_message(self, message: bytes) -> None:  # on another one, when there are messages
    ...         self.sock.sendall(message)
    ...     def terminate(self, reason: object) -> None:
    ...         self.sock.close()
    >>> class Shouter(Actor[bytes]):
    ...     def __init__(self, sock: socket.socket) -> None:
    ...         self.sock = sock
    ...     def pre_start(self) -> None:
    ...         self.line = self.ctx.spawn_meta(Listener(self.sock))
    ...     def receive(self, message: bytes) -> None:
    ...         self.line.tell(message.upper())
    >>> async def main() -> bytes:
    ...     ours, theirs = socket.socketpair()
    ...     async with ActorSystem() as system:
    ...         system.spawn(Shouter, ours)
    ...         theirs.sendall(b"hello")
    ...         answer = await asyncio.to_thread(theirs.recv, 1024)
    ...     theirs.close()
    ...     return answer
    >>> asyncio.run(main())
    b'HELLO'

    All six callbacks are optional. `start`, `handle_message`, `handle_call`, `terminate` and `inspect` may be `async
    def`: then they run on the system's event loop, and take no thread.
    """

    # True if the plain handlers never block: they run on the system's event loop.
    _on_loop: ClassVar[bool] = False
    # Named after this, if not after its class.
    _label: ClassVar[str | None] = None
    # None until spawned.
    _incarnation: Incarnation | None = None
    _state: MetaState = MetaState.SLEEP
    _send_lane: Lane = Lane.DATA
    _compression: Compression = Compression()

    # -- the callbacks

    def init(self) -> object:
        """Called once, by `spawn_meta`. If it raises, nothing is spawned, and `spawn_meta` raises the same."""

    def start(self) -> object:
        """Read from the world outside; runs beside the handlers, on a thread of its own. When it returns, all ends.

        Without a `start` of its own, a meta-process only handles messages, and lives until it is stopped.
        """

    def handle_message(self, message: Any) -> object:
        """Handle what an actor told; it may block. If it raises, the meta-process ends. `self.sender` told it."""
        return UNHANDLED

    def handle_call(self, request: Any) -> object:
        """Answer what an actor asked; it may block. If it raises, that is the answer. `self.sender` asked."""
        return UNHANDLED

    def terminate(self, reason: ExitReason) -> object:
        """Called last, however it ends: close what is open, and end what `start()` still waits for."""

    def inspect(self, *items: str) -> Mapping[str, Any]:
        """What it shows of itself to `alias.inspect()` and observers; asked for between two messages."""
        return {}

    # -- further callbacks, of the runtime's own meta-processes

    def _give_up(self) -> None:
        """Release what must not be left behind: `terminate` has failed, or not come to its end."""

    def _prepare(self) -> object:
        """Called on the loop before the meta-process has started, and awaited if awaitable."""

    def _is_unready(self) -> bool:
        """True if messages have to wait until it is connected, say."""
        return False

    def _before_children_end(self) -> None:
        """Called before the meta-processes below it end."""

    # -- what it can find out and do, from either thread

    def _spawned(self, operation: str = "this") -> Incarnation:
        if self._incarnation is None:
            raise MetaNotSpawned(type(self).__name__, operation)
        return self._incarnation

    def _require_running(self, operation: str, error: Callable[[Alias, str], Exception]) -> Incarnation:
        incarnation = self._spawned(operation)
        if self._state is not MetaState.RUNNING:
            raise error(incarnation.alias, self._state.value)
        return incarnation

    @property
    def id(self) -> Alias:
        """The alias of this meta-process: what others send to."""
        return self._spawned("`id`").alias

    @property
    def parent(self) -> ActorRef:
        """The actor, or the meta-process, that it belongs to."""
        return cast("ActorRef", self._spawned("`parent`").alias.parent)

    @property
    def state(self) -> MetaState:
        """SLEEP, RUNNING or TERMINATED."""
        return self._state

    @property
    def env(self) -> Mapping[str, Any]:
        """Environment variables: from its options, then from its parent, then from the system's config."""
        return self._spawned("`env`").ctx.env

    @property
    def log(self) -> logging.LoggerAdapter[logging.Logger]:
        """A logger that adds the fields `actor`, `actor_id` and `system` to its records."""
        return self._spawned("`log`").ctx.log

    @property
    def sender(self) -> ActorRef | None:
        """In a handler: who sent the current message. None if it came from outside."""
        return self._spawned("`sender`").ctx.sender

    def send(self, target: ActorRef, message: Any, *, lane: Lane | None = None, wait: bool = False) -> None:
        """Tell `target` something, as coming from this meta-process. From any thread.

        A full mailbox raises `MailboxFull`. With `wait`, a plain `start()` blocks until there is room instead, and so
        holds up the source it reads from; an `async def` writes `await target.send(message)`.
        """
        alias = self._spawned("`send()`").alias
        chosen = self._send_lane if lane is None else as_lane(lane)
        if not wait:
            target.tell(message, lane=chosen, sender=alias)
            return
        while True:
            try:
                block_for_room(target._cell, message, BETWEEN_LOOKS, chosen, alias)
                return
            except SendTimeout:
                if self.stopping:
                    raise ReaderStopped from None

    @property
    def stopping(self) -> bool:
        """True if the meta-process is to end. A `start()` that does not block for long looks here."""
        return self._incarnation is not None and self._incarnation.is_stopping

    def wait(self, seconds: float | None = None) -> bool:
        """Block until the meta-process is to end, for at most `seconds`; True if it is.

        For a plain `start()`, instead of `sleep`.
        """
        return self._spawned("`wait()`").waits.wait_for_end(seconds)

    def wait_readable(self, fd: FileDescriptorLike, seconds: float | None = None) -> bool:
        """Block until `fd` can be read from, or accepts, for at most `seconds`; True if it can.

        For a plain `start()`, before it reads from a pipe, a terminal or a device. When the meta-process is to end,
        this raises `ReaderStopped`; let it out of `start()`, it is no failure. `fd` is a number, or has a `fileno()`.
        """
        return self._spawned("`wait_readable()`").waits.wait_for_fd(fd, select.POLLIN, seconds)

    def wait_writable(self, fd: FileDescriptorLike, seconds: float | None = None) -> bool:
        """Block until `fd` can be written to, for at most `seconds`; True if it can. See `wait_readable`."""
        return self._spawned("`wait_writable()`").waits.wait_for_fd(fd, select.POLLOUT, seconds)

    @property
    def send_lane(self) -> Lane:
        """The lane of what it sends. Handlers can set it; see also `MetaOptions`."""
        return self._send_lane

    @send_lane.setter
    def send_lane(self, lane: Lane) -> None:
        self._require_running("`send_lane`", MetaCannotSetLane)
        self._send_lane = as_lane(lane)

    @property
    def compression(self) -> Compression:
        """How large messages to other nodes are compressed. Handlers can set it; see also `MetaOptions`."""
        return self._compression

    @compression.setter
    def compression(self, compression: Compression) -> None:
        self._require_running("`compression`", MetaCannotCompress)
        self._compression = MetaOptions(compression=compression).compression

    def defer_reply(self) -> Reply:
        """In a handler: answer later, from anywhere, with `.send(value)` or `.fail(exc)`."""
        return self._require_running("`defer_reply()`", MetaCannotReply).defer_reply()

    # -- what it cannot do

    def ask(self, *args: object, **kwargs: object) -> NoReturn:
        """Raise: a meta-process cannot wait for an answer."""
        raise MetaCannotAsk(self._spawned("`ask()`").alias)

    ask_sync = ask

    def link(self, *args: object) -> NoReturn:
        """Raise: actors link to meta-processes, and not the other way round."""
        raise MetaCannotLink(self._spawned("`link()`").alias)

    def monitor(self, *args: object) -> NoReturn:
        """Raise: actors monitor meta-processes, and not the other way round."""
        raise MetaCannotMonitor(self._spawned("`monitor()`").alias)

    def watch(self, *args: object) -> NoReturn:
        """Raise: actors watch meta-processes, and not the other way round."""
        raise MetaCannotWatch(self._spawned("`watch()`").alias)

    def spawn(self, meta: MetaProcess | Callable[[], MetaProcess], options: MetaOptions | None = None, /) -> Alias:
        """Bring up a meta-process that belongs to this one. Not after the end."""
        incarnation = self._spawned("`spawn()`")
        if self._state is MetaState.TERMINATED:
            raise MetaEnded(incarnation.alias)
        factory = None
        if not isinstance(meta, MetaProcess):
            is_ours = isinstance(meta, type) and issubclass(meta, MetaProcess)
            if not is_ours and (isinstance(meta, type) or not callable(meta)):
                raise MetaCannotSpawnActors(incarnation.alias, repr(meta))
            factory, meta = meta, meta()
            if not isinstance(meta, MetaProcess):
                raise MetaCannotSpawnActors(incarnation.alias, repr(meta))
        return spawn_meta(meta, incarnation.ctx, options, factory)

    def __greenroom_spawn__(
        self, parent: Any, options: MetaOptions | None, factory: Callable[[], Any] | None, /
    ) -> Alias:
        return spawn_meta(self, parent, options, factory)


# Called with the meta-process, the message, and its sender.
Handle = Callable[[MetaProcess, object, object], object]
_HANDLERS = ("handle_message", "handle_call", "terminate", "inspect")


class Callbacks:
    """Which callbacks a class has, how they are called, and where they run. Made once per class."""

    __slots__ = ("handle_call", "handle_message", "on_loop", "own_code", "reads", "reads_async")

    def __init__(self, cls: type[MetaProcess]) -> None:
        def has(name: str) -> bool:
            return getattr(cls, name) is not getattr(MetaProcess, name)

        for name in ("init", "start", "handle_message", "handle_call", "terminate", "inspect"):
            function = getattr(cls, name)
            if not callable(function):
                raise NotAMeta(f"{cls.__name__}.{name} is {function!r}: it must be a method")
            if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
                raise NotAMeta(f"{cls.__name__}.{name} has a `yield`: it must be a plain method, or an `async def`")
        if iscoroutinefunction(cls.init):
            raise NotAMeta(
                f"{cls.__name__}.init is async: `spawn_meta` waits for it; what takes time goes into `start`"
            )
        _require_arguments(cls, "init", 0)
        _require_arguments(cls, "start", 0)
        _require_arguments(cls, "terminate", 1)
        self.reads = has("start")
        self.reads_async = iscoroutinefunction(cls.start)
        self.handle_message: Handle = _with_sender(cls, "handle_message")
        self.handle_call: Handle = _with_sender(cls, "handle_call")
        # A handler that may block gets a thread while it runs.
        blocks = any(has(name) and not iscoroutinefunction(getattr(cls, name)) for name in _HANDLERS)
        self.on_loop = cls._on_loop or not blocks
        self.own_code = not cls.__module__.startswith("greenroom.meta.")


def callbacks_of(cls: type[MetaProcess]) -> Callbacks:
    known: Callbacks | None = cls.__dict__.get("__greenroom_callbacks__")
    if known is None:
        known = Callbacks(cls)
        cls.__greenroom_callbacks__ = known  # type: ignore[attr-defined]
    return known


def _parameters(cls: type, name: str) -> list[str] | None:
    """The required parameters of a method after `self`; None if it takes any, or has no signature."""
    try:
        parameters = list(inspect.signature(getattr(cls, name)).parameters.values())
    except (TypeError, ValueError):
        return None
    if any(one.kind is one.VAR_POSITIONAL for one in parameters):
        return None
    if not isinstance(inspect.getattr_static(cls, name), staticmethod | classmethod):
        parameters = parameters[1:]
    required = [one for one in parameters if one.default is one.empty and one.kind is not one.VAR_KEYWORD]
    return [one.name for one in required if one.kind is not one.KEYWORD_ONLY or one.name == "sender"]


def _require_arguments(cls: type, name: str, number: int) -> None:
    function = getattr(cls, name)
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return
    is_bound = isinstance(inspect.getattr_static(cls, name), staticmethod | classmethod)
    try:
        signature.bind(*[None] * (number + (0 if is_bound else 1)))
    except TypeError:
        wanted = "no arguments" if number == 0 else f"{number} argument"
        raise NotAMeta(f"{cls.__name__}.{name}{signature} cannot be called: it is given {wanted}") from None


def _with_sender(cls: type, name: str) -> Handle:
    function: Any = getattr(cls, name)
    taken = _parameters(cls, name)
    if taken is None or len(taken) == 1:
        return lambda meta, message, sender: function(meta, message)
    if len(taken) == 2 and taken[0] == "sender":
        return lambda meta, message, sender: function(meta, sender, message)
    if len(taken) == 2 and taken[1] == "sender":
        return lambda meta, message, sender: function(meta, message, sender=sender)
    raise NotAMeta(
        f"{cls.__name__}.{name}({', '.join(['self', *taken])}) cannot be called: it takes the message and, if you "
        "like, its `sender`"
    )


class Incarnation:
    """One meta-process, from `spawn_meta` or a restart to its end."""

    __slots__ = (
        *("_handles", "_handoff", "_has_ended", "_receipt", "alias", "callbacks", "ctx", "initialised", "meta"),
        *("reader", "waits"),
    )

    alias: Alias
    ctx: Context

    def __init__(self, meta: MetaProcess, options: MetaOptions) -> None:
        if not isinstance(meta, MetaProcess):
            raise NotAMeta(f"{meta!r} is no MetaProcess")
        if meta._incarnation is not None:
            raise MetaSpawnedBefore(type(meta).__name__)
        self.meta = meta
        self.callbacks = callbacks_of(type(meta))
        self.initialised = False
        self.reader: TaskReader | ThreadReader | None = None
        self.waits = Waits()
        # Whether a thread runs a handler. One that was abandoned still does.
        self._handles = False
        self._has_ended = False
        # The hand-off of the last thread that was told how to break a handler off.
        self._handoff: object = None
        # The sender of the last message: a ref, None or a receipt.
        self._receipt: object = None
        meta._send_lane = options.send_lane
        meta._compression = options.compression

    # -- beginning

    def attach(self, ctx: Any) -> Incarnation:
        self.ctx = ctx
        self.alias = cast("Alias", ctx.self)
        self.meta._incarnation = self
        return self

    def initialise(self) -> None:
        if not self.initialised:
            self.initialised = True
            result = self.meta.init()
            if isawaitable(result):
                close_unawaited(result)

    def begin(self) -> None:
        if self.callbacks.reads:
            self.reader = TaskReader(self) if self.callbacks.reads_async else ThreadReader(self)
            self.reader.begin()
        if self.meta._is_unready():
            # When it has started: a restart lets messages in only then.
            self.ctx.cell.order(lambda cell: self.stall(self.meta._is_unready()))

    @property
    def is_stopping(self) -> bool:
        return self.waits.is_over

    def stall(self, stalls: bool) -> None:
        """Hold data messages up, or no longer. Orders and the other lanes are never held up."""
        cell = self.ctx.cell
        resting = cell.loop.host.resting
        if stalls:
            if not self.is_stopping:
                cell.stall()
                resting[cell] = None
        elif cell in resting:
            del resting[cell]
            cell.unstall()

    def bury(self, message: object, why: str) -> None:
        """Make a dead letter of a message that cannot be passed on."""
        self.ctx.cell.loop.host.publish(message, self.ctx.sender, self.alias, why)

    # -- messages

    def handle(self, message: object) -> object:
        meta = self.meta
        ctx = self.ctx
        receipt = ctx._receipt()
        is_call = isinstance(receipt, Question)
        handle = self.callbacks.handle_call if is_call else self.callbacks.handle_message
        if not self.callbacks.on_loop:
            self._handles = True
            self._note_handoff()
        meta._state = MetaState.RUNNING
        self._receipt = receipt
        waits = False
        try:
            result = handle(meta, message, ctx.sender)
            if isawaitable(result):
                waits = True
                return self._await(result, is_call)
        except Exception as exc:
            if not is_call:
                raise
            self._answer_with(exc)
            return None
        except ReaderStopped:
            raise asyncio.CancelledError from None  # its time is up: that is how handlers are broken off
        finally:
            if not waits:
                self._set_asleep()
            self._handles = False
            self.close_what_is_left()  # if it was abandoned
        return result if is_call or result is UNHANDLED else None

    async def _await(self, result: Awaitable[object], is_call: bool) -> object:
        try:
            value = await result
        except Exception as exc:
            if not is_call:
                raise
            self._answer_with(exc)
            return None
        finally:
            self._set_asleep()
        return value if is_call or value is UNHANDLED else None

    def _set_asleep(self) -> None:
        if self.meta._state is MetaState.RUNNING:
            self.meta._state = MetaState.SLEEP

    def _answer_with(self, exc: Exception) -> None:
        self._set_asleep()  # before the asker has the answer, and may look
        try:
            self.ctx.fail_reply(exc)
        except AlreadyReplied:
            self.ctx.log.exception("handle_call() raised after it had replied, which changes nothing")

    def defer_reply(self) -> Reply:
        receipt, ctx = self._receipt, self.ctx
        loop = ctx.cell.loop
        if not isinstance(receipt, Question):
            return Reply(loop, None, lambda value: ctx._reply_by_telling(receipt, value))
        if receipt.replied:
            raise AlreadyReplied
        ctx.system._call("defer_reply()", lambda: ctx._owe(receipt))
        return Reply(loop, receipt, lambda value: None)

    def _note_handoff(self) -> None:
        # So that the handler on this thread can be broken off.
        handoff: Any = current_handoffs.get(get_ident())
        if handoff is not None and handoff is not self._handoff:
            self._handoff = handoff
            handoff.on_cancel(self._break_off)

    def _break_off(self) -> None:
        self.waits.end()
        shut_down(self.meta)

    # -- the end

    def reader_ended(self, error: BaseException | None) -> None:
        if self.is_stopping:
            return
        life = self.ctx.cell.loop.host
        if error is None:
            life.request_end(self.ctx.cell, NORMAL)
        else:
            life.request_failure(self.ctx.cell, error, why="because its start() raised")

    def _stop(self) -> None:
        self.waits.end()
        self.stall(False)

    def _finish(self) -> None:
        self._has_ended = True
        self.close_what_is_left()

    def close_what_is_left(self) -> None:
        """Close what the meta-process holds, if it has ended and no thread uses that."""
        if self._has_ended and not self._handles and (self.reader is None or self.reader.has_returned):
            close_held(self.meta)

    def give_up(self) -> None:
        """End by force: `terminate` is not called."""
        if not self._has_ended:
            self._stop()
            if self.reader is not None:
                self.reader.break_off()
            self.meta._give_up()
            self._finish()

    def end(self, reason: ExitReason, call: Call | None, *, awaits: bool = True) -> Awaitable[object] | None:
        """Break off the reader, and terminate. Returns what is still to be awaited, if anything.

        `call` calls a function where that may block; None if nothing of the meta-process blocks, or it has not started.
        Without `awaits`, what is to be awaited is given up instead.
        """
        self._stop()
        begun = None
        if call is None and (self.reader is None or self.reader.over):
            self.meta._state = MetaState.TERMINATED
            begun = self._attempt_terminate(reason)
            if isawaitable(begun) and not awaits:
                close_unawaited(begun)
                self.meta._give_up()
            if not isawaitable(begun) or not awaits:
                self._finish()
                return None
        return self._end_slowly(reason, call, begun)

    async def _end_slowly(self, reason: ExitReason, call: Call | None, begun: object = None) -> None:
        reader = self.reader
        aio = asyncio.get_running_loop()
        own: float | None = self.ctx.settings().stop_timeout
        deadline = aio.time() + (self.ctx.cell.loop.host.system.config.stop_timeout if own is None else own)
        is_done = has_time = False
        try:
            try:
                if begun is None:
                    # If the reader is about to leave, wait for that: what `terminate` closes is then not in use.
                    has_time = True
                    if reader is not None and (reader.break_off() or self.waits.is_used):
                        has_time = await reader.wait_until_over(aio.time() + TIME_TO_LEAVE)
                    self.meta._state = MetaState.TERMINATED
                    begun = await call(self._attempt_terminate, reason) if call else self._attempt_terminate(reason)
                if isawaitable(begun):
                    try:
                        await begun
                    except (Exception, ReaderStopped):
                        self._say_terminate_raised()
                is_done = True
            except asyncio.CancelledError:
                has_time = False  # the time is up
            if reader is not None and not (has_time and await reader.wait_until_over(deadline)):
                await reader.wait_until_over(min(deadline, aio.time() + TIME_TO_LEAVE))
        finally:
            if not is_done:
                self.meta._give_up()
            self._finish()
            if reader is not None and not reader.over:
                told = "start() of %s does not return, whatever is done: its thread is abandoned. It is at:\n%s"
                life = self.ctx.cell.loop.host
                life.note_forced(self.ctx.cell)
                _log.error(told, self.alias, reader.stack(), extra=life.log_fields(self.ctx.cell))

    def _attempt_terminate(self, reason: ExitReason) -> object:
        try:
            return self.meta.terminate(reason)
        except (Exception, ReaderStopped):
            self._say_terminate_raised()
            return None

    def _say_terminate_raised(self) -> None:
        fields = self.ctx.cell.loop.host.log_fields(self.ctx.cell)
        _log.exception("terminate() of %s raised, which changes nothing", self.alias, extra=fields)


class MetaActor(Actor[Any, Any]):
    """A meta-process as the runtime sees it."""

    __slots__ = ("_factory", "_incarnation")

    _incarnation: Incarnation

    def __init__(self, factory: MetaFactory) -> None:
        self._factory = factory

    def _reason(self) -> ExitReason:
        if self.ctx.reason is not None:
            return self.ctx.reason
        extras = self.ctx.extras
        cause = None if extras is None or extras.restart_state is None else extras.restart_state.cause
        return SHUTDOWN if cause is None else ExitReason.of(cause)

    def receive(self, message: object) -> object:
        return self._incarnation.handle(message)

    def inspect(self, *items: str) -> Mapping[str, Any]:
        return self._incarnation.meta.inspect(*items)


class LoopMeta(MetaActor):
    """A meta-process whose callbacks never block: they run on the loop's thread."""

    __slots__ = ()
    __greenroom_stays_on_loop__: ClassVar[bool] = True

    def pre_start(self) -> object:
        self._incarnation = self._factory.next_incarnation(self.ctx)
        self._incarnation.initialise()
        return self._incarnation.meta._prepare()

    def post_start(self) -> None:
        self._incarnation.begin()

    def pre_stop(self) -> None:
        self._incarnation.meta._before_children_end()

    def post_stop(self) -> object:
        return self._incarnation.end(self._reason(), None)


class PoolMeta(MetaActor):
    """A meta-process whose callbacks may block: they run on a thread of the pool, and hooks here on the loop's."""

    __slots__ = ()

    async def _call(self, function: Callable[..., object], *arguments: object) -> object:
        executor = self.ctx.ensure_extras().executor
        if executor is None:  # a simulation has no threads
            return function(*arguments)
        return await executor.call(self.ctx.cell, function, arguments, True)

    async def pre_start(self) -> None:
        self._incarnation = self._factory.next_incarnation(self.ctx)
        if not self._incarnation.initialised:
            await self._call(self._incarnation.initialise)

    async def post_start(self) -> None:
        self._incarnation.begin()

    async def post_stop(self) -> None:
        ending = self._incarnation.end(self._reason(), self._call)
        if ending is not None:
            await ending


class MetaFactory:
    """Has the incarnations of a meta-process: first the one spawned, then those that the user's function makes."""

    __slots__ = ("_current", "_factory", "_options", "first")

    def __init__(self, factory: Callable[[], MetaProcess] | None, options: MetaOptions) -> None:
        # The first incarnation, from the end of `init()` until it starts or ends: in a list, whose `pop()` gives it to
        # one of two threads only.
        self.first: list[Incarnation] = []
        self._factory = factory
        # The last incarnation that has started.
        self._current: Incarnation | None = None
        self._options = options

    def next_incarnation(self, ctx: Context) -> Incarnation:
        if self.first:
            self._current = self.first.pop()
        elif self._factory is None:
            raise MetaSpawnedBefore(ctx.self.name)
        else:
            self._current = Incarnation(self._factory(), self._options).attach(ctx)
        return self._current

    def give_up(self) -> None:
        """End by force: no hook runs."""
        if self._current is None:
            self.end_unstarted(KILLED, awaits=False)
        else:
            self._current.give_up()

    def end_unstarted(self, reason: ExitReason, *, awaits: bool = True) -> Awaitable[object] | None:
        """End what was spawned and has not started. Returns what is still to be awaited, if anything."""
        with suppress(IndexError):
            return self.first.pop().end(reason, None, awaits=awaits)
        return None


def spawn_meta(
    meta: MetaProcess,
    parent: Context,
    options: MetaOptions | None = None,
    factory: Callable[[], MetaProcess] | None = None,
) -> Alias:
    """Spawn `meta` as a child of the actor whose context is `parent`: call `init` here, and then start it."""
    if options is None:
        options = MetaOptions()
    elif not isinstance(options, MetaOptions):
        raise NotAMeta(f"spawn_meta() takes its options as MetaOptions(...), not as {options!r}")
    incarnation = Incarnation(meta, options)
    metas = MetaFactory(factory, options)
    system: Any = parent.system
    chosen: dict[str, Any] = {
        "name": options.name,
        "mailbox": options.mailbox,
        "env": options.env,
        "stop_timeout": options.stop_timeout,
        "supervision": options.supervision,
    }
    callbacks = incarnation.callbacks
    if not callbacks.on_loop:
        chosen["dispatcher"] = DISPATCHER
        if DISPATCHER not in system.dispatchers:
            with suppress(DispatcherExists):  # another thread was faster
                system.dispatchers.add(DISPATCHER, Parallel(THREADS))
    actor = LoopMeta if callbacks.on_loop else PoolMeta
    label = type(meta)._label or type(meta).__name__
    alias: Alias = system._prepare_meta(props(actor, metas), label, parent.self, chosen, callbacks.own_code)
    life = alias._cell.loop.host
    incarnation.attach(alias._cell.record)
    try:
        incarnation.initialise()
    except BaseException:
        meta._incarnation = None
        life.call("spawn_meta()", partial(life.undo_meta, alias._cell))
        raise
    metas.first.append(incarnation)
    if not life.call("spawn_meta()", partial(life.start_meta, alias._cell)):
        metas.end_unstarted(NORMAL, awaits=False)
        raise ActorTerminated(parent.self, "it ended while its meta-process was made")
    return alias
