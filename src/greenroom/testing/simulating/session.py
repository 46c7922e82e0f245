"""`Session`: a simulation that goes on bit by bit, for tests that look in between."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from types import TracebackType
from typing import Self, TypeVar

from greenroom._core.timing.timers import LONGEST_DELAY
from greenroom.actor.messaging.timers import require_number
from greenroom.clock import slack
from greenroom.errors import InvalidDelay, SimulationRefused, SimulationStuck
from greenroom.system.config import SystemConfig
from greenroom.system.system import ActorSystem
from greenroom.testing.checks.ledgers import assert_ledger_balanced
from greenroom.testing.simulating.runner import SimulationRunner
from greenroom.testing.tracing.trace import Trace

__all__ = ["Session", "require_span"]

T = TypeVar("T")


class Session:
    """A running system in a simulation. Nothing happens in it but inside `run`, `settle`, `advance` and `close`.

    >>> from greenroom import Actor
    >>> from greenroom.testing import Simulation
    >>> class Adder(Actor[int, int]):
    ...     total = 0
    ...     def receive(self, message: int) -> int:
    ...         self.total += message
    ...         return self.total
    >>> with Simulation(seed=1).open() as session:
    ...     adder = session.system.spawn(Adder)
    ...     adder.tell(1)
    ...     session.settle()
    ...     session.run(lambda: adder.ask(2))
    3
    """

    def __init__(self, runner: SimulationRunner, config: SystemConfig | None = None) -> None:
        self._runner = runner
        self.system: ActorSystem = runner.run(lambda: _begin(config))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if exc is None:
            try:
                # As by leaving the system's own `async with`: if a failure has ended it, that is raised.
                self.run(lambda: self.system.__aexit__(None, None, None))
            finally:
                self.close()
        else:
            # What went wrong before is what should be seen.
            director = self._runner.director
            director.fatal, director.unheeded = (), []
            with suppress(SimulationStuck, SimulationRefused):
                self.close()

    @property
    def now(self) -> float:
        """Virtual seconds since it began."""
        return self._runner.director.clock.time

    @property
    def trace(self) -> Trace:
        """What has happened so far."""
        return Trace(self._runner.director)

    def run(self, action: Callable[[], Awaitable[T]]) -> T:
        """Call `action()` in the simulation, and wait for what it returns to end: its result."""

        async def main() -> T:
            return await action()

        return self._runner.run(main)

    def settle(self) -> None:
        """Go on until nothing is queued or in hand."""
        self.run(self.system.settle)

    def advance(self, seconds: float) -> None:
        """Let so many seconds pass, and everything happen that they bring.

        What is due within a nanosecond of their end is due: ten times a tenth of a second is a second.
        """
        require_span(seconds)
        self.run(lambda: self.pass_time(seconds))

    async def pass_time(self, seconds: float) -> None:
        """What `advance` does, inside `run`."""
        await self.come_to_rest()
        moment = self.now + seconds
        latest = moment + slack(moment)
        while True:
            await self._reach(moment)
            await self.come_to_rest()
            moment = self._runner.next_moment
            if not self.now < moment <= latest:
                return

    async def come_to_rest(self) -> None:
        """Return when nobody can go on, asyncio's own callbacks included, without time passing."""
        poller, director = self.system._poller, self._runner.director
        calm = 0
        # Twice: what asyncio has to do at this very moment, it shows only in its next turn.
        while calm < 2:
            await poller.idle()
            await asyncio.sleep(0)
            calm = calm + 1 if poller.is_idle() and not director.outside else 0

    async def _reach(self, moment: float) -> None:
        """Wait until it is that time, exactly: `sleep` would add and subtract."""
        loop = asyncio.get_running_loop()
        reached: asyncio.Future[None] = loop.create_future()
        loop.call_at(moment, reached.set_result, None)
        await reached

    def close(self) -> None:
        """Shut the system down; every message must be accounted for then."""
        with self._runner:
            if self.system.phase != "stopped":
                self.run(self.system.shutdown)
        assert_ledger_balanced(self.system)


def require_span(seconds: float) -> None:
    """Raise unless so much time can pass."""
    require_number("seconds", seconds)
    if not 0.0 <= seconds <= LONGEST_DELAY:
        raise InvalidDelay("seconds", seconds)


async def _begin(config: SystemConfig | None) -> ActorSystem:
    return await ActorSystem("simulation", config=config).__aenter__()
