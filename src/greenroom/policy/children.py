"""What users say about the children of supervisors, checked when they say it.

>>> ChildSpec("db", dict, significant=True)
Traceback (most recent call last):
    ...
greenroom.errors.ConfigError: significant=True: a permanent child never ends by itself: make it transient or temporary
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from math import inf
from typing import Any

from greenroom.errors import ConfigError, InvalidName
from greenroom.lanes import MailboxConfig
from greenroom.policy.backoff import Backoff
from greenroom.policy.directives import OnRestart, Scope
from greenroom.policy.specs import require_backoff
from greenroom.validation import require_bool, require_instance, require_limit, require_one_of, require_seconds


class Restart(Enum):
    """After which exits a `Supervisor` restarts a child."""

    PERMANENT = "permanent"
    """After every end."""
    TRANSIENT = "transient"
    """After an abnormal end only: a failure, a panic, a kill."""
    TEMPORARY = "temporary"
    """Never; once ended, it is forgotten."""


class Shutdown(Enum):
    """How long a child may take to stop, other than a number of seconds."""

    KILL = "kill"
    """No time at all: it is killed."""
    INFINITY = "infinity"
    """As long as it likes."""


class AutoShutdown(Enum):
    """Whether a `Supervisor` ends when its significant children have."""

    NEVER = "never"
    ANY = "any"
    """When one of them has ended by itself."""
    ALL = "all"
    """When the last of them has."""


@dataclass(frozen=True)
class ChildSpec:
    """How a `Supervisor` starts a child, and when it restarts it.

    `shutdown` is how long the child may take to stop: seconds, or one of `Shutdown`. `mailbox` is the mailbox it is
    spawned with (a `MailboxConfig`), or what becomes of its queue in a restart (an `OnRestart`). A `backoff` of its own
    goes over the supervisor's.
    """

    name: str
    factory: Any
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict, hash=False)
    restart: Restart = Restart.PERMANENT
    shutdown: float | Shutdown = 5.0
    backoff: Backoff | None = None
    mailbox: MailboxConfig | OnRestart | None = None
    significant: bool = False
    dispatcher: str | None = None
    """The dispatcher that runs it; None for the system's own loop, or what the configuration says."""

    def __post_init__(self) -> None:
        given: object = self.name
        if not isinstance(given, str) or not given or "/" in given or "$" in given:
            raise InvalidName(given)
        _require_several("args", self.args, "must be a tuple of the factory's arguments")
        object.__setattr__(self, "args", tuple(self.args))
        require_instance("kwargs", self.kwargs, Mapping, "a mapping of the factory's keyword arguments")
        object.__setattr__(self, "kwargs", dict(self.kwargs))
        require_one_of("restart", self.restart, Restart)
        if not isinstance(self.shutdown, Shutdown):
            require_seconds("shutdown", self.shutdown, " or one of Shutdown")
        require_backoff(self.backoff)
        require_instance("mailbox", self.mailbox, MailboxConfig | OnRestart | None, "a MailboxConfig or an OnRestart")
        require_instance("dispatcher", self.dispatcher, str | None, "the name of a dispatcher")
        require_bool("significant", self.significant)
        if self.significant and self.restart is Restart.PERMANENT:
            raise ConfigError(
                "significant", True, "a permanent child never ends by itself: make it transient or temporary"
            )

    @property
    def patience(self) -> float:
        """Seconds it may take to stop."""
        if isinstance(self.shutdown, Shutdown):
            return inf if self.shutdown is Shutdown.INFINITY else 0.0
        return self.shutdown


@dataclass(frozen=True)
class SupervisorSpec:
    """The children of a `Supervisor`, in start order, and how it restarts them.

    More than `intensity` restarts in `period` seconds are too many: the supervisor stops its children and fails.
    """

    children: tuple[ChildSpec, ...] = ()
    scope: Scope = Scope.ONE_FOR_ONE
    intensity: int | None = 3
    period: float = 5.0
    auto_shutdown: AutoShutdown = AutoShutdown.NEVER
    backoff: Backoff | None = None
    """How long restarts wait; None for not at all."""

    def __post_init__(self) -> None:
        _require_several("children", self.children, "must be a list of ChildSpec")
        object.__setattr__(self, "children", tuple(self.children))
        require_one_of("scope", self.scope, Scope)
        require_limit("intensity", self.intensity)
        require_seconds("period", self.period)
        require_one_of("auto_shutdown", self.auto_shutdown, AutoShutdown)
        require_backoff(self.backoff)
        names: set[str] = set()
        for child in self.children:
            self.require_fit(child)
            if child.name in names:
                raise ConfigError("children", child.name, "two children have this name")
            names.add(child.name)

    def require_fit(self, child: object) -> ChildSpec:
        """Return `child` if it can be a child of this supervisor."""
        if not isinstance(child, ChildSpec):
            raise ConfigError("children", child, "must be a ChildSpec")
        if child.significant and self.auto_shutdown is AutoShutdown.NEVER:
            raise ConfigError(
                "significant", True, f"{child.name!r} is significant for nothing: auto_shutdown must be ANY or ALL"
            )
        return child


@dataclass(frozen=True)
class DynamicSpec:
    """The template of a `DynamicSupervisor`'s children, and its limits."""

    template: ChildSpec
    intensity: int | None = 3
    period: float = 5.0
    backoff: Backoff | None = None
    max_children: int | None = None
    """How many there may be at once; None for any number."""

    def __post_init__(self) -> None:
        require_instance("template", self.template, ChildSpec, "a ChildSpec")
        if self.template.significant:
            raise ConfigError("template", self.template.name, "children made of a template cannot be significant")
        require_limit("intensity", self.intensity)
        require_seconds("period", self.period)
        require_backoff(self.backoff)
        require_limit("max_children", self.max_children)


def _require_several(name: str, value: object, why: str) -> None:
    if not isinstance(value, Iterable) or isinstance(value, str | bytes):
        raise ConfigError(name, value, why)
