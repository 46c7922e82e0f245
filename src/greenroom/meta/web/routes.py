"""Which actor answers a request: routes, what they lead to, and the limits of a server.

>>> routes = Routes({"/": "front", "GET /books/{id}": "books", "/static/*": "files"})
>>> routes.find("GET", "/books/7").target, routes.find("GET", "/books/7").params
('books', {'id': '7'})
>>> routes.find("POST", "/books/7").allowed
('GET',)
>>> routes.find("GET", "/static/a/b").target, routes.find("GET", "/other").target
('files', None)
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from inspect import iscoroutinefunction
from typing import TYPE_CHECKING, Any

from greenroom.actor.messaging.ref import ActorRef
from greenroom.errors import ConfigError
from greenroom.validation import require_count, require_seconds

if TYPE_CHECKING:
    from greenroom.policy.specs import Supervision

_METHOD = re.compile(r"[A-Z]+\Z")
_PARAMETER = re.compile(r"\{(\w+)\}")


@dataclass(slots=True)
class Found:
    """The result of a look-up: a target, or the methods that the path has, or neither."""

    target: Any = None
    params: Mapping[str, str] = field(default_factory=dict)
    allowed: tuple[str, ...] = ()
    mount: str = ""
    """The part of the path before the `*`."""


class Routes:
    """Targets by path. Exact paths come first, then those with parameters, then prefixes, the longest first."""

    def __init__(self, routes: Mapping[str, Any]) -> None:
        # By path: by method, "" for all.
        self._exact: dict[str, dict[str, Any]] = {}
        self._patterns: dict[str, tuple[re.Pattern[str], dict[str, Any]]] = {}
        self._prefixes: dict[str, dict[str, Any]] = {}
        for key, target in routes.items():
            method, path = _parted(key)
            self._book(path)[method] = target
        self._prefixes = dict(sorted(self._prefixes.items(), key=lambda one: -len(one[0])))

    def _book(self, path: str) -> dict[str, Any]:
        if path.endswith("*"):
            return self._prefixes.setdefault(path[:-1], {})
        if "{" not in path:
            return self._exact.setdefault(path, {})
        if path not in self._patterns:
            parts = _PARAMETER.split(path)
            names = parts[1::2]
            if len(set(names)) < len(names) or not all(name.isidentifier() for name in names):
                raise ConfigError("routes", path, "must have a different name for each parameter, as in {id}")
            text = "".join(
                re.escape(part) if index % 2 == 0 else f"(?P<{part}>[^/]+)" for index, part in enumerate(parts)
            )
            self._patterns[path] = (re.compile(text + r"\Z"), {})
        return self._patterns[path][1]

    def find(self, method: str, path: str) -> Found:
        allowed: list[str] = []
        for book, params, mount in self._candidates(path):
            chosen = method if method in book else "GET" if method == "HEAD" and "GET" in book else ""
            if chosen in book:
                return Found(book[chosen], params, mount=mount)
            allowed += book
        return Found(allowed=tuple(dict.fromkeys(allowed)))

    def _candidates(self, path: str) -> list[tuple[dict[str, Any], Mapping[str, str], str]]:
        found: list[tuple[dict[str, Any], Mapping[str, str], str]] = []
        if path in self._exact:
            found.append((self._exact[path], {}, ""))
        for pattern, book in self._patterns.values():
            match = pattern.match(path)
            if match is not None:
                found.append((book, match.groupdict(), ""))
        for prefix, book in self._prefixes.items():
            if path.startswith(prefix) or path == prefix.rstrip("/"):
                found.append((book, {}, prefix.rstrip("/")))
        return found

    def targets(self) -> list[Any]:
        books = [*self._exact.values(), *(book for _, book in self._patterns.values()), *self._prefixes.values()]
        return [target for book in books for target in book.values()]


def _parted(key: object) -> tuple[str, str]:
    method, space, path = key.partition(" ") if isinstance(key, str) else ("", "", "")
    if not space:
        method, path = "", method
    if not path.startswith("/") or (method and not _METHOD.match(method)) or "*" in path[:-1]:
        raise ConfigError("routes", key, 'must be a path, as in "/books/{id}", "GET /books" or "/static/*"')
    return method, path


@dataclass(frozen=True, slots=True)
class WebLimits:
    """The limits of a `WebServer`. Times are in seconds, and None is for ever."""

    max_connections: int = 10_000
    max_headers: int = 65_536
    """Bytes of a request without its body."""
    max_body: int = 1 << 24
    """Bytes of a request's body."""
    header_timeout: float | None = 10.0
    """From the first byte, or the connection, to the end of the headers."""
    body_timeout: float | None = 30.0
    """Between two pieces of a body."""
    request_timeout: float | None = 30.0
    """For the actor to answer."""
    write_timeout: float | None = 30.0
    """For a client that does not read to go on reading; and between two pieces of a response to one that has closed its
    side, for that may have gone away."""
    keep_alive: float | None = 30.0
    """Between two requests."""
    handshake_timeout: float = 10.0
    """For the TLS handshake."""
    linger: float = 5.0
    """To write out what is left when a connection is closed, and to answer what is asked when the server is stopped."""

    def __post_init__(self) -> None:
        for name in ("max_connections", "max_headers", "max_body"):
            require_count(name, getattr(self, name))
        for name in ("header_timeout", "body_timeout", "request_timeout", "write_timeout", "keep_alive"):
            require_seconds(name, getattr(self, name), none=True)
        for name in ("handshake_timeout", "linger"):
            require_seconds(name, getattr(self, name))


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
    if isinstance(given, Route | WebSocket | Asgi):
        return given
    if isinstance(given, ActorRef) or (isinstance(given, Sequence) and not isinstance(given, str)):
        return Route(given)
    raise ConfigError("routes", given, "must lead to the ref of an actor, a list of refs, WebSocket() or Asgi()")
