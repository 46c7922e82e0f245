"""A kubelet's heartbeat: others can see whether its thread goes on, without asking it.

The kubelet notes the time several times per interval, on its own thread, and others look when they want to know. A
thread that sleeps on its bell wakes for that, which costs a few microseconds a second.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from time import monotonic
from typing import TYPE_CHECKING

from greenroom.frozen import Frozen

if TYPE_CHECKING:
    from greenroom._core.scheduler.loop import Loop

_BEATS = 4
"""In one interval: so that one may come late."""


@dataclass(eq=False, repr=False, slots=True)
class Heartbeat(Frozen):
    """When a kubelet was last seen to be well: `age` seconds ago. It `is_late` if that is longer than `interval`."""

    age: float
    interval: float
    busy_with: str | None = None
    """The actor that holds its thread, if it is late."""

    @property
    def is_late(self) -> bool:
        """Whether the pod's thread is held up, or has ended."""
        return self.age > self.interval


class Heart:
    """Beats on the kubelet's thread, if that is a real one, which a handler may hold up."""

    def __init__(self, loop: Loop, interval: float) -> None:
        self._loop = loop
        self._interval = interval
        # Written by the kubelet's thread: when it was last seen. None before it begins, and when it has ended.
        self._last: float | None = None
        self.beats = 0
        self._handle: asyncio.TimerHandle | None = None

    def begin(self) -> None:
        """Beat from now on. On the kubelet's thread, as `end`."""
        if self._loop.world.is_real:
            self._beat(asyncio.get_running_loop())

    def _beat(self, aio: asyncio.AbstractEventLoop) -> None:
        self._last = monotonic()
        self.beats += 1
        self._handle = aio.call_later(self._interval / _BEATS, self._beat, aio)

    def end(self) -> None:
        self._last = None
        if self._handle is not None:
            self._handle.cancel()

    def look(self) -> Heartbeat | None:
        """When the kubelet was last seen to be well; None if it does not run. From any thread."""
        last = self._last
        if last is None:
            return None
        age = max(0.0, monotonic() - last)
        hand = self._loop.visits.peek_hand()[0] if age > self._interval else None
        return Heartbeat(age, self._interval, None if hand is None else hand.name())

    def says(self) -> str:
        """What to tell a sender that has waited for the kubelet in vain."""
        seen = self.look()
        if seen is None or not seen.is_late:
            return ""
        whom = "" if seen.busy_with is None else f": {seen.busy_with} holds its thread"
        return f"the kubelet has not been heard of for {seen.age:.1f} s{whom}"
