"""Worker threads that many actors share.

Each takes the next piece of work whose turn it is, whoever's that is; as an actor has only one under way at a time, it
is never on two threads at once. A thread that does not come back, because the handler it runs does not, is replaced:
the others must not have to wait for it. When it does come back it ends.

Threads are daemons: a handler that never returns must not keep the process from ending.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from inspect import CO_COROUTINE
from queue import SimpleQueue
from typing import Any

from greenroom._core.errands import Work
from greenroom.actor.places import Place

__all__ = ["Pool"]


class Pool(Place):
    """A place for any number of actors. Everything but `_serve` belongs to the loop's own thread."""

    def __init__(self, dispatcher: str, system: str, threads: int) -> None:
        super().__init__(dispatcher)
        self._system = system
        self._most = threads
        self._waiting: SimpleQueue[Work | None] = SimpleQueue()
        # Invariant: threads that have been started and are to serve on; the rest have been given up
        self._threads: dict[threading.Thread, None] = {}
        self._made = 0
        # Invariant: written under _lock; how many threads wait for work, less how many have been promised some
        self._idle = 0
        self._lock = threading.Lock()

    def others_wait(self) -> bool:
        """Whether somebody else's work waits for a thread."""
        return not self._waiting.empty()

    @property
    def threads(self) -> int:
        """How many there are at present: they are started when they are needed."""
        return len(self._threads)

    def do(self, work: Work) -> None:
        """Have it carried out by the next thread that is free."""
        with self._lock:
            self._idle -= 1
            short = self._idle < 0
        if short and len(self._threads) < self._most:
            self._start_thread()
        self._waiting.put(work)

    def leaves_at_home(self, function: Callable[..., Any]) -> bool:
        """An `async def` awaits instead of blocking: the loop's own thread runs it."""
        code = getattr(function, "__code__", None)
        return code is not None and bool(code.co_flags & CO_COROUTINE)

    def _start_thread(self) -> None:
        self._made += 1
        name = f"{self._system} {self.dispatcher} {self._made}"
        thread = threading.Thread(target=self._serve, name=name, daemon=True)
        self._threads[thread] = None
        thread.start()

    def _serve(self) -> None:
        me = threading.current_thread()
        while True:
            with self._lock:
                self._idle += 1
            work = self._waiting.get()
            if work is None:
                return
            work.on_cut(lambda: self._give_up(me))
            work.run()
            del work
            if me not in self._threads:
                return

    def _give_up(self, thread: threading.Thread) -> None:
        """A thread does not come back in time: another takes its place, when it is needed."""
        self._threads.pop(thread, None)
        if self._idle < 0:
            self._start_thread()

    def place(self) -> Pool:
        """The place of one more actor: it is the same for all."""
        return self

    def close(self) -> list[threading.Thread]:
        """Let the threads end, when they have done what they do; those that are still to be waited for."""
        threads = list(self._threads)
        self._threads.clear()
        for _ in threads:
            self._waiting.put(None)
        return threads
