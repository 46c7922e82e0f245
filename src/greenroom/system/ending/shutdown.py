"""The shutdown of a system, in phases and within one deadline:

0  if it is to drain: it works on until it is drained, or until the time for that is over
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
from collections.abc import Callable, Sequence
from functools import partial
from threading import Event, Lock, Thread
from typing import TYPE_CHECKING

from greenroom._core.scheduler.accounting import count_queued
from greenroom.actor.life.stopping import GRACE, KEPT
from greenroom.actor.messaging.waiting import TaskWait
from greenroom.errortext import counted
from greenroom.runtimelog import RuntimeLog
from greenroom.system.ending.report import Phase, ShutdownReport
from greenroom.system.loops.stillness import Drain

if TYPE_CHECKING:
    from greenroom._core.timing.timers import ScheduledCall
    from greenroom.actor.lifecycle import Lifecycle
    from greenroom.system.loops.group import SystemLoops

_log = RuntimeLog()

_LONG = 1.0
"""Seconds of draining after which the log says who is waited for."""
_END_TIME = 1.0
"""Seconds that we wait for idle threads to end, when the system has stopped."""
_LOOKS = 200
_MOST_LOOKS = 5 * _LOOKS
"""Looks at the threads until they end; more for those that end what they wait for."""
_NAMED = 10
"""Actors that are named in one line of the log."""


class Closer(Thread):
    """A thread that waits for something to end, and ends it by force when that takes too long.

    It ends in a known time, so that a shutdown can wait for it, which it does not for a handler.
    """

    def __init__(self, name: str, close: Callable[[], object]) -> None:
        super().__init__(target=close, name=name, daemon=True)


class Shutdown:
    """The shutdown of one system. The first request begins it; later ones join it."""

    def __init__(
        self,
        name: str,
        loops: SystemLoops,
        release_threads: Callable[[], list[Thread]],
        failed: Callable[[], object],
    ) -> None:
        self._name = name
        # Called when the system has a cause to end.
        self._failed = failed
        self._loops = loops
        self._life = loops.home.life
        self._home = loops.home
        # The hosts of loops whose actors have not all ended.
        self._remaining: list[Lifecycle] = []
        self._release_threads = release_threads
        self.phase = Phase.NEW
        self.cause: BaseException | None = None
        self.report: ShutdownReport | None = None
        # The number of the signal that ended the system, if one did.
        self.signal: int | None = None
        self.over = Event()
        self._lock = Lock()
        # Invariant: written under _lock; empty once `over` is set
        self._waiters: list[TaskWait] = []
        self._task: asyncio.Task[None] | None = None
        # None until the actors are told to stop.
        self._all_gone: asyncio.Future[bool] | None = None
        # When that was, by asyncio's clock; and how often the shutdown was hurried.
        self._told_at = 0.0
        self._hurried = 0
        # What says that the time is up, at present.
        self._limits: list[tuple[ScheduledCall, asyncio.TimerHandle]] = []
        # Whether the drain is to end, done or not, and what ends it; who was still at work then; how long it took.
        self._drain_is_over = False
        self._drain_limit: asyncio.Timeout | None = None
        self._busy: tuple[str, ...] = ()
        self._drained_for = 0.0

    def request(self, timeout: float, cause: BaseException | None = None, drain_for: float = 0.0) -> None:
        """Begin the shutdown, unless it has begun. On the system's own thread.

        The system is first given `drain_for` seconds of them to finish its work. A request without that ends the drain
        of another.
        """
        if self.cause is None and cause is not None and self.phase != Phase.STOPPED:
            self.cause = cause
            self._failed()
        if self.phase in (Phase.STOPPING, Phase.STOPPED):
            return
        if self.phase == Phase.DRAINING:
            if drain_for <= 0.0:
                self._end_drain()
            return
        if self.phase == Phase.RUNNING:
            self._begin(Phase.DRAINING if drain_for > 0.0 else Phase.STOPPING)
            self._task = asyncio.get_running_loop().create_task(self._run(timeout, drain_for))
            self._task.add_done_callback(self._run_is_over)
        else:
            self._end_at_once()

    def _run_is_over(self, task: asyncio.Task[None]) -> None:
        self._end_at_once()  # `_run` was cancelled from outside, or else it would have removed this

    def _begin(self, phase: str) -> None:
        self.phase = phase
        if phase == Phase.STOPPING:
            self._home.close_spawning()

    def _end_at_once(self) -> None:
        """End without a turn of asyncio: it has not begun, or is closing."""
        self._begin(Phase.STOPPING)
        self._home.force_all(late=True)
        self._loops.stop_at_once(late=True)
        self._stop_loop(self._life.loop.now())
        self._tell_waiters()

    def hurry(self) -> None:
        """Give the actors that remain little time; on the second call, none. From any thread.

        Begins the shutdown if it has not begun.
        """
        if not self._home.is_here():
            self._life.loop.inbound.post(None, self.hurry)
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
        if self.phase == Phase.DRAINING:
            await self._drain(drain_for)
            self._begin(Phase.STOPPING)
            timeout = max(timeout - max(self._drained_for, loop.now() - began), 0.0)
        self._told_at = asyncio.get_running_loop().time()
        all_gone = self._all_gone = asyncio.get_running_loop().create_future()
        await self._stop_all()
        if self._hurried:
            self._cancel_messages()
            timeout = GRACE if self._hurried == 1 else 0.0
        try:
            self._limit(timeout, self._time_is_up)
            if self._remaining and not await all_gone:
                self._clear_limits()
                if self._hurried:
                    timeout = round(asyncio.get_running_loop().time() - self._told_at, 3)
                remaining = sum(life.loop.table.counted for life in self._loops.lives)
                if remaining > 0:
                    _log.warning("%s: %s did not stop in %.3g s", self._name, counted(remaining, "actor"), timeout)
                await self._home.cancel_handlers()
                await self._loops.cancel_handlers()
        finally:
            # Also when asyncio is closing and cancels this task: it gets no further turn.
            self._clear_limits()
            try:
                self._home.force_all(self.phase == Phase.STOPPING)
                await self._stop_other_loops()
                await self._join_threads(self._stop_loop(began))
            finally:
                self._tell_waiters()

    async def _stop_all(self) -> None:
        self._remaining = self._loops.lives
        if self._home.stop_all() == 0:
            self._is_empty(self._life)
        await self._loops.close_spawning()
        remaining = await self._loops.stop_all()
        for life in self._loops.lives[1:]:
            if life not in remaining:
                self._is_empty(life)

    async def _stop_other_loops(self) -> None:
        try:
            await self._loops.stop(self.phase == Phase.STOPPING)
        except asyncio.CancelledError:
            self._loops.stop_at_once(late=True)
            raise

    async def _join_threads(self, threads: list[Thread]) -> None:
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

    async def _drain(self, seconds: float) -> None:
        drain = Drain(self._loops)
        began = asyncio.get_running_loop().time()
        self._limit(seconds, self._end_drain)
        log_busy = None
        if self._life.loop.world.is_real:  # else it takes no time that a user would notice
            log_busy = asyncio.get_running_loop().call_later(_LONG, self._log_busy, drain, seconds)
        try:
            async with asyncio.timeout(None) as self._drain_limit:
                if self._drain_is_over:
                    raise TimeoutError
                await drain.wait()
        except TimeoutError:
            self._busy = tuple(drain.busy())
        finally:
            self._drain_limit = None
            if log_busy is not None:
                log_busy.cancel()
            self._drained_for = asyncio.get_running_loop().time() - began
            self._clear_limits()

    def _end_drain(self) -> None:
        self._drain_is_over = True
        if self._drain_limit is not None:
            self._drain_limit.reschedule(asyncio.get_running_loop().time())

    def _log_busy(self, drain: Drain, seconds: float) -> None:
        told = "%s ends when its work is done, and after %g s at most; still at work: %s"
        _log.info(told, self._name, seconds, _listed(drain.busy()))

    def _limit(self, seconds: float, ring: Callable[[], object]) -> None:
        """Call `ring` after `seconds`: by the system's clock or by the machine's, whichever is first."""
        loop = self._life.loop
        self._limits.append((loop.call_later(seconds, ring), asyncio.get_running_loop().call_later(seconds, ring)))

    def _clear_limits(self) -> None:
        for call, handle in self._limits:
            handle.cancel()
            call.cancel()
        self._limits.clear()

    def last_actor_ended(self, life: Lifecycle) -> None:
        self._home.post(partial(self._is_empty, life))

    def _is_empty(self, life: Lifecycle) -> None:
        if life in self._remaining:
            self._remaining.remove(life)
        if not self._remaining and self._all_gone is not None and not self._all_gone.done():
            self._all_gone.set_result(True)

    def _time_is_up(self) -> None:
        if self._all_gone is not None and not self._all_gone.done():
            self._all_gone.set_result(False)

    def _cancel_messages(self) -> None:
        for one in self._loops.all():
            one.post(one.cancel_messages)

    def _stop_loop(self, began: float) -> list[Thread]:
        """Phases 4 and 5. Returns the threads that have not ended yet."""
        seconds = self._life.loop.now() - began
        self._home.stop_loop()
        threads = self._release_threads()
        self.phase = Phase.STOPPED
        self.report = self._report(seconds, self._loops.left_behind())
        self._tell_discarded(self.report)
        forced, number = self.report.forced, self.report.forced_count
        level = logging.WARNING if forced else logging.INFO
        _log.log(
            level,
            "%s has stopped: %s started, %d terminated, %d forced%s",
            self._name,
            counted(self.report.started, "actor"),
            self.report.terminated,
            number,
            f" ({', '.join(forced[:10])}{', ...' if number > 10 else ''})" if forced else "",
        )
        return threads

    def _report(self, seconds: float, left_behind: int = 0) -> ShutdownReport:
        lives = self._loops.lives
        paths = tuple(path for life in lives for path in life.forced.paths())
        if len(paths) > 2 * KEPT:
            paths = paths[:KEPT] + paths[-KEPT:]  # as of one loop: the first and the last
        number = sum(life.forced.count for life in lives)
        discards = [life.discards for life in lives if life.discards is not None]
        discarded = {path: count for one in discards for path, count in one.by_actor.items()}
        lost = left_behind + sum(one.count for one in discards)
        spawned, ended = sum(life.spawned for life in lives), sum(life.terminated for life in lives)
        return ShutdownReport(
            spawned, ended, paths, seconds, self.cause, number, discarded, lost, self._busy, self.signal
        )

    def _tell_discarded(self, report: ShutdownReport) -> None:
        if not report.discarded_count and not self._busy:
            return
        most = sorted(report.discarded.items(), key=lambda one: (-one[1], one[0]))
        told = "no message was discarded"
        if report.discarded_count:
            told = f"discarded {counted(report.discarded_count, 'message')}"
        if most:
            told += f": {_listed([f'{path} {number}' for path, number in most])}"
        if self._busy:
            told = f"still at work after {self._drained_for:.3g} s of draining: {_listed(self._busy)}; {told}"
        _log.warning("%s: %s", self._name, told)

    def leave_behind(self) -> None:
        """Report a handler that blocks the system's thread, and stop waiting for it. From any thread."""
        queued = count_queued(self._life.loop)  # perhaps not to the last one: its thread may go on now
        with_it = f", with {counted(queued, 'message')} queued" if queued else ""
        self._home.report_holder("%s: %s holds the thread and cannot be interrupted; it is left behind%s", with_it)
        self.report = self._report(0.0, queued)

    def _tell_waiters(self) -> None:
        if self._task is not None:  # a callback that is yet to come would keep the system
            self._task.remove_done_callback(self._run_is_over)
        with self._lock:
            self.over.set()
            waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            waiter.end(None)

    async def wait(self) -> None:
        """Return when the system has stopped. From any thread's asyncio loop."""
        with self._lock:
            if self.over.is_set():
                return
            waiter = TaskWait()
            self._waiters.append(waiter)
        await waiter.result()

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


def _listed(items: Sequence[str]) -> str:
    more = f" and {len(items) - _NAMED} more" if len(items) > _NAMED else ""
    return ", ".join(items[:_NAMED]) + more
