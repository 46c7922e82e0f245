"""`SignalSource`: the signals of the operating system, as messages."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from greenroom.errors import ConfigError, WrongThread
from greenroom.meta.process.metaprocess import MetaProcess
from greenroom.meta.sockets.messages import Close
from greenroom.meta.sources.signalhandling import handling
from greenroom.meta.streams.ownerend import OwnerEnd

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

    A signal that the event loop handles, by `loop.add_signal_handler`, is refused: that could not be put back.
    """

    _on_loop: ClassVar[bool] = True

    def __init__(self, *signals: int, owner: ActorRef | None = None) -> None:
        if not signals:
            raise ConfigError("signals", signals, "must name one signal at least, as in SignalSource(signal.SIGHUP)")
        self._signals = list(dict.fromkeys(_checked(number) for number in signals))
        self._owner = owner
        self._counts = dict.fromkeys(self._signals, 0)
        self._owner_end: OwnerEnd | None = None
        # What is called for each signal that comes here.
        self._heard: dict[signal.Signals, Callable[[], object]] = {}

    def init(self) -> None:
        """Have the signals come here."""
        if threading.current_thread() is not threading.main_thread():
            raise WrongThread(
                "SignalSource",
                "Python handles signals on its main thread only: run the system there, with `async with`",
            )
        ctx = self._require_host("a source of signals").ctx
        aio = ctx.cell.loop.visits.stepper.aio
        try:
            for number in self._signals:
                heard = partial(self._came, number)
                handling.add(number, aio, heard)
                self._heard[number] = heard
        except BaseException:
            self._leave()
            raise
        if self._owner is not None and self._owner != self.parent:
            self._owner_end = OwnerEnd(self._owner, ctx.stop)

    def _came(self, number: signal.Signals) -> None:
        if number in self._heard:  # else it has ended since
            self._counts[number] += 1
            host = self._require_host("a source of signals")
            host.send_in_time(self._owner or self.parent, SignalReceived(self.id, number))

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
        self._leave()
        return None

    def _leave(self) -> None:
        if self._owner_end is not None:
            self._owner_end.cancel()
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
