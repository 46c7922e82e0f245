"""`ActorSystem`: runs actors."""

from __future__ import annotations

import itertools
import os
import threading
from _thread import get_ident
from collections.abc import Callable
from concurrent.futures import Future as ThreadFuture
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Any, TypeVar

from greenroom._core.delivery.propagation import Propagation
from greenroom._core.observerhooks import ObserverHooks
from greenroom._core.scheduler.accounting import count_cell, count_loop
from greenroom._core.scheduler.loop import Loop
from greenroom._core.scheduler.poller import Poller
from greenroom.actor.api.props import props
from greenroom.actor.api.spawn import Spawns
from greenroom.actor.lifecycle import Lifecycle
from greenroom.actor.messaging.timers import cell_of
from greenroom.actor.records.systems import enrol
from greenroom.actor.spawner import CONCURRENT, SPREAD, Spawner
from greenroom.clock import Clock
from greenroom.errors import ConfigError, LoopBusy, NotStarted, WrongLoop
from greenroom.errors.base import counted
from greenroom.exits import ExitReason
from greenroom.ledger import Ledger, add_up
from greenroom.system.config import SystemConfig
from greenroom.system.deadletters import DeadLetters
from greenroom.system.ending.block import Block
from greenroom.system.ending.report import Phase
from greenroom.system.ending.shutdown import Shutdown
from greenroom.system.eventloop import LoopTimeout, loop_factory
from greenroom.system.observers import Observers
from greenroom.system.paths import find_by_name
from greenroom.system.running import CALL_TIMEOUT, SHUTDOWN_TIMEOUT, Running

if TYPE_CHECKING:
    from greenroom.actor.life.spec import ActorSpec
    from greenroom.actor.messaging.ref import ActorRef
    from greenroom.actor.offload.executor import Executor
    from greenroom.seededrandom import Random
    from greenroom.system.dispatchers.registry import Dispatchers
    from greenroom.system.dispatchers.settings import DispatcherSettings
    from greenroom.system.ending.signals import SignalHandling
    from greenroom.system.loops.group import SystemLoops
    from greenroom.system.snapshot import ActorSnapshot, SystemSnapshot

__all__ = ["ActorSystem"]

T = TypeVar("T")

_numbers = itertools.count(1)

_SIMULATED_CORES = 4
"""Loops of a simulated system that is to have one for each core: as many on every machine."""


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
        self._poller = self._life.poller = Poller(self._loop)
        self._block = Block()
        self._shutdown = Shutdown(name, self._life, self._poller, self._release_threads, self._block.interrupt)
        self._thread: threading.Thread | None = None
        self._handles_signals = handle_signals
        self._signals: SignalHandling | None = None
        self._end_timeout = SHUTDOWN_TIMEOUT
        self._end_due = inf
        self._stuck_advice: str | None = None
        self.dead_letters = DeadLetters(self.config.dead_letters, self.clock)
        self.observers = Observers(hooks)
        self._dispatchers: Dispatchers | None = None
        # The further loops, if it has any.
        self._loops: SystemLoops | None = None
        count = self._loop_count()
        if count > 1:
            self._all_loops(count)
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
        life = self._life
        if self._loops is not None:
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
        life = self._life if self._loops is None else self._loops.life_of(cell_id)
        return self._call_at(life, "unpickling a ref", lambda: life.find(cell_id, path))

    # -- inspection

    def ledger(self, ref: ActorRef | None = None) -> Ledger:
        """What happened to every message of this system, or of one actor, even after its end."""
        if ref is None:
            return add_up(self._call_everywhere("ledger()", lambda life: count_loop(life.loop)))
        host: Lifecycle = cell_of(ref, "ledger()").loop.host
        if host.port is not self:
            raise WrongLoop(ref)
        return self._call_at(host, "ledger()", lambda: count_cell(ref._cell))

    def tree(self) -> str:
        """The actors as a tree, in plain text."""
        from greenroom.system.snapshot import draw

        lives = [self._life] if self._loops is None else self._loops.lives
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

    def _may_have_loops(self) -> bool:
        """Whether it may have more than one: not in a harness, which has one actor to run."""
        director = self._loop.director
        return director is None or director.stage is not None

    def _loop_count(self) -> int:
        if not self._may_have_loops():
            return 1
        if self._loop.director is not None and self.config.loops == "cores":
            return _SIMULATED_CORES
        return self.config.loop_count()

    def _all_loops(self, count: int) -> SystemLoops:
        """All loops, of which there are more than one from now on."""
        from greenroom.system.loops.group import SystemLoops  # which a program with one loop does not import

        self._loops = self._shutdown.loops = SystemLoops(self, count)
        return self._loops

    def _choose_life(self, dispatcher: str | None, factory: Any, name: str | None) -> Lifecycle:
        """The host of the loop on which an actor without a parent is to live."""
        if dispatcher == CONCURRENT or (dispatcher == SPREAD and self._loops is None and not self.config.dispatchers):
            return self._life
        label = getattr(factory, "__name__", "") if dispatcher is None else ""
        chosen, settings = self.dispatchers.choose(dispatcher, label, name)
        return self._life if chosen is None else self._life_for(chosen, settings)

    def _life_for(self, dispatcher: str, settings: DispatcherSettings) -> Lifecycle:
        from greenroom.system.dispatchers.settings import Loop as LoopSettings
        from greenroom.system.dispatchers.settings import OnCallingThread, Spread

        if isinstance(settings, Spread) and self._loops is not None:
            return self._loops.least_loaded()
        if isinstance(settings, LoopSettings) and self._may_have_loops():
            is_callers = isinstance(settings, OnCallingThread)
            return self._call(
                "spawn()", lambda: (self._loops or self._all_loops(1)).named(dispatcher, settings.core, is_callers)
            )
        return self._life

    def _call_everywhere(self, what: str, action: Callable[[Lifecycle], T]) -> list[T]:
        """Call `action` for each loop, on its own thread, and wait for the results."""
        if self._loops is None:
            return [self._call(what, lambda: action(self._life))]
        return [self._call_at(life, what, partial(action, life)) for life in self._loops.lives]

    def _call_at(self, host: Lifecycle, what: str, action: Callable[[], T]) -> T:
        """Call `action` on the thread of `host`'s loop, and wait for its result."""
        loops = self._loops
        if loops is None:
            return self._call(what, action)
        if self._shutdown.over.is_set():
            return action()
        if self._shutdown.phase == Phase.NEW and get_ident() != host.loop.runq.thread:
            raise NotStarted(self.name, f"{what} from another thread")
        try:
            return loops.call(host, action, CALL_TIMEOUT)
        except LoopTimeout:
            raise self._busy(host, what) from None

    def _busy(self, host: Lifecycle, what: str) -> LoopBusy:
        hand, _ = host.loop.visits.peek_hand()
        busy = "its asyncio loop does not run" if hand is None else f"{hand.name()} holds its thread"
        return LoopBusy(self.name, f"{what} waited {CALL_TIMEOUT} s: {busy}")

    def _call(self, what: str, action: Callable[[], T]) -> T:
        """Call `action` on the system's own thread, and wait for its result."""
        if self._loops is not None:
            return self._call_at(self._life, what, action)
        if get_ident() == self._loop.runq.thread or self._shutdown.over.is_set():
            return action()
        if self._shutdown.phase == Phase.NEW:
            raise NotStarted(self.name, f"{what} from another thread")
        if self._loop.director is not None and self._loop.director.stage is not None:
            return self._loop.director.stage.call(self._loop, action)  # from another virtual thread
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
            raise self._busy(self._life, what) from None

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
            )
        return self._dispatchers

    def _release_threads(self) -> list[threading.Thread]:
        """The loop has stopped: end the watchdog and the dispatchers. Returns the threads that have not ended yet."""
        if self.config.stuck_after > 0 and self._loop.director is None:
            from greenroom.system import watchdog

            watchdog.unwatch(self)
        self._release_signals()
        of_loops = [] if self._loops is None else self._loops.release()
        return of_loops if self._dispatchers is None else of_loops + self._dispatchers.close()

    def _executor_for(
        self,
        life: Lifecycle,
        dispatcher: str | None,
        spec: ActorSpec,
        args: tuple[object, ...],
        name: str | None,
        parent: ActorRef | None,
    ) -> tuple[str | None, Executor | None]:
        """The dispatcher and the executor of a new actor; None for the loop's own thread."""
        if dispatcher == CONCURRENT:
            return None, None
        owner = self if life is self._life or self._loops is None else self._loops.thread_of(life)
        return self.dispatchers.executor_for(owner, dispatcher, spec, args, name, parent)

    # -- what `SystemPort` asks for

    def _other_hosts(self, life: Lifecycle) -> list[Lifecycle]:
        """The hosts of the system's other loops."""
        return [] if self._loops is None else [other for other in self._loops.lives if other is not life]

    def _everybody_has_gone(self, life: Lifecycle) -> None:
        """The last actor of one loop has ended, and the system is stopping."""
        self._shutdown.everybody_has_gone(life)

    def _root_has_ended(self, reason: ExitReason) -> None:
        """The root actor has ended, so the system shuts down."""
        if reason.abnormal:
            self._request_shutdown(self._end_timeout, reason.cause)
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
