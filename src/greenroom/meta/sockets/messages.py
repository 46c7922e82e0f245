"""What passes between a connection and its owner.

An owner gets `Connected`, then `Received` for each frame, and last `Closed`. It sends `Write` and `Close`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from greenroom.actor.messaging.ref import ActorRef, Alias

# Not frozen, for that would double the time it takes to make one (timeit: 0.35 against 0.17 us); but none is changed.


@dataclass(slots=True, unsafe_hash=True)
class Connected:
    """A connection is up. `alias` is what to write to, `peer` the address of the other side."""

    alias: Alias
    peer: Any


@dataclass(slots=True, unsafe_hash=True)
class Received:
    """A frame has come; without framing, whatever the network brought in one piece."""

    alias: Alias
    data: Any


@dataclass(slots=True, unsafe_hash=True)
class PeerClosed:
    """The other side writes no more, but still reads: only with `half_open=True`."""

    alias: Alias


@dataclass(slots=True, unsafe_hash=True)
class Closed:
    """A connection is over: nothing more comes from it.

    `reason` is one of `"eof"` (the other side closed), `"closed"` (the owner did), `"stopped"`, `"owner ended"`,
    `"reset"`, `"idle"`, `"frame too large"`, `"bad frame"`, `"truncated"` (within a frame), `"connect failed"`,
    `"tls failed"`, `"not registered"`; `error` is the exception behind it, if there is one.

    Of a WebSocket, `code` and `text` are what the other side closed it with or, if it did not, what it was closed with
    here; 1006 if neither side said farewell.
    """

    alias: Alias
    reason: str
    error: BaseException | None = None
    code: int | None = None
    text: str = ""


@dataclass(slots=True, unsafe_hash=True)
class Write:
    """Send `data` to the other side. Ask it instead of telling it to know when the network has taken it in."""

    data: Any


@dataclass(slots=True, unsafe_hash=True)
class Close:
    """Close the connection when all has been written; with `abort` at once.

    The other side of a WebSocket is told the `code`, 1000 to 1014 or 3000 to 4999, and a `text` of at most 123 bytes.
    """

    abort: bool = False
    code: int = 1000
    text: str = ""


@dataclass(slots=True, unsafe_hash=True)
class CloseWrite:
    """Write no more, but go on reading: the other side sees the end of the stream."""


@dataclass(slots=True, unsafe_hash=True)
class Register:
    """Make `owner` the owner of a connection: what comes from now on goes to it, and the connection ends with it."""

    owner: ActorRef


@dataclass(slots=True, unsafe_hash=True)
class StopListening:
    """Take no more connections. The server ends when the last one has."""


@dataclass(slots=True, unsafe_hash=True)
class Datagram:
    """A UDP packet has come from `peer`."""

    alias: Alias
    data: bytes
    peer: Any


@dataclass(slots=True, unsafe_hash=True)
class SendTo:
    """Send a UDP packet to `peer`, as in `("127.0.0.1", 5353)`."""

    data: bytes
    peer: Any
