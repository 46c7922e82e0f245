"""Running a system: in a block with asyncio or without, by `run()` or `start()`; and the ways to end it."""

from __future__ import annotations

import asyncio
import threading
import time
from _thread import get_ident
from collections.abc import Callable
from concurrent.futures import Future as ThreadFuture
from typing import TYPE_CHECKING

from greenroom._core.current import current_handoffs, ticking_here
from greenroom._core.scheduler.accounting import count_loop
from greenroom.actor.messaging.blocking import ThreadWait
from greenroom.errors import (
    ActorTerminated,
    BadArgument,
    ConfigError,
    HandlerBroken,
    InvalidDelay,
    LoopBusy,
    NoThread,
    NotStarted,
    SettleTimeout,
    SystemFailed,
    SystemStopped,
    WaitsForItself,
)
from greenroom.errors.base import counted
from greenroom.runtimelog import RuntimeLog
from greenroom.system.config import OnExit, SystemConfig
from greenroom.system.ending.block import Block
from greenroom.system.ending.report import Phase, ShutdownReport
from greenroom.system.eventloop import loop_factory

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

    from greenroom._core.scheduler.loop import Loop
    from greenroom._core.scheduler.poller import Poller
    from greenroom.system.ending.shutdown import Shutdown
    from greenroom.system.ending.signals import SignalHandling
    from greenroom.system.loops.group import SystemLoops

__all__ = ["CALL_TIMEOUT", "SHUTDOWN_TIMEOUT", "Running"]

_log = RuntimeLog()

CALL_TIMEOUT = 30.0
"""Seconds that a call from another thread waits for the loop."""
SHUTDOWN_TIMEOUT = 30.0
_NAP = 0.1
"""Seconds that a thread sleeps at a time while it waits for the end."""
HURRIED_TIMEOUT = 3.0
"""Seconds that a shutdown has which somebody wants to be over at once: a second for hooks, and what comes after."""


class Running:
    """The part of an `ActorSystem` that runs it and ends it."""

    if TYPE_CHECKING:
        name: str
        token: str
        config: SystemConfig
        _loop: Loop
        _poller: Poller
        _shutdown: Shutdown
        _loops: SystemLoops | None
        _block: Block
        _thread: threading.Thread | None
        _handles_signals: bool | None
        _signals: SignalHandling | None
        # Seconds that the actors have to stop, if nobody says it; and what to do about one that holds the home loop.
        _end_timeout: float
        # When its thread is left behind if a handler holds that; inf until the end is requested.
        _end_due: float
        _stuck_advice: str | None

    def _start(self) -> None:
        """Start running on this thread, in its running asyncio loop."""
        if self._shutdown.phase != Phase.NEW:
            if self._shutdown.phase == Phase.RUNNING:
                raise WaitsForItself(f"the system {self.name!r} is running already")
            raise SystemStopped(self.name)
        self._poller.attach()
        self._shutdown.phase = Phase.RUNNING  # as soon as the first thread is on its way, an actor there may ask
        if self._loops is not None:
            try:
                self._loops.start()
            except BaseException:
                self._shutdown.phase = Phase.NEW
                self._poller.detach()
                raise
        if self.config.stuck_after > 0 and self._loop.director is None:
            from greenroom.system import watchdog  # slow to import

            watchdog.watch(self, self.config.stuck_after, advice=self._stuck_advice)

    def _program_ends(self) -> None:
        """Say so if the system was never started, and had something to do."""
        if self._shutdown.phase != Phase.NEW or self._loop.director is not None:
            return
        messages = count_loop(self._loop).queued
        if messages:
            _log.warning(
                "%s was never started, so %s never handled: use `with`, `async with` or `run()`",
                self.name,
                f"{counted(messages, 'message')} {'was' if messages == 1 else 'were'}",
            )

    async def start(self) -> Self:
        """Start running in the current asyncio loop. For notebooks, where `async with` would end with its cell.

        `await system.shutdown()` ends it.
        """
        self._require_signals()
        self._start()
        self._take_signals(self._request_ordinary_end)
        return self

    async def __aenter__(self) -> Self:
        self._require_signals()
        self._start()
        self._take_signals(self._block.interrupt)
        self._block.enter()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        was_interrupted = self._block.leave(exc)
        if isinstance(exc, asyncio.CancelledError) and not was_interrupted:
            self._shutdown.hurry()
        elif exc is None or was_interrupted:
            self._request_ordinary_end()
        else:
            self._request_shutdown(self._end_timeout, None)
        if not self._is_in_handler():
            await self._shutdown.wait_or_hurry()
        if exc is None or was_interrupted or self._is_told_of_failure(exc):
            self._raise_failure()
        # Type checkers are not told: to them a block that may take an exception in would be one that may not return.
        return was_interrupted  # type: ignore[return-value]

    def __enter__(self) -> Self:
        if self._shutdown.phase != Phase.NEW or self._thread is not None:
            self._start()  # raises an error that says what is wrong
        self._require_signals()
        ready: ThreadFuture[None] = ThreadFuture()
        # A daemon, so that a handler that never returns does not keep the process alive.
        self._thread = threading.Thread(target=self._run_thread, args=(ready,), name=self.name, daemon=True)
        try:
            try:
                self._thread.start()
            except RuntimeError as exc:
                raise NoThread(f"the system {self.name!r}") from exc
            ready.result(CALL_TIMEOUT)
        except BaseException:
            self._thread = None  # it may be tried again
            raise
        self._take_signals(None)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        was_interrupted = self._leave_body(exc)
        drain_for = self._ordinary_drain() if exc is None or was_interrupted else 0.0
        self._close(self._end_timeout + drain_for, drain_for)
        if exc is None or was_interrupted or self._is_told_of_failure(exc):
            self._raise_failure()
        return was_interrupted  # type: ignore[return-value]

    def _leave_body(self, exc: BaseException | None) -> bool:
        """The body of a `with` block has ended. Whether a signal has broken it off."""
        if self._signals is None:
            return False
        from greenroom.system.ending.signals import BodyInterruption

        return isinstance(self._signals, BodyInterruption) and self._signals.leave(exc)

    def _run_thread(self, ready: ThreadFuture[None]) -> None:
        async def main() -> None:
            try:
                self._start()
            except BaseException as error:
                ready.set_exception(error)
                return
            ready.set_result(None)
            await self._shutdown.wait()

        try:
            with asyncio.Runner(loop_factory=loop_factory()) as runner:
                runner.run(main())
        except BaseException as error:
            if ready.done():
                raise
            ready.set_exception(error)  # asyncio could not start: it needs file descriptors
        finally:
            if self._signals is not None:
                self._signals.insist()

    def run(self) -> None:
        """Run on this thread, until the system is stopped: by `stop()`, by its root's end, or by a signal.

        SIGINT (Ctrl-C) and SIGTERM end it gracefully, and it returns. A second signal ends it at once: then it raises
        `SystemExit`, with 128 and the signal's number as the exit code. `ActorSystem(..., handle_signals=False)` leaves
        signals alone; a handler that the program has set itself stays.
        """
        if asyncio._get_running_loop() is not None:
            raise WaitsForItself("run() would hold up the asyncio loop of this thread: use `async with` here")
        self._require_signals()

        async def main() -> None:
            self._start()
            try:
                await self._shutdown.wait()
            except asyncio.CancelledError:  # Ctrl-C, which asyncio handles
                await self.shutdown()
                raise

        with asyncio.Runner(loop_factory=loop_factory()) as runner:
            if self._handles_signals is not False:
                self._take_signals(self._request_ordinary_end, aio=runner.get_loop())
            try:
                runner.run(main())
            except KeyboardInterrupt:
                if self._signals is None or not self._signals.forced:
                    raise
            finally:
                self._release_signals()
        self._raise_failure()

    def _require_signals(self) -> None:
        """Raise if signals are to be handled, and cannot be."""
        if self._handles_signals and threading.current_thread() is not threading.main_thread():
            raise ConfigError("handle_signals", True, "signals reach the main thread only: use it there")

    def _take_signals(self, first: Callable[[], object] | None, aio: asyncio.AbstractEventLoop | None = None) -> None:
        """Handle signals from now on, if that is wanted: `first` is called when one comes; None for a `with` block."""
        if self._handles_signals or aio is not None:
            from greenroom.system.ending.signals import BodyInterruption, SignalHandling  # slow to import

            hurry, note = self._hurry, self._note_signal
            if first is None:
                self._signals = BodyInterruption(self.name, hurry, note)
            else:
                self._signals = SignalHandling(self.name, first, hurry, note)
            self._signals.install(aio or self._poller.home(), always=self._handles_signals is True)

    def _hurry(self) -> None:
        self._end_due = min(self._end_due, time.monotonic() + HURRIED_TIMEOUT)
        self._shutdown.hurry()

    def _note_signal(self, number: int) -> None:
        self._shutdown.signal = number

    def _release_signals(self) -> None:
        if self._signals is not None:
            self._signals.restore()

    def close(self, timeout: float = SHUTDOWN_TIMEOUT, *, drain: bool | None = None) -> None:
        """Like `shutdown`, for programs without asyncio: block until the system has stopped, or the time is up.

        A handler that blocks the thread cannot be interrupted: it is logged and left running.
        """
        _require_timeout(timeout)
        self._close(timeout, self._drain_time(drain, timeout))

    def _close(self, timeout: float, drain_for: float) -> None:
        if self._thread is None:
            raise NotStarted(self.name, "close()")
        if (get_ident() == self._loop.runq.thread and not self._loop.closed) or self._is_in_handler():
            raise WaitsForItself("close() waits for the thread it is called on: use `stop()`")
        try:
            self._loop.inbound.call(None, lambda: self._shutdown.request(timeout, None, drain_for))
            self._wait_until_over(timeout, drain_for)
        except BaseException:  # Ctrl-C, which is not to lose what remains without a word
            self._shutdown.hurry()
            if not self._shutdown.over.wait(HURRIED_TIMEOUT):
                self._shutdown.leave_behind()
            raise
        finally:
            self._release_signals()

    def _wait_until_over(self, timeout: float, drain_for: float) -> None:
        """Wait on a plain thread until the system has stopped. A handler that holds its thread is left behind."""
        assert self._thread is not None
        deadline = time.monotonic() + timeout + 1.0
        # Whoever holds the thread has the time that any actor has to stop.
        first = drain_for + self.config.stop_timeout
        if first >= timeout or self._is_over_by(time.monotonic() + first + 1.0) or self._loop_answers():
            self._is_over_by(deadline)
        if self._loops is not None and (self._shutdown.phase == Phase.STOPPED or self._loop_answers()):
            self._is_over_by(deadline + self.config.stop_timeout + CALL_TIMEOUT)  # it waits for other threads
        if self._shutdown.over.is_set():
            self._thread.join(CALL_TIMEOUT)
        else:
            self._shutdown.leave_behind()

    def _is_over_by(self, deadline: float) -> bool:
        """Wait for the end, not longer than `deadline`; awake often, because Ctrl-C may come just before a sleep."""
        while not self._shutdown.over.wait(min(_NAP, max(deadline - time.monotonic(), 0.0))):
            if time.monotonic() >= deadline:
                return False
        return True

    def _loop_answers(self) -> bool:
        """Whether the system's own thread does something within a second: a handler may hold it."""
        answers = threading.Event()
        self._loop.inbound.call(None, answers.set)
        return answers.wait(1.0) or self._shutdown.over.is_set()

    def stop(self) -> None:
        """Request the shutdown, and return at once. From any thread, and from inside an actor.

        It does not wait for what is queued, as `shutdown()` does: that is discarded.
        """
        self._request_shutdown(self._end_timeout, None)

    def fail(self, cause: BaseException) -> None:
        """Shut down because of `cause`. `async with` and `run()` then raise `SystemFailed` from it."""
        self._request_shutdown(self._end_timeout, cause)

    def _request_shutdown(self, timeout: float, cause: BaseException | None, drain_for: float = 0.0) -> None:
        self._end_due = min(self._end_due, time.monotonic() + timeout + 1.0)
        if get_ident() == self._loop.runq.thread:
            self._shutdown.request(timeout, cause, drain_for)
        else:
            self._loop.inbound.call(None, lambda: self._shutdown.request(timeout, cause, drain_for))

    def _request_end(self, timeout: float, drain: bool | None) -> None:
        _require_timeout(timeout)
        self._request_shutdown(timeout, None, self._drain_time(drain, timeout))

    def _request_ordinary_end(self) -> None:
        """The block is left, or a signal has come: end, with all the time that the config gives."""
        drain_for = self._ordinary_drain()
        self._request_shutdown(self._end_timeout + drain_for, None, drain_for)

    def _ordinary_drain(self) -> float:
        return self.config.drain_timeout if self.config.on_exit is OnExit.DRAIN else 0.0

    def _drain_time(self, drain: bool | None, timeout: float) -> float:
        """How much of `timeout` the system has to become quiet: the actors need some of it to stop."""
        if drain is not None and not isinstance(drain, bool):
            raise BadArgument(f"drain={drain!r}: must be True or False, or None for what the config says")
        if drain is False or (drain is None and self.config.on_exit is OnExit.DISCARD):
            return 0.0
        return min(self.config.drain_timeout, 0.5 * timeout)

    async def shutdown(self, timeout: float = SHUTDOWN_TIMEOUT, *, drain: bool | None = None) -> None:
        """Let the system work on until it is quiet, stop every actor, and then the system.

        It has `SystemConfig.drain_timeout` seconds to become quiet, at most half of `timeout`; what is not done by then
        is discarded, with a warning. With `drain=False` nothing is waited for. The default is what
        `SystemConfig.on_exit` says. Actors that have not stopped after `timeout` seconds are forced.

        A second call waits for the same end; with `drain=False` it ends the drain of the first. In an actor's handler
        it only requests the shutdown, and returns at once.

        Cancelling this call, as `asyncio.wait_for` does, only ends the waiting: the shutdown goes on, because others
        may wait for it too. To limit it to a second, call `shutdown(timeout=1.0)`. A cancelled `async with` block does
        hurry it: the actors have one second to stop, and none if the block is cancelled again.
        """
        self._request_end(timeout, drain)
        if not self._is_in_handler():
            await self._shutdown.wait()

    async def stopped(self) -> None:
        """Return when the system has stopped."""
        if self._is_in_handler():
            raise WaitsForItself("an actor waits for its system to stop, which it does not before the actor has")
        await self._shutdown.wait()

    def _is_in_handler(self) -> bool:
        if get_ident() == self._loop.runq.thread:
            return self._loop.visits.hand is not None
        if self._loops is not None and (runq := ticking_here()) is not None:
            return runq.admission.host.port is self
        handoff = current_handoffs.get(get_ident()) if current_handoffs else None
        return handoff is not None and handoff.cell.loop.host.port is self

    @property
    def phase(self) -> str:
        """`new`, `running`, `draining`, `stopping` or `stopped`."""
        return self._shutdown.phase

    @property
    def report(self) -> ShutdownReport | None:
        """How the shutdown went, once it is over."""
        return self._shutdown.report

    def _is_told_of_failure(self, exc: BaseException) -> bool:
        """Whether a block ended with `exc` because the system failed."""
        if self._shutdown.cause is None:
            return False
        return exc is self._shutdown.cause or isinstance(exc, ActorTerminated | HandlerBroken | SystemStopped)

    def _raise_failure(self) -> None:
        if self._signals is not None:
            self._signals.raise_if_forced(self._shutdown.signal)
        cause = self._shutdown.cause
        if cause is not None:
            if self._loop.director is not None:
                self._loop.director.heeded(cause)
            raise SystemFailed(self.name, cause) from cause

    async def settle(self, timeout: float = 30.0) -> None:
        """Return when no message is queued or in hand. Stashed messages and pending timers do not count.

        Messages of an actor that waits for its restart count too, unless the clock is a manual one.
        """
        _require_timeout(timeout)
        if self._is_in_handler():
            raise WaitsForItself("an actor waits for its system to be idle, which it is not before the handler ends")
        if get_ident() != self._loop.runq.thread:
            raise LoopBusy(self.name, "settle() must be awaited on the system's own thread")
        try:
            async with asyncio.timeout(timeout):
                await (self._poller.rest() if self._loops is None else self._loops.rest())
        except TimeoutError:
            # The time may have been too short for a look at another thread, or for the call that asked for this.
            if self._poller.is_at_rest() if self._loops is None else await self._loops.are_at_rest():
                return
            raise SettleTimeout(self.name, timeout, self._busy_actors()) from None

    def settle_sync(self, timeout: float = 30.0) -> None:
        """Like `settle`, for code that cannot await: block until no message is queued or in hand."""
        _require_timeout(timeout)
        if self._is_in_handler():
            raise WaitsForItself("an actor waits for its system to be idle, which it is not before the handler ends")
        wait = ThreadWait(self._loop, "settle_sync()", "system.settle()")

        def begin() -> None:
            task = asyncio.get_running_loop().create_task(self.settle(timeout))
            task.add_done_callback(lambda task: wait.end(None, None if task.cancelled() else task.exception()))

        def late() -> SettleTimeout:
            hand, _ = self._loop.visits.peek_hand()
            return SettleTimeout(self.name, timeout, "its asyncio loop does not run" if hand is None else hand.name())

        if self._loop.inbound.call(None, begin):  # else it has stopped, and nothing is left to do
            wait.result(timeout + CALL_TIMEOUT, late)

    def _busy_actors(self) -> str:
        loops = [self._loop] if self._loops is None else [life.loop for life in self._loops.lives]
        busy = [cell.name() for loop in loops for cell in loop.table if cell.task is not None or cell.queued()]
        more = f" and {len(busy) - 5} more" if len(busy) > 5 else ""
        return ", ".join(busy[:5]) + more if busy else "messages kept coming"


def _require_timeout(timeout: object) -> None:
    if isinstance(timeout, bool) or not isinstance(timeout, int | float) or not 0.0 <= timeout <= 1e12:
        raise InvalidDelay("timeout", timeout)
