"""SIGINT and SIGTERM, while a system runs: the first ends it gracefully, the second by force.

A signal's handler is called on the main thread between two steps of whatever runs there. So it does nothing itself, but
has the asyncio loop call back. If that does not come about, because a handler holds the thread, the next signal raises
`KeyboardInterrupt` there, as Ctrl-C does in any program.

A signal that comes just before the main thread goes to sleep, in a lock or in a selector, or that another thread takes
in, does not wake it: the handler is called when the thread wakes by itself, which may be never. So each signal is also
written to a socket, which the asyncio loop reads (`Wakeup`). A loop on the main thread is then awake, and one elsewhere
sends the main thread another signal, which does wake it.
"""

from __future__ import annotations

import asyncio
import signal
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from greenroom.runtimelog import RuntimeLog
from greenroom.wire.forks import close_in_child, keep_from_forks, no_forks

if TYPE_CHECKING:
    from types import FrameType

    from greenroom.system.system import ActorSystem

_log = RuntimeLog()

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_SOON = 0.005
"""Seconds after which the main thread is signalled once more: it was in a call of ours, or has not noticed."""
_LATEST = 0.25
"""The longest time until it is signalled again; it grows up to that."""
_HELD_UP = 0.5
"""Seconds after which a loop that has not heard of the first signal counts as held up."""


_BYTES = 4096


class Interrupted(KeyboardInterrupt):
    """A signal ends the body of a `with` block, which takes this in."""


class SignalHandling:
    """Handles the signals of one system, from `install` to `restore`, while its loop runs on the main thread."""

    is_elsewhere = False
    """Whether the loop runs on another thread."""

    def __init__(self, system: ActorSystem, first: Callable[[], object]) -> None:
        self._system = system
        # Called for the first signal.
        self._first = first
        self._aio: asyncio.AbstractEventLoop | None = None
        self._wakeup: Wakeup | None = None
        self._before: dict[signal.Signals, Any] = {}
        self.count = 0
        # When the first one came, and whether the loop has heard of it.
        self._first_at = 0.0
        self._heard = False

    def install(self, aio: asyncio.AbstractEventLoop | None, *, always: bool) -> None:
        """Begin to handle signals; unless `always`, only those for which the program has no handler of its own.

        On another thread than the main one this has no effect, nor if the system has ended.
        """
        if threading.current_thread() is not threading.main_thread() or aio is None:
            return
        self._aio = aio
        for one in _SIGNALS:
            current = signal.getsignal(one)
            if always or current in (signal.SIG_DFL, signal.default_int_handler):
                self._before[one] = signal.signal(one, self._handle)
        if self._before:
            self._wakeup = Wakeup(aio, self._came, is_elsewhere=self.is_elsewhere)
            self._wakeup.open()
            keep_from_forks(self)

    def restore(self) -> None:
        """Give the signals back to their handlers of before. Has an effect on the main thread only."""
        if self._before and threading.current_thread() is threading.main_thread():
            self._reinstate()
            if self._wakeup is not None:
                self._wakeup.close()

    def after_fork(self) -> None:
        """A forked child is not the system's: its signals are its own."""
        self._reinstate()
        if self._wakeup is not None:
            self._wakeup.after_fork()

    def _reinstate(self) -> None:
        for one, before in self._before.items():
            if self._is_mine(one):  # else the program has set another since
                signal.signal(one, signal.SIG_DFL if before is None else before)
        self._before.clear()

    def raise_if_forced(self, received: int | None) -> None:
        """If more than one has come, end the program, with the exit code that shells give one ended by a signal."""
        if received is not None and self.forced:
            raise SystemExit(128 + received)

    @property
    def forced(self) -> bool:
        return self.count > 1

    def leave(self, exc: BaseException | None) -> bool:
        """The body of a `with` block has ended, perhaps with `exc`. Whether a signal has broken it off."""
        return False

    def insist(self) -> None:
        """The loop has ended, and its thread is not the main one: see `BodyInterruption`."""

    def _is_mine(self, number: int) -> bool:
        return signal.getsignal(number) == self._handle

    def _handle(self, number: int, frame: FrameType | None) -> None:
        self.count += 1
        if self.count == 1:
            self._receive(number)
            self._call(self._begin, number)
        elif self._is_held_up():
            raise KeyboardInterrupt
        else:
            self._call(self._hurry)

    def _came(self, numbers: bytes) -> None:
        """Signals have come; called on the loop. The main thread is awake now, and has called `_handle`, or will."""

    def _receive(self, number: int) -> None:
        self._system._shutdown.signal = number
        self._first_at = time.monotonic()

    def _is_held_up(self) -> bool:
        now = time.monotonic()
        if self._heard or now - self._first_at <= _HELD_UP:
            return False
        self._first_at = now  # what follows from this takes its time, too
        return True

    def _call(self, fn: Callable[..., object], *args: object) -> None:
        with suppress(RuntimeError):  # it is closed: the system has ended
            self._aio.call_soon_threadsafe(fn, *args)  # type: ignore[union-attr]

    def _begin(self, number: int) -> None:
        self._heard = True
        name = signal.Signals(number).name
        _log.info("%s: %s: it ends when its work is done; a second signal ends it at once", self._system.name, name)
        self._first()

    def _hurry(self) -> None:
        _log.warning("%s: signalled again: it ends at once", self._system.name)
        self._system._hurry()


class BodyInterruption(SignalHandling):
    """Handles signals for a `with` block, whose body is on the main thread, and whose loop is on another one.

    The handler breaks the body off by itself, so that a loop that is held up does not matter. The loop counts, because
    it hears of each signal; and signals the main thread again if that has not noticed, or was in a call of ours.
    """

    is_elsewhere = True

    def __init__(self, system: ActorSystem) -> None:
        super().__init__(system, lambda: None)
        self._is_in_body = True
        self._left = threading.Event()
        self._is_received = False
        # How often the body was broken off, which is once for each signal; whether one of our own is under way.
        self._raised = 0
        self._is_sent = False

    def leave(self, exc: BaseException | None) -> bool:
        self._is_in_body = False
        self._left.set()
        return isinstance(exc, Interrupted) and self._is_received

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if not self._is_received:
            self._is_received = True
            self._receive(number)
        elif self._is_held_up():
            raise KeyboardInterrupt from None
        if self._wakeup is None or not self._wakeup.hears():
            if self._is_sent:
                self._is_sent = False
            else:
                self._call(self._came, bytes([number]))
        # Nothing of ours is to be broken off halfway, with a lock in hand.
        if self._is_in_body and self._raised < max(self.count, 1) and not is_with_locks(frame):
            self._raised += 1
            raise Interrupted

    def _came(self, numbers: bytes) -> None:
        for number in numbers:
            if self._is_sent:
                self._is_sent = False
                continue
            if number not in self._before or not self._is_mine(number):
                continue
            self.count += 1
            if self.count == 1:
                self._begin(number)
                asyncio.get_running_loop().call_later(_SOON, self._send, number, self.count)
            else:
                self._send(number, self.count)  # first: the loop may end with what follows
                self._hurry()

    def _send(self, number: int, count: int, again_in: float = _SOON) -> None:
        """Signal the main thread once more, until the body has been broken off."""
        if self._is_in_body and self._raised < self.count == count and self._is_mine(number):
            if not self._is_sent:  # two that are not delivered yet would become one
                self._signal_main_thread(number)
            later = min(2 * again_in, _LATEST)
            asyncio.get_running_loop().call_later(again_in, self._send, number, count, later)

    def _signal_main_thread(self, number: int) -> None:
        self._is_sent = True
        signal.pthread_kill(threading.main_thread().ident or 0, number)

    def insist(self) -> None:
        """The loop has ended: signal the main thread in its place, until the body has been broken off for each signal.

        On the loop's thread. Without this, a body that had not noticed the second signal when it ended the system
        would go on waiting.
        """
        pause = _SOON
        while self._is_in_body and self._raised < self.count:
            number = next((one for one in list(self._before) if self._is_mine(one)), None)
            if number is None:
                return
            self._signal_main_thread(number)
            self._left.wait(pause)
            pause = min(2 * pause, _LATEST)


def is_with_locks(frame: FrameType | None) -> bool:
    """Whether the main thread is in code that would leave locks as they are: the runtime's, or a `Condition`'s.

    Compiled code of ours is not broken off, and has no frames. A condition that has been broken off takes its lock
    again, and gives it back: broken off there, it would raise another error than ours.
    """
    if frame is None:
        return False
    module = str(frame.f_globals.get("__name__"))
    return module.startswith("greenroom.") or (module == "threading" and frame.f_code.co_name in _OF_A_LOCK)


_OF_A_LOCK = ("__enter__", "__exit__", "_acquire_restore", "_release_save")


class Wakeup:
    """Has `on_signal(numbers)` called on the loop `aio` when signals have come, with the number of each."""

    def __init__(
        self, aio: asyncio.AbstractEventLoop, on_signal: Callable[[bytes], object], *, is_elsewhere: bool
    ) -> None:
        self._aio = aio
        # Whether the loop runs on another thread than the main one.
        self._is_elsewhere = is_elsewhere
        self._on_signal = on_signal
        self._is_over = False
        self._is_deaf = False
        self._reader: socket.socket | None = None
        self._writer: socket.socket | None = None

    def hears(self) -> bool:
        """Whether signals are written to this socket, and not to one of the program. On the main thread."""
        writer = self._writer
        if writer is None or self._is_deaf:
            return False
        before = signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)
        if before not in (-1, writer.fileno()):
            signal.set_wakeup_fd(before, warn_on_full_buffer=False)
        return before == writer.fileno()  # if there was none, the next one is

    def open(self) -> None:
        """Begin, unless signals are written to another descriptor already: there can be only one."""
        if self._is_elsewhere:
            self._take()
        # uvloop takes them in itself when it runs, and is not to find ours when it stops.
        with suppress(RuntimeError):  # it is closed: the system has ended
            self._aio.call_soon_threadsafe(self._listen if self._is_elsewhere else self._take_and_listen)

    def close(self) -> None:
        """End. Has an effect once."""
        if self._give_back():
            try:
                if self._is_elsewhere:
                    self._aio.call_soon_threadsafe(self._leave)
                else:
                    self._leave()
            except RuntimeError:  # the loop is closed
                self._close_reader()

    def after_fork(self) -> None:
        """End in a forked child: what it writes would be read by its parent."""
        reader, self._reader = self._reader, None
        if self._give_back() and reader is not None:
            close_in_child(reader)  # the loop is the parent's, and so is what it waits with

    def _give_back(self) -> bool:
        self._is_over = True
        writer, self._writer = self._writer, None
        if writer is None:
            return False
        before = signal.set_wakeup_fd(-1)
        if before != writer.fileno():  # the program has replaced ours since
            signal.set_wakeup_fd(before, warn_on_full_buffer=False)
        writer.close()
        return True

    def _take_and_listen(self) -> None:
        if not self._is_over:
            self._take()
            self._listen()

    def _take(self) -> None:
        with no_forks:
            reader, writer = socket.socketpair()
        reader.setblocking(False)
        writer.setblocking(False)
        before = signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)
        if before == -1:
            self._reader, self._writer = reader, writer
        else:
            signal.set_wakeup_fd(before, warn_on_full_buffer=False)
            reader.close()
            writer.close()

    def _listen(self) -> None:
        if self._reader is not None and self._writer is not None:
            try:
                self._aio.add_reader(self._reader, self._read)
            except NotImplementedError:  # a loop that cannot wait for sockets this way, as Windows has one
                self._is_deaf = True

    def _read(self) -> None:
        reader = self._reader
        if reader is None:
            return
        try:
            numbers = reader.recv(_BYTES)
        except BlockingIOError:
            return
        if not numbers:  # the other end is closed
            self._leave()
            return
        self._on_signal(numbers)

    def _leave(self) -> None:
        if self._reader is not None:
            with suppress(NotImplementedError):
                self._aio.remove_reader(self._reader)
        self._close_reader()

    def _close_reader(self) -> None:
        reader, self._reader = self._reader, None
        if reader is not None:
            reader.close()
