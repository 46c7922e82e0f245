"""Waiting by the system's own clock, outside of actors."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from greenroom._core.timing.timers import Alarm
from greenroom.actor.messaging.timers import set_alarm

if TYPE_CHECKING:
    from greenroom._core.scheduler.loop import Loop

__all__ = ["CallAlarm", "set_call"]


class CallAlarm(Alarm):
    """Calls a function when its time has come."""

    __slots__ = ("_call",)

    def __init__(self, call: Callable[[], object]) -> None:
        self._call = call

    def ring(self, admission: object) -> None:
        """The time has come."""
        self._call()


def set_call(loop: Loop, seconds: float, call: Callable[[], object]) -> CallAlarm:
    """Have `call` called in `seconds`; `alarm.disarm(loop.timers)` takes it back. On the loop's own thread."""
    alarm = CallAlarm(call)
    set_alarm(loop, alarm, loop.now() + seconds)
    return alarm
