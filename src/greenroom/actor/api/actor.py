"""The class that users subclass."""

from __future__ import annotations

from collections.abc import Coroutine, Mapping
from types import GenericAlias
from typing import TYPE_CHECKING, Any, ClassVar

from greenroom.actor.api.behavior import UNHANDLED, require_answers
from greenroom.actor.api.handles import require_matching_types

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


class Actor(_Base[M, R]):
    """An instance of your code with private state, which handles one message at a time.

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

    answers: ClassVar[tuple[type[Exception], ...]] = ()
    """Exceptions that answer a message, and are no failure: `answers = (SoldOut, ValueError)`.

    When a handler raises one of them, or a subclass, the asker gets it. The actor goes on with its state, and no
    restart is counted. If nobody asked, a warning is logged.
    """

    # What `spec` has found out about the class, once it was spawned.
    __greenroom_class_info__: ClassVar[Any] = None
    # Whether its code is the runtime's, and must run where that does.
    __greenroom_stays_on_loop__: ClassVar[bool] = False

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        require_answers(cls.answers, f"{cls.__name__}.answers")
        require_matching_types(cls)

    ctx: Context
    """The actor's own view of the runtime; there from `pre_start` on."""

    def receive(self, message: M, /) -> R | Coroutine[Any, Any, R] | Behavior | None:
        """Handle one message: of the types that no method marked with `@handles` takes, if there are such methods."""
        return UNHANDLED

    def pre_start(self) -> object:
        """Called before the first message. If it raises, the actor never becomes RUNNING."""

    def post_start(self) -> object:
        """Called last, before the actor is RUNNING."""

    def pre_stop(self) -> object:
        """Called when the actor is told to stop. Its children are still alive."""

    def post_stop(self) -> object:
        """Called last, however the actor ends. Its children have ended."""

    def pre_restart(self, cause: BaseException | None) -> object:
        """Called on the old instance before a restart replaces it."""

    def post_restart(self) -> object:
        """Called after a restart has made a new instance."""

    def on_terminated(self, ref: ActorRef, cause: BaseException | None) -> object:
        """Called when a watched actor has ended. A watcher without this method fails with `DeathPact`."""

    def on_child_terminated(self, ref: ActorRef, cause: BaseException | None) -> object:
        """Called when a child has ended for good."""

    def on_signal(self, signal: Signal) -> object:
        """Called with every signal, after its own hook."""

    def snapshot(self) -> object:
        """State to keep over a restart: passed to `restore` of the new instance. None keeps nothing."""
        return None

    def restore(self, state: Any) -> object:
        """Called after `pre_start` of a restart, with what the previous instance's `snapshot` returned."""

    def inspect(self, *items: str) -> Mapping[str, Any]:
        """What the actor shows of itself to `ref.inspect()` and observers; `items` names the parts they want."""
        return {}
