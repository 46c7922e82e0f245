"""What users say about the failures of an actor, checked when they say it.

>>> Supervision(max_restarts=-1)
Traceback (most recent call last):
    ...
greenroom.errors.ConfigError: max_restarts=-1: must be a whole number, zero or more, or None for no limit
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from inspect import iscoroutine
from math import inf

from greenroom.errors import ConfigError
from greenroom.frozen import ByFields
from greenroom.policy.backoff import Backoff
from greenroom.policy.directives import Directive, OnRestart, Scope

__all__ = ["Supervision", "require_backoff", "require_limit", "require_one_of", "require_period"]

_DEFAULT_BACKOFF = Backoff()


@dataclass(frozen=True, eq=False, repr=False)
class Supervision(ByFields):
    """What happens to an actor when it fails. Children without one inherit their parent's.

    >>> def decide(cause: BaseException) -> Directive:
    ...     return Directive.RESUME if isinstance(cause, ValueError) else Directive.RESTART
    >>> Supervision(decide, max_restarts=10, within=60.0, backoff=Backoff(min=0.1, max=30.0, jitter=0.2)).scope
    <Scope.ONE_FOR_ONE: 'one_for_one'>
    """

    strategy: Directive | Callable[[BaseException], Directive] = Directive.RESTART
    """The directive for every failure, or a function that chooses one by the exception."""
    scope: Scope = Scope.ONE_FOR_ONE
    """Who is restarted with it, among its siblings."""
    max_restarts: int | None = 3
    """Restarts in `within` seconds that are allowed; None for any number."""
    within: float = 1.0
    on_limit: Directive = Directive.STOP
    """What happens to one restart too many: STOP, or ESCALATE."""
    backoff: Backoff | None = _DEFAULT_BACKOFF
    """How long a restart waits; None for not at all."""
    mailbox: OnRestart = OnRestart.KEEP
    """What becomes of queued messages in a restart."""

    def __post_init__(self) -> None:
        if not isinstance(self.strategy, Directive) and not callable(self.strategy):
            raise ConfigError("strategy", self.strategy, "must be a Directive, or a function that returns one")
        require_one_of("scope", self.scope, Scope)
        require_limit("max_restarts", self.max_restarts)
        require_period("within", self.within)
        if self.on_limit not in (Directive.STOP, Directive.ESCALATE):
            raise ConfigError("on_limit", self.on_limit, "must be Directive.STOP or Directive.ESCALATE")
        require_backoff(self.backoff)
        require_one_of("mailbox", self.mailbox, OnRestart)

    def directive_for(self, cause: BaseException) -> Directive:
        """What the strategy says of `cause`."""
        if isinstance(self.strategy, Directive):
            return self.strategy
        said = self.strategy(cause)
        if not isinstance(said, Directive):
            if iscoroutine(said):
                said.close()
            raise TypeError(f"the strategy {self.strategy!r} returned {said!r}, which is no Directive")
        return said


def require_one_of(name: str, value: object, choices: type[Enum]) -> None:
    """Raise unless `value` is a member of the enum `choices`."""
    if not isinstance(value, choices):
        words = ", ".join(f"{choices.__name__}.{one.name}" for one in choices)
        raise ConfigError(name, value, f"must be one of {words}")


def require_limit(name: str, value: object) -> None:
    """Raise unless `value` is a number of times, or None."""
    if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 0):
        raise ConfigError(name, value, "must be a whole number, zero or more, or None for no limit")


def require_period(name: str, value: object, otherwise: str = "") -> None:
    """Raise unless `value` is a number of seconds."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0.0 <= value < inf:
        raise ConfigError(name, value, f"must be a number of seconds, zero or more{otherwise}")


def require_backoff(value: object) -> None:
    """Raise unless `value` is a backoff, or None."""
    if value is not None and not isinstance(value, Backoff):
        raise ConfigError("backoff", value, "must be a Backoff, or None to restart at once")
