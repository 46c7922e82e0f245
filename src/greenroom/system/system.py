"""`ActorSystem`: runs actors, in a block with asyncio or without, by `run()` or by `start()`."""

from __future__ import annotations

import asyncio
import itertools
import os
import threading
import time
from _thread import get_ident
from collections.abc import Callable
from concurrent.futures import Future as ThreadFuture
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Any, TypeVar

from greenroom._core.current import current_handoffs, ticking_here
from greenroom._core.delivery.propagation import Propagation
from greenroom._core.observerhooks import ObserverHooks
from greenroom._core.scheduler.accounting import count_cell, count_loop
from greenroom._core.scheduler.loop import Loop
from greenroom._core.scheduler.poller import Poller
from greenroom.actor.api.props import props
from greenroom.actor.api.spawn import Spawns
from greenroom.actor.lifecycle import Lifecycle
from greenroom.actor.messaging.timers import cell_of
from greenroom.actor.messaging.waiting import ThreadWait
from greenroom.actor.records.systems import enrol
from greenroom.actor.spawner import CONCURRENT, SPREAD, Spawner
from greenroom.clock import Clock
from greenroom.errors import (
    ActorTerminated,
    BadArgument,
    ConfigError,
    HandlerBroken,
    LoopBusy,
    NotStarted,
    SettleTimeout,
    SystemFailed,
    SystemStopped,
    WaitsForItself,
    WrongLoop,
)
from greenroom.errortext import counted
from greenroom.exits import ExitReason
from greenroom.ledger import Ledger, add_up
from greenroom.runtimelog import RuntimeLog
from greenroom.system.config import OnExit, SystemConfig
from greenroom.system.deadletters import DeadLetters
from greenroom.system.ending.report import Phase, ShutdownReport
from greenroom.system.ending.shutdown import Shutdown
from greenroom.system.eventloop import loop_factory, start_thread
from greenroom.system.loops.group import SystemLoops, find_by_name
from greenroom.system.loops.stillness import settled
from greenroom.system.loops.thread import LoopTimeout
from greenroom.system.observers import Observers
from greenroom.validation import require_delay, require_instance

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

    from greenroom.actor.life.spec import ActorSpec
    from greenroom.actor.messaging.ref import ActorRef
    from greenroom.actor.offload.executor import Executor
    from greenroom.seededrandom import Random
    from greenroom.system.dispatchers.registry import Dispatchers
    from greenroom.system.dispatchers.settings import DispatcherSettings
    from greenroom.system.ending.signals import SignalHandling
    from greenroom.system.snapshot import ActorSnapshot, SystemSnapshot

T = TypeVar("T")

_log = RuntimeLog()

CALL_TIMEOUT = 30.0
"""Seconds that a call from another thread waits for the loop."""
SHUTDOWN_TIMEOUT = 30.0
_NAP = 0.1
"""Seconds that a thread sleeps at a time while it waits for the end."""
HURRIED_TIMEOUT = 3.0
"""Seconds that a shutdown that is to be over at once has: a second for hooks, and what comes after."""

_numbers = itertools.count(1)


# Both bases have `spawn`: `Spawns` has its types, `Spawner` its code.
class ActorSystem(Spawns, Spawner):
    """Where actors live: `async with` it, `with` it, or `run()` it.

    >>> import asyncio
    >>> from greenroom import Actor, ActorSystem
    >>> class Doubler(Actor[int, int]):
    ...     def receive(self, message: int) -> int:
    ...         return 2 * message
    >>> async def main() -> int:
    ...     async with ActorSystem("demo") as system:
    ...         return await system.spawn(Doubler).ask(21)
    >>> asyncio.run(main())
    42
    """

    def __init__(
        self,
        name: str = "greenroom",
        *,
        config: SystemConfig | None = None,
        root: Any = None,
        handle_signals: bool | None = None,
    ) -> None:
        _require_text("name", name)
        require_instance("config", config, SystemConfig | None, "a SystemConfig")
        require_instance("handle_signals", handle_signals, bool | None, "True or False, or None: only run() does")
        self.name = name
        self.config = SystemConfig() if config is None else config
        self.token = f"{name}@{os.getpid()}.{next(_numbers)}"
        hooks = ObserverHooks(self.config.slow_after)
        super().__init__(Lifecycle(self))
        propagation = Propagation(self.config.propagate) if self.config.propagate else None
        self._loop: Loop = Loop(self.config.limits(), self.config.clock, self._life, hooks, propagation)
        self._life.serve(self._loop)
        self._poller = self._life.poller = Poller(self._loop)
        self._block = BlockBody()
        self._loops = SystemLoops(self, self._loop.world.loop_count(self.config))
        self._shutdown = Shutdown(name, self._loops, self._release_threads, self._block.interrupt)
        self._thread: threading.Thread | None = None
        self._handles_signals = handle_signals
        self._signals: SignalHandling | None = None
        # Seconds that the actors have to stop, if no other time is named; when the system's thread is left behind if a
        # handler holds it: inf until the end is requested.
        self._end_timeout = SHUTDOWN_TIMEOUT
        self._end_due = inf
        # What to do about a handler that holds the home loop.
        self._stuck_advice: str | None = None
        self.dead_letters = DeadLetters(self.config.dead_letters, self.clock)
        self.observers = Observers(hooks)
        self._dispatchers: Dispatchers | None = None
        enrol(self)
        self.root: ActorRef | None = None
        if root is not None:
            # With its arguments, which are none: a constructor may take a `name`, too.
            self.root = self.spawn(props(root) if isinstance(root, type) else root, name="root")
            self._life.root = self.root._cell

    def __repr__(self) -> str:
        return f"<ActorSystem {self.name}, {self._shutdown.phase}, {counted(len(self._life.top), 'top-level actor')}>"

    @property
    def clock(self) -> Clock:
        """Its source of time."""
        clock: Clock = self._loop.clock
        return clock

    @property
    def random(self) -> Random:
        """Its source of random numbers: seeded, so that a run can be repeated."""
        made: Random | None = vars(self).get("_random")
        if made is None:
            from greenroom.seededrandom import Random  # most programs need no random numbers

            seed = self._loop.world.seed_for(self.config.seed)
            fresh: Random = vars(self).setdefault("_random", Random(seed))  # atomic: two threads may do this at once
            return fresh
        return made

    # -- running

    def _start(self) -> None:
        if self._shutdown.phase != Phase.NEW:
            if self._shutdown.phase == Phase.RUNNING:
                raise WaitsForItself(f"the system {self.name!r} is running already")
            raise SystemStopped(self.name)
        self._poller.attach()
        self._shutdown.phase = Phase.RUNNING  # as soon as the first thread is on its way, an actor there may ask
        try:
            self._loops.start()
        except BaseException:
            self._shutdown.phase = Phase.NEW
            self._poller.detach()
            raise

    def _program_ends(self) -> None:
        """Say so if the system was never started, and had something to do."""
        if self._shutdown.phase != Phase.NEW or not self._loop.world.is_real:
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
        try:
            start_thread(self.name, f"the system {self.name!r}", self._run_here, self._insist_on_signals)
        except BaseException:
            self._thread = None  # it may be tried again
            raise
        self._take_signals(None)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        was_interrupted = self._signals is not None and self._signals.leave(exc)
        drain_for = self._ordinary_drain() if exc is None or was_interrupted else 0.0
        self._close(self._end_timeout + drain_for, drain_for)
        if exc is None or was_interrupted or self._is_told_of_failure(exc):
            self._raise_failure()
        return was_interrupted  # type: ignore[return-value]

    async def _run_here(self, ready: ThreadFuture[None]) -> None:
        self._thread = threading.current_thread()
        try:
            self._start()
        except BaseException as error:
            ready.set_exception(error)
            return
        ready.set_result(None)
        await self._shutdown.wait()

    def _insist_on_signals(self) -> None:
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
        if self._handles_signals and threading.current_thread() is not threading.main_thread():
            raise ConfigError("handle_signals", True, "signals reach the main thread only: use it there")

    def _take_signals(self, first: Callable[[], object] | None, aio: asyncio.AbstractEventLoop | None = None) -> None:
        """Handle signals from now on, if that is wanted: `first` is called when one comes; None for a `with` block."""
        if self._handles_signals or aio is not None:
            from greenroom.system.ending.signals import BodyInterruption, SignalHandling  # slow to import

            self._signals = BodyInterruption(self) if first is None else SignalHandling(self, first)
            self._signals.install(aio or self._poller.home(), always=self._handles_signals is True)

    def _hurry(self) -> None:
        self._end_due = min(self._end_due, time.monotonic() + HURRIED_TIMEOUT)
        self._shutdown.hurry()

    def _release_signals(self) -> None:
        if self._signals is not None:
            self._signals.restore()

    def close(self, timeout: float = SHUTDOWN_TIMEOUT, *, drain: bool | None = None) -> None:
        """Like `shutdown`, for programs without asyncio: block until the system has stopped, or the time is up.

        A handler that blocks the thread cannot be interrupted: it is logged and left running.
        """
        require_delay("timeout", timeout)
        self._close(timeout, self._drain_time(drain, timeout))

    def _close(self, timeout: float, drain_for: float) -> None:
        if self._thread is None:
            raise NotStarted(self.name, "close()")
        if (get_ident() == self._loop.runq.thread and not self._loop.closed) or self._is_in_handler():
            raise WaitsForItself("close() waits for the thread it is called on: use `stop()`")
        try:
            self._loop.inbound.post(None, lambda: self._shutdown.request(timeout, None, drain_for))
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
        # A handler that holds the thread has the time that any actor has to stop.
        first = drain_for + self.config.stop_timeout
        if first >= timeout or self._is_over_by(time.monotonic() + first + 1.0) or self._loop_answers():
            self._is_over_by(deadline)
        if self._loops.threads and (self._shutdown.phase == Phase.STOPPED or self._loop_answers()):
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
        self._loop.inbound.post(None, answers.set)
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
            self._loop.inbound.post(None, lambda: self._shutdown.request(timeout, cause, drain_for))

    def _request_end(self, timeout: float, drain: bool | None) -> None:
        require_delay("timeout", timeout)
        self._request_shutdown(timeout, None, self._drain_time(drain, timeout))

    def _request_ordinary_end(self) -> None:
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
        """Wait until the system is quiet, then stop every actor, and then the system.

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
        if self._loops.threads and (runq := ticking_here()) is not None:
            return runq.admission.host.system is self
        handoff = current_handoffs.get(get_ident()) if current_handoffs else None
        return handoff is not None and handoff.cell.loop.host.system is self

    @property
    def phase(self) -> str:
        """`new`, `running`, `draining`, `stopping` or `stopped`."""
        return self._shutdown.phase

    @property
    def report(self) -> ShutdownReport | None:
        """How the shutdown went, once it is over."""
        return self._shutdown.report

    def _is_told_of_failure(self, exc: BaseException) -> bool:
        if self._shutdown.cause is None:
            return False
        return exc is self._shutdown.cause or isinstance(exc, ActorTerminated | HandlerBroken | SystemStopped)

    def _raise_failure(self) -> None:
        if self._signals is not None:
            self._signals.raise_if_forced(self._shutdown.signal)
        cause = self._shutdown.cause
        if cause is not None:
            self._loop.world.retrieved(cause)
            raise SystemFailed(self.name, cause) from cause

    async def settle(self, timeout: float = 30.0) -> None:
        """Return when no message is queued or in hand. Stashed messages and pending timers do not count.

        Messages of an actor that waits for its restart count too, unless the clock is a manual one.
        """
        require_delay("timeout", timeout)
        if self._is_in_handler():
            raise WaitsForItself("an actor waits for its system to be idle, which it is not before the handler ends")
        if get_ident() != self._loop.runq.thread:
            raise LoopBusy(self.name, "settle() must be awaited on the system's own thread")
        try:
            async with asyncio.timeout(timeout):
                await settled(self._loops).wait()
        except TimeoutError:
            # The time may have been too short for a look at another thread, or for the call that asked for this.
            if await settled(self._loops).is_now():
                return
            raise SettleTimeout(self.name, timeout, self._busy_actors()) from None

    def settle_sync(self, timeout: float = 30.0) -> None:
        """Like `settle`, for code that cannot await: block until no message is queued or in hand."""
        require_delay("timeout", timeout)
        if self._is_in_handler():
            raise WaitsForItself("an actor waits for its system to be idle, which it is not before the handler ends")
        wait = ThreadWait(self._loop, "settle_sync()", "system.settle()")

        def begin() -> None:
            task = asyncio.get_running_loop().create_task(self.settle(timeout))
            task.add_done_callback(lambda task: wait.end(None, None if task.cancelled() else task.exception()))

        def late() -> SettleTimeout:
            hand, _ = self._loop.visits.peek_hand()
            return SettleTimeout(self.name, timeout, "its asyncio loop does not run" if hand is None else hand.name())

        if self._loop.inbound.post(None, begin):  # else it has stopped, and nothing is left to do
            wait.result(timeout + CALL_TIMEOUT, late)

    def _busy_actors(self) -> str:
        cells = [cell for one in self._loops.all() for cell in one.loop.table]
        busy = [cell.name() for cell in cells if cell.task is not None or cell.queued()]
        more = f" and {len(busy) - 5} more" if len(busy) > 5 else ""
        return ", ".join(busy[:5]) + more if busy else "messages kept coming"

    # -- actors

    def actor(self, name_or_id: str | int) -> ActorRef | None:
        """The actor with this id, path (`/parent/child`) or top-level name; None if none is alive."""
        life = self._loops.life_of(name_or_id)
        return self._call_at(life, "actor()", lambda: find_by_name(life.loop, life.top, name_or_id))

    def actors(self) -> list[ActorRef]:
        """The refs of all actors that are alive."""
        found = self._call_everywhere("actors()", lambda life: [cell.ref for cell in life.loop.table])
        return [ref for refs in found for ref in refs]

    def _ref_of_id(self, cell_id: int, path: str) -> ActorRef | None:
        """The ref that was pickled with this id; if the id is 0, the ref of the actor that has this path now."""
        if cell_id == 0 and (found := self.actor(path)) is not None:
            return found
        life = self._loops.life_of(cell_id)
        return self._call_at(life, "unpickling a ref", lambda: life.find(cell_id, path))

    # -- inspection

    def ledger(self, ref: ActorRef | None = None) -> Ledger:
        """What happened to every message of this system, or of one actor, even after its end."""
        if ref is None:
            return add_up(self._call_everywhere("ledger()", lambda life: count_loop(life.loop)))
        host: Lifecycle = cell_of(ref, "ledger()").loop.host
        if host.system is not self:
            raise WrongLoop(ref)
        return self._call_at(host, "ledger()", lambda: count_cell(ref._cell))

    def tree(self) -> str:
        """The actors as a tree, in plain text."""
        from greenroom.system.snapshot import draw

        lives = self._loops.lives
        last = max((life for life in lives if life.top.count), key=lives.index, default=self._life)
        parts = self._call_everywhere("tree()", lambda life: draw(life.top, life is last))
        return "\n".join([f"{self.name} ({self._shutdown.phase})", *(line for lines in parts for line in lines)])

    def snapshot(self) -> SystemSnapshot:
        """A snapshot of the system."""
        # It would be a tenth of greenroom's import time (`make bench`, P17).
        from greenroom.system.snapshot import SystemSnapshot, snapshots_of

        def look(life: Lifecycle) -> tuple[int, int, int, Ledger, list[ActorSnapshot]]:
            loop = life.loop
            return life.spawned, life.terminated, loop.timers.count, count_loop(loop), snapshots_of(life.top)

        spawned, terminated, timers, ledgers, actors = zip(*self._call_everywhere("snapshot()", look), strict=True)
        return SystemSnapshot(
            name=self.name,
            time=self._loop.now(),
            phase=self._shutdown.phase,
            spawned=sum(spawned),
            terminated=sum(terminated),
            dead_letters=self.dead_letters.count,
            dead_letters_by_reason=self.dead_letters.by_reason,
            timers=sum(timers),
            ledger=add_up(list(ledgers)),
            actors=tuple(actor for found in actors for actor in found),
        )

    # -- loops

    def _choose_life(self, dispatcher: str | None, factory: Any, name: str | None) -> Lifecycle:
        """The host of the loop on which an actor without a parent is to live."""
        if dispatcher == CONCURRENT or (
            dispatcher == SPREAD and not self._loops.threads and not self.config.dispatchers
        ):
            return self._life
        label = getattr(factory, "__name__", "") if dispatcher is None else ""
        chosen, settings = self.dispatchers.choose(dispatcher, label, name)
        return self._life if chosen is None else self._life_for(chosen, settings)

    def _life_for(self, dispatcher: str, settings: DispatcherSettings) -> Lifecycle:
        from greenroom.system.dispatchers.settings import Loop as LoopSettings
        from greenroom.system.dispatchers.settings import OnCallingThread, Spread

        if isinstance(settings, Spread):
            return self._loops.least_loaded()
        if isinstance(settings, LoopSettings) and self._loop.world.has_loops():
            is_callers = isinstance(settings, OnCallingThread)
            return self._call("spawn()", lambda: self._loops.named(dispatcher, settings.core, is_callers))
        return self._life

    def _call_everywhere(self, what: str, action: Callable[[Lifecycle], T]) -> list[T]:
        return [self._call_at(life, what, partial(action, life)) for life in self._loops.lives]

    def _call(self, what: str, action: Callable[[], T]) -> T:
        return self._call_at(self._life, what, action)

    def _call_at(self, host: Lifecycle, what: str, action: Callable[[], T]) -> T:
        """Call `action` on the thread of `host`'s loop, and wait for its result."""
        if get_ident() == host.loop.runq.thread or self._shutdown.over.is_set():
            return action()
        if self._shutdown.phase == Phase.NEW:
            raise NotStarted(self.name, f"{what} from another thread")
        try:
            return self._loops.call(host, action, CALL_TIMEOUT)
        except LoopTimeout:
            hand, _ = host.loop.visits.peek_hand()
            busy = "its asyncio loop does not run" if hand is None else f"{hand.name()} holds its thread"
            raise LoopBusy(self.name, f"{what} waited {CALL_TIMEOUT} s: {busy}") from None

    # -- dispatchers

    @property
    def dispatchers(self) -> Dispatchers:
        """The dispatchers, by name. They decide where an actor's code runs: `spawn(..., dispatcher="parallel")`."""
        if self._dispatchers is None:
            # Few programs need it, and it is slow to import.
            from greenroom.system.dispatchers.registry import Dispatchers

            self._dispatchers = Dispatchers(
                self.name,
                self.config.dispatchers,
                self.config.placement,
                in_place=not self._loop.world.is_real,
                loop_factory=loop_factory(),
            )
        return self._dispatchers

    def _release_threads(self) -> list[threading.Thread]:
        """The loop has stopped: end what runs beside it. Returns the threads that have not ended yet."""
        self._release_signals()
        return self._loops.release() + ([] if self._dispatchers is None else self._dispatchers.close())

    def _executor_for(
        self,
        life: Lifecycle,
        dispatcher: str | None,
        spec: ActorSpec,
        args: tuple[object, ...],
        name: str | None,
        parent: ActorRef | None,
    ) -> tuple[str | None, Executor | None]:
        if dispatcher == CONCURRENT:
            return None, None
        owner = self._loops.thread_of(life) or self._loops.home
        return self.dispatchers.executor_for(owner, dispatcher, spec, args, name, parent)

    # -- what the hosts of its loops ask for

    def _hosts(self) -> list[Lifecycle]:
        return self._loops.lives

    def _last_actor_ended(self, life: Lifecycle) -> None:
        self._shutdown.last_actor_ended(life)

    def _root_has_ended(self, reason: ExitReason) -> None:
        if reason.abnormal:
            self._request_shutdown(self._end_timeout, reason.cause)
        else:
            self._request_ordinary_end()


def _require_text(what: str, value: object) -> None:
    if isinstance(value, SystemConfig):
        raise ConfigError(what, value, "must be a text; pass the configuration as `config=`")
    if not isinstance(value, str) or not value:
        raise ConfigError(what, value, "must be a text that is not empty")


class BlockBody:
    """The body of an `async with` block, from `enter` to `leave`: a task that can be made to leave.

    A task group cancels its body when one of its tasks fails, and then raises what failed. A system does the same when
    it fails, and when a signal tells it to end. A cancellation of the body by others stays what it is.
    """

    def __init__(self) -> None:
        self._task: asyncio.Task[Any] | None = None
        # How often it had been cancelled when it came in; and whether we have done it once more.
        self._before = 0
        self._cancelled = False

    def enter(self) -> None:
        task = self._task = asyncio.current_task()
        self._before = 0 if task is None else task.cancelling()

    def interrupt(self) -> bool:
        """Cancel the body; False if it is over. On the system's own thread."""
        if self._task is None or self._cancelled:
            return self._cancelled
        if asyncio.current_task() is self._task:
            # Its own code does this. It leaves at its next `await`, unless that is where it leaves anyway.
            asyncio.get_running_loop().call_soon(self._cancel)
        else:
            self._cancel()
        return True

    def _cancel(self) -> None:
        if self._task is not None and not self._cancelled:
            self._cancelled = self._task.cancel()

    def leave(self, exc: BaseException | None) -> bool:
        """The body has ended with `exc`: whether that is our doing, and not a cancellation by others."""
        task = self._task
        self._task = None
        if task is None or not self._cancelled or asyncio.current_task() is not task:
            return False
        cancelled_by_others = task.uncancel() > self._before
        return isinstance(exc, asyncio.CancelledError) and not cancelled_by_others
