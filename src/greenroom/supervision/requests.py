"""What a supervisor can be asked, and what it answers.

>>> StartChild("a", 1, size=3)
StartChild('a', 1, size=3)
>>> StopChild("worker")
StopChild('worker')
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from greenroom.actor.messaging.ref import ActorRef, Request
from greenroom.actor.records.states import State


class StartChild(Request[ActorRef]):
    """Start another child: a `Supervisor` takes a `ChildSpec`, a `DynamicSupervisor` the child's arguments.

    The answer is its ref, once it is running. If its start fails, the ask raises the cause, and the child is forgotten.
    """

    __slots__ = ("args", "kwargs")

    def __init__(self, /, *args: Any, **kwargs: Any) -> None:
        self.args = args
        self.kwargs = kwargs

    def __repr__(self) -> str:
        given = [repr(one) for one in self.args] + [f"{name}={value!r}" for name, value in self.kwargs.items()]
        return f"StartChild({', '.join(given)})"


class _About:
    """A request about one child, by its name or its ref."""

    __slots__ = ("child",)

    def __init__(self, child: str | ActorRef) -> None:
        self.child = child

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.child!r})"


class StopChild(_About, Request[None]):
    """Stop a child for good, and cancel a pending restart. A `Supervisor` keeps its spec."""

    __slots__ = ()


class RestartChild(_About, Request[ActorRef]):
    """Start a child that was stopped, or has finished: a new actor of the same name. The answer is its ref."""

    __slots__ = ()


class DeleteChild(_About, Request[None]):
    """Forget the spec of a child that was stopped, or has finished."""

    __slots__ = ()


class WhichChildren(Request["list[ChildInfo]"]):
    """List the children, in start order."""

    __slots__ = ()


class CountChildren(Request["ChildCounts"]):
    """Count the children."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class ChildInfo:
    """One child of a supervisor, at one moment. Times are of the system's clock."""

    name: str
    ref: ActorRef | None
    """None if it was stopped, or has finished."""
    state: State
    restarts: int
    """How often its supervisor has started it again."""
    last_restart: float | None
    next_attempt: float | None
    """When it will be started again, if it waits for that."""


@dataclass(frozen=True, slots=True)
class ChildCounts:
    """The children of a supervisor, counted."""

    specs: int
    """All of them, stopped ones too."""
    active: int
    """Those that are running."""
    restarting: int
    supervisors: int
    workers: int
