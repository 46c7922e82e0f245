"""What the files of this room know of one another, as protocols: a pool, its workers, and an actor's executor."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from greenroom.system.dispatchers.processes.pool.window import Window

__all__ = ["ExecutorPort", "PoolPort", "WorkerPort"]


class ExecutorPort(Protocol):
    """The executor of one actor in a worker; `ProcessExecutor` is one."""

    number: int
    cell: Any
    numbers: int
    window: Window
    open: dict[int, Any]
    asking: dict[int, Any]
    tasks: set[Any]
    timers: dict[int, Any]

    def send_messages(self, number: int, lane: int, messages: list[Any], senders: Any) -> int:
        """Send messages to the worker; how many bytes those were."""
        ...

    def hurry(self, number: int) -> None:
        """Have what was not begun sent back, from this number on."""
        ...

    def stash(self, message: object, sender: object, lane: int) -> None:
        """The actor has put a message aside."""
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
        """The executors of the actors that it runs, by their numbers."""
        ...

    def tell(self, head: tuple[Any, ...], value: list[Any] | None = None, lenient: bool = False) -> int:
        """Send it something, and go on; how many bytes that were."""
        ...

    def answer(self, number: int, ok: bool, value: Any) -> None:
        """Answer what it has asked for."""
        ...

    def see_off(self, executor: Any) -> None:
        """It does not run that actor any longer."""
        ...

    def is_at_rest(self) -> bool:
        """Whether it is known to have nothing to do."""
        ...

    def report_rest(self, tell: Callable[[], object]) -> None:
        """Have `tell` called when it next reports that it is idle."""
        ...

    def kill(self, why: str) -> None:
        """End it at once: its actors fail."""
        ...


class PoolPort(Protocol):
    """The worker processes of one dispatcher; `WorkerPool` is one."""

    dispatcher: str
    limit: int
    system: Any

    def worker_for(self, executor: Any) -> WorkerPort:
        """The worker that runs one more actor."""
        ...

    def lost(self, worker: Any) -> None:
        """A worker is gone, or about to be."""
        ...
