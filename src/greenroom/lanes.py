"""Lanes of a mailbox, what happens when one is full, and the mailbox's settings.

>>> Lane.CONTROL > Lane.DATA > Lane.LOG
True
>>> MailboxConfig(capacity=2, overflow=Overflow.DROP_OLD).room(Lane.DATA)
2
>>> MailboxConfig(lanes={Lane.LOG: 10}).room(Lane.LOG)
10
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum, IntEnum
from types import MappingProxyType
from typing import Any

from greenroom.errors import BadArgument, ConfigError
from greenroom.frozen import ByFields
from greenroom.validation import require_instance, require_whole

LARGEST_CAPACITY = 1 << 28
"""The bound of any bound: ring positions are 32-bit numbers."""


class Lane(IntEnum):
    """The priority queues of a mailbox: a higher lane is served before a lower one."""

    LOG = 0
    DATA = 1
    MANAGEMENT = 2
    CONTROL = 3

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"Lane.{self.name}"


def as_lane(value: object) -> Lane:
    """The lane that `value` names, by itself or by its number."""
    try:
        return Lane(value)  # type: ignore[arg-type]
    except ValueError:
        raise BadArgument(f"lane={value!r}: must be one of {', '.join(map(repr, Lane))}") from None


class Overflow(Enum):
    """What happens to a message when its lane is full."""

    REJECT = "reject"
    """The sender gets `MailboxFull`, which carries the message."""
    DROP_NEW = "drop_new"
    """The arriving message is dropped and counted."""
    DROP_OLD = "drop_old"
    """The oldest queued message is dropped and counted; the arriving one takes its place in the queue."""


_LANES: Mapping[Lane, int] = MappingProxyType({Lane.CONTROL: 1024, Lane.MANAGEMENT: 1024, Lane.LOG: 8192})


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class MailboxConfig(ByFields):
    """How much a mailbox holds, what it does when full, and in which order it serves its data lane.

    `capacity` bounds the data lane, `lanes` the others (those not named keep their default). With `priority`, a
    function of the message, the data lane serves the smallest key first and equal keys in order of arrival.
    """

    capacity: int = 65_536
    overflow: Overflow = Overflow.REJECT
    lanes: Mapping[Lane, int] = field(default_factory=lambda: _LANES)
    priority: Callable[[Any], Any] | None = None

    def __post_init__(self) -> None:
        _require_capacity("capacity", self.capacity)
        require_instance("overflow", self.overflow, Overflow, f"one of {', '.join(map(str, Overflow))}")
        if self.priority is not None and not callable(self.priority):
            raise ConfigError("priority", self.priority, "must be a function of the message, or None")
        lanes: object = self.lanes
        if not isinstance(lanes, Mapping):
            raise ConfigError("lanes", lanes, "must map lanes to capacities")
        for lane, capacity in lanes.items():
            if lane not in _LANES:
                raise ConfigError("lanes", lane, "name Lane.CONTROL, MANAGEMENT or LOG; `capacity` bounds Lane.DATA")
            _require_capacity(f"lanes[{lane}]", capacity)
        object.__setattr__(self, "lanes", MappingProxyType({**_LANES, **self.lanes}))

    def room(self, lane: Lane) -> int:
        """How many messages `lane` holds at most."""
        return self.capacity if lane is Lane.DATA else self.lanes[lane]

    def __hash__(self) -> int:
        return hash((self.capacity, self.overflow, *self.lanes.values(), self.priority))

    def __reduce__(self) -> tuple[object, ...]:
        # A mapping proxy cannot be pickled; its contents can.
        return type(self), (self.capacity, self.overflow, dict(self.lanes), self.priority)


def _require_capacity(name: str, value: object) -> None:
    require_whole(name, value)
    require_whole(name, value, f"at least 1 and at most {LARGEST_CAPACITY}", 1, LARGEST_CAPACITY)
