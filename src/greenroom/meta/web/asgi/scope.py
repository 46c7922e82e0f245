"""What an application is told of a request."""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import TYPE_CHECKING, Any

from greenroom.meta.web.http.exchange import target_of

if TYPE_CHECKING:
    import h11

    from greenroom.meta.web.messages import HttpRequest

__all__ = ["Message", "scope_of"]

Message = MutableMapping[str, Any]


def scope_of(
    kind: str, event: h11.Request, request: HttpRequest, mount: str, state: dict[str, Any], server: Any
) -> dict[str, Any]:
    """The scope of an `"http"` request, or of a `"websocket"`."""
    scheme = request.scheme if kind == "http" else {"http": "ws", "https": "wss"}[request.scheme]
    scope = {
        "type": kind,
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": event.http_version.decode("ascii"),
        "scheme": scheme,
        "path": request.path,
        "raw_path": target_of(event).partition("?")[0].encode("latin-1"),
        "query_string": request.query_string.encode("latin-1"),
        "root_path": mount,
        "headers": [(name.encode("latin-1"), value.encode("latin-1")) for name, value in request.headers.pairs()],
        "client": _address(request.peer),
        "server": _address(server),
        "state": dict(state),
    }
    if kind == "http":
        scope["method"] = request.method
    return scope


def _address(given: Any) -> tuple[Any, ...] | None:
    return tuple(given[:2]) if isinstance(given, tuple) else None
