"""Meta-processes: work that blocks, and the world outside, beside actors.

A meta-process belongs to one actor and ends with it. `ctx.spawn_meta(meta)` brings one up and returns its alias.
"""

from greenroom.actor.api.fdwatch import READ, WRITE, FdWatch, IoReady
from greenroom.actor.messaging.ref import Alias
from greenroom.meta.process.metaprocess import MetaProcess
from greenroom.meta.process.options import Compression, MetaOptions
from greenroom.meta.process.state import MetaState
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
from greenroom.meta.streams.framing import Custom, Fixed, Framing, LengthPrefixed, Lines, Raw

__all__ = [
    "READ",
    "WRITE",
    "Alias",
    "Close",
    "CloseWrite",
    "Closed",
    "Compression",
    "Connected",
    "Custom",
    "Datagram",
    "FdWatch",
    "Fixed",
    "Framing",
    "IoReady",
    "LengthPrefixed",
    "Lines",
    "MetaOptions",
    "MetaProcess",
    "MetaState",
    "PeerClosed",
    "Raw",
    "Received",
    "Register",
    "SendTo",
    "StopListening",
    "TcpClient",
    "TcpConnection",
    "TcpServer",
    "UdpServer",
    "UnixClient",
    "UnixServer",
    "Write",
    "tls_client",
    "tls_server",
]
