"""`SystemConfig`: the limits, defaults, clock and seed of a system.

>>> SystemConfig(max_actors=10).max_actors
10
>>> SystemConfig(stop_timeout=-1)
Traceback (most recent call last):
    ...
greenroom.errors.ConfigError: stop_timeout=-1: must be a number of seconds, zero or more
>>> SystemConfig.from_mapping({"max_actors": 5, "mailbox": {"capacity": 2, "overflow": "drop_old"}}).mailbox.capacity
2
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field, fields, replace
from enum import Enum
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

from greenroom._core.limits import Limits
from greenroom.clock import Clock
from greenroom.errors import ConfigError
from greenroom.frozen import ByFields
from greenroom.lanes import Lane, MailboxConfig, Overflow
from greenroom.policy.specs import Supervision
from greenroom.validation import require_bool, require_instance, require_seconds, require_whole

if TYPE_CHECKING:
    from pathlib import Path

MOST_LOOPS = 1024
_PREFIX = "GREENROOM_"
_NOT_OURS = frozenset({"PURE", "REQUIRE_COMPILED", "EXPECT", "TRACEBACKS"})
"""Variables with our prefix that are no settings of a system: for the package's build and tests, and for debugging."""


class OnExit(Enum):
    """What becomes of unfinished work when a system ends in the ordinary way: its block is left, say."""

    DRAIN = "drain"
    """The system works on until it is quiet, for at most `drain_timeout` seconds."""
    DISCARD = "discard"
    """What is queued goes where each actor's `drain` says: to the dead letters, by default."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class SystemConfig(ByFields):
    """The settings of an `ActorSystem`. Each limit is enforced with an error of its own."""

    max_actors: int = 1_000_000
    """Actors alive at once; the system's own do not count."""
    mailbox: MailboxConfig = field(default_factory=MailboxConfig)
    """The mailbox of actors that are spawned without one."""
    max_msgs_per_actor: int = 64
    """The maximum number of messages in one visit to an actor."""
    max_actors_per_tick: int = 1024
    """The maximum number of visits before the loop lets asyncio run."""
    max_tick_time: float = 0.002
    """Seconds after which the loop lets asyncio run, when the current message is done."""
    max_timers: int = 10_000_000
    """Timers pending at once."""
    max_io_watches: int = 1024
    """File descriptors watched at once."""
    stop_timeout: float = 5.0
    """Seconds that an actor and its children have to stop before they are forced."""
    on_exit: OnExit = OnExit.DRAIN
    """Whether the system finishes its work before it ends in the ordinary way: by the end of its block, by
    `shutdown()`, `close()` or a first signal. An exception, `stop()` and a second signal do not wait for it."""
    drain_timeout: float = 5.0
    """Seconds that it has for that; then the rest is discarded, with a warning that says what and whose."""
    start_timeout: float | None = 600.0
    """Seconds that an actor has to start, if it waits for something; then its start is cancelled, and it fails with
    `StartTimeout`. None for as long as it likes."""
    dead_letters: int = 1000
    """How many dead letters are kept."""
    slow_after: float = 0.1
    """Seconds after which a handler counts as slow, and observers are told."""
    stuck_after: float = 1.0
    """Seconds after which a handler that still blocks the system's thread is logged; 0 for never."""
    history: bool = False
    """Whether actors remember the states they went through: each the last thousand."""
    clock: Clock | None = None
    """The source of time; the machine's monotonic clock if None."""
    seed: int | None = None
    """The seed of `system.random`; a fresh one if None."""
    supervision: Supervision = field(default_factory=Supervision)
    """The supervision of actors for which neither their spawn nor their parent's says otherwise."""
    env: Mapping[str, Any] = field(default_factory=dict)
    """What actors find in `ctx.env`."""
    dispatchers: Mapping[str, Any] = field(default_factory=dict)
    """Further dispatchers, or other settings for the built-in ones: `{"io": Parallel(threads=8)}`."""
    placement: Mapping[str, str] = field(default_factory=dict)
    """The dispatchers of actors that are spawned without one, by patterns of their paths; the first match counts:
    `{"/ingest/*": "io"}`. The path of a nameless actor ends with its class and a `$`."""

    loops: int | Literal["cores"] = 1
    """Loops that the system has, each on a thread of its own; `"cores"` for as many as there are processors. On
    free-threaded Python they run at the same time. Actors go to others than the first by `dispatcher="spread"`."""
    propagate: Sequence[ContextVar[Any]] = ()
    """Context variables whose values travel with messages: what is set at the sender is set in the handler."""

    def __post_init__(self) -> None:
        self.limits()
        require_instance("mailbox", self.mailbox, MailboxConfig, "a MailboxConfig")
        require_seconds("stop_timeout", self.stop_timeout)
        if not isinstance(self.on_exit, OnExit):
            object.__setattr__(self, "on_exit", _on_exit_of(self.on_exit))
        require_seconds("drain_timeout", self.drain_timeout)
        if self.start_timeout != math.inf:
            require_seconds("start_timeout", self.start_timeout, none=True)
        require_seconds("slow_after", self.slow_after)
        require_seconds("stuck_after", self.stuck_after)
        require_whole("dead_letters", self.dead_letters, "a whole number, zero or more", 0, sys.maxsize)
        require_bool("history", self.history)
        if self.clock is not None and not callable(getattr(self.clock, "now", None)):
            raise ConfigError("clock", self.clock, "must have a `now()` method that returns seconds")
        if self.seed is not None:
            require_whole("seed", self.seed, "a whole number, or None")
        require_instance("supervision", self.supervision, Supervision, "a Supervision")
        require_instance("env", self.env, Mapping, "a mapping")
        object.__setattr__(self, "env", MappingProxyType(dict(self.env)))
        if self.loops != "cores":
            require_whole("loops", self.loops, f'a whole number from 1 to {MOST_LOOPS}, or "cores"', 1, MOST_LOOPS)
        _require_dispatchers(self)
        object.__setattr__(self, "propagate", _variables(self.propagate))

    def __reduce__(self) -> tuple[object, ...]:
        # Mapping proxies cannot be pickled; their contents can.
        values = {one.name: getattr(self, one.name) for one in fields(self)}
        plain = {name: dict(value) if isinstance(value, MappingProxyType) else value for name, value in values.items()}
        return SystemConfig.from_mapping, (plain,)

    def limits(self) -> Limits:
        """The limits that a loop enforces."""
        return Limits(
            max_actors=self.max_actors,
            max_msgs_per_actor=self.max_msgs_per_actor,
            max_actors_per_tick=self.max_actors_per_tick,
            max_tick_time=self.max_tick_time,
            max_timers=self.max_timers,
            max_io_watches=self.max_io_watches,
        )

    def loop_count(self) -> int:
        """How many loops that is."""
        if self.loops != "cores":
            return self.loops
        has_affinity = hasattr(os, "sched_getaffinity")
        return max(1, len(os.sched_getaffinity(0)) if has_affinity else os.cpu_count() or 1)

    @classmethod
    def load(cls, path: str | Path | None = None, environ: Mapping[str, str] | None = None) -> SystemConfig:
        """Defaults, overridden by a TOML file if one is named, overridden by `GREENROOM_*` variables."""
        base = cls() if path is None else cls.from_toml(path)
        return base.with_environ(os.environ if environ is None else environ)

    @classmethod
    def from_toml(cls, path: str | Path) -> SystemConfig:
        """Read `[tool.greenroom]` of a TOML file, or `[greenroom]`, or (without either) the whole file."""
        import tomllib  # slow to import, and few programs need them
        from pathlib import Path

        try:
            content = tomllib.loads(Path(path).read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as exc:
            raise ConfigError("path", str(path), f"cannot be read as TOML: {exc}") from exc
        tools = content.get("tool", {})
        require_instance("tool", tools, Mapping, "a table")
        section = tools.get("greenroom", content.get("greenroom"))
        if section is None:
            section = {} if "tool" in content or "project" in content else content
        return cls.from_mapping(section)

    @classmethod
    def from_mapping(cls, values: Mapping[str, Any]) -> SystemConfig:
        """Settings by their names; `mailbox` is a mapping of its own."""
        require_instance("config", values, Mapping, "a mapping of settings")
        for name in values:
            _require_known(name)
        given = dict(values)
        if isinstance(given.get("mailbox"), Mapping):
            given["mailbox"] = _mailbox_of(given["mailbox"])
        return cls(**given)

    def with_environ(self, environ: Mapping[str, str]) -> SystemConfig:
        """These settings, overridden by `GREENROOM_MAX_ACTORS`, `GREENROOM_MAILBOX_CAPACITY` and so on."""
        changes: dict[str, Any] = {}
        mailbox: dict[str, Any] = {}
        for variable, text in sorted(environ.items()):
            name = variable.removeprefix(_PREFIX)
            if name == variable or name in _NOT_OURS:
                continue
            setting = name.lower()
            if setting.startswith("mailbox_"):
                mailbox[setting.removeprefix("mailbox_")] = text
            else:
                _require_known(setting, variable)
                changes[setting] = _parse(variable, setting, text)
        if mailbox:
            if "capacity" in mailbox:
                mailbox["capacity"] = _parse_number("GREENROOM_MAILBOX_CAPACITY", mailbox["capacity"], int)
            changes["mailbox"] = _mailbox_of(mailbox, self.mailbox)
        return replace(self, **changes)


_SETTINGS = {one.name: one for one in fields(SystemConfig)}


def _require_known(name: str, shown: str | None = None) -> None:
    if name not in _SETTINGS:
        raise ConfigError(shown or name, "...", f"there is no such setting; there are: {', '.join(_SETTINGS)}")


def _variables(given: object) -> tuple[ContextVar[Any], ...]:
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise ConfigError("propagate", given, "must be a sequence of context variables")
    variables = tuple(given)
    for one in variables:
        if not isinstance(one, ContextVar):
            raise ConfigError("propagate", one, "must have only variables made by contextvars.ContextVar")
        if variables.count(one) > 1:
            raise ConfigError("propagate", one, "must have each variable once")
    return variables


def _require_dispatchers(config: SystemConfig) -> None:
    for name in ("dispatchers", "placement"):
        given = getattr(config, name)
        if not isinstance(given, Mapping) or not all(isinstance(key, str) and key for key in given):
            raise ConfigError(name, given, "must be a mapping with texts as its keys")
        object.__setattr__(config, name, MappingProxyType(dict(given)))
    if config.dispatchers or config.placement:
        # Few programs need it, and it is slow to import.
        from greenroom.system.dispatchers.registry import Dispatchers

        Dispatchers("config", config.dispatchers, config.placement)


def _mailbox_of(values: Mapping[str, Any], base: MailboxConfig | None = None) -> MailboxConfig:
    given = dict(values)
    unknown = given.keys() - {"capacity", "overflow", "lanes"}
    if unknown:
        raise ConfigError(
            f"mailbox.{min(unknown)}", "...", "there is no such setting; there are: capacity, overflow, lanes"
        )
    if isinstance(given.get("overflow"), str):
        try:
            given["overflow"] = Overflow(given["overflow"].lower())
        except ValueError:
            choices = ", ".join(one.value for one in Overflow)
            raise ConfigError("mailbox.overflow", given["overflow"], f"must be one of {choices}") from None
    if isinstance(given.get("lanes"), Mapping):
        given["lanes"] = {_lane_of(name): room for name, room in given["lanes"].items()}
    return MailboxConfig(**given) if base is None else replace(base, **given)


def _on_exit_of(given: object) -> OnExit:
    try:
        return OnExit(given.lower() if isinstance(given, str) else given)
    except ValueError:
        raise ConfigError("on_exit", given, "must be OnExit.DRAIN or OnExit.DISCARD") from None


def _lane_of(name: object) -> Lane:
    try:
        return Lane[str(name).upper()]
    except KeyError:
        raise ConfigError(
            "mailbox.lanes", name, f"must be one of {', '.join(one.name.lower() for one in Lane)}"
        ) from None


def _parse(variable: str, setting: str, text: str) -> bool | int | float | str | None:
    if setting in ("clock", "dispatchers", "env", "mailbox", "placement", "propagate", "supervision"):
        raise ConfigError(variable, text, "cannot be given as a variable")
    if setting == "on_exit" or (setting == "loops" and text == "cores"):
        return text
    if setting == "history":
        if text.lower() not in ("1", "0", "true", "false", "yes", "no"):
            raise ConfigError(variable, text, "must be true or false")
        return text.lower() in ("1", "true", "yes")
    kind = str(_SETTINGS[setting].type)
    if "None" in kind and text.lower() == "none":
        return None
    return _parse_number(variable, text, float if kind.startswith("float") else int)


def _parse_number(variable: str, text: str, kind: type[int | float]) -> int | float:
    try:
        return kind(text)
    except ValueError:
        raise ConfigError(variable, text, "must be a number") from None
