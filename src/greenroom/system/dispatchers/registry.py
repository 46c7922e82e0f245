"""The dispatchers of one system, by name, and the choice of one for each actor."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, cast

from greenroom.errors import ConfigError, DispatcherExists, StaysAtHome, UnknownDispatcher
from greenroom.system.dispatchers.settings import (
    BUILT_IN,
    Concurrent,
    DispatcherSettings,
    Parallel,
    Pinned,
    Process,
    settings_of,
)

if TYPE_CHECKING:
    import threading

    from greenroom.actor.life.spec import ActorSpec
    from greenroom.actor.messaging.ref import ActorRef
    from greenroom.actor.offload.executor import Executor
    from greenroom.system.dispatchers.parallel import ThreadPool
    from greenroom.system.dispatchers.pinned import LoopFactory, PinnedThreads
    from greenroom.system.dispatchers.processes.pool.pool import WorkerPool
    from greenroom.system.dispatchers.processes.pool.ports import OwnerSystem

    Pool = ThreadPool | PinnedThreads | WorkerPool

__all__ = ["Dispatchers"]


class Dispatchers(Mapping[str, DispatcherSettings]):
    """A mapping of names to settings of dispatchers, which decide where an actor's code runs.

    >>> dispatchers = Dispatchers("demo")
    >>> dispatchers.add("io", Parallel(threads=8))
    >>> list(dispatchers), dispatchers["io"]
    (['concurrent', 'pinned', 'parallel', 'process', 'io'], Parallel(threads=8))
    """

    def __init__(
        self,
        system: str,
        settings: Mapping[str, object] | None = None,
        placement: Mapping[str, str] | None = None,
        *,
        in_place: bool = False,
        loop_factory: LoopFactory | None = None,
        home: OwnerSystem | None = None,
    ) -> None:
        self._system = system
        # The system itself, which serves the worker processes.
        self._owner = home
        # Whether all code runs on the loop's own thread, whatever its dispatcher: in a simulation.
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
        # The threads or processes of the dispatchers that have been used.
        self._pools: dict[str, Pool] = {}

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
        return {name: pool.threads for name, pool in self._pools.items() if pool.threads}

    @property
    def processes(self) -> dict[str, list[int]]:
        """The ids of the worker processes that each `Process` dispatcher has at present."""
        names = [name for name, settings in self._settings.items() if isinstance(settings, Process)]
        return {name: cast("WorkerPool", self._pools[name]).pids if name in self._pools else [] for name in names}

    def _require(self, name: object) -> DispatcherSettings:
        found = self._settings.get(name) if isinstance(name, str) else None
        if found is None:
            raise UnknownDispatcher(name, tuple(self._settings))
        return found

    # -- for the system, on its own thread

    def executor_for(
        self, dispatcher: str | None, spec: ActorSpec, name: str | None, parent: ActorRef | None
    ) -> tuple[str | None, Executor | None]:
        """The dispatcher and the executor of a new actor; None for the loop's own thread."""
        chosen = self._placed(spec, name, parent) if dispatcher is None else dispatcher
        if chosen is None:
            return None, None
        settings = self._require(chosen)
        if isinstance(settings, Concurrent):
            return (None if chosen == "concurrent" else chosen), None
        if spec.class_info is not None and spec.class_info.actor_class.__greenroom_stays_on_loop__:
            if dispatcher is not None:
                raise StaysAtHome(spec.label[0], chosen)
            return None, None
        if self._in_place:
            return chosen, None
        return chosen, self._pool_of(chosen, settings).executor(spec)

    def _placed(self, spec: ActorSpec, name: str | None, parent: ActorRef | None) -> str | None:
        """The dispatcher that `placement` names for an actor's path; the first matching pattern counts."""
        if not self._placement:
            return None
        path = f"{'' if parent is None else parent.path}/{f'{spec.label[0]}$' if name is None else name}"
        return next((chosen for pattern, chosen in self._placement.items() if fnmatchcase(path, pattern)), None)

    def _pool_of(self, name: str, settings: DispatcherSettings) -> Pool:
        pool = self._pools.get(name)
        if pool is None:
            if isinstance(settings, Parallel):
                from greenroom.system.dispatchers.parallel import ThreadPool

                pool = ThreadPool(name, self._system, settings.threads)
            elif isinstance(settings, Process):
                from greenroom.system.dispatchers.processes.pool.pool import WorkerPool

                assert self._owner is not None
                pool = WorkerPool(name, self._owner, settings.workers, settings.frame_limit)
            else:
                from greenroom.system.dispatchers.pinned import PinnedThreads

                assert isinstance(settings, Pinned)
                pool = PinnedThreads(name, self._system, settings.core, self._loop_factory)
            self._pools[name] = pool
        return pool

    def close(self) -> list[threading.Thread]:
        """Let all threads end after their hand-offs; return those that have not ended yet."""
        return [thread for pool in self._pools.values() for thread in pool.close()]
