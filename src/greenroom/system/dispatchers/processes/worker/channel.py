"""The worker's end of the connection to the main process.

What hosted actors send is collected during a tick, and sent as one frame. A call that needs its answer at once (such as
`ctx.spawn`) gets it by pumping the stream; what else arrives in the meantime is only queued.

A handler may take long, and what it has sent must not wait for its end. So a thread checks for mail of a tick that does
not end, and sends it. It writes only while the loop's own thread is in a tick and not pumping, and holds `_lock` while
it does. The loop's thread takes the lock before it leaves the tick or starts to pump.
"""

from __future__ import annotations

import asyncio
import threading
from _thread import get_ident
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import count
from math import inf
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any

from greenroom.errors import FailedElsewhere, FrameTooLarge, LoopBusy, NotSendable, WireError, WorkerLost
from greenroom.errortext import in_words
from greenroom.runtimelog import RuntimeLog
from greenroom.system.dispatchers.processes.protocol import MAIL, Entry, OnOutcome, outcome_of
from greenroom.system.dispatchers.processes.variables import ValuePacker
from greenroom.wire.codec import Codec, pack, registered_names
from greenroom.wire.failures import Failure
from greenroom.wire.transport import Connection, Side

if TYPE_CHECKING:
    import socket

    from greenroom._core.scheduler.loop import Loop
    from greenroom.system.dispatchers.processes.worker.host import WorkerHost
    from greenroom.wire.transport import Buffer

_log = RuntimeLog()

_MANY = 1024
"""So many entries are sent without waiting for the end of the tick."""
_BUSY = 0.005
"""Seconds after which the mail of a tick is sent, though the tick has not ended."""
_LONG = 10_000
"""Characters that we send of the text of an exception that is too long."""
PATIENCE = 30.0
"""Seconds that the main process has to answer."""


class MainChannel:
    """The connection of a worker. For the loop's own thread only, except `request` and `post_from_outside`."""

    def __init__(self, loop: Loop, aio: asyncio.AbstractEventLoop, limit: int) -> None:
        self._loop = loop
        self._host: WorkerHost = loop.host
        self._aio = aio
        self.limit = limit
        self.codec = Codec()
        self.over = asyncio.Event()
        self._connection: Connection | None = None
        # How many frames have been taken.
        self.frames = 0
        # Whether this is a child that a hosted actor has forked.
        self.is_forked = False
        # Invariant: written under _lock, and so is everything that is sent
        self._mail: list[Entry] = []
        self._lock = threading.RLock()
        self._is_pumping = False
        # Set while there may be mail of a tick that has not ended.
        self._has_mail = threading.Event()
        threading.Thread(target=self._send_in_long_ticks, name="sends for handlers that take long", daemon=True).start()
        self._is_flush_due = False
        self._numbers = count(1)
        # Invariant: the callbacks of requests that the main process has not answered
        self._waiting: dict[int, OnOutcome] = {}
        propagation = loop.admission.propagation
        # Packs the context variables that travel with messages, if some do.
        self.packer = None if propagation is None else ValuePacker(propagation, limit)
        # Called in a forked child that comes back into the event loop of its parent.
        self.on_return: Callable[[], object] = lambda: None

    def connect(self, sock: socket.socket, secret: bytes) -> None:
        callbacks = (lambda _: self.post("hello", registered_names()), self._take, self._lost)
        self._connection = Connection(self._aio, sock, Side.CONNECTING, secret, *callbacks, self.limit)
        self._connection.begin()

    def _lost(self, error: BaseException | None) -> None:
        self.over.set()

    def _take(self, kind: int, parts: list[bytearray]) -> None:
        self.frames += 1
        head = self.codec.decode(parts[:2])[0]
        if head[0] == "answer":
            self._take_answer(head[1], parts[2:])
        else:
            self._host.take_order(head, parts[2:])
        if self._host.is_manual:
            self._host.rest_soon()

    def _take_answer(self, number: int, parts: list[bytearray]) -> None:
        told = self._waiting.pop(number, None)
        if told is None:
            return
        try:
            value = self.decode(parts)[0]
        except Exception as exc:
            value = Failure.of(exc)
        told(value)

    def after_fork(self) -> None:
        """In a forked child: the connection is its parent's."""
        self._lock = threading.RLock()
        self._mail = []
        self.is_forked = True
        if self._connection is not None:
            self._connection.after_fork()
        # As a callback, and first: from 3.14 on, asyncio steps no task there.
        self._aio.call_soon(self.on_return)
        self.over.set()

    # -- mail

    def post(self, *entry: object) -> None:
        """Send an entry to the main process: at the end of the tick, or soon."""
        with self._lock:
            self._mail.append(entry)
        if len(self._mail) >= _MANY:
            self.flush()
        elif self._loop.ticking:
            if not self._has_mail.is_set():
                self._has_mail.set()
        elif not self._is_flush_due:
            self._is_flush_due = True
            self._aio.call_soon(self.flush)

    def _send_in_long_ticks(self) -> None:
        """Send the mail of ticks that take long. Runs on a thread of its own."""
        tick = -1
        while self._has_mail.wait():
            sleep(_BUSY)  # to see whether the same tick still runs after that
            with self._lock:
                if not self._mail:
                    self._has_mail.clear()
                elif self._loop.ticking and self._loop.ticks == tick and not self._is_pumping:
                    self._send_mail()
                tick = self._loop.ticks

    def post_from_outside(self, *entry: object) -> None:
        """Like `post`, from any thread. It does not wait for a handler that takes long."""
        if get_ident() == self._loop.runq.thread:
            self.post(*entry)
            return
        with self._lock:
            self._mail.append(entry)
        self._has_mail.set()
        with suppress(RuntimeError):  # asyncio is closed, and the process about to end
            self._aio.call_soon_threadsafe(self.flush)

    def has_mail(self) -> bool:
        return bool(self._mail)

    def flush(self) -> None:
        self._is_flush_due = False
        self._host.report_active()
        with self._lock:
            self._send_mail()
        connection = self._connection
        if connection is not None and connection.is_congested and not self._is_pumping:
            # The main process does not keep up: block until it does, or unsent mail would fill our memory.
            self._pump(lambda: not connection.is_congested)

    def _pump(self, is_done: Callable[[], bool], patience: float = PATIENCE) -> bool:
        """Send and receive until `is_done()`; False if that took too long, or the connection is lost."""
        assert self._connection is not None
        with self._lock:
            self._is_pumping = True
        try:
            return self._connection.pump(is_done, monotonic() + patience)
        finally:
            self._is_pumping = False

    def _send_mail(self) -> None:
        mail, self._mail = self._mail, []
        if mail and self._connection is not None and self._connection.is_open:
            self._send(self._connection, mail)

    def _send(self, connection: Connection, mail: list[Entry]) -> None:
        try:
            connection.send(MAIL, self.codec.encode(mail))
        except FrameTooLarge as exc:
            if len(mail) == 1:
                # Values were checked, so it is a name.
                _log.error("something cannot be sent to the main process: %s", exc)
                return
            middle = len(mail) // 2
            self._send(connection, mail[:middle])
            self._send(connection, mail[middle:])

    def decode(self, parts: Sequence[Buffer]) -> list[Any]:
        """The messages in a frame. All errors are `Exception`s: Ctrl-C does not reach a worker."""
        try:
            return self.codec.decode(parts)
        except KeyboardInterrupt as exc:
            raise WireError("what was sent cannot be read: KeyboardInterrupt") from exc

    def pack(self, message: object) -> object:
        """The form in which a message is sent. Raises if it cannot be sent; the error is for its sender."""
        return pack(message, self.limit)

    def outcome(self, value: object) -> object:
        """The form in which an outcome is sent. A result that cannot be sent becomes a failure."""
        try:
            return self.pack(value)
        except (NotSendable, FrameTooLarge) as exc:
            return self.failure(value.exc if isinstance(value, Failure) else exc)

    def failure(self, error: BaseException | None) -> object:
        """The form in which an exception is sent; its text is cut if it is too long."""
        if error is None:
            return None
        try:
            return self.pack(Failure.of(error))
        except (NotSendable, FrameTooLarge):
            return pack(Failure.of(FailedElsewhere(type(error).__qualname__, in_words(error)[:_LONG])), self.limit)

    # -- questions

    def ask(self, told: OnOutcome, *entry: object) -> int:
        number = next(self._numbers)
        word, *rest = entry
        self._waiting[number] = told
        self.post_within(word, number, *rest)
        return number

    def post_within(self, *entry: object) -> None:
        """Post an order with the context variables that are set here, if such travel."""
        values = [] if self.packer is None else self.packer.here()
        if values:
            self.post("within", values, *entry)
        else:
            self.post(*entry)

    def request(self, actor: int, what: str, given: object, patience: float | None = PATIENCE) -> Any:
        """Have the main process do something with packed arguments, and block until it has. From any thread."""
        if get_ident() != self._loop.runq.thread:
            return asyncio.run_coroutine_threadsafe(self.begin(actor, what, given), self._aio).result(patience)
        outcome: list[object] = []
        self.ask(outcome.append, "request", actor, what, given)
        self.wait(lambda: bool(outcome), what, patience)
        return _result_of(outcome[0])

    def wait(self, is_done: Callable[[], bool], what: str, patience: float | None) -> None:
        self.flush()
        if not self._pump(is_done, inf if patience is None else patience):
            if self.over.is_set():
                raise WorkerLost(f"{what} needs the process that started this one, which is gone")
            raise LoopBusy("the main process", f"{what} waited {patience:g} s for an answer")

    async def begin(self, actor: int, what: str, given: object) -> Any:
        future: asyncio.Future[object] = self._aio.create_future()

        def told(outcome: object) -> None:
            if not future.done():
                future.set_result(outcome)

        self.ask(told, "request", actor, what, given)
        return _result_of(await future)


def _result_of(outcome: object) -> object:
    value, error = outcome_of(outcome)
    if error is not None:
        raise error
    return value
