"""The worker processes of one dispatcher: started when they are needed, and replaced when they are lost."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

from greenroom.errors import NotSendable
from greenroom.system.dispatchers.processes.pool.executor import ProcessExecutor
from greenroom.system.dispatchers.processes.pool.worker import Worker
from greenroom.system.dispatchers.processes.variables import Place, places_of
from greenroom.wire.codec import require_sendable

if TYPE_CHECKING:
    from greenroom.actor.life.spec import ActorSpec
    from greenroom.system.dispatchers.processes.pool.ports import OwnerSystem

__all__ = ["WorkerPool"]


class WorkerPool:
    """The processes of one dispatcher. For the loop's own thread only."""

    threads = 0

    def __init__(self, dispatcher: str, system: OwnerSystem, most: int, limit: int, keep: bool = False) -> None:
        self.dispatcher = dispatcher
        self.system = system
        self.limit = limit
        # Whether messages stay that a lost worker had not begun.
        self.keep = keep
        self._most = most
        self._made = 0
        # Invariant: the workers that run, or are being started, and can host actors
        self._workers: list[Worker] = []
        # Where workers find the context variables that travel with messages; looked up for the first of them.
        self._places: list[Place] | None = None
        # Threads that wait for workers that are ending.
        self._ending: list[threading.Thread] = []

    @property
    def pids(self) -> list[int]:
        """The ids of the processes that run at present."""
        return [worker.pid for worker in self._workers if worker.pid is not None]

    def executor(self, spec: ActorSpec, args: tuple[object, ...]) -> ProcessExecutor:
        """An executor for one more actor. Raises if the actor cannot be created in another process."""
        try:
            require_sendable((spec.factory, args, spec.kwargs), self.limit)
        except NotSendable as exc:
            error = _culprit(spec, args, self.limit) or exc
            raise error from error.__cause__
        return ProcessExecutor(self)

    def places(self) -> list[Place]:
        """Where a worker finds the context variables that travel with messages."""
        if self._places is None:
            propagation = self.system._loop.admission.propagation
            self._places = [] if propagation is None else places_of(propagation.variables)
        return self._places

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


def _culprit(spec: ActorSpec, args: tuple[object, ...], limit: int) -> NotSendable | None:
    """An error that names the part of an actor that cannot be sent: its class, or an argument of the constructor."""
    name = spec.label[0]
    for what, value in _parts_of(spec, args, name):
        try:
            require_sendable(value, limit)
        except NotSendable as exc:
            error = NotSendable(value, exc.why, what)
            error.__cause__ = exc.__cause__
            return error
    return None


def _parts_of(spec: ActorSpec, args: tuple[object, ...], name: str) -> Iterator[tuple[str, object]]:
    yield name, spec.factory
    names: list[str] = []
    with suppress(TypeError, ValueError):  # a builtin; or the arguments do not fit, which its start will say
        inspect.signature(spec.factory).bind(*args, **spec.kwargs)
        names = list(inspect.signature(spec.factory).parameters)
    for number, value in enumerate(args):
        is_named = number < len(names)
        yield f"the argument {f'`{names[number]}`' if is_named else number + 1} of {name}(...)", value
    for keyword, value in spec.kwargs.items():
        yield f"the argument `{keyword}` of {name}(...)", value
