"""Worker threads that many actors share.

Each takes the next piece of work whose turn it is, whoever's that is; as an actor has only one under way at a time, it
is never on two threads at once.

**Threads that are no help.** One that does not come back, because the handler it runs does not, is given up, and
another takes its place; when it does come back it ends. While one only waits for an answer (`ask_sync`) there may be
one more: or the actor asked could wait for a thread, and that for the answer.

Threads are daemons: a handler that never returns must not keep the process from ending.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from inspect import CO_COROUTINE
from queue import SimpleQueue
from typing import Any

from greenroom._core.handoff.handoff import Handoff
from greenroom.actor.offload.executor import Executor

__all__ = ["ThreadPool"]


class ThreadPool(Executor):
    """A place for any number of actors. Every field below `_lock` is written under it."""

    def __init__(self, dispatcher: str, system: str, threads: int) -> None:
        super().__init__(dispatcher)
        self._system = system
        self._most = threads
        self._todo: SimpleQueue[Handoff | None] = SimpleQueue()
        self._lock = threading.Lock()
        # Invariant: threads that have been started and are to serve on; the rest have been given up, or have ended
        self._threads: dict[threading.Thread, None] = {}
        self._given_up: list[threading.Thread] = []
        self._made = 0
        # Invariant: how many threads wait for work, less how many pieces of work wait for a thread
        self._idle = 0
        # How many of the threads only wait for an answer.
        self._waiting = 0

    def others_wait(self) -> bool:
        """Whether somebody else's work waits for a thread."""
        return not self._todo.empty()

    def is_backed_up(self) -> bool:
        """Whether some work waits for a thread, and none is free."""
        return self._idle < 0

    @property
    def threads(self) -> int:
        """How many there are at present: they are started when they are needed."""
        return len(self._threads)

    def executor(self, spec: object) -> ThreadPool:
        """The place of one more actor: it is the same for all."""
        return self

    def runs_on_loop(self, function: Callable[..., Any]) -> bool:
        """An `async def` awaits instead of blocking: the loop's own thread runs it."""
        code = getattr(function, "__code__", None)
        return code is not None and bool(code.co_flags & CO_COROUTINE)

    def do(self, handoff: Handoff) -> None:
        """Have it carried out by the next thread that is free."""
        with self._lock:
            self._idle -= 1
            try:
                self._start_if_short()
            except RuntimeError:
                if not self._threads:  # else one of those that are there will do it, a little later
                    self._idle += 1
                    raise
        self._todo.put(handoff)

    def _start_if_short(self) -> None:
        """Start another thread, if there is more work than there are threads for it. Under the lock."""
        if self._idle >= 0 or len(self._threads) >= self._most + self._waiting:
            return
        name = f"{self._system} {self.dispatcher} {self._made + 1}"
        thread = threading.Thread(target=self._serve, name=name, daemon=True)
        thread.start()
        self._made += 1
        self._threads[thread] = None

    def _serve(self) -> None:
        me = threading.current_thread()
        stays = self._is_needed(me)

        def look() -> None:
            nonlocal stays
            stays = self._is_needed(me)

        while stays:
            handoff = self._todo.get()
            if handoff is None:
                return
            handoff.on_abandoned(lambda: self._give_up(me))
            handoff.on_wait = self._note_waiting
            handoff.run(look)
            del handoff

    def _is_needed(self, me: threading.Thread) -> bool:
        """Whether this thread is to wait for more: it has not been given up, and was not one for those that waited."""
        with self._lock:
            if me in self._given_up:
                self._given_up.remove(me)
                return False
            if me in self._threads and len(self._threads) > self._most + self._waiting:
                del self._threads[me]
                return False
            self._idle += 1
            return True

    def _give_up(self, thread: threading.Thread) -> None:
        """A thread does not come back in time: another takes its place, when it is needed."""
        with self._lock:
            if self._threads.pop(thread, self) is None:
                self._given_up.append(thread)
                self._start_if_short()

    def _note_waiting(self, begins: bool) -> None:
        """A thread begins, or ends, to wait for an answer."""
        with self._lock:
            self._waiting += 1 if begins else -1
            if begins:
                self._start_if_short()

    def close(self) -> list[threading.Thread]:
        """Let the threads end, when they have done what they do; those that are still to be waited for."""
        with self._lock:
            threads = [*self._threads, *self._given_up]
            for _ in self._threads:
                self._todo.put(None)
            self._threads.clear()
        return threads
