"""The shutdown of a system, in phases and within one deadline:

0  if it is to drain: it works on until it is quiet, or until the time for that is over
1  spawning is closed, and every actor is told to stop, all at once
2  the actors stop, children before their parents
3  actors that have not stopped by the deadline are forced, and reported
4  the loop stops: asyncio gets its thread back, timers end, late messages are dead letters
5  the report: how many actors started, terminated and were forced, and which messages were discarded; those who wait
   for the end are told

A cancelled `async with` block hurries it: suspended handlers are cancelled, as the tasks of a cancelled `TaskGroup`
are, and the deadline is `GRACE` seconds after the actors were told to stop. If it is cancelled again, the deadline is
now.
"""

from __future__ import annotations

import asyncio
import logging
from _thread import get_ident
from collections.abc import Callable, Sequence
from contextlib import suppress
from threading import Event, Lock, Thread
from typing import TYPE_CHECKING

from greenroom._core.itemkinds import MESSAGE, STASHED
from greenroom._core.scheduler.accounting import count_queued
from greenroom._core.timing.timers import Alarm
from greenroom.actor.life.forcing import GRACE, cancel_handler
from greenroom.actor.messaging.drain import Discards, drain
from greenroom.actor.records.record import ActorRecord
from greenroom.errors.base import counted
from greenroom.exits import KILLED, SHUTDOWN
from greenroom.runtimelog import RuntimeLog
from greenroom.system.ending.closer import Closer
from greenroom.system.ending.quiet import Quiet
from greenroom.system.ending.report import Phase, ShutdownReport

if TYPE_CHECKING:
    from greenroom._core.mailbox.cell import Cell
    from greenroom._core.scheduler.poller import Poller
    from greenroom.actor.lifecycle import Lifecycle

__all__ = ["Shutdown"]

_log = RuntimeLog()

_LONG = 1.0
"""Seconds of draining after which the log says who is waited for."""
_END_TIME = 1.0
"""Seconds that we wait for idle threads to end, when the system has stopped."""
_LOOKS = 200
_MOST_LOOKS = 5 * _LOOKS
"""Looks at the threads until they end; more for those that end what they wait for."""
_LAST_CHANCE = 0.25
"""Seconds of real time that cancelled handlers on other threads have to end, when the system's own time is up."""
_NAMED = 10
"""Actors that are named in one line of the log."""
_TURNS = 3
"""Turns of asyncio that a cancelled handler has after the deadline, before it is abandoned."""


class _OverallDeadline(Alarm):
    """Calls `ring` at the deadline, by the system's own clock."""

    __slots__ = ("_ring",)

    def __init__(self, deadline: float, ring: Callable[[], object]) -> None:
        self.set_up_alarm(deadline)
        self._ring = ring

    def ring(self, admission: object) -> None:
        """The deadline has passed."""
        self._ring()


class Shutdown:
    """The shutdown of one system. The first request begins it; later ones join it."""

    def __init__(
        self,
        name: str,
        life: Lifecycle,
        poller: Poller,
        release_threads: Callable[[], list[Thread]],
        failed: Callable[[], object],
    ) -> None:
        self._name = name
        # Called when the system has a cause to end.
        self._failed = failed
        self._life = life
        self._poller = poller
        self._release_threads = release_threads
        self.phase = Phase.NEW
        self.cause: BaseException | None = None
        self.report: ShutdownReport | None = None
        # The number of the signal that ended the system, if one did.
        self.signal: int | None = None
        self.over = Event()
        self._lock = Lock()
        # Invariant: written under _lock; empty once `over` is set
        self._waiters: list[tuple[asyncio.AbstractEventLoop, asyncio.Future[None]]] = []
        self._task: asyncio.Task[None] | None = None
        # None until the actors are told to stop.
        self._all_gone: asyncio.Future[bool] | None = None
        # When that was, by asyncio's clock; and how often the shutdown was hurried.
        self._told_at = 0.0
        self._hurried = 0
        # What says that the time is up, at present.
        self._limits: list[tuple[_OverallDeadline, asyncio.TimerHandle]] = []
        # What a drain waits for; who kept it from coming; and how long that took.
        self._quiet: Quiet | None = None
        self._busy: tuple[str, ...] = ()
        self._drained_for = 0.0

    def request(self, timeout: float, cause: BaseException | None = None, drain_for: float = 0.0) -> None:
        """Begin the shutdown, unless it has begun. On the system's own thread.

        The system is first given `drain_for` seconds of them to become quiet. A request without that ends the drain of
        another.
        """
        if self.cause is None and cause is not None and self.phase != Phase.STOPPED:
            self.cause = cause
            self._failed()
        if self.phase in (Phase.STOPPING, Phase.STOPPED):
            return
        if self.phase == Phase.DRAINING:
            if drain_for <= 0.0 and self._quiet is not None:
                self._quiet.give_up()
            return
        if self.phase == Phase.RUNNING:
            self._quiet = Quiet(self._life.loop, self._poller) if drain_for > 0.0 else None
            self._begin(Phase.STOPPING if self._quiet is None else Phase.DRAINING)
            self._task = asyncio.get_running_loop().create_task(self._run(timeout, drain_for))
            self._task.add_done_callback(lambda task: None if self.over.is_set() else self._end_at_once())
        else:
            self._end_at_once()

    def _begin(self, phase: str) -> None:
        self.phase = phase
        if phase == Phase.STOPPING:
            self._life.closed = True
            if self._life.discards is None:
                self._life.discards = Discards()

    def _end_at_once(self) -> None:
        """End without a turn of asyncio: it has not begun, or is closing."""
        self._begin(Phase.STOPPING)
        self._force_all()
        self._stop_loop(self._life.loop.now())
        self._tell_waiters()

    def hurry(self) -> None:
        """Let the actors that remain have little time; on the second call, none. From any thread.

        Begins the shutdown if nobody has.
        """
        if get_ident() != self._life.loop.runq.thread:
            self._life.loop.inbound.call(None, self.hurry)
            return
        self.request(GRACE)
        self._hurried += 1
        if self._all_gone is None or self._all_gone.done():
            return
        if self._hurried > 1:
            self._time_is_up()
        else:
            self._cancel_messages()
            self._limit(self._told_at + GRACE - asyncio.get_running_loop().time(), self._time_is_up)

    async def _run(self, timeout: float, drain_for: float) -> None:
        loop = self._life.loop
        began = loop.now()
        if self._quiet is not None:
            await self._drain(self._quiet, drain_for)
            self._begin(Phase.STOPPING)
            timeout = max(timeout - max(self._drained_for, loop.now() - began), 0.0)
        self._told_at = asyncio.get_running_loop().time()
        all_gone = self._all_gone = asyncio.get_running_loop().create_future()
        for record in reversed(self._life.top.records()):
            self._life.request_end(record.cell, SHUTDOWN)
        if self._hurried:
            self._cancel_messages()
            timeout = GRACE if self._hurried == 1 else 0.0
        try:
            if self._life.top.count > 0 and not await self._wait(all_gone, timeout):
                if self._hurried:
                    timeout = round(asyncio.get_running_loop().time() - self._told_at, 3)
                if len(loop.table) > 0:
                    late = counted(len(loop.table), "actor")
                    _log.warning("%s: %s did not stop in %.3g s", self._name, late, timeout)
                await self._cancel_handlers()
        finally:
            # Also when asyncio is closing and cancels this task: it gets no further turn.
            try:
                self._force_all()
                await self._join_threads(self._stop_loop(began))
            finally:
                self._tell_waiters()

    async def _join_threads(self, threads: list[Thread]) -> None:
        """Wait for threads to end; those that a handler blocks are left running."""
        looks = 0
        while looks < _LOOKS or (looks < _MOST_LOOKS and any(isinstance(thread, Closer) for thread in threads)):
            looks += 1
            threads = [thread for thread in threads if thread.is_alive()]
            if not threads:
                return
            await asyncio.sleep(_END_TIME / _LOOKS)
        for thread in threads:
            told = "%s: a handler holds the thread %r and cannot be interrupted; it is left behind"
            _log.error(told, self._name, thread.name)

    async def _drain(self, quiet: Quiet, seconds: float) -> None:
        """Let the system work on until it is quiet, its time is over, or somebody wants it to end at once."""
        began = asyncio.get_running_loop().time()
        self._limit(seconds, quiet.give_up)
        tells = None
        if self._life.loop.director is None:  # in a simulation, nobody waits
            tells = asyncio.get_running_loop().call_later(_LONG, self._tell_busy, quiet, seconds)
        try:
            if not await quiet.wait():
                self._busy = tuple(quiet.busy())
        finally:
            if tells is not None:
                tells.cancel()
            self._drained_for = asyncio.get_running_loop().time() - began
            self._clear_limits()

    def _tell_busy(self, quiet: Quiet, seconds: float) -> None:
        """Those who wonder what the program waits for can find it in the log."""
        told = "%s ends when its work is done, and after %g s at most; still at work: %s"
        _log.info(told, self._name, seconds, _listed(quiet.busy()))

    async def _wait(self, all_gone: asyncio.Future[bool], timeout: float) -> bool:
        """Whether all actors ended in time."""
        self._limit(timeout, self._time_is_up)
        try:
            return await all_gone
        finally:
            self._clear_limits()

    def _limit(self, seconds: float, ring: Callable[[], object]) -> None:
        """Call `ring` after `seconds`: by the system's clock or by the machine's, whichever is first."""
        loop = self._life.loop
        alarm = _OverallDeadline(loop.now() + seconds, ring)
        loop.timers.add(alarm)
        if loop.runq.asleep:
            loop.runq.wake()
        self._limits.append((alarm, asyncio.get_running_loop().call_later(seconds, ring)))

    def _clear_limits(self) -> None:
        for alarm, handle in self._limits:
            handle.cancel()
            alarm.disarm(self._life.loop.timers)
        self._limits.clear()

    def everybody_has_gone(self) -> None:
        """The last actor has ended."""
        if self._all_gone is not None and not self._all_gone.done():
            self._all_gone.set_result(True)

    def _time_is_up(self) -> None:
        if self._all_gone is not None and not self._all_gone.done():
            self._all_gone.set_result(False)

    def _cancel_messages(self) -> None:
        """Cancel the suspended handlers; hooks, which clean up, have the time that is left."""
        for cell in list(self._life.loop.table):
            record = cell.record
            if cell.task is not None and cell.task.kind in (MESSAGE, STASHED) and isinstance(record, ActorRecord):
                self._life.note_forced(cell)
                cancel_handler(self._life, cell, record.ensure_extras())

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
            with suppress(TimeoutError):
                async with asyncio.timeout(_LAST_CHANCE):
                    await self._poller.handed_back()

    def _force_all(self) -> None:
        """End all remaining actors, children before their parents, without running hooks."""
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
        """Phases 4 and 5. Returns the threads that have not ended yet."""
        loop = self._life.loop
        seconds = loop.now() - began
        self._poller.detach()
        loop.close()
        threads = self._release_threads()
        self.phase = Phase.STOPPED
        self.report = self._report(seconds)
        self._tell_discarded(self.report)
        forced, number = self.report.forced, self.report.forced_count
        level = logging.WARNING if forced else logging.INFO
        _log.log(
            level,
            "%s has stopped: %s started, %d terminated, %d forced%s",
            self._name,
            counted(self._life.spawned, "actor"),
            self._life.terminated,
            number,
            f" ({', '.join(forced[:10])}{', ...' if number > 10 else ''})" if forced else "",
        )
        return threads

    def _report(self, seconds: float, left_behind: int = 0) -> ShutdownReport:
        life = self._life
        paths, number = life.forced.paths(), life.forced.count
        discarded = {} if life.discards is None else life.discards.by_actor
        lost = left_behind if life.discards is None else left_behind + life.discards.count
        return ShutdownReport(
            life.spawned, life.terminated, paths, seconds, self.cause, number, discarded, lost, self._busy, self.signal
        )

    def _tell_discarded(self, report: ShutdownReport) -> None:
        """One line on what was not done, if there is such a thing; nothing if all was."""
        if not report.discarded_count and not self._busy:
            return
        most = sorted(report.discarded.items(), key=lambda one: (-one[1], one[0]))
        told = "no message was discarded"
        if most:
            by_actor = _listed([f"{path} {number}" for path, number in most])
            told = f"discarded {counted(report.discarded_count, 'message')}: {by_actor}"
        if self._busy:
            told = f"still at work after {self._drained_for:.3g} s of draining: {_listed(self._busy)}; {told}"
        _log.warning("%s: %s", self._name, told)

    def leave_behind(self) -> None:
        """Report a handler that blocks the system's thread, and stop waiting for it. From any thread."""
        hand, _ = self._life.loop.visits.peek_hand()
        told = "%s: %s holds the thread and cannot be interrupted; it is left behind%s"
        queued = count_queued(self._life.loop)  # perhaps not to the last one: its thread may go on now
        with_it = f", with {counted(queued, 'message')} queued" if queued else ""
        if hand is None:
            _log.error(told, self._name, "asyncio", with_it)
        else:
            self._life.note_forced(hand)
            _log.error(told, self._name, hand.name(), with_it, extra=self._life.log_fields(hand))
        self.report = self._report(0.0, queued)

    def _tell_waiters(self) -> None:
        with self._lock:
            self.over.set()
            waiters, self._waiters = self._waiters, []
        for aio, future in waiters:
            with suppress(RuntimeError):  # that loop is closed, so nobody waits
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

    async def wait_or_hurry(self) -> None:
        """Return when the system has stopped. A cancellation hurries it, and is raised when it has."""
        cancelled: asyncio.CancelledError | None = None
        while not self.over.is_set():
            try:
                await self.wait()
            except asyncio.CancelledError as exc:
                cancelled = exc
                self.hurry()
        if cancelled is not None:
            raise cancelled


def _resolve(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


def _listed(items: Sequence[str]) -> str:
    more = f" and {len(items) - _NAMED} more" if len(items) > _NAMED else ""
    return ", ".join(items[:_NAMED]) + more


def _bottom_up(records: list[ActorRecord]) -> list[Cell]:
    """The cells of `records` and of all their descendants, children before their parents."""
    found = []
    waiting = list(records)
    while waiting:
        record = waiting.pop()
        found.append(record.cell)
        if record.child_list is not None:
            waiting.extend(record.child_list.records())
    return list(reversed(found))
