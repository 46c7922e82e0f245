"""The dispatchers of one system, by name; and which of them an actor gets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

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
    from greenroom.actor.offload.executor import Executor

__all__ = ["Dispatchers"]


class Dispatchers(Mapping[str, DispatcherSettings]):
    """Who decides on which thread, or in which process, an actor's code runs: a mapping of names to settings.

    >>> dispatchers = Dispatchers("demo")
    >>> dispatchers.add("io", Parallel(threads=8))
    >>> list(dispatchers), dispatchers["io"]
    (['concurrent', 'pinned', 'parallel', 'process', 'io'], Parallel(threads=8))
    """

    def __init__(
        self,
        system: str,
        settings: Mapping[str, Any] | None = None,
        placement: Mapping[str, str] | None = None,
        *,
        in_place: bool = False,
        loop_factory: Any = None,
        home: Any = None,
    ) -> None:
        self._system = system
        # The system itself, which worker processes are served by.
        self._home = home
        # Whether everything runs on the loop's own thread, whatever was said: in a simulation.
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
        # Those that have been used: their threads are started when they are needed.
        self._crews: dict[str, Any] = {}

    def __getitem__(self, name: str) -> DispatcherSettings:
        return self._settings[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._settings)

    def __len__(self) -> int:
        return len(self._settings)

    def __repr__(self) -> str:
        return f"<Dispatchers of {self._system}: {', '.join(self._settings)}>"

    def add(self, name: str, settings: DispatcherSettings) -> None:
        """Let actors be spawned with `dispatcher=name` from now on."""
        given: object = name
        if not isinstance(given, str) or not given:
            raise ConfigError("name", given, "must be a text that is not empty")
        if name in self._settings:
            raise DispatcherExists(name)
        self._settings[name] = settings_of(name, settings)

    @property
    def threads(self) -> dict[str, int]:
        """How many threads each of them has at present; those without are left out."""
        return {name: crew.threads for name, crew in self._crews.items() if crew.threads}

    @property
    def processes(self) -> dict[str, list[int]]:
        """The ids of the worker processes that each of those that may have some has at present."""
        kinds = [name for name, settings in self._settings.items() if isinstance(settings, Process)]
        return {name: self._crews[name].pids if name in self._crews else [] for name in kinds}

    def _require(self, name: object) -> DispatcherSettings:
        found = self._settings.get(name) if isinstance(name, str) else None
        if found is None:
            raise UnknownDispatcher(name, tuple(self._settings))
        return found

    # -- for the system, on its own thread

    def executor_for(
        self, dispatcher: str | None, spec: ActorSpec, name: str | None, parent: Any
    ) -> tuple[str | None, Executor | None]:
        """By which dispatcher, and where, a new actor's code runs; nothing if on the loop's own thread."""
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
        return chosen, self._crew_of(chosen, settings).executor(spec)

    def _placed(self, spec: ActorSpec, name: str | None, parent: Any) -> str | None:
        """What the configuration says of an actor by its path; the first pattern that fits counts."""
        if not self._placement:
            return None
        path = f"{'' if parent is None else parent.path}/{f'{spec.label[0]}$' if name is None else name}"
        return next((chosen for pattern, chosen in self._placement.items() if fnmatchcase(path, pattern)), None)

    def _crew_of(self, name: str, settings: DispatcherSettings) -> Any:
        crew = self._crews.get(name)
        if crew is None:
            if isinstance(settings, Parallel):
                from greenroom.system.dispatchers.parallel import ThreadPool

                crew = ThreadPool(name, self._system, settings.threads)
            elif isinstance(settings, Process):
                from greenroom.system.dispatchers.processes.pool.pool import WorkerPool

                crew = WorkerPool(name, self._home, settings.workers, settings.frame_limit)
            else:
                from greenroom.system.dispatchers.pinned import PinnedThreads

                assert isinstance(settings, Pinned)
                crew = PinnedThreads(name, self._system, settings.core, self._loop_factory)
            self._crews[name] = crew
        return crew

    def close(self) -> list[threading.Thread]:
        """Let all threads end, when they have done what they do; those that are still to be waited for."""
        return [thread for crew in self._crews.values() for thread in crew.close()]
