"""A stage for timers, without an event loop: nothing moves until the test moves the clock."""

from collections.abc import Callable

from greenroom._core.limits import Limits
from greenroom._core.scheduler.loop import Loop
from greenroom.clock import ManualClock
from tests.core.hosts import Letters


class Stage:
    """A loop on a clock moved by hand, and a cell that remembers each message with the time it was handled."""

    def __init__(self, limits: Limits | None = None) -> None:
        self.clock = ManualClock()
        self.letters = Letters()
        self.loop = Loop(limits, self.clock, self.letters)
        self.log: list[tuple[float, object]] = []
        self.on_tick: Callable[[object], object] | None = None
        self.cell = self.loop.spawn(Stage.handle, self)

    def handle(self, message: object) -> None:
        self.log.append((self.clock.now(), message))
        if self.on_tick is not None:
            self.on_tick(message)

    def move_to(self, moment: float) -> None:
        self.clock.step(moment)
        self.loop.run_until_idle()

    @property
    def messages(self) -> list[object]:
        return [message for _, message in self.log]
