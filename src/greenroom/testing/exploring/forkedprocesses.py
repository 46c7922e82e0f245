"""Forked processes, for programs that may block for ever or exit.

Forking needs no pickling, so a program may be any function. The processes end when this process ends, however that
happens. They ignore Ctrl-C, which this process handles.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from types import TracebackType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from multiprocessing.context import ForkContext, ForkProcess

__all__ = ["ForkedProcesses", "can_fork"]


def can_fork() -> bool:
    """Whether this process can fork. Daemonic processes may not have children."""
    return hasattr(os, "fork") and not multiprocessing.current_process().daemon


class ForkedProcesses:
    """Forks `size` processes that each call `work(number)`, and ends them when the `with` block is left."""

    def __init__(self, work: Callable[[int], None], size: int) -> None:
        self._work = work
        # Nothing is ever written to this pipe: a child reads EOF when this process is gone.
        self._read_end, self._write_end = self._open_fds = [*os.pipe()]
        self.processes: list[ForkProcess] = []
        try:
            with warnings.catch_warnings():
                # Python warns of forking with threads. Those of a test runner hold no lock that a child needs.
                warnings.simplefilter("ignore", DeprecationWarning)
                for number in range(size):
                    process = self.context().Process(target=self._run, args=(number,), daemon=True)
                    with _interrupts_blocked():
                        process.start()
                        self.processes.append(process)
        except BaseException:
            self.end()
            raise

    @staticmethod
    def context() -> ForkContext:
        """The multiprocessing context for forked processes and what they share."""
        return multiprocessing.get_context("fork")

    @classmethod
    def pipe(cls) -> tuple[Connection, Connection]:
        """A two-way pipe, with one end for a child."""
        return cls.context().Pipe()

    def __enter__(self) -> list[ForkProcess]:
        return self.processes

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.end()

    def end(self) -> None:
        """Kill all processes and wait for them."""
        while self.processes:
            process = self.processes[-1]
            if process.is_alive():
                process.kill()
            process.join()
            process.close()
            self.processes.pop()
        while self._open_fds:
            os.close(self._open_fds.pop())

    def _run(self, number: int) -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles Ctrl-C, and ends us
        signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGINT,))
        os.close(self._write_end)
        threading.Thread(target=_exit_with_parent, args=(self._read_end,), daemon=True).start()
        gc.freeze()
        self._work(number)


@contextmanager
def _interrupts_blocked() -> Iterator[None]:
    """Block Ctrl-C: in the middle of a fork, the new process could be lost, or the interrupt."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT,))
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _exit_with_parent(read_end: int) -> None:
    """Exit when the parent process has ended, even if a handler blocks the main thread."""
    os.read(read_end, 1)
    os._exit(1)
