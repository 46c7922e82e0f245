"""The worker processes of one dispatcher: started when they are needed, and replaced when they are gone."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from greenroom.system.dispatchers.processes.pool.executor import ProcessExecutor
from greenroom.system.dispatchers.processes.pool.worker import Worker
from greenroom.wire.codec import require_sendable

if TYPE_CHECKING:
    from greenroom.actor.life.spec import ActorSpec

__all__ = ["WorkerPool"]


class WorkerPool:
    """The processes of one dispatcher. Belongs to the loop's own thread."""

    threads = 0

    def __init__(self, dispatcher: str, system: Any, most: int, limit: int) -> None:
        self.dispatcher = dispatcher
        self.system = system
        self.limit = limit
        self._most = most
        self._made = 0
        # Invariant: those that are there, or on their way, and can have guests
        self._workers: list[Worker] = []
        # Threads that wait for those that are to end.
        self._ending: list[threading.Thread] = []

    @property
    def pids(self) -> list[int]:
        """The processes that are there at present."""
        return [worker.pid for worker in self._workers if worker.pid is not None]

    def executor(self, spec: ActorSpec) -> ProcessExecutor:
        """A place for one more actor, if it can be made in another process."""
        require_sendable((spec.factory, spec.args, dict(spec.kwargs)), self.limit)
        return ProcessExecutor(self)

    def worker_for(self, executor: ProcessExecutor) -> Worker:
        """The process with the fewest guests; a new one, if none is without, and there may be another."""
        idlest = min(self._workers, key=lambda worker: len(worker.actors), default=None)
        if idlest is None or (idlest.actors and len(self._workers) < self._most):
            self._made += 1
            idlest = Worker(self, self._made)
            idlest.start()
            self._workers.append(idlest)
        idlest.actors[executor.number] = executor
        return idlest

    def lost(self, worker: Worker) -> None:
        """A process is gone, or about to be."""
        if worker in self._workers:
            self._workers.remove(worker)
            self._ending = [thread for thread in self._ending if thread.is_alive()]
            self._ending.append(worker.thread)

    def close(self) -> list[threading.Thread]:
        """Let all of them end; the threads that see to it."""
        workers, self._workers = self._workers, []
        self._ending += [worker.close() for worker in workers]
        return self._ending
