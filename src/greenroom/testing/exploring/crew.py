"""Many seeds on all cores.

The seeds are dealt out in turn, and the number of the lowest that failed is shared, so every seed below it is tried and
the one that is found does not depend on who was faster. Workers are forked: a program may be any function. Where there
is no fork, this process does it all.
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
from collections.abc import Sequence
from typing import Any, TextIO

from greenroom.testing.exploring.trial import Trial

__all__ = ["Crew", "NotRepeated", "RunHung", "WorkerLost"]

_GLANCE = 0.1
_BAR = 24


class WorkerLost(RuntimeError):
    """A worker ended by itself in the middle of a run: a crash of the interpreter, or `os._exit`."""


class RunHung(TimeoutError):
    """A run came to no end: a handler holds the thread."""


class NotRepeated(RuntimeError):
    """A run failed in a worker, and not again."""


class Crew:
    """Runs a trial at each of `seeds`. `done` is how many have been run."""

    def __init__(
        self, trial: Trial, seeds: Sequence[int], workers: int | None, patience: float, output: TextIO | None
    ) -> None:
        self._trial = trial
        self._seeds = seeds
        self._workers = min(os.cpu_count() or 1 if workers is None else workers, len(seeds))
        self._patience = patience
        self._output = output
        self._began = time.monotonic()
        self.done = 0

    def work(self) -> tuple[int, BaseException] | None:
        """The lowest seed that fails, and how; None if none does."""
        try:
            # A daemon may have no children: it does it all itself.
            if self._workers == 0 or not hasattr(os, "fork") or multiprocessing.current_process().daemon:
                return self._work_alone()
            return self._share()
        finally:
            self._clear_bar()

    def _work_alone(self) -> tuple[int, BaseException] | None:
        for seed in self._seeds:
            error = self._trial.error_of(self._trial.simulation(seed, 0))
            self.done += 1
            if error is not None:
                return seed, error
            if self.done % 64 == 0:
                self._draw_bar(self.done)
        return None

    def _share(self) -> tuple[int, BaseException] | None:
        seeds = self._seeds
        context: Any = multiprocessing.get_context("fork")
        # By position: the lowest that failed, and how many each worker has run.
        lowest = context.Value("q", len(seeds))
        counts = context.Array("q", self._workers, lock=False)
        # Nothing is ever written: whoever reads it learns that this process is gone, however that happened.
        alive, held = os.pipe()
        with warnings.catch_warnings():
            # The other threads of this process, a test runner's say, hold nothing that a worker needs.
            warnings.simplefilter("ignore", DeprecationWarning)
            crew = [
                context.Process(target=self._work_in_turn, args=(number, lowest, counts, alive, held), daemon=True)
                for number in range(self._workers)
            ]
            for worker in crew:
                worker.start()
        try:
            lost = self._wait(crew, counts, lowest)
        finally:
            for worker in crew:
                if worker.is_alive():
                    worker.kill()
                worker.join()
                worker.close()
            os.close(alive)
            os.close(held)
        self.done = sum(counts)
        failed = lowest.value
        if failed == len(seeds):
            return None
        return seeds[failed], lost.get(failed) or NotRepeated(
            f"seed {seeds[failed]} failed in a worker and not again: the program depends on more than the seed, on what"
            " it keeps between its runs (a module's variable, say; make that afresh inside `program`) or on the order"
            " of a set"
        )

    def _work_in_turn(self, number: int, lowest: Any, counts: Any, alive: int, held: int) -> None:
        """What a worker does: every so-manieth seed, as long as none below has failed."""
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever presses Ctrl-C ends the crew
        os.close(held)
        threading.Thread(target=_end_with, args=(alive,), daemon=True).start()
        gc.freeze()
        position = number
        while position < lowest.value:
            try:
                failed = self._trial.error_of(self._trial.simulation(self._seeds[position], 0)) is not None
            except BaseException:  # the program's own Ctrl-C, or its wish to exit
                failed = True
            if failed:
                _lower(lowest, position)
            counts[number] += 1
            position += self._workers

    def _wait(self, crew: list[Any], counts: Any, lowest: Any) -> dict[int, BaseException]:
        """Wait until all have ended; the positions at which one was lost or came to no end, and why."""
        lost: dict[int, BaseException] = {}
        waiting = dict(enumerate(crew))
        last = [(0, time.monotonic())] * len(crew)
        while waiting:
            for number, worker in list(waiting.items()):
                worker.join(_GLANCE / len(waiting))
                at = number + counts[number] * self._workers
                if not worker.is_alive():
                    del waiting[number]
                    at = number + counts[number] * self._workers
                    if at < lowest.value:
                        lost[at] = WorkerLost(f"the process ended in the middle of a run, with {worker.exitcode}")
                        _lower(lowest, at)
                elif at > lowest.value:
                    # What it is at can change nothing any more, and may take long.
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
                    _lower(lowest, at)
            self._draw_bar(sum(counts))
        return lost

    def _draw_bar(self, done: int) -> None:
        if self._output is None or not self._output.isatty():
            return
        seconds = max(time.monotonic() - self._began, 1e-9)
        filled = _BAR * done // len(self._seeds)
        text = f"[{'#' * filled}{'.' * (_BAR - filled)}] {done}/{len(self._seeds)} seeds, {done / seconds:.0f}/s"
        self._output.write(f"\r\x1b[K{text[: shutil.get_terminal_size().columns - 1]}")
        self._output.flush()

    def _clear_bar(self) -> None:
        if self._output is not None and self._output.isatty():
            self._output.write("\r\x1b[K")
            self._output.flush()


def _end_with(alive: int) -> None:
    """End this process when that which forked it has ended, even if a handler holds the main thread."""
    os.read(alive, 1)
    os._exit(1)


def _lower(lowest: Any, position: int) -> None:
    with lowest.get_lock():
        lowest.value = min(lowest.value, position)
