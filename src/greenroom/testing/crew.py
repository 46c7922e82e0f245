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
import time
import warnings
from collections.abc import Sequence
from typing import Any, TextIO

from greenroom.testing.trial import Trial

__all__ = ["Crew"]

_AT_ONCE = 8
"""Seeds tried before anybody is forked: most failures show at once."""
_GLANCE = 0.1
_BAR = 24


class WorkerLost(RuntimeError):
    """A worker ended by itself in the middle of a run: a crash of the interpreter, or `os._exit`."""


class Crew:
    """Runs a trial at each of `seeds`. `done` is how many have been run."""

    def __init__(
        self, trial: Trial, seeds: Sequence[int], workers: int | None, patience: float, output: TextIO | None
    ) -> None:
        self._trial = trial
        self._seeds = seeds
        self._workers = min(os.cpu_count() or 1 if workers is None else workers, max(1, len(seeds) - _AT_ONCE))
        self._patience = patience
        self._output = output
        self._began = time.monotonic()
        self.done = 0

    def work(self) -> tuple[int, BaseException] | None:
        """The lowest seed that fails, and how; None if none does."""
        alone = len(self._seeds) if self._workers == 1 or not hasattr(os, "fork") else _AT_ONCE
        try:
            found = self._work_alone(self._seeds[:alone])
            if found is not None or alone >= len(self._seeds):
                return found
            return self._share(self._seeds[alone:])
        finally:
            self._clear_bar()

    def _work_alone(self, seeds: Sequence[int]) -> tuple[int, BaseException] | None:
        for seed in seeds:
            error = self._trial.error_of(self._trial.simulation(seed, 0))
            self.done += 1
            if error is not None:
                return seed, error
            if self.done % 64 == 0:
                self._draw_bar(self.done)
        return None

    def _share(self, seeds: Sequence[int]) -> tuple[int, BaseException] | None:
        context: Any = multiprocessing.get_context("fork")
        # By position: the lowest that failed, how many each worker has run, and which it is at.
        lowest = context.Value("q", len(seeds))
        counts = context.Array("q", self._workers, lock=False)
        before = self.done
        with warnings.catch_warnings():
            # The other threads of this process, a test runner's say, hold nothing that a worker needs.
            warnings.simplefilter("ignore", DeprecationWarning)
            crew = [
                context.Process(
                    target=self._work_in_turn, args=(seeds, number, lowest, counts), daemon=True, name=f"seeds-{number}"
                )
                for number in range(self._workers)
            ]
            for worker in crew:
                worker.start()
        try:
            lost = self._wait(crew, counts, lowest, before)
        finally:
            for worker in crew:
                if worker.is_alive():
                    worker.kill()
                worker.join()
        self.done = before + sum(counts)
        failed = lowest.value
        if lost is not None and lost[0] <= failed:
            return seeds[lost[0]], lost[1]
        if failed == len(seeds):
            return None
        return seeds[failed], RuntimeError(
            f"seed {seeds[failed]} failed in a worker and not again: the program keeps something between its runs"
            " (a module's variable, say); make that afresh inside `program`"
        )

    def _work_in_turn(self, seeds: Sequence[int], number: int, lowest: Any, counts: Any) -> None:
        """What a worker does: every so-manieth seed, as long as none below has failed."""
        gc.freeze()
        position = number
        while position < lowest.value:
            error = self._trial.error_of(self._trial.simulation(seeds[position], 0))
            if error is not None:
                with lowest.get_lock():
                    lowest.value = min(lowest.value, position)
            counts[number] += 1
            position += self._workers

    def _wait(self, crew: list[Any], counts: Any, lowest: Any, before: int) -> tuple[int, BaseException] | None:
        """Wait until all have ended; the position at which one was lost or came to no end, and why."""
        last = [(0, time.monotonic())] * len(crew)
        while any(worker.is_alive() for worker in crew):
            for number, worker in enumerate(crew):
                worker.join(_GLANCE / len(crew))
                if counts[number] != last[number][0]:
                    last[number] = (counts[number], time.monotonic())
                elif worker.is_alive() and time.monotonic() - last[number][1] > self._patience:
                    return self._position(number, counts), TimeoutError(
                        f"the run did not end within {self._patience:g} s of real time: a handler holds the thread"
                    )
            self._draw_bar(before + sum(counts))
        for number, worker in enumerate(crew):
            if worker.exitcode != 0:
                code = worker.exitcode
                return self._position(number, counts), WorkerLost(f"the process ended in the middle of a run ({code})")
        return None

    def _position(self, number: int, counts: Any) -> int:
        at: int = number + counts[number] * self._workers
        return at

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
