"""What is written of a response: checked before anything of it is."""

from __future__ import annotations

import time
from collections.abc import AsyncIterable, Iterable, Mapping
from email.utils import formatdate
from http import HTTPStatus
from typing import Any

import h11

from greenroom.errors import BadArgument, HttpError
from greenroom.meta.web.messages import HttpResponse
from greenroom.validation import is_whole

__all__ = ["as_bytes", "date", "head_of", "plain", "ready", "response_for"]

WITHOUT_BODY = frozenset({204, 304})


def plain(status: int, text: str, headers: Mapping[str, str] | None = None) -> HttpResponse:
    shown = {"content-type": "text/plain; charset=utf-8", **(headers or {})}
    return HttpResponse(f"{text}\n".encode(), status, shown)


def response_for(error: HttpError) -> HttpResponse:
    return plain(error.status, error.text or phrase(error.status))


def ready(response: HttpResponse, method: str) -> tuple[list[tuple[str, str]], Any]:
    """The headers of a response, and its body: bytes, or something to iterate over. `BadArgument` if it has none."""
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
    """The time of day, as HTTP has it; it changes once a second."""
    global _last_date
    now = int(time.time())
    if _last_date[0] != now:
        _last_date = (now, formatdate(now, usegmt=True))
    return _last_date[1]
