"""Who hears of which signal, in this process.

Not by asyncio's `add_signal_handler`: whoever takes that back has the signal do what it does by default for a moment,
which ends most programs; and what the signal did before cannot be told.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from contextlib import suppress
from types import FrameType
from typing import Any

from greenroom.errors import ConfigError
from greenroom.system.ending.wakeup import Wakeup
from greenroom.wire.forks import keep_from_forks

__all__ = ["SignalHandling", "handling"]


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
        """Have `heard()` called on the loop `aio` for each signal."""
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
        """Call it no more. After the last one the signal does again what it did before the first."""
        left = [one for one in self._listeners.get(number, ()) if one[1] != heard]
        if left:
            self._listeners[number] = left
            return
        self._reinstate(number)
        if not self._listeners and self._wakeup is not None:
            self._wakeup.close()
            self._wakeup = None

    def after_fork(self) -> None:
        """A forked child is not the system's: its signals are its own."""
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
        """It has come, in the midst of anything: do nothing but have the loops do it."""
        for aio, heard in tuple(self._listeners.get(number, ())):
            with suppress(RuntimeError):  # it is closed
                aio.call_soon_threadsafe(heard)


def _is_of_loop(handler: Any) -> bool:
    """Whether it is what asyncio, or uvloop, sets for its `add_signal_handler`."""
    if isinstance(getattr(handler, "__self__", None), asyncio.AbstractEventLoop):
        return True
    return getattr(handler, "__module__", None) == "asyncio.unix_events"


handling = SignalHandling()
"""That of this process."""
