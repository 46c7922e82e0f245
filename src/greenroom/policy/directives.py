"""The words of supervision.

>>> Scope.ALL_FOR_ONE is Scope.ONE_FOR_ALL
True
"""

from __future__ import annotations

from enum import Enum


class Directive(Enum):
    """What happens to an actor that failed."""

    RESTART = "restart"
    """The actor is made afresh; its ref and, by default, its queue stay."""
    STOP = "stop"
    """The actor ends for good."""
    RESUME = "resume"
    """The actor goes on as it is; only the message it failed on is lost."""
    ESCALATE = "escalate"
    """Its parent fails with the same cause; at the top, the system does."""


class Scope(Enum):
    """Which siblings are restarted when one fails."""

    ONE_FOR_ONE = "one_for_one"
    """The actor that failed, alone."""
    ONE_FOR_ALL = "one_for_all"
    """That actor and all its siblings."""
    REST_FOR_ONE = "rest_for_one"
    """That actor and the siblings that were started after it."""
    ALL_FOR_ONE = "one_for_all"  # noqa: PIE796 - the same by another name


class OnRestart(Enum):
    """What happens to queued messages in a restart."""

    KEEP = "keep"
    CLEAR = "clear"
    """They are dead letters."""


def group_of(scope: Scope, count: int, failed: int) -> range:
    """Which of `count` siblings, in the order they were started, are restarted when number `failed` fails."""
    if scope is Scope.ONE_FOR_ONE:
        return range(failed, failed + 1)
    return range(0 if scope is Scope.ONE_FOR_ALL else failed, count)
