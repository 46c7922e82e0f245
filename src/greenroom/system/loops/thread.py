"""One loop of a system: the thread it runs on, the three ways to run something there, and the steps of its end.

`post` does not wait, `call` has a thread wait, and `await run` a coroutine. What is posted or called is done in a tick
of the loop; what is run, by asyncio between two ticks.
"""

from __future__ import annotations

import asyncio
import threading
from _thread import get_ident
from collections import deque
from collections.abc import Callable, Coroutine
from concurrent.futures import Future as ThreadFuture
from contextlib import suppress
from time import monotonic
from typing import TYPE_CHECKING, Any, TypeVar, overload

from greenroom._core.itemkinds import MESSAGE, STASHED
from greenroom._core.scheduler.loop import Loop
from greenroom._core.scheduler.poller import Poller
from greenroom.actor.life.stopping import cancel_handler
from greenroom.actor.lifecycle import Lifecycle
from greenroom.actor.messaging.drain import Discards, drain
from greenroom.actor.messaging.ref import Alias
from greenroom.actor.records.record import ActorRecord
from greenroom.errors import NotStarted
from greenroom.exits import KILLED, SHUTDOWN
from greenroom.runtimelog import RuntimeLog
from greenroom.system.eventloop import keep_on_core, start_thread

if TYPE_CHECKING:
    from greenroom._core.mailbox.cell import Cell
    from greenroom._core.scheduler.celltable import SlotBlocks
    from greenroom.system.system import ActorSystem

T = TypeVar("T")

_log = RuntimeLog()

_POLL_INTERVAL = 0.1
"""Seconds after which a coroutine that waits for another thread checks that asyncio still runs there."""
_LAST_CHANCE = 0.25
"""Seconds of real time that cancelled handlers on other threads have to end, when the system's own time is up."""
_TURNS = 3
"""Turns of asyncio that a cancelled handler has after the deadline, before it is abandoned."""


class LoopTimeout(Exception):
    """A loop's thread did not get to a call in time."""


class SystemLoop:
    """One loop of a system, with what runs it."""

    def __init__(self, system: ActorSystem, life: Lifecycle, poller: Poller, label: str = "") -> None:
        self.system = system
        # Of a further loop; that of the dispatcher it was made for, if it was.
        self.label = label
        self.name = f"{system.name} {label}" if label else system.name
        self.token = f"{system.token} {label}" if label else system.token
        self.life = life
        self.loop: Loop = life.loop
        self.poller = poller
        # The asyncio loop that it runs in, from its start on; also after its end.
        self.aio: asyncio.AbstractEventLoop | None = None
        # Calls from other threads that have not been made yet; and what wakes this loop's thread when it waits for a
        # call to another: that call is done, or one to this loop has come.
        self._calls: deque[Callable[[], object]] = deque()
        self._wakes = threading.Event()

    def is_here(self) -> bool:
        here: bool = get_ident() == self.loop.runq.thread
        return here

    def post(self, action: Callable[[], object]) -> None:
        """Have `action` called on the loop's thread, and do not wait. Here, if this is it, or the loop has stopped."""
        if self.is_here() or not self.loop.inbound.post_back(None, action):
            action()

    def call(self, action: Callable[[], T], timeout: float, own: SystemLoop | None = None) -> T:
        """Have `action` called on the loop's thread, and wait for its result; `own` is the loop of this thread.

        While a loop's thread waits here, it makes the calls to its own loop, so that two loops that call each other do
        not wait for ever. Raises `LoopTimeout` if the call has not begun in time: then it is not made.
        """
        if self.is_here():
            return action()
        world = self.loop.world
        if world.threads is not None:
            result: T = world.threads.call(self.loop, action)
            return result
        self.loop.inbound.require_same_world(None)
        done: ThreadFuture[T] = ThreadFuture()

        def make() -> None:
            if done.set_running_or_notify_cancel():
                try:
                    done.set_result(action())
                except BaseException as exc:
                    done.set_exception(exc)

        self._calls.append(make)
        if not self.loop.inbound.post_back(None, self._make_calls):
            return action()  # it has stopped: no other thread touches what it has
        self._wakes.set()
        if own is not None:
            own._make_calls_until(done, timeout)
        try:
            return done.result(timeout if own is None else 0.0)
        except TimeoutError:
            if done.cancel():
                raise LoopTimeout from None
            return done.result()  # it has begun after all; or `action` raised this

    def _make_calls(self) -> None:
        while self._calls:
            self._calls.popleft()()

    def _make_calls_until(self, done: ThreadFuture[Any], timeout: float) -> None:
        done.add_done_callback(lambda _: self._wakes.set())
        until = monotonic() + timeout
        while not done.done() and (left := until - monotonic()) > 0.0:
            self._wakes.wait(left)
            self._wakes.clear()
            self._make_calls()

    @overload
    async def run(self, action: Callable[[], Coroutine[Any, Any, T]]) -> T: ...
    @overload
    async def run(self, action: Callable[[], T]) -> T: ...
    async def run(self, action: Callable[[], Any]) -> Any:
        """Call `action` on the loop's thread, await what it returns if that is a coroutine, and return the result.

        Here, if this is that thread, or the loop has not started or has stopped.
        """
        aio = self.aio
        if aio is None or aio is asyncio.get_running_loop():
            return await _call_and_await(action)
        work = _call_and_await(action)
        try:
            future = asyncio.run_coroutine_threadsafe(work, aio)
        except RuntimeError:
            if not aio.is_closed():
                raise
            work.close()
            return await _call_and_await(action)
        result = asyncio.wrap_future(future)
        # A virtual thread cannot end unnoticed; and who looks again and again would move its clock.
        interval = _POLL_INTERVAL if self.loop.world.is_real else None
        try:
            while not result.done() and not aio.is_closed():
                await asyncio.wait((result,), timeout=interval)
        finally:
            if not result.done():
                future.cancel()
        if result.done() and not result.cancelled():
            return result.result()
        # A thread that ends cancels what is left there, or never gets to it; then no other thread touches the loop.
        if aio.is_closed():
            work.close()
        return await _call_and_await(action)

    # -- its end, which `Shutdown` brings about, on the loop's own thread

    def close_spawning(self) -> None:
        self.life.closed = True
        if self.life.discards is None:
            self.life.discards = Discards()

    def stop_all(self) -> int:
        """Tell every actor to stop, the youngest first; how many there are at the top."""
        for record in reversed(self.life.top.records()):
            self.life.request_end(record.cell, SHUTDOWN)
        return self.life.top.count

    def cancel_messages(self) -> None:
        """Cancel the suspended handlers; hooks, which clean up, have the time that is left."""
        self._cancel((MESSAGE, STASHED))

    async def cancel_handlers(self) -> None:
        """Cancel all that is suspended, and let it have a last turn."""
        self._cancel(None)
        for _ in range(_TURNS):
            await asyncio.sleep(0)
        if self.loop.handoffs:
            # Those on other threads have some real time: what blocks there cannot be waited for.
            with suppress(TimeoutError):
                async with asyncio.timeout(_LAST_CHANCE):
                    await self.poller.handed_back()

    def _cancel(self, kinds: tuple[int, ...] | None) -> None:
        for cell in list(self.loop.table):
            record = cell.record
            if cell.task is None or not isinstance(record, ActorRecord):
                continue
            if kinds is None or cell.task.kind in kinds:
                self.life.note_forced(cell)
                cancel_handler(self.life, cell, record.ensure_extras())

    def force_all(self, late: bool) -> None:
        """End all remaining actors, children first, without running hooks; `late` if they have had their time."""
        for cell in _bottom_up(self.life.top.records()):
            record = cell.record
            if not isinstance(record, ActorRecord):
                continue
            if late and record.state > 0:
                self.life.note_forced(cell)
            if cell.task is not None:
                record.ensure_extras().abandoned = True
                self.loop.visits.abandon(cell)
            cell.close()
            if type(cell.ref) is Alias:
                record.args[0].give_up()
            drain(cell, record.extras, "stopped")
            self.life.finish(cell, record, KILLED if record.state > 0 else SHUTDOWN)

    def report_holder(self, told: str, *rest: object) -> None:
        """Log what holds the loop's thread and cannot be interrupted. From any thread."""
        hand, _ = self.loop.visits.peek_hand()
        if hand is None:
            _log.error(told, self.system.name, "asyncio", *rest)
        else:
            self.life.note_forced(hand)
            _log.error(told, self.system.name, hand.name(), *rest, extra=self.life.log_fields(hand))

    def stop_loop(self) -> None:
        """Give asyncio its thread back; what comes from now on is a dead letter."""
        self.poller.detach()
        self.loop.close()

    def force_and_stop(self, late: bool) -> bool:
        """The last two steps of a loop on another thread; True when they have been taken."""
        self.force_all(late)
        self.stop_loop()
        return True


def _bottom_up(records: list[ActorRecord]) -> list[Cell]:
    found = []
    waiting = list(records)
    while waiting:
        record = waiting.pop()
        found.append(record.cell)
        if record.child_list is not None:
            waiting.extend(record.child_list.records())
    return list(reversed(found))


async def _call_and_await(action: Callable[[], Any]) -> Any:
    result = action()
    return await result if asyncio.iscoroutine(result) else result


class LoopThread(SystemLoop):
    """A further loop, on a thread of its own with asyncio, or uvloop where that is installed."""

    def __init__(
        self, system: ActorSystem, number: int, blocks: SlotBlocks, core: int | None = None, label: str | None = None
    ) -> None:
        self.is_dispatchers = label is not None
        self.core = core
        life = Lifecycle(system, system._life.top.names)
        home = system._loop
        loop = Loop(home.limits, home.clock, life, home.hooks, home.admission.propagation, blocks)
        life.serve(loop)
        life.poller = Poller(loop)
        life.poller.is_timeline = False
        super().__init__(system, life, life.poller, f"loop {number}" if label is None else label)
        self.thread: threading.Thread | None = None
        # Set on its thread when nothing is left to do there.
        self._over: asyncio.Event | None = None

    # -- its thread

    def start(self) -> None:
        """Start the thread, and return when the loop runs on it."""
        self.thread = start_thread(self.name, self.name, self._main)

    async def _main(self, ready: ThreadFuture[None]) -> None:
        if self.core is not None:
            keep_on_core(self.name, self.core)
        self.begin()
        ready.set_result(None)
        await self.wait()
        if not self.loop.closed:  # the system could not start, and may try again
            self.poller.detach()

    def begin(self) -> None:
        """Run on this thread from now on, in the running asyncio loop."""
        self.aio = asyncio.get_running_loop()
        self._over = asyncio.Event()
        self.poller.attach()

    async def wait(self) -> None:
        """Return when the system does not need the thread any more. In the asyncio loop that `begin` was called in."""
        assert self._over is not None
        await self._over.wait()

    def release(self) -> None:
        """End the thread, once its loop has stopped. From any thread."""
        if self.aio is not None and self._over is not None:
            with suppress(RuntimeError):  # it has ended already
                self.aio.call_soon_threadsafe(self._over.set)

    async def end_tasks(self) -> None:
        """End what is left of asyncio's tasks, once the loop has stopped: a thread that ends does that by itself."""


class CallingThread(LoopThread):
    """A further loop on the thread that calls `play()`: the main one, which a GUI or signals may need.

    That thread calls `begin` and `wait`.
    """

    def start(self) -> None:
        if self.aio is None:
            raise NotStarted(self.system.name, "a pod of the calling thread")

    def undo(self) -> None:
        """The system could not start: be as before `begin`."""
        self.poller.detach()
        self.aio = self._over = None
