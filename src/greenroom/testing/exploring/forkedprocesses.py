"""Processes forked off this one, that run programs which may hold their thread for ever, or end it all.

They are forked because a program may be any function. They end when this process has, however that happened, and Ctrl-C
is for this one alone.
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
    """Whether there can be others. A daemon may have no children."""
    return hasattr(os, "fork") and not multiprocessing.current_process().daemon


class ForkedProcesses:
    """`size` processes, each of which does `work(number)`; they have ended when the `with` block has."""

    def __init__(self, work: Callable[[int], None], size: int) -> None:
        self._work = work
        # Nothing is ever written: whoever reads it learns that this process is gone.
        self._read_end, self._write_end = self._open_fds = [*os.pipe()]
        self.processes: list[ForkProcess] = []
        try:
            with warnings.catch_warnings():
                # The other threads of this process, a test runner's say, hold nothing that a fork needs.
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
        """What makes the things that forks share."""
        return multiprocessing.get_context("fork")

    @classmethod
    def pipe(cls) -> tuple[Connection, Connection]:
        """Two ends, for a fork and for this process."""
        return cls.context().Pipe()

    def __enter__(self) -> list[ForkProcess]:
        return self.processes

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.end()

    def end(self) -> None:
        """End them all, whatever they are at."""
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
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever presses Ctrl-C ends us all
        signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGINT,))
        os.close(self._write_end)
        threading.Thread(target=_exit_with_parent, args=(self._read_end,), daemon=True).start()
        gc.freeze()
        self._work(number)


@contextmanager
def _interrupts_blocked() -> Iterator[None]:
    """Have Ctrl-C wait: in the middle of a fork, nobody would know of the new process, or hear of the interrupt."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT,))
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _exit_with_parent(read_end: int) -> None:
    """End this process when that which forked it has ended, even if a handler holds the main thread."""
    os.read(read_end, 1)
    os._exit(1)
