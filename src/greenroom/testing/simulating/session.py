"""`Session`: a simulation that a test drives step by step."""

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
    """A running system in a simulation. Actors run only inside `run`, `settle`, `advance` and `close`.

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
                # As at the end of the system's own `async with`: raise the failure that ended it, if one did.
                self.run(lambda: self.system.__aexit__(None, None, None))
            finally:
                self.close()
        else:
            # Do not hide the first error.
            director = self._runner.director
            director.fatal, director.unheeded = (), []
            with suppress(SimulationStuck, SimulationRefused):
                self.close()

    @property
    def now(self) -> float:
        """Virtual seconds since the beginning."""
        return self._runner.director.clock.time

    @property
    def trace(self) -> Trace:
        """The trace so far."""
        return Trace(self._runner.director)

    def run(self, action: Callable[[], Awaitable[T]]) -> T:
        """Call `action()` in the simulation, await what it returns, and return the result."""

        async def main() -> T:
            return await action()

        return self._runner.run(main)

    def settle(self) -> None:
        """Run until no message is queued or being handled."""
        self.run(self.system.settle)

    def advance(self, seconds: float) -> None:
        """Let `seconds` pass, with everything that is due meanwhile.

        A deadline within a nanosecond of the end counts as due: ten times 0.1 s is 1 s.
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
        """Run until nothing can go on, including asyncio's callbacks, unless time passes."""
        poller, director = self.system._poller, self._runner.director
        calm = 0
        # Twice: asyncio shows timers that are due now only in its next iteration.
        while calm < 2:
            await poller.idle()
            await asyncio.sleep(0)
            calm = calm + 1 if poller.is_idle() and not director.outside else 0

    async def _reach(self, moment: float) -> None:
        """Wait until exactly that time: `sleep` would round."""
        loop = asyncio.get_running_loop()
        reached: asyncio.Future[None] = loop.create_future()
        loop.call_at(moment, reached.set_result, None)
        await reached

    def close(self) -> None:
        """Shut the system down at once, and check that every message is accounted for."""
        with self._runner:
            if self.system.phase != "stopped":
                self.run(lambda: self.system.shutdown(drain=False))
        assert_ledger_balanced(self.system)


def require_span(seconds: float) -> None:
    """Raise unless `seconds` is a valid time span."""
    require_number("seconds", seconds)
    if not 0.0 <= seconds <= LONGEST_DELAY:
        raise InvalidDelay("seconds", seconds)


async def _begin(config: SystemConfig | None) -> ActorSystem:
    return await ActorSystem("simulation", config=config).__aenter__()
