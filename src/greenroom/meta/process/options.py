"""The options and the states of a meta-process."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from greenroom.errors import ConfigError
from greenroom.lanes import Lane, MailboxConfig, as_lane
from greenroom.policy.directives import Directive
from greenroom.policy.specs import Supervision

_KINDS = ("zlib", "gzip", "lzma")
STOPS = Supervision(Directive.STOP)


class MetaState(Enum):
    """The state of a meta-process, apart from its reader."""

    SLEEP = "asleep"
    """No handler runs. The reader may."""
    RUNNING = "running"
    """A handler runs, beside the reader."""
    TERMINATED = "terminated"
    """The meta-process has ended, or is about to: `terminate()` has been called."""


@dataclass(frozen=True, slots=True)
class Compression:
    """How large messages are compressed on their way to another node.

    Between actors of one machine nothing is compressed: messages pass by reference, or over a local socket.
    """

    enabled: bool = False
    kind: str = "zlib"
    level: int = 6
    threshold: int = 1024
    """Bytes: smaller messages are sent as they are."""

    def __post_init__(self) -> None:
        if self.kind not in _KINDS:
            raise ConfigError("kind", self.kind, f"must be one of {', '.join(_KINDS)}")
        if not 0 <= self.level <= 9:
            raise ConfigError("level", self.level, "must be from 0 to 9")
        if self.threshold < 0:
            raise ConfigError("threshold", self.threshold, "must be a number of bytes, zero or more")


@dataclass(frozen=True, slots=True)
class MetaOptions:
    """Options of a meta-process: the second argument of `ctx.spawn_meta`.

    >>> MetaOptions(name="listener", send_lane=Lane.CONTROL).name
    'listener'
    """

    name: str | None = None
    """Its name below its parent. By default its class and a number."""
    mailbox: MailboxConfig | None = None
    send_lane: Lane = Lane.DATA
    """The lane of what it sends, unless the call names another."""
    compression: Compression = field(default_factory=Compression)
    env: Mapping[str, Any] | None = None
    """Variables for `self.env`, besides those of its parent."""
    stop_timeout: float | None = None
    """Seconds that its handler has to return when it is to end; by default the system's `stop_timeout`."""
    supervision: Supervision = STOPS
    """What happens when it fails. To restart it, `spawn_meta` needs a function that makes it."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "send_lane", as_lane(self.send_lane))
        if not isinstance(self.compression, Compression):
            raise ConfigError("compression", self.compression, "must be a Compression, as in Compression(enabled=True)")
        if not isinstance(self.supervision, Supervision):
            raise ConfigError("supervision", self.supervision, "must be a Supervision")
