"""Runtime messages about the lives of actors.

>>> PreStart()
PreStart()
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from greenroom.exits import ExitReason

if TYPE_CHECKING:
    from greenroom.actor.ref import ActorRef

__all__ = [
    "ChildTerminated",
    "PostRestart",
    "PostStart",
    "PostStop",
    "PreRestart",
    "PreStart",
    "PreStop",
    "ReceiveTimeout",
    "Signal",
    "Terminated",
]


class Signal:
    """Something the runtime tells an actor about its own life, or about another's; `on_signal` gets every one."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class PreStart(Signal):
    """Before its first message."""


@dataclass(frozen=True, slots=True)
class PostStart(Signal):
    """The last thing before it is RUNNING."""


@dataclass(frozen=True, slots=True)
class PreStop(Signal):
    """It has been told to stop; its children still live."""


@dataclass(frozen=True, slots=True)
class PostStop(Signal):
    """The last thing that runs; its children have ended."""


@dataclass(frozen=True, slots=True)
class PreRestart(Signal):
    """Before it ends to be made afresh."""

    cause: BaseException | None


@dataclass(frozen=True, slots=True)
class PostRestart(Signal):
    """After it was made afresh."""


@dataclass(frozen=True, slots=True, eq=False)
class Terminated(Signal):
    """A watched actor has ended for good. `cause` is the exception that ended it, if one did."""

    ref: ActorRef[Any, Any]
    cause: BaseException | None
    reason: ExitReason


@dataclass(frozen=True, slots=True, eq=False)
class ChildTerminated(Signal):
    """A child has ended for good."""

    ref: ActorRef[Any, Any]
    cause: BaseException | None
    reason: ExitReason


@dataclass(frozen=True, slots=True)
class ReceiveTimeout:
    """A notice, handled like a message: no message came for as long as `set_receive_timeout` said."""
