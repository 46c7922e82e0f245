"""The types of `spawn`, for the system and for contexts.

Keyword-only options cannot stand beside `*args: P.args`, so with an option the constructor's arguments are not checked;
`spawn(props(Greeter, "hi"), name="greeter")` checks them always.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, overload

if TYPE_CHECKING:
    from typing import ParamSpec, TypedDict, Unpack

    from typing_extensions import TypeVar

    from greenroom.actor.api.actor import Actor
    from greenroom.actor.api.behavior import Behavior
    from greenroom.actor.api.context import Context
    from greenroom.actor.api.props import Props
    from greenroom.actor.messaging.drain import Drain
    from greenroom.actor.messaging.ref import ActorRef
    from greenroom.lanes import MailboxConfig
    from greenroom.policy.specs import Supervision

    P = ParamSpec("P")
    M = TypeVar("M", default=Any)
    R = TypeVar("R", default=Any)

    class SpawnOptions(TypedDict, total=False):
        name: str | None
        mailbox: MailboxConfig | None
        dispatcher: str | None
        supervision: Supervision | None
        drain: Drain | None
        env: Mapping[str, Any] | None
        parent: ActorRef | None
        stop_timeout: float | None


class Spawns:
    __slots__ = ()

    if TYPE_CHECKING:

        @overload
        def spawn(self, factory: Props[M, R], /, **options: Unpack[SpawnOptions]) -> ActorRef[M, R]: ...
        @overload
        def spawn(self, factory: Callable[P, Actor[M, R]], /, *args: P.args, **kwargs: P.kwargs) -> ActorRef[M, R]: ...
        @overload
        def spawn(
            self, factory: Callable[..., Actor[M, R]], /, *args: Any, name: str | None, **kwargs: Any
        ) -> ActorRef[M, R]: ...
        @overload
        def spawn(
            self, factory: Callable[..., Actor[M, R]], /, *args: Any, mailbox: MailboxConfig | None, **kwargs: Any
        ) -> ActorRef[M, R]: ...
        @overload
        def spawn(
            self, factory: Callable[..., Actor[M, R]], /, *args: Any, dispatcher: str | None, **kwargs: Any
        ) -> ActorRef[M, R]: ...
        @overload
        def spawn(
            self, factory: Callable[..., Actor[M, R]], /, *args: Any, supervision: Supervision | None, **kwargs: Any
        ) -> ActorRef[M, R]: ...
        @overload
        def spawn(
            self, factory: Callable[..., Actor[M, R]], /, *args: Any, drain: Drain | None, **kwargs: Any
        ) -> ActorRef[M, R]: ...
        @overload
        def spawn(
            self, factory: Callable[..., Actor[M, R]], /, *args: Any, env: Mapping[str, Any] | None, **kwargs: Any
        ) -> ActorRef[M, R]: ...
        @overload
        def spawn(
            self, factory: Callable[..., Actor[M, R]], /, *args: Any, parent: ActorRef | None, **kwargs: Any
        ) -> ActorRef[M, R]: ...
        @overload
        def spawn(
            self, factory: Callable[..., Actor[M, R]], /, *args: Any, stop_timeout: float | None, **kwargs: Any
        ) -> ActorRef[M, R]: ...
        @overload
        def spawn(
            self, factory: Callable[[Context, M], object], /, **options: Unpack[SpawnOptions]
        ) -> ActorRef[M, Any]: ...
        @overload
        def spawn(self, factory: Behavior, /, **options: Unpack[SpawnOptions]) -> ActorRef: ...
        def spawn(self, factory: Any, /, *args: Any, **kwargs: Any) -> ActorRef:
            """Bring up an actor, and return its ref at once; nothing of it runs inside this call."""
            ...


def spawn_child(
    self: Context,
    factory: Any,
    /,
    *args: Any,
    name: str | None = None,
    mailbox: MailboxConfig | None = None,
    dispatcher: str | None = None,
    supervision: Supervision | None = None,
    drain: Drain | None = None,
    env: Mapping[str, Any] | None = None,
    stop_timeout: float | None = None,
    **kwargs: Any,
) -> ActorRef:
    """The signature of `Context.spawn`, which passes its options on without looking at them."""
    raise NotImplementedError
