"""Runs many seeds on all cores, in forked processes.

Worker i of n takes the seeds at positions i, i + n, i + 2n and so on. The workers share the lowest position that failed
and try every seed below it. So the seed that is found does not depend on which worker is faster. Where processes cannot
be forked, this process runs all seeds. Forking needs no pickling, so a program may be any function.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import shutil
import signal
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, TextIO

from greenroom.testing.simulatedprogram import SimulatedProgram

if TYPE_CHECKING:
    from ctypes import Array, c_byte, c_longlong
    from multiprocessing.context import ForkProcess

_POLL_INTERVAL = 0.1
_BAR_WIDTH = 24
_REDRAW_INTERVAL = 0.1
_CLEAR_LINE = "\r\x1b[K"


class WorkerLost(RuntimeError):
    """A worker process exited in the middle of a run: the interpreter crashed, or the program called `os._exit`."""


class RunHung(TimeoutError):
    """A run did not end in time: a handler blocks the thread."""


class NotRepeated(RuntimeError):
    """A run failed in a worker, but not when it was repeated. `by_interrupt`: it had raised KeyboardInterrupt."""

    def __init__(self, seed: int, by_interrupt: bool) -> None:
        super().__init__(
            f"seed {seed} failed in a worker and not again: the program depends on more than the seed, on what it keeps"
            " between its runs (a module's variable, say; make that afresh inside `program`) or on the order of a set"
        )
        self.by_interrupt = by_interrupt


class WorkerPool:
    """Runs a program at each of `seeds`. `done` counts the finished runs."""

    def __init__(
        self,
        simulated: SimulatedProgram,
        seeds: Sequence[int],
        workers: int | None,
        patience: float,
        output: TextIO | None,
    ) -> None:
        self._simulated = simulated
        self._seeds = seeds
        self._workers = min(os.cpu_count() or 1 if workers is None else workers, len(seeds))
        self._patience = patience
        self._status = StatusLine(output)
        self._began = time.monotonic()
        self.done = 0

    def run(self) -> tuple[int, BaseException] | None:
        """Run the seeds. Return the lowest seed that fails and its error, or None."""
        try:
            return self._run_in_workers() if self._workers and can_fork() else self._run_alone()
        finally:
            self._status.clear()

    def _run_alone(self) -> tuple[int, BaseException] | None:
        for seed in self._seeds:
            error = self._simulated.run_in(self._simulated.simulation(seed, 0))
            self.done += 1
            if error is not None:
                return seed, error
            self._show_progress(self.done)
        return None

    def _run_in_workers(self) -> tuple[int, BaseException] | None:
        seeds = self._seeds
        # Per worker: how many seeds it has run, the position at which it failed, and whether Ctrl-C was raised there.
        # Each worker writes only its own slots, so no lock is needed; a worker that is killed would never release one.
        # The last slot of `_failed` is written by this process, for workers that hang or exit.
        forking = multiprocessing.get_context("fork")
        self._counts: Array[c_longlong] = forking.RawArray("q", self._workers)
        self._failed: Array[c_longlong] = forking.RawArray("q", [len(seeds)] * (self._workers + 1))
        self._interrupted: Array[c_byte] = forking.RawArray("b", self._workers)
        with closing(ForkedProcesses(self._run_in_worker, self._workers)) as forked:
            lost = self._wait(forked.processes)
        self.done = sum(self._counts)
        lowest = min(self._failed)
        if lowest == len(seeds):
            return None
        by_interrupt = bool(self._interrupted[lowest % self._workers])
        return seeds[lowest], lost.get(lowest) or NotRepeated(seeds[lowest], by_interrupt)

    def _run_in_worker(self, number: int) -> None:
        """In a worker: run every n-th seed, as long as no lower seed has failed."""
        position = number
        while position < min(self._failed):
            try:
                is_well = self._simulated.run_in(self._simulated.simulation(self._seeds[position], 0)) is None
            except BaseException as exc:  # the program raised KeyboardInterrupt or SystemExit
                is_well = False
                self._interrupted[number] = isinstance(exc, KeyboardInterrupt)
            if not is_well:
                self._failed[number] = position
            self._counts[number] += 1
            position += self._workers

    def _wait(self, processes: list[ForkProcess]) -> dict[int, BaseException]:
        """Wait for all workers. Return the positions at which one exited or hung, with the error for each."""
        counts, failed = self._counts, self._failed
        lost: dict[int, BaseException] = {}
        waiting = dict(enumerate(processes))
        last = [(0, time.monotonic())] * len(processes)
        while waiting:
            for number, worker in list(waiting.items()):
                worker.join(_POLL_INTERVAL / len(waiting))
                is_alive = worker.is_alive()
                at = number + counts[number] * self._workers
                if not is_alive:
                    del waiting[number]
                    if at < min(failed):
                        lost[at] = WorkerLost(f"the process ended in the middle of a run, with {worker.exitcode}")
                        failed[-1] = at
                elif at > min(failed):
                    # A lower seed has failed, so the result of this run does not matter.
                    del waiting[number]
                    worker.kill()
                elif counts[number] != last[number][0]:
                    last[number] = (counts[number], time.monotonic())
                elif time.monotonic() - last[number][1] > self._patience:
                    del waiting[number]
                    worker.kill()
                    lost[at] = RunHung(
                        f"the run did not end within {self._patience:g} s of real time: a handler holds the thread"
                    )
                    failed[-1] = min(at, failed[-1])
            self._show_progress(sum(counts))
        return lost

    def _show_progress(self, done: int) -> None:
        seconds = max(time.monotonic() - self._began, 1e-9)
        filled = _BAR_WIDTH * done // len(self._seeds)
        bar = f"[{'#' * filled}{'.' * (_BAR_WIDTH - filled)}]"
        self._status.show(f"{bar} {done}/{len(self._seeds)} seeds, {done / seconds:.0f}/s")


def can_fork() -> bool:
    """Whether this process can fork. Daemonic processes may not have children."""
    return hasattr(os, "fork") and not multiprocessing.current_process().daemon


class ForkedProcesses:
    """Forks `size` processes that each call `work(number)`, and end with this process at the latest."""

    def __init__(self, work: Callable[[int], None], size: int) -> None:
        self.processes: list[ForkProcess] = []
        try:
            with warnings.catch_warnings():
                # Python warns of forking with threads. Those of a test runner hold no lock that a child needs.
                warnings.simplefilter("ignore", DeprecationWarning)
                for number in range(size):
                    process = multiprocessing.get_context("fork").Process(target=_run, args=(work, number), daemon=True)
                    with _interrupts_blocked():
                        process.start()
                        self.processes.append(process)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        while self.processes:
            process = self.processes[-1]
            if process.is_alive():
                process.kill()
            process.join()
            process.close()
            self.processes.pop()


def _run(work: Callable[[int], None], number: int) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles Ctrl-C, and ends us
    signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGINT,))
    threading.Thread(target=_exit_with_parent, daemon=True).start()
    gc.freeze()
    work(number)


@contextmanager
def _interrupts_blocked() -> Iterator[None]:
    """Block Ctrl-C: in the middle of a fork, the new process could be lost, or the interrupt."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT,))
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _exit_with_parent() -> None:
    """Exit when the parent process has ended, even if a handler blocks the main thread."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


class StatusLine:
    """Shows texts in one line, at most ten per second; shows nothing if the output is no terminal."""

    def __init__(self, output: TextIO | None) -> None:
        self._output = output if output is not None and output.isatty() else None
        self._shown_at = float("-inf")

    def show(self, text: str) -> None:
        now = time.monotonic()
        if self._output is None or now - self._shown_at < _REDRAW_INTERVAL:
            return
        self._shown_at = now
        self._output.write(_CLEAR_LINE + text[: shutil.get_terminal_size().columns - 1])
        self._output.flush()

    def clear(self) -> None:
        if self._output is not None:
            self._output.write(_CLEAR_LINE)
            self._output.flush()
