"""A worker's end of the connection to its home.

What guests send is gathered while the loop ticks, and sent as one frame. Somebody who must have an answer before the
next line runs (`ctx.spawn`, say) gets it by pumping the stream: what else arrives meanwhile only queues up.

A handler may take long, and what it has sent must not wait for its end. So a thread looks whether a tick goes on that
has mail, and sends that. It writes only while the loop's own thread is in a tick, and not pumping, and holds `_lock`
meanwhile; the loop's thread takes the lock before it leaves either.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from _thread import get_ident
from collections.abc import Callable, Coroutine
from itertools import count
from time import monotonic, sleep
from typing import Any

from greenroom.errors import FailedElsewhere, FrameTooLarge, LoopBusy, NotSendable, WorkerLost, in_words
from greenroom.system.dispatchers.processes.protocol import MAIL
from greenroom.wire.codec import Codec, pack
from greenroom.wire.failures import Failure
from greenroom.wire.streams import Stream
from greenroom.wire.transport import Connection, Side

__all__ = ["MainChannel"]

_log = logging.getLogger("greenroom")

_MANY = 1024
"""Entries that are sent without waiting for the end of the tick."""
_BUSY = 0.005
"""Seconds after which a tick that goes on has its mail sent."""
_LONG = 10_000
"""Characters of what an exception says that is too long to be sent."""
_PATIENCE = 30.0
"""Seconds that home has to answer."""


class MainChannel:
    """The connection of a worker. Belongs to the loop's own thread, but for `request` and `post_from_outside`."""

    def __init__(self, loop: Any, aio: asyncio.AbstractEventLoop, limit: int) -> None:
        self._loop = loop
        self._aio = aio
        self.limit = limit
        self.codec = Codec()
        self.over = asyncio.Event()
        self._connection: Any = None
        # How many frames have been taken.
        self.frames = 0
        self._stream: Any = None
        # Invariant: written under _lock, as everything that is sent
        self._mail: list[tuple[Any, ...]] = []
        self._lock = threading.RLock()
        self._is_pumping = False
        # Set while there may be mail of a tick that goes on.
        self._has_mail = threading.Event()
        threading.Thread(target=self._send_for_the_busy, name="sends for handlers that take long", daemon=True).start()
        self._is_flush_due = False
        self._numbers = count(1)
        # Invariant: what has been asked of home and not been answered: called with whether it went well, and the value
        self._waiting: dict[int, Callable[[bool, Any], object]] = {}
        # What is to be done before a frame is sent, so that it has the latest.
        self.before_flush: Callable[[], object] = lambda: None
        self.after_frame: Callable[[], object] = lambda: None
        self.on_order: Callable[[tuple[Any, ...], list[Any]], object] = lambda head, parts: None

    def connect(self, sock: Any, secret: bytes, on_open: Callable[[], object]) -> None:
        """Begin."""

        def opened(connection: Connection) -> None:
            self._connection = connection
            on_open()

        made = Connection(Side.CONNECTING, secret, opened, self._take, self._lost, self.limit)
        self._stream = Stream(self._aio, sock, made)
        self._stream.begin()

    def _lost(self, error: BaseException | None) -> None:
        self._connection = None
        self.over.set()

    def _take(self, kind: int, parts: list[Any]) -> None:
        self.frames += 1
        head = self.codec.decode(parts[:2])[0]
        if head[0] == "answer":
            self._take_answer(head[1], head[2], parts[2:])
        else:
            self.on_order(head, parts[2:])
        self.after_frame()

    def _take_answer(self, number: int, ok: bool, parts: list[Any]) -> None:
        told = self._waiting.pop(number, None)
        if told is None:
            return
        try:
            value = self.codec.decode(parts)[0]
        except Exception as exc:
            ok, value = False, Failure.of(exc)
        told(ok, value)

    # -- mail

    def post(self, *entry: Any) -> None:
        """Send something home: at the end of the tick, or soon."""
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

    def _send_for_the_busy(self) -> None:
        """Send what waits for the end of a tick that does not come. A thread of its own."""
        tick = -1
        while self._has_mail.wait():
            sleep(_BUSY)  # not for something to happen, but to see whether it does not
            with self._lock:
                if not self._mail:
                    self._has_mail.clear()
                elif self._loop.ticking and self._loop.ticks == tick and not self._is_pumping:
                    self._send_mail()
                tick = self._loop.ticks

    def post_from_outside(self, *entry: Any) -> None:
        """The same, from any thread."""
        if get_ident() == self._loop.runq.thread:
            self.post(*entry)
        elif not self._aio.is_closed():
            self._aio.call_soon_threadsafe(self.post, *entry)

    def flush(self) -> None:
        """Send what has been gathered."""
        self._is_flush_due = False
        self.before_flush()
        with self._lock:
            self._send_mail()
        if self._connection is not None and self._connection.is_congested and not self._is_pumping:
            # Home does not keep up: whoever has so much to say must wait, or it would fill our memory.
            self._pump(lambda: self._connection is None or not self._connection.is_congested)

    def _pump(self, is_done: Callable[[], bool]) -> bool:
        """Send, and take what arrives, until `is_done()`; False when that has taken too long."""
        with self._lock:
            self._is_pumping = True
        try:
            done: bool = self._stream.pump(is_done, monotonic() + _PATIENCE)
        finally:
            self._is_pumping = False
        return done

    def _send_mail(self) -> None:
        mail, self._mail = self._mail, []
        if mail and self._connection is not None:
            self._send(mail)

    def _send(self, mail: list[tuple[Any, ...]]) -> None:
        try:
            self._connection.send(MAIL, self.codec.encode(mail))
        except FrameTooLarge as exc:
            if len(mail) == 1:
                _log.error("something cannot be sent home: %s", exc)  # what is in it has been measured, so it is a name
                return
            middle = len(mail) // 2
            self._send(mail[:middle])
            self._send(mail[middle:])

    def pack(self, message: object) -> Any:
        """The message as it is sent home; raise what its sender should hear, if it cannot be."""
        return pack(message, self.limit)

    def outcome(self, ok: bool, value: object) -> tuple[bool, Any]:
        """How something went, as it is sent home: what cannot be sent is a failure."""
        try:
            return ok, self.pack(value)
        except (NotSendable, FrameTooLarge) as exc:
            return False, self.failure(exc if ok else value.exc)  # type: ignore[attr-defined]

    def failure(self, error: BaseException | None) -> Any:
        """An exception, as it is sent home; the beginning of it, if it is too long."""
        if error is None:
            return None
        try:
            return self.pack(Failure.of(error))
        except (NotSendable, FrameTooLarge):
            return pack(Failure.of(FailedElsewhere(type(error).__qualname__, in_words(error)[:_LONG])), self.limit)

    # -- questions

    def ask(self, told: Callable[[bool, Any], object], *entry: Any) -> int:
        """Send something that home answers, in its own time; the number it has."""
        number = next(self._numbers)
        word, *rest = entry
        self._waiting[number] = told
        self.post(word, number, *rest)
        return number

    def request(self, actor: int, what: str, /, *args: Any, **kwargs: Any) -> Any:
        """Have home do something, and wait for it. From any thread."""
        given = self.pack((args, kwargs))
        if get_ident() != self._loop.runq.thread:
            waiting = asyncio.run_coroutine_threadsafe(self._wait_for(actor, what, given), self._aio)
            return waiting.result(_PATIENCE)
        outcome: list[tuple[bool, Any]] = []
        self.ask(lambda ok, value: outcome.append((ok, value)), "request", actor, what, given)
        self.flush()
        if not self._pump(lambda: bool(outcome)):
            if self.over.is_set():
                raise WorkerLost(f"{what} needs the process that started this one, which is gone")
            raise LoopBusy("home", f"{what} waited {_PATIENCE:g} s for an answer")
        return _settle(*outcome[0])

    async def _wait_for(self, actor: int, what: str, given: Any) -> Any:
        return await self._begin(actor, what, given)

    def begin(self, actor: int, what: str, /, *args: Any, **kwargs: Any) -> Coroutine[Any, Any, Any]:
        """Have home do something that takes a while; to be awaited."""
        return self._begin(actor, what, self.pack((args, kwargs)))

    def _begin(self, actor: int, what: str, given: Any) -> Coroutine[Any, Any, Any]:
        future: asyncio.Future[tuple[bool, Any]] = self._aio.create_future()

        def told(ok: bool, value: Any) -> None:
            if not future.done():
                future.set_result((ok, value))

        self.ask(told, "request", actor, what, given)

        async def wait() -> Any:
            return _settle(*(await future))

        return wait()


def _settle(ok: bool, value: Any) -> Any:
    if ok:
        return value
    raise value.restore()
