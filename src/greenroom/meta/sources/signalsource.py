"""`SignalSource`: the signals of the operating system, as messages.

asyncio's `add_signal_handler` will not do: when it is taken back, the signal does for a moment what it does by default,
which ends most programs; and there is no telling what the signal did before.
"""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from types import FrameType
from typing import TYPE_CHECKING, Any

from greenroom.errors import ConfigError, WrongThread
from greenroom.meta.sockets.messages import Close
from greenroom.meta.streams.owner import OwnedProcess
from greenroom.system.ending.signals import Wakeup
from greenroom.wire.forks import keep_from_forks

if TYPE_CHECKING:
    from greenroom.actor.messaging.ref import ActorRef, Alias
    from greenroom.exits import ExitReason


@dataclass(slots=True, unsafe_hash=True)
class SignalReceived:
    """This process was sent a signal."""

    alias: Alias
    signal: signal.Signals


class SignalHandling:
    """The listeners of each signal, and what it did before the first of them. For the main thread alone."""

    def __init__(self) -> None:
        # Invariant: the same keys in both
        self._listeners: dict[int, list[tuple[asyncio.AbstractEventLoop, Callable[[], object]]]] = {}
        self._before: dict[int, Any] = {}
        # Without it, a signal that another thread takes in does not wake this one.
        self._wakeup: Wakeup | None = None
        keep_from_forks(self)

    def add(self, number: int, aio: asyncio.AbstractEventLoop, heard: Callable[[], object]) -> None:
        """Call `heard()` on the loop `aio` for each signal."""
        listeners = self._listeners.get(number)
        if listeners is None:
            before = signal.getsignal(number)
            if _is_of_loop(before):
                name = signal.Signals(number).name
                raise ConfigError(
                    "signals",
                    name,
                    "must not be handled by the event loop as well, for that could not be put back: take "
                    f"`loop.add_signal_handler({name}, ...)` out of the program",
                )
            listeners = self._listeners[number] = []
            self._before[number] = before
            signal.signal(number, self._handle)
            signal.siginterrupt(number, False)  # as asyncio does: others' system calls go on
        if self._wakeup is None:
            self._wakeup = Wakeup(aio, lambda numbers: None, is_elsewhere=False)
            self._wakeup.open()
        listeners.append((aio, heard))

    def remove(self, number: int, heard: Callable[[], object]) -> None:
        """Call `heard` no more. After the last one the signal does again what it did before the first."""
        left = [one for one in self._listeners.get(number, ()) if one[1] != heard]
        if left:
            self._listeners[number] = left
            return
        self._reinstate(number)
        if not self._listeners and self._wakeup is not None:
            self._wakeup.close()
            self._wakeup = None

    def after_fork(self) -> None:
        """A forked child does not belong to the system, so its signals are its own."""
        for number in list(self._listeners):
            self._reinstate(number)
        if self._wakeup is not None:
            self._wakeup.after_fork()
            self._wakeup = None

    def _reinstate(self, number: int) -> None:
        if self._listeners.pop(number, None) is not None:
            before = self._before.pop(number)
            if signal.getsignal(number) == self._handle:  # else the program has set another since
                signal.signal(number, signal.SIG_DFL if before is None else before)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        """Python calls this between any two steps of the main thread: so the loops do the rest."""
        for aio, heard in tuple(self._listeners.get(number, ())):
            with suppress(RuntimeError):  # the loop is closed
                aio.call_soon_threadsafe(heard)


def _is_of_loop(handler: Any) -> bool:
    """True if asyncio or uvloop has set the handler, for its `add_signal_handler`."""
    if isinstance(getattr(handler, "__self__", None), asyncio.AbstractEventLoop):
        return True
    return getattr(handler, "__module__", None) == "asyncio.unix_events"


handling = SignalHandling()


class SignalSource(OwnedProcess):
    """Its owner gets `SignalReceived(alias, signal)` for each of these signals: `SignalSource(signal.SIGHUP)`.

    Python lets only its main thread handle signals, so the system must run there: `async with`, or `run()`. Several
    sources may wait for the same signal. As long as one does, the signal does nothing else: SIGTERM, for one, does not
    stop the system. Afterwards it does again what it did before.

    A signal that the event loop handles, by `loop.add_signal_handler`, is refused: that could not be put back.
    """

    def __init__(self, *signals: int, owner: ActorRef | None = None) -> None:
        if not signals:
            raise ConfigError("signals", signals, "must name one signal at least, as in SignalSource(signal.SIGHUP)")
        self._signals = list(dict.fromkeys(_checked(number) for number in signals))
        self._owner = owner
        self._counts = dict.fromkeys(self._signals, 0)
        # The listener of each signal.
        self._heard: dict[signal.Signals, Callable[[], object]] = {}

    def init(self) -> None:
        if threading.current_thread() is not threading.main_thread():
            raise WrongThread(
                "SignalSource",
                "Python handles signals on its main thread only: run the system there, with `async with`",
            )
        aio = self._loop.visits.stepper.aio
        assert aio is not None
        try:
            for number in self._signals:
                heard = partial(self._came, number)
                handling.add(number, aio, heard)
                self._heard[number] = heard
        except BaseException:
            self._leave()
            raise
        self._end_with(self._recipient(), self._spawned().ctx.stop)

    def _came(self, number: signal.Signals) -> None:
        if number in self._heard:  # else the source has ended since
            self._counts[number] += 1
            self._tell_owner(SignalReceived(self.id, number))

    def handle_message(self, message: Any) -> object:
        if isinstance(message, Close):
            self._spawned().ctx.stop()
            return None
        return super().handle_message(message)

    def _shown(self) -> dict[str, Any]:
        return {number.name: count for number, count in self._counts.items()}

    def terminate(self, reason: ExitReason) -> object:
        self._leave()
        return None

    def _leave(self) -> None:
        self._leave_owner()
        for number in list(self._heard):
            handling.remove(number, self._heard.pop(number))


def _checked(number: int) -> signal.Signals:
    try:
        known = signal.Signals(number)
    except ValueError:
        raise ConfigError("signals", number, "must be a signal, as in signal.SIGHUP") from None
    if known in (signal.SIGKILL, signal.SIGSTOP):
        raise ConfigError("signals", known.name, "cannot be handled: the system does not tell of it")
    return known
