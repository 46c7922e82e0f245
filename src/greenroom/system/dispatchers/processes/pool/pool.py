"""The worker processes of one dispatcher: started when they are needed, and replaced when they are lost."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from greenroom.system.dispatchers.processes.pool.executor import ProcessExecutor
from greenroom.system.dispatchers.processes.pool.worker import Worker
from greenroom.wire.codec import require_sendable

if TYPE_CHECKING:
    from greenroom.actor.life.spec import ActorSpec
    from greenroom.system.dispatchers.processes.pool.ports import OwnerSystem

__all__ = ["WorkerPool"]


class WorkerPool:
    """The processes of one dispatcher. For the loop's own thread only."""

    threads = 0

    def __init__(self, dispatcher: str, system: OwnerSystem, most: int, limit: int) -> None:
        self.dispatcher = dispatcher
        self.system = system
        self.limit = limit
        self._most = most
        self._made = 0
        # Invariant: the workers that run, or are being started, and can host actors
        self._workers: list[Worker] = []
        # Threads that wait for workers that are ending.
        self._ending: list[threading.Thread] = []

    @property
    def pids(self) -> list[int]:
        """The ids of the processes that run at present."""
        return [worker.pid for worker in self._workers if worker.pid is not None]

    def executor(self, spec: ActorSpec) -> ProcessExecutor:
        """An executor for one more actor. Raises if the actor cannot be created in another process."""
        require_sendable((spec.factory, spec.args, dict(spec.kwargs)), self.limit)
        return ProcessExecutor(self)

    def worker_for(self, executor: ProcessExecutor) -> Worker:
        """The worker with the fewest actors; a new one if all have some and there may be more workers.

        One that is known to be held by an actor comes last: nobody knows when that one lets go.
        """
        idlest = min(self._workers, key=lambda worker: (worker.is_held(), len(worker.actors)), default=None)
        if idlest is None or (idlest.actors and len(self._workers) < self._most):
            self._made += 1
            idlest = Worker(self, self._made)
            idlest.start()
            self._workers.append(idlest)
        idlest.actors[executor.number] = executor
        return idlest

    def lost(self, worker: Worker) -> None:
        """A process has ended, or is about to."""
        if worker in self._workers:
            self._workers.remove(worker)
            self._ending = [thread for thread in self._ending if thread.is_alive()]
            self._ending.append(worker.thread)

    def close(self) -> list[threading.Thread]:
        """Let all workers end; return the threads that wait for that."""
        workers, self._workers = self._workers, []
        self._ending += [worker.close() for worker in workers]
        return self._ending
