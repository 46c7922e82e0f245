"""One incarnation of a meta-process, and the actor that it is to the runtime: calls its callbacks, and ends it."""

from __future__ import annotations

import asyncio
from _thread import get_ident
from collections.abc import Awaitable, Callable, Mapping
from inspect import isawaitable
from typing import TYPE_CHECKING, Any, ClassVar, cast

from greenroom._core.current import current_handoffs
from greenroom.actor.api.actor import Actor
from greenroom.actor.api.behavior import UNHANDLED, close_unawaited
from greenroom.actor.messaging.question import Question
from greenroom.actor.messaging.reply import Reply
from greenroom.errors import AlreadyReplied
from greenroom.exits import NORMAL, SHUTDOWN, ExitReason
from greenroom.meta.process.options import MetaState
from greenroom.meta.process.reader import ReaderStopped, TaskReader, ThreadReader, Waits, close_held, shut_down
from greenroom.runtimelog import RuntimeLog

if TYPE_CHECKING:
    from greenroom.actor.api.context import Context
    from greenroom.actor.messaging.ref import Alias
    from greenroom.meta.process.metaprocess import Callbacks, MetaFactory, MetaProcess
    from greenroom.meta.process.options import MetaOptions

    Call = Callable[..., Awaitable[object]]

__all__ = ["Incarnation", "LoopMeta", "PoolMeta"]

_log = RuntimeLog()

TIME_TO_LEAVE = 0.3
"""Seconds that a reader has to leave what it was broken off in before `terminate()` is called beside it."""


class Incarnation:
    """One meta-process, from `spawn_meta` or a restart to its end."""

    __slots__ = (
        *("_handles", "_handoff", "_has_ended", "_receipt", "alias", "callbacks", "ctx", "initialised", "meta"),
        *("reader", "waits"),
    )

    alias: Alias
    ctx: Context

    def __init__(self, meta: MetaProcess, callbacks: Callbacks, options: MetaOptions) -> None:
        self.meta = meta
        self.callbacks = callbacks
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

    def end_unstarted(self, reason: ExitReason, *, awaits: bool) -> Awaitable[object] | None:
        """End what has not started. With `awaits`, returns what the caller has to await, if anything."""
        self._stop()
        self.meta._state = MetaState.TERMINATED
        result = self._attempt_terminate(reason)
        if isawaitable(result):
            if awaits:
                return self._end_slowly(reason, None, result)
            close_unawaited(result)
            self.meta._give_up()
        self._finish()
        return None

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

    def end(self, reason: ExitReason, call: Call | None) -> Awaitable[object] | None:
        """Break off the reader, and terminate. Returns what is still to be awaited, if anything.

        `call` calls a function where that may block; None if nothing of the meta-process blocks.
        """
        self._stop()
        begun = None
        if call is None and (self.reader is None or self.reader.over):
            self.meta._state = MetaState.TERMINATED
            begun = self._attempt_terminate(reason)
            if not isawaitable(begun):
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
