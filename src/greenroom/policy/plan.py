"""What to do about an exit: decided here, carried out above.

A plan is the ordered actions of a `Supervisor`.

>>> children = [Child("a", Restart.PERMANENT), Child("b", Restart.TRANSIENT), Child("c", Restart.TEMPORARY)]
>>> plan(Scope.ONE_FOR_ALL, AutoShutdown.NEVER, children, 0, ExitKind.FAIL)
(Stop(names=('c', 'b')), Forget(name='c'), Start(names=('a', 'b')))
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from greenroom.exits import ExitKind
from greenroom.policy.children import AutoShutdown, Restart
from greenroom.policy.directives import Scope, group_of

_ORDERLY = frozenset({ExitKind.NORMAL, ExitKind.SHUTDOWN})


def wants_restart(restart: Restart, kind: ExitKind) -> bool:
    """Whether a child comes back after such an end."""
    return restart is Restart.PERMANENT or (restart is Restart.TRANSIENT and kind not in _ORDERLY)


@dataclass(frozen=True)
class Child:
    """A child as a plan sees it.

    A child that was stopped on request is not `present`: it is left alone until a request starts it again. One that
    has `finished` by itself takes part in a restart of its group.
    """

    name: str
    restart: Restart
    present: bool = True
    significant: bool = False
    finished: bool = False


@dataclass(frozen=True)
class Stop:
    """Bring these to an end, or to rest, one after the other."""

    names: tuple[str, ...]


@dataclass(frozen=True)
class Start:
    """Start these, one after the other, when the delay is over."""

    names: tuple[str, ...]


@dataclass(frozen=True)
class Forget:
    """There is no such child any more."""

    name: str


@dataclass(frozen=True)
class GiveUp:
    """One restart too many: fail."""


@dataclass(frozen=True)
class ShutDown:
    """Significant children have ended: end too."""


Action = Stop | Start | Forget | GiveUp | ShutDown


def plan(
    scope: Scope,
    auto_shutdown: AutoShutdown,
    children: Sequence[Child],
    exited: int,
    kind: ExitKind,
    within_limit: bool = True,
) -> tuple[Action, ...]:
    """What a supervisor does when the child at `exited` has ended: in which order, and to whom.

    Only an end after which a restart is wanted counts for the limit; `within_limit` says whether it was one too many.
    """
    if not wants_restart(children[exited].restart, kind):
        return _not_restarted(auto_shutdown, children, exited)
    if not within_limit:
        return (*_stop_all_but(children, exited), GiveUp())
    group = [children[number] for number in group_of(scope, len(children), exited) if children[number].present]
    siblings = [child.name for child in reversed(group) if child is not children[exited] and not child.finished]
    return (
        *([Stop(tuple(siblings))] if siblings else []),
        *[Forget(child.name) for child in group if child.restart is Restart.TEMPORARY],
        Start(tuple(child.name for child in group if child.restart is not Restart.TEMPORARY)),
    )


def _not_restarted(auto_shutdown: AutoShutdown, children: Sequence[Child], exited: int) -> tuple[Action, ...]:
    """A child is not to come back. If it was significant, the supervisor may have to go too."""
    child = children[exited]
    forgotten = [Forget(child.name)] if child.restart is Restart.TEMPORARY else []
    if not child.significant or auto_shutdown is AutoShutdown.NEVER:
        return tuple(forgotten)
    left = any(other.significant and other.present and not other.finished for other in children if other is not child)
    if auto_shutdown is AutoShutdown.ALL and left:
        return tuple(forgotten)
    return (*forgotten, *_stop_all_but(children, exited), ShutDown())


def _stop_all_but(children: Sequence[Child], exited: int) -> tuple[Stop, ...]:
    others = tuple(
        child.name
        for child in reversed(children)
        if child.present and not child.finished and child is not children[exited]
    )
    return (Stop(others),) if others else ()
