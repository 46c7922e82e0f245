"""The dispatchers of one system, by name, and the choice of one for each actor."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from threading import Lock
from typing import TYPE_CHECKING, cast

from greenroom.errors import ConfigError, DispatcherExists, StaysAtHome, UnknownDispatcher
from greenroom.system.dispatchers.settings import (
    BUILT_IN,
    Concurrent,
    DispatcherSettings,
    Loop,
    Parallel,
    Pinned,
    Process,
    Spread,
    settings_of,
)

if TYPE_CHECKING:
    import threading

    from greenroom.actor.life.spec import ActorSpec
    from greenroom.actor.messaging.ref import ActorRef
    from greenroom.actor.offload.executor import Executor
    from greenroom.system.dispatchers.parallel import ThreadPool
    from greenroom.system.dispatchers.pinned import LoopFactory, PinnedThreads
    from greenroom.system.dispatchers.processes.pool.worker import WorkerPool
    from greenroom.system.loops.thread import SystemLoop

    Pool = ThreadPool | PinnedThreads | WorkerPool


class Dispatchers(Mapping[str, DispatcherSettings]):
    """A mapping of names to settings of dispatchers, which decide where an actor's code runs.

    >>> dispatchers = Dispatchers("demo")
    >>> dispatchers.add("io", Parallel(threads=8))
    >>> list(dispatchers), dispatchers["io"]
    (['concurrent', 'spread', 'pinned', 'parallel', 'process', 'io'], Parallel(threads=8))
    """

    def __init__(
        self,
        system: str,
        settings: Mapping[str, object] | None = None,
        placement: Mapping[str, str] | None = None,
        *,
        in_place: bool = False,
        loop_factory: LoopFactory | None = None,
    ) -> None:
        self._system = system
        # Whether all code runs on the loop's own thread, whatever its dispatcher: where there are no real threads.
        self._in_place = in_place
        self._loop_factory = loop_factory
        self._settings: dict[str, DispatcherSettings] = {name: kind() for name, kind in BUILT_IN.items()}
        for name, given in (settings or {}).items():
            if name == "concurrent":
                raise ConfigError("dispatchers", name, "is the system's own loop, and cannot be another")
            self._settings[name] = settings_of(name, given)
        self._placement = dict(placement or {})
        for name in self._placement.values():
            self._require(name)
        # The threads or processes of the dispatchers that have been used: worker threads serve all loops of the system,
        # others the loop of their owner.
        self._pools: dict[tuple[str, SystemLoop | None], Pool] = {}
        self._lock = Lock()

    def __getitem__(self, name: str) -> DispatcherSettings:
        return self._settings[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._settings)

    def __len__(self) -> int:
        return len(self._settings)

    def __repr__(self) -> str:
        return f"<Dispatchers of {self._system}: {', '.join(self._settings)}>"

    def add(self, name: str, settings: DispatcherSettings) -> None:
        """Add a dispatcher: actors can be spawned with `dispatcher=name` from now on."""
        given: object = name
        if not isinstance(given, str) or not given:
            raise ConfigError("name", given, "must be a text that is not empty")
        if name in self._settings:
            raise DispatcherExists(name)
        self._settings[name] = settings_of(name, settings)

    @property
    def threads(self) -> dict[str, int]:
        """How many threads each dispatcher has at present; those without are left out."""
        found: dict[str, int] = {}
        for (name, _), pool in list(self._pools.items()):
            if pool.threads:
                found[name] = found.get(name, 0) + pool.threads
        return found

    @property
    def processes(self) -> dict[str, list[int]]:
        """The ids of the worker processes that each `Process` dispatcher has at present."""
        names = [name for name, settings in self._settings.items() if isinstance(settings, Process)]
        found: dict[str, list[int]] = {name: [] for name in names}
        for (name, _), pool in list(self._pools.items()):
            if name in found:
                found[name] += cast("WorkerPool", pool).pids
        return found

    def _require(self, name: object) -> DispatcherSettings:
        found = self._settings.get(name) if isinstance(name, str) else None
        if found is None:
            raise UnknownDispatcher(name, tuple(self._settings))
        return found

    # -- for the system, on its own thread

    def choose(self, dispatcher: str | None, label: str, name: str | None) -> tuple[str | None, DispatcherSettings]:
        """The dispatcher of a new actor that has no parent, and its settings. From any thread."""
        chosen = self._placed(label, name, None) if dispatcher is None else dispatcher
        return chosen, self._require("concurrent" if chosen is None else chosen)

    def executor_for(
        self,
        owner: SystemLoop,
        dispatcher: str | None,
        spec: ActorSpec,
        args: tuple[object, ...],
        name: str | None,
        parent: ActorRef | None,
    ) -> tuple[str | None, Executor | None]:
        """The dispatcher and the executor of a new actor; None for the thread of the loop it lives on, `owner`'s."""
        chosen = self._placed(spec.label[0], name, parent) if dispatcher is None else dispatcher
        if chosen is None:
            return None, None
        settings = self._require(chosen)
        if isinstance(settings, Concurrent | Spread | Loop):
            if parent is not None and dispatcher is not None and isinstance(settings, Loop):
                raise ConfigError(
                    "dispatcher",
                    dispatcher,
                    "is a loop of its own, and a child lives on the loop of its parent: bring it up by system.spawn()",
                )
            return (None if chosen == "concurrent" else chosen), None
        if spec.class_info is not None and spec.class_info.actor_class.__greenroom_stays_on_loop__:
            if dispatcher is not None:
                raise StaysAtHome(spec.label[0], chosen)
            return None, None
        if self._in_place:
            return chosen, None
        with self._lock:
            pool = self._pool_of(chosen, settings, owner)
        return chosen, pool.executor(spec, args)

    def _placed(self, label: str, name: str | None, parent: ActorRef | None) -> str | None:
        """The dispatcher that `placement` names for an actor's path; the first matching pattern counts."""
        if not self._placement:
            return None
        path = f"{'' if parent is None else parent.path}/{f'{label}$' if name is None else name}"
        return next((chosen for pattern, chosen in self._placement.items() if fnmatchcase(path, pattern)), None)

    def _pool_of(self, name: str, settings: DispatcherSettings, owner: SystemLoop) -> Pool:
        key = (name, None if isinstance(settings, Parallel) else owner)
        pool = self._pools.get(key)
        if pool is None:
            if isinstance(settings, Parallel):
                from greenroom.system.dispatchers.parallel import ThreadPool

                pool = ThreadPool(name, self._system, settings.threads)
            elif isinstance(settings, Process):
                from greenroom.system.dispatchers.processes.pool.worker import WorkerPool

                pool = WorkerPool(name, owner, settings.workers, settings.frame_limit, settings.keep)
            else:
                from greenroom.system.dispatchers.pinned import PinnedThreads

                assert isinstance(settings, Pinned)
                pool = PinnedThreads(name, self._system, settings.core, self._loop_factory)
            self._pools[key] = pool
        return pool

    def close(self) -> list[threading.Thread]:
        """When all loops have ended: let the threads end after their hand-offs; those that have not ended yet."""
        return [thread for pool in self._pools.values() for thread in pool.close()]
