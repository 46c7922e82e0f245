"""Sees handlers that hold a system's thread, and says whose they are.

One thread looks at all systems of the process now and then. A tick ends within milliseconds of its budget unless the
message in hand does not end, so a tick that is still the same after a while is a handler that blocks. Nothing is done
for this per message, and nothing at all by the loop but counting its ticks.
"""

from __future__ import annotations

import logging
import sys
import threading
import time
import traceback
from collections.abc import Container
from typing import TYPE_CHECKING, Any
from weakref import ref

if TYPE_CHECKING:
    from types import FrameType

    from greenroom._core.scheduler.loop import Loop

__all__ = ["WATCHDOG", "unwatch", "watch"]

_log = logging.getLogger("greenroom")

_LOOKS = 4
"""How often it looks in the time that a handler has."""
_AGAIN = 10
"""A handler that still has not ended is told of again after so many times as long."""
WATCHDOG = "greenroom watchdog"
"""What its thread is called."""
_END_TIME = 1.0
"""Seconds that the thread has to end, when there is nothing left to look at."""
_ADVICE = (
    'all other actors wait for it. Spawn it with `dispatcher="parallel"` (or "pinned"), so that it blocks a thread '
    "of its own, or let it await what it waits for"
)


class Sight:
    """What was last seen of one system, which it does not keep."""

    __slots__ = ("_system", "patience", "since", "tell_at", "tick")

    def __init__(self, system: Any, patience: float) -> None:
        self._system = ref(system)
        self.patience = patience
        self.tick = -1
        self.since = 0.0
        self.tell_at = 0.0

    def is_over(self) -> bool:
        """Whether the system was dropped, without having been shut down."""
        return self._system() is None

    def look(self, now: float) -> None:
        """Tell of the handler that holds the loop's thread, if it has for too long."""
        system = self._system()
        if system is None:
            return
        loop: Loop = system._loop
        if not loop.ticking or loop.ticks != self.tick:
            self.tick = loop.ticks
            self.since = now
            self.tell_at = now + self.patience
        elif now >= self.tell_at:
            self.tell_at = now + self.patience * _AGAIN
            self._tell(loop, now - self.since)

    def _tell(self, loop: Loop, seconds: float) -> None:
        hand = loop.visits.hand
        message = loop.visits.message
        stack = _stack_of(sys._current_frames().get(loop.runq.thread))
        if hand is None or not loop.ticking or loop.ticks != self.tick:
            return  # it has ended meanwhile
        _log.warning(
            "%s has held its system's thread for %.1f s, on %s: %s. It is here:\n%s",
            hand.name(),
            seconds,
            type(message).__name__,
            _ADVICE,
            stack,
            extra={**loop.host.log_fields(hand), "seconds": seconds},
        )
        if loop.hooks.stuck_handler is not None:
            loop.hooks.stuck_handler(hand.shown(), message, seconds, stack)


class _Watchdog:
    """The thread that looks. All fields are written under `_lock`."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sights: dict[str, Sight] = {}
        self._thread: threading.Thread | None = None
        self._changed = threading.Event()

    def watch(self, system: Any, patience: float) -> None:
        with self._lock:
            self._sights = {**self._sights, system.token: Sight(system, patience)}
            # After a fork there is none, whatever was here before.
            if self._thread is None or not self._thread.is_alive():
                self._changed = threading.Event()
                self._thread = threading.Thread(target=self._run, name=WATCHDOG, daemon=True)
                self._thread.start()
            else:
                self._changed.set()

    def unwatch(self, system: Any) -> None:
        thread = self._forget({system.token})
        if thread is not None and thread is not threading.current_thread():
            thread.join(_END_TIME)

    def _forget(self, tokens: Container[str]) -> threading.Thread | None:
        """Look at some systems no more; the thread, if it has nothing left to look at."""
        with self._lock:
            self._sights = {key: sight for key, sight in self._sights.items() if key not in tokens}
            if self._sights:
                return None
            thread, self._thread = self._thread, None
            self._changed.set()
            return thread

    def _run(self) -> None:
        me = threading.current_thread()
        changed = self._changed
        while self._thread is me:
            changed.wait(self._look() / _LOOKS)
            changed.clear()

    def _look(self) -> float:
        """Look at all of them; the least patience that one has. Apart, so that nothing keeps them between two looks."""
        least = 1.0
        now = time.monotonic()
        dropped = [token for token, sight in self._sights.items() if sight.is_over()]
        if dropped:
            self._forget(dropped)
        for sight in self._sights.values():
            least = min(least, sight.patience)
            try:
                sight.look(now)
            except Exception:
                _log.exception("the watchdog could not look at a system")
        return least


_watchdog = _Watchdog()
watch = _watchdog.watch
unwatch = _watchdog.unwatch


def _stack_of(frame: FrameType | None) -> str:
    """The user's part of a thread's stack: what the handler called, down to where it is."""
    frames: list[tuple[FrameType, int]] = []
    while frame is not None and not _is_runtime(frame):
        frames.append((frame, frame.f_lineno))
        frame = frame.f_back
    return "".join(traceback.StackSummary.extract(iter(reversed(frames))).format())


def _is_runtime(frame: FrameType) -> bool:
    """Whether a frame is one of those that call handlers: of our own, or (compiled, ours have none) of asyncio."""
    name = frame.f_globals.get("__name__", "")
    return name.startswith("greenroom._core.") or (name == "asyncio.events" and frame.f_code.co_name == "_run")
