"""What users say about the failures of an actor, checked when they say it.

>>> Supervision(max_restarts=-1)
Traceback (most recent call last):
    ...
greenroom.errors.ConfigError: max_restarts=-1: must be a whole number, zero or more, or None for no limit
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from inspect import iscoroutine

from greenroom.errors import ConfigError
from greenroom.frozen import ByFields
from greenroom.policy.backoff import Backoff
from greenroom.policy.directives import Directive, OnRestart, Scope
from greenroom.validation import require_instance, require_limit, require_one_of, require_seconds

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
        require_seconds("within", self.within)
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


def require_backoff(value: object) -> None:
    """Raise unless `value` is a backoff, or None."""
    require_instance("backoff", value, Backoff | None, "a Backoff, or None to restart at once")
