"""The worker processes of a dispatcher, in the main process: what is said to them and by them, and how they are lost.

Workers are started when they are needed, and replaced when they are lost: when the process ends (`process`), or its
connection does. What a worker has sent before that is read first.

A hosted actor's context, refs and system are stubs. What they cannot do in the worker, they request from here by the
key of its row in `actor.offload.operations`.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import secrets
import signal
import sys
import threading
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import suppress
from contextvars import Context
from functools import partial
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from greenroom._core.timing.timers import Timer
from greenroom.actor.api.context import Context as ActorContext
from greenroom.actor.messaging.address import Address
from greenroom.actor.messaging.question import Question, send_question
from greenroom.actor.messaging.ref import ActorRef
from greenroom.actor.messaging.waiting import (
    has_started,
    own_mailbox_is_full,
    require_other,
    require_startable,
    wait_for_end,
    wait_for_inspection,
    wait_for_room,
    wait_for_start,
)
from greenroom.actor.offload.operations import OPERATIONS, Operation, Way
from greenroom.actor.records.record import ActorRecord
from greenroom.actor.records.systems import resolve
from greenroom.clock import ManualClock
from greenroom.errors import (
    ActorTerminated,
    BadArgument,
    FrameTooLarge,
    MailboxFull,
    NotSendable,
    WaitsForItself,
    WorkerLost,
)
from greenroom.errortext import in_words
from greenroom.exits import ends_system
from greenroom.lanes import Lane, as_lane
from greenroom.originaldir import ORIGINAL_DIR
from greenroom.runtimelog import RuntimeLog, print_error
from greenroom.system.dispatchers.processes.pool.executor import ProcessExecutor, Requests
from greenroom.system.dispatchers.processes.pool.process import WorkerProcess
from greenroom.system.dispatchers.processes.protocol import (
    BLOCKS,
    HOLDER,
    MAIL,
    MARKS,
    NUMBERED,
    ORDER,
    TICKS,
    WAITS_FOR_ROOM,
    Entry,
    Relay,
    TimerHandle,
    WorkerSettings,
)
from greenroom.system.dispatchers.processes.variables import PackedValues, Place, ValuePacker, places_of
from greenroom.wire.codec import Codec, Parts, pack, unpacked
from greenroom.wire.failures import Failure
from greenroom.wire.transport import Connection, Side

if TYPE_CHECKING:
    from greenroom.actor.life.spec import ActorSpec
    from greenroom.system.loops.thread import SystemLoop
    from greenroom.wire.address import ActorAddress

_log = RuntimeLog()

_PATIENCE_AT_START = 60.0
"""Seconds that a worker has to start; the machine may be busy."""
_PATIENCE = 0.25
"""Seconds that we wait for the exit code of a process when its connection is lost."""
_PROMPT = 0.5
"""Seconds that an actor which has been given up may still hold the thread of its worker."""


_MANY_TIMERS = 64
_handles = count(1)


Hold = tuple[int, int]
"""Who holds a worker's thread, and in which tick. Two that are equal mean that one visit has lasted all the time."""


class Requester(NamedTuple):
    """What requests something that takes a while: a hosted actor, or other code in its worker (then None)."""

    executor: ProcessExecutor | None
    blocks: bool
    """Whether the worker's thread blocks meanwhile."""

    def means_itself(self, ref: ActorRef) -> bool:
        executor = self.executor
        return executor is not None and ref._cell is executor.cell and isinstance(ref._cell.record, ActorRecord)


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
        # Those of no actor: of a thread, say.
        self._others = Requests()
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
        self.process = WorkerProcess(self.name, self._post_end)

    # -- start

    def start(self) -> None:
        ours = self.process.open()
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
            self.process.start(settings)
        except Exception as exc:
            self._is_over = True
            self._connection.abort()
            self.process.page.close()
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
            parts += self._codec.encode(value, lenient)
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
        """Have the worker time its handlers iff an observer wants to know of slow ones."""
        wants = self._loop.hooks.slow_handler
        if wants is not self._is_timed:
            self._is_timed = wants
            self.tell(("observe", 0, wants))

    def answer(self, number: int, value: object) -> None:
        self._blocks_for.discard(number)
        if self._is_over:
            return
        try:
            self.tell(("answer", number), [value], lenient=True)
        except Exception as exc:
            self.tell(("answer", number), [Failure.of(exc)])

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
                    self._do(*entry)
                else:  # not in the context in which the worker was started
                    Context().run(self._do, *entry)
            except BaseException as exc:
                self._entry_failed(entry, exc)

    def _do(self, word: str, *rest: Any) -> None:
        if word in _ABOUT_ACTORS:
            number, *what = rest
            executor = self.actors.get(number)
            if executor is not None:
                _ABOUT_ACTORS[word](executor, *what)
        elif word in _WORDS:
            _WORDS[word](self, *rest)
        else:
            raise BadArgument(f"a worker says {word!r}, which means nothing here: is it of the same version?")

    def _peer_knows(self, names: list[str]) -> None:
        self._codec.peer_knows(names)

    def _entry_failed(self, entry: Entry, exc: BaseException) -> None:
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
        self._on_idle = tell  # any of those that want to know tells the others

    def _is_idle(self, after: int) -> None:
        """The worker had nothing to do after so many frames."""
        self._idle_after = after
        self._tell_rest()

    def _blocks(self, begins: int) -> None:
        self._is_blocked = bool(begins)
        self._tell_rest()

    def blocks_for(self, number: int) -> None:
        """The thread only waits, until this request is answered."""
        self._blocks_for.add(number)
        self._tell_rest()

    def _tell_rest(self) -> None:
        tell, self._on_idle = self._on_idle, None
        if tell is not None:
            tell()

    # -- what hosted actors request

    def _requests_of(self, executor: ProcessExecutor | None) -> Requests:
        return self._others if executor is None else executor.requests

    def _do_within(self, packed: PackedValues, word: str, *rest: Any) -> None:
        """Do it with the context variables that were set where the worker asked for it."""
        packer, propagation = self.packer, self._loop.admission.propagation
        if packer is not None and propagation is not None:
            propagation.context_of(packer.unpack(packed)).run(self._do, word, *rest)

    def _deliver(self, address: ActorAddress, packed: object, whose: ActorAddress | None, lane: int) -> None:
        sender = _found(whose)
        try:
            target, message = resolve(*address), unpacked(packed)
        except Exception as exc:
            told = "a message of %s to %s is lost, for it cannot be read: %s"
            _log.error(told, sender, address.path, in_words(exc))
            self._loop.host.publish(packed, sender, _found(address), f"it cannot be read: {in_words(exc)}")
            return
        cell = target._cell
        if cell.loop is self._loop:
            self._loop.admission.deliver(cell, message, sender, Lane(lane))
            return
        try:
            cell.post(message, sender, Lane(lane))
        except MailboxFull:  # already counted by the receiving side; the sender cannot be told
            self._loop.host.publish(message, sender, target, "mailbox full")
        except Exception as exc:  # the other system has limits of its own, and its workers too
            self._loop.host.publish(message, sender, target, f"it cannot be sent: {in_words(exc)}")

    def _ask(
        self,
        number: int,
        actor: int,
        address: ActorAddress,
        packed: object,
        whose: ActorAddress | None,
        lane: int,
        timeout: float,
        how: int,
    ) -> None:
        executor = self.actors.get(actor)
        if actor and executor is None:
            return  # the actor has ended in the meantime
        try:
            target, message = resolve(*address), unpacked(packed)
            if how & BLOCKS:
                self._require_elsewhere(target, Requester(executor, blocks=True))
                self.blocks_for(number)
        except Exception as exc:
            self.answer(number, Failure.of(exc))
            return
        sender = _found(whose)
        cell = target._cell
        asker = sender._cell if isinstance(sender, Address) and sender._cell.loop is self._loop else None
        question = Question.__new__(Question)
        question.set_up(self._loop, cell, asker, timeout)
        question.tell_future(Relay(partial(self._answered, number, executor)), None)
        self._requests_of(executor).asked[number] = question
        send_question(question, message, Lane(lane), bool(how & WAITS_FOR_ROOM))
        if timeout >= 0.0:
            question.arm()

    def _answered(self, number: int, executor: ProcessExecutor | None, value: object) -> None:
        self._requests_of(executor).asked.pop(number, None)
        self.answer(number, value)

    def _withdraw(self, number: int, actor: int) -> None:
        self._requests_of(self.actors.get(actor)).withdraw(number, self)

    def _request(self, number: int, actor: int, key: str, given: object) -> None:
        executor = self.actors.get(actor)
        try:
            args, kwargs = unpacked(given)
            row = OPERATIONS[key]
            if row.remote is Way.AWAIT or row.remote is Way.BLOCK:
                requester = Requester(executor, row.remote is Way.BLOCK)
                if requester.blocks:
                    self.blocks_for(number)
                serve = _SLOW[row.name.removesuffix("_sync")]
                self._serve(number, executor, serve(self, requester, *args, **kwargs))
                return
            subject, args = self._subject(row, executor, args)
            result = row.apply(subject, args, kwargs)
            if executor is not None and isinstance(result, Timer):
                result = self._handle(executor, result)
        except Exception as exc:
            result = Failure.of(exc)
        self.answer(number, result)

    def _subject(
        self, row: Operation, executor: ProcessExecutor | None, args: tuple[Any, ...]
    ) -> tuple[object, tuple[Any, ...]]:
        if row.of == "system":
            return self._workers.owner.system, args
        if row.of == "ref":
            if not isinstance(args[0], ActorRef):
                raise BadArgument(f"{args[0]!r} is no ref")
            return args[0], args[1:]
        record = None if executor is None else executor.cell.record
        if executor is None or not isinstance(record, ActorContext):
            raise ActorTerminated(self._workers.owner.system, "its worker process does not run it any more")
        if row.of == "timer":
            return executor.requests.timers.get(args[0], _ENDED), args[1:]
        return record.timers if row.of == "timers" else record, args

    def _serve(self, number: int, executor: ProcessExecutor | None, coroutine: Coroutine[Any, Any, object]) -> None:
        async def run() -> None:
            try:
                result = await coroutine
            except (Exception, asyncio.CancelledError) as exc:
                result = Failure.of(exc)
            self.answer(number, result)

        tasks = self._requests_of(executor).tasks
        task = asyncio.get_running_loop().create_task(run())
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    def _handle(self, executor: ProcessExecutor, timer: Timer) -> TimerHandle:
        timers = executor.requests.timers
        if len(timers) >= _MANY_TIMERS and len(timers) & (len(timers) - 1) == 0:
            timers = executor.requests.timers = {number: one for number, one in timers.items() if one.active}
        number = next(_handles)
        timers[number] = timer
        return TimerHandle(number)

    def _require_elsewhere(self, ref: ActorRef, requester: Requester) -> None:
        """Raise when an actor is about to block its worker's thread for one that needs the same thread."""
        record = ref._cell.record
        extras = record.extras if isinstance(record, ActorRecord) else None
        worker = None if extras is None else getattr(extras.executor, "worker", None)
        if worker is self and not requester.means_itself(ref):
            why = f"{ref} is in the same worker process, and waits for the thread that this would block"
            raise WaitsForItself(f"{why}: make the handler `async def` and await it, or give it another dispatcher")

    async def _send(
        self, by: Requester, ref: ActorRef, message: object, *, lane: Lane = Lane.DATA, timeout: float | None = None
    ) -> None:
        cell, sender, lane = ref._cell, None if by.executor is None else by.executor.cell.shown(), as_lane(lane)
        if cell.loop is self._loop:
            admission = self._loop.admission
            if by.blocks and not admission.has_room(cell, lane):
                if by.means_itself(ref):
                    raise own_mailbox_is_full(cell)
                self._require_elsewhere(ref, by)
            if admission.send_if_room(cell, message, sender, lane):
                return
        await wait_for_room(cell, message, sender, lane, timeout)

    async def _started(self, by: Requester, ref: ActorRef, timeout: float | None = None) -> None:
        require_startable(ref._cell, by.means_itself(ref))
        if by.blocks and not has_started(ref._cell):
            self._require_elsewhere(ref, by)
        await wait_for_start(ref._cell, timeout)

    async def _terminated(self, by: Requester, ref: ActorRef, timeout: float | None = None) -> object:
        require_other(ref._cell, "end", by.means_itself(ref))
        if by.blocks:
            self._require_elsewhere(ref, by)
        return await wait_for_end(ref._cell, timeout)

    async def _inspect(self, by: Requester, ref: ActorRef, *items: str, timeout: float | None = 5.0) -> object:
        require_other(ref._cell, "inspect()", by.means_itself(ref))
        if by.blocks:
            self._require_elsewhere(ref, by)
        return await wait_for_inspection(ref._cell, items, timeout)

    # -- for observers, dead letters and logs

    def _took_long(self, event: str, address: ActorAddress | None, message: object, *details: object) -> None:
        if getattr(self._loop.hooks, event):
            self._loop.hooks.emit(event, _found(address), _shown(message), *details)

    def _publish(self, message: object, sender: ActorAddress | None, recipient: ActorAddress | None, why: str) -> None:
        self._loop.host.publish(_shown(message), _found(sender), _found(recipient), why)

    def _late_reply(self, target: ActorAddress | None, value: object, asker: ActorAddress | None) -> None:
        ref = _found(target)
        if ref is not None:
            ref._cell.loop.host.late_reply(ref._cell, _shown(value), _found(asker))

    def _log_record(self, packed: object) -> None:
        record = logging.makeLogRecord(unpacked(packed))
        logger = logging.getLogger(record.name)
        try:
            if logger.isEnabledFor(record.levelno):
                logger.handle(record)
        except Exception:  # a filter or handler of the program; the actor that logged is in another process
            print_error()

    # -- who holds it

    def hold(self) -> Hold:
        if self._is_over:
            return 0, 0
        words = self.process.page.words
        return words[HOLDER], words[TICKS]

    def holder(self) -> ProcessExecutor | None:
        """The actor whose code the thread runs at present, if that is one of ours."""
        held_by, _ = self.hold()
        if held_by & NUMBERED:
            return self.actors.get(held_by ^ NUMBERED)
        return next((one for one in self.actors.values() if held_by and one.cell_id == held_by), None)

    def new_marks(self, number: int, place: int = 0) -> int:
        """Where it marks how far an actor is, whose next message has this number; 0 if it has no room for that.

        An actor that has a `place` already has the same again.
        """
        words = self.process.page.words
        if not place:
            place = self._next_marks
            if place + 2 > len(words):
                return 0
            self._next_marks = place + 2
        words[place] = words[place + 1] = number
        return place

    def marks(self, place: int) -> tuple[int, int]:
        """The two marks of an actor. The worker may be lost, but its page not closed."""
        words = self.process.page.words
        return words[place], words[place + 1]

    def is_held(self) -> bool:
        """Whether one actor has held the thread since another could not be reached there."""
        return self._held is not None and not self._is_over and self._held == self.hold()

    def note_held(self) -> None:
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

    def _cancel_others(self) -> None:
        for task in list(self._others.tasks):
            task.cancel()

    def close(self) -> threading.Thread:
        self._is_over = True
        self._loop.helpers.pop(self, None)
        self._cancel_others()
        closer = self.process.end()
        self._connection.abort()
        self.process.page.close()
        return closer

    def kill(self, why: str) -> None:
        if not self._is_over:
            self._why = why
            self._connection.abort()

    def _post_end(self) -> None:
        with suppress(RuntimeError):  # the loop is closed
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
        self.process.kill()
        self.process.thread.join(_PATIENCE)
        self._workers.lost(self)
        self._cancel_others()
        if isinstance(error, OSError):
            error = None  # the usual error when the other end dies with unread data
        lost = WorkerLost(self._describe(error))
        lost.__cause__ = self.process.cause or error
        actors, self.actors = self.actors, {}
        if actors:
            names = [executor.cell.name() for executor in actors.values()]
            more = f" and {len(names) - 5} more" if len(names) > 5 else ""
            _log.warning("%s; it ran %s%s", lost, ", ".join(names[:5]), more)
        for executor in actors.values():
            executor.lost(lost.again())
        self.process.page.close()  # they have looked at their marks

    def _describe(self, error: BaseException | None) -> str:
        name = f"the worker process {self.name!r}"
        if self._why:
            return f"{name} was ended: {self._why}"
        if self.process.cause is not None:
            return f"{name} cannot be started: {in_words(self.process.cause)}"
        how = "has ended" if error is None else f"is out of reach ({in_words(error)})"
        code = self.process.code
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


_SLOW: dict[str, Callable[..., Coroutine[Any, Any, object]]] = {
    "send": Worker._send,
    "started": Worker._started,
    "terminated": Worker._terminated,
    "inspect": Worker._inspect,
}
_WORDS: dict[str, Callable[..., None]] = {
    "hello": Worker._peer_knows,
    "idle": Worker._is_idle,
    "blocks": Worker._blocks,
    "within": Worker._do_within,
    "tell": Worker._deliver,
    "ask": Worker._ask,
    "withdraw": Worker._withdraw,
    "request": Worker._request,
    "letter": Worker._publish,
    "late": Worker._late_reply,
    "long": Worker._took_long,
    "log": Worker._log_record,
}
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
}


class _EndedTimer:
    """Stands for a timer that is over, and forgotten."""

    active = False

    def cancel(self) -> bool:
        return False


_ENDED = _EndedTimer()


def _found(address: ActorAddress | None) -> ActorRef | None:
    if address is not None:
        with suppress(Exception):
            ref: ActorRef = resolve(*address)
            return ref
    return None


def _shown(packed: object) -> object:
    """The message of a dead letter; in its packed form if it cannot be decoded."""
    with suppress(Exception):
        return unpacked(packed)
    return packed


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
        return [pid for worker in self._workers if (pid := worker.process.pid) is not None]

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

        One that is known to be held by an actor comes last: there is no telling when that one lets go.
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
            self._ending.append(worker.process.thread)

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
