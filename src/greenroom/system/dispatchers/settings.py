"""The kinds of dispatchers, and their settings.

>>> Parallel(threads=4)
Parallel(threads=4)
>>> Parallel(threads=0)
Traceback (most recent call last):
    ...
greenroom.errors.ConfigError: threads=0: must be a whole number, and at least 1
>>> settings_of("io", {"kind": "parallel", "threads": 8})
Parallel(threads=8)
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from greenroom.errors import ConfigError
from greenroom.frozen import Frozen
from greenroom.validation import require_bool, require_count, require_processor, require_whole

_FRAME_LIMIT = 1 << 28
_LEAST_LIMIT = 1 << 16


class DispatcherSettings(Frozen):
    """The base of the settings below, for `SystemConfig.dispatchers` and `system.dispatchers`."""

    __slots__ = ()


class Concurrent(DispatcherSettings):
    """The system's own loop: all actors on one thread, in turn. The fastest for messages, and the default."""

    __slots__ = ()


class Spread(DispatcherSettings):
    """The loop that has the fewest actors, of those that `SystemConfig(loops=...)` gives the system.

    An actor and all its children live on one loop: so this is for actors that `system.spawn` brings up, and a child
    stays with its parent.
    """

    __slots__ = ()


class Loop(DispatcherSettings):
    """A loop of its own, on a thread of its own, for all actors of this dispatcher and their children.

    With `core`, its thread runs on that processor alone. It is for actors that `system.spawn` brings up.
    """

    __slots__ = ("core",)

    core: int | None

    def __init__(self, core: int | None = None) -> None:
        require_processor("core", core)
        self._set(core)


class OnCallingThread(Loop):
    """A loop of its own, on the thread that calls `play()`: for a MAIN pod."""

    __slots__ = ()

    def __init__(self) -> None:
        object.__setattr__(self, "core", None)


class Pinned(DispatcherSettings):
    """A thread for each actor, with an asyncio loop of its own; on the processor `core`, if one is named."""

    __slots__ = ("core",)

    core: int | None

    def __init__(self, core: int | None = None) -> None:
        require_processor("core", core)
        self._set(core)


class Parallel(DispatcherSettings):
    """Worker threads that many actors share, for handlers that block or release the GIL.

    `threads` is how many handlers may run at once: by default four more than there are processors, and at most 32.
    """

    __slots__ = ("threads",)

    threads: int

    def __init__(self, threads: int | None = None) -> None:
        if threads is None:
            threads = min(32, (os.cpu_count() or 1) + 4)
        require_count("threads", threads)
        self._set(threads)


class Process(DispatcherSettings):
    """Worker processes that many actors share, for code that needs a processor of its own, or may crash.

    `workers` is how many processes there may be: by default as many as there are processors. `frame_limit` is how many
    bytes can be sent at once, and so the size of the largest message: by default 256 MiB. With `keep`, messages that a
    lost worker had not begun stay queued; else what was sent to it is lost with it. That takes a system call for each
    message whose handler sends something.
    """

    __slots__ = ("frame_limit", "keep", "workers")

    frame_limit: int
    keep: bool
    workers: int

    def __init__(self, workers: int | None = None, frame_limit: int = _FRAME_LIMIT, keep: bool = False) -> None:
        if workers is None:
            workers = os.cpu_count() or 1
        require_count("workers", workers)
        require_whole("frame_limit", frame_limit, f"a number of bytes, and at least {_LEAST_LIMIT}", _LEAST_LIMIT)
        require_bool("keep", keep)
        self._set(frame_limit, keep, workers)

    def __reduce__(self) -> tuple[object, ...]:
        return Process, (self.workers, self.frame_limit, self.keep)


BUILT_IN: dict[str, type[DispatcherSettings]] = {
    "concurrent": Concurrent,
    "spread": Spread,
    "pinned": Pinned,
    "parallel": Parallel,
    "process": Process,
}
"""The dispatchers that every system has."""
KINDS = {**BUILT_IN, "loop": Loop}
"""Those that a configuration file can name."""


def settings_of(name: str, value: object) -> DispatcherSettings:
    """The settings of the dispatcher `name`, given as settings, as the name of a kind, or as a table with a `kind`."""
    where = f"dispatchers[{name!r}]"
    if isinstance(value, DispatcherSettings):
        return value
    if isinstance(value, str):
        value = {"kind": value}
    if not isinstance(value, Mapping):
        known = ", ".join(f"{one.__name__}()" for one in KINDS.values())
        raise ConfigError(where, value, f"must be one of {known}, or a table with a `kind`")
    options: dict[str, Any] = dict(value)
    kind = options.pop("kind", name)
    if kind not in KINDS:
        raise ConfigError(f"{where}.kind", kind, f"must be one of {', '.join(KINDS)}")
    settings: Any = KINDS[kind]
    unknown = [option for option in options if option not in settings.__slots__]
    if unknown:
        known = f"; there are: {', '.join(settings.__slots__)}" if settings.__slots__ else ""
        raise ConfigError(f"{where}.{unknown[0]}", options[unknown[0]], f"{kind} has no such setting{known}")
    made: DispatcherSettings = settings(**options)
    return made
