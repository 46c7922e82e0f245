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
    "Down",
    "Exit",
    "MonitorRef",
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


class _Bare:
    """Equal to all of its kind, for it has nothing else to tell."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self)

    def __hash__(self) -> int:
        return hash(type(self))


class PreStart(_Bare, Signal):
    """Before its first message."""

    __slots__ = ()


class PostStart(_Bare, Signal):
    """The last thing before it is RUNNING."""

    __slots__ = ()


class PreStop(_Bare, Signal):
    """It has been told to stop; its children still live."""

    __slots__ = ()


class PostStop(_Bare, Signal):
    """The last thing that runs; its children have ended."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class PreRestart(Signal):
    """Before it ends to be made afresh."""

    cause: BaseException | None


class PostRestart(_Bare, Signal):
    """After it was made afresh."""

    __slots__ = ()


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


class ReceiveTimeout(_Bare):
    """A notice, handled like a message: no message came for as long as `set_receive_timeout` said."""

    __slots__ = ()


class MonitorRef:
    """One monitor: what `ctx.monitor` returns and `ctx.demonitor` takes. Equal to nothing but itself."""

    __slots__ = ("number", "ref")

    def __init__(self, ref: ActorRef[Any, Any], number: int) -> None:
        self.ref = ref
        self.number = number

    def __repr__(self) -> str:
        return f"<MonitorRef {self.number} of {self.ref}>"


@dataclass(frozen=True, slots=True, eq=False)
class Down:
    """A notice, handled like a message: a monitored actor has ended for good. One for every monitor."""

    mref: MonitorRef
    ref: ActorRef[Any, Any]
    reason: ExitReason


@dataclass(frozen=True, slots=True, eq=False)
class Exit:
    """A notice, handled like a message: a linked actor has ended, and this one traps exits."""

    ref: ActorRef[Any, Any]
    reason: ExitReason
