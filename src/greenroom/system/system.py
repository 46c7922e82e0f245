"""`ActorSystem`: runs actors."""

from __future__ import annotations

import asyncio
import itertools
import os
import threading
from _thread import get_ident
from collections.abc import Callable, Mapping
from concurrent.futures import Future as ThreadFuture
from math import inf
from typing import TYPE_CHECKING, Any, TypeVar

from greenroom._core.observerhooks import ObserverHooks
from greenroom._core.scheduler.accounting import count_cell, count_loop
from greenroom._core.scheduler.loop import Loop
from greenroom._core.scheduler.poller import Poller
from greenroom.actor.api.spawn import Spawns
from greenroom.actor.lifecycle import Lifecycle
from greenroom.actor.messaging.deadletters import DeadLetters
from greenroom.actor.messaging.question import current_handoff
from greenroom.actor.messaging.timers import cell_of
from greenroom.actor.records.systems import enrol
from greenroom.actor.spawner import CONCURRENT, Spawner
from greenroom.clock import Clock
from greenroom.errors import (
    ConfigError,
    InvalidDelay,
    LoopBusy,
    NoThread,
    NotStarted,
    SettleTimeout,
    SystemFailed,
    SystemStopped,
    WaitsForItself,
    WrongLoop,
)
from greenroom.exits import ExitReason
from greenroom.lanes import MailboxConfig
from greenroom.ledger import Ledger
from greenroom.policy.specs import Supervision
from greenroom.system.config import SystemConfig
from greenroom.system.observers import Observers
from greenroom.system.paths import find_by_name
from greenroom.system.shutdown import Phase, Shutdown, ShutdownReport

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

    from greenroom.actor.life.spec import ActorSpec
    from greenroom.actor.messaging.ref import ActorRef
    from greenroom.actor.offload.executor import Executor
    from greenroom.seededrandom import Random
    from greenroom.system.dispatchers.registry import Dispatchers
    from greenroom.system.snapshot import SystemSnapshot

__all__ = ["ActorSystem"]

T = TypeVar("T")

CALL_TIMEOUT = 30.0
"""Seconds that a call from another thread waits for the loop."""
SHUTDOWN_TIMEOUT = 30.0

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

    def __init__(self, name: str = "greenroom", *, config: SystemConfig | None = None, root: Any = None) -> None:
        _require_text("name", name)
        _require_config(config)
        self.name = name
        self.config = SystemConfig() if config is None else config
        self.token = f"{name}@{os.getpid()}.{next(_numbers)}"
        hooks = ObserverHooks(self.config.slow_after)
        super().__init__(Lifecycle(self))
        self._loop = Loop(self.config.limits(), self.config.clock, self._life, hooks)
        self._life.serve(self._loop)
        self._poller = Poller(self._loop)
        self._shutdown = Shutdown(name, self._life, self._poller, self._release_threads)
        self._thread: threading.Thread | None = None
        self.dead_letters = DeadLetters(self.config.dead_letters, self.clock)
        self.observers = Observers(hooks)
        self._dispatchers: Dispatchers | None = None
        enrol(self)
        self.root: ActorRef | None = None
        if root is not None:
            self.root = self.spawn(root, name="root")
            self._life.root = self.root._cell

    def __repr__(self) -> str:
        return f"<ActorSystem {self.name}, {self._shutdown.phase}, {len(self._life.top)} top-level actors>"

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

            director = self._loop.director
            seed = director.seed if director is not None and self.config.seed is None else self.config.seed
            fresh: Random = vars(self).setdefault("_random", Random(seed))  # atomic: two threads may do this at once
            return fresh
        return made

    # -- running

    def _start(self) -> None:
        """Start running on this thread, in its running asyncio loop."""
        if self._shutdown.phase != Phase.NEW:
            if self._shutdown.phase == Phase.RUNNING:
                raise WaitsForItself(f"the system {self.name!r} is running already")
            raise SystemStopped(self.name)
        self._poller.attach()
        self._shutdown.phase = Phase.RUNNING
        if self.config.stuck_after > 0 and self._loop.director is None:
            from greenroom.system import watchdog  # slow to import

            watchdog.watch(self, self.config.stuck_after)

    async def start(self) -> Self:
        """Start running in the current asyncio loop. For notebooks, where `async with` would end with its cell.

        `await system.shutdown()` ends it.
        """
        self._start()
        return self

    async def __aenter__(self) -> Self:
        self._start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if isinstance(exc, asyncio.CancelledError):
            self._shutdown.hurry()
        else:
            self._request_shutdown(SHUTDOWN_TIMEOUT, None)
        if not self._is_in_handler():
            await self._shutdown.wait_or_hurry()
        if exc is None:
            self._raise_failure()

    def __enter__(self) -> Self:
        if self._shutdown.phase != Phase.NEW or self._thread is not None:
            self._start()  # raises an error that says what is wrong
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
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()
        if exc is None:
            self._raise_failure()

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

    def run(self) -> None:
        """Run on this thread, until the system is stopped: by `stop()`, by its root's end, by Ctrl-C."""
        if asyncio._get_running_loop() is not None:
            raise WaitsForItself("run() would hold up the asyncio loop of this thread: use `async with` here")

        async def main() -> None:
            self._start()
            try:
                await self._shutdown.wait()
            except asyncio.CancelledError:  # Ctrl-C
                await self.shutdown()
                raise

        with asyncio.Runner(loop_factory=loop_factory()) as runner:
            runner.run(main())
        self._raise_failure()

    def close(self, timeout: float = SHUTDOWN_TIMEOUT) -> None:
        """Like `shutdown`, for programs without asyncio: block until the system has stopped, or the time is up.

        A handler that blocks the thread cannot be interrupted: it is logged and left running.
        """
        _require_timeout(timeout)
        if self._thread is None:
            raise NotStarted(self.name, "close()")
        if (get_ident() == self._loop.runq.thread and not self._loop.closed) or self._is_in_handler():
            raise WaitsForItself("close() waits for the thread it is called on: use `stop()`")
        self._loop.inbound.call(None, lambda: self._shutdown.request(timeout))
        self._shutdown.over.wait(timeout + 1.0)
        if self._shutdown.over.is_set():
            self._thread.join(CALL_TIMEOUT)
        else:
            self._shutdown.leave_behind()

    def stop(self) -> None:
        """Request the shutdown, and return at once. From any thread, and from inside an actor."""
        self._request_shutdown(SHUTDOWN_TIMEOUT, None)

    def fail(self, cause: BaseException) -> None:
        """Shut down because of `cause`. `async with` and `run()` then raise `SystemFailed` from it."""
        self._request_shutdown(SHUTDOWN_TIMEOUT, cause)

    def _request_shutdown(self, timeout: float, cause: BaseException | None) -> None:
        if get_ident() == self._loop.runq.thread:
            self._shutdown.request(timeout, cause)
        else:
            self._loop.inbound.call(None, lambda: self._shutdown.request(timeout, cause))

    async def shutdown(self, timeout: float = SHUTDOWN_TIMEOUT) -> None:
        """Stop every actor and then the system; those that have not stopped after `timeout` seconds are forced.

        A second call waits for the same end. In an actor's handler it only requests the shutdown, and returns at once.

        Cancelling this call, as `asyncio.wait_for` does, only ends the waiting: the shutdown goes on, because others
        may wait for it too. To limit it to a second, call `shutdown(timeout=1.0)`. A cancelled `async with` block does
        hurry it: the actors have one second to stop, and none if the block is cancelled again.
        """
        _require_timeout(timeout)
        self._request_shutdown(timeout, None)
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
        return current_handoff(self._loop) is not None

    @property
    def phase(self) -> str:
        """`new`, `running`, `stopping` or `stopped`."""
        return self._shutdown.phase

    @property
    def report(self) -> ShutdownReport | None:
        """How the shutdown went, once it is over."""
        return self._shutdown.report

    def _raise_failure(self) -> None:
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
                await self._poller.rest()
        except TimeoutError:
            raise SettleTimeout(self.name, timeout, self._busy_actors()) from None

    def _busy_actors(self) -> str:
        busy = [cell.name() for cell in self._loop.table if cell.task is not None or cell.queued()]
        more = f" and {len(busy) - 5} more" if len(busy) > 5 else ""
        return ", ".join(busy[:5]) + more if busy else "messages kept coming"

    # -- actors

    def actor(self, name_or_id: str | int) -> ActorRef | None:
        """The actor with this id, path (`/parent/child`) or top-level name; None if none is alive."""
        return self.call("actor()", lambda: find_by_name(self._loop, self._life.top, name_or_id))

    def actors(self) -> list[ActorRef]:
        """The refs of all actors that are alive."""
        return self.call("actors()", lambda: [cell.ref for cell in self._loop.table])

    def ref_of_id(self, cell_id: int, path: str) -> ActorRef | None:
        """The ref that was pickled with this id; if the id is 0, the ref of the actor that has this path now."""
        return self.call(
            "unpickling a ref", lambda: (self.actor(path) if cell_id == 0 else None) or self._life.find(cell_id, path)
        )

    # -- inspection

    def ledger(self, ref: ActorRef | None = None) -> Ledger:
        """What happened to every message of this system, or of one actor, even after its end."""
        if ref is None:
            return self.call("ledger()", lambda: count_loop(self._loop))
        if cell_of(ref, "ledger()").loop is not self._loop:
            raise WrongLoop(ref)
        return self.call("ledger()", lambda: count_cell(ref._cell))

    def tree(self) -> str:
        """The actors as a tree, in plain text."""
        from greenroom.system.snapshot import draw

        return self.call("tree()", lambda: draw(f"{self.name} ({self._shutdown.phase})", self._life.top))

    def snapshot(self) -> SystemSnapshot:
        """A snapshot of the system."""
        return self.call("snapshot()", self._snapshot)

    def _snapshot(self) -> SystemSnapshot:
        # It would be a tenth of greenroom's import time (`make bench`, P17).
        from greenroom.system.snapshot import SystemSnapshot, snapshots_of

        return SystemSnapshot(
            name=self.name,
            time=self._loop.now(),
            phase=self._shutdown.phase,
            spawned=self._life.spawned,
            terminated=self._life.terminated,
            dead_letters=self.dead_letters.count,
            dead_letters_by_reason=self.dead_letters.by_reason,
            timers=self._loop.timers.count,
            ledger=count_loop(self._loop),
            actors=tuple(snapshots_of(self._life.top)),
        )

    def call(self, what: str, action: Callable[[], T]) -> T:
        """Call `action` on the system's own thread, and wait for its result."""
        if get_ident() == self._loop.runq.thread or self._shutdown.over.is_set():
            return action()
        if self._shutdown.phase == Phase.NEW:
            raise NotStarted(self.name, f"{what} from another thread")
        future: ThreadFuture[T] = ThreadFuture()

        def act() -> None:
            try:
                future.set_result(action())
            except BaseException as exc:
                future.set_exception(exc)

        if not self._loop.inbound.call(None, act):
            return action()
        try:
            return future.result(CALL_TIMEOUT)
        except TimeoutError:
            if future.done():
                raise
            hand = self._loop.visits.hand
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
                in_place=self._loop.director is not None,
                loop_factory=loop_factory(),
                home=self,
            )
        return self._dispatchers

    def _release_threads(self) -> list[threading.Thread]:
        """The loop has stopped: end the watchdog and the dispatchers. Returns the threads that have not ended yet."""
        if self.config.stuck_after > 0 and self._loop.director is None:
            from greenroom.system import watchdog

            watchdog.unwatch(self)
        return [] if self._dispatchers is None else self._dispatchers.close()

    @property
    def has_placement(self) -> bool:
        """Whether the config chooses dispatchers for some actors."""
        return bool(self.config.placement)

    def executor_for(
        self, dispatcher: str | None, spec: ActorSpec, name: str | None, parent: ActorRef | None
    ) -> tuple[str | None, Executor | None]:
        """The dispatcher and the executor of a new actor; None for the loop's own thread."""
        if dispatcher == CONCURRENT:
            return None, None
        return self.dispatchers.executor_for(dispatcher, spec, name, parent)

    # -- what `SystemPort` asks for

    @property
    def stop_timeout(self) -> float:
        """Seconds that an actor and its children have to stop."""
        return self.config.stop_timeout

    @property
    def start_timeout(self) -> float:
        """Seconds that an actor has to start; inf for as long as it likes."""
        return inf if self.config.start_timeout is None else self.config.start_timeout

    @property
    def keeps_history(self) -> bool:
        """Whether actors remember the states they went through."""
        return self.config.history

    @property
    def mailbox(self) -> MailboxConfig:
        """The mailbox of actors that are spawned without one."""
        return self.config.mailbox

    @property
    def supervision(self) -> Supervision:
        """The supervision of actors that are spawned without one."""
        return self.config.supervision

    @property
    def env(self) -> Mapping[str, Any]:
        """The `env` of actors that are spawned without one."""
        return self.config.env

    def everybody_has_gone(self) -> None:
        """The last actor of a system that is stopping has ended."""
        self._shutdown.everybody_has_gone()

    def root_has_ended(self, reason: ExitReason) -> None:
        """The root actor has ended, so the system shuts down."""
        self._request_shutdown(SHUTDOWN_TIMEOUT, reason.cause if reason.abnormal else None)


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """uvloop when it is installed, else asyncio's own."""
    try:
        import uvloop
    except ImportError:
        return None
    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory


def _require_text(what: str, value: object) -> None:
    if isinstance(value, SystemConfig):
        raise ConfigError(what, value, "must be a text; pass the configuration as `config=`")
    if not isinstance(value, str) or not value:
        raise ConfigError(what, value, "must be a text that is not empty")


def _require_config(config: object) -> None:
    if config is not None and not isinstance(config, SystemConfig):
        raise ConfigError("config", config, "must be a SystemConfig")


def _require_timeout(timeout: object) -> None:
    if isinstance(timeout, bool) or not isinstance(timeout, int | float) or not 0.0 <= timeout <= 1e12:
        raise InvalidDelay("timeout", timeout)
