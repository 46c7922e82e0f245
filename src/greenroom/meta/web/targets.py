"""What a route leads to: an actor, several of them, a WebSocket, or an ASGI application."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from inspect import iscoroutinefunction
from typing import TYPE_CHECKING, Any

from greenroom.actor.messaging.ref import ActorRef
from greenroom.errors import ConfigError
from greenroom.meta.streams.checks import require_count, require_seconds

if TYPE_CHECKING:
    from greenroom.policy.specs import Supervision

__all__ = ["Asgi", "Route", "WebSocket", "target_of"]


class Route:
    """One or several actors that are asked the requests, in turn; with limits of their own.

    Args:
        target: The ref of an actor, or a list of them, which take turns.
        timeout: Seconds that the actor has to answer; by default the server's `request_timeout`.
        max_body: Bytes that a request may have; by default the server's `max_body`.
        stream: Whether the actor is asked as soon as the headers are there, and reads the body itself.
    """

    def __init__(
        self,
        target: ActorRef | Sequence[ActorRef],
        *,
        timeout: float | None = None,
        max_body: int | None = None,
        stream: bool = False,
    ) -> None:
        refs = [target] if isinstance(target, ActorRef) else list(target)
        if not refs or not all(isinstance(ref, ActorRef) for ref in refs):
            raise ConfigError("target", target, "must be the ref of an actor, or a list of such refs")
        require_seconds("timeout", timeout, none=True)
        require_count("max_body", max_body, none=True)
        self.refs = refs
        self.timeout = timeout
        self.max_body = max_body
        self.stream = stream
        self._turn = 0

    def next_ref(self) -> ActorRef:
        """Whose turn it is; those that have ended are passed over."""
        for _ in self.refs:
            ref = self.refs[self._turn % len(self.refs)]
            self._turn += 1
            if ref.is_alive:
                return ref
        return self.refs[0]


class WebSocket:
    """A path where WebSockets are taken. Each is a meta-process: its owner gets `WebSocketConnected`, then `Received`
    with a text or bytes for each message, and last `Closed`; it sends `Write` and `Close`.

    Args:
        handler: The actor class, or function, that gets one connection each, as with `TcpServer`.
        owner: Or the actor that gets them all. By default, the server's parent.
        supervision: What becomes of a handler that fails; by default it is stopped, and its connection closed.
        authorize: Called with the `HttpRequest`: only True lets it in; an `HttpResponse` that it returns, or an
            `HttpError` that it raises, is the refusal.
        subprotocols: Those that the server speaks, the best first.
        max_message: Bytes that a message may have, unpacked.
        ping_interval: Seconds of silence until the other side is asked whether it is still there; None for never.
        ping_timeout: Seconds that it has to answer.
    """

    def __init__(
        self,
        handler: Any = None,
        *,
        owner: ActorRef | None = None,
        supervision: Supervision | None = None,
        authorize: Callable[[Any], Any] | None = None,
        subprotocols: Sequence[str] = (),
        max_message: int = 1 << 20,
        ping_interval: float | None = 20.0,
        ping_timeout: float = 20.0,
    ) -> None:
        require_count("max_message", max_message)
        require_seconds("ping_interval", ping_interval, none=True)
        require_seconds("ping_timeout", ping_timeout)
        if authorize is not None and iscoroutinefunction(authorize):
            raise ConfigError("authorize", authorize, "must be a plain function that takes the request")
        if handler is not None and owner is not None:
            raise ConfigError("owner", owner, "makes no sense with a `handler`, which owns its connection")
        self.handler = handler
        self.owner = owner
        self.supervision = supervision
        self.authorize = authorize
        self.subprotocols = tuple(subprotocols)
        self.max_message = max_message
        self.ping_interval = ping_interval
        self.ping_timeout = ping_timeout


class Asgi:
    """Any ASGI application, as in `"/app/*": Asgi(app)`: Starlette's, FastAPI's, Django's. Its code can ask actors.

    It is started and stopped with the server (`lifespan`), unless `lifespan=False`.
    """

    def __init__(self, app: Callable[..., Any], *, lifespan: bool = True) -> None:
        if not callable(app):
            raise ConfigError("app", app, "must be an ASGI application, which is called with scope, receive and send")
        self.app = app
        self.lifespan = lifespan


def target_of(given: Any) -> Route | WebSocket | Asgi:
    """What a route leads to."""
    if isinstance(given, Route | WebSocket | Asgi):
        return given
    if isinstance(given, ActorRef) or (isinstance(given, Sequence) and not isinstance(given, str)):
        return Route(given)
    raise ConfigError("routes", given, "must lead to the ref of an actor, a list of refs, WebSocket() or Asgi()")
