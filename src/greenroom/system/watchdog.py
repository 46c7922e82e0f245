"""Finds handlers that block a system's thread, and logs whose they are.

One thread checks all systems of the process periodically. A tick ends within milliseconds of its budget unless the
current handler does not return. So if the same tick still runs after a while, a handler blocks. This costs nothing per
message: the loop only counts its ticks.
"""

from __future__ import annotations

import sys
import threading
import time
import traceback
from collections.abc import Container
from inspect import CO_COROUTINE
from typing import TYPE_CHECKING
from weakref import ref

from greenroom.runtimelog import RuntimeLog

if TYPE_CHECKING:
    from types import FrameType

    from greenroom._core.mailbox.cell import Cell
    from greenroom._core.scheduler.loop import Loop
    from greenroom.system.dispatchers.processes.worker.host import WorkerHost
    from greenroom.system.loops.thread import SystemLoop

_log = RuntimeLog()

_CHECKS = 4
"""How often it checks a system in the time that a handler may take."""
_AGAIN = 10
"""A handler that still has not ended is logged again after so many times that time."""
WATCHDOG = "greenroom watchdog"
"""The name of its thread."""
_END_TIME = 1.0
"""Seconds that the thread has to end, when there is no system left to check."""
_ADVICE = (
    'all other actors wait for it. Spawn it with `dispatcher="parallel"` (or "pinned"), so that it blocks a thread '
    "of its own, or let it await what it waits for"
)
_ASYNC_ADVICE = (
    'all other actors wait for it. An `async def` runs on this thread, also with the dispatcher "parallel": let it '
    "await what it waits for, as in `await asyncio.to_thread(...)`; or make it a plain `def` and spawn it with "
    '`dispatcher="parallel"`; or spawn it as it is with "pinned"'
)
_ASYNC_ADVICE_ELSEWHERE = (
    "all other actors wait for it. It is on the dispatcher %r, but an `async def` runs on this thread all the same: "
    "make it a plain `def`, or let it await what it waits for, as in `await asyncio.to_thread(...)`; or spawn it with "
    '`dispatcher="pinned"`'
)
_ADVICE_ELSEWHERE = "all other actors wait for it. It is on the dispatcher %r, but this runs here: let it return sooner"


class Watch:
    """The last check of one loop, to which it has only a weak reference."""

    def __init__(
        self, watched: SystemLoop | WorkerHost, patience: float, place: str, advice: str | None = None
    ) -> None:
        self._watched = ref(watched)
        self._place = place
        # If it is always the same.
        self._advice = advice
        self.patience = patience
        self.tick = -1
        self.since = 0.0
        self.warn_at = 0.0

    def is_over(self) -> bool:
        """Whether the system was garbage-collected without a shutdown."""
        return self._watched() is None

    def check(self, now: float) -> None:
        watched = self._watched()
        if watched is None:
            return
        loop = watched.loop
        if not loop.ticking or loop.ticks != self.tick:
            self.tick = loop.ticks
            self.since = now
            self.warn_at = now + self.patience
        elif now >= self.warn_at:
            self.warn_at = now + self.patience * _AGAIN
            self._warn(loop, now - self.since)

    def _warn(self, loop: Loop, seconds: float) -> None:
        hand, message = loop.visits.peek_hand()
        frames = _frames_of(sys._current_frames().get(loop.runq.thread))
        stack = "".join(traceback.StackSummary.extract(iter(frames)).format())
        if hand is None or not loop.ticking or loop.ticks != self.tick:
            return  # it has ended in the meantime
        _log.warning(
            "%s has held its %s for %.1f s, on %s: %s. It is here:\n%s",
            hand.name(),
            self._place,
            seconds,
            type(message).__name__,
            self._advice_for(hand, frames),
            stack,
            extra={**loop.host.log_fields(hand), "seconds": seconds},
        )
        if loop.hooks.stuck_handler:
            loop.hooks.emit("stuck_handler", hand.shown(), message, seconds, stack)

    def _advice_for(self, cell: Cell, frames: list[tuple[FrameType, int]]) -> str:
        """What to do about it: that depends on where the actor is, and on whether a coroutine blocks."""
        if self._advice is not None:
            return self._advice
        extras = getattr(cell.record, "extras", None)
        dispatcher: str | None = None if extras is None or extras.executor is None else extras.dispatcher
        is_async = bool(frames) and bool(frames[0][0].f_code.co_flags & CO_COROUTINE)
        if dispatcher is None:
            return _ASYNC_ADVICE if is_async else _ADVICE
        return (_ASYNC_ADVICE_ELSEWHERE if is_async else _ADVICE_ELSEWHERE) % dispatcher


class _Watchdog:
    """The thread that checks all systems. All fields are written under `_lock`."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._watches: dict[str, Watch] = {}
        self._thread: threading.Thread | None = None
        self._changed = threading.Event()

    def watch(self, watched: SystemLoop | WorkerHost, patience: float, place: str, advice: str | None = None) -> None:
        with self._lock:
            self._watches = {**self._watches, watched.token: Watch(watched, patience, place, advice)}
            # After a fork the thread does not run, even if there was one.
            if self._thread is None or not self._thread.is_alive():
                self._changed = threading.Event()
                self._thread = threading.Thread(target=self._run, name=WATCHDOG, daemon=True)
                try:
                    self._thread.start()
                except RuntimeError as exc:  # a system can do without; the next one tries again
                    self._thread = None
                    _log.warning("handlers that block their system's thread are not reported: %s", exc)
            else:
                self._changed.set()

    def unwatch(self, watched: SystemLoop | WorkerHost) -> None:
        thread = self._forget({watched.token})
        if thread is not None and thread is not threading.current_thread():
            thread.join(_END_TIME)

    def _forget(self, tokens: Container[str]) -> threading.Thread | None:
        with self._lock:
            self._watches = {key: watch for key, watch in self._watches.items() if key not in tokens}
            if self._watches:
                return None
            thread, self._thread = self._thread, None
            self._changed.set()
            return thread

    def _run(self) -> None:
        me = threading.current_thread()
        changed = self._changed
        while self._thread is me:
            changed.wait(self._check() / _CHECKS)
            changed.clear()

    def _check(self) -> float:
        """Check all systems; return the shortest patience. Not in `_run`, whose frame would keep them alive."""
        least = 1.0
        now = time.monotonic()
        dropped = [token for token, watch in self._watches.items() if watch.is_over()]
        if dropped:
            self._forget(dropped)
        for watch in self._watches.values():
            least = min(least, watch.patience)
            try:
                watch.check(now)
            except Exception:
                _log.exception("the watchdog could not look at a system")
        return least


_watchdog = _Watchdog()
watch = _watchdog.watch
unwatch = _watchdog.unwatch


def _frames_of(frame: FrameType | None) -> list[tuple[FrameType, int]]:
    """The user's part of a thread's stack, from the handler on, with the lines."""
    frames: list[tuple[FrameType, int]] = []
    while frame is not None and not _is_runtime(frame):
        frames.append((frame, frame.f_lineno))
        frame = frame.f_back
    frames.reverse()
    return frames


def _is_runtime(frame: FrameType) -> bool:
    """Whether a frame is one that calls handlers: one of ours, or asyncio's (compiled code has no frames)."""
    name = frame.f_globals.get("__name__", "")
    return name.startswith("greenroom._core.") or (name == "asyncio.events" and frame.f_code.co_name == "_run")
