"""Requests and responses, between a web server and the actors it asks. A response is checked before it is written."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from email.utils import formatdate
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qsl

import h11

from greenroom.actor.messaging.ref import Request
from greenroom.errors import BadArgument, HttpError
from greenroom.meta.sockets.messages import Connected
from greenroom.validation import is_whole

WITHOUT_BODY = frozenset({204, 304})


class Headers(Mapping[str, str]):
    """Headers by name, in any case; of several with one name the values are joined with commas, as HTTP has it.

    >>> headers = Headers([("Content-Type", "text/plain"), ("Accept", "a"), ("accept", "b")])
    >>> headers["content-type"], headers.get("ACCEPT"), headers.all("accept"), "Host" in headers
    ('text/plain', 'a, b', ['a', 'b'], False)
    """

    __slots__ = ("_pairs",)

    def __init__(self, pairs: Iterable[tuple[str, str]] = ()) -> None:
        self._pairs = [(name.lower(), value) for name, value in pairs]

    def __getitem__(self, name: str) -> str:
        found = self.all(name)
        if not found:
            raise KeyError(name)
        return ", ".join(found)

    def all(self, name: str) -> list[str]:
        """The values of all headers with this name, in their order."""
        wanted = name.lower()
        return [value for one, value in self._pairs if one == wanted]

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and any(one == name.lower() for one, _ in self._pairs)

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys(name for name, _ in self._pairs))

    def __len__(self) -> int:
        return len({name for name, _ in self._pairs})

    def pairs(self) -> list[tuple[str, str]]:
        """All of them, in their order."""
        return list(self._pairs)

    def __repr__(self) -> str:
        return f"Headers({self._pairs!r})"

    def __reduce__(self) -> tuple[object, ...]:
        return Headers, (self._pairs,)


@dataclass(slots=True)
class HttpResponse:
    """The answer to a request. A `body` that is a text is sent as UTF-8; one to iterate over is sent piece by piece.

    >>> HttpResponse.json({"ok": True}).body
    b'{"ok": true}'
    """

    body: Any = b""
    status: int = 200
    headers: Mapping[str, str] | Iterable[tuple[str, str]] = field(default_factory=dict)

    @staticmethod
    def json(value: object, status: int = 200) -> HttpResponse:
        """A value as JSON."""
        return HttpResponse(json.dumps(value).encode(), status, {"content-type": "application/json"})

    @staticmethod
    def html(text: str, status: int = 200) -> HttpResponse:
        """A page."""
        return HttpResponse(text.encode(), status, {"content-type": "text/html; charset=utf-8"})

    def header_pairs(self) -> list[tuple[str, str]]:
        """Its headers."""
        pairs = self.headers.items() if isinstance(self.headers, Mapping) else self.headers
        return [(str(name), str(value)) for name, value in pairs]


@dataclass(slots=True)
class HttpRequest(Request[HttpResponse]):
    """A request, as an actor is asked it. What the actor answers is the response.

    That is an `HttpResponse`; or a text, bytes, or something for JSON (a dict or a list), with status 200; or None, for
    204. An `HttpError(404, "no such book")` that it raises, and has among its `answers`, is a response too.
    """

    method: str
    path: str
    headers: Headers = field(default_factory=Headers)
    body: Any = b""
    """All of it; with `Route(stream=True)`, something to iterate over: `async for piece in request.body`."""
    query_string: str = ""
    params: Mapping[str, str] = field(default_factory=dict)
    """The values of the `{name}`s of its route."""
    peer: Any = None
    scheme: str = "http"

    @property
    def query(self) -> dict[str, str]:
        """The parameters behind the `?`; of several values for one name, the last."""
        return dict(parse_qsl(self.query_string, keep_blank_values=True))

    def json(self) -> Any:
        """The body, decoded; `HttpError(400)` if it is no JSON."""
        try:
            return json.loads(self.body)
        except ValueError as exc:
            raise HttpError(400, f"the body is no JSON: {exc}") from exc


@dataclass(slots=True, unsafe_hash=True)
class WebSocketConnected(Connected):
    """A WebSocket is up: `Connected`, with the request that asked for it, and the subprotocol that was agreed on."""

    request: Any = field(default=None, hash=False)
    subprotocol: str | None = None


def response_of(reply: object) -> HttpResponse:
    if isinstance(reply, HttpResponse):
        return reply
    if reply is None:
        return HttpResponse(b"", 204)
    if isinstance(reply, str):
        return HttpResponse(reply.encode(), 200, {"content-type": "text/plain; charset=utf-8"})
    if isinstance(reply, bytes | bytearray | memoryview):
        return HttpResponse(bytes(reply), 200, {"content-type": "application/octet-stream"})
    if isinstance(reply, dict | list):
        return HttpResponse.json(reply)
    raise BadArgument(
        f"a request was answered with {type(reply).__name__}: answer with an HttpResponse, a text, bytes, a dict, a "
        "list or None"
    )


def plain(status: int, text: str, headers: Mapping[str, str] | None = None) -> HttpResponse:
    shown = {"content-type": "text/plain; charset=utf-8", **(headers or {})}
    return HttpResponse(f"{text}\n".encode(), status, shown)


def response_for(error: HttpError) -> HttpResponse:
    return plain(error.status, error.text or phrase(error.status))


def ready(response: HttpResponse, method: str) -> tuple[list[tuple[str, str]], Any]:
    """The headers of a response, and its body: bytes, or an iterable. `BadArgument` if it has neither."""
    body: Any = response.body
    try:
        pairs = response.header_pairs()
    except (TypeError, ValueError) as exc:
        raise BadArgument(f"the headers of a response must be a mapping, or pairs of texts: {exc}") from exc
    if body is None:
        body = b""
    if isinstance(body, str | bytes | bytearray | memoryview):
        body = as_bytes(body)
    elif isinstance(body, Mapping) or not isinstance(body, AsyncIterable | Iterable):
        raise BadArgument(
            f"the body of a response must be a text, bytes or something to iterate over, not "
            f"{type(body).__name__}: see also HttpResponse.json()"
        )
    if response.status in WITHOUT_BODY:
        return pairs, b""
    if isinstance(body, bytes):
        given = [value for name, value in pairs if name.lower() == "content-length"]
        if not given:
            pairs.append(("content-length", str(len(body))))
        elif method != "HEAD" and given != [str(len(body))]:
            raise BadArgument(f"the body of a response has {len(body)} bytes, and its content-length is {given[0]}")
    return pairs, body


def as_bytes(piece: Any) -> bytes:
    if isinstance(piece, str):
        return piece.encode()
    if isinstance(piece, bytes | bytearray | memoryview):
        return bytes(piece)
    raise BadArgument(f"the pieces of a body must be texts or bytes, not {type(piece).__name__}")


def head_of(status: Any, pairs: Iterable[tuple[str, str]]) -> h11.Response:
    """The first line and the headers of a response. `BadArgument` if they cannot be written."""
    if not is_whole(status, 200, 999):
        raise BadArgument(f"the status of a response must be a number from 200 to 999, not {status!r}")
    try:
        headers = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in pairs]
        return h11.Response(status_code=status, headers=headers, reason=phrase(status).encode())
    except (UnicodeEncodeError, h11.LocalProtocolError) as exc:
        raise BadArgument(f"the headers of a response cannot be written: {exc}") from exc


def phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return ""


_last_date = (0, "")


def date() -> str:
    """The time of day, as HTTP has it. Formatted once a second."""
    global _last_date
    now = int(time.time())
    if _last_date[0] != now:
        _last_date = (now, formatdate(now, usegmt=True))
    return _last_date[1]
