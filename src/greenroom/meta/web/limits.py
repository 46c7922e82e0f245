"""What a client may do to a web server, and how long."""

from __future__ import annotations

from dataclasses import dataclass

from greenroom.meta.streams.checks import require_count, require_seconds

__all__ = ["WebLimits"]


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
