"""Say on standard error what is being measured: a bar on a terminal, a line per row elsewhere."""

from __future__ import annotations

import shutil
import sys
import time
from typing import TextIO

from benchmarks.model import Program, Row

BAR = 24


class Progress:
    """Told of every turn; shows how far the run has come."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = sys.stderr if stream is None else stream
        self._is_terminal = self._stream.isatty()
        self._total = 0
        self._done = 0
        self._started = time.monotonic()

    def begin(self, total: int) -> None:
        """``total`` turns are to come."""
        self._total = total
        self._started = time.monotonic()

    def row(self, row: Row) -> None:
        """The turns of ``row`` are next."""
        if not self._is_terminal:
            print(f"measuring {row.id}: {row.work}", file=self._stream, flush=True)

    def turn(self, row: Row, program: Program, number: int) -> None:
        """``program`` takes its turn in round ``number``."""
        if self._is_terminal:
            filled = BAR * self._done // max(self._total, 1)
            bar = "#" * filled + "." * (BAR - filled)
            self._redraw(f"[{bar}] {row.id} {row.work}: {program.name}, round {number}")
        self._done += 1

    def end(self) -> None:
        """The run is over, well or badly."""
        seconds = time.monotonic() - self._started
        if self._is_terminal:
            self._redraw("")
        print(f"measured in {seconds:.0f} s", file=self._stream, flush=True)

    def _redraw(self, text: str) -> None:
        width = shutil.get_terminal_size().columns - 1
        self._stream.write(f"\r\x1b[K{text[:width]}")
        self._stream.flush()
