"""The worker processes of a dispatcher, in the main process: what is said to them and by them, and how they are lost.

Workers are started when they are needed, and replaced when they are lost: when the process ends (`process`), or its
connection does. What a worker has sent before that is read first.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import secrets
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from contextvars import Context
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from greenroom.clock import ManualClock
from greenroom.errors import FrameTooLarge, NotSendable, WorkerLost
from greenroom.errortext import in_words
from greenroom.exits import ends_system
from greenroom.originaldir import ORIGINAL_DIR
from greenroom.runtimelog import RuntimeLog
from greenroom.system.dispatchers.processes.pool.executor import ProcessExecutor
from greenroom.system.dispatchers.processes.pool.process import WorkerProcess
from greenroom.system.dispatchers.processes.pool.service import Service
from greenroom.system.dispatchers.processes.protocol import (
    HOLDER,
    MAIL,
    MARKS,
    NUMBERED,
    ORDER,
    TICKS,
    Entry,
    WorkerSettings,
)
from greenroom.system.dispatchers.processes.variables import Place, ValuePacker, places_of
from greenroom.wire.codec import Codec, Parts, pack
from greenroom.wire.failures import Failure
from greenroom.wire.transport import Connection, Side

if TYPE_CHECKING:
    from greenroom.actor.life.spec import ActorSpec
    from greenroom.system.loops.thread import SystemLoop

__all__ = ["Hold", "Worker", "WorkerPool"]

_log = RuntimeLog()

_PATIENCE_AT_START = 60.0
"""Seconds that a worker has to start; the machine may be busy."""
_PATIENCE = 0.25
"""Seconds that we wait for the exit code of a process when its connection is lost."""
_PROMPT = 0.5
"""Seconds that an actor which has been given up may still hold the thread of its worker."""


class Hold(NamedTuple):
    """What a worker's page says at some moment. Two that are equal mean that one visit has lasted all the time."""

    holder: int
    ticks: int


class Worker:
    """A process that runs the code of some actors. For the loop's own thread only."""

    def __init__(self, workers: WorkerPool, number: int) -> None:
        self._workers = workers
        self._loop = workers.owner.loop
        self.name = f"{workers.owner.name} {workers.dispatcher} {number}"
        self.actors: dict[int, ProcessExecutor] = {}
        self._codec = Codec()
        self._is_ready = False
        # Frames to be sent when the connection opens.
        self._early: list[tuple[int, Parts]] = []
        self._service = Service(self, workers.owner)
        propagation = self._loop.admission.propagation
        # Packs the context variables that travel with messages, if some do.
        self.packer = None if propagation is None else ValuePacker(propagation, workers.limit)
        # Why we killed it, if we did.
        self._why = ""
        self._is_over = False
        # Whether it looks for slow handlers.
        self._is_timed = False
        # What its page said when an actor last found it held by another one.
        self._held: Hold | None = None
        # Frames that were sent to it; how many of those it had taken when it last reported that it was idle; whether it
        # blocks, and says so; and what is to be called at the next report. Workers report if the clock is a manual one.
        self._is_manual = isinstance(self._loop.clock, ManualClock)
        self._sent = 0
        self._idle_after = 0
        self._is_blocked = False
        # The requests for whose answers its thread blocks.
        self._blocks_for: set[int] = set()
        self._on_idle: Callable[[], object] | None = None
        # Where the next actor has its marks.
        self._next_marks = MARKS
        self._aio: asyncio.AbstractEventLoop = self._loop.visits.stepper.aio  # type: ignore[assignment]  # it runs
        self._process = WorkerProcess(self.name, self._post_end)

    @property
    def pid(self) -> int | None:
        return self._process.pid

    @property
    def thread(self) -> threading.Thread:
        return self._process.thread

    # -- start

    def start(self) -> None:
        ours = self._process.open()
        secret = secrets.token_bytes(32)
        settings: WorkerSettings = {
            "secret": secret.hex(),
            "path": [str(Path(ORIGINAL_DIR, entry)) for entry in sys.path],
            "name": self.name,
            "system": self._workers.owner.name,
            "limit": self._workers.limit,
            "manual": self._is_manual,
            "log": logging.getLogger().getEffectiveLevel(),
            "slow_after": self._loop.hooks.slow_after,
            "stuck_after": self._workers.owner.system.config.stuck_after,
            "propagate": self._workers.places(),
        }
        callbacks = (self._opened, self._take, self._lost)
        limits = (self._workers.limit, _PATIENCE_AT_START)
        self._connection = Connection(self._aio, ours, Side.LISTENING, secret, *callbacks, *limits)
        self._connection.begin()
        try:
            self._process.start(settings)
        except Exception as exc:
            self._is_over = True
            self._connection.abort()
            self._process.page.close()
            raise WorkerLost(f"the worker process {self.name!r} cannot be started: {in_words(exc)}") from exc
        if self._is_manual:
            self._loop.helpers[self] = None

    def _opened(self, connection: Connection) -> None:
        self._is_ready = True
        early, self._early = self._early, []
        for kind, parts in early:
            connection.send(kind, parts)

    # -- frames to it

    def tell(self, head: Entry, value: Sequence[object] | None = None, lenient: bool = False) -> int:
        """Send a frame to it, and return at once; the result is the size in bytes. Raises if it cannot be sent."""
        parts = self._codec.encode([head])
        if value is not None:
            parts += self._codec.encode_leniently(value) if lenient else self._codec.encode(value)
        size = sum(part.nbytes if isinstance(part, memoryview) else len(part) for part in parts)
        if size > self._workers.limit:
            raise FrameTooLarge(size, self._workers.limit)
        if self._is_ready:
            self._connection.send(ORDER, parts)
        else:
            self._early.append((ORDER, parts))
        self._sent += 1
        return size

    def note_observers(self) -> None:
        """Have the worker look for slow handlers iff an observer wants to know of them."""
        wants = self._loop.hooks.slow_handler
        if wants is not self._is_timed:
            self._is_timed = wants
            self.tell(("observe", 0, wants))

    def answer(self, number: int, ok: bool, value: object) -> None:
        self._blocks_for.discard(number)
        if self._is_over:
            return
        try:
            self.tell(("answer", number, ok), [value], lenient=True)
        except Exception as exc:
            self.tell(("answer", number, False), [Failure.of(exc)])

    def release(self, executor: ProcessExecutor) -> None:
        if self.actors.pop(executor.number, None) is not None and not self._is_over:
            self.tell(("leave", executor.number))

    # -- frames from it

    def _take(self, kind: int, parts: list[bytearray]) -> None:
        if kind != MAIL:
            return
        try:
            entries = self._codec.decode(parts)
        except Exception as exc:
            _log.exception("%s: what it says cannot be understood", self.name)
            self.kill(f"what it said could not be understood: {in_words(exc)}")
            return
        for entry in entries:
            try:
                if self.packer is None:
                    self._process_entry(entry)
                else:  # not in the context of whoever happened to start the worker
                    Context().run(self._process_entry, entry)
            except BaseException as exc:
                self._entry_failed(entry, exc)

    def _process_entry(self, entry: Entry) -> None:
        word, *rest = entry
        if word in _ABOUT_ACTORS:
            number, *what = rest
            executor = self.actors.get(number)
            if executor is not None:
                _ABOUT_ACTORS[word](executor, *what)
        elif word not in _OF_ITSELF:
            self._service.do(word, rest)
        elif word == "hello":
            self._codec.peer_knows(rest[0])
        else:
            self._reported(word, rest[0])

    def _entry_failed(self, entry: Entry, exc: BaseException) -> None:
        """An entry could not be dealt with. It concerns one actor at most, so the rest is read."""
        if ends_system(exc):
            self._workers.owner.system.fail(exc)
        _log.error("%s: what it says cannot be dealt with (%s)", self.name, entry[0], exc_info=exc)
        if entry[0] in _ABOUT_ACTORS:
            executor = self.actors.get(entry[1])
            if executor is not None:
                self.release(executor)
                executor.lost(WorkerLost(f"{self.name}: what it says of {executor.cell.shown()} cannot be dealt with"))

    def is_at_rest(self) -> bool:
        """Whether the worker had nothing to do when it had taken all that was sent to it, or blocks and says so.

        Handlers may be suspended.
        """
        is_blocked = self._is_blocked or bool(self._blocks_for)
        return not self._is_manual or is_blocked or self._idle_after == self._sent

    def report_rest(self, tell: Callable[[], object]) -> None:
        """Have `tell` called when it next reports that it is idle, or blocks."""
        self._on_idle = tell  # whoever wants to know is told by any of them

    def _reported(self, word: str, value: int) -> None:
        if word == "idle":
            self._idle_after = value
        else:
            self._is_blocked = bool(value)
        self._tell_rest()

    def blocks_for(self, number: int) -> None:
        """The thread only waits, until this request is answered."""
        self._blocks_for.add(number)
        self._tell_rest()

    def _tell_rest(self) -> None:
        tell, self._on_idle = self._on_idle, None
        if tell is not None:
            tell()

    # -- who holds it

    def hold(self) -> Hold:
        if self._is_over:
            return Hold(0, 0)
        words = self._process.page.words
        return Hold(words[HOLDER], words[TICKS])

    def holder(self) -> ProcessExecutor | None:
        """The actor whose code the thread runs at present, if that is one of ours."""
        held_by = self.hold().holder
        if held_by & NUMBERED:
            return self.actors.get(held_by ^ NUMBERED)
        return next((one for one in self.actors.values() if held_by and one.cell_id == held_by), None)

    def new_marks(self, number: int, place: int = 0) -> int:
        """Where it marks how far an actor is, whose next message has this number; 0 if it has no room for that.

        An actor that has a `place` already has the same again.
        """
        words = self._process.page.words
        if not place:
            place = self._next_marks
            if place + 2 > len(words):
                return 0
            self._next_marks = place + 2
        words[place] = words[place + 1] = number
        return place

    def marks(self, place: int) -> tuple[int, int]:
        """The two marks of an actor. The worker may be lost, but its page not closed."""
        words = self._process.page.words
        return words[place], words[place + 1]

    def is_held(self) -> bool:
        """Whether one actor has held the thread since another could not be reached there."""
        return self._held is not None and not self._is_over and self._held == self.hold()

    def note_held(self) -> None:
        """An actor could not be reached, because another one holds the thread."""
        self._held = self.hold()

    def end_unless_free(self, executor: ProcessExecutor) -> None:
        """An actor that held the thread was given up, and has left: end the worker if it holds on to it."""
        held = self.hold()
        why = f"{executor.cell.shown()} held it, and would not be interrupted"
        self._aio.call_later(_PROMPT, self._end_if_held, held, why)

    def _end_if_held(self, held: Hold, why: str) -> None:
        if not self._is_over and self.hold() == held:
            self.kill(why)

    # -- end

    def close(self) -> threading.Thread:
        """Close the connection, so that it ends. Returns a thread that waits for that, and kills it if need be."""
        self._is_over = True
        self._loop.helpers.pop(self, None)
        self._service.close()
        closer = self._process.end()
        self._connection.abort()
        self._process.page.close()
        return closer

    def kill(self, why: str) -> None:
        """End it at once: its actors fail."""
        if not self._is_over:
            self._why = why
            self._connection.abort()

    def _post_end(self) -> None:
        """The process has ended. Called on another thread."""
        with suppress(RuntimeError):  # the loop is closed, so nobody wants to know
            self._aio.call_soon_threadsafe(self._process_ended)

    def _process_ended(self) -> None:
        """The process has ended. A child of it may hold the connection open, so that we see no end of file."""
        if not self._is_over:
            self._connection.read_rest()

    def _lost(self, error: BaseException | None) -> None:
        """The connection is lost, so we give up the process."""
        if self._is_over:
            return
        self._is_over = True
        self._loop.helpers.pop(self, None)
        self._process.kill()
        self._process.join(_PATIENCE)
        for executor in self.actors.values():
            executor.note_marks()
        self._process.page.close()
        self._workers.lost(self)
        self._service.close()
        if isinstance(error, OSError):
            error = None  # the usual error when the other end dies with unread data
        lost = WorkerLost(self._describe(error))
        lost.__cause__ = self._process.cause or error
        actors, self.actors = self.actors, {}
        if actors:
            names = [executor.cell.name() for executor in actors.values()]
            more = f" and {len(names) - 5} more" if len(names) > 5 else ""
            _log.warning("%s; it ran %s%s", lost, ", ".join(names[:5]), more)
        for executor in actors.values():
            executor.lost(lost.again())

    def _describe(self, error: BaseException | None) -> str:
        name = f"the worker process {self.name!r}"
        if self._why:
            return f"{name} was ended: {self._why}"
        if self._process.cause is not None:
            return f"{name} cannot be started: {in_words(self._process.cause)}"
        how = "has ended" if error is None else f"is out of reach ({in_words(error)})"
        code = self._process.code
        if code is not None and code < 0:
            how = f"was killed by {_signal_name(-code)}"
        elif code:
            how = f"ended with code {code}"
        when = "" if self._is_ready else " before it was ready"
        why = ": its standard error says why" if when and code is not None and code > 0 else ""
        return f"{name} {how}{when}{why}"


def _signal_name(number: int) -> str:
    with suppress(ValueError):  # a real-time signal has no name
        return signal.Signals(number).name
    return f"signal {number}"


_OF_ITSELF = frozenset(["hello", "idle", "blocks"])
_ABOUT_ACTORS: dict[str, Callable[..., None]] = {
    "progress": ProcessExecutor.progressed,
    "reply": ProcessExecutor.answered,
    "refused": ProcessExecutor.refused,
    "called": ProcessExecutor.called,
    "unreadable": ProcessExecutor.unreadable,
    "cancelled": ProcessExecutor.cancel_confirmed,
    "entered": ProcessExecutor.entered,
    "stop": ProcessExecutor.stop_actor,
    "unstash": ProcessExecutor.unstash,
    "supervise": ProcessExecutor.supervise,
    "awaits": ProcessExecutor.awaits,
    "gives up": ProcessExecutor.gives_up,
}


class WorkerPool:
    """The processes of one dispatcher. For the loop's own thread only."""

    threads = 0

    def __init__(self, dispatcher: str, owner: SystemLoop, most: int, limit: int, keep: bool = False) -> None:
        self.dispatcher = dispatcher
        # The loop whose actors they host.
        self.owner = owner
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
        return [worker.pid for worker in self._workers if worker.pid is not None]

    def executor(self, spec: ActorSpec, args: tuple[object, ...]) -> ProcessExecutor:
        """An executor for one more actor. Raises if the actor cannot be created in another process."""
        try:
            pack((spec.factory, args, spec.kwargs), self.limit)
        except NotSendable as exc:
            error = _culprit(spec, args, self.limit) or exc
            raise error from error.__cause__
        return ProcessExecutor(self)

    def places(self) -> list[Place]:
        if self._places is None:
            propagation = self.owner.loop.admission.propagation
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
        if worker in self._workers:
            self._workers.remove(worker)
            self._ending = [thread for thread in self._ending if thread.is_alive()]
            self._ending.append(worker.thread)

    def close(self) -> list[threading.Thread]:
        """End all workers; return the threads that wait for that."""
        workers, self._workers = self._workers, []
        self._ending += [worker.close() for worker in workers]
        return self._ending


def _culprit(spec: ActorSpec, args: tuple[object, ...], limit: int) -> NotSendable | None:
    """An error that names the part of an actor that cannot be sent: its class, or an argument of the constructor."""
    name = spec.label[0]
    for what, value in _parts_of(spec, args, name):
        try:
            pack(value, limit)
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
