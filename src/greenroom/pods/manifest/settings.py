"""How pods and their kubelet are set up.

>>> KubeletConfig(max_restarts=3, within=10.0).within
10.0
>>> KubeletConfig(within=-1.0)
Traceback (most recent call last):
    ...
greenroom.errors.ConfigError: within=-1.0: must be a number of seconds, zero or more
>>> Buffers(data=10).sizes[Lane.DATA]
10
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from greenroom.errors import ConfigError
from greenroom.frozen import Frozen
from greenroom.lanes import LARGEST_CAPACITY, Lane
from greenroom.policy.backoff import Backoff
from greenroom.policy.children import Restart
from greenroom.policy.specs import require_backoff
from greenroom.validation import require_limit, require_one_of, require_processor, require_seconds, require_whole


class RestartPolicy(Enum):
    """After which ends a pod is restarted."""

    ALWAYS = "always"
    """After every end. OTP calls that permanent."""
    ON_FAILURE = "on_failure"
    """After a failure only: transient."""
    NEVER = "never"
    """Never: temporary."""

    @property
    def restart(self) -> Restart:
        """The restart type of a `Supervisor`'s child."""
        return _RESTARTS[self]


_RESTARTS = {
    RestartPolicy.ALWAYS: Restart.PERMANENT,
    RestartPolicy.ON_FAILURE: Restart.TRANSIENT,
    RestartPolicy.NEVER: Restart.TEMPORARY,
}


class ThreadModel(Enum):
    """Where the actors of a pod run."""

    DEDICATED = "dedicated"
    """On a thread of the pod's own."""
    COOPERATIVE = "cooperative"
    """On the kubelet's thread, in turn with others."""
    MAIN = "main"
    """On the thread that calls `play()`: for a GUI, and for signals. Such a pod cannot be restarted."""
    PROCESS = "process"
    """In a process of the pod's own."""


class ShutdownMode(Enum):
    """What becomes of messages that wait when a troupe is shut down."""

    IMMEDIATE = "immediate"
    """They are dead letters. Each actor finishes the message in hand."""
    DRAIN_CONTROL = "drain_control"
    """Those of the lanes CONTROL and MANAGEMENT are handled, the others are dead letters."""
    DRAIN_ALL = "drain_all"
    """All are handled."""


class _PerLane(Frozen):
    __slots__ = ()

    data: int
    control: int
    management: int
    log: int

    def __post_init__(self) -> None:
        for lane, size in self.sizes.items():
            wanted = f"a whole number from 1 to {LARGEST_CAPACITY}"
            require_whole(lane.name.lower(), size, wanted, 1, LARGEST_CAPACITY)

    @property
    def sizes(self) -> Mapping[Lane, int]:
        return {
            Lane.DATA: self.data,
            Lane.CONTROL: self.control,
            Lane.MANAGEMENT: self.management,
            Lane.LOG: self.log,
        }


@dataclass(eq=False, repr=False, slots=True)
class Buffers(_PerLane):
    """How many messages each holder of a handle may have waiting at a pod, by lane."""

    data: int = 4096
    control: int = 256
    management: int = 256
    log: int = 256


@dataclass(eq=False, repr=False, slots=True)
class Bursts(_PerLane):
    """How many messages a pod takes in at once, by lane, before it looks at the next lane."""

    data: int = 256
    control: int = 64
    management: int = 64
    log: int = 64


@dataclass(eq=False, repr=False, slots=True)
class KubeletConfig(Frozen):
    """How a kubelet looks after its pods.

    Args:
        core: The processor its thread is kept on; None for any.
        max_restarts: More restarts than this, of all its pods together, within `within` seconds are too many: the
            kubelet gives up. None for no limit.
        within: See `max_restarts`. The window slides, and both its ends count.
        backoff: How long restarts wait; None for not at all.
        connect_timeout: Seconds that a handle waits for a pod that is restarted, or for room.
        heartbeat: Seconds within which a kubelet that is well shows that it is.
        shutdown: What becomes of messages that wait when the troupe ends in the ordinary way.
        drain_timeout: Seconds that they have to be handled, if they are to be.
    """

    core: int | None = None
    max_restarts: int | None = 10
    within: float = 60.0
    backoff: Backoff | None = None
    connect_timeout: float = 30.0
    heartbeat: float = 1.0
    shutdown: ShutdownMode = ShutdownMode.DRAIN_ALL
    drain_timeout: float = 5.0

    def __post_init__(self) -> None:
        require_processor("core", self.core)
        require_limit("max_restarts", self.max_restarts)
        require_seconds("within", self.within)
        require_backoff(self.backoff)
        require_seconds("connect_timeout", self.connect_timeout)
        require_seconds("heartbeat", self.heartbeat)
        if self.heartbeat < 0.01:
            raise ConfigError("heartbeat", self.heartbeat, "must be a hundredth of a second or more")
        require_one_of("shutdown", self.shutdown, ShutdownMode)
        require_seconds("drain_timeout", self.drain_timeout)
