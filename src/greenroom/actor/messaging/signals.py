"""Runtime messages about the lives of actors.

>>> PreStart()
PreStart()
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from greenroom.exits import ExitReason
from greenroom.frozen import Frozen

if TYPE_CHECKING:
    from greenroom.actor.messaging.ref import ActorRef


class Signal:
    """A lifecycle event of the actor itself or of another; `on_signal` gets every one."""

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
    """Sent before the first message."""

    __slots__ = ()


class PostStart(_Bare, Signal):
    """Sent last, before the actor is RUNNING."""

    __slots__ = ()


class PreStop(_Bare, Signal):
    """The actor has been told to stop; its children are still alive."""

    __slots__ = ()


class PostStop(_Bare, Signal):
    """Sent last; the children have ended."""

    __slots__ = ()


class PreRestart(Frozen, Signal):
    """Sent to the old instance before a restart replaces it."""

    __slots__ = ("cause",)

    cause: BaseException | None

    def __init__(self, cause: BaseException | None) -> None:
        self._set(cause)


class PostRestart(_Bare, Signal):
    """A restart has made a new instance."""

    __slots__ = ()


class _Told(Frozen):
    """News of one end. Equal to nothing but itself: two ends are two ends."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return id(self)


class Terminated(_Told, Signal):
    """A watched actor has ended for good. `cause` is the exception that ended it, if one did."""

    __slots__ = ("ref", "cause", "reason")  # noqa: RUF023 - their order is that of the arguments

    ref: ActorRef
    cause: BaseException | None
    reason: ExitReason

    def __init__(self, ref: ActorRef, cause: BaseException | None, reason: ExitReason) -> None:
        self._set(ref, cause, reason)


class ChildTerminated(_Told, Signal):
    """A child has ended for good."""

    __slots__ = ("ref", "cause", "reason")  # noqa: RUF023 - as above

    ref: ActorRef
    cause: BaseException | None
    reason: ExitReason

    def __init__(self, ref: ActorRef, cause: BaseException | None, reason: ExitReason) -> None:
        self._set(ref, cause, reason)


class ReceiveTimeout(_Bare):
    """A notice, handled like a message: no message came within the receive timeout."""

    __slots__ = ()


class MonitorRef:
    """One monitor: what `ctx.monitor` returns and `ctx.demonitor` takes."""

    __slots__ = ("number", "ref")

    def __init__(self, ref: ActorRef, number: int) -> None:
        self.ref = ref
        self.number = number

    def __repr__(self) -> str:
        return f"<MonitorRef {self.number} of {self.ref}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, MonitorRef) and (self.number, self.ref) == (other.number, other.ref)

    def __hash__(self) -> int:
        return hash(self.number)


class Down(_Told):
    """A notice, handled like a message: a monitored actor has ended for good. One for every monitor."""

    __slots__ = ("mref", "ref", "reason")  # noqa: RUF023 - as above

    mref: MonitorRef
    ref: ActorRef
    reason: ExitReason

    def __init__(self, mref: MonitorRef, ref: ActorRef, reason: ExitReason) -> None:
        self._set(mref, ref, reason)


class Exit(_Told):
    """A notice, handled like a message: a linked actor has ended, and this one traps exits."""

    __slots__ = ("ref", "reason")  # noqa: RUF023 - as above

    ref: ActorRef
    reason: ExitReason

    def __init__(self, ref: ActorRef, reason: ExitReason) -> None:
        self._set(ref, reason)
