"""The runtime's side of one meta-process: whose it is, how far it is, and how it ends."""

from __future__ import annotations

import asyncio
import threading
from _thread import get_ident
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from inspect import isawaitable
from logging import Logger, LoggerAdapter
from typing import TYPE_CHECKING, Any, cast

from greenroom._core.current import current_handoffs
from greenroom._core.delivery.waitingline import Waiter
from greenroom.actor.api.becoming import close_unawaited
from greenroom.actor.api.behavior import UNHANDLED
from greenroom.actor.messaging.blocking import block_for_room
from greenroom.actor.messaging.question import Question
from greenroom.actor.messaging.reply import Reply
from greenroom.actor.messaging.waiting import on_loop, wait_for_room
from greenroom.errors import AlreadyReplied, SendTimeout
from greenroom.exits import NORMAL, ExitReason
from greenroom.lanes import Lane
from greenroom.meta.process.interrupt import ReaderStopped, break_off, close_held, restore
from greenroom.meta.process.reader import Reader, TaskReader, ThreadReader
from greenroom.meta.process.state import MetaState
from greenroom.runtimelog import RuntimeLog

if TYPE_CHECKING:
    from greenroom.actor.api.context import Context
    from greenroom.actor.messaging.ref import ActorRef, Alias
    from greenroom.meta.process.base import MetaBase
    from greenroom.meta.process.callbacks import Callbacks
    from greenroom.meta.process.options import MetaOptions

    Call = Callable[..., Awaitable[object]]

__all__ = ["MetaHost"]

_log = RuntimeLog()

RUNNING = MetaState.RUNNING
SLEEP = MetaState.SLEEP
TERMINATED = MetaState.TERMINATED

BETWEEN_LOOKS = 0.25


class MetaHost:
    """One incarnation of one meta-process."""

    __slots__ = (
        *("_event", "_handoff", "alias", "callbacks", "ctx", "initialised", "is_stopping", "meta", "reader"),
        "receipt",
    )

    alias: Alias
    ctx: Context

    def __init__(self, meta: MetaBase, callbacks: Callbacks, options: MetaOptions) -> None:
        self.meta = meta
        self.callbacks = callbacks
        self.initialised = False
        self.is_stopping = False
        self.reader: Reader | None = None
        # What blocks until it is to end; made on first use, by any thread.
        self._event: threading.Event | None = None
        # The work of a thread that has been told how to be broken off in it.
        self._handoff: object = None
        # Who sent the message that is handled, or was last: a ref, nobody, or a receipt.
        self.receipt: object = None
        meta._send_lane = options.send_lane
        meta._compression = options.compression

    # -- beginning

    def attach(self, ctx: Any) -> MetaHost:
        """Let it be the one with this context."""
        self.ctx = ctx
        self.alias = cast("Alias", ctx.self)
        self.meta._host = self
        return self

    def detach(self) -> None:
        """It was not spawned after all."""
        self.meta._host = None

    def initialise(self) -> None:
        """Call its `init`, once."""
        if not self.initialised:
            self.initialised = True
            result = self.meta.init()
            if isawaitable(result):
                getattr(result, "close", lambda: None)()

    def begin(self) -> None:
        """Have its `start` run."""
        if self.callbacks.reads:
            self.reader = TaskReader(self) if self.callbacks.reads_async else ThreadReader(self)
            self.reader.begin()
        if self.meta._is_unready():
            # When it has started: a restart lets messages in only then.
            self.ctx.cell.order(lambda cell: self._stall_if_unready())

    def _stall_if_unready(self) -> None:
        if self.meta._is_unready():
            self.stall(True)

    # -- what the meta-process asks

    @property
    def parent(self) -> ActorRef:
        """Whose it is."""
        return cast("ActorRef", self.alias.parent)

    @property
    def env(self) -> Mapping[str, Any]:
        """Its environment."""
        return self.ctx.env

    @property
    def log(self) -> LoggerAdapter[Logger]:
        """Its logger."""
        return self.ctx.log

    @property
    def sender(self) -> ActorRef | None:
        """Who sent the message in hand."""
        return self.ctx.sender

    @property
    def stopping(self) -> threading.Event:
        """Set when it is to end."""
        event = self._event
        if event is None:
            event = self._event = threading.Event()
            if self.is_stopping:
                event.set()
        return event

    def send_when_room(self, target: ActorRef, message: object, lane: Lane) -> None:
        """Send, and block until there is room; raise what ends a reader when it is to end."""
        while True:
            try:
                block_for_room(target._cell, message, BETWEEN_LOOKS, lane, self.alias)
                return
            except SendTimeout:
                if self.is_stopping:
                    raise ReaderStopped from None

    def stall(self, stalls: bool) -> None:
        """Let data messages wait, as long as what they bring cannot be passed on.

        It can be stopped all the same, and what comes by the control or management lane is handled.
        """
        cell = self.ctx.cell
        resting = cell.loop.host.resting
        if stalls:
            if not self.is_stopping:
                cell.stall()
                resting[cell] = None
        elif cell in resting:
            del resting[cell]
            cell.unstall()

    async def send_patiently(self, target: ActorRef, message: object) -> None:
        """Send, and await room for it."""
        cell = target._cell
        admission = cell.loop.admission
        if admission.admit_if_room(cell, message, self.alias, Lane.DATA):
            return
        if cell.is_foreign():
            await wait_for_room(cell, message, self.alias, Lane.DATA, None)
            return
        sent = asyncio.Event()
        waiter = Waiter(message, self.alias, Lane.DATA, lambda refused: sent.set())
        admission.wait_for_room(cell, waiter)
        try:
            await sent.wait()
        finally:
            admission.give_up(cell, waiter)

    def send_in_time(self, target: ActorRef, message: object) -> None:
        """Send now, or as soon as there is room; nobody waits for that."""
        cell = target._cell
        admission = cell.loop.admission
        if not admission.admit_if_room(cell, message, self.alias, Lane.DATA):
            waiter = Waiter(message, self.alias, Lane.DATA, lambda refused: None)
            on_loop(cell, partial(admission.wait_for_room, cell, waiter))

    def bury(self, message: object, why: str) -> None:
        """Let a message that cannot be passed on be a dead letter."""
        self.ctx.cell.loop.host.publish(message, self.ctx.sender, self.alias, why)

    # -- messages

    def handle(self, message: object) -> object:
        """Have a message handled, or a call answered, wherever this is."""
        meta = self.meta
        ctx = self.ctx
        receipt = ctx._receipt()
        is_call = isinstance(receipt, Question)
        handle = self.callbacks.handle_call if is_call else self.callbacks.handle_message
        if not self.callbacks.on_loop:
            self._note_thread()
        meta._state = RUNNING
        self.receipt = receipt
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
        finally:
            if not waits:
                self._fall_asleep()
            if not self.callbacks.on_loop:
                restore(threading.current_thread())
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
            self._fall_asleep()
        return value if is_call or value is UNHANDLED else None

    def _fall_asleep(self) -> None:
        if self.meta._state is RUNNING:
            self.meta._state = SLEEP

    def _answer_with(self, exc: Exception) -> None:
        self._fall_asleep()  # before whoever asked has the answer, and may look
        try:
            self.ctx.fail_reply(exc)
        except AlreadyReplied:
            self.log.exception("handle_call() raised after it had replied, which changes nothing")

    def defer_reply(self) -> Reply:
        """Have the message that is handled answered later; also from beside its handler."""
        receipt, ctx = self.receipt, self.ctx
        loop = ctx.cell.loop
        if not isinstance(receipt, Question):
            return Reply(loop, None, lambda value: ctx._reply_by_telling(receipt, value))
        if receipt.replied:
            raise AlreadyReplied
        ctx.system._call("defer_reply()", lambda: ctx._owe(receipt))
        return Reply(loop, receipt, lambda value: None)

    def _note_thread(self) -> None:
        """Let the thread that works for it now be broken off, if it must be."""
        handoff: Any = current_handoffs.get(get_ident())
        if handoff is not None and handoff is not self._handoff:
            self._handoff = handoff
            thread = threading.current_thread()
            handoff.on_cancel(lambda: break_off(thread, self.meta))

    # -- the end

    def reader_ended(self, reader: Reader, error: BaseException | None) -> None:
        """Its `start` has returned, or raised. On the loop's own thread."""
        if reader is not self.reader or self.is_stopping:
            return
        life = self.ctx.cell.loop.host
        if error is None:
            life.request_end(self.ctx.cell, NORMAL)
        else:
            life.request_failure(self.ctx.cell, error, why="because its start() raised")

    def end_unstarted(self, reason: ExitReason, *, awaits: bool) -> Awaitable[object] | None:
        """It ends before it has started: what is still to be awaited, if something is and somebody `awaits` it."""
        self._stop()
        self.meta._state = TERMINATED
        result = self._attempt_terminate(reason)
        if isawaitable(result):
            if awaits:
                return self._end_slowly(reason, None, result)
            close_unawaited(result)
            self.meta._give_up()
        close_held(self.meta)
        return None

    def _stop(self) -> None:
        self.is_stopping = True
        self.stall(False)
        if self._event is not None:
            self._event.set()

    def end(self, reason: ExitReason, call: Call | None) -> Awaitable[object] | None:
        """Break off its reader, and have it terminate; what is still to be awaited, if something is.

        `call` has a function called where it may block; None if nothing of it blocks.
        """
        self._stop()
        reader = self.reader
        if call is None and (reader is None or reader.over):
            self.meta._state = TERMINATED
            result = self._attempt_terminate(reason)
            if isawaitable(result):
                return self._end_slowly(reason, call, result)
            close_held(self.meta)
            return None
        return self._end_slowly(reason, call)

    async def _end_slowly(self, reason: ExitReason, call: Call | None, begun: object = None) -> None:
        reader = self.reader
        is_done = has_time = False
        try:
            if begun is not None:
                await self._await_terminate(begun)
                is_done = True
                return
            # If the reader is about to leave, what `terminate` closes is then not in use any more.
            has_time = reader is None or not reader.break_off() or await reader.leave_off()
            self.meta._state = TERMINATED
            if call is None:
                await self._await_terminate(self._attempt_terminate(reason))
            else:
                await call(self._attempt_terminate, reason)
            is_done = True
            if has_time and reader is not None and not reader.over:
                await reader.insist(self._stop_timeout())
                if not reader.over:
                    self._say_stuck(reader)
        except asyncio.CancelledError:
            has_time = False  # who cancels this has said so
        finally:
            if not is_done:
                self.meta._give_up()
            close_held(self.meta)
        if not has_time and reader is not None:
            reader.insist_alone(self._stop_timeout(), self._say_stuck)

    def _stop_timeout(self) -> float:
        own: float | None = self.ctx.settings().stop_timeout
        default: float = self.ctx.cell.loop.host.port.config.stop_timeout
        return default if own is None else own

    def _say_stuck(self, reader: Reader) -> None:
        told = "start() of %s does not return, whatever is done: its thread is abandoned. It is at:\n%s"
        fields = self.ctx.cell.loop.host.log_fields(self.ctx.cell)
        _log.error(told, self.alias, reader.where(), extra=fields)

    async def _await_terminate(self, result: object) -> None:
        if isawaitable(result):
            try:
                await result
            except Exception:
                self._say_terminate_raised()

    def _attempt_terminate(self, reason: ExitReason) -> object:
        try:
            return self.meta.terminate(reason)
        except Exception:
            self._say_terminate_raised()
            return None

    def _say_terminate_raised(self) -> None:
        fields = self.ctx.cell.loop.host.log_fields(self.ctx.cell)
        _log.exception("terminate() of %s raised, which changes nothing", self.alias, extra=fields)
