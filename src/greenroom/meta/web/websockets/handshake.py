"""How an HTTP request becomes a WebSocket."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable
from inspect import isawaitable
from typing import TYPE_CHECKING, Any

from wsproto import ConnectionType, WSConnection
from wsproto.events import AcceptConnection, Request
from wsproto.utilities import RemoteProtocolError

from greenroom.errors import HttpError
from greenroom.meta.web.http.asking import response_for
from greenroom.meta.web.http.responses import plain
from greenroom.meta.web.messages import HttpResponse
from greenroom.meta.web.websockets.deflate import BoundedDeflate
from greenroom.meta.web.websockets.wire import WebSocketLimits, WebSocketWire

if TYPE_CHECKING:
    from logging import Logger, LoggerAdapter

    import h11

    from greenroom._core.scheduler.loop import Loop
    from greenroom.meta.sockets.options import StreamOptions
    from greenroom.meta.sockets.wire import Wire
    from greenroom.meta.web.messages import HttpRequest
    from greenroom.meta.web.targets import WebSocket

__all__ = ["accept", "is_for_websocket", "negotiate"]

KEY_BYTES = 16


def is_for_websocket(request: HttpRequest) -> bool:
    """Whether a request asks for a WebSocket."""
    return any(one.strip().lower() == "websocket" for one in request.headers.get("upgrade", "").split(","))


def accept(
    event: h11.Request,
    request: HttpRequest,
    target: WebSocket,
    options: StreamOptions,
    loop: Loop,
    on_made: Callable[[Wire], object],
    log: LoggerAdapter[Logger],
) -> HttpResponse | tuple[bytes, WebSocketWire]:
    """What is sent to accept a WebSocket, and its wire; or the response that refuses it."""
    if not is_for_websocket(request):
        return plain(426, "this path takes WebSockets only", {"upgrade": "websocket", "connection": "upgrade"})
    refusal = _authorize(request, target, log)
    if refusal is not None:
        return refusal
    begun = negotiate(event, request)
    if isinstance(begun, HttpResponse):
        return begun
    ws, asked = begun
    chosen = next((one for one in target.subprotocols if one in asked.subprotocols), None)
    head = ws.send(AcceptConnection(subprotocol=chosen, extensions=[BoundedDeflate(target.max_message)]))
    limits = WebSocketLimits(target.max_message, target.ping_interval, target.ping_timeout)
    return head, WebSocketWire(options, loop, on_made, ws, limits, request, chosen)


def _authorize(request: HttpRequest, target: WebSocket, log: LoggerAdapter[Logger]) -> HttpResponse | None:
    """The response that refuses it, if it is not allowed."""
    if target.authorize is None:
        return None
    try:
        verdict: Any = target.authorize(request)
    except HttpError as exc:
        return response_for(exc)
    except Exception:
        log.exception("authorize() of the WebSocket at %s failed", request.path)
        return plain(500, "whether this is allowed could not be found out")
    if isinstance(verdict, HttpResponse):
        return verdict
    if isawaitable(verdict):
        getattr(verdict, "close", lambda: None)()
        log.error("authorize() of the WebSocket at %s is async: it must be a plain function", request.path)
        return plain(500, "whether this is allowed could not be found out")
    return None if verdict is True else plain(403, "this is not allowed")


def negotiate(event: h11.Request, request: HttpRequest) -> HttpResponse | tuple[WSConnection, Request]:
    """A connection that has yet to be accepted, and what was asked for; or the response that refuses it."""
    if request.method != "GET":
        return plain(405, "a WebSocket is asked for with GET", {"allow": "GET"})
    if event.http_version != b"1.1":
        return plain(400, "a WebSocket is asked for with HTTP/1.1")
    for name, value in request.headers.pairs():
        if not value.isascii() and (name.startswith("sec-websocket-") or name in ("connection", "host")):
            return plain(400, f"the header {name} has signs in it that it must not have")
    if request.headers.get("sec-websocket-version", "13") != "13":
        upgrade = {"upgrade": "websocket", "connection": "upgrade", "sec-websocket-version": "13"}
        return plain(426, "this server speaks version 13 of WebSocket", upgrade)
    if not _is_key(request.headers.get("sec-websocket-key", "")):
        return plain(400, "the header sec-websocket-key must be 16 bytes, in base64")
    ws = WSConnection(ConnectionType.SERVER)
    try:
        ws.initiate_upgrade_connection(list(event.headers), event.target)
        asked = next((one for one in ws.events() if isinstance(one, Request)), None)
    except (RemoteProtocolError, UnicodeError) as exc:
        return plain(400, f"this is no proper request for a WebSocket: {exc}", {"sec-websocket-version": "13"})
    return plain(400, "this is no proper request for a WebSocket") if asked is None else (ws, asked)


def _is_key(key: str) -> bool:
    try:
        return len(base64.b64decode(key, validate=True)) == KEY_BYTES
    except binascii.Error:
        return False
