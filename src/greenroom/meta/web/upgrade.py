"""How an HTTP request becomes a WebSocket."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from wsproto import ConnectionType, WSConnection
from wsproto.events import AcceptConnection, Request
from wsproto.extensions import PerMessageDeflate
from wsproto.utilities import RemoteProtocolError

from greenroom.meta.web.messages import HttpResponse
from greenroom.meta.web.websocket import WebSocketLimits, WebSocketWire

if TYPE_CHECKING:
    import h11

    from greenroom._core.scheduler.loop import Loop
    from greenroom.meta.sockets.options import StreamOptions
    from greenroom.meta.sockets.wire import Wire
    from greenroom.meta.web.messages import HttpRequest
    from greenroom.meta.web.targets import WebSocket

__all__ = ["accept", "negotiate"]


def accept(
    event: h11.Request,
    request: HttpRequest,
    target: WebSocket,
    options: StreamOptions,
    loop: Loop,
    on_made: Callable[[Wire], object],
) -> HttpResponse | tuple[bytes, WebSocketWire]:
    """What is sent to accept a WebSocket, and its wire; or the response that refuses it."""
    if request.headers.get("upgrade", "").lower() != "websocket":
        return _refusal(426, "this path takes WebSockets only", {"upgrade": "websocket", "connection": "upgrade"})
    if target.authorize is not None:
        verdict = target.authorize(request)
        if isinstance(verdict, HttpResponse):
            return verdict
        if not verdict:
            return _refusal(403, "this is not allowed")
    begun = negotiate(event)
    if isinstance(begun, HttpResponse):
        return begun
    ws, asked = begun
    chosen = next((one for one in target.subprotocols if one in asked.subprotocols), None)
    head = ws.send(AcceptConnection(subprotocol=chosen, extensions=[PerMessageDeflate()]))
    limits = WebSocketLimits(target.max_message, target.ping_interval, target.ping_timeout)
    return head, WebSocketWire(options, loop, on_made, ws, limits, request)


def negotiate(event: h11.Request) -> HttpResponse | tuple[WSConnection, Request]:
    """A connection that has yet to be accepted, and what was asked for; or the response that refuses it."""
    ws = WSConnection(ConnectionType.SERVER)
    try:
        ws.initiate_upgrade_connection(list(event.headers), event.target)
        asked = next((one for one in ws.events() if isinstance(one, Request)), None)
    except RemoteProtocolError as exc:
        return _refusal(400, f"this is no proper request for a WebSocket: {exc}", {"sec-websocket-version": "13"})
    return _refusal(400, "this is no proper request for a WebSocket") if asked is None else (ws, asked)


def _refusal(status: int, text: str, headers: dict[str, str] | None = None) -> HttpResponse:
    return HttpResponse(f"{text}\n".encode(), status, {"content-type": "text/plain; charset=utf-8", **(headers or {})})
