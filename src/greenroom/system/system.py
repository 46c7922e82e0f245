"""`ActorSystem`: runs actors."""

from __future__ import annotations

import itertools
import os
import threading
from _thread import get_ident
from collections.abc import Callable
from concurrent.futures import Future as ThreadFuture
from typing import TYPE_CHECKING, Any, TypeVar

from greenroom._core.delivery.propagation import Propagation
from greenroom._core.observerhooks import ObserverHooks
from greenroom._core.scheduler.accounting import count_cell, count_loop
from greenroom._core.scheduler.loop import Loop
from greenroom._core.scheduler.poller import Poller
from greenroom.actor.api.props import props
from greenroom.actor.api.spawn import Spawns
from greenroom.actor.lifecycle import Lifecycle
from greenroom.actor.messaging.deadletters import DeadLetters
from greenroom.actor.messaging.timers import cell_of
from greenroom.actor.records.systems import enrol
from greenroom.actor.spawner import CONCURRENT, Spawner
from greenroom.clock import Clock
from greenroom.errors import ConfigError, LoopBusy, NotStarted, WrongLoop
from greenroom.errors.base import counted
from greenroom.exits import ExitReason
from greenroom.ledger import Ledger
from greenroom.system.config import SystemConfig
from greenroom.system.ending.block import Block
from greenroom.system.ending.report import Phase
from greenroom.system.ending.shutdown import Shutdown
from greenroom.system.observers import Observers
from greenroom.system.paths import find_by_name
from greenroom.system.running import CALL_TIMEOUT, SHUTDOWN_TIMEOUT, Running, loop_factory

if TYPE_CHECKING:
    from greenroom.actor.life.spec import ActorSpec
    from greenroom.actor.messaging.ref import ActorRef
    from greenroom.actor.offload.executor import Executor
    from greenroom.seededrandom import Random
    from greenroom.system.dispatchers.registry import Dispatchers
    from greenroom.system.ending.signals import SignalHandling
    from greenroom.system.snapshot import SystemSnapshot

__all__ = ["ActorSystem"]

T = TypeVar("T")

_numbers = itertools.count(1)


# Both bases have `spawn`: `Spawns` has its types, `Spawner` its code.
class ActorSystem(Running, Spawns, Spawner):
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
        _require_config(config)
        if handle_signals is not None and not isinstance(handle_signals, bool):
            raise ConfigError("handle_signals", handle_signals, "must be True or False, or None: only run() does")
        self.name = name
        self.config = SystemConfig() if config is None else config
        self.token = f"{name}@{os.getpid()}.{next(_numbers)}"
        hooks = ObserverHooks(self.config.slow_after)
        super().__init__(Lifecycle(self))
        propagation = Propagation(self.config.propagate) if self.config.propagate else None
        self._loop = Loop(self.config.limits(), self.config.clock, self._life, hooks, propagation)
        self._life.serve(self._loop)
        self._poller = Poller(self._loop)
        self._block = Block()
        self._shutdown = Shutdown(name, self._life, self._poller, self._release_threads, self._block.interrupt)
        self._thread: threading.Thread | None = None
        self._handles_signals = handle_signals
        self._signals: SignalHandling | None = None
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

            director = self._loop.director
            seed = director.seed if director is not None and self.config.seed is None else self.config.seed
            fresh: Random = vars(self).setdefault("_random", Random(seed))  # atomic: two threads may do this at once
            return fresh
        return made

    # -- actors

    def actor(self, name_or_id: str | int) -> ActorRef | None:
        """The actor with this id, path (`/parent/child`) or top-level name; None if none is alive."""
        return self._call("actor()", lambda: find_by_name(self._loop, self._life.top, name_or_id))

    def actors(self) -> list[ActorRef]:
        """The refs of all actors that are alive."""
        return self._call("actors()", lambda: [cell.ref for cell in self._loop.table])

    def _ref_of_id(self, cell_id: int, path: str) -> ActorRef | None:
        """The ref that was pickled with this id; if the id is 0, the ref of the actor that has this path now."""
        return self._call(
            "unpickling a ref", lambda: (self.actor(path) if cell_id == 0 else None) or self._life.find(cell_id, path)
        )

    # -- inspection

    def ledger(self, ref: ActorRef | None = None) -> Ledger:
        """What happened to every message of this system, or of one actor, even after its end."""
        if ref is None:
            return self._call("ledger()", lambda: count_loop(self._loop))
        if cell_of(ref, "ledger()").loop is not self._loop:
            raise WrongLoop(ref)
        return self._call("ledger()", lambda: count_cell(ref._cell))

    def tree(self) -> str:
        """The actors as a tree, in plain text."""
        from greenroom.system.snapshot import draw

        return self._call("tree()", lambda: draw(f"{self.name} ({self._shutdown.phase})", self._life.top))

    def snapshot(self) -> SystemSnapshot:
        """A snapshot of the system."""
        return self._call("snapshot()", self._snapshot)

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

    def _call(self, what: str, action: Callable[[], T]) -> T:
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
            hand, _ = self._loop.visits.peek_hand()
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
        self._release_signals()
        return [] if self._dispatchers is None else self._dispatchers.close()

    def _executor_for(
        self, dispatcher: str | None, spec: ActorSpec, name: str | None, parent: ActorRef | None
    ) -> tuple[str | None, Executor | None]:
        """The dispatcher and the executor of a new actor; None for the loop's own thread."""
        if dispatcher == CONCURRENT:
            return None, None
        return self.dispatchers.executor_for(dispatcher, spec, name, parent)

    # -- what `SystemPort` asks for

    def _everybody_has_gone(self) -> None:
        """The last actor of a system that is stopping has ended."""
        self._shutdown.everybody_has_gone()

    def _root_has_ended(self, reason: ExitReason) -> None:
        """The root actor has ended, so the system shuts down."""
        if reason.abnormal:
            self._request_shutdown(SHUTDOWN_TIMEOUT, reason.cause)
        else:
            self._request_ordinary_end()


def _require_text(what: str, value: object) -> None:
    if isinstance(value, SystemConfig):
        raise ConfigError(what, value, "must be a text; pass the configuration as `config=`")
    if not isinstance(value, str) or not value:
        raise ConfigError(what, value, "must be a text that is not empty")


def _require_config(config: object) -> None:
    if config is not None and not isinstance(config, SystemConfig):
        raise ConfigError("config", config, "must be a SystemConfig")
