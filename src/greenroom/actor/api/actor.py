"""The class that users subclass."""

from __future__ import annotations

from collections.abc import Coroutine, Mapping
from types import GenericAlias
from typing import TYPE_CHECKING, Any, ClassVar

from greenroom.actor.api.behavior import UNHANDLED

if TYPE_CHECKING:
    from typing import Generic

    from typing_extensions import TypeVar

    from greenroom.actor.api.behavior import Behavior
    from greenroom.actor.api.context import Context
    from greenroom.actor.messaging.ref import ActorRef
    from greenroom.actor.messaging.signals import Signal

    M = TypeVar("M", contravariant=True, default=Any)
    R = TypeVar("R", covariant=True, default=Any)

    class _Base(Generic[M, R]): ...

else:
    M = R = Any

    class _Base:
        """At run time, `Actor[str, int]` is `Actor` with a note: typing costs nothing when messages pass."""

        __slots__ = ()
        __class_getitem__ = classmethod(GenericAlias)


__all__ = ["Actor"]


class Actor(_Base[M, R]):
    """User code with a private state, handling one message at a time.

    >>> class Greeter(Actor[str, str]):
    ...     def __init__(self, greeting: str = "hello") -> None:
    ...         self.greeting = greeting
    ...
    ...     def receive(self, message: str) -> str:
    ...         return f"{self.greeting} {message}"

    `receive` and every hook may be `def` or `async def`. What `receive` returns answers an ask, unless it is a
    `Behavior`.
    """

    # A slot of its own, so that it costs no entry in the actor's dict.
    __slots__ = ("__weakref__", "ctx")

    # What `spec` has found out about the class, once it was spawned.
    __greenroom_class_info__: ClassVar[Any] = None
    # Whether its code is the runtime's, and must run where that does.
    __greenroom_stays_on_loop__: ClassVar[bool] = False

    ctx: Context
    """The actor's own view of the runtime; there from `pre_start` on."""

    def receive(self, message: M, /) -> R | Coroutine[Any, Any, R] | Behavior | None:
        """Handle one message. Without this method, those marked with `@handles` are asked."""
        return UNHANDLED

    def pre_start(self) -> object:
        """Before the first message. If it raises, the actor was never running."""

    def post_start(self) -> object:
        """The last thing before the actor is running."""

    def pre_stop(self) -> object:
        """The actor has been told to stop; its children still live."""

    def post_stop(self) -> object:
        """The last thing that runs, however the actor ends; its children have ended."""

    def pre_restart(self, cause: BaseException | None) -> object:
        """Before the actor ends to be made afresh."""

    def post_restart(self) -> object:
        """After the actor was made afresh."""

    def on_terminated(self, ref: ActorRef, cause: BaseException | None) -> object:
        """A watched actor has ended. An actor that watches and does not have this method fails with `DeathPact`."""

    def on_child_terminated(self, ref: ActorRef, cause: BaseException | None) -> object:
        """A child has ended for good."""

    def on_signal(self, signal: Signal) -> object:
        """Every signal, after the hook that it has, if any."""

    def snapshot(self) -> object:
        """What the next incarnation is to have after a restart, given to its `restore`; None for nothing."""
        return None

    def restore(self, state: Any) -> object:
        """Take up what the last incarnation's `snapshot` returned; called after `pre_start`."""

    def inspect(self, *items: str) -> Mapping[str, Any]:
        """What observers are shown: all of it, or the `items` they ask for."""
        return {}
