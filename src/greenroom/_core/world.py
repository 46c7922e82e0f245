"""What a loop runs in: its clock, its threads, and who is told what happens. The one place where a simulation comes in.

Each loop belongs to the world of the thread that makes it (`world_here`). `World` is the machine's: there the clock and
the threads are real, and nothing is recorded. A simulation enters a `simulation.director.Director` for its thread. All
that is not on a message's way asks `loop.world`, whichever that is. What is on its way has `director`, which is None in
the machine's world, so that looking costs a real loop no call.
"""

from __future__ import annotations

from _thread import get_ident
from typing import TYPE_CHECKING, Any

from greenroom.clock import Clock, MonotonicClock

if TYPE_CHECKING:
    from greenroom._core.mailbox.cell import Cell
    from greenroom._core.receipt import Receipt
    from greenroom._core.scheduler.loop import Loop
    from greenroom.system.config import SystemConfig


class World:
    """The world of real threads and clocks. Methods that tell of an event do nothing here."""

    def __init__(self) -> None:
        # Whether threads, processes and files behave as the machine's do.
        self.is_real = True
        # What runs further loops of a system where there are no real threads: `testing`'s `MainEventLoop`.
        self.threads: Any = None

    # -- where a loop and its system get what they need

    def adopt(self, loop: Loop, is_first: bool) -> None:
        """A loop of this world is being made: the `is_first` of its system, or a further one."""

    def clock_for(self, wanted: Clock | None) -> Clock:
        """The clock of a loop that is to go by `wanted`."""
        return MonotonicClock() if wanted is None else wanted

    def seed_for(self, wanted: int | None) -> int | None:
        """The seed of the random numbers of a system."""
        return wanted

    def has_loops(self) -> bool:
        """Whether a system may have several loops."""
        return self.is_real or self.threads is not None

    def loop_count(self, config: SystemConfig) -> int:
        """How many loops a system with this config begins with."""
        return config.loop_count()

    def require_threads(self, what: str, instead: str) -> None:
        """Raise if `what` needs threads and there are none; `instead` says what to do."""

    def owes_time(self, loop: Loop) -> bool:
        """Whether a message to an actor of `loop` is under way, and arrives when some time has passed."""
        return False

    # -- what happens

    def notifies(self, cell: Cell, notice: object) -> bool:
        """A notice is sent on the loop's own thread; True if it is delivered later instead."""
        return False

    def failed(self, cell: Cell, cause: BaseException) -> None:
        """An actor has failed with `cause`."""

    def hook_raised(self, cell: Cell, name: str, cause: BaseException) -> None:
        """A hook raised, which does not change what happens to its actor."""

    def declined(self, cell: Cell, cause: BaseException) -> None:
        """An actor refused a message that was told, not asked."""

    def ask_ended(self, cell: Cell, receipt: Receipt, is_answered: bool, value: object) -> None:
        """An ask of `cell` has its reply, or failed with the exception `value`."""

    def task_failed(self, name: str, cause: BaseException) -> None:
        """A task raised, and its exception was never retrieved."""

    def retrieved(self, cause: BaseException) -> None:
        """`cause`, and so what caused it, was raised where its task or ask was awaited."""


_MACHINE = World()

worlds: dict[int, World] = {}
"""The world of each thread that is not in the machine's, by the thread's number."""


def world_here() -> World:
    """The world that this thread is in."""
    return worlds.get(get_ident(), _MACHINE)


class VirtualClock:
    """A clock that stands still until it is moved; a loop reads `time` without a call."""

    def __init__(self) -> None:
        self.time = 0.0

    def now(self) -> float:
        return self.time

    def move_to(self, moment: float) -> None:
        """Set the time to `moment`, unless it is later already."""
        self.time = max(self.time, moment)
