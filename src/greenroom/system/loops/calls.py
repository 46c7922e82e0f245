"""Blocking calls to the thread of another loop, without deadlock when two loops call each other.

A thread that waits here serves the calls to its own loop meanwhile. So a handler may look at the whole system, or spawn
on another loop, while a handler of that loop does the same.
"""

from __future__ import annotations

from _thread import get_ident
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future as ThreadFuture
from threading import Event
from time import monotonic
from typing import TYPE_CHECKING, Any, TypeVar

from greenroom.system.eventloop import LoopTimeout

if TYPE_CHECKING:
    from greenroom._core.scheduler.loop import Loop

__all__ = ["LoopCalls"]

T = TypeVar("T")


class LoopCalls:
    """Calls from other threads to the thread of one loop."""

    __slots__ = ("_bell", "_jobs", "loop")

    def __init__(self, loop: Loop) -> None:
        self.loop = loop
        self._jobs: deque[Callable[[], object]] = deque()
        # Rung for whoever waits on the loop's thread: for a job that is done, or that has come.
        self._bell = Event()

    def is_here(self) -> bool:
        """Whether this is the loop's own thread."""
        here: bool = get_ident() == self.loop.runq.thread
        return here

    def call(self, action: Callable[[], T], own: LoopCalls | None, timeout: float) -> T:
        """Have `action` called on the loop's thread; `own` are the calls to this thread, if it is a loop's.

        Raises `LoopTimeout` when it has not been called in time.
        """
        self.loop.inbound.refuse_simulated(None)
        done: ThreadFuture[T] = ThreadFuture()

        def act() -> None:
            if done.set_running_or_notify_cancel():
                try:
                    done.set_result(action())
                except BaseException as exc:
                    done.set_exception(exc)

        self._jobs.append(act)
        if not self.loop.inbound.bring(None, self.serve):
            return action()  # it has stopped: nobody else touches what it has
        self._bell.set()
        if own is not None:
            own._wait(done, timeout)
        try:
            return done.result(0.0 if own is not None else timeout)
        except TimeoutError:
            if done.cancel():
                raise LoopTimeout from None
            return done.result()  # it has begun after all; or the action itself raised this

    def serve(self) -> None:
        """Do what has been asked for. On the loop's own thread."""
        while self._jobs:
            self._jobs.popleft()()

    def _wait(self, done: ThreadFuture[Any], timeout: float) -> None:
        done.add_done_callback(lambda _: self._bell.set())
        until = monotonic() + timeout
        while not done.done() and (left := until - monotonic()) > 0.0:
            self._bell.wait(left)
            self._bell.clear()
            self.serve()
