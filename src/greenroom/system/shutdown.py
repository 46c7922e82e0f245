"""How a system ends, in five phases and within one deadline:

1  nothing can be spawned any more, and every actor is told to stop, all at once
2  they stop, parents after their children
3  those that are still there at the deadline are forced, and named
4  the loop stops: asyncio gets its thread back, timers end, late messages are dead letters
5  the account: how many started, terminated, were forced; whoever waits for the end is told
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from threading import Event, Lock, Thread
from typing import TYPE_CHECKING, Any

from greenroom._core.timing.timers import Alarm
from greenroom.actor.life.forcing import cancel_handler
from greenroom.actor.messaging.drain import drain
from greenroom.actor.records.record import ActorRecord
from greenroom.exits import KILLED, SHUTDOWN
from greenroom.frozen import Frozen

if TYPE_CHECKING:
    from greenroom._core.scheduler.poller import Poller
    from greenroom.actor.lifecycle import Lifecycle

__all__ = ["Phase", "Shutdown", "ShutdownReport"]

_log = logging.getLogger("greenroom")

_END_TIME = 1.0
"""Seconds that threads with nothing to do have to end, when the system has."""
_LOOKS = 200
_LAST_CHANCE = 0.25
"""Seconds of real time that cancelled handlers on other threads have to end, when the system's own time is up."""
_TURNS = 3
"""Turns of asyncio that a cancelled handler has before it is abandoned, when the system's own time is up."""


class Phase:
    """Where a system stands."""

    NEW = "new"
    RUNNING = "running"
    STOPPING = "stopping"
    STOPPED = "stopped"


class ShutdownReport(Frozen):
    """How a system ended. `forced` are the paths of actors that did not stop in time."""

    __slots__ = ("started", "terminated", "forced", "seconds", "cause")  # noqa: RUF023 - in the order of the arguments

    started: int
    terminated: int
    forced: tuple[str, ...]
    seconds: float
    cause: BaseException | None

    def __init__(
        self, started: int, terminated: int, forced: tuple[str, ...], seconds: float, cause: BaseException | None
    ) -> None:
        self._set(started, terminated, forced, seconds, cause)


class _OverallDeadline(Alarm):
    """Rings by the system's own clock."""

    __slots__ = ("_ring",)

    def __init__(self, deadline: float, ring: Callable[[], object]) -> None:
        self.set_up_alarm(deadline)
        self._ring = ring

    def ring(self, admission: object) -> None:
        """The time is up."""
        self._ring()


class Shutdown:
    """The end of one system. Begun once, by the first to ask; everybody else joins."""

    def __init__(
        self, name: str, life: Lifecycle, poller: Poller, let_go_of_threads: Callable[[], list[Thread]]
    ) -> None:
        self._name = name
        self._life = life
        self._poller = poller
        self._let_go_of_threads = let_go_of_threads
        self.phase = Phase.NEW
        self.cause: BaseException | None = None
        self.report: ShutdownReport | None = None
        self.over = Event()
        self._lock = Lock()
        # Invariant: written under _lock; empty once `over` is set
        self._waiters: list[tuple[asyncio.AbstractEventLoop, asyncio.Future[None]]] = []
        self._task: asyncio.Task[None] | None = None
        self._all_gone: asyncio.Future[bool] | None = None

    def request(self, timeout: float, cause: BaseException | None = None) -> None:
        """Begin, unless it has begun. On the system's own thread."""
        if self.cause is None and self.phase != Phase.STOPPED:
            self.cause = cause
        if self.phase in (Phase.STOPPING, Phase.STOPPED):
            return
        was_running = self.phase == Phase.RUNNING
        self.phase = Phase.STOPPING
        self._life.closed = True
        if was_running:
            self._task = asyncio.get_running_loop().create_task(self._run(timeout))
        else:
            self._force_all()
            self._stop_loop(self._life.loop.now())
            self._tell_waiters()

    async def _run(self, timeout: float) -> None:
        loop = self._life.loop
        began = loop.now()
        self._all_gone = asyncio.get_running_loop().create_future()
        for record in reversed(self._life.top.records()):
            self._life.request_end(record.cell, SHUTDOWN)
        try:
            if self._life.top.count > 0 and not await self._wait(timeout):
                _log.warning("%s: %d actors did not stop in %s s", self._name, len(loop.table), timeout)
                await self._cancel_handlers()
        finally:
            # Also when asyncio is closing down and cancels this task: there will be no turn after that.
            try:
                self._force_all()
                await self._part_with(self._stop_loop(began))
            finally:
                self._tell_waiters()

    async def _part_with(self, threads: list[Thread]) -> None:
        """Wait for threads that have nothing to do any more; those that a handler holds on to are left behind."""
        for _ in range(_LOOKS):
            threads = [thread for thread in threads if thread.is_alive()]
            if not threads:
                return
            await asyncio.sleep(_END_TIME / _LOOKS)
        for thread in threads:
            told = "%s: a handler holds the thread %r and cannot be interrupted; it is left behind"
            _log.error(told, self._name, thread.name)

    async def _wait(self, timeout: float) -> bool:
        """Whether all actors ended in time: by the system's clock, and in no case later than by the machine's."""
        loop = self._life.loop
        all_gone: Any = self._all_gone
        alarm = _OverallDeadline(loop.now() + timeout, self._time_is_up)
        loop.timers.add(alarm)
        if loop.runq.asleep:
            loop.runq.wake()
        handle = asyncio.get_running_loop().call_later(timeout, self._time_is_up)
        try:
            in_time: bool = await all_gone
            return in_time
        finally:
            handle.cancel()
            alarm.disarm(loop.timers)

    def everybody_has_gone(self) -> None:
        """The last actor has ended."""
        if self._all_gone is not None and not self._all_gone.done():
            self._all_gone.set_result(True)

    def _time_is_up(self) -> None:
        if self._all_gone is not None and not self._all_gone.done():
            self._all_gone.set_result(False)

    async def _cancel_handlers(self) -> None:
        for cell in list(self._life.loop.table):
            record = cell.record
            if cell.task is not None and isinstance(record, ActorRecord):
                self._life.note_forced(cell)
                cancel_handler(self._life, cell, record.ensure_extras())
        for _ in range(_TURNS):
            await asyncio.sleep(0)
        if self._life.loop.handoffs:
            # Those on other threads have some real time: what blocks there cannot be waited for.
            await asyncio.wait({asyncio.create_task(self._poller.idle())}, timeout=_LAST_CHANCE)

    def _force_all(self) -> None:
        """End whatever is left, children before their parents; no hook runs any more."""
        for cell in _bottom_up(self._life.top.records()):
            record = cell.record
            if not isinstance(record, ActorRecord):
                continue
            if self.phase == Phase.STOPPING and record.state > 0:
                self._life.note_forced(cell)
            if cell.task is not None:
                record.ensure_extras().abandoned = True
                self._life.loop.visits.abandon(cell)
            cell.close()
            drain(cell, record.extras, "stopped")
            self._life.finish(cell, record, KILLED if record.state > 0 else SHUTDOWN)

    def _stop_loop(self, began: float) -> list[Thread]:
        """Phases 4 and 5; the threads that are still to end."""
        loop = self._life.loop
        seconds = loop.now() - began
        self._poller.detach()
        loop.close()
        threads = self._let_go_of_threads()
        self.phase = Phase.STOPPED
        forced = tuple(self._life.forced)
        self.report = ShutdownReport(self._life.spawned, self._life.terminated, forced, seconds, self.cause)
        level = logging.WARNING if forced else logging.INFO
        _log.log(
            level,
            "%s has stopped: %d actors started, %d terminated, %d forced%s",
            self._name,
            self._life.spawned,
            self._life.terminated,
            len(forced),
            f" ({', '.join(forced[:10])}{', ...' if len(forced) > 10 else ''})" if forced else "",
        )
        return threads

    def leave_behind(self) -> None:
        """A handler holds the system's thread and cannot be interrupted: name it, and wait no longer. Any thread."""
        hand = self._life.loop.visits.hand
        told = "%s: %s holds the thread and cannot be interrupted; it is left behind"
        if hand is None:
            _log.error(told, self._name, "asyncio")
        else:
            self._life.note_forced(hand)
            _log.error(told, self._name, hand.name(), extra=self._life.log_fields(hand))
        forced = tuple(self._life.forced)
        self.report = ShutdownReport(self._life.spawned, self._life.terminated, forced, 0.0, self.cause)

    def _tell_waiters(self) -> None:
        with self._lock:
            self.over.set()
            waiters, self._waiters = self._waiters, []
        for aio, future in waiters:
            with suppress(RuntimeError):  # that loop is closed: nobody waits any more
                aio.call_soon_threadsafe(_resolve, future)

    async def wait(self) -> None:
        """Return when the system has stopped. From any thread's asyncio loop."""
        aio = asyncio.get_running_loop()
        with self._lock:
            if self.over.is_set():
                return
            future: asyncio.Future[None] = aio.create_future()
            self._waiters.append((aio, future))
        await future


def _resolve(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


def _bottom_up(records: list[ActorRecord]) -> list[Any]:
    """The cells of `records` and all below them, children before their parents."""
    found = []
    waiting = list(records)
    while waiting:
        record = waiting.pop()
        found.append(record.cell)
        if record.child_list is not None:
            waiting.extend(record.child_list.records())
    return list(reversed(found))
