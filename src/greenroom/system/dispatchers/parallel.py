"""Worker threads that many actors share.

Each thread takes the next hand-off from one queue. An actor has only one hand-off at a time, so it never runs on two
threads at once.

**Blocked threads.** If a handler does not return in time, its thread is abandoned and may be replaced; it ends when the
handler returns. For each thread that only waits for an answer (`ask_sync`) there may be one more. Otherwise the actor
asked could wait for a thread, and the thread for its answer.

Threads are daemons, so that a handler that never returns does not keep the process alive.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from inspect import CO_COROUTINE
from queue import SimpleQueue

from greenroom._core.handoff.handoff import Handoff
from greenroom.actor.offload.executor import Executor
from greenroom.errors import NoThread


class ThreadPool(Executor):
    """An executor that many actors share. Every field below `_lock` is written under it."""

    def __init__(self, dispatcher: str, system: str, threads: int) -> None:
        super().__init__(dispatcher)
        self._system = system
        self._most = threads
        self._todo: SimpleQueue[Handoff | None] = SimpleQueue()
        self._lock = threading.Lock()
        # Invariant: the threads that serve; others are abandoned, or have ended
        self._threads: dict[threading.Thread, None] = {}
        self._abandoned: list[threading.Thread] = []
        self._made = 0
        # Invariant: how many threads wait for a hand-off, minus how many hand-offs wait for a thread
        self._idle = 0
        # Of those that serve, the ones that only wait: for an answer, or for what their handler says it blocks on.
        self._waiting: dict[threading.Thread, int] = {}

    def others_wait(self) -> bool:
        return not self._todo.empty()

    def is_backed_up(self) -> bool:
        return self._idle < 0

    @property
    def threads(self) -> int:
        """How many threads there are at present; they are started when they are needed."""
        return len(self._threads)

    def executor(self, spec: object, args: tuple[object, ...]) -> ThreadPool:
        return self

    def runs_on_loop(self, function: Callable[..., object]) -> bool:
        """The loop's own thread runs an `async def`, because it awaits instead of blocking."""
        code = getattr(function, "__code__", None)
        return code is not None and bool(code.co_flags & CO_COROUTINE)

    def do(self, handoff: Handoff) -> None:
        with self._lock:
            self._idle -= 1
            try:
                self._start_if_short()
            except RuntimeError as exc:
                if not self._threads:  # else one of the others does it later
                    self._idle += 1
                    raise NoThread(f"{handoff.cell.shown()}, by the dispatcher {self.dispatcher!r}") from exc
        self._todo.put(handoff)

    def _start_if_short(self) -> None:
        if self._idle >= 0 or len(self._threads) >= self._most + len(self._waiting):
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

        def note_waiting(begins: bool) -> None:
            self._note_waiting(me, begins)

        while stays:
            handoff = self._todo.get()
            if handoff is None:
                return
            handoff.on_abandoned(lambda: self._abandon(me))
            handoff.on_wait = note_waiting
            handoff.run(look)
            del handoff

    def _is_needed(self, me: threading.Thread) -> bool:
        """Whether this thread is to wait for another hand-off: it is neither abandoned nor one too many."""
        with self._lock:
            if me in self._abandoned:
                self._abandoned.remove(me)
                return False
            if me in self._threads and len(self._threads) > self._most + len(self._waiting):
                del self._threads[me]
                return False
            self._idle += 1
            return True

    def _abandon(self, thread: threading.Thread) -> None:
        """A handler does not return in time: abandon its thread, and replace it when needed."""
        with self._lock:
            if self._threads.pop(thread, self) is None:
                self._waiting.pop(thread, None)
                self._abandoned.append(thread)
                try:
                    self._start_if_short()
                except RuntimeError as exc:
                    self._lose_if_alone(exc)

    def _lose_if_alone(self, cause: BaseException) -> None:
        """No thread can be started: if there is none, fail the hand-offs that wait. Under the lock."""
        while not self._threads and not self._todo.empty():
            handoff = self._todo.get()
            self._idle += 1
            if handoff is not None:
                error = NoThread(f"{handoff.cell.shown()}, by the dispatcher {self.dispatcher!r}")
                error.__cause__ = cause
                handoff.fail(error)

    def _note_waiting(self, thread: threading.Thread, begins: bool) -> None:
        """A thread begins or ends to wait for an answer, or for what its handler says it blocks on."""
        with self._lock:
            if thread not in self._threads:
                return  # it is abandoned, and has been replaced
            waits = self._waiting.pop(thread, 0) + (1 if begins else -1)
            if waits:
                self._waiting[thread] = waits
            if begins:
                with suppress(RuntimeError):  # there can be no more threads: one of the others does it later
                    self._start_if_short()

    def close(self) -> list[threading.Thread]:
        with self._lock:
            threads = [*self._threads, *self._abandoned]
            for _ in self._threads:
                self._todo.put(None)
            self._threads.clear()
        return threads
