"""Ticks to an actor that lives on another loop than the timer.

The timer stays on its own loop. A tick is posted to the other one, and let in there, or turned away, as on one loop;
when it is done with, that is posted back, and the timer goes on.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from greenroom._core.itemkinds import TICKED
from greenroom._core.receipt import Receipt
from greenroom.lanes import Lane

if TYPE_CHECKING:
    from greenroom._core.mailbox.cell import Cell
    from greenroom._core.timing.timers import Timer

__all__ = ["send_tick"]

_DATA = Lane.DATA


class ForeignTick(Receipt):
    """Goes with a tick, in the timer's place."""

    __slots__ = ("_inbound", "_propagated", "_sender", "_timer")

    def __init__(self, timer: Timer, inbound: Any) -> None:
        self._timer = timer
        self._inbound = inbound
        self._sender = timer.shown_sender()
        self._propagated = timer.propagated()

    def shown_sender(self) -> object:
        """The ref of the timer's owner."""
        return self._sender

    def origin(self) -> int:
        """By a timer."""
        return TICKED

    def propagated(self) -> Any:
        """What was set when the timer was started."""
        return self._propagated

    def live(self) -> bool:
        """Whether the tick is still wanted."""
        return self._timer.live()

    def settle(self, result: object) -> None:
        """The tick was handled."""
        self._inbound.post_back(None, partial(self._timer.settle, None))

    def fail(self, cause: BaseException) -> None:
        """Its handler raised; the timer goes on all the same."""
        self.settle(None)

    def discard(self, why: str) -> None:
        """The tick was not handled; the timer goes on all the same."""
        self.settle(None)


def send_tick(timer: Timer, inbound: Any) -> None:
    """Bring a tick to the loop of its target; `inbound` is that of the timer's own."""
    target: Cell = timer.target
    tick = ForeignTick(timer, inbound)
    message = timer.message
    if not target.runq.inbound.post_back(None, partial(_deliver, target, message, tick)):
        target.post(message, tick)  # its loop has stopped


def _deliver(target: Cell, message: object, tick: ForeignTick) -> None:
    target.loop.admission.deliver(target, message, tick, _DATA)
