"""`Session`: a simulation that goes on bit by bit, for tests that look in between."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from types import TracebackType
from typing import Self, TypeVar

from greenroom.errors import SimulationStuck
from greenroom.system.config import SystemConfig
from greenroom.system.system import ActorSystem
from greenroom.testing.checks.ledgers import assert_ledger_balanced
from greenroom.testing.simulating.stage import Stage
from greenroom.testing.tracing.trace import Trace

__all__ = ["Session"]

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

    def __init__(self, stage: Stage, config: SystemConfig | None = None) -> None:
        self._stage = stage
        self.system: ActorSystem = stage.run(lambda: _begin(config))

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
            with suppress(SimulationStuck):  # what went wrong before is what should be seen
                self.close()

    @property
    def now(self) -> float:
        """Virtual seconds since it began."""
        return self._stage.director.clock.time

    @property
    def next_moment(self) -> float:
        """When something is next due, if everybody is at rest; inf if nothing is."""
        return self._stage.next_moment

    async def reach(self, moment: float) -> None:
        """Wait, inside `run`, until it is that time, exactly: `sleep` would add and subtract."""
        loop = asyncio.get_running_loop()
        reached: asyncio.Future[None] = loop.create_future()
        loop.call_at(moment, reached.set_result, None)
        await reached

    @property
    def trace(self) -> Trace:
        """What has happened so far."""
        return Trace(self._stage.director)

    def run(self, action: Callable[[], Awaitable[T]]) -> T:
        """Call `action()` in the simulation, and wait for what it returns to end: its result."""

        async def main() -> T:
            return await action()

        return self._stage.run(main)

    def settle(self) -> None:
        """Go on until nothing is queued or in hand."""
        self.run(self.system.settle)

    def advance(self, seconds: float) -> None:
        """Let so many seconds pass, and everything happen that they bring."""
        self.run(lambda: asyncio.sleep(seconds))

    def close(self) -> None:
        """Shut the system down; every message must be accounted for then."""
        with self._stage:
            if self.system.phase != "stopped":
                self.run(self.system.shutdown)
        assert_ledger_balanced(self.system)


async def _begin(config: SystemConfig | None) -> ActorSystem:
    return await ActorSystem("simulation", config=config).__aenter__()
