"""Meta-processes: work that blocks, and the world outside, beside actors.

A meta-process belongs to one actor and ends with it. `ctx.spawn_meta(meta)` brings one up and returns its alias.
"""

from greenroom.actor.api.fdwatch import READ, WRITE, FdWatch, IoReady
from greenroom.actor.messaging.ref import Alias
from greenroom.meta.ports.messages import Exited, Output, SendSignal
from greenroom.meta.ports.port import Port
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
from greenroom.meta.sources.linereader import Line, LineReader, Rotated
from greenroom.meta.sources.signalsource import SignalReceived, SignalSource
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
    "Exited",
    "FdWatch",
    "Fixed",
    "Framing",
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
    "Received",
    "Register",
    "Rotated",
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
    "Write",
    "tls_client",
    "tls_server",
]
