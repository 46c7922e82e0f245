"""`SignalSource`: the signals of the operating system, as messages."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from greenroom.errors import ConfigError, WrongThread
from greenroom.meta.process.metaprocess import MetaProcess
from greenroom.meta.sockets.messages import Close

if TYPE_CHECKING:
    from greenroom.actor.messaging.ref import ActorRef, Alias
    from greenroom.exits import ExitReason

__all__ = ["SignalReceived", "SignalSource"]


@dataclass(slots=True, unsafe_hash=True)
class SignalReceived:
    """This process was sent a signal."""

    alias: Alias
    signal: signal.Signals


class SignalSource(MetaProcess):
    """Its owner gets `SignalReceived(alias, signal)` for each of these signals: `SignalSource(signal.SIGHUP)`.

    Python lets only its main thread handle signals, so the system must run there: `async with`, or `run()`. Several
    sources may wait for the same signal. As long as one does, the signal does nothing else: SIGTERM, for one, does not
    stop the system. Afterwards it does again what it did before.
    """

    _on_loop: ClassVar[bool] = True

    # Invariant: the sources that wait for each signal, and what it did before the first; on the main thread alone
    _waiting: ClassVar[dict[int, list[SignalSource]]] = {}
    _before: ClassVar[dict[int, Any]] = {}

    def __init__(self, *signals: int, owner: ActorRef | None = None) -> None:
        if not signals:
            raise ConfigError("signals", signals, "must name one signal at least, as in SignalSource(signal.SIGHUP)")
        self._signals = list(dict.fromkeys(_checked(number) for number in signals))
        self._owner = owner
        self._counts = dict.fromkeys(self._signals, 0)
        self._has = False

    def init(self) -> None:
        """Have the signals come here."""
        if threading.current_thread() is not threading.main_thread():
            raise WrongThread(
                "SignalSource",
                "Python handles signals on its main thread only: run the system there, with `async with`",
            )
        aio = self._require_host("a source of signals").ctx.cell.loop.visits.stepper.aio
        for number in self._signals:
            waiting = self._waiting.setdefault(number, [])
            if not waiting:
                self._before[number] = signal.getsignal(number)
                aio.add_signal_handler(number, self._came, number)
            waiting.append(self)
        self._has = True

    @classmethod
    def _came(cls, number: signal.Signals) -> None:
        for source in list(cls._waiting.get(number, ())):
            source._counts[number] += 1
            host = source._require_host("a source of signals")
            host.send_in_time(source._owner or source.parent, SignalReceived(source.id, number))

    def handle_message(self, message: Any) -> object:
        """`Close`."""
        if isinstance(message, Close):
            self._require_host("a source of signals").ctx.stop()
            return None
        return super().handle_message(message)

    def inspect(self, *items: str) -> Mapping[str, Any]:
        """How often each signal has come."""
        shown = {number.name: count for number, count in self._counts.items()}
        return {name: shown[name] for name in items if name in shown} if items else shown

    def terminate(self, reason: ExitReason) -> object:
        """Let the signals do again what they did."""
        if not self._has:
            return None
        self._has = False
        aio = asyncio.get_running_loop()
        for number in self._signals:
            waiting = self._waiting[number]
            waiting.remove(self)
            if not waiting:
                del self._waiting[number]
                before = self._before.pop(number)
                # One that comes in between must not do what it does by default: end this process, most likely.
                blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {number})
                try:
                    aio.remove_signal_handler(number)
                    signal.signal(number, signal.SIG_DFL if before is None else before)
                finally:
                    signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        return None


def _checked(number: int) -> signal.Signals:
    try:
        known = signal.Signals(number)
    except ValueError:
        raise ConfigError("signals", number, "must be a signal, as in signal.SIGHUP") from None
    if known in (signal.SIGKILL, signal.SIGSTOP):
        raise ConfigError("signals", known.name, "cannot be handled: the system does not tell of it")
    return known
