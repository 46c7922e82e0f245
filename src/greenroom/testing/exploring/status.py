"""A status line on a terminal: shows progress, and is erased at the end."""

from __future__ import annotations

import shutil
import time
from typing import TextIO

__all__ = ["StatusLine"]

_REDRAW_INTERVAL = 0.1
_CLEAR_LINE = "\r\x1b[K"


class StatusLine:
    """Shows texts in one line, at most ten per second; shows nothing if the output is no terminal."""

    def __init__(self, output: TextIO | None) -> None:
        self._output = output if output is not None and output.isatty() else None
        self._shown_at = float("-inf")

    def show(self, text: str) -> None:
        """Replace the line by `text`."""
        now = time.monotonic()
        if self._output is None or now - self._shown_at < _REDRAW_INTERVAL:
            return
        self._shown_at = now
        self._output.write(_CLEAR_LINE + text[: shutil.get_terminal_size().columns - 1])
        self._output.flush()

    def clear(self) -> None:
        """Erase the line."""
        if self._output is not None:
            self._output.write(_CLEAR_LINE)
            self._output.flush()
