"""What the modules of this package know of each other, as protocols: a pool, its workers, and an actor's executor."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from greenroom.system.dispatchers.processes.pool.window import Window

if TYPE_CHECKING:
    import asyncio

    from greenroom._core.delivery.propagation import Values
    from greenroom._core.mailbox.cell import Cell
    from greenroom._core.scheduler.loop import Loop
    from greenroom._core.timing.timers import Timer
    from greenroom.actor.messaging.question import Question
    from greenroom.system.dispatchers.processes.protocol import Entry
    from greenroom.system.dispatchers.processes.variables import PackedValues, ValuePacker

__all__ = ["ExecutorPort", "Hold", "OwnerSystem", "PoolPort", "WorkerPort"]


class Hold(NamedTuple):
    """What a worker's page says at some moment. Two that are equal mean that one visit has lasted all the time."""

    holder: int
    ticks: int


class OwnerConfig(Protocol):
    """What a worker must know of a system's config."""

    @property
    def stuck_after(self) -> float:
        """Seconds after which a handler is stuck; 0 not to look for such."""
        ...


class OwnerSystem(Protocol):
    """The system that a pool belongs to; `ActorSystem` is one."""

    name: str
    _loop: Loop

    @property
    def config(self) -> OwnerConfig:
        """Its settings."""
        ...

    def _request_end(self, timeout: float, drain: bool | None) -> None:
        """Begin the shutdown, and return at once."""
        ...

    def fail(self, cause: BaseException) -> None:
        """End the system, because of `cause`."""
        ...


class ExecutorPort(Protocol):
    """The executor of one actor in a worker; `ProcessExecutor` is one."""

    number: int
    worker: WorkerPort | None
    cell_id: int
    cell: Cell
    numbers: int
    window: Window
    open: dict[int, Question]
    asking: dict[int, Question]
    tasks: set[asyncio.Task[None]]
    timers: dict[int, Timer]

    def pack_values(self, values: Values) -> PackedValues:
        """The form in which the context variables of a message are sent."""
        ...

    def send_messages(self, number: int, lane: int, messages: list[object], senders: object) -> int:
        """Send messages to the worker; return their size in bytes."""
        ...

    def hurry(self, number: int) -> None:
        """Have the worker return the messages that it has not started, from this number on."""
        ...

    def marks(self) -> tuple[int, int] | None:
        """The numbers of the first message that is not done, and of the first not begun; None if nobody knows."""
        ...

    def stash(self, message: object, sender: object, lane: int) -> None:
        """The actor has stashed a message."""
        ...

    def is_at_rest(self) -> bool:
        """Whether its worker is known to have nothing to do."""
        ...

    def report_rest(self, tell: Callable[[], object]) -> None:
        """Have `tell` called when its worker may be known to have nothing to do."""
        ...


class WorkerPort(Protocol):
    """One worker process; `Worker` is one."""

    @property
    def actors(self) -> Mapping[int, ExecutorPort]:
        """The executors of the actors that it hosts, by their numbers."""
        ...

    def tell(self, head: Entry, value: Sequence[object] | None = None, lenient: bool = False) -> int:
        """Send a frame to it, and return at once; the result is the size in bytes."""
        ...

    def note_observers(self) -> None:
        """Have it look for slow handlers iff some observer wants to know of them."""
        ...

    @property
    def packer(self) -> ValuePacker | None:
        """Packs the context variables that travel with messages, if some do."""
        ...

    def blocks_for(self, number: int) -> None:
        """Its thread only waits, until this request is answered."""
        ...

    def answer(self, number: int, ok: bool, value: object) -> None:
        """Answer one of its requests."""
        ...

    def new_marks(self, number: int, place: int = 0) -> int:
        """Where it marks how far an actor is, whose next message has this number; 0 if it has no room for that.

        An actor that has a `place` already has the same again.
        """
        ...

    def marks(self, place: int) -> tuple[int, int]:
        """The two marks of an actor."""
        ...

    def release(self, executor: ExecutorPort) -> None:
        """It no longer hosts that actor."""
        ...

    def is_at_rest(self) -> bool:
        """Whether it is known to have nothing to do."""
        ...

    def report_rest(self, tell: Callable[[], object]) -> None:
        """Have `tell` called when it next reports that it is idle."""
        ...

    def hold(self) -> Hold:
        """Whose code its thread runs at present, as its page says."""
        ...

    def holder(self) -> ExecutorPort | None:
        """The actor whose code its thread runs at present."""
        ...

    def note_held(self) -> None:
        """An actor could not be reached, because another one holds the thread."""
        ...

    def end_unless_free(self, executor: ExecutorPort) -> None:
        """End it if an actor that was given up still holds the thread a moment later."""
        ...

    def kill(self, why: str) -> None:
        """End it at once: its actors fail."""
        ...


class PoolPort(Protocol):
    """The worker processes of one dispatcher; `WorkerPool` is one."""

    dispatcher: str
    limit: int
    keep: bool
    system: OwnerSystem
