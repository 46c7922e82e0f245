"""Meta-processes: work that blocks, and the world outside, beside actors.

A meta-process belongs to one actor and ends with it. `ctx.spawn_meta(meta)` brings one up and returns its alias.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from greenroom.actor.api.fdwatch import READ, WRITE, FdWatch, IoReady
from greenroom.actor.messaging.ref import Alias
from greenroom.meta.ports.port import Exited, Output, Port, SendSignal
from greenroom.meta.process.metaprocess import MetaProcess
from greenroom.meta.process.options import Compression, MetaOptions, MetaState
from greenroom.meta.process.reader import ReaderStopped
from greenroom.meta.sockets.client import TcpClient, UnixClient
from greenroom.meta.sockets.connection import TcpConnection
from greenroom.meta.sockets.messages import (
    Close,
    Closed,
    CloseWrite,
    Connected,
    Datagram,
    PeerClosed,
    Received,
    Register,
    SendTo,
    StopListening,
    Write,
)
from greenroom.meta.sockets.server import TcpServer, UnixServer
from greenroom.meta.sockets.tls import tls_client, tls_server
from greenroom.meta.sockets.udp import UdpServer
from greenroom.meta.sources.linereader import Line, LineReader, Rotated
from greenroom.meta.sources.signalsource import SignalReceived, SignalSource
from greenroom.meta.streams.framing import Custom, Fixed, Framing, LengthPrefixed, Lines, Raw

if TYPE_CHECKING:
    from greenroom.meta.web.messages import Headers, HttpRequest, HttpResponse, WebSocketConnected
    from greenroom.meta.web.routes import Asgi, Route, WebLimits, WebSocket
    from greenroom.meta.web.server import WebServer
    from greenroom.meta.web.websocketclient import WebSocketClient

__all__ = [
    "READ",
    "WRITE",
    "Alias",
    "Asgi",
    "Close",
    "CloseWrite",
    "Closed",
    "Compression",
    "Connected",
    "Custom",
    "Datagram",
    "Exited",
    "FdWatch",
    "Fixed",
    "Framing",
    "Headers",
    "HttpRequest",
    "HttpResponse",
    "IoReady",
    "LengthPrefixed",
    "Line",
    "LineReader",
    "Lines",
    "MetaOptions",
    "MetaProcess",
    "MetaState",
    "Output",
    "PeerClosed",
    "Port",
    "Raw",
    "ReaderStopped",
    "Received",
    "Register",
    "Rotated",
    "Route",
    "SendSignal",
    "SendTo",
    "SignalReceived",
    "SignalSource",
    "StopListening",
    "TcpClient",
    "TcpConnection",
    "TcpServer",
    "UdpServer",
    "UnixClient",
    "UnixServer",
    "WebLimits",
    "WebServer",
    "WebSocket",
    "WebSocketClient",
    "WebSocketConnected",
    "Write",
    "tls_client",
    "tls_server",
]


_WEB = {
    "Asgi": "routes",
    "Headers": "messages",
    "HttpRequest": "messages",
    "HttpResponse": "messages",
    "Route": "routes",
    "WebLimits": "routes",
    "WebServer": "server",
    "WebSocket": "routes",
    "WebSocketClient": "websocketclient",
    "WebSocketConnected": "messages",
}
"""Names that need `h11` or `wsproto`, and the modules they come from."""


def __getattr__(name: str) -> object:
    if name not in _WEB:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        module = import_module(f"{__name__}.web.{_WEB[name]}")
    except ModuleNotFoundError as exc:
        raise ModuleNotFoundError(
            f"greenroom.meta.{name} needs {exc.name}: pip install 'greenroom[web]'", name=exc.name
        ) from exc
    found = globals()[name] = getattr(module, name)
    return found
